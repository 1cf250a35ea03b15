"""`horae bench` on both databases, small: that every case works, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bench import __main__ as whole
from bench import contest
from bench.__main__ import PEERS
from horae.bench import fleet, soak
from horae.bench.figures import Figures
from horae.bench.place import SCHEMA, Place
from horae.bench.run import CASES, Bench, attempt, run
from horae.bench.sizes import QUICK
from horae.cli.bench import bench as command
from horae.core.errors import Unavailable
from tests.services import on_server
from tests.system.shell import Shell

ROOT = Path(__file__).parents[2]
WALK = ("create", "plan", "drain", "path")
SMALL = replace(
    QUICK,
    jobs=1000,
    waiting=1500,
    seconds=1,
    rates=(20,),
    herd=(50,),
    registered=(500, 1000),
    backlog=(500,),
    history=(0, 500),
    workers=(2,),
    tenants=(1, 20),
    soak_seconds=4,
    held_seconds=4,
)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_bench_measures_horae_beside_the_bare_database(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_database") if database == "postgres" else str(tmp_path / "bench.db")
    words = [word for case in WALK for word in ("--case", case)]

    told = Shell(tmp_path, None).ok("bench", "--url", url, "--quick", *words, "-o", "json").json

    measured = {(each["case"], each["shape"], each["subject"]): each["median"] for each in told["figures"]}
    assert measured.keys() == {(case, database, who) for case in WALK for who in ("horae", "bare")}
    assert all(value > 0 for value in measured.values())
    assert told["remarks"] == []
    judged = [each for each in told["verdicts"] if each["under"]]
    assert {each["over"]["case"] for each in judged} == set(WALK)
    for each in judged:
        case = each["over"]["case"]
        assert each["value"] == pytest.approx(measured[case, database, "horae"] / measured[case, database, "bare"])
    assert list(tmp_path.glob("bench.db*")) == []
    if database == "postgres":
        assert not on_server(url, f"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname LIKE '{SCHEMA}%')")


def test_a_bench_refuses_a_database_that_holds_jobs(tmp_path: Path, postgres_database: str) -> None:
    shell = Shell(tmp_path, None)
    shell.ok("demo", "load", "--jobs", "3", "--runs", "0", "--database-url", postgres_database)

    done = shell("bench", "--url", postgres_database, "--quick", "--case", "plan")

    assert done.code == 4
    assert "holds jobs of horae" in done.err
    assert on_server(postgres_database, "SELECT count(*) FROM jobs") == 3


async def test_a_bench_refuses_a_database_where_another_runs(tmp_path: Path, postgres_database: str) -> None:
    async with Place(postgres_database).alone():
        done = await asyncio.to_thread(
            Shell(tmp_path, None), "bench", "--url", postgres_database, "--quick", "--case", "plan"
        )

    assert done.code == 4
    assert "A benchmark runs in this database" in done.err


def test_a_bench_refuses_a_schema_that_is_not_its_own(tmp_path: Path, postgres_database: str) -> None:
    on_server(postgres_database, f"CREATE SCHEMA {SCHEMA}")
    on_server(postgres_database, f"CREATE TABLE {SCHEMA}.precious (n integer)")

    done = Shell(tmp_path, None)("bench", "--url", postgres_database, "--quick", "--case", "create")

    assert done.code != 0
    assert f"The schema {SCHEMA} of this database was not made by a benchmark" in done.err
    assert on_server(postgres_database, f"SELECT count(*) FROM {SCHEMA}.precious") == 0


@pytest.mark.parametrize(
    "url",
    [
        "mysql://there/bench",
        ":memory:",
        "/proc/there/bench.db",
        "sqlite:///:memory:",
        "",
        "  ",
        "postgresql://[there",
        "postgresql://h:abc/x",
        "long" * 99,
    ],
)
def test_a_bench_refuses_what_is_no_place(tmp_path: Path, url: str) -> None:
    done = Shell(tmp_path, None)("bench", "--url", url, "--quick", "--case", "create")

    assert done.code == 2
    assert done.err.startswith("error: --url: ")
    assert "hint: " in done.err
    assert list(tmp_path.glob("mysql*")) == []


@pytest.mark.parametrize("end", ["127.0.0.1:1/x", "127.0.0.1/x?sslmode=bogus"])
def test_a_server_that_cannot_be_reached_is_told_in_words(tmp_path: Path, end: str) -> None:
    done = Shell(tmp_path, None)("bench", "--url", f"postgresql://{end}", "--quick", "--case", "create")

    assert done.code == 4
    assert "PostgreSQL cannot be reached: " in done.err
    assert "Traceback" not in done.err


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ("bench", "--quick", "--case", "create", "--out", str(tmp_path / "file" / "out"))

    done = Shell(tmp_path, None)(*words)

    assert done.code == 2
    assert done.err.startswith("error: --out: ")
    assert "round" not in done.err


def test_a_folder_whose_figures_cannot_be_replaced_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "out" / "bench.json").mkdir(parents=True)

    done = Shell(tmp_path, None)("bench", "--quick", "--case", "create", "--out", str(tmp_path / "out"))

    assert done.code == 2
    assert "bench.json cannot be written to: Is a directory" in done.err
    assert "round" not in done.err


def test_a_bench_works_beside_an_empty_horae(tmp_path: Path, postgres_database: str) -> None:
    shell = Shell(tmp_path, None)
    shell.ok("migrate", "--database-url", postgres_database)

    shell.ok("bench", "--url", postgres_database, "--quick", "--case", "plan")

    assert on_server(postgres_database, "SELECT count(*) FROM jobs") == 0
    assert on_server(postgres_database, "SELECT count(*) FROM runs") == 0


@pytest.mark.parametrize("name", ["mine.db", "mine.db_2"])
def test_a_bench_refuses_a_file_that_is_there(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("precious")

    done = Shell(tmp_path, None)("bench", "--url", str(tmp_path / "mine.db"), "--quick")

    assert done.code == 2
    assert "exists" in done.err
    assert file.read_text() == "precious"


def test_a_bench_refuses_an_empty_file_and_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "nothing.db")

    for name in ("empty.db", "link.db"):
        done = Shell(tmp_path, None)("bench", "--url", str(tmp_path / name), "--quick")
        assert done.code == 2
        assert f"{name} exists" in done.err

    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == ["empty.db", "link.db"]


def test_a_bench_leaves_files_alone_that_are_called_alike(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("bench.db.backup", "bench.db-notes.txt", "bench")]
    for file in kept:
        file.write_text("precious")

    told = Shell(tmp_path, None).ok(
        "bench", "--url", str(tmp_path / "bench.db"), "--quick", "--case", "plan", "--out", str(tmp_path / "out")
    )

    assert all(file.read_text() == "precious" for file in kept)
    assert not (tmp_path / "bench.db").exists()
    about = json.loads((tmp_path / "out" / "bench.json").read_text())["about"]
    assert about["cases"] == ["plan"]
    assert about["size"]["rounds"] == 1
    assert (tmp_path / "out" / "limits.svg").exists()
    assert told.err


def test_a_bench_refuses_what_a_killed_one_left(tmp_path: Path) -> None:
    (tmp_path / "mine.db-wal").write_text("precious")

    done = Shell(tmp_path, None)("bench", "--url", str(tmp_path / "mine.db"), "--quick")

    assert done.code == 2
    assert "mine.db-wal exists" in done.err


def test_quick_and_full_are_not_both(tmp_path: Path) -> None:
    done = Shell(tmp_path, None)("bench", "--quick", "--full")

    assert done.code == 2
    assert "one of them" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cases", "nonsense"), "There is no case nonsense"),
        (("--peers", "pgqueuer,typo"), "There is no peer typo"),
        (("--rounds", "0"), "at least 1"),
        (("--rounds", "x"), "no number of rounds"),
        (("--quick", "--full"), "not allowed with"),
    ],
)
def test_words_that_mean_nothing_are_refused(words: tuple[str, ...], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert told in done.stderr


async def test_a_case_that_breaks_lets_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def broken(bench: Bench) -> None:
        raise asyncpg.PostgresError("no room left")

    monkeypatch.setitem(CASES, "plan", broken)
    bench = Bench(Place(str(tmp_path / "bench.db")), SMALL, Figures(), print, ["plan", "drain"])

    await run(bench)

    assert bench.figures.failed == ["plan"]
    assert "no room left" in bench.figures.remarks["plan", "sqlite", "horae"]
    assert {key.case for key in bench.figures.values} == {"drain"}


async def test_horae_and_the_bare_database_take_turns_on_a_server_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[int] = []
    place = Place(str(tmp_path / "bench.db"))
    bench = Bench(place, replace(SMALL, rounds=2), Figures(), print, ["plan"], rest=lambda: rests.append(bench.number))
    begun: list[str] = []
    add = Figures.add

    def added(self: Figures, *given: Any) -> None:
        begun.append(given[2])
        add(self, *given)

    monkeypatch.setattr(Figures, "add", added)

    await run(bench)

    assert begun == ["horae", "bare", "bare", "horae"]
    assert rests.count(1) == rests.count(2) == 3


async def test_what_is_left_of_a_dead_process_is_no_good_figure(tmp_path: Path) -> None:
    async with fleet.process("serve", "--nonsense", url=f"sqlite:///{tmp_path / 'bench.db'}") as started:
        with pytest.raises(Unavailable):
            await started.wait_ready()

        with pytest.raises(Unavailable, match="has ended with exit code"):
            started.memory()
        with pytest.raises(Unavailable, match="has ended with exit code"):
            started.cpu_seconds()


async def test_a_soak_in_which_nothing_is_drained_ends(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "STUCK_SECONDS", 0.3)
    monkeypatch.setattr(soak, "JOBS", 100)
    place = Place(postgres_database)

    with pytest.raises(Unavailable, match="Nothing was drained"):
        await soak.soak(place, 10, lambda _: contextlib.nullcontext(), is_held=True)

    await place.wipe()


FAKE_PEER = """
import os, struct, sys, time
if sys.argv[1] == "fill":
    print('{"seconds": 0.5, "due": null}')
