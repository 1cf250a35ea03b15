"""The receiver kit: one effect for each key, whatever arrives in whatever order; and signatures."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

import horae.receiver
from horae.core.webhooks import new_secret, signature
from horae.receiver import Answer, BadSignature, IdempotentASGI, IdempotentWSGI, Inbox, State, verify

OK = Answer(200, [("Content-Type", "text/plain")], b"done")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Callable[[], sqlite3.Connection]:
    return lambda: sqlite3.connect(tmp_path / "inbox.db", timeout=20)


@pytest.fixture
def inbox(database: Callable[[], sqlite3.Connection], clock: Clock) -> Inbox:
    inbox = Inbox(database, clock=clock)
    inbox.create_table()
    inbox.create_table()
    return inbox


@pytest.mark.parametrize("style", ["qmark", "numeric", "named"])
def test_the_ways_of_writing_parameters(database: Callable[[], sqlite3.Connection], style: str) -> None:
    if style == "numeric":
        with pytest.raises(ValueError, match="fence_by"):
            Inbox(database, fence_by="moon")
        assert Inbox(database, paramstyle="numeric")._sql("a = ? AND b = ?") == "a = :1 AND b = :2"
        assert Inbox(database, paramstyle="pyformat")._sql("a = ? AND b = ?") == "a = %s AND b = %s"
        return
    inbox = Inbox(database, paramstyle=style)
    inbox.create_table()

    assert [inbox.begin("k", 1).state, inbox.begin("k", 1).state] == [State.FIRST, State.BUSY]


# Around an app


class Effects:
    """An app that counts what it does, and can be told how to answer and to wait."""

    def __init__(self) -> None:
        self.count = 0
        self.status = 200
        self.is_in = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def wsgi(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.is_in.set()
        self.go.wait(5)
        self.count += 1
        start_response(f"{self.status} Whatever", [("Content-Type", "text/plain"), ("X-Count", str(self.count))])
        return [b"done ", str(self.count).encode()]

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        self.is_in.set()
        await asyncio.to_thread(self.go.wait, 5)
        self.count += 1
        headers = [(b"content-type", b"text/plain"), (b"x-count", str(self.count).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"done ", "more_body": True})
        await send({"type": "http.response.body", "body": str(self.count).encode()})


@pytest.fixture
def effects() -> Effects:
    return Effects()


@pytest.fixture(params=["wsgi", "asgi"])
def call(request: pytest.FixtureRequest, effects: Effects, inbox: Inbox) -> Iterator[Callable[..., httpx2.Response]]:
    """Calls the guarded app and gives its answer."""
    if request.param == "wsgi":
        wsgi = httpx2.WSGITransport(app=IdempotentWSGI(effects.wsgi, inbox))
        with httpx2.Client(transport=wsgi, base_url="http://a") as client:
            yield lambda method="POST", **headers: client.request(method, "/pay", headers=told(headers))
    else:
        app = IdempotentASGI(effects.asgi, inbox)

        async def send(method: str, headers: dict[str, str]) -> httpx2.Response:
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://a") as client:
                return await client.request(method, "/pay", headers=headers)

        yield lambda method="POST", **headers: asyncio.run(send(method, told(headers)))


def told(headers: dict[str, Any]) -> dict[str, str]:
    names = {"key": "Idempotency-Key", "fence": "X-Horae-Fence", "job": "X-Horae-Job"}
    return {names[name]: str(value) for name, value in headers.items()}


def test_a_repeat_is_answered_as_the_first_call_was(call: Any, effects: Effects) -> None:
    first, again, late = call(key="k", fence=5), call(key="k", fence=6), call(key="k", fence=4)

    assert effects.count == 1
    for answer in (again, late):
        assert (answer.status_code, answer.text, answer.headers["x-count"]) == (200, first.text, "1")
        assert answer.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers


def test_a_failure_is_not_remembered(call: Any, effects: Effects) -> None:
    effects.status = 500
    assert call(key="k", fence=5).status_code == 500
    effects.status = 200

    assert call(key="k", fence=4).status_code == 409
    assert call(key="k", fence=6).status_code == 200
    assert effects.count == 2


def test_what_has_no_key_or_changes_nothing_is_let_through(call: Any, effects: Effects) -> None:
    assert [call().text, call().text] == ["done 1", "done 2"]
    assert [call("GET", key="k").text, call("GET", key="k").text] == ["done 3", "done 4"]


def test_a_key_that_cannot_be_read_is_refused(call: Any, effects: Effects) -> None:
    answers = [call(key="k", fence="x"), call(key="k" * 300, fence=1), call(key="k", fence="9" * 30)]

    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert effects.count == 0


def test_a_call_beside_another_is_sent_away_for_a_while(call: Any, effects: Effects) -> None:
    effects.go.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call, key="k", fence=5)
        assert effects.is_in.wait(5)
        answer = call(key="k", fence=5)
        effects.go.set()

        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert first.result().status_code == 200
    assert effects.count == 1


def test_an_app_that_raises_gives_its_key_back(inbox: Inbox) -> None:
    def broken(environ: Any, start_response: Any) -> list[bytes]:
        raise RuntimeError("no")

    transport = httpx2.WSGITransport(app=IdempotentWSGI(broken, inbox))
    with httpx2.Client(transport=transport, base_url="http://a") as client:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                client.post("/", headers={"Idempotency-Key": "k"})

    assert inbox.begin("k", 0).state is State.FIRST


# Signatures

SECRET, OLD = new_secret(b"s" * 32), new_secret(b"o" * 32)
BODY = b'{"type":"run.failed"}'


def signed(secrets: list[str], at: int = 1000) -> dict[str, str]:
    text = signature(secrets, "msg_1", at, BODY.decode())
    return {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(at), "Webhook-Signature": text}


def test_what_horae_signs_is_taken() -> None:
    assert verify(SECRET, signed([SECRET]), BODY, now=1010) == "msg_1"
    assert verify(SECRET, signed([OLD, SECRET]), BODY, now=1010) == "msg_1"
    assert verify([SECRET, OLD], signed([OLD]), BODY, now=1010) == "msg_1"


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (signed([OLD]), BODY, 1010),
        (signed([SECRET]), BODY + b" ", 1010),
        (signed([SECRET]), BODY, 1301),
        (signed([SECRET]), BODY, 699),
        (signed([SECRET]) | {"Webhook-Id": "msg_2"}, BODY, 1010),
        (signed([SECRET]) | {"Webhook-Timestamp": "1001"}, BODY, 1010),
        (signed([SECRET]) | {"Webhook-Timestamp": "soon"}, BODY, 1010),
        (signed([SECRET]) | {"Webhook-Signature": "v1,"}, BODY, 1010),
        ({}, BODY, 1010),
    ],
)
def test_anything_else_is_refused(headers: dict[str, str], body: bytes, now: float) -> None:
    with pytest.raises(BadSignature):
        verify(SECRET, headers, body, now=now)


def test_the_folder_can_be_copied_away_and_needs_nothing(tmp_path: Path) -> None:
    shutil.copytree(Path(horae.receiver.__file__).parent, tmp_path / "inbox_kit")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import inbox_kit; print(inbox_kit.verify.__name__)"

    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], check=True, capture_output=True, text=True)

    assert done.stdout == "verify\n"
