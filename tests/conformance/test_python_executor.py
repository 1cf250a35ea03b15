"""The python executor: how handlers are called, and what comes of what they return or raise."""

import asyncio
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from horae.core.signals import Fatal, RetryAfter, Skip
from horae.executors.python import PythonExecutor
from tests.conformance.attempts import Lines, request_for


@pytest.fixture
async def run():
    made = []

    async def call(function, *, args=None, log=None, slots=4, **changes):
        executor = PythonExecutor({"handler": function}, slots=slots)
        made.append(executor)
        request = request_for("python", {"handler": "handler", "args": args}, **changes)
        return await executor.run(request, log or Lines())

    yield call
    for executor in made:
        await executor.close()


async def test_arguments_come_from_the_target_and_the_payload_wins(run):
    def report(region, day="today", *, limit):
        return [region, day, limit]

    outcome = await run(report, args={"region": "eu", "limit": 1}, payload={"limit": 2})

    assert outcome.result == ["eu", "today", 2]


async def test_a_payload_that_is_no_object_is_found_in_the_context(run):
    outcome = await run(lambda ctx: ctx.payload, payload=[1, 2])

    assert outcome.result == [1, 2]


async def test_the_context_knows_the_attempt(run):
    async def tell(ctx):
        known = ("run_id", "job", "tenant", "attempt", "fence", "idempotency_key", "upstream", "cancelled")
        assert ctx.due_at == datetime(2025, 11, 15, 9, 46, 40, tzinfo=UTC)
        return {name: getattr(ctx, name) for name in known}

    outcome = await run(tell, attempt=2, upstream={"load": 1})

    run_id = "019a8f2c-1b00-8abc-adef-0123456789ab"
    assert outcome.result == {
        "run_id": run_id,
        "job": "daily-report",
        "tenant": "default",
        "attempt": 2,
        "fence": 7,
        "idempotency_key": run_id,
        "upstream": {"load": 1},
        "cancelled": False,
    }


async def test_a_payload_cannot_pose_as_the_context(run):
    outcome = await run(lambda ctx: ctx.job, payload={"ctx": "forged"})

    assert outcome.result == "daily-report"


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (lambda: 1, {"extra": 1}),
        (lambda region: region, {}),
        (lambda region: region, {"regoin": "eu"}),
    ],
)
async def test_arguments_that_do_not_fit_are_rejected_for_good(run, function, payload):
    outcome = await run(function, payload=payload)

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "payload_rejected", False)
    assert "argument" in outcome.error


async def test_a_type_error_inside_the_handler_is_a_plain_failure(run):
    outcome = await run(lambda: len(5))

    assert (outcome.reason, outcome.is_retryable) == ("exception", True)
    assert outcome.error.startswith("TypeError: object of type 'int' has no len()")


async def test_a_custom_job_calls_the_handler_of_its_own_name():
    executor = PythonExecutor({"daily-report": lambda: "mine"})

    outcome = await executor.run(request_for("custom", None), Lines())

    assert outcome.result == "mine"
    await executor.close()


async def test_a_handler_that_is_not_here_may_be_elsewhere():
    executor = PythonExecutor({"other": print})

    outcome = await executor.run(request_for("python", {"handler": "mine"}), Lines())

    assert (outcome.succeeded, outcome.is_retryable) == (False, True)
    assert "'mine'" in outcome.error
    assert "other" in outcome.error
    await executor.close()


async def test_plain_functions_run_in_threads_and_coroutines_on_the_loop(run):
    async def on_loop():
        return threading.current_thread() is threading.main_thread()

    def in_thread():
        return threading.current_thread() is threading.main_thread()

    assert (await run(on_loop)).result is True
    assert (await run(in_thread)).result is False


async def test_an_object_and_a_function_that_returns_an_awaitable_work_too(run):
    class Report:
        async def __call__(self, region):
            return region

    assert (await run(Report(), args={"region": "eu"})).result == "eu"
    assert (await run(lambda: asyncio.sleep(0, "later"))).result == "later"


async def test_no_more_threads_run_than_there_are_slots():
    busy, most = 0, 0
    lock = threading.Lock()

    def work():
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.03)
        with lock:
            busy -= 1

    executor = PythonExecutor({"work": work}, slots=3)
    requests = [request_for("python", {"handler": "work"}) for _ in range(12)]
    await asyncio.gather(*(executor.run(request, Lines()) for request in requests))

    assert most == 3
    await executor.close()


async def test_an_error_tells_what_and_where_without_our_own_frames(run):
    def inner():
        raise ValueError("bad day")

    def outer():
        inner()

    async def outer_async():
        inner()

    for function in (outer, outer_async):
        outcome = await run(function)
        first, *where = outcome.error.splitlines()
        assert first == "ValueError: bad day"
        assert any("in inner" in line for line in where)
        assert "horae/executors" not in outcome.error


async def test_a_long_error_is_cut(run):
    def fail():
        raise ValueError("x" * 100_000 + "\0\ud800")

    outcome = await run(fail)

    assert len(outcome.error) <= 8192
    outcome.error.encode()


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("k"), TimeoutError("mine"), asyncio.CancelledError()])
async def test_no_error_of_a_handler_escapes(run, error):
    def fail():
        raise error

    async def fail_async():
        raise error

    for function in (fail, fail_async):
        outcome = await run(function)
        assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "exception", True)
        assert type(error).__name__ in outcome.error


