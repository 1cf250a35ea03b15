"""Overlap and caps, as a pure decision."""

from __future__ import annotations

from horae.core.gate import Candidate, Facts, Running, Verdicts, admit


def candidate(
    run: str, job: str = "j", overlap: str = "allow", most: int | None = None, tenant: str = "t"
) -> Candidate:
    return Candidate(run, job, tenant, "q", job, overlap, most)


def running(run: str, job: str = "j", tenant: str = "t") -> Running:
    return Running(run, job, tenant, "q", job, is_cancelled=False)


def decide(*candidates: Candidate, busy: tuple[Running, ...] = (), room: int = 10, **facts: object) -> Verdicts:
    oldest: dict[str, str] = {}
    for one in candidates:
        oldest[one.job_id] = min(one.run_id, oldest.get(one.job_id, one.run_id))
    known = {"oldest": oldest, "unstarted": oldest, "caps": {}, "paused": frozenset()} | facts
    return admit(Facts(list(candidates), list(busy), room=room, **known))  # type: ignore[arg-type]


def test_skip_lets_the_first_start_and_skips_the_rest() -> None:
    made = decide(candidate("1", overlap="skip"), candidate("2", overlap="skip"))

    assert (list(made.start), list(made.skip)) == (["1"], ["2"])


def test_skip_also_looks_at_an_earlier_run_that_waits_for_a_retry() -> None:
    made = decide(candidate("2", overlap="skip"), oldest={"j": "1"})

    assert list(made.skip) == ["2"]


def test_queue_waits_for_the_running_one() -> None:
    made = decide(candidate("2", overlap="queue"), busy=(running("1"),))

    assert made.wait == {"2": "job_concurrency"}


def test_queue_keeps_the_order_even_when_the_earlier_one_is_not_due() -> None:
    made = decide(candidate("2", overlap="queue"), oldest={"j": "1"})

    assert made.wait == {"2": "job_concurrency"}


def test_replace_stops_the_running_one_and_waits_for_its_end() -> None:
    made = decide(candidate("2", overlap="replace"), busy=(running("1"),))

    assert (made.stop, made.wait, made.supersede) == (["1"], {"2": "job_concurrency"}, {"j": "2"})


def test_replace_starts_only_the_newest() -> None:
    made = decide(candidate("1", overlap="replace"), candidate("2", overlap="replace"))

    assert (list(made.start), made.supersede) == (["2"], {"j": "2"})


def test_a_cap_counts_what_starts_in_the_same_round() -> None:
    made = decide(*(candidate(str(n), most=3) for n in range(5)), busy=(running("r"),))

    assert list(made.start) == ["0", "1"]
    assert set(made.wait.values()) == {"job_concurrency"}


def test_caps_of_tenant_and_queue() -> None:
    jobs = [candidate(str(n), job=f"j{n}") for n in range(4)]

    assert len(decide(*jobs, caps={("t", ""): 2}).start) == 2
    assert set(decide(*jobs, caps={("t", "q"): 1}).wait.values()) == {"slots_full"}


def test_paused_queues_and_tenants_start_nothing() -> None:
    assert decide(candidate("1"), paused=frozenset({("t", "q")})).wait == {"1": "queue_paused"}
    assert decide(candidate("1"), paused=frozenset({("t", "")})).wait == {"1": "tenant_paused"}


def test_no_more_than_the_room() -> None:
    assert len(decide(*(candidate(str(n), job=f"j{n}") for n in range(5)), room=2).start) == 2


def test_with_one_at_a_time_the_order_of_due_times_is_kept() -> None:
    made = decide(candidate("2", most=1), unstarted={"j": "1"})

    assert made.wait == {"2": "job_concurrency"}


def test_a_retry_does_not_hold_up_the_next_one() -> None:
    made = decide(candidate("2", most=1), oldest={"j": "1"}, unstarted={"j": "2"})

    assert list(made.start) == ["2"]
