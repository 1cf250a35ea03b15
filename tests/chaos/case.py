"""What a case is: a fault, how often, on what fleet. How one is carried out from start to verdict."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.judge import Verdict, judge
from tests.chaos.servers import Postgres
from tests.chaos.world import World, opened

Act = Callable[[World, int], None]


@dataclass(frozen=True)
class Case:
    """`act` does the fault `reps` times, each time from a steady fleet, and leaves it whole again.

    `server`: settings of a PostgreSQL of its own; None takes the shared one. `load`: keywords of World.load; None means
    that the case makes its own.
    """

    id: str
    fault: str
    reps: int
    act: Act
    store: str = "postgres"
    schedulers: int = 1
    workers: int = 1
    load: dict[str, Any] | None = field(default_factory=dict)
    server: dict[str, str] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    is_quick: bool = False
    settle: float = 60.0


def carry_out(case: Case, server_url: str, reps: int | None = None, seed: int = 1) -> Verdict:
    """AssertionError: the fleet did not recover. MissingToolError: this machine cannot make the fault."""
    settings = {f"HORAE_{name}": value for name, value in case.settings.items()}
    with contextlib.ExitStack() as stack:
        server = None
        if case.server is not None:
            server = Postgres(**case.server)
            stack.callback(server.close)
        url = "" if case.store == "sqlite" else server_url
        world = stack.enter_context(opened(World(seed, url, server, **settings)))
        if case.load is not None:
            world.fleet(case.schedulers, case.workers)
            world.load(**case.load)
            world.wait_steady()
        case.act(world, reps or case.reps)
        return judge(world, settle=case.settle)


def shared_server() -> tuple[str, Callable[[], None]]:
    """The URL of a server that cases may share, and how to end it."""
    if url := os.environ.get("HORAE_TEST_CHAOS_URL"):
        return url, lambda: None
    server = Postgres()
    return server.url, server.close