else:
    with open(os.environ["BENCH_FOLDER"] + "/marks", "ab") as file:
        for number in range(COUNT):
            file.write(struct.pack("d", 1000.0 + number / 100))
    print("no more jobs", file=sys.stderr)
"""


@pytest.mark.parametrize(("ran", "told"), [(51, ""), (7, "7 of 51 jobs ran"), (0, "0 of 51 jobs ran")])
def test_a_peer_is_timed_by_its_marks_and_missed_when_some_are_missing(
    ran: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "install", lambda _: Path(sys.executable))
    (tmp_path / "fake.py").write_text(FAKE_PEER.replace("COUNT", str(ran)))
    peer = contest.Peer("pgqueuer", str(tmp_path / "fake.py"), "pgqueuer", "file", 51)
    bench = Bench(Place(str(tmp_path / "bench.db")), SMALL, Figures(), print)

    whole._drain_peer(bench, contest.Servers("", ""), peer, 1, 1)

    rates = {key.unit: values for key, values in bench.figures.values.items()}
    if told:
        assert (rates, bench.figures.failed) == ({}, ["drain"])
        assert told in bench.figures.remarks["drain", "sqlite, 1 process", "pgqueuer"]
        assert "no more jobs" in bench.figures.remarks["drain", "sqlite, 1 process", "pgqueuer"]
    else:
        assert rates == {"runs/s": [pytest.approx(102)], "enqueued/s": [pytest.approx(102)]}
        assert bench.figures.failed == []


def test_an_unknown_case_is_named(tmp_path: Path) -> None:
    done = Shell(tmp_path, None)("bench", "--case", "nonsense")

    assert done.code == 2
    assert 'no case "nonsense"; there are create, plan' in done.err


@pytest.mark.parametrize("case", [name for name in CASES if name not in WALK])
async def test_every_other_case_brings_figures(case: str, postgres_database: str) -> None:
    bench = Bench(Place(postgres_database), SMALL, Figures(), print)

    await attempt(bench, case)

    await bench.place.wipe()
    assert not on_server(postgres_database, f"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname LIKE '{SCHEMA}%')")
    assert bench.figures.remarks == {}
    measured = {(key.shape, key.unit): values[0] for key, values in bench.figures.values.items()}
    assert expected(case) <= measured.keys()
    assert all(measured[place] > 0 for place in expected(case))
    for (_, unit), value in measured.items():
        if unit in ("% done", "% staged before"):
            assert value == 100
    if case == "herd":
        assert 0 < measured["50", "p99 ms"] < measured["50", "p99 ms to the end"]


def expected(case: str) -> set[Any]:
    return {
        "processes": {("2 processes", "runs/s"), ("worker", "MB")},
        "http": {("1 process", "runs/s")},
        "door": {("http, one at a time", "p99 ms"), ("http, batches", "jobs/s")},
        "lateness": {("20/s even", "p99 ms"), ("20/s at once", "p99 ms"), ("20/s even", "% done")},
        "herd": {
            ("50", "p99 ms to the end"),
            ("50", "p99 ms"),
            ("50, jitter 10s", "p99 ms"),
            ("50, HIGH", "p50 ms"),
            ("50", "s to drain"),
        },
        "failover": {(how, unit) for how in ("kill -9", "stop") for unit in ("s", "max ms")},
        "idle": {("one host", "transactions/s"), ("one host", "MB")},  # the server of the tests counts no statements
        "start": {("dev", "ready s"), ("dev", "MB"), ("cli", "ms")},
        "jobs": {
            (f"{n} jobs", unit)
            for n in ("500", "1,000")
            for unit in ("first scan ms", "scan ms", "plan ms", "database MB", "scheduler MB", "host MB")
        },
        "backlog": {("500 waiting", unit) for unit in ("look ms", "claim ms", "settle ms")},
        "history": {(f"{n} finished", "settle ms") for n in ("0", "500")},
        "tenants": {("1 tenants", "runs/s"), ("20 tenants", "runs/s")},
        "gates": {
            (f"postgres, {rule}", "runs/s")
            for rule in ("plain", "overlap: skip", "max_concurrency: 5", "one of a hundred at a time")
        },
        "soak": {
            *((f"path, 4 s, {when}", "runs/s") for when in ("early", "late")),
            ("transaction held open, 4 s", "part left"),
        },
    }[case]


def test_every_case_is_documented() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)

    assert documented == [*CASES, *PEERS]
    assert f"The cases: {', '.join(CASES)}." in " ".join((command.help or "").split())


def test_every_peer_has_a_script_and_exact_versions() -> None:
    versions = contest._file()["environments"]

    for peer in contest.peers():
        assert (ROOT / "bench" / "peers" / peer.script).exists()
        assert bool(peer.jobs) != bool(peer.cannot_drain)
        assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", each) for each in versions[peer.environment]["requires"])
    text = (ROOT / "docs" / "performance.md").read_text()
    assert not [peer.name for peer in contest.peers() if f"| {peer.name} |" not in text]


def test_a_role_that_may_not_make_a_schema_is_told_so(tmp_path: Path, postgres_database: str) -> None:
    role = f"guest_{postgres_database.rpartition('/')[2]}"
    on_server(postgres_database, f"CREATE ROLE {role} LOGIN")
    try:
        url = postgres_database.replace("postgres@", f"{role}@")
        done = Shell(tmp_path, None)("bench", "--url", url, "--quick", "--case", "plan")
    finally:
        on_server(postgres_database, f"DROP ROLE {role}")

    assert done.code == 1
    assert "permission denied" in done.out
