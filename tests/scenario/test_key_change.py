"""While HORAE_SECRET_KEY is being changed: what was sealed and what is signed goes on under both keys."""

from __future__ import annotations

from typing import Any

from horae.core.egress import allow_ranges
from horae.executors.webhook import WebhookSender
from horae.notify.relay import Relay
from horae.store.store import Store
from horae.vault import Vault
from tests.conformance.world import World
from tests.scenario.asking import assert_problem
from tests.scenario.conftest import app_over, client_of
from tests.scenario.test_webhooks import receiver, run_and_end
from tests.unit.test_webhooks import accepts

__all__ = ["receiver"]

OLD, NEW = "o" * 32, "n" * 32
LOCAL = allow_ranges("127.0.0.0/8")


def at(store: Store, vault: Vault) -> Any:
    """A node with this key, or these."""
    return client_of(app_over(store, allow=LOCAL, vault=vault))


async def signing(store: Store, vault: Vault) -> dict[str, str | None]:
    async with at(store, vault) as api:
        answer = await api.get("/v1/signing-secret")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_plain_urls_are_signed_with_both_keys_while_the_old_one_is_given(
    store: Store, world: World, receiver: Any
):
    before = await signing(store, Vault(OLD))
    during = await signing(store, Vault(NEW, OLD))
    after = await signing(store, Vault(NEW))
    async with at(store, Vault(NEW, OLD)) as api:
        rule = {"url": receiver.url, "on": "failure"}
        job = (await api.post("/v1/jobs", json={"name": "a", "type": "noop", "notify": [rule]})).json()["job_id"]
    sender = WebhookSender(LOCAL)
    await run_and_end(world, job, "a", "failed")
    await Relay(store, sender, Vault(NEW, OLD)).tick()
    await run_and_end(world, job, "b", "failed")
    await Relay(store, sender, Vault(NEW)).tick()
    await sender.close()

    assert before["old_secret"] is after["old_secret"] is None
    assert before["secret"] != after["secret"]
    assert during == {"secret": after["secret"], "old_secret": before["secret"]}
    both, new = receiver.got
    assert accepts(before["secret"], *both)
    assert accepts(after["secret"], *both)
    assert not accepts(before["secret"], *new)
    assert accepts(after["secret"], *new)


async def test_kept_answers_are_found_under_the_key_that_sealed_them_and_sealed_anew(store: Store):
    webhook = {"name": "ops", "url": "http://127.0.0.1/hook", "events": ["run.failed"]}
    asked = {"/v1/keys": {"name": "ci", "role": "viewer"}, "/v1/webhooks": webhook}
    both = Vault(NEW, OLD)
    async with at(store, Vault(OLD)) as old, at(store, Vault(NEW)) as new:
        shown = {path: await old.post(path, json=body, headers=once(path)) for path, body in asked.items()}
        refused = {path: await new.post(path, json=body, headers=once(path)) for path, body in asked.items()}
        kept = await store.kept_secrets(Vault(OLD).key_id)
        for secret in kept:
            await store.reseal(secret, both.seal(both.open(secret.sealed, *secret.place), *secret.place))
        again = {path: await new.post(path, json=body, headers=once(path)) for path, body in asked.items()}

    for path, answer in refused.items():
        fault = assert_problem(answer, 409, "wrong_secret_key")["errors"][0]
        word = shown[path].json()["key_id"] if path == "/v1/keys" else "ops"
        assert fault["hint"] == f"Have a new one in its place: POST {path.removeprefix('/v1')}/{word}/rotate."
    assert len(kept) == 2
    assert await store.kept_secrets(Vault(OLD).key_id) == []
    assert {path: answer.json() for path, answer in again.items()} == {
        path: answer.json() for path, answer in shown.items()
    }


def once(path: str) -> dict[str, str]:
    return {"Idempotency-Key": path}
