"""Crontabs as they are found: every odd line becomes a job that does the same, or says why not."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.cli.crontab import SUSPECT, Entry, read_crontab
from horae.core.document import parse_job


def read(text: str, **words: Any) -> list[Entry]:
    return read_crontab(text, **({"zone": "UTC"} | words))


def job(line: str, **words: Any) -> dict[str, Any]:
    (entry,) = read(line, **words)
    assert entry.job is not None, entry
    parse_job(entry.job, job_id="x", now_us=0, tenant="")
    return entry.job


def refusal(line: str, **words: Any) -> str:
    (entry,) = read(line, **words)
    assert entry.job is None
    return entry.refusal


@pytest.mark.parametrize(
    ("line", "schedule", "command"),
    [
        ("0 5 * * 1 tar -zcf /var/backups/home.tgz /home/", "0 5 * * 1", "tar -zcf /var/backups/home.tgz /home/"),
        ("  */5\t*  * * *   /bin/x  y ", "*/5 * * * *", "/bin/x  y"),
        ("0 0 * * sun,MON x", "0 0 * * sun,MON", "x"),
        ("0 22-2 * * 5-7 x", "0 22-2 * * 5-7", "x"),
        ("@hourly\tx y", "@hourly", "x y"),
        ("@Daily x", "@daily", "x"),
        ("@midnight x", "@midnight", "x"),
        ("@annually x", "@annually", "x"),
        ("@every_minute x", "* * * * *", "x"),
        ("@600 x", "@every 600s", "x"),
        ("-*/15 * * * * x", "*/15 * * * *", "x"),
        ("0 9 1,15 * * echo a=b", "0 9 1,15 * *", "echo a=b"),
        ("0 9 * * * A=1 B=2 /bin/x", "0 9 * * *", "A=1 B=2 /bin/x"),
        ("0 9 * * * echo '#not a comment'", "0 9 * * *", "echo '#not a comment'"),
        ("0 9 * * * date +\\%Y-\\%m", "0 9 * * *", "date +%Y-%m"),
    ],
)
def test_a_line_is_a_job(line: str, schedule: str, command: str) -> None:
    made = job(line)

    assert (made["schedule"], made["target"]["command"]) == (schedule, command)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("@reboot /usr/bin/start", "has no time"),
        ("@fortnightly x", "not known"),
        ("61 * * * * x", "Minute must be 0-59"),
        ("0 0 31 2 * x", "never happens"),
        ("* * * * x", "five fields and a command"),
        ("* * * * *", "five fields and a command"),
        ("@daily", "has no command"),
        ("0 0 * * lundi x", "LUNDI"),
        ("hello this is not a crontab line", "five fields|no field|must"),
        ("0 0 * * %% x", "no field"),
        ("0 0 ! * * x", "no field"),
    ],
)
def test_a_line_that_cannot_be_taken_says_why(line: str, told: str) -> None:
    import re

    assert re.search(told, refusal(line))


def test_percent_signs_are_what_cron_makes_of_them() -> None:
    made = job("0 9 * * * cat%first%%100\\% of it")
    done = subprocess.run(["/bin/sh", "-c", made["target"]["command"]], capture_output=True, text=True, check=True)

    assert done.stdout == "first\n\n100% of it\n"


def test_a_percent_sign_after_a_comment_still_ends_the_command() -> None:
    made = job("0 9 * * * cat # all of it%END_OF_INPUT%x")
    done = subprocess.run(["/bin/sh", "-c", made["target"]["command"]], capture_output=True, text=True, check=True)

    assert done.stdout == "END_OF_INPUT\nx\n"


def test_the_exit_code_is_that_of_the_command() -> None:
    made = job("0 9 * * * exit 7%input")

    assert subprocess.run(["/bin/sh", "-c", made["target"]["command"]], check=False).returncode == 7


def test_settings_apply_to_the_lines_below_them() -> None:
    first, second, third = read(
        '0 1 * * * a\nPATH=/opt/bin:/bin\n  LANG = "de_DE.UTF-8" \n0 2 * * * b\n'
        "PATH='/x'\nHOME=/srv/app\n0 3 * * * c\n"
    )

    assert first.job is not None
    assert second.job is not None
    assert third.job is not None
    assert "env" not in first.job["target"]
    assert second.job["target"]["env"] == {"PATH": "/opt/bin:/bin", "LANG": "de_DE.UTF-8"}
    assert third.job["target"]["env"] == {"PATH": "/x", "LANG": "de_DE.UTF-8", "HOME": "/srv/app"}
    assert third.job["target"]["cwd"] == "/srv/app"
    assert "PATH" in first.notes[0]


def test_the_shell_is_kept() -> None:
    (entry,) = read("SHELL=/bin/bash\n0 1 * * * [[ a == a ]]\n")

    assert entry.job is not None
    assert entry.job["target"]["command"] == ["/bin/bash", "-c", "[[ a == a ]]"]


def test_mailto_is_told_once() -> None:
    entries = read('MAILTO=me@example.com\n0 1 * * * /a\n0 2 * * * /b\nMAILTO=""\n0 3 * * * /c\n')

    assert ["MAILTO" in "".join(entry.notes) for entry in entries] == [True, False, False]


def test_a_zone_of_the_table_is_the_zone_of_the_jobs() -> None:
    before, after = read("0 1 * * * /a\nCRON_TZ=America/New_York\n0 1 * * * /b\n", zone="Europe/Berlin")

    assert before.job is not None
    assert after.job is not None
    assert [before.job["timezone"], after.job["timezone"]] == ["Europe/Berlin", "America/New_York"]


def test_lines_below_a_wrong_zone_are_not_taken() -> None:
    setting, line, right = read("CRON_TZ=Mars/Base\n0 1 * * * /a\nCRON_TZ=UTC\n0 1 * * * /b\n")

    assert "Mars/Base" in setting.notes[0]
    assert "CRON_TZ" in line.refusal
    assert right.job is not None


def test_a_variable_in_a_setting_is_not_expanded_and_that_is_told() -> None:
    setting, line = read("PATH=$HOME/bin:/bin\n0 1 * * * x\n")

    assert "expands" in setting.notes[0]
    assert line.job is not None
    assert line.job["target"]["env"]["PATH"] == "$HOME/bin:/bin"


def test_random_times_become_times_of_the_jobs_own() -> None:
    assert job("0~30 4 * * * x")["schedule"] == "H(0-30) 4 * * *"
    assert job("~ 4~ * * 1~5 x")["schedule"] == "H(0-59) H(4-23) * * H(1-5)"
    (entry,) = read("RANDOM_DELAY=45\n0 4 * * * x\n")
    assert entry.job is not None
    assert entry.job["jitter"] == "45m"


def test_the_column_of_users() -> None:
    table = "17 *\t* * *\troot\tcd / && run-parts\n0 1 * * * www-data /srv/clean\n0 2 * * * backup\n"

    root, www, bare = read(table, has_user=True)
    assert "Take it with --user root" in root.refusal
    assert "--user www-data" in www.refusal
    root, www, bare = read(table, has_user=True, user="root")
    assert root.job is not None
    assert root.job["target"]["command"] == "cd / && run-parts"
    assert root.job["labels"]["user"] == "root"
    assert "only lines of root" in www.refusal
    assert bare.refusal
    assert "is no user" in refusal("0 1 * * * /usr/bin/x y", has_user=True)


def test_a_line_that_begins_with_a_user_is_suspect_whatever_the_others_do() -> None:
    lines = [f"0 1 * * * {rest}" for rest in ("root /a", "nosuchuser /b", "/usr/bin/root x", "root", "mail -s x")]

    assert [SUSPECT in entry.notes for entry in read("\n".join(lines))] == [True, False, False, False, False]
    assert not any(SUSPECT in entry.notes for entry in read(lines[0], has_user=True, user="root"))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh --all", "backup"),
        ("cd /srv/app && ./rotate-log.sh", "rotate-log"),
        ("/usr/bin/python3 /opt/jobs/daily_report.py", "daily-report"),
        ("flock -n /tmp/x.lock nice -n 10 /bin/sync_crm", "x-lock"),
        ("PATH=/x RAILS_ENV=production bin/rake", "rake"),
        ("[ -x /usr/sbin/anacron ] || run-parts /etc/cron.daily", "anacron"),
        ("$HOME/x", "job"),
        ("curl -fsS https://example.com/ping > /dev/null", "curl"),
        ("ÄÖÜ", "job"),
    ],
)
def test_names_say_what_is_run(command: str, name: str) -> None:
    assert job(f"0 1 * * * {command}")["name"] == name


def test_names_differ() -> None:
    entries = read("0 1 * * * /x\n0 2 * * * /x\n0 3 * * * /x\n", prefix="p-")

    assert [entry.job["name"] for entry in entries if entry.job] == ["p-x", "p-x-2", "p-x-3"]


def test_comments_describe_the_line_below_them() -> None:
    first, second = read("# Backs up\n# the database\n0 1 * * * /a\n\n# lost\n\n0 2 * * * /b\n")

    assert first.job is not None
    assert second.job is not None
    assert (first.job["description"], second.job["description"]) == ("Backs up the database", "")


def test_empty_tables_and_windows_line_ends() -> None:
    assert read("") == []
    assert read("# nothing\n\n") == []
    assert job("0 1 * * * /a\r\n")["target"]["command"] == "/a"


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_accident(text: str) -> None:
    for entry in read(text):
        assert entry.job or entry.refusal or entry.notes


@given(
    st.text(
        st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]),
        min_size=1,
        max_size=60,
    )
)
def test_any_command_is_a_sound_job(command: str) -> None:
    for entry in read(f"0 1 * * * {command}"):
        if entry.job:
            parse_job(entry.job, job_id="x", now_us=0, tenant="")
