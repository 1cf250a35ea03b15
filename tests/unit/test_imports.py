"""Timers of systemd, CronJobs of Kubernetes and a schedule of Celery beat as jobs, with their traps named."""

from __future__ import annotations

from pathlib import Path

import pytest

from horae.cli.celery import read_beat
from horae.cli.files import checked
from horae.cli.kubernetes import read_cronjobs
from horae.cli.systemd import calendar_to_cron, read_timers


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("daily", "@daily"),
        ("weekly", "0 0 * * 1"),
        ("Mon..Fri 09:00", "0 9 * * 1-5"),
        ("Mon,Wed *-*-* 10:30:00", "30 10 * * 1,3"),
        ("*-*-01 04:00:00", "0 4 1 * *"),
        ("*:0/15", "*/15 * * * *"),
        ("*:5/20:00", "5/20 * * * *"),
        ("*-*-* *:*:00/30", "*/30 * * * * *"),
        ("*-01,07-01 00:00", "0 0 1 1,7 *"),
        ("Sat,Sun 08..18:00", "0 8-18 * * 6,7"),
    ],
)
def test_a_calendar_of_systemd_is_a_line_of_cron(text: str, line: str) -> None:
    assert calendar_to_cron(text) == (line, "", "")
    checked({"name": "x", "schedule": line, "type": "noop"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2030-01-01 10:00", "names a year"),
        ("Mon *-*-01 10:00", "both hold"),
        ("*-*~01 10:00", "no like"),
        ("Moonday 10:00", "cannot be read"),
        ("sometimes and again", "cannot be read"),
    ],
)
def test_what_cron_cannot_say_is_refused_with_the_reason(text: str, told: str) -> None:
    line, _, refusal = calendar_to_cron(text)

    assert (line, told in refusal) == ("", True)


