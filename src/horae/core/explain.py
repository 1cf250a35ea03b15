"""Why a job did, did not, will or will not run at an instant: facts in, verdict and reason of the closed list out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from horae.core.compiled import schedule_of
from horae.core.duration import format_duration, format_instant
from horae.core.job import Definition, need_of
from horae.core.plan import GRACE_US, jitter_us
from horae.core.schedule import is_due_at, latest_at_or_before, next_after, why_not
from horae.core.waiting import HELD_BACK, OWN

FAR_BACK_US = 10 * 366 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    definition: Definition
    since_us: int


@dataclass(frozen=True, slots=True)
class Pause:
    from_us: int
    until_us: int | None
    actor: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class RunFact:
    """The run of this due time, as the store has it."""

    id: str
    status: str
    reason: str | None
    error: str | None
    attempt: int
    max_attempts: int
    run_at_us: int
    available_us: int
    started_us: int | None
    ended_us: int | None
    worker: str | None
    skip_count: int
    skip_until_us: int | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Who could take a waiting run: live workers, those that serve its queue, those that also offer what it needs."""

    schedulers: int
    workers: int
    of_queue: int
    able: int
    free_slots: int
    ahead: int
    is_queue_paused: bool
    is_tenant_paused: bool
    is_queue_full: bool
    is_tenant_full: bool


@dataclass(frozen=True, slots=True)
class Facts:
    job_id: str
    name: str
    created_us: int
    deleted_us: int | None
    now_us: int
    at_us: int
    due_us: int | None
    fired: int
    versions: list[Version]
    pauses: list[Pause]
    run: RunFact | None
    fleet: Fleet


def explain(facts: Facts, retention_us: int) -> dict[str, Any]:
    verdict, reason, text = _answer(facts, retention_us)
    return {
        "job_id": facts.job_id,
        "at": format_instant(facts.at_us),
        "verdict": verdict,
        "reason": reason,
        "text": text,
        "run_id": facts.run.id if facts.run else None,
        "facts": _facts(facts),
    }


Told = tuple[str, str | None, str]


def _answer(facts: Facts, retention_us: int) -> Told:
    if facts.run is not None and not _only_spans(facts, facts.run):
        return _of_run(facts, facts.run)
    if facts.at_us > facts.now_us:
        return _of_future(facts)
    return _of_past(facts, retention_us)


def _only_spans(facts: Facts, run: RunFact) -> bool:
    """Whether a skip of several due times covers an instant that is none of them."""
    return run.skip_count > 1 and not is_due_at(_schedule(facts, _in_force(facts)), facts.at_us)


def _of_run(facts: Facts, run: RunFact) -> Told:
    match run.status:
        case "running":
            return "running", None, f"Attempt {run.attempt} of {run.max_attempts} is running on {run.worker}."
        case "queued":
            return _of_waiting(facts, run)
        case "skipped":
            return _of_skip(run)
        case "succeeded":
            return "ran", None, f"It succeeded{_in_attempts(run)}, {_late(run)}."
        case "cancelled" if run.started_us is None:
            return "skipped", run.reason, f"It was cancelled before it started ({_said(run.reason)})."
        case _:
            error = f": {run.error}" if run.error else "."
            return "ran", run.reason, f"It {run.status}{_in_attempts(run)} ({_said(run.reason)}){error}"


def _of_skip(run: RunFact) -> Told:
    several = f" It is one of {run.skip_count} due times with the same answer." if run.skip_count > 1 else ""
    is_missed = run.reason in ("scheduler_down", "catch_up_expired")
    return (
        "missed" if is_missed else "skipped",
        run.reason,
        f"{WORDS.get(run.reason or '', 'It was skipped.')}{several}",
    )


def _of_waiting(facts: Facts, run: RunFact) -> Told:
    if run.run_at_us > facts.now_us:
        wait = _about(run.run_at_us - facts.now_us)
        if facts.at_us > facts.now_us:
            if paused := _paused(facts):
                return "will_run", paused[0], f"{paused[1]} It is staged and waits until that is over."
            return "will_run", None, f"It is staged and starts in {wait}."
        return "waiting", "jitter", f"Its time has come; jitter delays the start by another {wait}."
    if run.attempt > 0 and run.available_us > facts.now_us and run.reason not in HELD_BACK:
        wait = _about(run.available_us - facts.now_us)
        return (
            "waiting",
            "retry_backoff",
            f"Attempt {run.attempt} failed ({_said(run.reason)}); the next starts in {wait}.",
        )
    return "waiting", *_why_waiting(facts, run)


def _paused(facts: Facts) -> tuple[str, str] | None:
    """What holds every run of the queue back now."""
    if facts.fleet.is_tenant_paused:
        return "tenant_paused", "The tenant is paused."
    if facts.fleet.is_queue_paused:
        return "queue_paused", f'Queue "{_in_force(facts).definition.queue}" is paused.'
    return None


