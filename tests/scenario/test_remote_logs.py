"""Logs of workers that come over HTTP: piece by piece, no longer than they may be, and without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from horae.scheduler.janitor import Janitor
from horae.store import pieces
from horae.store.database import Statement, Transaction
from horae.store.store import Store
from horae.testing import VAULT
from horae.worker.attempt import LOG_CAP
from horae.worker.opening import Opener
from horae.worker.pieces import Redactors
from horae.worker.secrets import Secrets
from tests.conformance.conftest import StoreClock
from tests.conformance.world import World, count_queries
from tests.scenario.test_remote_workers import Api, api, claim, client, complete, given

__all__ = ["api"]


async def test_a_piece_costs_as_much_after_many_others(api: Api, store: Store):
    await given(api)
    (run,) = await claim(api)
    asked = []
    for seq in range(1, 41):
        with count_queries(store) as seen:
            await write(api, run, seq, "a line\n")
        asked.append([query.statement for query in seen])

    assert asked[1:] == asked[1:2] * 39
    assert pieces.ADD_UP not in asked[0] + asked[1]


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
async def test_a_log_is_full_in_whatever_order_its_pieces_come(api: Api, order: tuple[int, ...]):
    await given(api)
    (run,) = await claim(api)
    text = "x" * 64_000
    for part in range(4):
        for seq in order:
            await write(api, run, part * 4 + seq, text)
            await write(api, run, part * 4 + seq, text)

    left = LOG_CAP - 16 * len(text)
    for seq, n, is_kept in ((17, left + 1, False), (18, left, True), (19, 1, False)):
        piece = {"fence": run["fence"], "seq": seq, "text": "x" * n}
        assert (await api.post(f"runs/{run['run_id']}/log", json=piece)).json()["kept"] is is_kept


async def test_pieces_that_an_earlier_release_took_count_too(api: Api, store: Store):
    await given(api)
    (run,) = await claim(api)
    await write(api, run, 1, "x" * 60_000)

    def earlier() -> Any:
        yield Statement("UPDATE logs SET total = NULL")()

    await store.database.run(Transaction(earlier))
    for seq in range(2, 18):
        await write(api, run, seq, "x" * 60_000)
    piece = {"fence": run["fence"], "seq": 18, "text": "x" * 60_000}
    assert (await api.post(f"runs/{run['run_id']}/log", json=piece)).json()["kept"] is False


# Secrets in their logs

SECRET = "remote-secret-998877"


async def given_secret(api: Api) -> dict[str, Any]:
    """A run that knows a secret, and is held by a worker."""
    assert (await api.put("secrets/RW", json={"value": SECRET})).status_code == 201
    await given(api, target={"handler": "report", "args": {"token": "{{ secret.RW }}"}})
    (run,) = await claim(api)
    assert run["args"] == {"token": SECRET}
    return run


async def write(api: Api, run: dict[str, Any], seq: int, text: str) -> str:
    """The log as it is shown after this piece."""
    piece = {"fence": run["fence"], "seq": seq, "text": text}
    answer = await api.post(f"runs/{run['run_id']}/log", json=piece)
    assert (answer.status_code, answer.json().get("kept")) == (200, True), answer.text
    return (await api.get(f"runs/{run['run_id']}/logs")).text


async def kept(store: Store) -> str:
    """All that the database has of logs."""

    def everything() -> Any:
        return (yield Statement("SELECT text, held FROM logs")())

    return "\n".join(f"{row['text']} {row['held']}" for row in await store.database.run(Transaction(everything)))


@pytest.mark.parametrize("size", [1, 3, 7, 19, 20, 64])
async def test_a_secret_is_masked_however_its_log_is_cut_into_pieces(api: Api, store: Store, size: int):
    run = await given_secret(api)
    text = f"split {SECRET} done\n{SECRET}{SECRET} remote-secretary\nr"
    seen = ""
    async with client(store) as other:
        for seq, start in enumerate(range(0, len(text), size), 1):
            node = (api, other)[seq % 2]
            now = await write(node, run, seq, text[start : start + size])
            assert now.startswith(seen)
            seen = now
            assert "remote-secr" not in (await kept(store)).replace("remote-secreta", "")
        await complete(other, run)

    masked = "split *** done\n****** remote-secretary\nr"
    assert (await api.get(f"runs/{run['run_id']}/logs")).text == masked
    followed = (await api.get(f"runs/{run['run_id']}/logs", params={"follow": "true"})).text
    pieces = [json.loads(line[6:]) for line in followed.splitlines() if line.startswith("data: ")]
    assert "".join(piece.get("text", "") for piece in pieces) == masked


async def test_pieces_that_are_sent_again_or_come_out_of_order_show_no_part_of_a_secret(api: Api, store: Store):
    run = await given_secret(api)
    await write(api, run, 1, "a line\nremote-secr")
    await write(api, run, 1, "a line\nremote-secr")
    await write(api, run, 2, "et-998877\n")
    await write(api, run, 2, "et-998877\n")
    await write(api, run, 4, "et-998877 and on\n")

    assert await write(api, run, 3, "again remote-secr") == "a line\n***\nagain ****** and on\n"
    assert "998877" not in await kept(store)


@pytest.mark.parametrize("status", ["failed", "released", "cancelled"])
async def test_what_only_looked_like_a_secret_is_shown_when_the_attempt_ends(api: Api, status: str):
    run = await given_secret(api)
    assert await write(api, run, 1, "the remote") == "the "
    if status == "cancelled":
        await api.post(f"runs/{run['run_id']}/cancel")
    assert (await complete(api, run, status)).status_code == 200

    assert (await api.get(f"runs/{run['run_id']}/logs")).text == "the remote"


async def test_what_is_held_back_under_a_key_that_was_changed_is_masked(api: Api, store: Store):
    run = await given_secret(api)
    await write(api, run, 1, "the remote-")

    def broken() -> Any:
        yield Statement("UPDATE logs SET held = 'oldkey01.AAAA'")()

    await store.database.run(Transaction(broken))
    assert await write(api, run, 2, "secret\n") == "the ***secret\n"


async def janitor_works(store: Store, world: World) -> None:
    await world.plan()
    world.guard.held = None
    secrets = Secrets(store, VAULT)
    close = Redactors(Opener(store, secrets), secrets).close
    await Janitor(store, world.shards, world.guard, 86_400, close).tick()


@pytest.mark.parametrize(("end", "shown"), [("the last r", "the last r"), ("it is remote-secr", "it is ***")])
async def test_what_is_held_back_is_shown_when_the_worker_is_lost(
    api: Api, store: Store, world: World, clock: StoreClock, end: str, shown: str
):
    run = await given_secret(api)
    held = await write(api, run, 1, f"one\n{end}")
    assert len(held) < len("one\n" + end)
    await clock.advance(16)

    await janitor_works(store, world)

    assert (await api.get(f"runs/{run['run_id']}")).json()["status"] == "RETRYING"
    assert (await api.get(f"runs/{run['run_id']}/logs")).text == f"one\n{shown}"
    assert "remote-secr" not in await kept(store)
    (again,) = await claim(api, "w2")
    assert again["run_id"] == run["run_id"]
    await write(api, again, 1, "two\n")
    assert (await api.get(f"runs/{run['run_id']}/logs")).text == f"one\n{shown}two\n"


async def test_a_worker_that_comes_back_before_it_is_given_up_goes_on_with_its_log(
    api: Api, store: Store, world: World, clock: StoreClock
):
    run = await given_secret(api)
    await write(api, run, 1, "it is remote-secr")
    await clock.advance(16)
    secrets = Secrets(store, VAULT)
    logs = await Redactors(Opener(store, secrets), secrets).close(await store.unfinished_logs(10))
    assert len(logs) == 1
    await write(api, run, 2, "et-998877, you see\n")

    assert await store.reap(10, logs) == 1
    assert (await api.get(f"runs/{run['run_id']}/logs")).text == "it is ***, you see\n"


async def test_what_is_held_back_is_shown_when_the_attempt_is_ended_for_its_worker(
    api: Api, store: Store, clock: StoreClock
):
    run = await given_secret(api)
    await write(api, run, 1, "the last r")
    beat = {"runs": [{"run_id": run["run_id"], "fence": run["fence"]}]}
    for _ in range(5):  # 30 s are its own, 15 more for the way
        await clock.advance(10)
        (state,) = (await api.post("workers/w1/heartbeat", json=beat)).json()["runs"]

    assert (state["state"], state["reason"]) == ("lost", "timeout")
    assert (await api.get(f"runs/{run['run_id']}/logs")).text == "the last r"
