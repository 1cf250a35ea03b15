"""No block of commands, code or settings in the docs escapes: test_docs runs it by its mark, or it has a test here."""

from __future__ import annotations

import ast
import configparser
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from horae.cli import client, failure
from horae.cli.root import COMMANDS
from horae.config import read_settings
from horae.core.errors import HoraeError
from horae.telemetry import Figures
from tests.chaos.case import Case
from tests.services import on_server
from tests.system.harness import Process, free_port, wait_for
from tests.system.pages import DOCS, MARK, PAGES, ROOT, blocks, codes, prose, rows, section
from tests.system.shell import Shell

SOURCE = ROOT / "src" / "horae"
EXECUTABLE = {"sh", "python", "toml", "sql", "ini", "yaml", "http"}
# Blocks without the mark: page, how they begin, and the test that runs them.
OTHERWISE = {
    ("README.md", "make run"): "test_make_run_starts_horae_and_make_test_runs_the_suite",
    ("quickstart.md", "make run"): "test_make_run_starts_horae_and_make_test_runs_the_suite",
    ("README.md", "export HORAE_DATABASE_URL"): "test_the_production_commands_of_the_readme_start_a_closed_horae",
    ("production.md", "CREATE ROLE horae LOGIN"): "test_the_guide_to_production_leads_to_a_fleet_that_works",
    ("production.md", "export HORAE_DATABASE_URL"): "test_the_guide_to_production_leads_to_a_fleet_that_works",
    ("production.md", "horae migrate"): "test_the_guide_to_production_leads_to_a_fleet_that_works",
    ("production.md", "horae login prod"): "test_the_guide_to_production_leads_to_a_fleet_that_works",
    ("production.md", "[Unit]"): "test_the_unit_starts_a_command_that_exists",
    ("security.md", "export HORAE_OIDC_ISSUER"): "test_the_settings_of_an_issuer_are_read",
    ("security.md", "CREATE ROLE horae_api"): "test_the_wall_is_made_by_the_statements_of_the_page",
    ("cli.md", 'current = "prod"'): "test_the_file_of_contexts_is_read",
    ("cli.md", 'server = "https://horae.example.com"'): "test_the_file_of_a_project_is_read",
    ("architecture.md", "@transaction"): "test_the_examples_from_inside_are_code",
    ("performance.md", "horae bench"): "test_both_ways_to_the_benchmark_exist",
    ("chaos.md", "def kill_a_worker"): "test_the_examples_from_inside_are_code",
}


def only(page: str, start: str) -> str:
    (found,) = [block.text for block in blocks(_page(page)) if block.text.startswith(start)]
    return found


def _page(name: str) -> Path:
    return ROOT / name if name == "README.md" else DOCS / name


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}


def test_no_block_escapes() -> None:
    open_blocks = {
        (page.name, block.text.partition("\n")[0])
        for page in PAGES
        for block in blocks(page)
        if block.language in EXECUTABLE and not block.is_tested
    }

    known = {(page, start) for page, start in OTHERWISE if any(_is(each, page, start) for each in open_blocks)}
    escaped = [each for each in open_blocks if not any(_is(each, page, start) for page, start in OTHERWISE)]
    assert not escaped
    assert known == OTHERWISE.keys()
    assert {name for name in OTHERWISE.values() if name not in globals()} == set()


def test_both_ways_to_the_benchmark_exist() -> None:
    """They take long; tests/system/test_bench.py runs each of their cases at a small size."""
    told = subprocess.run(
        [sys.executable, "-m", "horae", "bench", "--help"], capture_output=True, text=True, check=True
    )
    assert "--url" in told.stdout
    subprocess.run(["make", "-n", "bench"], cwd=ROOT, env=clean(), capture_output=True, check=True)


def _is(block: tuple[str, str], page: str, start: str) -> bool:
    return block[0] == page and block[1].startswith(start)


