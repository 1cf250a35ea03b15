"""Faults of requests: crowds, edits, pauses and deletes that race triggers, an API that dies. P45 to P49."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from tests.chaos.case import Case
from tests.chaos.world import World, every_second

CROWD = 10_000
FLOOD = 100_000
CHANGES = 1000


def crowd(world: World, reps: int) -> None:
    """Ten thousand jobs due at the same second."""
    for number in range(reps):
        at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=45)
        due = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        for first in range(0, CROWD, 500):
            jobs = [
                {"name": f"crowd-{number}-{each}", "type": "noop", "schedule": due}
                for each in range(first, first + 500)
            ]
            status, answer = world.call("POST", "/jobs:batch", {"jobs": jobs})
            assert status == 200, f"{status} {answer}"
        assert datetime.now(UTC) < at, "the crowd was not there in time"
        due_us = int(at.timestamp() * 1e6)
        done = f"SELECT count(*) FROM history WHERE due_us = {due_us} AND status = 'succeeded' AND cause = 'schedule'"
        world.wait(lambda done=done: world.ask(done) >= CROWD, 120, every=0.5)
        time.sleep(1)
        late = f"max(started_us - due_us) FROM history WHERE due_us = {due_us} AND cause = 'schedule'"
        world.figures.notes["crowd_late_ms"] = round(int(world.ask(f"SELECT {late}")) / 1000)
        world.recover(at.timestamp(), 120)


def flood(world: World, reps: int) -> None:
    """Another tenant queues a hundred thousand runs that hold every slot; ours start all the same."""
    for number in range(reps):
        time.sleep(10)
        before = _p99_ms(world)
        job = f"flood-{number}"
        body = {"name": job, "type": "noop", "target": {"sleep": "100ms"}}
        assert world.call("POST", "/jobs", body, tenant="flood")[0] == 201
        batches = [{"job": job, "runs": [{}] * 1000}] * (FLOOD // 1000)
        with ThreadPoolExecutor(4) as clients:
            asked = clients.map(lambda batch: world.call("POST", "/runs:batch", batch, tenant="flood"), batches)
            assert {status for status, _ in asked} == {202}
        waiting = world.ask("SELECT count(*) FROM runs WHERE tenant = 'flood' AND state = 'queued'")
        time.sleep(15)
        during = _p99_ms(world)
        assert waiting > FLOOD / 2, f"only {waiting} runs waited: no flood"
        assert during < 2000, f"p99 {during} ms beside a flood, {before} without"
        world.figures.notes |= {"waiting": waiting, "p99_ms": before, "p99_ms_in_the_flood": during}
        assert world.call("DELETE", f"/jobs/{job}", tenant="flood")[0] == 200
        world.recover(time.time())


def _p99_ms(world: World) -> int:
    """Of our own starts in the last ten seconds."""
    late = "percentile_disc(0.99) WITHIN GROUP (ORDER BY started_us - run_at_us)"
    asked = "tenant = 'default' AND cause = 'schedule' AND attempt = 1 AND due_us > horae_now() - 10000000"
    return round(int(world.ask(f"SELECT {late} FROM history WHERE {asked}")) / 1000)


def dying_api(world: World, reps: int) -> None:
    """The API dies before or after it saved a job; the client repeats with the same key."""
    for number in range(reps):
        point = "change.before_commit" if number % 2 else "change.after_commit"
        victim = world.start("api", f"{point}=kill@1")
        body = {"name": f"once-more-{number}", "type": "noop", "schedule": "@manual"}
        key = f"key-{number}"
        status, _ = world.call("POST", "/jobs", body, key, victim)
        assert status == 0, f"the API answered {status} instead of dying"
        answers = [world.call("POST", "/jobs", body, key) for _ in range(2)]
        assert [status for status, _ in answers] == [201, 201], answers
        assert answers[0][1]["job_id"] == answers[1][1]["job_id"]
        named = world.ask(f"SELECT count(*) FROM jobs WHERE name = 'once-more-{number}'")
        assert named == 1, f"{named} jobs of one name"
        world.figures.acked.append((body["name"], answers[0][1]["job_id"]))
        world.recover(time.time())


def edits(world: World, reps: int) -> None:
    """Schedules change while they are due; `horae verify` enumerates what each version owed."""
    lines = [every_second(world.now()), "*/2" + every_second(world.now())[1:], "@every 1s", "@every 3s"]
    for number in range(reps):
        names = [f"edited-{number}-{each}" for each in range(10)]
        for name in names:
            world.create(name, schedule=lines[0])

        def change(step: int, names: list[str] = names) -> int:
            schedule = lines[step % len(lines)]
            status: int = world.call("PATCH", f"/jobs/{names[step % 10]}", {"schedule": schedule})[0]
            return status

        with ThreadPoolExecutor(4) as clients:
            statuses = list(clients.map(change, range(CHANGES)))
        assert set(statuses) == {200}, set(statuses)
        world.recover(time.time())
        for name in names:
            assert world.call("DELETE", f"/jobs/{name}")[0] == 200


def pauses(world: World, reps: int) -> None:
    """Pause, resume and delete while due; nothing is called for a time that was already called off."""
    called_off: dict[str, list[tuple[float, float]]] = {}
    for number in range(reps):
        names = [f"paused-{number}-{each}" for each in range(20)]
        for name in names:
            world.create(name, schedule=every_second(world.now()))
            called_off[name] = []
        time.sleep(2)

        def change(name: str) -> None:
            for _ in range(CHANGES // 60):
                assert world.call("POST", f"/jobs/{name}/pause", {})[0] == 200
                acknowledged = time.time()
                time.sleep(world.dice.random() * 0.5)
                asked = time.time()
                assert world.call("POST", f"/jobs/{name}/resume", {})[0] == 200
                called_off[name].append((acknowledged, asked))
                time.sleep(world.dice.random() * 0.3)
            assert world.call("DELETE", f"/jobs/{name}")[0] == 200
            called_off[name].append((time.time(), time.time() + 3600))

        with ThreadPoolExecutor(8) as clients:
            list(clients.map(change, names))
        world.recover(time.time())
    wrong = [
        call
        for name, spans in called_off.items()
        for calls in world.witness.of_job(name).values()
        for call in calls
        if any(start < call.due < end for start, end in spans)
    ]
    assert not wrong, f"{len(wrong)} calls for due times that were called off, such as {wrong[0]}"


def cases() -> list[Case]:
    fleet = {"schedulers": 2, "workers": 2}
    return [
        Case("P45", "10,000 jobs due at the same second", 3, crowd, load={"jobs": 3, "once": 1}, **fleet),
        Case("P46", "another tenant queues 100,000 runs", 3, flood, **fleet),
        Case("P47", "API dies during a POST, client repeats it", 10, dying_api),
        Case("P48", "1,000 edits race triggers", 3, edits, **fleet),
        Case("P49", "1,000 pauses, resumes and deletes race triggers", 3, pauses, **fleet),
    ]
