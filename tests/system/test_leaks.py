"""A secret is used by a real process in every place it can go to, and then looked for wherever anything is kept."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from tests.system.harness import Process, wait_for

VALUE = "S3CR3T/xyz+8812 &?"
FORMS = {VALUE, quote(VALUE), quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode().rstrip("=")}
ADMIN = "horae_admin_key_of_the_leak_test"


class Echo(BaseHTTPRequestHandler):
    """Fails, and says all that it was told."""

    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        text = f"{self.path} {dict(self.headers)} {body}"
        self.seen.append(text)
        self.send_response(500)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    Echo.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_secret_that_was_used_is_found_nowhere(tmp_path: Path, echo: str) -> None:
    server = Process(
        tmp_path,
        "serve",
        HORAE_DATABASE_URL=f"sqlite:///{tmp_path}/horae.db",
        HORAE_ADMIN_KEY=ADMIN,
        HORAE_SECRET_KEY="0123456789abcdef0123456789abcdef",
        HORAE_EGRESS_ALLOW="127.0.0.0/8",
    )

    def ask(method: str, path: str, body: Any = None) -> Any:
        status, answer = server.call(method, f"/api/v1{path}", body, ADMIN)
        assert status < 400, answer
        return answer

    try:
        server.wait_ready()
        ask("PUT", "/secrets/TOKEN", {"value": VALUE})
        hook = ask("POST", "/webhooks", {"name": "ops", "url": f"{echo}/hook", "events": ["run.failed"]})
        target = {
            "url": f"{echo}/run",
            "method": "POST",
            "headers": {"Authorization": "Bearer {{ secret.TOKEN }}"},
            "body": {"password": "{{ secret.TOKEN }}", "twice": "{{ secret.TOKEN }}{{ secret.TOKEN }}"},
        }
        job = ask("POST", "/jobs", {"name": "leaky", "type": "http", "target": target, "retry": {"max_retries": 0}})
        run = ask("POST", "/jobs/leaky/run", {})["run_id"]
        wait_for(lambda: ask("GET", f"/runs/{run}")["status"] == "FAILED")
        wait_for(lambda: any("/hook" in text for text in Echo.seen))
        wait_for(lambda: ask("GET", "/deliveries")["deliveries"][0]["attempts"])
        ask("PATCH", "/jobs/leaky", {"description": "changed"})
        assert any(VALUE in text and "/run" in text for text in Echo.seen), "it was never used"

        told = [
            json.dumps(ask("GET", path))
            for path in (
                *("/jobs", f"/jobs/{job['job_id']}", "/jobs/leaky/versions", "/jobs/leaky/explain", "/runs"),
                *(f"/runs/{run}", f"/runs/{run}/logs", "/dead-letters", "/secrets", "/webhooks", "/deliveries"),
                *(f"/webhooks/{hook['id']}/deliveries", "/audit", "/audit/export", "/history/export", "/stats"),
            )
        ]
        told.append(str(server.call("GET", "/metrics")[1]))
    finally:
        server.terminate()
    kept = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "horae.db" in kept
    assert "***" in "".join(told)
    for form in FORMS:
        assert not [text[:300] for text in told if form in text]
        assert not [name for name, data in kept.items() if form.encode() in data]
    assert not [text for text in Echo.seen if "/hook" in text and VALUE in text]
