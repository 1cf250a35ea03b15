"""The commands around the daily work: how things stand, what is to come, who is asking, and the API by hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.system.conftest import ADMIN
from tests.system.harness import Process, free_port, wait_for
from tests.system.shell import Shell


def test_a_job_is_run_by_its_name_alone(horae: Shell) -> None:
    horae.ok("job", "create", "greet", "--manual", "--command", "cat; echo; echo bye")

    followed = horae.ok("run", "--follow", "greet", "--arg", "who=you", "--arg", "times=2")
    assert followed.out == '{"who": "you", "times": 2}\nbye\n' or json.loads(followed.out.splitlines()[0])["times"] == 2
    assert horae.ok("logs", "greet", "--tail", "1").out == "bye\n"
    assert horae.ok("logs", "greet", "--grep", "^b").out == "bye\n"
    assert horae("logs", "greet", "--grep", "(").code == 2
    once = [horae.ok("run", "greet", "--idempotency-key", "once", "-q").out for _ in range(2)]
    assert once[0] == once[1]
    assert horae.ok("runs", "list", "--job", "greet", "-q", "--limit", "9").out.count("\n") == 2


def test_several_runs_are_waited_for_and_one_bad_end_is_exit_code_3(horae: Shell) -> None:
    horae.ok("job", "create", "good", "--manual", "--noop")
    horae.ok("job", "create", "poor", "--manual", "--command", "false", "--retries", "0")
    ids = [horae.ok("run", name, "-q").out.strip() for name in ("poor", "good")]

    done = horae("run", "wait", *ids)
    assert (done.code, done.err.count("✗"), done.err.count("✓")) == (3, 1, 1)
    assert horae("run", "wait", ids[1]).code == 0
    shown = horae.ok("dead", "show", ids[0], "-o", "json").json
    assert shown["attempts"][0]["reason"] == "exit_code"
    assert horae("retry", ids[0], "--wait").code == 3
    assert re.fullmatch(r"[0-9a-f-]{36}\n", horae.ok("replay", ids[0], "-q").out)


def test_logs_of_a_job_that_never_ran_say_so(horae: Shell) -> None:
    horae.ok("job", "create", "fresh", "--manual", "--noop")

    done = horae("logs", "fresh")
    assert (done.code, "has not run yet" in done.err) == (4, True)


def test_a_job_is_paused_and_resumed_by_the_short_verbs(horae: Shell) -> None:
    horae.ok("job", "create", "naps", "--every", "1h", "--noop")

    horae.ok("pause", "naps", "--reason", "a rest")
    assert horae.ok("job", "show", "naps", "-o", "json", "--fields", "status,pause_reason").json == {
        "status": "PAUSED",
        "pause_reason": "a rest",
    }
    status = horae("status", "--exit-code", "--json")
    assert status.code == 1
    assert any(each["check"] == "jobs" and "naps" in each["fact"] for each in status.json["attention"])
    horae.ok("resume", "naps")


def test_status_says_what_needs_attention_and_what_to_do(tmp_path: Path) -> None:
    server = Process(tmp_path, "serve", "--roles", "api,scheduler", "--database-url", f"sqlite:///{tmp_path}/h.db",
                     HORAE_ADMIN_KEY=ADMIN)  # fmt: skip
    try:
        server.wait_ready()
        horae = Shell(tmp_path, server.port, HORAE_API_KEY=ADMIN)
        horae.ok("job", "create", "waits", "--manual", "--noop")
        horae.ok("run", "waits")

        done = horae("status", "--exit-code")
        assert done.code == 1
        assert {each["CHECK"]: each["STATE"] for each in done.table} == {"workers": "bad", "queue": "bad"}
        assert "horae serve --roles worker" in done.table[0]["FIX"]
        code, shown = horae.on_terminal("status")
        assert (code, "✗ workers" in shown, "1 queued" in shown) == (0, True, True)
    finally:
        server.terminate()


def test_a_healthy_horae_needs_no_attention(tmp_path: Path) -> None:
    server = Process(tmp_path, "dev")
    try:
        server.wait_ready()
        horae = Shell(tmp_path, server.port)
        wait_for(lambda: horae.ok("worker", "list", "-q").out)

        assert horae("status", "--exit-code", "-q") == (0, "", "")
        assert "nothing needs attention" in horae.on_terminal("status")[1]
    finally:
        server.terminate()


def test_a_forecast_counts_the_runs_of_each_hour(horae: Shell) -> None:
    horae.ok("job", "create", "tenths", "--cron", "*/6 * * * *", "--noop", "--queue", "tenths")

    hours = horae.ok("forecast", "--days", "1", "--queue", "tenths").table
    assert {each["RUNS"] for each in hours[1:-1]} == {"10"}
    code, shown = horae.on_terminal("forecast", "--days", "2", "--queue", "tenths", "--suggest", NO_COLOR="1")
    assert code == 0
    assert re.search(r"\w{3} \d{4}-\d\d-\d\d .*██", shown)
    assert "fullest hour 10" in shown
    assert "fullest minute" in shown
    assert "Nothing is due." in horae.on_terminal("forecast", "--queue", "nowhere")[1]


def test_a_job_is_copied_renamed_and_rolled_back(horae: Shell) -> None:
    horae.ok("job", "create", "first", "--cron", "0 9 * * *", "--command", "true", "--retries", "1")
    horae.ok("job", "edit", "first", "--cron", "0 10 * * *", "--retries", "2")

    horae.ok("job", "copy", "first", "second", "--paused")
    copied = horae.ok("job", "show", "second", "-o", "json").json
    assert (copied["schedule"], copied["retry"]["max_retries"], copied["status"]) == ("0 10 * * *", 2, "PAUSED")
    assert horae("job", "copy", "first", "second").code == 6
    before = horae.ok("job", "show", "first", "--fields", "job_id").out
    horae.ok("job", "rename", "first", "premier")
    assert horae.ok("job", "show", "premier", "--fields", "job_id").out == before

    (dry,) = horae.ok("job", "rollback", "premier", "--to", "1", "--dry-run", "-o", "json").json["changes"]
    assert set(dry["after"]) == {"name", "version", "schedule", "retry"}
    horae.ok("job", "rollback", "premier", "--to", "1")
    now = horae.ok("job", "show", "premier", "-o", "json").json
    assert (now["name"], now["schedule"], now["retry"]["max_retries"]) == ("premier", "0 9 * * *", 1)
    assert horae("job", "rollback", "premier", "--to", "99").code == 4


def test_a_key_is_tried_kept_and_forgotten(guarded: Process, tmp_path: Path) -> None:
    horae = Shell(tmp_path, None)
    url = f"http://127.0.0.1:{guarded.port}"
    (tmp_path / "key").write_text(f"{ADMIN}\n")

    assert horae("login", "prod", "--url", url, "--key-file", "-", input="wrong").code == 5
    assert horae("context", "ls").out.count("\n") == 1  # nothing was kept
    assert horae("login", "prod", "--url", url).code == 2  # nobody to ask
    assert "role admin" in horae.ok("login", "prod", "--url", url, "--key-file", "key", "-o", "table").out
    who = horae.ok("whoami", "-o", "json").json
    assert (who["url"], who["chosen_by"], who["role"]) == (url, "prod (the current context)", "admin")
    code, shown = horae.on_terminal("login", "other", "--url", url, typed=f"{ADMIN}\n".encode(), when=b"none)")
    assert (code, ADMIN in shown) == (0, False)

    horae.ok("logout")
    refused = horae("whoami")
    assert (refused.code, "horae login" in refused.err) == (5, True)
    assert horae("logout", "nowhere").code == 4


def test_the_api_by_hand(horae: Shell) -> None:
    made = horae.ok("api", "post", "/jobs", "-d", '{"name": "by-hand", "type": "noop"}').json
    assert made["name"] == "by-hand"
    included = horae.ok("api", "GET", "/jobs/by-hand", "--include").out
    assert included.startswith("200 OK\n")
    assert "ETag" in included.title().replace("Etag", "ETag")
    assert horae("api", "PATCH", "/jobs/by-hand", "-d", "{}", "--header", 'If-Match: "v9"').code == 6
    assert horae.ok("api", "GET", "/healthz").out
    refused = horae("api", "POST", "/jobs", "-d", '{"name": "x", "schedule": "61 * * * *"}')
    assert (refused.code, json.loads(refused.out)["status"]) == (7, 422)
    assert horae("api", "GET", "jobs").code == 2
    assert horae("api", "GET", "/nothing").code == 4


def test_the_dashboard_is_opened_or_its_address_printed(horae: Shell, server: Process) -> None:
    horae.ok("job", "create", "a b", "--noop")

    assert horae.ok("open").out == f"http://127.0.0.1:{server.port}/\n"
    assert horae.ok("open", "forecast").out.endswith("/forecast\n")
    assert horae.ok("open", "a b").out.endswith("/jobs/a%20b\n")
    assert horae("open", "nothing").code == 4


def test_settings_are_shown_with_who_set_them_and_without_their_secrets(horae: Shell) -> None:
    shown = horae.ok("config", "show", "--origin", HORAE_DATABASE_URL="postgresql://me:hush@db/horae",
                     HORAE_SECRET_KEY="hush-hush-hush-hush-hush-hush-hush-hush")  # fmt: skip

    found = {each["SETTING"]: (each["VALUE"], each["ORIGIN"]) for each in shown.table}
    assert found["database_url"] == ("postgresql://me:***@db/horae", "HORAE_DATABASE_URL")
    assert found["secret_key"] == ("set", "HORAE_SECRET_KEY")
    assert found["port"] == ("8700", "the default")
    assert found["url"][1] == "HORAE_URL"
    assert "hush" not in shown.out
    assert horae.ok("config", "path").out.strip().endswith("/.config/horae/config.toml")
    assert horae("config", "show", HORAE_DATABSE_URL="x").code == 7


def test_help_has_topics_and_commands(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())

    for topic in ("errors", "exit-codes", "filters", "time", "schedule", "reboot", "reasons"):
        assert len(horae.ok("help", topic).out) > 200
    assert "overlap_skipped" in horae.ok("help", "reasons").out
    assert horae.ok("help", "job", "create").out.startswith("Usage: horae job create")
    assert "Topics" in horae.ok("help").out
    wrong = horae("help", "nonsense")
    assert (wrong.code, "exit-codes" in wrong.err) == (2, True)


def test_a_queue_is_shown_and_drained(horae: Shell) -> None:
    horae.ok("job", "create", "slow", "--noop", "--manual", "--queue", "slow", "--set", 'target={"sleep": "1s"}')
    assert horae("queue", "show", "nowhere").code == 4
    horae.ok("queue", "pause", "slow")
    horae.ok("run", "slow")
    shown = horae.ok("queue", "show", "slow", "--json").json
    assert (shown["queued"], shown["paused"], shown["workers"]) == (1, True, [])
    horae.ok("queue", "resume", "slow")

    horae.ok("job", "create", "busy", "--noop", "--manual", "--set", 'target={"sleep": "2s"}')
    run_id = horae.ok("run", "busy", "-q").out.strip()
    wait_for(lambda: horae.ok("run", "show", run_id, "--fields", "status").out == "status\tRUNNING\n")
    gave_up = horae("queue", "drain", "default", "--timeout", "100ms")
    assert (gave_up.code, "stays paused" in gave_up.err) == (8, True)
    drained = horae.ok("queue", "drain", "default", "--json").json
    assert (drained["running"], drained["paused"]) == (0, True)
    horae.ok("queue", "resume", "default")


def test_completion_asks_for_queues_runs_and_jobs(horae: Shell) -> None:
    horae.ok("job", "create", "complete-me", "--noop", "--manual")
    run_id = horae.ok("run", "complete-me", "-q").out.strip()

    def complete(line: str, **other: str) -> str:
        asked = {"_HORAE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))} | other
        program = Path(sys.executable).with_name("horae")
        done = subprocess.run([program], env=horae.environment | asked, capture_output=True, text=True, check=True)
        return done.stdout

    powershell = {"_HORAE_COMPLETE": "powershell_complete"}
    assert complete("horae run compl", COMP_CWORD="compl", **powershell) == "complete-me\n"
    assert "list\tRuns, newest first." in complete("horae run", COMP_CWORD="", **powershell)
    assert "Register-ArgumentCompleter" in horae.ok("completion", "powershell").out
    assert "complete-me" in complete("horae run compl")
    assert "complete-me" in complete("horae pause compl")
    assert "default" in complete("horae queue show def")
    assert run_id in complete(f"horae retry {run_id[:20]}")
    assert "forecast" in complete("horae fore")


def test_jobs_become_a_crontab_that_is_the_same_when_it_comes_back(horae: Shell) -> None:
    lines = "CRON_TZ=Europe/Berlin\n15 3 * * 1-5 date +\\%F && /usr/bin/backup --all\n"
    horae.ok("import", "crontab", "-", "--prefix", "cron-", input=lines)
    horae.ok("job", "create", "cron-interval", "--every", "90s", "--noop")
    (name,) = [
        each for each in horae.ok("job", "list", "--search", "cron-", "-q").out.split() if "interval" not in each
    ]

    written = horae.ok("job", "export", name, "cron-interval", "--crontab").out
    assert lines.splitlines()[1] in written.splitlines()
    assert "# not written" in written
    back = horae.ok("import", "crontab", "-", "--dry-run", "-o", "yaml", input=written).out
    assert "date +%F && /usr/bin/backup --all" in back
    assert "Europe/Berlin" in back


def test_a_filter_is_written_as_in_the_dashboard(horae: Shell) -> None:
    horae.ok("job", "create", "filtered-a", "--manual", "--noop", "--label", "team=ads", "--queue", "slow")
    horae.ok("job", "create", "filtered-b", "--manual", "--command", "false", "--retries", "0")
    horae.ok("job", "pause", "filtered-a")
    horae("run", "filtered-b", "--wait")

    assert horae.ok("job", "list", "-q", "-f", "status:paused label:team:ads filtered").out == "filtered-a\n"
    assert horae.ok("job", "list", "-q", "-f", "queue:slow", "--type", "shell").out == ""
    assert horae.ok("job", "list", "-q", "--filter", "status:active filtered").out == "filtered-b\n"
    assert horae.ok("job", "list", "-q", "-f", "status:dead filtered").out == "filtered-b\n"
    assert len(horae.ok("dead", "list", "-f", "status:dead filtered-b").table) == 1
    assert len(horae.ok("run", "list", "-f", "status:dead filtered-b due:1h").table) == 1
    assert horae.ok("run", "list", "-q", "-f", "status:dead job:filtered-a").out == ""
    assert len(horae.ok("dead", "list", "-f", "filtered-b reason:exit_code").table) == 1
    assert horae.ok("dead", "discard", "-f", "job:filtered-b", "--dry-run", "-o", "json").json["count"] == 1
    assert horae.ok("dead", "discard", "-f", "job:filtered-b", "--yes").out == "1\n"
    assert horae.ok("dead", "list", "-q", "--job", "filtered-b").out == ""
    assert horae("dead", "discard").code == 2
    wrong = horae("job", "list", "-f", "worker:w1")
    assert wrong.code == 2
    assert "There are status: health: label:" in wrong.err


def test_due_times_between_two_times_and_schedules_that_cannot_be_read(horae: Shell) -> None:
    span = ("--from", "2030-01-01", "--to", "2030-01-08", "--tz", "Europe/Berlin")
    found = horae.ok("schedule", "between", "0 9 * * 1-5", *span).table
    assert [row["LOCAL"][:16] for row in found] == [f"2030-01-0{day}T09:00" for day in (1, 2, 3, 4, 7)]
    assert "and more" in horae.ok("schedule", "between", "* * * * *", *span, "--count", "3").err

    (horae.home / "lines.txt").write_text("# mine\n0 9 * * 1-5\n\n@every 5m\n")
    assert len(horae.ok("schedule", "check", "lines.txt").table) == 2
    checked = horae("schedule", "check", "61 * * * *", "@daily", "1 " * 300)
    assert checked.code == 7
    assert [row["IS_GOOD"] for row in checked.table] == ["no", "yes", "no"]


def test_completion_is_put_where_the_shell_looks(horae: Shell) -> None:
    horae.ok("completion", "install", SHELL="/usr/bin/fish")
    assert "_HORAE_COMPLETE" in (horae.home / ".config/fish/completions/horae.fish").read_text()
    unknown = horae("completion", "install", SHELL="/bin/tcsh")
    assert unknown.code == 2
    assert "tcsh" in unknown.err


def test_an_ephemeral_dev_leaves_nothing_behind(tmp_path: Path) -> None:
    before = tmp_path / "tmp"
    before.mkdir()
    horae = Process(tmp_path, "dev", "--ephemeral", TMPDIR=str(before))
    horae.wait_ready()
    assert [each.name[:6] for each in before.iterdir()] == ["horae-"]
    assert horae.terminate() == 0

    assert list(before.iterdir()) == []
    assert not (tmp_path / ".horae").exists()


def test_flags_of_a_call_change_the_call_alone(horae: Shell) -> None:
    horae.ok("job", "create", "caller", "--manual", "--http", "https://a.example/x", "--header", "A: b")
    horae.ok("job", "edit", "caller", "--method", "get")
    target = horae.ok("job", "show", "caller", "-o", "json").json["target"]

    assert (target["url"], target["method"], target["headers"]) == ("https://a.example/x", "GET", {"A": "b"})
    horae.ok("job", "create", "no-caller", "--manual", "--noop")
    assert horae("job", "edit", "no-caller", "--method", "GET").code == 2


def test_a_log_that_is_followed_can_be_narrowed_and_is_not_told_twice(horae: Shell) -> None:
    lines = "for n in 1 2 3 4 5; do echo line $n; done; exit 1"
    horae.ok("job", "create", "lines", "--manual", "--command", lines, "--retries", "0")
    run = horae.ok("run", "lines", "-q").out.strip()

    followed = horae("logs", "-f", run)
    assert (followed.code, (followed.out + followed.err).count("line 3")) == (3, 1)
    tail = horae("logs", "-f", run, "--tail", "2")
    assert "line 4\nline 5\n" in tail.out + tail.err
    assert "line 3" not in tail.out + tail.err
    grep = horae("logs", "-f", run, "--grep", "e [24]")
    assert "line 2\nline 4\n" in grep.out + grep.err
    assert horae("logs", run, "--attempt", "9").code == 4
    assert horae("run", "wait", "-", input=f"{run}\n").code == 3


def test_the_next_due_times_need_no_server(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())

    shown = horae.ok("schedule", "next", "0 9 * * *", "-n", "2", "--from", "2030-03-30", "--tz", "Europe/Berlin", "-q")
    assert shown.out.split() == ["2030-03-30T08:00:00Z", "2030-03-31T07:00:00Z"]


def test_login_goes_where_the_variable_says(horae: Shell) -> None:
    horae.ok("login", "mine", "--key-file", "/dev/null")

    assert horae.ok("context", "ls", HORAE_URL="").table[0]["URL"] == horae.environment["HORAE_URL"]
