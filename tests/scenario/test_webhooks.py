"""Webhooks: what is told, to whom, signed how, and what happens when nobody listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from horae.core.egress import allow_ranges
from horae.core.webhooks import ATTEMPTS
from horae.executors.webhook import WebhookSender
from horae.notify.relay import SHARE, Relay
from horae.store.database import Statement, Transaction
from horae.store.store import Store
from horae.testing import VAULT
from horae.vault import tenant_secrets
from tests.conformance.conftest import StoreClock
from tests.conformance.test_http_executor import Names
from tests.conformance.world import LATE_SECONDS, TENANT, World
from tests.scenario.asking import Api, assert_problem, create, pointers
from tests.scenario.conftest import ADDRESS, app_over, client_of
from tests.unit.test_egress import REFUSED_HOSTS
from tests.unit.test_webhooks import accepts


class Receiver:
    """A server outside horae that keeps what it is sent."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[tuple[dict[str, str], str]] = []

    async def take(self, request: web.Request) -> web.Response:
        self.got.append(({key.lower(): value for key, value in request.headers.items()}, await request.text()))
        return web.Response(status=self.status, text="as you wish")

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in self.got]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.take)
    async with TestServer(app) as server:
        receiver.url = str(server.make_url("/hook"))  # type: ignore[attr-defined]
        yield receiver


