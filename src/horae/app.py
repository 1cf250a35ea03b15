"""The composition root: opens the store, builds the chosen roles, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from typing import Any, cast

import uvicorn

from horae.api.access import Access, KeyAccess, OpenAccess, key_hash
from horae.api.app import make_app
from horae.commands import Commands
from horae.config import Settings
from horae.core.egress import allow_ranges
from horae.core.errors import HoraeError, Unavailable
from horae.core.explain import explain
from horae.executors.breaker import Breaker
from horae.executors.http import HttpExecutor
from horae.executors.noop import NoopExecutor
from horae.executors.python import Handler, PythonExecutor
from horae.executors.shell import Mode, ShellExecutor
from horae.node import STORE_AWAY_SECONDS, Node
from horae.ports import Executor
from horae.store.sqlite import system_now_us
from horae.store.store import Store, open_store
from horae.telemetry import log, warn


def new_id() -> str:
    """A UUID version 7: unique, and sorted by the time it was made."""
    head = (system_now_us() // 1000) << 80
    tail = secrets.randbits(74)
    text = f"{head | 0x7 << 76 | (tail >> 62) << 64 | 0b10 << 62 | tail & (1 << 62) - 1:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# A cancelled run must be over within two seconds, the time to notice included.
SHELL_GRACE_SECONDS = 0.8


class App:
    """One process of horae in the roles of its settings."""

    def __init__(self, settings: Settings, handlers: dict[str, Handler] | None = None) -> None:
        self.settings = settings
        self.store: Store = open_store(settings.database_url)
        self._executors = _executors(settings, handlers or {})
        needs = [f"handler:{name}" for name in handlers or {}] + (["shell"] if settings.shell != "off" else [])
        self._node = Node(self.store, settings, self._executors, tuple(needs), new_id, socket.gethostname())
        self._stopping = asyncio.Event()
        self.exit_code = 0

    async def run(self) -> None:
        """Until a signal. The first one drains, a second one stops at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            await self._prepare_store()
            if not self._stopping.is_set():
                await self._serve()
        finally:
            for executor in set(self._executors.values()):
                await executor.close()
            await self.store.close()

    def stop(self) -> None:
        if self._stopping.is_set():
            log("stopping.at_once")
            os._exit(1)
        log("stopping")
        self._stopping.set()

    async def _prepare_store(self) -> None:
        """Waits for the store as long as it takes; SQLite brings its own schema up to date."""
        while not self._stopping.is_set():
            try:
                if self.settings.is_sqlite:
                    await self.store.migrate()
                await self.store.check_schema()
                await self.store.sweep(round(self.settings.retention_days * 86_400e6))
            except Unavailable as error:
                warn("store.away", why=error.detail)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STORE_AWAY_SECONDS):
                        await self._stopping.wait()
            else:
                return

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._node.start(group)
            server = self._make_server(await self._access()) if "api" in self.settings.role_set else None
            door = group.create_task(self._open_door(server)) if server else None
            log("started", roles=sorted(self.settings.role_set), database=self.store.database.dialect)
            await self._stopping.wait()
            await self._node.stop()
            if server is not None and door is not None:
                server.should_exit = True
                await door

    async def _open_door(self, server: uvicorn.Server) -> None:
        try:
            await server.serve()
        except SystemExit:
            # uvicorn has said why: most often, somebody else listens there.
            self.exit_code = 1
            warn("api.cannot_listen", host=self.settings.host, port=self.settings.port)
        if not self._stopping.is_set():
            self.stop()

    async def _access(self) -> Access:
        """Who may come in. The first admin key of an empty database is made here and shown once."""
        if self.settings.is_dev:
            return OpenAccess()
        if self.settings.admin_key:
            return KeyAccess(key_hash(self.settings.admin_key))
        key = f"hk_{secrets.token_urlsafe(32)}"
        kept = await self.store.keep_first("admin_key_hash", key_hash(key))
        if kept == key_hash(key):
            print(f"The admin key of this installation, shown only now: {key}", flush=True)  # noqa: T201 not a log line
        return KeyAccess(kept)

    def _make_server(self, access: Access) -> uvicorn.Server:
        settings = self.settings
        app = make_app(
            commands=Commands(self.store, new_id, self._node.wake, allow_ranges(settings.egress_allow)),
            views=self.store,
            access=access,
            explain=self._explain,
            ready=self._not_ready,
            is_stopping=self._stopping.is_set,
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
        if self._node.guard.held:
            reasons.append(self._node.guard.held)
        return reasons


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the app stops its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _executors(settings: Settings, handlers: dict[str, Handler]) -> dict[str, Executor]:
    python = PythonExecutor(handlers, slots=settings.worker_slots)
    return {
        "http": HttpExecutor(allow_ranges(settings.egress_allow), Breaker()),
        "shell": ShellExecutor(cast("Mode", settings.shell), grace_seconds=SHELL_GRACE_SECONDS),
        "python": python,
        "custom": python,
        "noop": NoopExecutor(),
    }


async def migrate_store(settings: Settings) -> list[str]:
    """Brings the schema up to date and returns the names of what was applied."""
    store = open_store(settings.database_url)
    try:
        done = await store.migrate()
        await store.sweep(round(settings.retention_days * 86_400e6))
    finally:
        await store.close()
    return done


async def export_history(settings: Settings) -> list[str]:
    """Every line of the record of a store that may be in use."""
    store = open_store(settings.database_url, is_shared=True)
    try:
        return [line async for line in store.export(round(settings.retention_days * 86_400e6))]
    finally:
        await store.close()
