"""The composition root: opens the store, builds the chosen roles, keeps their movers moving, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID

import uvicorn

from horae.api.access import Access, KeyAccess, OpenAccess
from horae.api.app import make_app
from horae.commands import Commands
from horae.config import Settings
from horae.core.egress import allow_ranges
from horae.core.errors import HoraeError, Unavailable
from horae.core.explain import explain
from horae.core.timeguard import TimeGuard
from horae.executors.breaker import Breaker
from horae.executors.http import HttpExecutor
from horae.executors.noop import NoopExecutor
from horae.executors.python import Handler, PythonExecutor
from horae.executors.shell import ShellExecutor
from horae.ports import Executor
from horae.scheduler.janitor import Janitor
from horae.scheduler.planner import Planner
from horae.scheduler.shards import Shards
from horae.store.sqlite import system_now_us
from horae.store.store import Store, open_store
from horae.telemetry import log, oops, warn
from horae.worker.loop import Worker, WorkerSettings

STORE_AWAY_SECONDS = 0.5
BROKEN_SECONDS = 1.0


def new_id() -> str:
    """A UUID version 7: unique, and sorted by the time it was made."""
    head = (system_now_us() // 1000) << 80
    tail = secrets.randbits(74)
    return str(UUID(int=head | 0x7 << 76 | (tail >> 62) << 64 | 0b10 << 62 | tail & (1 << 62) - 1))


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the app stops its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Loop:
    """Asks one mover to move, again and again: when it said, or when woken."""

    def __init__(self, name: str, tick: Callable[[], Awaitable[float]], stopping: asyncio.Event) -> None:
        self._name = name
        self._tick = tick
        self._stopping = stopping
        self._woken = asyncio.Event()
        self._is_away = False

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            delay = await self._once()
            if delay > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._woken.wait()
            else:
                await asyncio.sleep(0)
            self._woken.clear()

    async def _once(self) -> float:
        try:
            delay = await self._tick()
        except (Unavailable, TimeoutError) as error:
            if not self._is_away:
                warn("store.away", mover=self._name, why=str(error))
            self._is_away = True
            return STORE_AWAY_SECONDS
        except Exception as error:  # noqa: BLE001 a mover never dies of one bad round
            oops("mover.broken", error, mover=self._name)
            return BROKEN_SECONDS
        if self._is_away:
            log("store.back", mover=self._name)
            self._is_away = False
        return delay


class App:
    """One process of horae in the roles of its settings."""

    def __init__(self, settings: Settings, handlers: dict[str, Handler] | None = None) -> None:
        self.settings = settings
        self.store: Store = open_store(settings.database_url)
        self._handlers = handlers or {}
        self._stopping = asyncio.Event()
        self._done = asyncio.Event()
        self._loops: list[Loop] = []
        self._guard = TimeGuard()
        self._shards: Shards | None = None
        self._worker: Worker | None = None
        self._executors: dict[str, Executor] = {}
        self._server: uvicorn.Server | None = None

    async def run(self) -> None:
        """Until a signal. The first one drains, a second one stops at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        await self._prepare_store()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = self._start(group)
                await self._stopping.wait()
                await self._stop_in_order()
                self._done.set()
                for task in tasks:
                    task.cancel()
        finally:
            for executor in self._executors.values():
                await executor.close()
            await self.store.close()

    def stop(self) -> None:
        if self._stopping.is_set():
            log("stopping.at_once")
            os._exit(1)
        log("stopping", grace_seconds=30)
        self._stopping.set()

    async def _prepare_store(self) -> None:
        """Waits for the store as long as it takes; SQLite brings its own schema up to date."""
        while not self._stopping.is_set():
            try:
                if self.settings.is_sqlite:
                    await self.store.migrate()
                await self.store.check_schema()
                await self.store.sweep(self._retention_us)
            except Unavailable as error:
                warn("store.away", why=error.detail)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STORE_AWAY_SECONDS):
                        await self._stopping.wait()
            else:
                return

    @property
    def _retention_us(self) -> int:
        return round(self.settings.retention_days * 86_400e6)

    def _start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[Any]]:
        tasks: list[asyncio.Task[Any]] = []
        roles = self.settings.role_set
        if "scheduler" in roles:
            self._add_scheduler()
        if "worker" in roles:
            worker = self._add_worker()
            tasks.append(group.create_task(worker.results.run()))
        tasks += [group.create_task(loop.run()) for loop in self._loops]
        if "api" in roles:
            self._server = self._make_server()
            tasks.append(group.create_task(self._serve(self._server)))
        log("started", roles=sorted(roles), database=self.settings.database_url.split("://")[0])
        return tasks

    def _loop(self, name: str, tick: Callable[[], Awaitable[float]]) -> Loop:
        # Heartbeats go on while running work drains; planning has given its shards away by then.
        loop = Loop(name, tick, self._done)
        self._loops.append(loop)
        return loop

    def _wake(self) -> None:
        for loop in self._loops:
            loop.wake()

    def _add_scheduler(self) -> None:
        settings = self.settings
        self._shards = Shards(self.store, new_id(), settings.lease_seconds, self._guard)
        planner = Planner(self.store, self._shards, self._guard, settings.lookahead_seconds, self._wake)
        janitor = Janitor(self.store, self._shards, self._guard, settings.retention_days * 86_400)
        shards = self._shards

        async def keep() -> float:
            had = len(shards.held)
            delay = await shards.tick()
            if len(shards.held) > had:
                self._wake()
            return delay

        self._loop("shards", keep)
        self._loop("planner", planner.tick)
        self._loop("janitor", janitor.tick)

    def _add_worker(self) -> Worker:
        settings = self.settings
        shell = ShellExecutor(mode=settings.shell)
        handlers = PythonExecutor(self._handlers, slots=settings.worker_slots)
        http = HttpExecutor(allow_ranges(settings.egress_allow), Breaker())
        self._executors = {"http": http, "shell": shell, "python": handlers, "custom": handlers, "noop": NoopExecutor()}
        needs = tuple(f"handler:{name}" for name in self._handlers)
        if settings.shell != "off":
            needs = ("shell", *needs)
        self._worker = worker = Worker(
            self.store,
            WorkerSettings(
                node=socket.gethostname(),
                slots=settings.worker_slots,
                queues=settings.queues,
                heartbeat_seconds=settings.heartbeat_seconds,
                visibility_seconds=settings.visibility_seconds,
            ),
            self._executors,
            needs,
            self._guard,
            new_id,
        )
        claims = self._loop("worker", worker.tick)
        worker.on_room = claims.wake
        self._loop("heartbeat", worker.beat)
        self._loop("cancels", worker.watch_cancels)
        return worker

    def _make_server(self) -> uvicorn.Server:
        settings = self.settings
        access: Access = OpenAccess() if settings.is_dev else KeyAccess(settings.admin_key)
        app = make_app(
            commands=Commands(self.store, new_id, self._wake),
            views=self.store,
            access=access,
            explain=self._explain,
            ready=self._not_ready,
        )
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=3,
            lifespan="off",
            server_header=False,
        )
        return Server(config)

    async def _explain(self, tenant: str, word: str, at_us: int | None) -> dict[str, Any]:
        return explain(await self.store.explain_facts(tenant, word, at_us))

    async def _not_ready(self) -> list[str]:
        """Why this process cannot serve: empty when it can."""
        reasons = []
        try:
            await self.store.check_schema()
        except HoraeError as error:
            reasons.append(error.detail)
        if self._guard.held:
            reasons.append(self._guard.held)
        return reasons

    async def _serve(self, server: uvicorn.Server) -> None:
        await server.serve()
        if not self._stopping.is_set():
            self.stop()

    async def _stop_in_order(self) -> None:
        """Planning stops and leases go first, then running work ends, then the door closes."""
        if self._shards is not None:
            with contextlib.suppress(Unavailable):
                await self._shards.stop()
        if self._worker is not None:
            await self._worker.drain()
        if self._server is not None:
            self._server.should_exit = True
            await asyncio.sleep(0.1)


async def migrate_store(settings: Settings) -> list[str]:
    """Brings the schema up to date and returns the names of what was applied."""
    store = open_store(settings.database_url)
    try:
        done = await store.migrate()
        await store.sweep(round(settings.retention_days * 86_400e6))
    finally:
        await store.close()
    return done
