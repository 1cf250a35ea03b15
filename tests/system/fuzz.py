"""schemathesis against a real server: the short run of the suite, and the long one by hand.

`python -m tests.services python -m tests.system.fuzz MINUTES` takes that long, on PostgreSQL, in every role.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from horae.core.access import KEY_ROLES
from tests.services import POSTGRES_URL, on_server, with_database
from tests.system.harness import Process

KEY = "horae_admin_key_of_the_fuzz_run"
# Whether a request is good also hangs on what no schema can say: whose cursor it is, which keys were used before, what
# time it is. So that a good one is refused with 422 is not a fault in itself; every other check counts.
LEFT_OUT = "positive_data_acceptance"
SERVE = {"HORAE_ADMIN_KEY": KEY, "HORAE_SECRET_KEY": "0123456789abcdef0123456789abcdef"}


def fuzz(server: Process, key: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"http://127.0.0.1:{server.port}/openapi.json",
    ]
    command += ["--header", f"Authorization: Bearer {key}", "--checks", "all", "--exclude-checks", LEFT_OUT]
    command += ["--continue-on-failure", "--no-color", "--request-timeout", "25", "--max-response-time", "25", *words]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "tests.system.fuzz_hooks", "PYTHONPATH": str(Path.cwd())}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def new_key(server: Process, role: str, tenant: str) -> str:
    status, made = server.call("POST", "/api/v1/keys", {"name": f"fuzz {role}", "role": role}, KEY, tenant)
    assert status == 201, made
    return str(made["key"])


def main() -> None:
    seconds = float(sys.argv[1]) * 60
    on_server(os.environ[POSTGRES_URL], "CREATE DATABASE fuzz")
    environment = SERVE | {"HORAE_DATABASE_URL": with_database(os.environ[POSTGRES_URL], "fuzz")}
    folder = Path(tempfile.mkdtemp())
    subprocess.run([sys.executable, "-m", "horae", "migrate"], env=os.environ | environment, check=True, cwd=folder)
    server = Process(folder, "serve", **environment)
    is_clean = True
    try:
        server.wait_ready()
        shares = {"admin of default": (KEY, 0.5)} | {
            f"{role} of team": (new_key(server, role, "team"), 0.5 / len(KEY_ROLES)) for role in KEY_ROLES
        }
        for who, (key, share) in shares.items():
            words = ("--max-time", str(max(20, round(seconds * share))), "--max-examples", "1000000")
            done = fuzz(server, key, *words)
            print(f"== {who}: {'clean' if done.returncode == 0 else 'faults'}\n{done.stdout[-20_000:]}{done.stderr}")
            is_clean &= done.returncode == 0
    finally:
        server.terminate()
        print(server.log.read_text()[-3000:])
    sys.exit(0 if is_clean else 1)


if __name__ == "__main__":
    main()
