"""What every executor does alike: one behaviour, run over all of them."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from horae.core.egress import allow_ranges
from horae.core.run import ENDED_BADLY
from horae.executors.breaker import Breaker
from horae.executors.http import HttpExecutor
from horae.executors.noop import NoopExecutor
from horae.executors.python import PythonExecutor
from horae.executors.shell import ShellExecutor
from tests.conformance.attempts import Lines, request_for

LOOPBACK = allow_ranges("127.0.0.0/8")


class Subject:
    """An executor, and the targets that make it succeed, fail, and take for ever."""

    def __init__(self, type, executor, good, bad, endless):
        self.type, self.executor = type, executor
        self.good, self.bad, self.endless = good, bad, endless
        self.running = 0

    async def run(self, target, **changes):
        request = request_for(self.type, target, allow=LOOPBACK, **changes)
        return await self.executor.run(request, Lines())


@asynccontextmanager
async def http():
    async def good(request):
        return web.json_response({"ok": True})

    async def bad(request):
        return web.Response(status=500)

    async def endless(request):
        subject.running += 1
        try:
            await asyncio.sleep(60)
        finally:
            subject.running -= 1

    app = web.Application()
    app.add_routes([web.post(f"/{answer.__name__}", answer) for answer in (good, bad, endless)])
    # Without this the server would not notice that its client has gone.
    async with TestServer(app, handler_cancellation=True) as server:
        executor = HttpExecutor(LOOPBACK, Breaker())
        targets = [{"url": str(server.make_url(path))} for path in ("/good", "/bad", "/endless")]
        subject = Subject("http", executor, *targets)
        yield subject
        await executor.close()


@asynccontextmanager
async def shell():
    executor = ShellExecutor("on", grace_seconds=0.5)
    yield Subject("shell", executor, {"command": "true"}, {"command": "false"}, {"command": "sleep 60"})
    await executor.close()


@asynccontextmanager
async def python(is_async):
    async def endless_async():
        subject.running += 1
        try:
            await asyncio.sleep(60)
        finally:
            subject.running -= 1

    def endless_sync(ctx):
        subject.running += 1
        while not ctx.cancelled:
            pass
        subject.running -= 1

    async def good_async():
        return {"ok": True}

    handlers = {
        "good": good_async if is_async else (lambda: {"ok": True}),
        "bad": lambda: 1 / 0,
        "endless": endless_async if is_async else endless_sync,
    }
    executor = PythonExecutor(handlers, slots=2)
    subject = Subject("python", executor, *({"handler": name} for name in ("good", "bad", "endless")))
    yield subject
    await executor.close()


@asynccontextmanager
async def noop():
    yield Subject("noop", NoopExecutor(), {}, {"fail": 1}, {"sleep": "1m"})


SUBJECTS = {
    "http": http,
    "shell": shell,
    "python": lambda: python(is_async=True),
    "python-thread": lambda: python(is_async=False),
    "noop": noop,
}


@pytest.fixture(params=SUBJECTS)
async def subject(request):
    async with SUBJECTS[request.param]() as made:
        yield made
        for _ in range(50):
            if not made.running:
                break
            await asyncio.sleep(0.02)
        assert not made.running, "work went on after its attempt had ended"


async def test_success_has_a_result_that_is_json(subject):
    outcome = await subject.run(subject.good)

    assert outcome.succeeded
    assert outcome.reason is None
    assert outcome.result is not None
    json.dumps(outcome.result, allow_nan=False)


async def test_failure_is_an_outcome_with_a_reason_of_the_list(subject):
    outcome = await subject.run(subject.bad)

    assert not outcome.succeeded
    assert outcome.reason in ENDED_BADLY
    assert outcome.error
    assert outcome.is_retryable


async def test_the_timeout_ends_the_work(subject):
    clock = asyncio.get_running_loop().time
    started = clock()

    outcome = await subject.run(subject.endless, timeout_seconds=0.2)

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "timeout", True)
    assert 0.15 < clock() - started < 3


async def test_cancelling_the_task_ends_the_work_and_goes_on(subject):
    task = asyncio.create_task(subject.run(subject.endless))
    await asyncio.sleep(0.2)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_before_the_first_step_does_no_harm(subject):
    task = asyncio.create_task(subject.run(subject.endless))
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await subject.run(subject.good)).succeeded


async def test_many_attempts_at_once_do_not_mix(subject):
    targets = [subject.good, subject.bad] * 8
    outcomes = await asyncio.gather(*(subject.run(target) for target in targets))

    # The breaker of http may have opened on the failures meanwhile; a success it does not touch is a success.
    assert all(not outcome.succeeded for outcome in outcomes[1::2])
    assert any(outcome.succeeded for outcome in outcomes[::2])


async def test_nothing_is_left_open_by_a_hundred_attempts(subject):
    await subject.run(subject.good)
    before = open_descriptors()

    for _ in range(10):
        await asyncio.gather(*(subject.run(subject.good) for _ in range(10)))

    # Both ends of ten kept connections are in this process.
    assert open_descriptors() <= before + 25


@pytest.mark.parametrize(("attempt", "is_good"), [(1, False), (2, False), (3, True)])
def test_noop_fails_as_often_as_it_is_told_and_awaits_nothing(attempt, is_good):
    request = request_for("noop", {"fail": 2}, attempt=attempt)

    with pytest.raises(StopIteration) as ended:
        NoopExecutor().run(request, Lines()).send(None)

    assert ended.value.value.succeeded is is_good


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))
