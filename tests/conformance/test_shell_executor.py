"""The shell executor with real processes: what they get, what is kept, and that none stays."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from horae.executors import spawn
from horae.executors.shell import Output, ShellExecutor
from tests.conformance.attempts import DUE, Lines, is_running, request_for, until

BWRAP = shutil.which("bwrap")


@pytest.fixture
async def executor():
    made = ShellExecutor("on", grace_seconds=0.4)
    yield made
    await made.close()


def job(command, *, cwd=None, env=None, **changes):
    return request_for("shell", {"command": command, "cwd": cwd, "env": env}, **changes)


def pid_in(path):
    return int(path.read_text()) if path.exists() and path.read_text().strip() else None


async def test_a_text_goes_through_the_shell_and_a_list_does_not(executor):
    text = await executor.run(job("echo $((1 + 2)) | cat"), Lines())
    words = await executor.run(job(["echo", "$((1 + 2)) | cat; $(reboot)", "-n"]), Lines())

    assert text.result == {"exit_code": 0, "output": "3\n"}
    assert words.result == {"exit_code": 0, "output": "$((1 + 2)) | cat; $(reboot) -n\n"}


@pytest.mark.parametrize("size", [0, 10, 300_000])
async def test_the_payload_comes_on_standard_input(executor, size):
    outcome = await executor.run(job("wc -c", payload={"x": "y" * size}), Lines())

    assert int(outcome.result["output"]) == size + len('{"x":""}')


async def test_the_payload_holds_what_came_before(executor):
    outcome = await executor.run(job("cat", payload={"a": "ü"}, upstream={"load": {"rows": 1}}), Lines())

    assert json.loads(outcome.result["output"]) == {"a": "ü", "upstream": {"load": {"rows": 1}}}


async def test_the_environment_is_clean(executor, monkeypatch):
    monkeypatch.setenv("HORAE_DATABASE_URL", "postgresql://user:S3CR3T@host/db")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CR3T")

    outcome = await executor.run(job(["env"], env={"REGION": "eu"}, attempt=2), Lines())

    env = dict(line.split("=", 1) for line in outcome.result["output"].splitlines())
    assert "S3CR3T" not in outcome.result["output"]
    assert env.pop("HORAE_SPAWN")
    assert {name for name in env if not name.startswith("HORAE_")} <= {"PATH", "HOME", "LANG", "TZ", "REGION"}
    assert {name: env[name] for name in env if name.startswith("HORAE_")} == {
        "HORAE_JOB": "daily-report",
        "HORAE_RUN_ID": "019a8f2c-1b00-8abc-adef-0123456789ab",
        "HORAE_ATTEMPT": "2",
        "HORAE_SCHEDULED_FOR": DUE,
        "HORAE_FENCE": "7",
    }
    assert env["REGION"] == "eu"


async def test_no_descriptor_of_the_worker_is_passed_on(tmp_path):
    secret = os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(secret, True)
    executor = ShellExecutor("on")

    outcome = await executor.run(job("ls -l /proc/self/fd"), Lines())

    assert "secret" not in outcome.result["output"]
    os.close(secret)
    await executor.close()


async def test_signals_that_the_worker_ignores_are_not_ignored_in_the_job(executor):
    """Python ignores SIGPIPE; with it ignored, `yes` would complain instead of ending."""
    outcome = await executor.run(job("yes | head -n 1"), Lines())

    assert outcome.result["output"] == "y\n"


async def test_the_command_runs_in_its_directory(executor, tmp_path):
    odd = tmp_path / "-a b; $(reboot)"
    odd.mkdir()
    (odd / "run.sh").write_text("#!/bin/sh\npwd\n")
    (odd / "run.sh").chmod(0o755)

    text = await executor.run(job("pwd", cwd=str(odd)), Lines())
    words = await executor.run(job(["./run.sh"], cwd=str(odd)), Lines())
    missing = await executor.run(job("pwd", cwd="/no/such/place"), Lines())

    assert text.result["output"] == words.result["output"] == f"{odd}\n"
    assert missing.reason == "exit_code"
    assert "/no/such/place" in missing.error


async def test_the_search_path_of_the_job_is_used(executor, tmp_path):
    (tmp_path / "mine").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "mine").chmod(0o755)

    outcome = await executor.run(job(["mine"], env={"PATH": str(tmp_path)}), Lines())

    assert outcome.result["output"] == "mine\n"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo one; echo two >&2; exit 3", "exit code 3\none\ntwo"),
        ("exit 1", "exit code 1"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("kill -40 $$", "killed by signal 40"),
    ],
)
async def test_a_failure_tells_the_code_or_signal_and_the_last_lines(executor, command, error):
    outcome = await executor.run(job(command), Lines())

    assert (outcome.succeeded, outcome.reason, outcome.error) == (False, "exit_code", error)
    assert outcome.is_retryable


@pytest.mark.parametrize("command", [["no-such-program"], ["/etc/passwd"], ["/"]])
async def test_a_command_that_cannot_start_is_a_failure(executor, command):
    outcome = await executor.run(job(command), Lines())

    assert (outcome.succeeded, outcome.reason) == (False, "exit_code")
    assert command[0] in outcome.error


async def test_output_is_handed_on_while_the_command_runs(executor):
    lines = Lines()
    outcome = await executor.run(job("echo one; sleep 0.6; echo two >&2"), lines)

    assert lines.pieces == ["one\n", "two\n"]
    assert lines.times[1] - lines.times[0] > 0.25
    assert outcome.result["output"] == "one\ntwo\n"


async def test_output_that_comes_while_the_log_is_slow_is_not_forgotten(executor):
    pieces = []
    slow = asyncio.Event()

    async def log(text):
        pieces.append(text)
        if len(pieces) == 1:
            await asyncio.sleep(0.6)
        if "two" in text:
            slow.set()

    task = asyncio.create_task(executor.run(job("echo one; sleep 0.3; echo two; sleep 30"), log))
    await asyncio.wait_for(slow.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert pieces == ["one\n", "two\n"]


async def test_much_output_is_cut_in_the_log_and_its_end_kept_in_the_result(executor):
    lines = Lines()
    outcome = await executor.run(job("seq 1 600000"), lines)

    assert outcome.result["output"].endswith("599999\n600000\n")
    assert len(outcome.result["output"]) == 4096
    assert lines.text.startswith("1\n2\n3\n")
    kept, _, cut = lines.text.partition("\n[output truncated]\n")
    printed = sum(len(f"{n}\n") for n in range(1, 600_001))
    assert cut == f"[{printed - len(kept)} more bytes were not kept]\n"
    assert 1024 * 1024 - 300 < len(kept) < len(lines.text) < 1024 * 1024


async def test_bytes_that_are_no_text_are_replaced(executor):
    lines = Lines()
    outcome = await executor.run(job(r"printf 'a\377b\000c'"), lines)

    assert lines.text == outcome.result["output"] == "a\ufffdb\ufffdc"


def test_letters_and_lines_are_not_torn_apart():
    output = Output(1_000_000)
    text = "ä€😀\n" * 5000 + "end without a line break"
    taken = []
    for start in range(0, len(text.encode()), 777):
        output.add(text.encode()[start : start + 777])
        taken.append(output.take(is_last=False))
    taken.append(output.take(is_last=True))

    assert "".join(taken) == text
    assert all(piece.endswith("\n") for piece in taken[:-1] if piece)


async def test_the_timeout_is_gentle_first(executor, tmp_path):
    command = f"trap 'echo bye; echo clean > {tmp_path}/done; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    lines = Lines()

    outcome = await executor.run(job(command, timeout_seconds=0.4), lines)

    assert outcome.reason == "timeout"
    assert (tmp_path / "done").exists()
    assert lines.text.startswith("ready\n")
    assert lines.text.endswith("bye\n")


async def test_children_get_the_time_of_grace_although_the_shell_ends_at_once(executor):
    child = "trap 'sleep 0.2; echo clean; exit 0' TERM; while :; do sleep 0.02; done"
    lines = Lines()

    await executor.run(job(["sh", "-c", 'sh -c "$1" & wait', "sh", child], timeout_seconds=0.3), lines)

    assert lines.text.endswith("clean\n")


STUBBORN = """
    import os, signal, sys, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    def leave(path):
        if os.fork() == 0:
            if path != "group":
                os.setsid()
                if os.fork():
                    os._exit(0)
                for descriptor in range(3):
                    os.close(descriptor)
                os.chdir("/")
            with open(sys.argv[1] + "/" + path, "w") as file:
                file.write(str(os.getpid()))
            time.sleep(300)
    leave("group")
    leave("daemon")
    with open(sys.argv[1] + "/leader", "w") as file:
        file.write(str(os.getpid()))
    while not all(os.path.exists(sys.argv[1] + "/" + name) for name in ("group", "daemon")):
        time.sleep(0.01)
    time.sleep(float(sys.argv[2]))