def unit(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def test_a_timer_and_its_service_are_a_job(tmp_path: Path) -> None:
    unit(tmp_path, "backup.timer", "[Unit]\nDescription=Back up\n[Timer]\nOnCalendar=03:15 Europe/Berlin\n"
         "RandomizedDelaySec=5min\nPersistent=true\n")  # fmt: skip
    unit(tmp_path, "backup.service", '[Service]\nUser=backup\nEnvironment="A=b c" D=e\nWorkingDirectory=/srv\n'
         "ExecStart=/usr/bin/backup \\\n  --all\n")  # fmt: skip
    unit(tmp_path, "lone.timer", "[Timer]\nOnCalendar=daily\n")
    unit(tmp_path, "tick.timer", "[Timer]\nOnBootSec=5min\nOnUnitActiveSec=1h 30min\nUnit=backup.service\n")
    unit(tmp_path, "boot.timer", "[Timer]\nOnBootSec=5min\nUnit=backup.service\n")

    backup, boot, lone, tick = sorted(read_timers([tmp_path], zone="UTC", prefix="x-"), key=lambda each: each.text)

    assert backup.job is not None
    job = checked(backup.job)
    assert (job["name"], job["schedule"], job["timezone"]) == ("x-backup", "15 3 * * *", "Europe/Berlin")
    assert job["target"]["command"].split() == ["/usr/bin/backup", "--all"]
    assert (job["target"]["env"], job["target"]["cwd"]) == ({"A": "b c", "D": "e"}, "/srv")
    assert (job["jitter"], job["misfire"]["policy"], job["overlap"]) == ("5m", "run_once", "skip")
    assert any("ran as backup" in note for note in backup.notes)
    assert "lone.service is not beside it" in lone.refusal
    assert tick.job is not None
    assert tick.job["schedule"] == "@every 5400s"
    assert any("OnBootSec is left out" in note for note in tick.notes)
    assert "nothing that comes again" in boot.refusal


CRONJOB = """
apiVersion: v1
kind: List
items:
- kind: CronJob
  metadata: {name: hello, namespace: ops}
  spec:
    schedule: "*/5 * * * *"
    concurrencyPolicy: Forbid
    startingDeadlineSeconds: 200
    suspend: true
    jobTemplate: {spec: {backoffLimit: 2, activeDeadlineSeconds: 600, template: {spec: {containers: [
      {name: c, image: busybox, command: [sh, -c], args: ["date; echo hi"],
       env: [{name: A, value: "1"}, {name: S, valueFrom: {secretKeyRef: {name: x, key: y}}}]}]}}}}
- kind: CronJob
  metadata: {name: zoned}
  spec: {schedule: "0 9 * * *", timeZone: Europe/Berlin, jobTemplate: {spec: {template: {spec: {containers: [
      {image: app, command: [run]}]}}}}}
- kind: CronJob
  metadata: {name: image-only}
  spec: {schedule: "0 9 * * *", jobTemplate: {spec: {template: {spec: {containers: [{image: app}]}}}}}
- kind: CronJob
  metadata: {name: broken}
  spec: {schedule: "61 9 * * *"}
- kind: Service
  metadata: {name: passed-over}
"""


def test_cronjobs_are_jobs(tmp_path: Path) -> None:
    hello, zoned, image_only, broken = read_cronjobs(CRONJOB, zone="UTC")

    assert hello.job is not None
    job = checked(hello.job)
    assert job["target"]["command"] == ["sh", "-c", "date; echo hi"]
    assert (job["overlap"], job["timeout"], job["retry"]["max_retries"]) == ("skip", "10m", 2)
    assert (job["misfire"]["window"], job["labels"]["namespace"]) == ("3m20s", "ops")
    told = " ".join(hello.notes)
    for trap in ("no timeZone", "image busybox", "S came from the cluster", "suspended there"):
        assert trap in told
    assert zoned.job is not None
    assert (zoned.job["timezone"], zoned.job["retry"]["max_retries"]) == ("Europe/Berlin", 6)
    assert "names no command" in image_only.refusal
    assert "Minute must be 0-59" in broken.refusal
    assert broken.line > image_only.line > 1


BEAT = """
from celery.schedules import crontab, solar
app = Celery(timezone="Europe/Berlin")
app.conf.update(
    beat_schedule={
        "nightly": {"task": "tasks.nightly", "schedule": crontab(minute=0, hour="3,15"), "args": (16, 2)},
        "often": {"task": "t.often", "schedule": 30.0, "options": {"queue": "fast", "expires": 10}},
        "half": {"task": "t.half", "schedule": timedelta(minutes=30), "kwargs": {"a": 1}},
        "product": {"task": "t.product", "schedule": 60 * 5},
        "trap": {"task": "t.trap", "schedule": crontab(hour=7)},
        "sun": {"task": "t.sun", "schedule": solar("sunset", 1, 2)},
        "both": {"task": "t.both", "schedule": crontab(0, 0, day_of_month=13, day_of_week=5)},
        "third": {"task": "t.third", "schedule": crontab(0, 0, 1)},
        "named": {"task": TASK, "schedule": 5},
        "odd": {"task": "t.odd", "schedule": crontab(minute=61)},
        **others,
    }
)
"""


def test_a_beat_schedule_is_read_and_not_run() -> None:
    entries = {each.text: each for each in read_beat(BEAT, zone=None)}

    jobs = {text: checked(each.job) for text, each in entries.items() if each.job}
    assert {text: job["schedule"] for text, job in jobs.items()} == {
        "'nightly'": "0 3,15 * * *",
        "'often'": "@every 30s",
        "'half'": "@every 1800s",
        "'product'": "@every 300s",
        "'trap'": "* 7 * * *",
    }
    assert jobs["'nightly'"]["timezone"] == "Europe/Berlin"
    assert jobs["'nightly'"]["payload"] == {"args": [16, 2]}
    assert jobs["'half'"]["payload"] == {"a": 1}
    assert jobs["'often'"]["queue"] == "fast"
    assert any("every minute of those hours" in note for note in entries["'trap'"].notes)
    assert not any("every minute of those hours" in note for note in entries["'nightly'"].notes)
    refusals = {text: each.refusal for text, each in entries.items() if each.refusal}
    assert set(refusals) == {"'sun'", "'both'", "'third'", "'named'", "'odd'", "others"}
    assert "solar" in refusals["'sun'"]
    assert "Celery: both, cron: either" in refusals["'both'"]
    assert "TASK is worked out when the module runs" in refusals["'named'"]
