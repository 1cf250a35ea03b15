"""The composition root: opens the store, builds the chosen roles, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from horae.api.access import Access, KeyAccess, OpenAccess
from horae.api.app import Around, make_app, make_health_app, make_waiting_app
from horae.api.intake import Intake
from horae.api.oidc import Issuer, OidcTokens
from horae.api.tools import in_brief
from horae.commands import Caller, Commands
from horae.config import Settings
from horae.core.access import DEFAULT_TENANT, KEY_BYTES, key_hash, key_prefix, key_text
from horae.core.egress import allow_ranges, read_proxy
from horae.core.errors import Fault, HoraeError, Invalid, NotFound, Unavailable
from horae.core.explain import explain
from horae.dashboard.static import Page
from horae.executors.breaker import Breaker
from horae.executors.fetch import Fetcher
from horae.executors.http import HttpExecutor
from horae.executors.noop import NoopExecutor
from horae.executors.python import Handler, PythonExecutor
from horae.executors.shell import Mode, ShellExecutor
from horae.executors.webhook import WebhookSender
from horae.failpoints import arm, parse
from horae.node import STORE_AWAY_SECONDS, Loop, Node, Tools
from horae.ports import Executor, NewKey, Rehearsed, Sealed
from horae.sdk.app import Declared, alone, upstream_first
from horae.store.migrate import migrations, missing
from horae.store.sqlite import system_now_us
from horae.store.store import Store, open_store
from horae.telemetry import log, store_away, store_back, warn
from horae.vault import Vault, key_id_of


def new_id() -> str:
    """A UUID version 7: unique, and sorted by the time it was made."""
    head = (system_now_us() // 1000) << 80
    tail = secrets.randbits(74)
    text = f"{head | 0x7 << 76 | (tail >> 62) << 64 | 0b10 << 62 | tail & (1 << 62) - 1:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# A cancelled run must be over within two seconds, the time to notice included.
SHELL_GRACE_SECONDS = 0.8
SHORTEST_ADMIN_KEY = 16


class App:
    """One process of horae in the roles of its settings. The `jobs` of its handlers are saved at the start."""

    def __init__(
        self, settings: Settings, handlers: dict[str, Handler] | None = None, jobs: Sequence[Declared] = ()
    ) -> None:
        self.settings = settings
        self._jobs = jobs
        arm(parse(settings.failpoints))
        self.store: Store = open_store(settings.database_url)
        self._executors = _executors(settings, handlers or {})
        needs = [f"handler:{name}" for name in handlers or {}] + (["shell"] if settings.shell != "off" else [])
        self._allow = allow_ranges(settings.egress_allow)
        self._sender = WebhookSender(self._allow, proxy=read_proxy(settings.egress_proxy))
        self._vault = Vault(_secret_key(settings), settings.old_secret_key)
        tools = Tools(self._executors, tuple(needs), self._vault, self._sender)
        self._node = Node(self.store, settings, tools, new_id, socket.gethostname())
        self._stopping = asyncio.Event()
        self._front = Front(make_waiting_app(self._not_ready))
        self._server = Server(_server_config(Page(self._front)))
        self._key_writer: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until a signal. The first one drains, a second one stops at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            # A taken port is found before anything moves.
            listener = self._listen()
            async with asyncio.TaskGroup() as group:
                door = group.create_task(self._open_door(listener)) if listener else None
                await self._prepare_store()
                if not self._stopping.is_set():
                    await self._save_jobs()
                    await self._serve(group)
                self._server.should_exit = True
                if door is not None:
                    await door
        except ExceptionGroup as several:
            # An error in words, such as a wrong secret key, is told as it is.
            raise next((error for error in several.exceptions if isinstance(error, HoraeError)), several) from None
        finally:
            for executor in set(self._executors.values()):
                await executor.close()
            await self._sender.close()
            await self.store.close()

    def stop(self) -> None:
        if self._stopping.is_set():
            log("stopping.at_once")
            os._exit(1)
        self._stopping.set()
        log("stopping")

    async def _prepare_store(self) -> None:
        """Waits for the store as long as it takes; SQLite brings its own schema up to date."""
        while not self._stopping.is_set():
            try:
                if self.settings.is_sqlite:
                    await self.store.migrate()
                await self.store.check_schema()
                await self.store.sweep(_retention_us(self.settings))
                await self._check_secrets()
            except Unavailable as error:
                warn("store.away", why=error.detail)
                store_away("start")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STORE_AWAY_SECONDS):
                        await self._stopping.wait()
            else:
                store_back("start")
                return

    async def _check_secrets(self) -> None:
        """Every secret must open, and those of the old key are sealed with the new one."""
        while others := await self.store.secrets_of_other_keys(self._vault.key_id):
            for secret in others:
                if key_id_of(secret.sealed) not in self._vault.key_ids:
                    detail = f'The {secret.kind} "{secret.name}" of tenant {secret.tenant} was sealed with another key.'
                    hint = "Start with the key it was set with, or give that one as HORAE_OLD_SECRET_KEY."
                    raise Invalid([Fault("HORAE_SECRET_KEY", detail, hint)], "settings")
                await self._reseal(secret)
        for old in self._vault.key_ids - {self._vault.key_id}:
            while kept := await self.store.kept_secrets(old):
                for secret in kept:
                    await self._reseal(secret)

    async def _reseal(self, secret: Sealed) -> None:
        text = self._vault.open(secret.sealed, *secret.place)
        await self.store.reseal(secret, self._vault.seal(text, *secret.place))

    async def _save_jobs(self) -> None:
        """As they are declared: made if they are new, changed where they differ; a pause stays. All are tried before
        the first is saved, so that an app with a fault in it changes nothing.
        """
        commands = Commands(self.store, self._vault, new_id, self._node.wake, self._allow)
        caller, names = Caller(DEFAULT_TENANT, "worker"), {job.name for job in self._jobs}
        for job in self._jobs:
            with _placed(job), contextlib.suppress(Rehearsed):
                await commands.jobs.put(replace(caller, is_dry=True), job.name, alone(job, names), None, None)
        for job in upstream_first(self._jobs):
            with _placed(job):
                await commands.jobs.put(caller, job.name, dict(job.document), None, None)

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        self._node.start(group)
        if self._has_api:
            self._front.app = self._make_app(await self._access(group))
        else:
            elsewhere = NotFound(
                "This process has no API: its roles are others. It answers /healthz, /readyz and /metrics."
            )
            self._front.app = make_health_app(self._not_ready, elsewhere)
        log("started", roles=sorted(self.settings.role_set), database=self.store.database.dialect)
        await self._stopping.wait()
        await self._node.stop()
        if self._key_writer is not None:
            self._key_writer.cancel()

    @property
    def _has_api(self) -> bool:
        return "api" in self.settings.role_set

    def _listen(self) -> socket.socket | None:
        """Without the API nobody is listened to, unless somebody wants to know how the process is."""
        host, port = self.settings.host, self.settings.port if self._has_api else self.settings.health_port
        if not (self._has_api or port):
            return None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=2048)
        except OSError as error:
            hint = "Another program listens there: stop it, or choose another port."
            detail = hint if error.errno == errno.EADDRINUSE else error.strerror
            raise Unavailable(f"Cannot listen on {host}:{port}. {detail}") from None

    async def _open_door(self, listener: socket.socket) -> None:
        await self._server.serve(sockets=[listener])
        if not self._stopping.is_set():
            self.stop()

    async def _access(self, group: asyncio.TaskGroup) -> Access:
        """Who may come in. The first admin key of an empty database is made here and shown once."""
        if self.settings.is_dev:
            return OpenAccess()
        if self.settings.admin_key:
            admin_hash = key_hash(self.settings.admin_key)
            if len(self.settings.admin_key) < SHORTEST_ADMIN_KEY:
                why = f"HORAE_ADMIN_KEY has fewer than {SHORTEST_ADMIN_KEY} characters: it may be guessed"
                warn("access.short_key", why=why)
        else:
            admin_hash = ""
            key = key_text(secrets.token_bytes(KEY_BYTES))
            new = NewKey(new_id(), "first admin key", "admin", (), key_prefix(key), key_hash(key))
            if await self.store.first_key(new):
                print(f"The admin key of this installation, shown only now: {key}", flush=True)  # noqa: T201 no log line
        access = KeyAccess(admin_hash, self.store, _tokens(self.settings, self.store))
        self._key_writer = group.create_task(Loop("keys", access.flush).run())
        return access

    def _make_app(self, access: Access) -> Starlette:
        remote = self._node.remote_workers()

        def wake() -> None:
            self._node.wake()
            remote.wake()

        def rules_changed() -> None:
            self._node.rules_changed()
            remote.wake()

        return make_app(
            commands=Commands(self.store, self._vault, new_id, wake, self._allow, rules_changed=rules_changed),
            views=self.store,
            access=access,
            around=Around(self._explain, self._export, self._not_ready, remote, self._stopping.is_set),
        )

    async def _explain(self, tenant: str, word: str, at_us: int | None) -> dict[str, Any]:
        facts = await self.store.explain_facts(tenant, word, at_us)
        return explain(facts, _retention_us(self.settings))

    def _export(self, tenant: str) -> AsyncIterator[bytes]:
        return self.store.export(_retention_us(self.settings), tenant)

    async def _not_ready(self) -> list[str]:
        """Why this process cannot serve: empty when it can."""
        reasons = []
        try:
            await self.store.check_schema()
        except HoraeError as error:
            reasons.append(in_brief(error))
        if self._node.guard.held:
            reasons.append(self._node.guard.held)
        return reasons


@contextlib.contextmanager
def _placed(job: Declared) -> Iterator[None]:
    """A fault of a job says where that is declared."""
    try:
        yield
    except Invalid as error:
        raise Invalid([replace(fault, pointer=f"{job.place}: {fault.pointer}") for fault in error.faults]) from None


class Front:
    """The door itself: open from the first moment, with something else behind it once the store is there."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def _server_config(app: Page) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
        lifespan="off",
        server_header=False,
        http=Intake,
        ws="none",
    )


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the app stops its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _secret_key(settings: Settings) -> str:
    """The given one, or one that is made once beside the data and read by nobody else."""
    if settings.secret_key:
        return settings.secret_key
    file = settings.data_folder / "secret.key"
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(secrets.token_urlsafe(48))
    return file.read_text().strip()


