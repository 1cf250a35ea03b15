"""Jobs in files against a real horae: validate, diff, apply, plan and export."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.harness import free_port
from tests.system.shell import Shell

FILES = """\
name: load
schedule: "*/10 * * * *"
target: {command: "echo load"}
labels: {managed: git}
---
jobs:
  - name: after-load
    after: {job: load, on: failure}
    type: noop
    labels: {managed: git}
  - name: once
    schedule: 2031-05-01T09:00:00+02:00
    type: noop
    retry: {max_retries: 1}
    labels: {managed: git}
"""


@pytest.fixture
def horae(alone: Shell) -> Shell:
    return alone


def write(horae: Shell, text: str, name: str = "jobs.yaml") -> str:
    (horae.home / name).write_text(text)
    return name


def results(horae: Shell, *words: str) -> dict[str, str]:
    return {row["NAME"]: row["RESULT"] for row in horae.ok("apply", *words).table}


def test_an_apply_is_repeated_without_effect_and_never_resumes(horae: Shell) -> None:
    file = write(horae, FILES)

    new = horae("diff", file)
    assert (new.code, [row["CHANGE"] for row in new.table]) == (1, ["created"] * 3)
    assert horae.ok("apply", file, "--dry-run").table
    assert horae.ok("job", "list", "-q").out == ""
    assert results(horae, file) == {"load": "created", "after-load": "created", "once": "created"}
    assert set(results(horae, file).values()) == {"unchanged"}
    assert horae("diff", file).code == 0

    horae.ok("job", "pause", "load", "--reason", "deploy")
    changed = write(horae, FILES.replace("*/10", "*/5").replace("max_retries: 1", "max_retries: 2"))
    differs = horae("diff", "-f", changed, "-o", "json")
    assert differs.code == 1
    assert {each["name"]: [field["field"] for field in each["fields"]] for each in differs.json} == {
        "load": ["schedule"],
        "once": ["retry"],
    }
    assert results(horae, changed) == {"load": "updated", "after-load": "unchanged", "once": "updated"}
    load = horae.ok("job", "show", "load", "-o", "json").json
    assert (load["schedule"], load["status"], load["pause_reason"]) == ("*/5 * * * *", "PAUSED", "deploy")


def test_a_field_that_is_taken_out_goes_back_to_its_default(horae: Shell) -> None:
    horae.ok("apply", write(horae, "{name: a, type: noop, queue: side, timeout: 5m, retry: {max_retries: 9}}"))
    horae.ok("apply", write(horae, "{name: a, type: noop}"))

    shown = horae.ok("job", "show", "a", "-o", "json").json
    assert (shown["queue"], shown["timeout"], shown["retry"]["max_retries"]) == ("default", "30s", 3)


def test_an_upstream_that_comes_later_in_the_files_is_made_first(horae: Shell) -> None:
    file = write(horae, "- {name: down, after: up, type: noop}\n- {name: up, type: noop}\n")

    assert list(results(horae, file)) == ["up", "down"]
    assert horae("diff", file).code == 0


def test_prune_deletes_only_what_has_the_label_and_is_in_no_file(horae: Shell) -> None:
    horae.ok("apply", write(horae, FILES))
    horae.ok("job", "create", "by-hand", "--noop")
    one = write(horae, "{name: once, schedule: '@daily', type: noop, labels: {managed: git}}")

    assert horae("apply", one, "--prune", "managed:git").code == 2  # nobody to ask
    assert results(horae, one, "--prune", "managed:git", "--yes")["load"] == "deleted"
    assert sorted(horae.ok("job", "list", "-q").out.split()) == ["by-hand", "once"]
    assert horae("apply", one, "--prune", "managed").code == 2


def test_what_is_exported_can_be_applied_and_changes_nothing(horae: Shell) -> None:
    horae.ok("calendar", "set", "days", "--exclude", "2030-12-24")
    horae.ok("apply", write(horae, FILES))
    horae.ok("job", "create", "rich-job", "--http", "https://example.com/a", "--header", "X-A: b",
             "--body", '{"a": [1]}', "--calendar", "days", "--misfire", "skip", "--jitter", "5s",
             "--schedule", "H 3 * * *", "--schedule", "@every 90m", "--set", 'dst={"gap": "skip"}',
             "--description", "two\nlines", "--payload", '{"on": "yes", "n": null, "t": "2030-01-01"}')  # fmt: skip
    file = write(horae, horae.ok("job", "export").out, "exported.yaml")
    text = (horae.home / file).read_text()

    assert "job_id" not in text
    assert "next_fire_time" not in text
    assert "calendar: days" in text
    assert "job: load" in text
    assert horae("diff", file).out.splitlines() == ["NAME\tCHANGE\tFIELDS"]
    assert "name: load" in horae.ok("job", "export", "load").out
    assert [each["name"] for each in horae.ok("job", "export", "--label", "managed:git", "-o", "json").json] == [
        "after-load", "load", "once",
    ]  # fmt: skip


def test_a_file_that_says_how_a_job_stands_is_refused_by_name(horae: Shell) -> None:
    horae.ok("job", "create", "there", "--noop")
    shown = horae.ok("job", "show", "there", "-o", "json").json
    copied = write(horae, horae.ok("job", "show", "there", "-o", "yaml").out, "copied.yaml")
    second = write(horae, f"name: second\nversion: 9\nstatus: PAUSED\njob_id: {shown['job_id']}\nx: 1\n", "two.yaml")

    for verb in ("validate", "diff", "apply"):
        done = horae(verb, second)
        assert (done.code, done.out) == (7, "")
        for told in (":3 /status", "`horae pause NAME`", ":4 /job_id", "`horae job rename`", ":2 /version", ":5 /x"):
            assert told in done.err
    assert "`horae job export` writes such files" in horae("apply", copied).err
    assert horae.ok("job", "list", "-q").out == "there\n"


def test_other_names_of_a_field_count_in_a_file_too(horae: Shell) -> None:
    horae.ok("apply", write(horae, "{name: a, type: noop, cron_expression: '0 9 * * *', max_retries: 7}"))

    shown = horae.ok("job", "show", "a", "-o", "json").json
    assert (shown["schedule"], shown["retry"]["max_retries"]) == ("0 9 * * *", 7)
    planned = horae.ok("plan", "--job", "a", "--schedule", "0 10 * * *", "--for", "24h", "-o", "json").json
    assert planned["jobs"][0]["due_times_new"] == 1


def test_long_work_shows_a_bar_on_a_terminal_and_none_in_a_pipe(horae: Shell) -> None:
    file = write(horae, "".join(f"- {{name: many-{at}, type: noop}}\n" for at in range(60)))

    assert "Applying" not in horae.ok("apply", file, "--dry-run").err
    code, shown = horae.on_terminal("apply", file)
    assert (code, "Applying" in shown, "60 created" in shown) == (0, True, True)
    again = horae.ok("apply", file)
    assert (len(again.table), again.err) == (60, "60 unchanged\n")


def test_some_that_fail_do_not_stop_the_others(horae: Shell) -> None:
    file = write(
        horae,
        "- {name: good, type: noop}\n- {name: lost, after: nobody, type: noop}\n"
        "- {name: far, target: 'http://10.0.0.1/x'}\n- {name: past, schedule: '2020-01-01T00:00:00Z', type: noop}\n",
    )

    done = horae("apply", file)
    assert done.code == 10
    assert {row["NAME"]: row["RESULT"] for row in done.table} == {
        "good": "created",
        "lost": "failed",
        "far": "failed",
        "past": "failed",
    }
    assert "10.0.0.1 cannot be reached" in done.err


def test_what_the_server_refuses_is_told_with_the_job_and_its_line(horae: Shell) -> None:
    text = "- {name: good, type: noop}\n- name: shy\n  target:\n    {command: date, env: {T: '{{secret.NOSUCH}}'}}\n"

    done = horae("apply", write(horae, text))
    assert done.code == 10
    assert 'error[invalid]: shy: There is no secret "NOSUCH".' in done.err
    assert "at jobs.yaml:3 /target" in done.err


def test_jobs_of_files_that_wait_for_each_other_are_found_without_a_server(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())
    write(horae, "- {name: free, type: noop}\n- {name: d1, type: noop, after: [free, d2]}\n", "a.yaml")
    write(horae, "name: d2\ntype: noop\nafter: d3\n---\n{name: d3, after: d1, type: noop}\n", "b.yaml")

    done = horae("validate", "a.yaml", "b.yaml")
    assert done.code == 7
    assert "would wait for each other" in done.err
    assert {name in done.err for name in ("d1", "d2", "d3", " /after")} == {True}
    assert "free" not in done.err


def test_an_edit_between_reading_and_writing_is_a_conflict(horae: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from horae.cli.apply import _save, find_changes
    from horae.cli.client import Client
    from horae.cli.failure import Failure

    file = write(horae, "{name: raced, type: noop, queue: a}")
    horae.ok("apply", file)
    write(horae, "{name: raced, type: noop, queue: b}")
    client = Client(horae.environment["HORAE_URL"], None, None)
    (change,) = find_changes(client, [str(horae.home / file)], None)
    horae.ok("job", "edit", "raced", "--queue", "c")

    with pytest.raises(Failure) as raised:
        _save(client, change)
    client.close()
    assert (raised.value.exit_code, raised.value.status) == (6, 412)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\nretrys: 3\n", ":2 /retrys"),
        ("name: a\nschedule: '61 * * * *'\n", ":2 /schedule"),
        ("name: a\n---\nname: b\nretry:\n  max_retries: many\n", ":5 /retry/max_retries"),
        ("schedule: '@daily'\n", "needs a name"),
        ("- name: a\n- name: a\n", "defined twice"),
        ("name: a\nname: b\n", '"name" comes twice'),
        ("name: [\n", "Not YAML"),
        ("just words\n", ":1"),
        ("a: &a [1,2]\nb: &b [*a,*a,*a]\n" + "".join(f"c{n}: &c{n} [" + f"*{'b' if n == 0 else f'c{n - 1}'}," * 9 + "]\n" for n in range(8)), "Too much"),  # noqa: E501
        ("name: &a [*a]\n", "inside itself"),
        ("? [a, b]\n: 1\n", "A key must be a text"),
        ("name: a\nx: !!python/object:os.system {}\n", '"x"'),
        ("[" * 100_000 + "]" * 100_000, "deeply"),
        ("x-d: &d\n  retrys: 3\njobs:\n  - {name: a, <<: *d}\n", ":2 /retrys"),
        ("name: a\n<<: 5\n", ":2"),
        ("a: &a {<<: *a}\n", "inside itself"),
        ("a0: &a0 {}\n" + "".join(f"a{n}: &a{n} {{<<: [" + f"*a{n - 1}," * 9 + "]}\n" for n in range(1, 9)), "Too much"),  # noqa: E501
        ("name: a\n'<<': {queue: q}\n", '"<<" is not a field'),
        ("jobs:\n  - {name: a}\ndefaults: {queue: q}\n", ":3\n"),
        ("jobs: {name: a}\n", '"jobs" must be a list'),
    ],
    ids=range(20),
)  # fmt: skip
def test_mistakes_in_files_are_told_with_their_line_and_without_a_server(tmp_path: Path, text: str, told: str) -> None:
    horae = Shell(tmp_path, free_port())

    done = horae("validate", write(horae, text))
    assert (done.code, done.out) == (7, ""), done
    assert told in done.err


def test_yaml_is_read_as_json_has_it(tmp_path: Path) -> None:
    from horae.cli.yaml_lines import read_documents

    text = "on: yes\nat: 2030-01-01\nn: 012\nclock: 12:30:45\nf: 1.5\ni: -3\nno: ~\nt: true\nq: '1'\ne:\n"
    ((value, lines, _),) = read_documents(text)
    assert value == {
        "on": "yes", "at": "2030-01-01", "n": "012", "clock": "12:30:45", "f": 1.5, "i": -3, "no": None, "t": True,
        "q": "1", "e": None,
    }  # fmt: skip
    assert lines["/clock"] == 4


def test_what_jobs_have_in_common_is_written_once(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())
    text = """\
