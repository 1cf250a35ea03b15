"""The README and the docs against the program: commands are run, links followed, lists compared both ways."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from starlette.routing import Route

from horae.api.query import JOB_STATUSES, RUN_STATUSES
from horae.cli import failure
from horae.cli import main as command_line
from horae.cli.root import COMMANDS
from horae.cli.session import Command, common_options
from horae.config import OTHER_VARIABLES, Settings, read_settings
from horae.core.run import ENDED_BADLY, NOT_STARTED, WAITING
from horae.failpoints import POINTS
from tests.scenario.conftest import app_over
from tests.system.harness import Process
from tests.system.pages import DOCS, HEADING, MARK, PAGES, ROOT, blocks, codes, prose, rows, section, titles

SOURCE = ROOT / "src" / "horae"
ADDRESS = "127.0.0.1:8700"
# Given to the work, not read as a setting.
GIVEN_TO_JOBS = {"HORAE_JOB", "HORAE_RUN_ID", "HORAE_ATTEMPT", "HORAE_SCHEDULED_FOR", "HORAE_FENCE", "HORAE_TEST_"}


TESTED = [page for page in PAGES if any(block.language == "sh" and block.is_tested for block in blocks(page))]


@pytest.mark.parametrize("page", TESTED, ids=titles(TESTED))
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no curl to run the commands with")
    tested = [block for block in blocks(page) if block.language == "sh" and block.is_tested]
    horae = Process(tmp_path, "dev")
    try:
        horae.wait_ready()
        outputs = run_in_one_shell([block.text for block in tested], horae.port, tmp_path)
    finally:
        horae.terminate()

    for block, output in zip(tested, outputs, strict=True):
        assert "urn:horae:problem" not in output or "urn:horae:problem" in block.shows, output
        assert_shows(output, block.shows)


def run_in_one_shell(texts: list[str], port: int, folder: Path) -> list[str]:
    mark = "-- the output of the next block --"
    script = "sleep() { command sleep $(($1 * 3)); }\n" + "".join(f"echo '{mark}'\n{text}\necho\n" for text in texts)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", script.replace(ADDRESS, f"127.0.0.1:{port}")],
        cwd=folder,
        env=environment | {"no_proxy": "127.0.0.1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    outputs = done.stdout.split(mark)[1:]
    assert done.returncode == 0, f"{texts[len(outputs) - 1]}\n{outputs[-1]}\n{done.stderr}"
    return outputs


def assert_shows(output: str, shown: str) -> None:
    """Every piece between line ends and `…` comes, in that order."""
    place = 0
    for piece in filter(None, (piece.strip() for piece in re.split(r"[\n…]", shown))):
        found = output.find(piece, place)
        assert found >= 0, f"{piece}\nis not, or not in this order, in\n{output}"
        place = found + len(piece)


PYTHON = [(page.name, block.text) for page in PAGES for block in blocks(page) if block.language == "python"]


@pytest.mark.parametrize(("page", "text"), PYTHON, ids=[name for name, _ in PYTHON])
def test_a_python_block_is_python_and_runs_if_it_says_so(page: str, text: str, tmp_path: Path) -> None:
    ast.parse(text)
    if text.startswith(MARK):
        subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize("page", PAGES, ids=titles(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    for address in re.findall(r"\[[^\]]+\]\(([^)]+)\)", prose(page)):
        if re.match(r"\w+:", address):
            continue
        name, _, anchor = address.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), address
        assert not anchor or anchor in anchors(target), address


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose(page))}


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "README.md").read_text()))

    assert linked == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_every_setting_is_documented_with_its_default_and_its_flag() -> None:
    documented = {codes(row[0])[0]: row[1:3] for row in rows(prose(DOCS / "settings.md")) if len(row) == 4}
    dev, serve = (read_settings({}, {}, is_dev=is_dev) for is_dev in (True, False))
    flags = every_flag(command_line)

    expected = {}
    for field in fields(Settings):
        if field.name == "is_dev":
            continue
        defaults = [shown_default(getattr(settings, field.name)) for settings in (dev, serve)]
        default = defaults[0] if defaults[0] == defaults[1] else f"dev: {defaults[0]}; serve: {defaults[1]}"
        flag = f"--{field.name.replace('_', '-')}"
        expected[f"HORAE_{field.name.upper()}"] = [default, f"`{flag}`" if flag in flags else ""]
    assert documented == expected


def every_command(command: Any, name: str = "horae") -> dict[str, Any]:
    """The commands that do something, by what is typed."""
    if not isinstance(command, click.Group):
        return {name: command}
    context = click.Context(command)
    inside = [(each, command.get_command(context, each)) for each in command.list_commands(context)]
    return {path: leaf for word, each in inside for path, leaf in every_command(each, f"{name} {word}").items()}


def flags_of(command: Any) -> set[str]:
    return {flag for param in command.params if isinstance(param, click.Option) for flag in spellings(param)}


def spellings(param: Any) -> list[str]:
    return [*param.opts, *param.secondary_opts]


def every_flag(command: Any) -> set[str]:
    own = {"--help", "--version"}
    return own.union(*(flags_of(each) for each in every_command(command).values()))


def shown_default(value: object) -> str:
    match value:
        case "":
            return "unset"
        case float() | bool():
            return f"`{value:g}`"
        case _:
            return f"`{value}`"


def test_the_other_variables_and_the_commands_are_documented() -> None:
    first = [codes(row[0])[0] for row in rows(prose(DOCS / "settings.md")) if len(row) == 2]

    assert {name for name in first if name.startswith("HORAE_")} == OTHER_VARIABLES - {"HORAE_TESTING"}
    on_servers = [f"horae {name}" for name, (place, _) in COMMANDS.items() if place.startswith("server:")]
    assert [name for name in first if name.startswith("horae ")] == on_servers


def test_every_command_and_every_option_is_documented() -> None:
    page = DOCS / "cli.md"
    common = {flag for option in common_options() for flag in spellings(option)}
    told = re.split(r"^#+ (?=horae )", page.read_text(), flags=re.MULTILINE)[1:]
    documented = {}
    for text in told:
        name, _, rest = text.partition("\n")
        if f"`{name}" in rest.split("\n## ")[0]:
            documented[name] = {flag for row in rows(rest) for flag in codes(row[0])}

    expected = {
        name: flags_of(command) - (common if isinstance(command, Command) else set())
        for name, command in every_command(command_line).items()
    }
    assert documented == expected
    assert {
        flag for row in rows(section(page, "## Options of every client command")) for flag in codes(row[0])
    } == common


def test_every_exit_code_of_the_command_line_is_documented() -> None:
    documented = [int(row[0]) for row in rows(section(DOCS / "cli.md", "## Exit codes"))]

    assert documented == [0, *range(failure.FAILED, failure.PARTLY + 1), failure.INTERRUPTED]


@pytest.mark.parametrize("page", PAGES, ids=titles(PAGES))
def test_every_variable_and_flag_on_a_page_exists(page: Path) -> None:
    text = page.read_text()
    variables = {f"HORAE_{field.name.upper()}" for field in fields(Settings)} | OTHER_VARIABLES | GIVEN_TO_JOBS
    flags = every_flag(command_line)

    assert set(re.findall(r"HORAE_\w+", text)) <= variables
    assert set(re.findall(r"(?<=[` ])--[a-z-]+", text)) <= flags


def test_every_reason_and_every_state_is_documented() -> None:
    page = DOCS / "states-and-reasons.md"

    def first(heading: str) -> list[str]:
        return [codes(row[0])[0] for row in rows(section(page, heading)) if codes(row[0])]

    assert first("### Not started") == list(NOT_STARTED)
    assert first("### Waiting") == list(WAITING)
    assert first("### Ended badly") == list(ENDED_BADLY)
    assert first("## A run")[: len(RUN_STATUSES)] == list(RUN_STATUSES)
    assert first("## A job") == list(JOB_STATUSES)


def test_every_fault_point_is_documented() -> None:
    listed = {codes(row[0])[0]: row[1] for row in rows(section(DOCS / "chaos.md", "## Fault points"))}

    assert listed == POINTS


def test_every_route_is_documented_with_an_example() -> None:
    _, *parts = (DOCS / "api.md").read_text().split("\n### `")
    documented = {part.split("`\n")[0]: part for part in parts}
    routes = [route for route in app_over(None).routes if isinstance(route, Route)]
    base = "/api/v1"
    served = {
        f"{method} {route.path.removeprefix(base)}"
        for route in routes
        if route.path.startswith(f"{base}/")
        for method in (route.methods or set()) - {"HEAD"}
    }

    assert len(documented) == len(parts)
    assert documented.keys() == served
    assert not [route for route, text in documented.items() if f"```sh\n{MARK}" not in text]


def test_the_tree_names_every_module_and_no_other() -> None:
    tree = next(block.text for block in blocks(DOCS / "architecture.md") if block.text.startswith("src/horae/"))
    named: set[str] = set()
    folders = [""]
    for line in tree.splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        path = "".join(folders[1:depth]) + name
        folders = [*folders[:depth], name]
        named.add(path)
        assert len(line.split()) > 1, f"{path} has no words"

    modules = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    assert {path for path in named if path.endswith(".py")} == modules
    assert all((SOURCE / path).is_dir() for path in named if path.endswith("/"))


def test_the_layers_are_those_of_the_import_rule() -> None:
    (contract,) = [each for each in import_rules() if each["type"] == "layers"]
    built = {path.stem for path in SOURCE.iterdir()}
    layers = []
    for layer in contract["layers"]:
        rooms = [room for room in re.findall(r"\w+", layer) if room in built]
        layers += [" | ".join(rooms)] if rooms else []

    (told,) = [block.text for block in blocks(DOCS / "architecture.md") if block.text.startswith("testing")]
    assert told.split("\n")[:-1] == layers


def import_rules() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        rules: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return rules


def test_the_walk_names_code_and_statements_that_exist() -> None:
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    statements = set(re.findall(r"^([A-Z_]+) = Statement\(", source, re.MULTILINE))

    for *_, code, told in rows(section(DOCS / "architecture.md", "## The walk of one due time")):
        assert set(codes(told)) <= statements
        functions = [name.rpartition(".")[2] for name in codes(code) if "/" not in name]
        assert not [name for name in functions if f"def {name}(" not in source]


def test_files_named_in_the_architecture_exist() -> None:
    named = re.findall(r"`((?:\w+/)*[a-z_]+\.(?:py|toml))`", prose(DOCS / "architecture.md"))

    assert not [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()]


def test_every_table_is_named() -> None:
    schema = "\n".join(path.read_text() for path in (SOURCE / "store").rglob("*") if path.suffix in (".sql", ".py"))
    tables = set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?([a-z_]+) \(", schema))

    assert {code for row in rows(section(DOCS / "architecture.md", "## The store")) for code in codes(row[0])} == tables


def test_the_pairs_are_those_of_the_store() -> None:
    pairs = re.findall(r"^    (\w+) = _pair\(", (SOURCE / "store" / "store.py").read_text(), re.MULTILINE)

    assert [codes(row[0])[0] for row in rows(section(DOCS / "architecture.md", "### The five pairs"))] == pairs
    assert len(pairs) == 5
