"""Runs a command, if the operator allows it: on the host (`on`) or in a sandbox of bubblewrap (`sandbox`)."""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import signal
from dataclasses import dataclass
from typing import Literal

from horae.core.secrets import TRUNCATED
from horae.executors.sandbox import NoSandbox, Sandbox
from horae.executors.spawn import Process, Spawner, see_through
from horae.executors.wire import clean, due_text, failed, input_of, rejected, timed_out, to_json
from horae.ports import Log, Outcome, Request

GRACE_SECONDS = 5.0
# What a log keeps, less the two lines that say what was cut.
OUTPUT_BYTES = 1024 * 1024 - 256
TAIL_BYTES = 4096
BATCH_BYTES = 16 * 1024
TAIL_LINES_IN_ERROR = 10

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INHERITED = ("PATH", "HOME", "LANG", "TZ")

Mode = Literal["on", "sandbox", "off"]


@dataclass(frozen=True, slots=True)
class Command:
    argv: list[str]
    env: dict[str, str]
    options: bytes | None = None


class ShellExecutor:
    def __init__(self, mode: Mode, *, grace_seconds: float = GRACE_SECONDS, output_bytes: int = OUTPUT_BYTES) -> None:
        self._mode = mode
        self._grace_seconds = grace_seconds
        self._output_bytes = output_bytes
        self._spawner = Spawner()
        self._sandbox = Sandbox()

    async def run(self, request: Request, log: Log) -> Outcome:
        if self._mode == "off":
            return rejected("shell jobs are turned off here; an operator turns them on with HORAE_SHELL=on")
        try:
            command = self._command_of(request)
        except NoSandbox as error:
            return rejected(str(error))
        output = Output(self._output_bytes)
        try:
            process, marker = self._spawner.start(
                command.argv, command.env, to_json(input_of(request)), output.add, command.options
            )
        except (OSError, ValueError) as error:
            return failed("exit_code", f"could not start {command.argv[0]}: {error}")
        try:
            is_late = await self._follow(process, output, log, request.timeout_seconds)
        finally:
            await see_through(self._clear(process, marker))
        await _hand_on(output, log, is_last=True)
        if is_late:
            return timed_out(request)
        return _judge(process.exit_code, output.tail())

    async def close(self) -> None:
        await self._spawner.close()

    async def _follow(self, process: Process, output: Output, log: Log, timeout_seconds: float) -> bool:
        """Hand the output on until the end; True when the time was up first."""
        try:
            async with asyncio.timeout(timeout_seconds) as timer:
                while process.exit_code is None:
                    await process.news()
                    await _hand_on(output, log, is_last=False)
        except TimeoutError:
            if not timer.expired():
                raise
            return True
        return False

    async def _clear(self, process: Process, marker: str) -> None:
        if process.exit_code is None:
            await process.stop(self._grace_seconds)
        # In a sandbox the processes have a world of their own, which ends with the first of them.
        if self._mode == "on":
            await self._spawner.sweep(marker)

    def _command_of(self, request: Request) -> Command:
        target = request.target
        command = target["command"]
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        own = {
            "HORAE_JOB": request.job_name,
            "HORAE_RUN_ID": request.run_id,
            "HORAE_ATTEMPT": str(request.attempt),
            "HORAE_SCHEDULED_FOR": due_text(request.scheduled_for_us),
            "HORAE_FENCE": str(request.fence),
        }
        env = {**_host_env(), **(target.get("env") or {}), **own}
        if self._mode == "sandbox":
            return Command(*self._sandbox.wrap(argv, {**(target.get("env") or {}), **own}, target.get("cwd")))
        if target.get("cwd"):
            return Command(_in_directory(target["cwd"], argv), env)
        program = shutil.which(argv[0], path=env["PATH"])
        return Command([program or argv[0], *argv[1:]], env)


class Output:
    """What a command printed: the first part of it for the log, the last part of it for the result."""

    def __init__(self, most_bytes: int) -> None:
        self._room = most_bytes
        self._cut_bytes = 0
        self._pending = bytearray()
        self._tail = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, piece: bytes) -> bool:
        """Take a piece; True when so much waits that it should be handed on at once."""
        self._tail += piece
        del self._tail[:-TAIL_BYTES]
        kept = piece[: self._room]
        if kept:
            self._pending += kept
            self._room -= len(kept)
        if len(kept) < len(piece):
            self._pending += b"" if self._cut_bytes else TRUNCATED.encode()
            self._cut_bytes += len(piece) - len(kept)
        return len(self._pending) >= BATCH_BYTES

    def take(self, *, is_last: bool) -> str:
        """What waits, in whole lines where there are any, so that no line is torn in two."""
        if is_last and self._cut_bytes:
            self._pending += f"[{self._cut_bytes} more bytes were not kept]\n".encode()
        end = len(self._pending)
        if not is_last and end < BATCH_BYTES:
            end = self._pending.rfind(b"\n") + 1
        piece = bytes(self._pending[:end])
        del self._pending[:end]
        return self._decoder.decode(piece, final=is_last)

    def tail(self) -> str:
        return clean(self._tail.decode(errors="replace"))


async def _hand_on(output: Output, log: Log, *, is_last: bool) -> None:
    text = output.take(is_last=is_last)
    if text:
        await log(clean(text, len(text)))


def _host_env() -> dict[str, str]:
    """Never the worker's own environment: it holds the database's password."""
    return {"PATH": DEFAULT_PATH, **{name: os.environ[name] for name in _INHERITED if name in os.environ}}


def _in_directory(cwd: str, argv: list[str]) -> list[str]:
    """posix_spawn cannot change the directory; the shell can, and gets the path as an argument."""
    return ["/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", cwd, *argv]


def _judge(exit_code: int | None, tail: str) -> Outcome:
    if exit_code == 0:
        return Outcome(succeeded=True, result={"exit_code": 0, "output": tail})
    if exit_code is None:
        return failed("exit_code", "could not be ended")
    lines = "\n".join(tail.splitlines()[-TAIL_LINES_IN_ERROR:])
    how = f"exit code {exit_code}" if exit_code > 0 else f"killed by {_signal_name(-exit_code)}"
    return failed("exit_code", f"{how}\n{lines}" if lines else how)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
