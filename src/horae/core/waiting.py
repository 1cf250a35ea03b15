"""Why a run that is due has not started: what its tenant, its queue and the workers say at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# What only the run itself knows. The other reasons for waiting are looked at anew: they may be over.
OWN = frozenset({"job_concurrency", "rate_limited"})
PASSING = frozenset({"tenant_paused", "queue_paused", "tenant_concurrency", "slots_full"})
HELD_BACK = OWN | PASSING | {"no_worker", "no_worker_for_type"}


@dataclass(frozen=True, slots=True)
class Server:
    """A live worker: what it serves, what it offers, and how many slots it has free. One that came over HTTP takes
    runs of its handlers alone; one of the house also what needs nothing.
    """

    queues: frozenset[str]
    needs: frozenset[str]
    free: int
    is_shared: bool = True

    def serves(self, queue: str) -> bool:
        return "*" in self.queues or queue in self.queues

    def offers(self, need: str) -> bool:
        return need in self.needs if need else self.is_shared


@dataclass(frozen=True, slots=True)
class Around:
    """How things stand for one tenant. `paused`, `caps` and `running` are by queue, '' for the tenant as a whole."""

    workers: list[Server]
    paused: frozenset[str]
    caps: Mapping[str, int]
    running: Mapping[str, int]

    def is_full(self, queue: str) -> bool:
        most = self.caps.get(queue)
        return most is not None and self.running.get(queue, 0) >= most

    def of_queue(self, queue: str) -> list[Server]:
        return [worker for worker in self.workers if worker.serves(queue)]

    def able(self, queue: str, need: str) -> list[Server]:
        return [worker for worker in self.of_queue(queue) if worker.offers(need)]


def why_waits(around: Around, queue: str, need: str, said: str | None) -> str | None:
    """Of a run whose time has come. `said` is the reason that was written down for it. None: about to be taken."""
    if "" in around.paused:
        return "tenant_paused"
    if queue in around.paused:
        return "queue_paused"
    if said in OWN:
        return said
    if around.is_full(""):
        return "tenant_concurrency"
    if around.is_full(queue):
        return "slots_full"
    return _unserved(around, queue, need) or (None if said in PASSING else said)


def _unserved(around: Around, queue: str, need: str) -> str | None:
    if not around.of_queue(queue):
        return "no_worker"
    able = around.able(queue, need)
    if not able:
        return "no_worker_for_type"
    return "slots_full" if sum(worker.free for worker in able) <= 0 else None