async def test_a_stop_iteration_in_a_thread_is_a_failure_like_any_other(run):
    outcome = await run(lambda: next(iter(())))

    assert outcome.error.startswith("StopIteration")


async def test_skip_succeeds_and_says_why(run):
    async def skip():
        raise Skip("no data yet")

    outcome = await run(skip)

    assert outcome.succeeded
    assert outcome.result == {"skipped": "no data yet"}


async def test_fatal_ends_the_attempts(run):
    def give_up():
        raise Fatal("bad input")

    outcome = await run(give_up)

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "exception", False)
    assert outcome.error == "bad input"


@pytest.mark.parametrize(("after", "seconds"), [(90, 90.0), ("5m", 300.0), (0.5, 0.5)])
async def test_retry_after_says_when(run, after, seconds):
    def later():
        raise RetryAfter(after, "quota used up")

    outcome = await run(later)

    assert (outcome.is_retryable, outcome.retry_after_seconds) == (True, seconds)
    assert outcome.error == "quota used up"


@pytest.mark.parametrize("after", [1e308, float("inf"), float("nan"), "5 parsecs"])
async def test_a_wait_that_is_none_fails_the_attempt_and_nothing_else(run, after):
    def later():
        raise RetryAfter(after)

    outcome = await run(later)

    assert (outcome.succeeded, outcome.reason, outcome.retry_after_seconds) == (False, "exception", None)
    assert "length of time" in outcome.error


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        ({"rows": 1204}, {"rows": 1204}),
        ((1, {2}), [1, [2]]),
        ({1: "a"}, {"1": "a"}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    ],
)
async def test_a_result_is_kept_as_json(run, value, kept):
    outcome = await run(lambda: value)

    assert outcome.succeeded
    assert outcome.result == kept


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def circular():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "make",
    [
        object,
        lambda: float("nan"),
        lambda: "x" * 70_000,
        lambda: "\ud800",
        lambda: "\0",
        lambda: nested(100),
        lambda: nested(sys.getrecursionlimit() * 3),
        circular,
        lambda: {("a", "b"): 1},
    ],
)
async def test_a_result_that_cannot_be_kept_is_a_clear_failure(run, make):
    value = make()
    outcome = await run(lambda: value)

    assert (outcome.succeeded, outcome.reason, outcome.is_retryable) == (False, "exception", False)
    assert outcome.error.startswith("the result ")


async def test_a_kept_result_does_not_change_with_the_handlers_own(run):
    state = {"count": 1}
    outcome = await run(lambda: state)
    state["count"] = 2

    assert outcome.result == {"count": 1}


@pytest.mark.parametrize("is_async", [True, False])
async def test_lines_are_logged_in_order_from_either_world(run, is_async):
    def write(ctx):
        for number in range(50):
            ctx.log(f"line {number}")
        ctx.log.info("for %s", "you")

    async def write_async(ctx):
        write(ctx)

    lines = Lines()
    await run(write_async if is_async else write, log=lines)

    assert lines.text == "".join(f"line {number}\n" for number in range(50)) + "for you\n"
    assert len(lines.pieces) < 50


async def test_lines_are_handed_on_while_the_handler_runs(run):
    lines = Lines()

    async def write(ctx):
        ctx.log("early")
        await asyncio.sleep(0.05)
        return lines.text

    assert (await run(write, log=lines)).result == "early\n"


async def test_a_log_without_end_is_cut(run):
    def write(ctx):
        for _ in range(40):
            ctx.log("x" * 50_000)

    lines = Lines()
    await run(write, log=lines)

    assert lines.text.endswith(f"[output truncated]\n[{20 * 50_001} more characters were not kept]\n")
    assert len(lines.text) < 1024 * 1024


async def test_a_thread_that_is_given_up_is_told_and_may_go_on_harmlessly(run):
    seen = []

    def long(ctx):
        while not ctx.cancelled:
            time.sleep(0.01)
        ctx.log("too late")
        seen.append(ctx.cancelled)

    lines = Lines()
    outcome = await run(long, timeout_seconds=0.1, log=lines)
    for _ in range(50):
        if seen:
            break
        await asyncio.sleep(0.02)

    assert outcome.reason == "timeout"
    assert seen == [True]
    assert lines.pieces == []


async def test_work_that_found_no_thread_in_time_is_never_begun():
    begun = []
    free = threading.Event()
    executor = PythonExecutor({"hold": free.wait, "work": lambda: begun.append(1)}, slots=1)
    holder = asyncio.create_task(executor.run(request_for("python", {"handler": "hold"}), Lines()))
    await asyncio.sleep(0.05)

    outcome = await executor.run(request_for("python", {"handler": "work"}, timeout_seconds=0.1), Lines())
    free.set()
    await holder

    assert outcome.reason == "timeout"
    assert begun == []
    await executor.close()


async def test_a_coroutine_that_swallows_the_cancellation_has_still_timed_out(run):
    async def deaf():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "too late"

    outcome = await run(deaf, timeout_seconds=0.05)

    assert (outcome.succeeded, outcome.reason) == (False, "timeout")
