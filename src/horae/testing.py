"""A whole horae in one process on a virtual clock: an hour passes in a second, and the same test runs the same way.

@virtual
async def test_report():
    async with Horae(app) as horae:
        await horae.advance(hours=1)
        assert [run["status"] for run in await horae.runs("report")] == ["SUCCEEDED"]
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import selectors
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from horae.api.shapes import run_answer
from horae.commands import Caller, Commands, RunRequest
from horae.config import Settings
from horae.core.duration import parse_instant
from horae.core.errors import HoraeError, Unavailable
from horae.core.explain import explain
from horae.executors.noop import NoopExecutor
from horae.executors.python import Handler, PythonExecutor
from horae.node import Node, Tools
from horae.ports import Executor
from horae.sdk.app import App, upstream_first
from horae.sdk.context import Context
from horae.store.quiet import keep_signs, quiet_us
from horae.store.sqlite import MemoryDatabase
from horae.store.store import Store
from horae.vault import Vault
from horae.verify.report import Report, check

START = "2027-01-15T08:00:00Z"
START_US = parse_instant(START, "")
# Between two looks whether the clock may be set forward: every mover has had a turn.
STEP_SECONDS = 30.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VAULT = Vault("a key for tests, and for nothing but tests")


class Deadlock(Exception):
    """Everything waits for something that will never happen."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer when there is nothing left to do."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        super().__init__(_JumpingSelector(self))
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_now

    def jump(self, seconds: float) -> None:
        self._virtual_now += seconds

    @property
    def waiting(self) -> int:
        """How many timers are set."""
        return sum(not timer.cancelled() for timer in self._timers)

    def leap(self, seconds: float) -> None:
        """As if that time had not been: whoever sleeps has as long to go as before."""
        self.jump(seconds)
        for timer in self._timers:
            timer._when += seconds  # type: ignore[attr-defined]  # noqa: SLF001 all by the same, so their order stays

    @property
    def _timers(self) -> list[asyncio.TimerHandle]:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return timers


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise Deadlock
        if timeout > 0:
            self._loop.jump(timeout)
        return []


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on a virtual clock of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class Horae:
    """One or more nodes on one store in memory. `app` brings its handlers and jobs, `secrets` those that they name;
    `start` is the time at the beginning, RFC 3339 or a datetime with a time zone; `executors` replace those of a type;
    `handlers` are python jobs.
    """

    def __init__(
        self,
        app: App | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        nodes: int = 1,
        executors: Mapping[str, Executor] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        start: datetime | str = START,
        **settings: Any,
    ) -> None:
        self._app = app or App()
        self._secrets = dict(secrets or {})
        handlers = {**self._app.handlers, **(handlers or {})}
        self._start_us = _instant(start)
        self._skew_us = 0
        self._settings = Settings(database_url="sqlite:///:memory:", is_dev=True, **settings)
        self._retention_us = round(self._settings.retention_days * 86_400_000_000)
        python = PythonExecutor(handlers, in_threads=False)
        noop = NoopExecutor()
        self._executors: dict[str, Executor] = {"noop": noop, "python": python, "custom": python, **(executors or {})}
        self._needs = (
            *(f"handler:{name}" for name in handlers),
            *(["shell"] if "shell" in self._executors else []),
        )
        self._count = nodes
        self._numbers = itertools.count(1)
        self.nodes: list[Node] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.caller = Caller("default", "test")
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            told = "This test runs in real time. Put @virtual (from horae.testing) above it."
            raise RuntimeError(told)  # noqa: TRY004 nobody gave a value of a wrong type
        self._loop = loop
        self.store = Store(MemoryDatabase(self._now_us))
        await self.store.migrate()
        await self._group.__aenter__()
        try:
            await self._begin()
        except BaseException as error:
            await self._end(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(error)

    async def _begin(self) -> None:
        for _ in range(self._count):
            self.add_node()
        self.commands = Commands(self.store, VAULT, self._new_id, self._wake)
        for name, value in self._secrets.items():
            await self.commands.secrets.put(self.caller, name, value)
        for job in upstream_first(self._app.jobs.values()):
            try:
                await self.commands.jobs.put(self.caller, job.name, dict(job.document), None, None)
            except HoraeError as error:
                error.add_note(f'The job "{job.name}" is declared at {job.place}.')
                raise

    async def _end(self, error: BaseException | None) -> None:
        """What a test raises comes out as it is. A node that broke has cancelled the test: its error comes instead."""
        for node in self.nodes:
            node.kill()
        cancelled = error if isinstance(error, asyncio.CancelledError) else None
        try:
            await self._group.__aexit__(type(cancelled) if cancelled else None, cancelled, None)
        except BaseExceptionGroup as broken:
            if error is not None and cancelled is None:
                error.add_note(f"A node broke as well: {broken.exceptions!r}")
            elif len(broken.exceptions) == 1:
                raise broken.exceptions[0] from None
            else:
                raise
        finally:
            await self.store.close()

    def add_node(self, **changes: Any) -> Node:
        settings = Settings(**{**_values(self._settings), **changes})
        name = f"node-{next(self._numbers)}"
        node = Node(self.store, settings, Tools(self._executors, self._needs, VAULT), self._new_id, name)
        before = asyncio.all_tasks()
        node.start(self._group)
        self._tasks |= asyncio.all_tasks() - before
        self.nodes.append(node)
        return node

    async def run(self, job: str, payload: Any = None) -> str:
        """A run now; the id of it."""
        body = None if payload is None else json.dumps(payload)
        (run_id,) = await self.commands.runs.trigger(self.caller, job, [RunRequest(body)], None)
        return run_id

    async def logs(self, run_id: str) -> str:
        return "".join(row["text"] for row in await self.store.logs(self.caller.tenant, run_id, 0, -1, 10_000))

    @property
    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._now_us())

    async def create(self, document: dict[str, Any]) -> str:
        return await self.commands.jobs.create(self.caller, document, None)

    async def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Time passes, and everything that is due in it happens. A stretch in which nothing can is one step."""
        by = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        if not by >= 0:
            raise ValueError(f"Time does not go back by {-by:g} s. `jump(seconds)` sets the clock, forwards or back.")
        end = self._loop.time() + by
        while (left := end - self._loop.time()) > 0:
            quiet = await self._quiet_seconds() if left > STEP_SECONDS else 0
            if quiet > STEP_SECONDS:
                leap = min(quiet, left)
                await self.store.database.run(keep_signs(round(leap * 1e6)))
                self._loop.leap(leap)
            await asyncio.sleep(min(STEP_SECONDS, end - self._loop.time()))

    async def _quiet_seconds(self) -> float:
        """How far time may be set forward: nobody but idle movers waits for it, and they get to look around before
        the next thing is due.
        """
        tasks = {task for task in asyncio.all_tasks() - {asyncio.current_task()} if not task.done()}
        if tasks - self._tasks:
            return 0
        # Each sleeps on one timer of its own, and a worker has an alarm besides.
        if self._loop.waiting > len(tasks) + len(self.nodes):
            return 0
        ahead = self._settings.lookahead_seconds + 2 * self._settings.lease_seconds
        try:
            return await self.store.database.run(quiet_us()) / 1e6 - ahead
        except Unavailable:  # somebody tests an outage
            return 0

    def jump(self, seconds: float) -> None:
        """The store's clock is set, forwards or back; no time passes."""
        self._skew_us += round(seconds * 1e6)

    async def runs(self, job: str) -> list[dict[str, Any]]:
        """As the API answers them, but oldest first."""
        rows, before = [], None
        while True:
            page = await self.store.runs(self.caller.tenant, job, {}, before, 1000)
            rows += page.rows
            before = page.before_id
            if before is None:
                return [run_answer(row) for row in reversed(rows)]

    async def verify(self) -> Report:
        """The check of everything that happened so far against the promise."""
        return check([line async for block in self.store.export(self._retention_us) for line in block.splitlines()])

    async def why(self, job: str, at_us: int | None = None) -> dict[str, Any]:
        return explain(await self.store.explain_facts(self.caller.tenant, job, at_us), self._retention_us)

    def _now_us(self) -> int:
        return self._start_us + self._skew_us + round(self._loop.time() * 1e6)

    def _wake(self) -> None:
        for node in self.nodes:
            node.wake()

    def _new_id(self) -> str:
        return f"00000000-0000-7000-8000-{next(self._numbers):012x}"


class Lines:
    """A log that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: object, *args: object) -> None:
        self.lines.append(str(text) % args if args else str(text))

    debug = info = warning = error = __call__


class FakeContext(Context):
    """A context whose `log.lines` can be looked at."""

    log: Lines


def fake_context(**fields: Any) -> FakeContext:
    """For a plain call of a handler in a test; `fields` are those of a Context."""
    known: dict[str, Any] = {
        "run_id": "00000000-0000-7000-8000-000000000000",
        "job": "job",
        "tenant": "default",
        "attempt": 1,
        "due_at": _EPOCH + timedelta(microseconds=START_US),
        "fence": 1,
        "payload": None,
        "upstream": None,
        "log": Lines(),
    }
    return FakeContext(**(known | fields))


def _instant(start: datetime | str) -> int:
    if isinstance(start, datetime) and start.utcoffset() is None:
        raise ValueError(f"start={start!r} has no time zone. Write datetime(…, tzinfo=UTC).")
    try:
        return parse_instant(start.astimezone(UTC).isoformat() if isinstance(start, datetime) else start, "start")
    except HoraeError as error:
        raise ValueError(f"start: {error}") from None


def _values(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}