@pytest.fixture
async def relay(store: Store) -> AsyncIterator[Relay]:
    sender = WebhookSender(allow_ranges("127.0.0.0/8"))
    yield Relay(store, sender, VAULT)
    await sender.close()


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Any]:
    import httpx2

    app = app_over(store, allow=allow_ranges("127.0.0.0/8"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=f"{ADDRESS}/api/v1/") as client:
        yield client


async def hook(api: Api, receiver: Any, *events: str, **more: Any) -> dict[str, Any]:
    answer = await api.post("webhooks", json={"name": "ops", "url": receiver.url, "events": list(events), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def run_and_end(world: World, job: str, key: str, status: str, reason: str | None = None) -> str:
    await world.worker()
    run = await world.run_now(job, key)
    await world.settle(await world.claim(), status, reason)
    return run


async def test_a_failure_is_told_signed_and_on_record(api: Api, world: World, relay: Relay, receiver: Any):
    made = await hook(api, receiver, "run.failed", "dead_letter.added")
    job = await create(api)

    await run_and_end(world, job["job_id"], "a", "succeeded")
    run = await run_and_end(world, job["job_id"], "b", "failed", "exit_code")
    await relay.tick()

    assert sorted(receiver.events) == ["dead_letter.added", "run.failed"]
    for headers, body in receiver.got:
        assert accepts(made["secret"], headers, body)
        data = json.loads(body)["data"]
        assert (data["run_id"], data["job_name"], data["status"], data["reason"]) == (
            run,
            "report",
            "FAILED",
            "exit_code",
        )
    listed = (await api.get("webhooks/ops/deliveries")).json()["deliveries"]
    assert [(each["state"], each["status"], each["attempts"]) for each in listed] == [("delivered", 200, 1)] * 2
    assert made["secret"] not in (await api.get("webhooks")).text


async def test_recovery_is_told_once(api: Api, world: World, relay: Relay, receiver: Any, clock: StoreClock):
    await hook(api, receiver, "run.recovered")
    job = (await create(api))["job_id"]

    for key, status in zip("abcd", ["succeeded", "failed", "succeeded", "succeeded"], strict=True):
        await run_and_end(world, job, key, status)
        await relay.tick()
        await clock.advance(1)

    assert receiver.events == ["run.recovered"]


async def test_missed_due_times_are_told(api: Api, world: World, relay: Relay, receiver: Any, clock: StoreClock):
    await hook(api, receiver, "run.missed")
    await create(api, schedule="* * * * *", misfire="skip")
    await clock.advance(180 + LATE_SECONDS)
    await world.plan()
    await relay.tick()

    (_, body) = receiver.got[0]
    data = json.loads(body)["data"]
    assert receiver.events == ["run.missed"]
    assert (data["status"], data["reason"], data["skipped_count"]) == ("SKIPPED", "scheduler_down", 3)


async def test_a_run_that_waits_too_long_is_told_once(
    api: Api, world: World, relay: Relay, receiver: Any, clock: StoreClock, store: Store
):
    await hook(api, receiver, "run.late", late_after="30s")
    job = await create(api)
    await world.run_now(job["job_id"])

    await clock.advance(29)
    await store.tell_late(120_000_000)
    await relay.tick()
    assert receiver.events == []

    await clock.advance(3)
    for _ in range(2):
        await store.tell_late(120_000_000)
        await relay.tick()
    await world.worker()
    await world.settle(await world.claim())
    await relay.tick()
    assert receiver.events == ["run.late"]


async def test_runs_that_wait_are_looked_for_with_the_messages(
    api: Api, world: World, relay: Relay, receiver: Any, clock: StoreClock
):
    await hook(api, receiver, "run.late", late_after="30s")
    await world.run_now((await create(api))["job_id"])
    await clock.advance(31)

    await relay.tick()

    assert receiver.events == ["run.late"]


async def test_a_late_start_that_nobody_saw_is_told_at_the_end(
    api: Api, world: World, relay: Relay, receiver: Any, clock: StoreClock
):
    await hook(api, receiver, "run.late", late_after="30s")
    job = await create(api)
    await world.run_now(job["job_id"])
    await clock.advance(3600)
    await world.worker()
    await world.settle(await world.claim())
    await relay.tick()

    assert receiver.events == ["run.late"]


async def test_the_rule_of_a_job_tells_of_that_job_alone(api: Api, world: World, relay: Relay, receiver: Any):
    ours = (await create(api, notify=[{"url": receiver.url, "on": "failure"}]))["job_id"]
    other = (await create(api, name="other"))["job_id"]
    for job in (ours, other):
        await run_and_end(world, job, "a", "failed")
    await relay.tick()

    ((headers, body),) = receiver.got
    assert json.loads(body)["data"]["job_id"] == ours
    told = (await api.get("signing-secret")).json()
    assert told == {"secret": tenant_secrets(VAULT, TENANT)[0], "old_secret": None}
    assert accepts(told["secret"], headers, body)

    await api.patch("jobs/report", json={"notify": []})
    await run_and_end(world, ours, "b", "failed")
    await relay.tick()
    assert len(receiver.got) == 1


async def test_a_job_names_a_webhook_as_its_channel(api: Api, world: World, relay: Relay, receiver: Any):
    assert pointers(await api.post("jobs", json={"name": "x", "notify": [{"channel": "ops"}]})) == ["/notify/0/channel"]
    await hook(api, receiver, "run.missed")
    job = (await create(api, notify=[{"channel": "ops", "on": "success"}]))["job_id"]
    assert_problem(await api.delete("webhooks/ops"), 409, "webhook_used")

    await run_and_end(world, job, "a", "succeeded")
    await relay.tick()
    assert receiver.events == ["run.succeeded"]

    assert pointers(await api.patch("jobs/report", json={"notify": [{"channel": "nobody"}]})) == ["/notify/0/channel"]
    await api.delete("jobs/report")
    assert (await api.delete("webhooks/ops")).status_code == 200


async def test_what_does_not_arrive_is_sent_again_and_given_up_in_the_end(
    api: Api, world: World, relay: Relay, receiver: Any, clock: StoreClock
):
    secret = (await hook(api, receiver, "run.failed"))["secret"]
    job = (await create(api))["job_id"]
    await run_and_end(world, job, "a", "failed")
    receiver.status = 503

    for _ in range(ATTEMPTS + 3):
        await relay.tick()
        await clock.advance(13 * 3600)

    ids = {headers["webhook-id"] for headers, _ in receiver.got}
    times = {headers["webhook-timestamp"] for headers, _ in receiver.got}
    assert (len(receiver.got), len(ids), len(times)) == (ATTEMPTS, 1, ATTEMPTS)
    assert all(accepts(secret, *each) for each in receiver.got)
    (dead,) = (await api.get("deliveries", params={"state": "dead"})).json()["deliveries"]
    assert (dead["status"], dead["error"], dead["attempts"]) == (503, "HTTP 503 as you wish", ATTEMPTS)

    receiver.status = 204
    assert (await api.post(f"deliveries/{dead['delivery_id']}/resend")).status_code == 202
    await relay.tick()
    assert (await api.get("deliveries")).json()["deliveries"][0]["state"] == "delivered"


async def test_a_sender_that_dies_leaves_its_messages_to_another(
    api: Api, world: World, relay: Relay, receiver: Any, store: Store, clock: StoreClock
):
    await hook(api, receiver, "run.failed")
    await run_and_end(world, (await create(api))["job_id"], "a", "failed")
    assert len(await store.take_messages(10, 60_000_000, [])) == 1

    await relay.tick()
    assert receiver.events == []
    await clock.advance(61)
    await relay.tick()
    assert receiver.events == ["run.failed"]


async def test_a_private_address_is_reached_neither_by_name_nor_by_number(store: Store, api: Api, world: World):
    assert pointers(
        await api.post("webhooks", json={"name": "a", "url": "http://10.0.0.1/", "events": ["run.failed"]})
    ) == ["/url"]
    closed = WebhookSender(())
    assert (await closed.send("http://127.0.0.1:9/", {}, b""))[0] is None
    await closed.close()


@pytest.mark.parametrize("dialect", ["sqlite"])
async def test_s24_no_webhook_and_no_rule_of_a_job_names_a_private_host(store: Store):
    async with client_of(app_over(store)) as open_to_all:
        for host in REFUSED_HOSTS:
            url = f"http://{host}/"
            hooked = await open_to_all.post("/v1/webhooks", json={"name": "a", "url": url, "events": ["run.failed"]})
            rule = {"url": url, "on": ["run.failed"]}
            ruled = await open_to_all.post("/v1/jobs", json={"name": "a", "type": "noop", "notify": [rule]})
            assert (hooked.status_code, ruled.status_code) == (422, 422), host


async def test_s27_a_message_follows_no_redirect(receiver: Any):
    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(receiver.url)

    app, sender = web.Application(), WebhookSender(allow_ranges("127.0.0.0/8"))
    app.router.add_post("/", elsewhere)
    async with TestServer(app) as server:
        status, why = await sender.send(str(server.make_url("/")), {}, b"{}")
    await sender.close()

    assert (status, receiver.got) == (307, [])
    assert (why or "").startswith("HTTP 307")


async def test_s33_the_log_of_deliveries_tells_nothing_of_the_network(unused_tcp_port: int):
    """Closed, silent and unreachable read alike, and no address that a name stands for is told."""
    sender = WebhookSender(allow_ranges("127.0.0.0/8"), Names("127.0.0.1"))

    named = await sender.send(f"http://hook.example:{unused_tcp_port}/", {}, b"{}")
    plain = await sender.send(f"http://127.0.0.1:{unused_tcp_port}/", {}, b"{}")
    await sender.close()

    assert named == (None, f"could not connect to http://hook.example:{unused_tcp_port}")
    assert "refused" in (plain[1] or "").lower()


async def test_a_new_secret_signs_beside_the_old_one_for_a_day(
    api: Api, relay: Relay, receiver: Any, clock: StoreClock
):
    old = (await hook(api, receiver, "run.failed"))["secret"]
    new = (await api.post("webhooks/ops/rotate")).json()["secret"]

    await api.post("webhooks/ops/test")
    await relay.tick()
    assert receiver.events == ["webhook.test"]
    assert all(accepts(secret, *receiver.got[-1]) for secret in (old, new))

    await clock.advance(86_401)
    await api.post("webhooks/ops/test")
    await relay.tick()
    assert accepts(new, *receiver.got[-1])
    assert not accepts(old, *receiver.got[-1])


async def test_a_repeat_under_one_key_makes_no_second_webhook_secret_or_message(api: Api, relay: Relay, receiver: Any):
    body = {"name": "ops", "url": receiver.url, "events": ["run.failed"]}
    for path in ("webhooks", "webhooks/ops/rotate", "webhooks/ops/test"):
        key = {"Idempotency-Key": f"for {path}"}
        first = await api.post(path, json=body if path == "webhooks" else {}, headers=key)
        again = await api.post(path, json=body if path == "webhooks" else {}, headers=key)
        assert first.is_success, first.text
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        other = await api.post(path, json={"name": "other"}, headers=key)
        assert_problem(other, 422, "key_reused")
    (sent,) = (await api.get("deliveries")).json()["deliveries"]
    await relay.tick()
    for _ in range(2):
        resent = await api.post(f"deliveries/{sent['delivery_id']}/resend", headers={"Idempotency-Key": "again"})
        assert (resent.status_code, resent.json()["state"]) == (202, "waiting")
        await relay.tick()

    assert receiver.events == ["webhook.test", "webhook.test"]


async def test_a_repeat_shows_the_secret_that_its_own_request_made(api: Api, receiver: Any, store: Store):
    first, second = {"Idempotency-Key": "first"}, {"Idempotency-Key": "second"}
    await hook(api, receiver, "run.failed")
    old = (await api.post("webhooks/ops/rotate", headers=first)).json()["secret"]
    new = (await api.post("webhooks/ops/rotate", headers=second)).json()["secret"]
    await api.patch("webhooks/ops", json={"name": "renamed"})

    assert old != new
    assert (await api.post("webhooks/ops/rotate", headers=first)).json()["secret"] == old
    assert (await api.post("webhooks/ops/rotate", headers=second)).json()["secret"] == new
    noted = (await api.get("audit")).json()["entries"]
    assert [each["action"] for each in noted].count("webhook.rotated") == 2

    def everything() -> Any:
        return (yield Statement("SELECT result, answer FROM idempotency")())

    kept = json.dumps([dict(row) for row in await store.database.run(Transaction(everything))])
    assert '\\"sealed\\"' in kept
    assert old not in kept
    assert new not in kept


async def test_a_webhook_has_a_name_that_a_path_can_hold_and_events_to_tell_of(api: Api, receiver: Any):
    body = {"name": "ops", "url": receiver.url, "events": ["run.failed"]}
    for name in (".", "..", "...."):
        assert pointers(await api.post("webhooks", json=body | {"name": name})) == ["/name"]
    assert pointers(await api.post("webhooks", json=body | {"events": []})) == ["/events"]
    await hook(api, receiver, "run.failed", name="..ops")

    assert pointers(await api.patch("webhooks/..ops", json={"events": []})) == ["/events"]
    assert (await api.get("webhooks/..ops")).json()["events"] == ["run.failed"]


async def test_a_webhook_can_be_made_switched_off(api: Api, receiver: Any):
    assert (await hook(api, receiver, "run.failed", is_active=False))["is_active"] is False


async def test_a_webhook_is_changed_switched_off_and_deleted(api: Api, world: World, relay: Relay, receiver: Any):
    made = await hook(api, receiver, "run.failed")
    changed = (await api.patch("webhooks/ops", json={"events": ["run.succeeded"], "late_after": "2m"})).json()
    assert (changed["events"], changed["late_after"]) == (["run.succeeded"], "2m")
    job = (await create(api))["job_id"]
    await run_and_end(world, job, "a", "failed")
    await api.patch("webhooks/ops", json={"is_active": False})
    await run_and_end(world, job, "b", "succeeded")
    await relay.tick()

    assert receiver.events == []
    assert (await api.delete("webhooks/ops")).json() == {"deleted": True, "id": made["id"]}
    assert_problem(await api.get("webhooks/ops"), 404, "not_found")
    assert_problem(await api.post("webhooks/ops/test"), 404, "not_found")


async def test_other_tenants_are_not_told(api: Api, world: World, relay: Relay, receiver: Any):
    other = {"X-Horae-Tenant": "other"}
    body = {"name": "ops", "url": receiver.url, "events": ["run.failed"]}
    assert (await api.post("webhooks", json=body, headers=other)).status_code == 201
    await run_and_end(world, (await create(api))["job_id"], "a", "failed")
    await relay.tick()

    assert receiver.events == []
    assert (await api.get("webhooks")).json() == {"webhooks": []}
    assert_problem(await api.get("webhooks/ops/deliveries"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, ["/name", "/url", "/events"]),
        ({"name": "a", "url": "ftp://x", "events": ["run.failed"]}, ["/url"]),
        ({"name": "a", "url": "https://example.com", "events": ["run.fialed"]}, ["/events/0"]),
        ({"name": "a b", "url": 5, "events": "run.failed"}, ["/name", "/url", "/events"]),
        ({"name": "a", "url": "https://example.com", "events": ["run.failed"], "is_active": "no"}, ["/is_active"]),
    ],
)
async def test_a_wrong_webhook_is_refused_with_every_fault(api: Api, body: Any, wrong: list[str]):
    assert pointers(await api.post("webhooks", json=body)) == wrong


async def test_a_name_is_taken_once(api: Api, receiver: Any):
    await hook(api, receiver, "run.failed")
    again = await api.post("webhooks", json={"name": "ops", "url": receiver.url, "events": ["run.failed"]})
    assert_problem(again, 409, "name_taken")


async def test_the_id_of_a_webhook_is_no_name_for_another(api: Api, receiver: Any):
    await hook(api, receiver, "run.failed")
    id_ = (await api.get("webhooks/ops")).json()["id"]
    other = await api.post("webhooks", json={"name": id_, "url": receiver.url, "events": ["run.failed"]})

    assert_problem(other, 409, "name_taken")


async def test_messages_of_one_tenant_that_hang_keep_no_other_waiting(
    api: Api, world: World, store: Store, receiver: Any, clock: StoreClock
):
    class Sender:
        """Hangs for the noisy one."""

        def __init__(self) -> None:
            self.sent: list[str] = []

        async def send(self, url: str, headers: Any, body: bytes) -> tuple[int | None, str | None]:
            if "noisy" in url:
                await asyncio.Event().wait()
            self.sent.append(url)
            return 200, None

        async def close(self) -> None: ...

    noisy = {"X-Horae-Tenant": "noisy"}
    events = {"events": ["run.succeeded"]}
    await api.post("webhooks", json={"name": "n", "url": "https://noisy.example/"} | events, headers=noisy)
    await api.post("webhooks", json={"name": "q", "url": "https://quiet.example/"} | events)
    await api.post("jobs", json={"name": "loud", "type": "noop"}, headers=noisy)
    for _ in range(3 * SHARE):
        await api.post("jobs/loud/run", headers=noisy)
    await run_and_end(world, (await create(api))["job_id"], "a", "succeeded")
    sender = Sender()
    relay = Relay(store, sender, VAULT)

    async with asyncio.timeout(20):
        while not sender.sent:
            await relay.tick()

    assert sender.sent == ["https://quiet.example/"]
    assert SHARE <= len(relay._under_way) < 2 * SHARE
    (told,) = (await api.get("webhooks/q/deliveries")).json()["deliveries"]
    assert told["state"] == "delivered"
    for task in relay._under_way:
        task.cancel()
    await asyncio.gather(*relay._under_way, return_exceptions=True)
