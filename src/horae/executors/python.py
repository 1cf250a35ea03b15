"""Calls a handler of an SDK worker: coroutines on the loop, plain functions in a bounded pool of threads."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from horae.core.signals import Fatal, RetryAfter, Skip
from horae.executors.wire import clean, failed, json_result, rejected, timed_out
from horae.ports import Log, Outcome, Request
from horae.sdk.context import Context

# What a log keeps, less the two lines that say what was cut.
LOG_CHARACTERS = 1024 * 1024 - 256
SUMMARY_CHARACTERS = 1000
TRACEBACK_CHARACTERS = 7000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Handler = Callable[..., Any]


class Journal:
    """The log of one attempt, to be called from any thread; lines that come quickly go on together."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._room = LOG_CHARACTERS
        self._cut = 0
        self._lines: list[str] = []
        self._writer: asyncio.Task[None] | None = None
        self._is_used = False
        self._is_closed = False

    def __call__(self, text: object, *args: object) -> None:
        """Write a line; with more arguments the text is a %-format, as in `logging`."""
        self._is_used = True
        line = str(text) % args if args else str(text)
        # The loop may be gone when a thread that was given up speaks at last.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._add, line.removesuffix("\n") + "\n")

    debug = info = warning = error = __call__

    async def close(self) -> None:
        if self._is_used:
            await asyncio.sleep(0)  # lets the lines in that a coroutine has just written
        if self._cut and not self._is_closed:
            self._put(f"[{self._cut} more characters were not kept]\n")
        self._is_closed = True
        if self._writer is not None:
            await self._writer

    def drop(self) -> None:
        self._is_closed = True
        if self._writer is not None:
            self._writer.cancel()

    def _add(self, line: str) -> None:
        if self._is_closed:
            return
        if self._cut or len(line) > self._room:
            if not self._cut:
                self._put("[output truncated]\n")
            self._cut += len(line)
            return
        self._room -= len(line)
        self._put(line)

    def _put(self, line: str) -> None:
        self._lines.append(line)
        if self._writer is None or self._writer.done():
            self._writer = self._loop.create_task(self._write())

    async def _write(self) -> None:
        while self._lines:
            text = "".join(self._lines)
            self._lines.clear()
            await self._log(clean(text, len(text)))


class PythonExecutor:
    """Not `in_threads`, plain functions are called on the loop: a virtual clock does not wait for threads."""

    def __init__(self, handlers: Mapping[str, Handler], *, slots: int = 100, in_threads: bool = True) -> None:
        self._in_threads = in_threads
        self._handlers = dict(handlers)
        self._signatures = {name: _signature(function) for name, function in self._handlers.items()}
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="horae-handler")

    async def run(self, request: Request, log: Log) -> Outcome:
        name = request.target.get("handler") or request.job_name
        function = self._handlers.get(name)
        if function is None:
            known = ", ".join(sorted(self._handlers)) or "none"
            return failed("exception", f"this worker has no handler {name!r}; it has {known}")
        journal = Journal(log)
        context = _context(request, journal)
        try:
            arguments = _arguments(self._signatures[name], request, context)
        except TypeError as error:
            return rejected(f"{name}: {error}")
        try:
            outcome = await self._attempt(function, arguments, request)
        except BaseException:
            journal.drop()
            raise
        finally:
            context.cancel()
        await journal.close()
        return outcome

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _attempt(self, function: Handler, arguments: dict[str, Any], request: Request) -> Outcome:
        result: Any = None
        error: BaseException | None = None
        try:
            async with asyncio.timeout(request.timeout_seconds) as timer:
                result, error = await self._call(function, arguments)
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever it raises is its outcome
            error = raised
        except asyncio.CancelledError as raised:
            # The worker's cancellation goes on; one of the handler's own making is its failure.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = raised
        # Asked of the timer, since a handler may swallow the cancellation or raise a TimeoutError of its own.
        if timer.expired():
            return timed_out(request)
        return _succeeded(result) if error is None else _explain(error)

    async def _call(self, function: Handler, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments), None
        call = copy_context().run
        if self._in_threads:
            loop = asyncio.get_running_loop()
            result, error = await loop.run_in_executor(self._threads, call, _caught, function, arguments)
        else:
            result, error = call(_caught, function, arguments)
        return (await result if inspect.isawaitable(result) else result), error


def _caught(function: Handler, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Bring every error back as a value: no future takes a StopIteration, and a SystemExit would end the worker."""
    try:
        return function(**arguments), None
    except BaseException as error:  # noqa: BLE001
        return None, error


def _signature(function: Handler) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _context(request: Request, journal: Journal) -> Context:
    return Context(
        run_id=request.run_id,
        job=request.job_name,
        tenant=request.tenant,
        attempt=request.attempt,
        due_at=_EPOCH + timedelta(microseconds=request.scheduled_for_us),
        fence=request.fence,
        payload=request.payload,
        upstream=request.upstream,
        log=journal,
        secrets=request.target.get("secrets") or {},
    )


def _arguments(signature: inspect.Signature | None, request: Request, context: Context) -> dict[str, Any]:
    """The target's args, overlaid by a payload that is an object; TypeError when the handler cannot take them."""
    arguments = dict(request.target.get("args") or {})
    if isinstance(request.payload, dict):
        arguments |= request.payload
    if signature is not None:
        if "ctx" in signature.parameters:
            arguments["ctx"] = context
        signature.bind(**arguments)
    return arguments


def _succeeded(result: Any) -> Outcome:
    try:
        return Outcome(succeeded=True, result=json_result(result))
    except ValueError as error:
        # It ran, and would give the same once more.
        return Outcome(succeeded=False, reason="exception", error=clean(str(error)), is_retryable=False)


def _explain(error: BaseException) -> Outcome:
    match error:
        case Skip():
            return Outcome(succeeded=True, result={"skipped": clean(str(error))})
        case Fatal():
            text = clean(str(error) or "the handler gave up")
            return Outcome(succeeded=False, reason="exception", error=text, is_retryable=False)
        case RetryAfter():
            return failed("exception", str(error), error.seconds)
        case _:
            return failed("exception", _text_of(error))


def _text_of(error: BaseException) -> str:
    """What went wrong in one line, then where, without our own frames."""
    summary = clean("".join(traceback.format_exception_only(error)).strip()[:SUMMARY_CHARACTERS])
    frames = "".join(traceback.format_tb(_below_us(error.__traceback__))).rstrip()
    return f"{summary}\n{clean(frames, TRACEBACK_CHARACTERS)}" if frames else summary


def _below_us(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
