"""`horae.toml` of a project: where it is found, what it may say, and that it never chooses who gets a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.shell import Shell

HERE = "http://127.0.0.1:1"
AWAY = "https://horae.example.com"


@pytest.fixture
def inner(tmp_path: Path) -> Shell:
    """In a folder below a project, with a home that is elsewhere."""
    folder = tmp_path / "project" / "src" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / "house").mkdir()
    return Shell(folder, None, HOME=str(tmp_path / "house"))


def write(shell: Shell, text: str, above: int = 2) -> Path:
    file = shell.home.joinpath(*[".."] * above).resolve() / "horae.toml"
    file.write_text(text)
    return file


def place(shell: Shell, *words: str, **environment: str) -> dict[str, str]:
    rows = shell.ok("config", "show", "--origin", *words, **environment).table
    return {row["SETTING"]: row["VALUE"] for row in rows} | {f"{row['SETTING']} by": row["ORIGIN"] for row in rows}


def test_the_nearest_file_above_says_which_server_and_tenant(inner: Shell) -> None:
    file = write(inner, f'server = "{HERE}"\ntenant = "ads"\n')

    found = place(inner)
    assert (found["url"], found["tenant"], found["url by"]) == (HERE, "ads", str(file))
    write(inner, f'server = "{HERE}2"\n', above=0)
    assert place(inner)["url"] == f"{HERE}2"


def test_flags_and_variables_come_before_it_and_the_current_context_after(inner: Shell) -> None:
    inner.ok("context", "add", "mine", "--url", "http://127.0.0.1:5", "--no-key")
    inner.ok("context", "add", "other", "--url", "http://127.0.0.1:6", "--as-tenant", "kept", "--no-key")
    write(inner, f'server = "{HERE}"\n')

    assert place(inner)["url"] == HERE
    assert place(inner, "--context", "mine")["url"] == "http://127.0.0.1:5"
    assert place(inner, HORAE_URL="http://127.0.0.1:9")["url"] == "http://127.0.0.1:9"
    assert place(inner, HORAE_CONTEXT="mine")["url"] == "http://127.0.0.1:5"
    write(inner, 'context = "other"\n')
    assert (place(inner)["url"], place(inner)["tenant"]) == ("http://127.0.0.1:6", "kept")
    write(inner, 'context = "nowhere"\n')
    assert inner("whoami").code == 4
    write(inner, 'tenant = "ads"\n')
    assert (place(inner)["url"], place(inner)["tenant"]) == ("http://127.0.0.1:5", "ads")


def test_it_is_not_looked_for_above_the_repository_or_the_home(inner: Shell) -> None:
    write(inner, f'server = "{HERE}"\n')
    (inner.home / ".git").mkdir()

    assert place(inner)["url"] != HERE
    (inner.home / ".git").rmdir()
    assert place(inner, HOME=str(inner.home))["url"] != HERE


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('key = "horae_abc"', "keys have no place in it"),
        ('api_key = "horae_abc"', "keys have no place in it"),
        ('[contexts]\nkey = "horae_abc"', "keys have no place in it"),
        ('sever = "http://127.0.0.1:1"', "Did you mean server?"),
        ("server = 3", "must be a text"),
        ('server = "http://127.0.0.1:1"\ncontext = "a"', "both a server and a context"),
        ("server = ", "cannot be read"),
    ],
)
def test_what_does_not_belong_in_it_is_refused(inner: Shell, text: str, told: str) -> None:
    write(inner, text)

    done = inner("job", "list")
    assert (done.code, told in done.err, "horae_abc" in done.err) == (2, True, False)


def test_the_file_does_not_choose_who_gets_a_key(inner: Shell) -> None:
    write(inner, f'server = "{AWAY}"\n')

    done = inner("job", "list", HORAE_API_KEY="a-key")
    assert (done.code, f"HORAE_URL={AWAY}" in done.err, "a-key" in done.err) == (5, True, False)
    assert place(inner)["key"] == "none"
    inner.ok("context", "add", "known", "--url", AWAY, "--no-key")
    assert place(inner, HORAE_API_KEY="a-key")["key"] == "set"
    write(inner, f'server = "{HERE}"\n')
    assert place(inner, HORAE_API_KEY="a-key")["key"] == "set"
