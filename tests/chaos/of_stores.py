"""Faults of the database, its disk and the clocks: P26 to P35, P40 to P42."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg

from tests.chaos.case import Case
from tests.chaos.servers import build_shim, small_disk
from tests.chaos.world import World
from tests.system.harness import run


@contextlib.contextmanager
def offers(world: World, every: float = 0.1) -> Iterator[None]:
    """A client that creates jobs all the time and remembers which were acknowledged."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(every):
            world.offer(len(world.figures.acked) + world.figures.unknown)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(60)


def kill_the_server(world: World, reps: int) -> None:
    assert world.server
    for _ in range(reps):
        with offers(world):
            time.sleep(1 + world.dice.random())
            world.server.kill()
            world.server.start()
            since = time.time()
            world.recover(since)


def restart_the_server(world: World, reps: int) -> None:
    """Again and again, with a little time between."""
    assert world.server
    called = len(world.witness.calls)
    for _ in range(reps):
        for _ in range(10):
            time.sleep(6)
            world.server.restart()
        world.recover(time.time())
    world.figures.notes["calls_between"] = len(world.witness.calls) - called


def freeze_the_server(world: World, reps: int) -> None:
    assert world.server
    slowest = 0.0
    for _ in range(reps):
        world.server.freeze()
        end = time.time() + 20
        while time.time() < end:
            asked = time.time()
            status, _ = world.call("GET", "/jobs")
            slowest = max(slowest, time.time() - asked)
            assert status in (0, 503), f"the API said {status} while the database was frozen"
        world.server.thaw()
        world.recover(time.time())
    world.figures.notes["slowest_answer_s"] = round(slowest, 1)
    assert slowest < 15, f"the API took {slowest:.1f} s to say that the database is away"


def strangers(world: World, reps: int) -> None:
    """Other programs take every connection that the server has left."""
    before = world.ask("SELECT sum(epoch) FROM leases")

    async def crowd() -> None:
        taken = []
        with contextlib.suppress(asyncpg.PostgresError):
            while True:
                taken.append(await asyncpg.connect(world.url))
        end = time.time() + 10
        while time.time() < end:
            with contextlib.suppress(asyncpg.PostgresError):  # as soon as one is free it is taken, too
                taken.append(await asyncpg.connect(world.url))
            await asyncio.sleep(0.05)
        for connection in taken:
            connection.terminate()

    for _ in range(reps):
        run(crowd())
        time.sleep(1)
        world.recover(time.time())
    world.figures.notes["leases_lost"] = int(world.ask("SELECT sum(epoch) FROM leases") - before)


def terminate_backends(world: World, reps: int) -> None:
    one = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'horae' "
        "AND datname = current_database() ORDER BY random() LIMIT 1"
    )
    for _ in range(reps):
        since = time.time()
        for _ in range(40):
            world.ask(one)
            time.sleep(0.25)
        world.recover(since)


def refusals(world: World, reps: int) -> None:
    """A tenth of all changes of timers, runs and leases ends as a deadlock or a serialization failure."""
    world.ask(
        "CREATE FUNCTION chaos() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF random() < 0.1 THEN "
        "RAISE EXCEPTION 'chaos' USING ERRCODE = CASE WHEN random() < 0.5 THEN '40P01' ELSE '40001' END; "
        "END IF; RETURN NULL; END $$"
    )
    tables = ("timers", "runs", "leases", "workers")
    for _ in range(reps):
        since = time.time()
        for table in tables:
            world.ask(f"CREATE TRIGGER chaos AFTER UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION chaos()")
        time.sleep(10)
        for table in tables:
            world.ask(f"DROP TRIGGER chaos ON {table}")
        world.recover(since)


def long_transaction(world: World, reps: int) -> None:
    """Somebody's open transaction keeps old rows from being cleared away."""

    async def hold(seconds: float) -> None:
        connection = await asyncpg.connect(world.url)
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM runs")
        await asyncio.sleep(seconds)
        await connection.close()

    for _ in range(reps):
        since = time.time()
        run(hold(60))
        world.recover(since)
    dead = "SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname IN ('runs', 'timers')"
    world.figures.notes["dead_rows"] = int(world.ask(dead) or 0)


def disk_full(world: World, reps: int) -> None:
    with small_disk(16) as disk:
        world.data = disk
        world.fleet()
        world.load(5, 1)
        world.wait_steady()
        filler = disk / "filler"
        for _ in range(reps):
            with offers(world):
                time.sleep(1)
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while True:
                        file.write(b"\0" * 4096)
                time.sleep(5)
                filler.unlink()
                world.recover(time.time())
        _check_file(world)
        _keep(world, disk)


def _keep(world: World, disk: Path) -> None:
    """The disk goes before the verdict: what it holds is moved to one that stays."""
    world.settled_us = world.settle()
    world.stop()
    world.data = world.folder
    for file in disk.glob("horae.db*"):
        (world.folder / file.name).write_bytes(file.read_bytes())