def _why_waiting(facts: Facts, run: RunFact) -> tuple[str, str]:
    fleet, queue = facts.fleet, _in_force(facts).definition.queue
    if paused := _paused(facts):
        return paused
    if run.reason in OWN:
        return run.reason, WORDS[run.reason]
    if fleet.is_tenant_full:
        return "tenant_concurrency", WORDS["tenant_concurrency"]
    if fleet.is_queue_full:
        return "slots_full", WORDS["slots_full"]
    if fleet.workers == 0:
        return "no_worker", "No worker is alive."
    if fleet.of_queue == 0:
        return "no_worker", f'No live worker serves queue "{queue}".'
    if fleet.able == 0:
        definition = _in_force(facts).definition
        offer = need_of(definition) or f"{definition.type} jobs"
        return "no_worker_for_type", f"No live worker of this queue offers {offer}."
    if fleet.ahead > 0:
        return "behind_higher_priority", f"{fleet.ahead} waiting runs of higher priority come first."
    if fleet.free_slots <= 0:
        return "slots_full", "Every slot of the workers that could take it is in use."
    return "slots_full", "It is about to be taken."


def _of_future(facts: Facts) -> Told:
    if facts.deleted_us is not None:
        return "will_not_run", "schedule_changed", "The job was deleted."
    pause = _pause_at(facts, facts.at_us)
    version = facts.versions[-1]
    if not is_due_at(_schedule(facts, version), facts.at_us):
        return "will_not_run", *_not_due(facts, version)
    if pause is not None:
        return "will_not_run", "job_paused", _pause_words(pause)
    most = version.definition.max_runs
    if most is not None and facts.due_us is None:
        return "will_not_run", "outside_window", f"The job has had all of its {most} runs."
    jitter = jitter_us(version.definition, facts.job_id, facts.at_us)
    spread = f", {_about(jitter)} later by jitter" if jitter else ""
    if facts.fleet.schedulers == 0:
        return "will_run", "scheduler_down", "It is due, but no scheduler is alive now: it starts when one returns."
    if paused := _paused(facts):
        return "will_run", paused[0], f"{paused[1]} It is due then, and waits until that is over."
    return "will_run", "jitter" if jitter else None, f"It is due then and will start{spread}."


def _of_past(facts: Facts, retention_us: int) -> Told:
    if facts.at_us < facts.created_us:
        return "skipped", "outside_window", f"The job did not exist before {format_instant(facts.created_us)}."
    if facts.deleted_us is not None and facts.at_us >= facts.deleted_us:
        return "skipped", "schedule_changed", f"The job was deleted at {format_instant(facts.deleted_us)}."
    version = _in_force(facts)
    if not is_due_at(_schedule(facts, version), facts.at_us):
        return "skipped", *_not_due(facts, version)
    pause = _pause_at(facts, facts.at_us)
    if pause is not None:
        return "skipped", "job_paused", _pause_words(pause)
    if facts.due_us is not None and facts.due_us <= facts.at_us:
        return _undecided(facts)
    most = version.definition.max_runs
    if most is not None and facts.fired >= most:
        return "skipped", "outside_window", f"The job has had all of its {most} runs."
    if any(other.since_us > facts.at_us - 60_000_000 for other in facts.versions[1:]):
        return "skipped", "schedule_changed", "The job was changed at about that time, before this due time had come."
    kept_us = facts.now_us - retention_us
    if facts.at_us < kept_us:
        kept = f"Runs from before {format_instant(kept_us)} are no longer kept"
        return "ran", None, f"It was decided in its time. {kept}, so whether it succeeded is not known any more."
    return "missed", None, "It is past and there is no record of it, which should not be: run `horae verify`."


def _undecided(facts: Facts) -> Told:
    late = _about(facts.now_us - facts.at_us)
    if facts.fleet.schedulers == 0:
        return (
            "missed",
            "scheduler_down",
            f"No scheduler is alive. It is {late} late; the misfire policy decides when one returns.",
        )
    if facts.now_us - facts.at_us <= GRACE_US:
        return "waiting", "scheduler_down", "A scheduler is about to decide it."
    return "waiting", "scheduler_down", f"No scheduler has decided it yet; it is {late} late."


def _not_due(facts: Facts, version: Version) -> tuple[str, str]:
    schedule = _schedule(facts, version)
    reason = why_not(schedule, facts.at_us)
    if reason is not None:
        return reason, WORDS[reason]
    if len(facts.versions) > 1 and any(is_due_at(_schedule(facts, old), facts.at_us) for old in facts.versions):
        return "schedule_changed", "Another version of the job has a due time then; the one in force has none."
    if not version.definition.schedule:
        started_by = "after another job" if version.definition.after else "on request"
        return (
            "waiting_for_upstream" if version.definition.after else "outside_window"
        ), f"The job only runs {started_by}."
    most = version.definition.max_runs
    if most is not None and facts.fired >= most:
        return "outside_window", f"The schedule has no due time then, and the job has had all of its {most} runs."
    after = next_after(schedule, facts.at_us)
    before = latest_at_or_before(schedule, facts.at_us, facts.at_us - FAR_BACK_US)
    near = ", ".join(
        f"{word} {format_instant(us)}" for word, us in (("before", before), ("after", after)) if us is not None
    )
    pause = None if after is None else _pause_at(facts, after)
    held = f" {_pause_words(pause)}" if pause else ""
    return (
        "outside_window",
        f"The schedule has no due time then; the nearest are {near}.{held}"
        if near
        else "The schedule has no due time left.",
    )


