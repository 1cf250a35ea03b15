"""Starts a command as its own process group and sees to it that nothing of it stays: not its children, not a
grandchild that left the group, not when the worker itself is killed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any

from horae.executors import guardian

FLUSH_SECONDS = 0.2
READ_BYTES = 64 * 1024
# How much is read after the end: a pipe holds 64 KiB, but a writer that outlives the job could fill it for ever.
MOST_READS_AT_END = 32
POLL_SECONDS = 0.03
KILL_SECONDS = 2.0
# A look at all processes is followed by a pause this many times as long, whatever the machine's size.
SWEEP_PAUSE = 9
PROCESSES_A_SLICE = 64

_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class Process:
    """A command under way. `exit_code` is None until it ended; a negative one is the signal that ended it."""

    def __init__(self, pid: int, output: int, take: Callable[[bytes], bool]) -> None:
        """`take` gets each piece of output, and says whether it wants to be asked for it at once."""
        self.pid = pid
        self.exit_code: int | None = None
        self._output = output
        self._take = take
        self._is_stopping = False
        self._has_news = False
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._flush: asyncio.TimerHandle | None = None
        os.set_blocking(output, False)
        self._loop.add_reader(output, self._read)
        self._watch_exit()

    async def news(self) -> None:
        """Return when there is output to hand on, or when the command has ended."""
        if self.exit_code is None and not self._has_news:
            self._waiter = self._loop.create_future()
            await self._waiter
        self._has_news = False

    async def stop(self, grace_seconds: float) -> None:
        """Ask the whole group to end, then make it."""
        self._is_stopping = True
        self._signal(signal.SIGTERM)
        is_gone = False
        try:
            is_gone = await self._is_gone_within(grace_seconds)
        finally:
            if not is_gone:
                self._signal(signal.SIGKILL)
        await self._is_gone_within(KILL_SECONDS)
        self._finish_output()

    async def _is_gone_within(self, seconds: float) -> bool:
        for _ in range(round(seconds / POLL_SECONDS)):
            if self.exit_code is not None and not self._has_group():
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _has_group(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return guardian.has_living(self.pid)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _read(self) -> bool:
        """Take one piece; False when there is none now or will be no more."""
        try:
            piece = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            self._loop.remove_reader(self._output)
            return False
        if self._take(piece):
            self._wake()
        elif self._flush is None:
            self._flush = self._loop.call_later(FLUSH_SECONDS, self._wake)
        return True

    def _wake(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        self._has_news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch_exit(self) -> None:
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            self._loop.call_later(POLL_SECONDS, self._poll_exit)
            return

        def ended() -> None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            self._end()

        self._loop.add_reader(descriptor, ended)

    def _poll_exit(self) -> None:
        """Where there is no pidfd (not Linux, or before 5.3)."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            self._end()
        else:
            self._loop.call_later(POLL_SECONDS, self._poll_exit)

    def _end(self) -> None:
        # The leader is dead but not yet reaped, so its number cannot have been given to another group.
        if not self._is_stopping:
            self._signal(signal.SIGKILL)
            self._finish_output()
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        self._wake()

    def _finish_output(self) -> None:
        """Not before the whole group is gone: who still writes would die of it, in the middle of clearing up."""
        for _ in range(MOST_READS_AT_END):
            if not self._read():
                break
        self._loop.remove_reader(self._output)
        os.close(self._output)


class Spawner:
    """Starts the commands of one worker and clears up after them."""

    def __init__(self) -> None:
        self._worker = secrets.token_hex(8)
        self._count = 0
        self._guardian: tuple[int, int] | None = None
        self._actions = [(os.POSIX_SPAWN_CLOSE, each) for each in _handed_down()]
        self._wanted: set[str] = set()
        self._round: asyncio.Task[None] | None = None
        self._sweep_after = 0.0
        self._sweeping = asyncio.Lock()

    def start(
        self,
        argv: list[str],
        env: Mapping[str, str],
        stdin: bytes,
        take: Callable[[bytes], bool],
        options: bytes | None = None,
    ) -> tuple[Process, str]:
        """Start a command and return it with the marker that `sweep` wants; OSError when it cannot start.

        `options` can be read from descriptor 3; they are a sandbox's, which needs no guardian.
        """
        if self._guardian is None and options is None:
            self._guardian = _start_guardian(self._worker)
        self._count += 1
        marker = guardian.marker(self._worker, self._count)
        files = [_file_of(content) for content in (stdin, options) if content is not None]
        reader, writer = os.pipe()
        sources = [files[0], writer, writer, *files[1:]]
        placed = [(os.POSIX_SPAWN_DUP2, source, place) for place, source in enumerate(sources)]
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                {**env, guardian.MARKER: marker},
                file_actions=[*self._actions, *placed],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULTS,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            for descriptor in (*files, writer):
                os.close(descriptor)
        return Process(pid, reader, take), marker

    async def sweep(self, marker: str) -> None:
        """Kill what carries the marker. One look at all processes serves every job that ended meanwhile."""
        self._wanted.add(marker)
        if self._round is None:
            self._round = asyncio.create_task(self._sweep_all())
        await asyncio.shield(self._round)

    async def close(self) -> None:
        if self._guardian is None:
            return
        (pid, pipe), self._guardian = self._guardian, None
        os.close(pipe)
        for _ in range(round(KILL_SECONDS / POLL_SECONDS)):
            if _has_ended(pid):
                return
            await asyncio.sleep(POLL_SECONDS)
        guardian.kill(pid)

    async def _sweep_all(self) -> None:
        async with self._sweeping:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(max(self._sweep_after - clock(), 0))
            started = clock()
            # Whoever asks from here on has to wait for the next round: this one may have passed its processes.
            wanted, self._wanted, self._round = self._wanted, set(), None
            for _ in range(guardian.ROUNDS):
                if not await self._kill_carriers(wanted):
                    break
            self._sweep_after = clock() + SWEEP_PAUSE * (clock() - started)

    async def _kill_carriers(self, wanted: set[str]) -> int:
        count = 0
        for place, (pid, carried) in enumerate(guardian.carriers(self._worker), 1):
            if carried in wanted:
                guardian.kill(pid)
                count += 1
            if place % PROCESSES_A_SLICE == 0:
                await asyncio.sleep(0)
        return count


async def see_through(work: Coroutine[Any, Any, None]) -> None:
    """Finish `work` although this task is cancelled meanwhile, then be cancelled. The work must bound itself."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _file_of(content: bytes) -> int:
    """A file with this content, ready to be read: any size, nobody has to feed it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("horae")
    else:
        with TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _handed_down() -> list[int]:
    """Descriptors the worker itself was started with and its jobs must not get; Python's own are never passed on."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except FileNotFoundError:
        return []
    return [number for number in numbers if number > 2 and _is_passed_on(number)]


def _is_passed_on(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


def _has_ended(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG) != (0, 0)


def _start_guardian(worker: str) -> tuple[int, int]:
    reader, writer = os.pipe()
    argv = [sys.executable, "-I", "-S", str(guardian.__file__), worker]
    quiet = os.open(os.devnull, os.O_WRONLY)
    sources = (reader, quiet, quiet)
    actions = [(os.POSIX_SPAWN_DUP2, source, place) for place, source in enumerate(sources)]
    pid = os.posix_spawn(argv[0], argv, {}, file_actions=actions, setsid=True)
    os.close(reader)
    os.close(quiet)
    return pid, writer
