"""A real fleet under real load: processes, database, witness; how to hurt it, and how long it took to recover."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.proxy import Proxy
from tests.chaos.servers import Postgres, state_of
from tests.chaos.witness import Witness
from tests.services import on_server, with_database
from tests.system.harness import Process

KEY = "an-admin-key-for-tests"
QUICK = {"LEASE": "2", "VISIBILITY": "2", "HEARTBEAT": "0.5", "LOOKAHEAD": "1"}
TTL = 2.0
ON_TIME = 0.5  # a due time that has no call after this is waited for
WATCH = 4.0  # a fault shows within the lease and the visibility time, or not at all
QUIET = 1.5
START = 120.0  # a machine may be busy with many fleets at once


@dataclass
class Load:
    """A job that is due every second. `is_steady`: every due time must be called, so it shows how late the fleet is."""

    name: str
    path: str
    is_once: bool
    is_steady: bool
    since: int  # the first due time that surely belongs to it
    seen: int = 0

    def is_behind(self, witness: Witness, now: float) -> bool:
        calls = witness.of_job(self.name)
        self.seen = max(self.seen, self.since)
        while self.seen in calls:
            self.seen += 1
        return self.seen <= now - ON_TIME


class Node:
    """One process of the fleet, perhaps behind a proxy of its own."""

    def __init__(self, role: str, process: Process, link: Proxy | None) -> None:
        self.role = role
        self.process = process
        self.link = link

    @property
    def pid(self) -> int:
        return self.process.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.process.poll() is None

    def freeze(self) -> None:
        self.process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.signal(signal.SIGCONT)

    def log(self) -> str:
        return self.process.log.read_text()


@dataclass
class Figures:
    """What a case measured beside the verdict."""

    recoveries: list[float] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    acked: list[tuple[str, str]] = field(default_factory=list)  # jobs whose creation was answered with 201: name, id
    unknown: int = 0


class World:
    """Opened for one case. `server` is ours alone if the case hurts it, otherwise one that several share."""

    def __init__(self, seed: int, server_url: str = "", server: Postgres | None = None, **environment: str) -> None:
        self.dice = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="horae-world-"))
        self.witness = Witness()
        self.server = server
        self.nodes: list[Node] = []
        self.loads: list[Load] = []
        self.shifts: list[tuple[float, float]] = [(0.0, 0.0)]
        self.figures = Figures()
        self.settled_us = 0  # set by a case that has to end its world itself
        self._behind_at = 0.0
        self._is_over = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()
        self.environment = {f"HORAE_{name}_SECONDS": value for name, value in QUICK.items()} | environment
        self.data = self.folder
        self.database = f"chaos_{secrets.token_hex(6)}"
        self.server_url = server.url if server else server_url
        self.is_sqlite = not self.server_url
        if not self.is_sqlite:
            on_server(self.server_url, f"CREATE DATABASE {self.database}")
            self.url = with_database(self.server_url, self.database)
            self.horae("migrate", "--database-url", self.url)

    # Processes

    def start(self, role: str, failpoints: str = "", *, link: bool = False, wait: bool = True, **more: str) -> Node:
        """`role` is what HORAE_ROLES takes; on SQLite the one process does everything."""
        environment = self.environment | more
        if failpoints:
            environment["HORAE_FAILPOINTS"] = failpoints
        proxy = None
        if self.is_sqlite:
            process = Process(self.folder, "dev", **environment, HORAE_DATA=str(self.data))
        else:
            url = self.url
            if link:
                port = int(self.server_url.rpartition(":")[2].split("/")[0])
                proxy = Proxy("127.0.0.1", port, self.dice.randrange(1 << 30))
                url = url.replace(f":{port}/", f":{proxy.port}/")
            environment |= {
                "HORAE_DATABASE_URL": url,
                "HORAE_ROLES": role,
                "HORAE_ADMIN_KEY": KEY,
                "HORAE_SECRET_KEY": "a-secret-key-of-more-than-32-characters",
                "HORAE_EGRESS_ALLOW": "127.0.0.0/8",
                "HORAE_SHELL": "on",
            }
            process = Process(self.folder, "serve", **environment)
        node = Node(role, process, proxy)
        self.nodes.append(node)
        if wait:
            self.wait(lambda: '"started"' in node.log() or not node.is_alive, START)
        return node

    def fleet(self, schedulers: int = 1, workers: int = 1, **more: Any) -> None:
        """On SQLite one process, on PostgreSQL an API and the rest."""
        if self.is_sqlite:
            self.start("all", **more)
        else:
            roles = ["api"] + ["scheduler"] * schedulers + ["worker"] * workers
            begun = [self.start(role, wait=False, **more) for role in roles]
            self.wait(lambda: all('"started"' in node.log() for node in begun), START)
        self.wait(self._is_served, START)

    def of(self, role: str) -> list[Node]:
        return [node for node in self.nodes if node.is_alive and (self.is_sqlite or role in node.role)]

    def kill(self, node: Node) -> float:
        node.process.kill()
        return time.time()

    def wait_stopped(self, node: Node, limit: float = START) -> float:
        self.wait(lambda: state_of(node.pid) in ("T", "Z", ""), limit)
        return time.time()

    def wait_dead(self, node: Node, limit: float = START) -> float:
        self.wait(lambda: not node.is_alive, limit)
        return time.time()

    def terminate(self, node: Node) -> float:
        began = time.time()
        node.process.signal(signal.SIGTERM)
        self._ended(node)
        return time.time() - began

    def _ended(self, node: Node) -> None:
        code = node.process.process.wait(45)
        if code != 0:
            raise AssertionError(f"a {node.role} ended with {code}:\n{node.log()[-2000:]}")

    # The API

    def _is_served(self) -> bool:
        with contextlib.suppress(OSError):
            return self.of("api")[0].process.call("GET", "/readyz")[0] == 200
        return False

    def call(
        self, method: str, path: str, body: Any = None, once: str = "", node: Node | None = None, *, tenant: str = ""
    ) -> Any:
        """(status, answer); status 0 when there was no answer at all."""
        port = (node or self.of("api")[0]).process.port
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {KEY}")
        if once:
            request.add_header("Idempotency-Key", once)
        if tenant:
            request.add_header("X-Horae-Tenant", tenant)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(errors="replace")
        except OSError:
            return 0, None

    def create(self, name: str, **fields: Any) -> str:
        body = {"name": name, "type": "http", "target": {"url": f"{self.witness.url}/ok"}} | fields
        body.setdefault("retry", {"max_retries": 50})
        status, answer = self.call("POST", "/jobs", body)
        if status != 201:
            raise AssertionError(f"POST /jobs: {status} {answer}")
        return str(answer["job_id"])

    def load(self, jobs: int = 10, once: int = 2, path: str = "/ok", **fields: Any) -> None:
        """Jobs that are due every second; `once` of them at most once."""
        misfire = {"policy": "catch_up", "max": 1000, "window": "2h"}
        for number in range(jobs + once):
            is_once = number >= jobs
            name = f"{'once' if is_once else 'job'}-{len(self.loads)}"
            delivery = "at_most_once" if is_once else "at_least_once"
            document = {"schedule": every_second(self.now()), "delivery": delivery, "misfire": misfire} | fields
            self.create(name, target={"url": self.witness.url + path}, **document)
            since = int(self.now()) + 1
            self.loads.append(Load(name, path, is_once, is_steady=not is_once, since=since))

    def offer(self, number: int) -> None:
        """One request of a client that notes what was promised to it; a job that is never due."""
        name = f"offered-{number}"
        with contextlib.suppress(IndexError):
            status, answer = self.call("POST", "/jobs", {"name": name, "type": "noop", "schedule": "@manual"})
            if status == 201:
                self.figures.acked.append((name, str(answer["job_id"])))
                return
        self.figures.unknown += 1

    # Time

    def now(self) -> float:
        return time.time() + self.shifts[-1][1]

    def shift(self, seconds: float) -> None:
        """Moves the store's clock, from now on."""
        on_server(
            self.url,
            f"CREATE OR REPLACE FUNCTION horae_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$ SELECT "
            f"(extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT + {round(seconds * 1e6)} $$",
        )
        self.shifts.append((time.time(), seconds))

    def wait(self, check: Callable[[], Any], limit: float = 30, every: float = 0.05) -> None:
        end = time.monotonic() + limit
        while not check():
            if time.monotonic() > end:
                raise AssertionError(f"not so after {limit} s: {check.__qualname__}")
            time.sleep(every)

    def wait_steady(self, limit: float = 60) -> None:
        """No due time has been waiting for a moment."""
        self._watch(time.time(), QUIET, limit)

    def recover(self, since: float, limit: float = 90) -> float:
        """Seconds from a moment until the last due time that had to wait was called; noted."""
        seconds = self._watch(since, WATCH, limit)
        self.figures.recoveries.append(seconds)
        return seconds

    def _watch(self, since: float, at_least: float, limit: float) -> float:
        end = time.time() + limit
        while True:
            now, last = time.time(), max(self._behind_at, since)
            if now - since >= at_least and now - last >= QUIET:
                return last - since
            if now > end:
                waiting = {load.name: load.seen for load in self.loads if load.is_behind(self.witness, self.now())}
                raise AssertionError(f"still behind after {limit} s: {waiting} at {self.now():.1f}")
            time.sleep(0.05)

    def _look(self) -> None:
        """All the time, in a thread of its own: when was a due time last waited for?"""
        while not self._is_over.wait(0.05):
            now = self.now()
            if any([load.is_behind(self.witness, now) for load in list(self.loads) if load.is_steady]):  # noqa: C419 each counts on
                self._behind_at = time.time()

    # The store, looked at from outside

    def ask(self, statement: str) -> Any:
        if not self.is_sqlite:
            return on_server(self.url, statement)
        with contextlib.closing(sqlite3.connect(f"file:{self.data}/horae.db?mode=ro", uri=True, timeout=10)) as raw:
            raw.create_function("horae_now", 0, lambda: round(self.now() * 1e6))
            row = raw.execute(statement).fetchone()
            return row[0] if row else None

    def horae(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        done = subprocess.run(
            [sys.executable, "-m", "horae", *words], env=clean, capture_output=True, text=True, check=False
        )
        if done.returncode not in codes:
            raise AssertionError(f"horae {' '.join(words)} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def settle(self, limit: float = 60) -> int:
        """Waits until everything that is due by now is over; returns that moment."""
        until_us = int(self.now()) * 1_000_000
        undecided = f"SELECT count(*) FROM timers WHERE due_us <= {until_us}"
        unfinished = f"SELECT count(*) FROM runs WHERE available_us <= {until_us}"
        self.wait(lambda: self.ask(undecided) == 0 == self.ask(unfinished), limit, every=0.2)
        return until_us

    def stop(self) -> None:
        alive = [node for node in self.nodes if node.is_alive]
        for node in alive:
            node.thaw()
            node.process.signal(signal.SIGTERM)
        for node in alive:
            self._ended(node)

    def close(self) -> None:
        self._is_over.set()
        for node in self.nodes:
            if node.is_alive:
                node.process.kill()
            if node.link:
                node.link.close()
        self.witness.close()
        if self.server is None and not self.is_sqlite:
            with contextlib.suppress(Exception):
                on_server(self.server_url, f"DROP DATABASE {self.database} WITH (FORCE)")


def every_second(now: float) -> str:
    """In the hours around now only: `horae verify` works out every second of every day that a line names."""
    hour = int(now // 3600)
    return f"* * {','.join(str(each) for each in sorted((hour + n) % 24 for n in range(-1, 4)))} * * *"


@contextlib.contextmanager
def opened(world: World) -> Iterator[World]:
    """The folder with its logs stays when the case went wrong."""
    try:
        yield world
    except BaseException:
        print(f"logs: {world.folder}", file=sys.stderr)
        raise
    else:
        subprocess.run(["rm", "-rf", str(world.folder)], check=False)
    finally:
        world.close()