def _schedule(facts: Facts, version: Version) -> Any:
    return schedule_of(version.definition, facts.job_id, facts.created_us)


def _in_force(facts: Facts) -> Version:
    at_us = max(facts.at_us, facts.versions[0].since_us)
    return [version for version in facts.versions if version.since_us <= at_us][-1]


def _pause_at(facts: Facts, at_us: int) -> Pause | None:
    for pause in facts.pauses:
        if pause.from_us < at_us and (pause.until_us is None or at_us < pause.until_us):
            return pause
    return None


def _pause_words(pause: Pause) -> str:
    until = f" until {format_instant(pause.until_us)}" if pause.until_us is not None else ""
    because = f": {pause.reason}" if pause.reason else ""
    return f"The job is paused since {format_instant(pause.from_us)}{until} by {pause.actor}{because}."


def _in_attempts(run: RunFact) -> str:
    return f" in attempt {run.attempt} of {run.max_attempts}" if run.attempt > 1 else ""


def _late(run: RunFact) -> str:
    if run.started_us is None:
        return "without a start on record"
    late_us = max(0, run.started_us - run.run_at_us)
    return "on time" if late_us < 1_000_000 else f"{_about(late_us)} late"


def _about(us: int) -> str:
    """As exactly as people say it: tenths below ten seconds, then whole seconds."""
    return f"{us / 1e6:.1f}s" if us < 10_000_000 else format_duration(round(us / 1e6) * 1_000_000)


def _said(reason: str | None) -> str:
    return reason or "no reason given"


def _facts(facts: Facts) -> list[dict[str, Any]]:
    version = _in_force(facts)
    told: list[dict[str, Any]] = [
        {"fact": "version_in_force", "value": version.number, "since": format_instant(version.since_us)},
        {"fact": "next_undecided", "value": None if facts.due_us is None else format_instant(facts.due_us)},
        {"fact": "schedulers_alive", "value": facts.fleet.schedulers},
        {"fact": "workers_alive", "value": facts.fleet.workers},
        {"fact": "workers_able", "value": facts.fleet.able},
    ]
    told += [
        {
            "fact": "paused",
            "from": format_instant(p.from_us),
            "until": None if p.until_us is None else format_instant(p.until_us),
        }
        for p in facts.pauses[-5:]
    ]
    if facts.run is not None:
        told.append(
            {"fact": "run", "value": facts.run.id, "status": facts.run.status.upper(), "attempt": facts.run.attempt}
        )
    return told


# A sentence for every reason of the closed list.
WORDS = {
    "overlap_skipped": "An earlier run was still unfinished, and the overlap policy is skip.",
    "catch_up_expired": "It was missed, and the catch-up window or its limit left it out.",
    "job_paused": "The job was paused.",
    "queue_paused": "Its queue is paused.",
    "tenant_paused": "Its tenant is paused.",
    "tenant_quota": "The tenant had its share.",
    "outside_window": "It is before the job's start_at or after its end_at.",
    "calendar_excluded": "The calendar leaves that day out.",
    "dst_gap": "That local time does not exist on that day: the clocks go forward.",
    "scheduler_down": "No scheduler was running when it was due, and the misfire policy left it out.",
    "schedule_changed": "The schedule was changed before it could be decided.",
    "superseded": "A newer run replaced it.",
    "dependency_failed": "The job before it ended in a way that does not start this one.",
    "no_worker": "No live worker serves its queue.",
    "no_worker_for_type": "Workers serve its queue, but none of them can run a job of its kind.",
    "slots_full": "The queue has as many running runs as it may.",
    "job_concurrency": "Other runs of this job, or of its concurrency key, must end first.",
    "tenant_concurrency": "The tenant has as many running runs as it may.",
    "rate_limited": "The circuit to its destination is open after repeated failures.",
    "behind_higher_priority": "More urgent runs come first.",
    "jitter": "Its time has come, and jitter delays the start.",
    "retry_backoff": "An attempt failed, and the wait before the next one is not over.",
    "waiting_for_upstream": "It runs after another job, which has not ended yet.",
    "exit_code": "The command did not end with 0, was killed, or could not be started.",
    "exception": "The handler raised an error, or the destination could not be reached.",
    "http_status": "The answer was not the one that the job expects.",
    "timeout": "It was not finished within the timeout of the job.",
    "worker_lost": "Its worker stopped answering, or was told to stop before the run had ended.",
    "cancelled_by_user": "Somebody cancelled it, or deleted its job.",
    "cancelled_by_policy": "A rule cancelled it.",
    "payload_rejected": "The job itself is wrong, and another attempt could not help.",
}