"""


def stubborn(tmp_path, seconds, **changes):
    """A leader, a child and a daemon that left the session, all deaf to signals."""
    (tmp_path / "stubborn.py").write_text(textwrap.dedent(STUBBORN))
    return job([sys.executable, "-S", str(tmp_path / "stubborn.py"), str(tmp_path), str(seconds)], **changes)


def family(tmp_path):
    return [pid_in(tmp_path / name) for name in ("leader", "group", "daemon")]


async def test_nobody_survives_the_end_of_the_job(executor, tmp_path):
    outcome = await executor.run(stubborn(tmp_path, 0), Lines())

    assert outcome.succeeded
    assert None not in family(tmp_path)
    await until(lambda: not any(map(is_running, family(tmp_path))))  # a killed one may take a moment to be gone


async def test_nobody_survives_the_timeout(executor, tmp_path):
    outcome = await executor.run(stubborn(tmp_path, 300, timeout_seconds=1.0), Lines())

    assert outcome.reason == "timeout"
    assert None not in family(tmp_path)
    await until(lambda: not any(map(is_running, family(tmp_path))))  # a killed one may take a moment to be gone


async def test_a_child_that_shed_its_environment_goes_with_the_group(executor, tmp_path):
    deaf = f"env -i /bin/sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; while :; do /bin/sleep 0.1; done'"

    outcome = await executor.run(job(f"{deaf} & wait", timeout_seconds=0.5), Lines())

    assert outcome.reason == "timeout"
    await until(lambda: not is_running(pid_in(tmp_path / "pid")))


async def test_nobody_survives_a_cancellation_even_a_repeated_one(executor, tmp_path):
    task = asyncio.create_task(executor.run(stubborn(tmp_path, 300), Lines()))
    await until(lambda: all(family(tmp_path)))
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(map(is_running, family(tmp_path))))  # a killed one may take a moment to be gone


async def test_nobody_survives_a_worker_that_is_killed(tmp_path):
    (tmp_path / "stubborn.py").write_text(textwrap.dedent(STUBBORN))
    worker = """
        import asyncio, sys
        from horae.executors.shell import ShellExecutor
        from tests.conformance.attempts import Lines, request_for
        asyncio.run(ShellExecutor("on").run(request_for("shell", {"command": sys.argv[1:]}), Lines()))
    """
    command = [sys.executable, "-S", str(tmp_path / "stubborn.py"), str(tmp_path), "300"]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(worker), *command)
    await until(lambda: all(family(tmp_path)), 10)
    process.send_signal(signal.SIGKILL)
    await process.wait()

    await until(lambda: not any(map(is_running, family(tmp_path))))


async def test_a_job_that_ends_does_not_take_others_with_it(executor):
    long = asyncio.create_task(executor.run(job("sleep 1; echo done"), Lines()))
    for _ in range(5):
        assert (await executor.run(job("true"), Lines())).succeeded

    assert (await long).result["output"] == "done\n"


async def test_a_background_child_does_not_keep_the_job_alive(executor, tmp_path):
    outcome = await executor.run(job(f"sleep 300 & echo $! > {tmp_path}/pid; echo out"), Lines())

    assert outcome.result["output"] == "out\n"
    await until(lambda: not is_running(pid_in(tmp_path / "pid")))


async def test_the_end_is_seen_without_pidfd_too(executor, monkeypatch):
    monkeypatch.delattr(spawn.os, "pidfd_open")

    outcomes = await asyncio.gather(*(executor.run(job(f"exit {code}"), Lines()) for code in range(3)))

    assert [outcome.succeeded for outcome in outcomes] == [True, False, False]


async def test_closing_ends_the_guardian(executor):
    await executor.run(job("true"), Lines())
    pid, _ = executor._spawner._guardian

    assert is_running(pid)
    await executor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_switched_off_it_runs_nothing_and_says_how_to_switch_it_on(tmp_path):
    outcome = await ShellExecutor("off").run(job(f"touch {tmp_path}/made"), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("payload_rejected", False)
    assert "HORAE_SHELL=on" in outcome.error
    assert not (tmp_path / "made").exists()


async def test_without_bubblewrap_the_sandbox_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    outcome = await ShellExecutor("sandbox").run(job(f"touch {tmp_path}/made"), Lines())

    assert (outcome.reason, outcome.is_retryable) == ("payload_rejected", False)
    assert "bubblewrap" in outcome.error
    assert not (tmp_path / "made").exists()


needs_bubblewrap = pytest.mark.skipif(
    BWRAP is None and os.environ.get("CI") != "true", reason="bubblewrap is not installed"
)


@pytest.fixture
async def sandbox(monkeypatch):
    monkeypatch.setenv("S3CR3T", "of-the-worker")
    made = ShellExecutor("sandbox", grace_seconds=0.4)
    yield made
    await made.close()


@needs_bubblewrap
async def test_the_sandbox_gives_the_job_its_input_and_variables(sandbox):
    outcome = await sandbox.run(job("cat; env; pwd; id -u", payload={"a": 1}, env={"REGION": "eu"}), Lines())

    words = outcome.result["output"].split()
    assert words[0].startswith('{"a":1}')
    assert "HORAE_ATTEMPT=1" in words
    assert "REGION=eu" in words
    assert words[-2:] == ["/work", "65534"]


@needs_bubblewrap
@pytest.mark.parametrize(
    "attack",
    [
        f"cat /proc/{os.getpid()}/environ",
        "cat /proc/1/environ | grep -a S3CR3T",
        f"ls {Path.cwd()}",
        "ls /root /home /var",
        "cat /etc/passwd",
        "touch /usr/x",
        "touch /bin/x",
        "mount -t tmpfs none /tmp",
        "unshare --user true",
        f"kill -0 {os.getpid()}",
        f"{sys.executable} -c pass",
        "grep -v lo: /proc/net/dev | grep ':'",
    ],
    ids=lambda attack: attack.split()[0],
)
async def test_from_inside_the_sandbox_nothing_outside_can_be_had(sandbox, attack):
    outcome = await sandbox.run(job(attack), Lines())

    assert (outcome.succeeded, outcome.reason) == (False, "exit_code")


@needs_bubblewrap
async def test_the_sandbox_withstands_a_fork_bomb(sandbox):
    outcome = await sandbox.run(job("f() { f | f & }; f; sleep 0.5; echo survived", timeout_seconds=5.0), Lines())

    assert outcome.reason in {None, "exit_code", "timeout"}
    assert (await sandbox.run(job("true"), Lines())).succeeded


@needs_bubblewrap
async def test_a_preloaded_library_does_not_reach_bubblewrap_itself(sandbox):
    outcome = await sandbox.run(job("true", env={"LD_PRELOAD": "/no/such.so", "LD_DEBUG": "libs"}), Lines())

    assert "bwrap" not in (outcome.result or {}).get("output", "")


def command_of(path):
    """Nothing for what is no process, or ended while we looked."""
    try:
        return (path / "cmdline").read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return ""


@needs_bubblewrap
async def test_a_timeout_empties_the_sandbox(sandbox):
    mark = f"277.{secrets.randbits(40)}"  # nobody else sleeps this long
    command = f"(trap '' TERM; setsid sleep {mark} &) ; sleep {mark}"
    outcome = await sandbox.run(job(command, timeout_seconds=0.4), Lines())

    assert outcome.reason == "timeout"
    await until(lambda: not any(mark in command_of(path) for path in Path("/proc").iterdir()))
