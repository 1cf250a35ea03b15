"""Timers of systemd, CronJobs of Kubernetes and a schedule of Celery beat as jobs, with their traps named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from horae.cli.celery import read_beat
from horae.cli.crontab import Entry
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


def timer(folder: Path, service: str, calendar: str = "OnCalendar=daily") -> Entry:
    unit(folder, "x.timer", f"[Timer]\n{calendar}\n")
    unit(folder, "x.service", f"[Service]\n{service}\n")
    (entry,) = read_timers([folder / "x.timer"], zone="UTC")
    return entry


def test_one_job_has_one_zone(tmp_path: Path) -> None:
    both = "OnCalendar=*-*-* 4:00:00 Europe/Berlin\nOnCalendar=*-*-* 9:00"
    assert "follow Europe/Berlin and UTC" in timer(tmp_path, "ExecStart=/bin/x", both).refusal

    alike = timer(tmp_path, "ExecStart=/bin/x", both.replace("9:00", "9:00 Europe/Berlin")).job
    assert alike is not None
    assert (alike["schedule"], alike["timezone"]) == (["0 4 * * *", "0 9 * * *"], "Europe/Berlin")


@pytest.mark.parametrize(
    ("service", "printed", "code"),
    [
        ("ExecStart=-/bin/false\nExecStart=/bin/echo second", "second\n", 0),
        ("ExecStart=/bin/false\nExecStart=-/bin/false\nExecStart=/bin/echo second", "", 1),
        ("ExecStart=/bin/echo one\nExecStart=-/bin/false", "one\n", 0),
        ("ExecStart=/bin/echo a | b > c; d && e * ~ #f", "a | b > c; d && e * ~ #f\n", 0),
        (
            "Environment=A='x  y'\nExecStart=/bin/echo $A ${A} '-${A}-' a$A $$A 100%%",
            "x y x  y -x  y- a$A $A 100%\n",
            0,
        ),
        ("Environment=A=x\nExecStart=:/bin/echo $A ${A}", "$A ${A}\n", 0),
        ("Environment=A=x\nExecStart=/bin/sh -c 'echo $A | tr x y'", "y\n", 0),
        ("ExecStart=@/bin/sh name -c 'echo hi'", "hi\n", 0),
        ("ExecStart=/usr/bin/find /dev/null -exec echo {} \\;", "/dev/null\n", 0),
    ],
)
def test_a_command_does_in_a_shell_what_systemd_does_without(
    tmp_path: Path, service: str, printed: str, code: int
) -> None:
    made = timer(tmp_path, service).job
    assert made is not None
    target = checked(made)["target"]
    words, env = ["/bin/sh", "-c", target["command"]], target.get("env", {})
    done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=False)

    assert (done.stdout, done.returncode) == (printed, code)


def test_what_is_lost_of_a_unit_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.service.d").mkdir()
    told = "; ".join(
        timer(tmp_path, "ExecStart=+/bin/x\nRestart=always\nNice=5", "OnCalendar=daily\nWakeSystem=1").notes
    )

    for trap in ("left out: WakeSystem, Restart, Nice", "not read: x.service.d", "more rights"):
        assert trap in told
    assert "quotes do not match" in timer(tmp_path, "ExecStart=/bin/echo 'a").refusal
    assert "an ExecStart of its own" in timer(tmp_path, "ExecStart=/bin/a ; /bin/b").refusal


@pytest.mark.parametrize("length", ["1M", "1month 2h", "soon", "1.2.3s"])
def test_a_length_that_is_not_understood_is_not_guessed(tmp_path: Path, length: str) -> None:
    assert "is no length of time" in timer(tmp_path, "ExecStart=/bin/x", f"OnUnitActiveSec={length}").refusal


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


def cronjob(container: str, pod: str = "", job: str = "") -> Entry:
    text = f"""
kind: CronJob
metadata: {{name: x}}
spec:
  schedule: "@daily"
  timeZone: UTC
  jobTemplate: {{spec: {{{job} template: {{spec: {{{pod} containers: [{{image: i, {container}}}]}}}}}}}}
