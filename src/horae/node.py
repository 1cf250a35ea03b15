"""The movers of one process: a scheduler's, a worker's, and the loops that keep them moving until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from horae.config import Settings
from horae.core.errors import Unavailable
from horae.core.timeguard import TimeGuard
from horae.notify.relay import Relay
from horae.ports import Executor, Pace, Sender
from horae.scheduler.janitor import Janitor
from horae.scheduler.planner import Planner
from horae.scheduler.shards import Shards
from horae.store.store import Store
from horae.telemetry import log, oops, runs_in_hand, store_away, store_back, warn
from horae.vault import Vault
from horae.worker.loop import Worker, WorkerSettings
from horae.worker.opening import Opener
from horae.worker.pieces import Redactors
from horae.worker.remote import RemoteWorkers
from horae.worker.secrets import Secrets

STORE_AWAY_SECONDS = 0.5
BROKEN_SECONDS = 1.0
WAIT_SECONDS = 0.02
# They keep what is held, at their own pace; nothing new is any of their business.
KEEPERS = ("shards", "heartbeat", "strays")


class Loop:
    """Asks one mover to move, again and again: when it said, or when woken."""

    def __init__(self, name: str, tick: Callable[[], Awaitable[float]]) -> None:
        self._name = name
        # The others may have had nothing to ask, and know nothing of the store.
        self._always_asks = name in ("shards", "heartbeat")
        self._is_keeper = name in KEEPERS
        self._tick = tick
        self._woken = asyncio.Event()
        self._is_away = False

    def wake(self) -> None:
        self._woken.set()

    def hear(self) -> None:
        """Of something new, somewhere."""
        if not self._is_keeper:
            self.wake()

    async def run(self) -> None:
        while True:
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
            store_away(self._name)
            return STORE_AWAY_SECONDS
        except Exception as error:  # noqa: BLE001 a mover never dies of one bad round
            oops("mover.broken", error, mover=self._name)
            return BROKEN_SECONDS
        if self._is_away and self._always_asks:
            log("store.back", mover=self._name)
        if self._is_away:
            store_back(self._name)
        self._is_away = False
        return delay


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker works with: executors by job type, `needs` that they meet beyond what every worker can run, the
    keys of secrets, and the way to webhooks.
    """

    executors: Mapping[str, Executor]
    needs: tuple[str, ...]
    vault: Vault
    sender: Sender | None = None


class Node:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        tools: Tools,
        new_id: Callable[[], str],
        name: str,
    ) -> None:
        self._store = store
        self._tools = tools
        self._settings = settings
        self._new_id = new_id
        self._name = name
        self._loops: list[Loop] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.guard = TimeGuard()
        self.shards: Shards | None = None
        self.worker: Worker | None = None
        self._claims: Loop | None = None

    def start(self, group: asyncio.TaskGroup) -> None:
        roles = self._settings.role_set
        if "scheduler" in roles:
            self._add_scheduler()
        if "worker" in roles:
            self._tasks.append(group.create_task(self._add_worker().results.run()))
        self._tasks += [group.create_task(loop.run()) for loop in self._loops]

    def wake(self) -> None:
        """There is something new; the movers would find it by themselves a little later."""
        for loop in self._loops:
            loop.hear()

    def _wake_claims(self) -> None:
        """Runs were planned, which is no business of the others."""
        if self._claims is not None:
            self._claims.wake()

    def rules_changed(self) -> None:
        """A pause that was answered holds here at once; the workers of other processes find it within a second."""
        if self.worker is not None:
            self.worker.look_anew()
        self.wake()

    async def stop(self) -> None:
        """Leases go first, then running work ends or goes back; heartbeats go on until it has."""
        if self.shards is not None:
            with contextlib.suppress(Unavailable):
                await self.shards.stop()
        if self.worker is not None:
            await self.worker.drain()
        self.kill()

    def kill(self) -> None:
        """At once, without a word to anybody."""
        for task in self._tasks:
            task.cancel()
        if self.worker is not None:
            self.worker.abandon()

    def remote_workers(self) -> RemoteWorkers:
        """For workers that come over HTTP to this process."""
        pace = Pace(self._settings.heartbeat_seconds, self._settings.visibility_seconds)
        secrets = Secrets(self._store, self._tools.vault)
        return RemoteWorkers(self._store, secrets, pace, self.guard, self._may_claim)

    def _may_claim(self) -> bool:
        """After an outage the misfire policy has the first word about what was staged for it."""
        return self.shards is None or self.shards.has_spoken

    async def _claim_after_scheduler(self) -> float:
        if self.worker is None or not self._may_claim():
            return WAIT_SECONDS
        return await self.worker.tick()

    def _loop(self, name: str, tick: Callable[[], Awaitable[float]]) -> Loop:
        loop = Loop(name, tick)
        self._loops.append(loop)
        return loop

    def _add_scheduler(self) -> None:
        settings = self._settings
        self.shards = shards = Shards(self._store, self._new_id(), settings.lease_seconds, self.guard)
        planner = Planner(self._store, shards, self.guard, settings.lookahead_seconds, self._wake_claims)
        secrets = Secrets(self._store, self._tools.vault)
        close_logs = Redactors(Opener(self._store, secrets), secrets).close
        janitor = Janitor(self._store, shards, self.guard, settings.retention_days * 86_400, close_logs)

        async def keep() -> float:
            had = len(shards.held)
            delay = await shards.tick()
            if len(shards.held) > had:
                self.wake()
            return delay

        planner.on_free_shards = self._loop("shards", keep).wake
        self._loop("planner", planner.tick)
        self._loop("janitor", janitor.tick)

    def _add_worker(self) -> Worker:
        settings = self._settings
        self.worker = worker = Worker(
            self._store,
            WorkerSettings(
                node=self._name,
                slots=settings.worker_slots,
                queues=settings.queues,
                heartbeat_seconds=settings.heartbeat_seconds,
                visibility_seconds=settings.visibility_seconds,
            ),
            self._tools.executors,
            self._tools.needs,
            self.guard,
            self._new_id,
            Secrets(self._store, self._tools.vault),
        )
        runs_in_hand(lambda: worker.running, settings.worker_slots)
        self._claims = claims = self._loop("worker", self._claim_after_scheduler)
        worker.on_room = worker.results.on_more = claims.wake
        self._loop("heartbeat", worker.beat)
        self._loop("cancels", worker.watch_cancels)
        self._loop("strays", worker.find_strays)
        self._loop("ahead", worker.read_ahead)
        if self._tools.sender is not None:
            self._loop("relay", Relay(self._store, self._tools.sender, self._tools.vault).tick)
        return worker
