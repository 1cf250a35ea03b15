"""`horae conform` against endpoints on loopback: a good one of each kind, and those that are wrong in one way each."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from time import sleep
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from click.testing import CliRunner

from horae.cli import main
from horae.receiver import IdempotentWSGI, Inbox


class Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None: ...


class Endpoint:
    """`work` says, for key and fence, the status and the text of the answer; `done` counts effects by key."""

    def __init__(self, work: Callable[[Endpoint, str, int], tuple[int, str]]) -> None:
        self._work = work
        self.lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.answers: dict[str, str] = {}
        self.calls = 0

    def effect(self, key: str) -> str:
        with self.lock:
            self.done[key] += 1
            self.calls += 1
            return f"receipt {self.calls}"

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"].startswith("/count/"):
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps({"count": self.done[environ["PATH_INFO"][7:]]}).encode()]
        fence = int(environ.get("HTTP_X_HORAE_FENCE", 0))
        status, text = self._work(self, environ.get("HTTP_IDEMPOTENCY_KEY", ""), fence)
        start_response(f"{status} Whatever", [("Content-Type", "text/plain")])
        return [text.encode()]


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    servers: list[WSGIServer] = []

    def begin(app: Any) -> str:
        server = make_server("127.0.0.1", 0, app, Threaded, Quiet)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def conform(url: str, *words: str) -> tuple[int, dict[str, str]]:
    done = CliRunner().invoke(main, ["conform", f"{url}/pay", *words, "--json"])
    findings = json.loads(done.stdout)["findings"] if done.exit_code in (0, 3) else []
    return done.exit_code, {finding["check"]: finding["verdict"] for finding in findings}


def wrong(verdicts: dict[str, str]) -> set[str]:
    return {check for check, verdict in verdicts.items() if verdict == "FAILED"}


def locked(endpoint: Endpoint, key: str, fence: int) -> tuple[int, str]:
    with endpoint.lock:
        seen = endpoint.answers.get(key)
        if seen is None:
            endpoint.done[key] += 1
            seen = endpoint.answers[key] = f"receipt {len(endpoint.answers)}"
    return 200, seen


def test_a_good_endpoint_is_safe(serve: Any) -> None:
    url = serve(Endpoint(locked))

    code, verdicts = conform(url, "--effects", url + "/count/{key}")

    assert (code, wrong(verdicts), len(verdicts)) == (0, set(), 7)


def test_the_middleware_makes_a_careless_endpoint_safe(serve: Any, tmp_path: Path) -> None:
    inbox = Inbox(lambda: sqlite3.connect(tmp_path / "inbox.db", timeout=20))
    inbox.create_table()
    careless = Endpoint(lambda endpoint, key, _: (200, endpoint.effect(key)))
    url = serve(IdempotentWSGI(careless, inbox))

    assert conform(url, "--effects", url + "/count/{key}")[0] == 0


def test_an_endpoint_that_heeds_no_key_is_found_by_its_answers_and_by_its_effects(serve: Any) -> None:
    url = serve(Endpoint(lambda endpoint, key, _: (200, endpoint.effect(key))))
    assert conform(url)[0] == 3

    silent = serve(Endpoint(lambda endpoint, key, _: (200, "ok" if endpoint.effect(key) else "")))
    code, verdicts = conform(silent, "--effects", silent + "/count/{key}")
    repeats = {"duplicate", "retry", "late call", "reordered calls", "concurrent calls"}
    assert (code, wrong(verdicts)) == (3, repeats)
    code, verdicts = conform(silent)
    assert (code, verdicts["effects"]) == (0, "cannot be seen")
    told = json.loads(CliRunner().invoke(main, ["conform", f"{silent}/pay", "--json"]).stdout)
    assert told["safe"] is None
    assert not any("not done again" in each["detail"] for each in told["findings"])


def test_an_endpoint_that_looks_before_it_locks_fails_at_once(serve: Any) -> None:
    def racing(endpoint: Endpoint, key: str, _: int) -> tuple[int, str]:
        if key not in endpoint.answers:
            sleep(0.05)
            endpoint.effect(key)
            endpoint.answers[key] = "done"
        return 200, endpoint.answers[key]

    url = serve(Endpoint(racing))
    code, verdicts = conform(url, "--effects", url + "/count/{key}")

    assert (code, wrong(verdicts)) == (3, {"concurrent calls"})


def test_an_endpoint_that_knows_only_the_last_attempt_does_others_again(serve: Any) -> None:
    def by_fence(endpoint: Endpoint, key: str, fence: int) -> tuple[int, str]:
        with endpoint.lock:
            if f"{key}-{fence}" not in endpoint.answers:
                endpoint.answers[f"{key}-{fence}"] = "done"
                endpoint.done[key] += 1
        return 200, "done"

    url = serve(Endpoint(by_fence))
    code, verdicts = conform(url, "--effects", url + "/count/{key}")

    assert (code, wrong(verdicts)) == (3, {"retry", "late call", "reordered calls"})


def test_an_endpoint_that_refuses_repeats_makes_runs_fail(serve: Any) -> None:
    def refusing(endpoint: Endpoint, key: str, _: int) -> tuple[int, str]:
        with endpoint.lock:
            if key in endpoint.answers:
                return 400, "seen before"
            endpoint.answers[key] = "done"
            endpoint.done[key] += 1
        return 200, "done"

    code, verdicts = conform(serve(Endpoint(refusing)))

    assert code == 3
    assert "retry" in wrong(verdicts)


def test_an_endpoint_that_takes_every_call_for_a_repeat_is_found(serve: Any) -> None:
    def deaf(endpoint: Endpoint, key: str, _: int) -> tuple[int, str]:
        with endpoint.lock:
            if not endpoint.done:
                endpoint.done[key] += 1
        return 200, "done"

    url = serve(Endpoint(deaf))
    code, verdicts = conform(url, "--effects", url + "/count/{key}")

    assert code == 3
    assert "other keys" in wrong(verdicts)


def test_an_endpoint_that_always_fails_is_not_judged_further(serve: Any) -> None:
    code, verdicts = conform(serve(Endpoint(lambda *_: (500, "no"))))

    assert (code, list(verdicts)) == (3, ["first call", "effects"])


def test_nothing_to_judge_is_not_safe(serve: Any) -> None:
    assert conform("http://127.0.0.1:9")[0] == 9
    assert CliRunner().invoke(main, ["conform", "ftp://a"]).exit_code == 2
    assert CliRunner().invoke(main, ["conform", "http://a", "--effects", "http://a/count"]).exit_code == 2


def test_the_table_names_every_check(serve: Any) -> None:
    done = CliRunner().invoke(main, ["conform", serve(Endpoint(locked)) + "/pay"])

    assert done.exit_code == 0
    for check in ("first call", "duplicate", "retry", "late call", "reordered", "concurrent", "other keys", "effects"):
        assert check in done.stdout