def test_make_run_starts_horae_and_make_test_runs_the_suite(tmp_path: Path) -> None:
    named = set(re.findall(r"^make (\w+)", only("README.md", "make run"), re.MULTILINE))
    assert named == {"run", "test"}
    port = free_port()
    process = Process.__new__(Process)
    process.port, process.log = port, tmp_path / "make.log"
    with process.log.open("w") as log:
        process.process = subprocess.Popen(
            ["make", "run", f"ARGS=--port {port} --data {tmp_path / 'data'}"],
            cwd=ROOT, env=clean(), stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        process.wait_ready()
        assert f"http://127.0.0.1:{port}" in process.log.read_text()
    finally:
        os.killpg(process.process.pid, 15)
        process.process.wait(30)

    planned = subprocess.run(["make", "-n", "test"], cwd=ROOT, env=clean(), capture_output=True, text=True, check=True)
    assert "tests.whole" in planned.stdout


def test_the_job_of_the_readme_runs_in_a_worker(tmp_path: Path) -> None:
    (block,) = [block for block in blocks(ROOT / "README.md") if block.language == "python"]
    (tmp_path / "jobs.py").write_text(block.text)
    assert len(block.text.splitlines()) <= 10  # nine and the mark
    server = Process(tmp_path, "dev")
    worker = None
    try:
        server.wait_ready()
        horae = Shell(tmp_path, server.port)
        command = [sys.executable, "-m", "horae", "worker", "jobs:app"]
        worker = subprocess.Popen(command, cwd=tmp_path, env=horae.environment, stderr=subprocess.DEVNULL)
        wait_for(lambda: horae("job", "show", "report").code == 0)

        followed = horae.ok("run", "report", "--follow", "--timeout", "30s")
        assert followed.out.startswith("the report of ")
        assert '"rows": 1204' in horae.ok("run", "list", "--job", "report", "--limit", "1", "--json").out
    finally:
        if worker is not None:
            worker.terminate()
            worker.wait(30)
        server.terminate()


def test_the_production_commands_of_the_readme_start_a_closed_horae(tmp_path: Path, postgres_database: str) -> None:
    text = only("README.md", "export HORAE_DATABASE_URL")
    told = dict(re.findall(r"^export (\w+)=(\S+)$", text, re.MULTILINE))
    commands = re.findall(r"^\.venv/bin/horae (.+?)\s*(?:#.*)?$", text, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["migrate", "serve"]

    environment = told | {"HORAE_DATABASE_URL": postgres_database}
    migrate = [sys.executable, "-m", "horae", *commands[0].split()]
    subprocess.run(migrate, env=clean() | environment, check=True, timeout=60, capture_output=True)
    horae = Process(tmp_path, *commands[1].split(), **environment)
    try:
        horae.wait_ready()
        answers = [horae.call("GET", "/api/v1/jobs", key=key)[0] for key in ("", told["HORAE_ADMIN_KEY"])]
    finally:
        horae.terminate()

    assert answers == [401, 200]


def test_the_guide_to_production_leads_to_a_fleet_that_works(tmp_path: Path, postgres_url: str) -> None:
    name = f"guide_{os.getpid()}"
    for statement in only("production.md", "CREATE ROLE horae LOGIN").split(";"):
        if statement.strip():
            on_server(postgres_url, re.sub(r"\bhorae\b", name, statement))
    settings = dict(re.findall(r"^export (\w+)=(\S+)$", only("production.md", "export HORAE_DATABASE"), re.MULTILINE))
    place = postgres_url.rpartition("@")[2].partition("/")[0]
    settings["HORAE_DATABASE_URL"] = f"postgresql://{name}:password@{place}/{name}"
    fleet: list[Process] = []
    try:
        plain = Shell(tmp_path, None, **settings)
        assert "HORAE_SECRET_KEY" in plain.ok("config", "show", "--origin").out
        migrate, *serve = only("production.md", "horae migrate").splitlines()
        plain.ok(*migrate.split()[1:])
        fleet = [Process(tmp_path, *re.sub(r" --port \d+", "", line).split()[1:], **settings) for line in serve]
        fleet[0].wait_ready()
        (tmp_path / "admin.key").write_text(settings["HORAE_ADMIN_KEY"])
        person = Shell(tmp_path, None)
        login, *rest = only("production.md", "horae login prod").splitlines()
        person.ok(*login.replace("https://horae.example.com", f"http://127.0.0.1:{fleet[0].port}").split()[1:])
        wait_for(lambda: person.ok("worker", "list", "-q").out)
        for line in rest:
            person.ok(*line.split()[1:])
        person.ok("job", "create", "hello", "--noop")
        person.ok("run", "hello", "--wait", "--timeout", "30s")
    finally:
        for process in fleet:
            process.terminate()
        on_server(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")
        on_server(postgres_url, f"DROP ROLE {name}")


def test_the_unit_starts_a_command_that_exists() -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(only("production.md", "[Unit]"))

    program, command, *rest = unit["Service"]["ExecStart"].split()
    assert (Path(program).name, rest) == ("horae", [])
    assert command in COMMANDS
    # The drain takes up to 30 s; the service manager must wait for longer.
    assert int(unit["Service"]["TimeoutStopSec"]) > 30


def test_the_settings_of_an_issuer_are_read() -> None:
    told = dict(re.findall(r"(HORAE_\w+)=(\S+)", only("security.md", "export HORAE_OIDC_ISSUER")))

    settings = read_settings(told, {}, is_server=False)
    assert settings.oidc_role_map == {"platform": "admin", "devs": "editor"}
    assert settings.oidc_issuer == told["HORAE_OIDC_ISSUER"]


def test_the_wall_is_made_by_the_statements_of_the_page(postgres_url: str) -> None:
    owner, role = f"wall_owner_{os.getpid()}", f"wall_{os.getpid()}"
    on_server(postgres_url, f"CREATE ROLE {owner}")
    try:
        for statement in only("security.md", "CREATE ROLE horae_api").split(";"):
            if statement.strip():
                named = re.sub(r"\bhorae\b", owner, statement.replace("horae_api", role))
                on_server(postgres_url, named)

        assert on_server(postgres_url, f"SELECT pg_has_role('{owner}', '{role}', 'MEMBER')") is True
    finally:
        on_server(postgres_url, f"DROP ROLE {owner}")
        on_server(postgres_url, f"DROP ROLE IF EXISTS {role}")


def test_the_file_of_contexts_is_read(tmp_path: Path) -> None:
    text = only("cli.md", "current = ")
    file = tmp_path / ".config" / "horae" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)

    (row,) = Shell(tmp_path, None).ok("context", "ls").table
    told = tomllib.loads(text)["contexts"]["prod"]
    assert (row["NAME"], row["URL"], row["TENANT"], row["CURRENT"]) == ("prod", told["url"], told["tenant"], "yes")


def test_the_file_of_a_project_is_read(tmp_path: Path) -> None:
    text = only("cli.md", "server = ")
    (tmp_path / "horae.toml").write_text(text)

    rows = Shell(tmp_path, None).ok("config", "show").table
    told = tomllib.loads(text)
    shown = {row["SETTING"]: row["VALUE"] for row in rows}
    assert (shown["url"], shown["tenant"]) == (told["server"], told["tenant"])


def test_the_examples_from_inside_are_code() -> None:
    from horae.store import runs
    from horae.store.database import Transaction

    names: dict[str, Any] = dict(vars(runs))
    exec(only("architecture.md", "@transaction"), names)
    assert isinstance(names["cancel"]("default", "run"), Transaction)
    exec(only("chaos.md", "def kill_a_worker"), {"Case": Case})


# Lists that claim to be complete


def test_every_metric_is_documented() -> None:
    documented = {codes(row[0])[0]: row[1:3] for row in rows(prose(DOCS / "metrics.md")) if len(row) == 4}
    own = {metric.name + ("_total" if metric.type == "counter" else ""): metric.type for metric in Figures().collect()}

    assert {name: cells[0] for name, cells in documented.items()} == own


CODE_AT = {"Invalid": 1, "Conflict": 1, "Denied": 1, "Limited": 1, "Refused": 1, "_whole": 1, "_refuse": 1}
# Told at the start of a process, in a table of their own; or never shown under this name.
AT_START = {"settings", "database_in_use"}
NEVER_SHOWN = {"error"}


def test_every_error_is_documented_with_its_status_and_exit_code() -> None:
    page = DOCS / "errors.md"
    documented = {codes(row[0])[0]: row for row in rows(prose(page)) if len(row) == 4}

    assert documented.keys() == _codes_of_errors() - AT_START - NEVER_SHOWN
    assert {codes(row[0])[0] for row in rows(section(page, "## At the start of a process"))} == AT_START
    for code, (_, status, _, exit_code) in documented.items():
        assert int(exit_code) == client.EXIT_OF_STATUS.get(int(status), failure.FAILED), code


def _codes_of_errors() -> set[str]:
    """Those that are written in the code of the server: as an attribute of a class, or where one is raised."""
    importlib.import_module("horae.api.app")  # all classes are known then
    found = set()
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in ("cli", "sdk", "verify", "receiver"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                keywords = [each.value for each in node.keywords if each.arg == "code"]
                for code in [*node.args[CODE_AT.get(name, 99) : CODE_AT.get(name, 99) + 1], *keywords]:
                    if name in CODE_AT and isinstance(code, ast.Constant):
                        found.add(code.value)
    return found | {kind.code for kind in _kinds(HoraeError) if hasattr(kind, "code")}


def _kinds(kind: type[Any]) -> set[Any]:
    return {kind}.union(*(_kinds(each) for each in kind.__subclasses__()))


def test_the_mark_is_the_one_of_the_docs() -> None:
    assert f"`{MARK}`" in (DOCS / "README.md").read_text()