"""
    (entry,) = read_cronjobs(text, zone="UTC")
    return entry


def test_variables_are_filled_in_as_kubernetes_does() -> None:
    env = "env: [{name: FOO, value: bar}, {name: BOTH, value: $(FOO)-$(LATER)}, {name: LATER, value: x}, "
    env += "{name: NONE, value: ~}]"
    made = cronjob(f"""command: [sh, -c], args: ["echo $(FOO) '$(BOTH)' $$(FOO) $$5 $(date) $NONE $("], {env}""").job

    assert made is not None
    assert made["target"]["command"][2] == "echo bar 'bar-$(LATER)' $(FOO) $5 $(date) $NONE $("
    assert made["target"]["env"] == {"FOO": "bar", "BOTH": "bar-$(LATER)", "LATER": "x", "NONE": ""}


@pytest.mark.parametrize("where", ["args: [$(S)]", "args: [a], env: [{name: T, value: x$(S)}, SECRET]"])
def test_a_variable_of_the_cluster_in_a_command_is_refused(where: str) -> None:
    secret = "{name: S, valueFrom: {secretKeyRef: {name: a, key: b}}}"
    where = where.replace("SECRET", secret) if "SECRET" in where else f"{where}, env: [{secret}]"

    assert "$(S) came from the cluster" in cronjob(f"command: [run], {where}").refusal
    assert cronjob(f"command: [run], {where}".replace("$(S)", "$$(S)")).refusal == ""


def test_what_envfrom_may_have_filled_in_is_told() -> None:
    entry = cronjob("command: [sh, -c, echo $(WHO)], envFrom: [{configMapRef: {name: c}}]")

    assert any("$(WHO) is kept as it is" in note for note in entry.notes)


def test_what_a_job_cannot_do_for_a_cronjob_is_told() -> None:
    assert "initContainers" in cronjob("command: [run]", pod="initContainers: [{image: i}],").refusal
    many = cronjob("command: [run]", job="completions: 3, parallelism: 2,")
    assert any("completions 3, parallelism 2" in note for note in many.notes)


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
    assert not any("worked out" in refusals[each] for each in ("'both'", "'third'"))


LATER = """
app.conf.beat_schedule = {"first": {"task": "t.a", "schedule": 10}, "twice": {"task": "t.b", "schedule": 10}}
app.conf.beat_schedule["later"] = {"task": "t.c", "schedule": 1209601, "relative": True, "options": {"priority": 3}}
app.conf["beat_schedule"]["twice"] = {"task": "t.d", "schedule": 20}
beat_schedule.update({"more": {"task": "t.e", "schedule": 30}}, named={"task": "t.f", "schedule": timedelta(0, 40)})
app.conf.update({"timezone": "Europe/Berlin", "beat_schedule": {"inside": {"task": "t.g", "schedule": 50}}})
app.conf.beat_schedule |= dict(joined={"task": "t.h", "schedule": schedule(run_every=60)})
app.conf.beat_schedule = beat_schedule
app.conf.beat_schedule.update(load())
settings(beat_schedule=OTHER)

@app.on_after_configure.connect
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, test.s("hello"), name="add every 10")
"""


def test_what_comes_into_a_beat_schedule_later_is_read_or_counted_as_refused() -> None:
    entries = read_beat(LATER, zone=None)

    jobs = {each.job["name"]: checked(each.job) for each in entries if each.job}
    assert {name: job["schedule"] for name, job in jobs.items()} == {
        "first": "@every 10s", "later": "@every 1209601s", "twice": "@every 20s", "more": "@every 30s",
        "named": "@every 40s", "inside": "@every 50s", "joined": "@every 60s",
    }  # fmt: skip
    assert (jobs["twice"]["target"], jobs["twice"]["timezone"]) == ({"handler": "t.d"}, "Europe/Berlin")
    assert any(each.notes[0] == "left out: relative, options priority" for each in entries if each.name == "later")
    refusals = [(each.line, each.refusal) for each in entries if each.refusal]
    assert [line for line, _ in refusals] == [2, 9, 10, 14]
    assert refusals[0][1] == "is set again in line 4."
    assert refusals[3][1].startswith("add_periodic_task is worked out when the module runs")


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("'5'", "no number of seconds"),
        ("True", "no number of seconds"),
        ("-5", "no distance"),
        ("timedelta(fortnights=1)", "timedelta(fortnights=1) is worked out"),
        ("timedelta(**x)", "is worked out"),
        ("schedule()", "schedule() is worked out"),
        ("crontab(0, 5, nowfun=now)", "nowfun=now) is worked out"),
    ],
)
def test_a_schedule_of_beat_that_is_none_is_refused_with_the_reason(schedule: str, told: str) -> None:
    (entry,) = read_beat(f"beat_schedule = {{'x': {{'task': 't', 'schedule': {schedule}}}}}", zone="UTC")

    assert told in entry.refusal
    assert (entry.name, entry.schedule) == ("x", schedule)