def sync_fails(world: World, reps: int) -> None:
    """fsync and fdatasync of the database file and its log end with EIO for ten seconds."""
    switch = world.folder / "disk"
    switch.write_text("ok")
    shim = build_shim("disk", world.folder)
    more = {"LD_PRELOAD": str(shim), "HORAE_TEST_DISK": str(switch), "HORAE_TEST_DISK_MATCH": "horae.db"}
    world.fleet(**more)
    world.load(5, 1)
    world.wait_steady()
    for _ in range(reps):
        with offers(world):
            time.sleep(1)
            switch.write_text("eio")
            time.sleep(10)
            switch.write_text("ok")
            world.recover(time.time())
    _check_file(world)


def kill_all_in_one(world: World, reps: int) -> None:
    for _ in range(reps):
        with offers(world, 0.02):
            time.sleep(0.3 + world.dice.random())
            since = world.kill(world.of("all")[0])
        world.start("all")
        world.recover(since)
    _check_file(world)


def _check_file(world: World) -> None:
    told = world.ask("PRAGMA integrity_check")
    assert told == "ok", f"the file is damaged: {told}"


def node_clocks(world: World, reps: int) -> None:
    """One node ten minutes behind, one ten minutes ahead, and both jump; the database's clock is right."""
    shim = build_shim("clock", world.folder)
    right = world.of("scheduler") + world.of("worker")
    files = []
    for role in ("scheduler", "worker"):
        for minutes in (-10, 10):
            file = world.folder / f"clock-{role}-{minutes}"
            file.write_text(str(minutes * 60_000))
            files.append(file)
            world.start(role, LD_PRELOAD=str(shim), HORAE_TEST_CLOCK=str(file))
    for node in right:
        world.terminate(node)
    world.wait_steady()
    for _ in range(reps):
        since = time.time()
        for file in files:
            file.write_text(str(-int(file.read_text())))
        world.recover(since)


def clock_back(world: World, reps: int) -> None:
    """Nothing is triggered or taken back until the clock has caught up."""
    for _ in range(reps):
        before = len(world.witness.calls)
        reaped = "SELECT count(*) FROM attempts WHERE reason = 'worker_lost'"
        was = world.ask(reaped)
        world.shift(world.shifts[-1][1] - 30)
        time.sleep(25)
        called = [call for call in world.witness.calls[before:] if call.arrived > world.shifts[-1][0] + 3]
        assert not called, f"{len(called)} calls while the clock was behind"
        time.sleep(5)
        world.recover(time.time())
        assert world.ask(reaped) == was, "runs were taken back from live workers"


def clock_ahead(world: World, reps: int) -> None:
    """Held until it has proved steady; then what the jump passed over is decided by the misfire policy."""
    for _ in range(reps):
        since = time.time()
        world.shift(world.shifts[-1][1] + 3600)
        time.sleep(10)
        held = [call for call in world.witness.calls if call.arrived > since + 2]
        assert not held, f"{len(held)} calls before the clock had proved steady"
        for load in world.loads:
            load.seen = int(world.now()) + 20  # the jump passed over the rest; the verdict accounts for all of it
        time.sleep(20)
        world.recover(since, 120)


def machine_clock(world: World, reps: int) -> None:
    """SQLite: the machine's clock is the store's, and it jumps."""
    shim, file = build_shim("clock", world.folder), world.folder / "clock"
    file.write_text("0")
    more: dict[str, Any] = {"LD_PRELOAD": str(shim), "HORAE_TEST_CLOCK": str(file)}
    world.fleet(**more)
    world.load(5, 1)
    world.wait_steady()
    for _ in range(reps):
        for step in (-10, 10):
            offset = world.shifts[-1][1] + step
            file.write_text(str(round(offset * 1000)))
            world.shifts.append((time.time(), offset))
            time.sleep(12)
            world.recover(time.time())


def cases() -> list[Case]:
    own: dict[str, str] = {}
    fleet = {"schedulers": 2, "workers": 2}
    return [
        Case("P26", "kill -9 of PostgreSQL, started again", 10, kill_the_server, server=own),
        Case("P27", "PostgreSQL restarted 10 times, every 6 s", 3, restart_the_server, server=own),
        Case("P28", "PostgreSQL frozen for 20 s", 3, freeze_the_server, server=own),
        Case("P29", "strangers take every connection for 10 s", 3, strangers, server={"max_connections": "40"}),
        Case("P30", "a connection terminated every 250 ms for 10 s", 3, terminate_backends, **fleet),
        Case("P31", "one change in ten refused: deadlock, serialization", 3, refusals, **fleet),
        Case("P32", "a stranger's transaction open for 60 s", 1, long_transaction),
        Case("P33", "SQLite on a full disk, then freed", 3, disk_full, store="sqlite", load=None),
        Case("P34", "SQLite: fsync fails for 10 s", 3, sync_fails, store="sqlite", load=None),
        Case("P35", "kill -9 of SQLite all-in-one under load", 50, kill_all_in_one, store="sqlite"),
        Case("P40", "node clocks 10 minutes behind and ahead, jumping", 3, node_clocks),
        Case("P41", "database clock 30 s back", 3, clock_back, settle=120),
        Case("P42", "database clock an hour ahead", 1, clock_ahead, settle=180),
        Case("P41b", "SQLite: machine clock 10 s back, then ahead", 3, machine_clock, store="sqlite", load=None),
    ]
