"""A whole horae in one process on a virtual clock: an hour passes in a second, and the same test runs the same way.

@virtual
async def test_report():
    async with Horae(app) as horae:
        await horae.advance(hours=1)
        assert [run["status"] for run in await horae.runs("report")] == ["succeeded"]
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

from horae.commands import Caller, Commands, RunRequest
from horae.config import Settings
from horae.core.errors import Unavailable
from horae.core.explain import explain
from horae.executors.noop import NoopExecutor
from horae.executors.python import Handler, PythonExecutor
from horae.node import Node, Tools
from horae.ports import Executor
from horae.sdk.app import App
from horae.sdk.context import Context
from horae.store.quiet import keep_signs, quiet_us
from horae.store.sqlite import MemoryDatabase
from horae.store.store import Store
from horae.vault import Vault
from horae.verify.report import Report, check

START_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z
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
    `executors` replace those of a type; `handlers` are python jobs.
    """

    def __init__(
        self,
        app: App | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        nodes: int = 1,
        executors: Mapping[str, Executor] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        start_us: int = START_US,
        **settings: Any,
    ) -> None:
        self._app = app or App()
        self._secrets = dict(secrets or {})
        handlers = {**self._app.handlers, **(handlers or {})}
        self._start_us = start_us
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
        self._loop = asyncio.get_running_loop()
        self.store = Store(MemoryDatabase(self._now_us))
        await self.store.migrate()
        await self._group.__aenter__()
        for _ in range(self._count):
            self.add_node()
        self.commands = Commands(self.store, VAULT, self._new_id, self._wake)
        for name, value in self._secrets.items():
            await self.commands.secrets.put(self.caller, name, value)
        for job in self._app.jobs.values():
            await self.commands.jobs.put(self.caller, job.name, dict(job.document), None, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            node.kill()
        await self._group.__aexit__(kind, error, trace)
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
        return "".join(row["text"] for row in await self.store.logs(run_id, 0, -1, 10_000))

    @property
    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._now_us())

    async def create(self, document: dict[str, Any]) -> str:
        return await self.commands.jobs.create(self.caller, document, None)

    async def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Time passes, and everything that is due in it happens. A stretch in which nothing can is one step."""
        end = self._loop.time() + seconds + 60 * minutes + 3600 * hours + 86_400 * days
        while (left := end - self._loop.time()) > 0:
            quiet = await self._quiet_seconds() if left > STEP_SECONDS else 0
            if quiet > STEP_SECONDS and isinstance(self._loop, VirtualLoop):
                leap = min(quiet, left)
                await self.store.database.run(keep_signs(round(leap * 1e6)))
                self._loop.leap(leap)
            await asyncio.sleep(min(STEP_SECONDS, end - self._loop.time()))

    async def _quiet_seconds(self) -> float:
        """How far time may be set forward: nobody but idle movers waits for it, and they get to look around before
        the next thing is due.
        """
        tasks = {task for task in asyncio.all_tasks() - {asyncio.current_task()} if not task.done()}
        if not isinstance(self._loop, VirtualLoop) or tasks - self._tasks:
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
        """Oldest first."""
        names = ("status", "queue", "priority", "worker", "reason", "due_after_us", "due_before_us")
        page = await self.store.runs(self.caller.tenant, job, dict.fromkeys(names), None, 1000)
        return [dict(row) for row in reversed(page.rows)]

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


def _values(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}
