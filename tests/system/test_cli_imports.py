"""`horae import` against a real horae: a crontab becomes jobs, and what does not become one says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.harness import free_port
from tests.system.shell import Done, Shell


@pytest.fixture
def horae(alone: Shell) -> Shell:
    return alone


def test_a_crontab_becomes_jobs_that_run_as_before(horae: Shell) -> None:
    table = f"""\
PATH=/usr/bin:/bin
GREETING=hello there
# Says hello
* * * * * cat > {horae.home}/said; echo "$GREETING" >> {horae.home}/said%line one%100\\% two
@reboot /usr/bin/start
"""
    dry = horae.ok("import", "crontab", "-", "--dry-run", "--tz", "UTC", input=table)
    assert [row["RESULT"] for row in dry.table] == ["would create", "not imported"]
    assert "Nothing was changed" in dry.err
    assert horae.ok("job", "list", "-q").out == ""
    as_files = horae.ok("import", "crontab", "-", "--dry-run", "--tz", "UTC", "-o", "yaml", input=table).out
    assert horae.ok("validate", "-", "-q", input=as_files).out == "cat\n"

    done = horae("import", "crontab", "-", "--tz", "UTC", "--prefix", "old-", "--queue", "default", input=table)
    assert done.code == 10
    assert "1 jobs created, 1 lines not imported" in done.err
    assert "take line 4 out of the crontab" in done.err
    job = horae.ok("job", "show", "old-cat", "-o", "json").json
    assert (job["description"], job["retry"]["max_retries"], job["misfire"]["policy"]) == ("Says hello", 0, "skip")
    horae.ok("job", "run", "old-cat", "--wait")
    assert (horae.home / "said").read_text() == "line one\n100% two\nhello there\n"
    again = horae("import", "crontab", "-", "--tz", "UTC", "--prefix", "old-", input=table)
    assert (again.code, "0 jobs created, 1 existed already" in again.err) == (10, True)
    tried = horae.ok("import", "crontab", "-", "--tz", "UTC", "--prefix", "old-", "--dry-run", input=table)
    assert [row["RESULT"] for row in tried.table] == ["exists", "not imported"]
    assert "0 jobs would be created, 1 existed already, 1 lines not imported" in tried.err
    assert "Run again" not in tried.err


def test_lines_that_become_no_job_are_no_success(horae: Shell) -> None:
    nothing = horae("import", "crontab", "-", "--tz", "UTC", input="@reboot /opt/start\n")
    assert (nothing.code, nothing.table[0]["RESULT"]) == (7, "not imported")

    of_others = "0 4 * * * root /opt/mine\n0 5 * * * www-data /opt/theirs\n"
    horae.ok("import", "crontab", "-", "--tz", "UTC", "--user", "root", input=of_others)


def test_a_name_that_another_job_has_is_a_conflict_and_no_repeat(horae: Shell) -> None:
    def run(table: str) -> Done:
        return horae("import", "crontab", "-", "--tz", "UTC", "--prefix", "same-", input=table)

    first = "0 4 * * * /opt/a\n"
    assert run(first).code == 0
    again = run(first)
    assert (again.code, again.table[0]["RESULT"]) == (0, "exists")

    other = run("0 5 * * * /opt/a --other\n")
    assert (other.code, other.table[0]["RESULT"]) == (6, "taken")
    assert "taken by another job: schedule, target differ" in other.table[0]["NOTES"]
    assert "--prefix" in other.err
    assert "0 jobs created, 1 had a name that is taken by another job" in other.err
    assert "out of the crontab" not in other.err
    partly = run("0 5 * * * /opt/a --other\n0 6 * * * /opt/b\n")
    assert (partly.code, [row["RESULT"] for row in partly.table]) == (10, ["taken", "created"])
    assert "take line 2 out of the crontab" in partly.err
    assert horae.ok("job", "show", "same-a", "-o", "json").json["schedule"] == "0 4 * * *"


def test_a_line_that_the_server_refuses_is_told_with_its_number_its_name_and_the_reason(horae: Shell) -> None:
    table = (
        "0 4 * * * /opt/fine\n0 0 31 2 * /opt/never\n@reboot /opt/start\n0 2 * * * /opt/x {{secret.A}}\n"
        "TOKEN={{secret.NOSUCH}}\n0 5 * * * /opt/shy\n"
    )

    done = horae("import", "crontab", "-", "--tz", "UTC", input=table)
    assert done.code == 10
    assert 'error[invalid]: line 6, shy: There is no secret "NOSUCH".' in done.err
    assert "1 jobs created, 1 failed, 3 lines not imported" in done.err
    fine, never, reboot, secret, shy = done.table
    assert (fine["RESULT"], shy["RESULT"], shy["NAME"]) == ("created", "failed", "shy")
    assert 'There is no secret "NOSUCH".' in shy["NOTES"]
    assert [row["SCHEDULE"] for row in (never, reboot, secret)] == ["0 0 31 2 *", "@reboot", "0 2 * * *"]
    assert secret["RESULT"] == "not imported"
    assert "env" in secret["NOTES"]
    assert horae.ok("import", "crontab", "-", "--dry-run", "-q", input=table).out == "fine\nshy\n"


def test_cronjobs_of_one_name_in_two_namespaces_are_two_jobs(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())
    one = """\
kind: CronJob
metadata: {name: hello, namespace: NAMESPACE}
spec: {schedule: "@daily", jobTemplate: {spec: {template: {spec: {containers: [{image: i, command: [run]}]}}}}}
"""
    both = "---\n".join(one.replace("NAMESPACE", name) for name in ("a", "b"))
    files = horae.ok("import", "k8s", "-", "--dry-run", "-o", "yaml", input=both).out

    assert horae.ok("validate", "-", "-q", input=files).out == "hello\nhello-2\n"


def test_a_system_table_needs_its_user(tmp_path: Path) -> None:
    horae = Shell(tmp_path, free_port())
    table = "17 * * * * root cd / && run-parts /etc/cron.hourly\n0 1 * * * www-data /srv/clean\n"

    plain = horae.ok("import", "crontab", "-", "--dry-run", input=table.replace("www-data", "nosuchuser"))
    assert "note: line 1 begins with the name of a user" in plain.err
    assert ["add --system" in row["NOTES"] for row in plain.table] == [True, False]
    refused = horae.ok("import", "crontab", "-", "--system", "--dry-run", input=table)
    assert [row["RESULT"] for row in refused.table] == ["not imported"] * 2
    taken = horae.ok("import", "crontab", "-", "--user", "root", "--dry-run", "-o", "json", input=table).json
    assert [each["result"] for each in taken] == ["would create", "not imported"]
    assert taken[0]["job"]["timezone"] == "Europe/Berlin"
    assert taken[0]["job"]["labels"] == {"imported": "crontab", "user": "root"}