def _executors(settings: Settings, handlers: dict[str, Handler]) -> dict[str, Executor]:
    python = PythonExecutor(handlers, slots=settings.worker_slots)
    return {
        "http": HttpExecutor(allow_ranges(settings.egress_allow), Breaker(), proxy=read_proxy(settings.egress_proxy)),
        "shell": ShellExecutor(cast("Mode", settings.shell), grace_seconds=SHELL_GRACE_SECONDS),
        "python": python,
        "custom": python,
        "noop": NoopExecutor(),
    }


def _tokens(settings: Settings, store: Store) -> OidcTokens | None:
    if not settings.oidc_issuer:
        return None
    issuer = Issuer(
        settings.oidc_issuer,
        settings.oidc_audience,
        settings.oidc_tenant_claim,
        settings.oidc_role_claim,
        settings.oidc_role_map,
    )
    fetcher = Fetcher(allow_ranges(settings.egress_allow), proxy=read_proxy(settings.egress_proxy))
    return OidcTokens(issuer, fetcher.json, store.now)


async def check_audit(settings: Settings) -> list[dict[str, Any]]:
    """Whether the chain of every tenant's audit log holds, of a store that may be in use."""
    store = open_store(settings.database_url, is_shared=True)
    try:
        return [await store.check_audit(tenant) for tenant in await store.audit_chains()]
    finally:
        await store.close()


async def migrate_store(settings: Settings) -> list[str]:
    """Brings the schema up to date and returns the names of what was applied."""
    store = open_store(settings.database_url)
    try:
        done = await store.migrate()
        await store.sweep(_retention_us(settings))
    finally:
        await store.close()
    return done


async def missing_migrations(settings: Settings) -> list[str]:
    """What `migrate_store` would apply. A file that is not there is not made."""
    if settings.is_sqlite and not _has_file(settings):
        return [migration.name for migration in migrations("sqlite")]
    store = open_store(settings.database_url, is_shared=True)
    try:
        return await missing(store.database)
    finally:
        await store.close()


def _has_file(settings: Settings) -> bool:
    return Path(settings.database_url.removeprefix("sqlite:///")).exists()


async def export_history(settings: Settings, take: Callable[[bytes], object]) -> None:
    """Gives every line of the record of a store that may be in use, some of them at a time."""
    store = open_store(settings.database_url, is_shared=True)
    try:
        async for lines in store.export(_retention_us(settings)):
            take(lines)
    finally:
        await store.close()


def _retention_us(settings: Settings) -> int:
    return round(settings.retention_days * 86_400e6)
