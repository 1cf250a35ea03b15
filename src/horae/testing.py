"""A whole horae in one process on a virtual clock: hours pass in milliseconds, and the same test runs the same way.

@virtual
async def test_report():
    async with Horae() as horae:
        job = await horae.create({"name": "report", "schedule": "0 9 * * *", "type": "noop"})
        await horae.advance(days=1)
        assert [run["status"] for run in await horae.runs(job)] == ["succeeded"]
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from horae.commands import Caller, Commands
from horae.config import Settings
from horae.core.explain import explain
from horae.executors.noop import NoopExecutor
from horae.executors.python import Handler, PythonExecutor
from horae.node import Node, Tools
from horae.ports import Executor
from horae.store.sqlite import MemoryDatabase
from horae.store.store import Store
from horae.vault import Vault
from horae.verify.report import Report, check

START_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z
RETENTION_US = 10**15
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
    """One or more nodes on one store in memory. `executors` replace those of a type; `handlers` are python jobs."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        executors: Mapping[str, Executor] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        start_us: int = START_US,
        **settings: Any,
    ) -> None:
        self._start_us = start_us
        self._skew_us = 0
        self._settings = Settings(database_url="sqlite:///:memory:", is_dev=True, **settings)
        python = PythonExecutor(dict(handlers or {}), slots=8)
        noop = NoopExecutor()
        self._executors: dict[str, Executor] = {"noop": noop, "python": python, "custom": python, **(executors or {})}
        self._needs = (
            *(f"handler:{name}" for name in handlers or {}),
            *(["shell"] if "shell" in self._executors else []),
        )
        self._count = nodes
        self._numbers = itertools.count(1)
        self.nodes: list[Node] = []
        self.caller = Caller("default", "test")
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.store = Store(MemoryDatabase(lambda: self._start_us + self._skew_us + round(loop.time() * 1e6)))
        await self.store.migrate()
        await self._group.__aenter__()
        for _ in range(self._count):
            self.add_node()
        self.commands = Commands(self.store, VAULT, self._new_id, self._wake)
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
        node.start(self._group)
        self.nodes.append(node)
        return node

    async def create(self, document: dict[str, Any]) -> str:
        return await self.commands.create_job(self.caller, document, None)

    async def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Time passes, and everything that is due in it happens."""
        await asyncio.sleep(seconds + 60 * minutes + 3600 * hours + 86_400 * days)

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
        return check([line async for block in self.store.export(RETENTION_US) for line in block.splitlines()])

    async def why(self, job: str, at_us: int | None = None) -> dict[str, Any]:
        return explain(await self.store.explain_facts(self.caller.tenant, job, at_us), RETENTION_US)

    def _wake(self) -> None:
        for node in self.nodes:
            node.wake()

    def _new_id(self) -> str:
        return f"00000000-0000-7000-8000-{next(self._numbers):012x}"


def _values(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}