x-defaults: &defaults
  queue: side
  retry: &retry {max_retries: 5, delay: 1m}
x-night: &night {schedule: "0 3 * * *", queue: night}
jobs:
  - {<<: *defaults, name: plain}
  - <<: [*defaults, *night]
    name: own
    timeout: 5m
    retry: {<<: *retry, delay: 2m}
"""
    from horae.cli.files import read_files

    plain, own = (each.spec for each in read_files([str(tmp_path / write(horae, text))]))
    assert (plain["queue"], plain["retry"]["max_retries"], plain["schedule"]) == ("side", 5, "@manual")
    assert (own["queue"], own["schedule"], own["timeout"]) == ("side", "0 3 * * *", "5m")
    assert (own["retry"]["max_retries"], own["retry"]["delay"]) == (5, "2m")


@pytest.mark.parametrize("text", ["jobs:\n", "jobs: []\n", "x-a: 1\njobs:\n", "# nothing\n"])
def test_a_file_may_have_no_jobs(tmp_path: Path, text: str) -> None:
    horae = Shell(tmp_path, free_port())

    assert "0 jobs, nothing wrong" in horae.ok("validate", write(horae, text)).err


def test_validate_takes_folders_and_standard_input(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())
    (tmp_path / "jobs" / "deep").mkdir(parents=True)
    write(horae, "{name: a}", "jobs/a.yaml")
    write(horae, '{"name": "b"}', "jobs/deep/b.json")

    assert horae.ok("validate", "jobs", "-q").out == "a\nb\n"
    assert horae.ok("validate", "-", "-q", input="name: c\n").out == "c\n"
    (tmp_path / "empty").mkdir()
    assert horae("validate", "empty").code == 2


def test_a_plan_says_which_due_times_and_how_much_load_change(horae: Shell) -> None:
    horae.ok("job", "create", "busy", "--noop", "--schedule", "0 * * * *")
    horae.ok("job", "create", "other", "--noop", "--schedule", "30 * * * *")
    horae.ok("job", "run", "busy", "--wait")

    planned = horae.ok("plan", "--job", "busy", "--schedule", "*/30 * * * *", "--for", "10h", "-o", "json").json
    (busy,) = planned["jobs"]
    assert (busy["runs_before"], busy["runs_after"], busy["due_times_new"], busy["due_times_gone"]) == (10, 20, 10, 0)
    assert busy["first_new"][0].endswith(":30:00Z")
    assert busy["busy_after_ms"] >= busy["busy_before_ms"]
    load = planned["load"]
    assert (load["runs_before"], load["runs_after"], load["peak_before"], load["peak_after"]) == (20, 30, 1, 2)
    assert horae.ok("job", "show", "busy", "-o", "json").json["version"] == 1

    file = write(
        horae,
        "- {name: busy, type: noop, schedule: '0 * * * *', queue: q}\n- {name: new, type: noop, schedule: '0 0 1 1 *'}",
    )
    rows = {row["NAME"]: row["RUNS"] for row in horae.ok("plan", file, "--for", "10h").table}
    assert rows == {"busy": "10 → 10", "new": rows["new"]}
    horae.ok("job", "pause", "busy")
    paused = horae.ok("plan", "--job", "busy", "--schedule", "* * * * *", "--for", "10h")
    assert "is paused" in paused.err
    assert "10 → 10 runs" in paused.err
