"""Keys, quotas, tokens, the audit chain and the wall between tenants, on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from horae.core.access import key_hash
from horae.core.errors import Denied, Limited
from horae.ports import Again, Asked, LogChunk, NewJob, NewKey, NewRun, NewWebhook
from horae.store import quotas
from horae.store.database import Statement, transaction
from horae.store.postgres import PostgresDatabase
from horae.store.store import Store
from tests.conformance.conftest import StoreClock
from tests.conformance.world import TENANT, World
from tests.services import on_server, with_database

ASKED = Asked("somebody", None, "key-1", "192.0.2.1", "req-1")


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


def new_key(id_: str = "k1", text: str = "horae_x") -> NewKey:
    return NewKey(id_, "ci", "editor", ("jobs",), text[:8], key_hash(text))


async def run_sql(store: Store, text: str, **params: Any) -> list[Any]:
    @transaction
    def verb() -> Any:
        return (yield Statement(text)(**params))

    return list(await store.database.run(verb()))


async def test_the_first_admin_key_is_made_once(store: Store) -> None:
    made = await asyncio.gather(*(store.first_key(new_key(f"k{n}", f"horae_{n}")) for n in range(5)))

    assert sorted(made) == [False] * 4 + [True]
    rows = await run_sql(store, "SELECT id, role FROM api_keys")
    assert len(rows) == 1


async def test_a_key_is_found_by_its_hash_alone_and_only_while_in_force(store: Store, clock: StoreClock) -> None:
    await store.create_key(ASKED, TENANT, "me", new_key())
    found = await store.find_key(key_hash("horae_x"))
    assert found is not None
    assert (found.id, found.tenant, found.role, found.scopes) == ("k1", TENANT, "editor", ("jobs",))
    assert await store.find_key(key_hash("horae_y")) is None

    await store.revoke_key(ASKED, TENANT, "k1")

    assert await store.find_key(key_hash("horae_x")) is None


# Tokens


async def test_tokens_are_shared_by_all_who_ask(store: Store, clock: StoreClock) -> None:
    granted = await asyncio.gather(*(store.take_tokens("tenant:x", 7, 50) for _ in range(20)))
    assert sum(taken.granted for taken in granted) == 50
    assert granted[-1].wait_us == 20_000

    await clock.advance(0.1)
    assert (await store.take_tokens("tenant:x", 7, 50)).granted == 5
    await clock.advance(3600)
    assert (await store.take_tokens("tenant:x", 100, 50)).granted == 50


# Quotas


async def test_a_quota_is_kept_to_without_counting_all_jobs_each_time(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    original = quotas.COUNT_JOBS

    class Spy(Statement):
        def __call__(self, **params: Any) -> Any:
            counted.append(params)
            return super().__call__(**params)

    monkeypatch.setattr(quotas, "COUNT_JOBS", Spy(original.text))
    await store.create_tenant(ASKED, TENANT, {"max_jobs": 100})
    for _ in range(10):
        await world.job()

    assert len(counted) == 1
    assert (await run_sql(store, "SELECT jobs FROM usage"))[0]["jobs"] == 10


async def test_a_recount_puts_right_what_was_made_before_the_quota_was_seen(store: Store, world: World) -> None:
    await store.create_tenant(ASKED, TENANT, {"max_jobs": 100})
    await world.job()
    await run_sql(store, "UPDATE usage SET jobs = 77 RETURNING 1")

    assert await store.counted_tenants() == [TENANT]
    await store.recount_jobs(TENANT)

    assert (await run_sql(store, "SELECT jobs FROM usage"))[0]["jobs"] == 1


async def test_waiting_runs_are_counted_at_most_once_a_second(
    store: Store, world: World, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.job()
    counted = []

    class Spy(Statement):
        def __call__(self, **params: Any) -> Any:
            counted.append(params["most"])
            return super().__call__(**params)

    monkeypatch.setattr(quotas, "COUNT_QUEUED", Spy(quotas.COUNT_QUEUED.text))
    await store.create_tenant(ASKED, TENANT, {"max_queued": 30})
    for n in range(30):
        await store.trigger(ASKED, TENANT, job, [NewRun("manual", f"manual:{n}")])
    assert len(counted) == 1
    for n in range(10):
        with pytest.raises(Limited):
            await store.trigger(ASKED, TENANT, job, [NewRun("manual", f"manual:x{n}")])
    assert len(counted) == 1

    await clock.advance(1)
    with pytest.raises(Limited):
        await store.trigger(ASKED, TENANT, job, [NewRun("manual", "manual:y")])
    assert len(counted) == 2


async def test_a_full_tenant_of_jobs_is_denied_and_the_others_are_not(store: Store, world: World) -> None:
    await store.create_tenant(ASKED, "full", {"max_jobs": 0})
    await world.job()
    definition = (await store.specs([("node-1-1", 1)]))["node-1-1", 1]
    from horae.store.jobs import decode

    (answer,) = await store.create_jobs(ASKED, "full", "me", [NewJob("j", decode(definition))], atomic=True)

    assert answer["code"] == "quota_jobs"
    assert Denied("x", answer["code"]).code == "quota_jobs"


# The audit chain


async def three_changes(store: Store) -> None:
    for n in range(3):
        await store.create_key(ASKED, TENANT, "me", new_key(f"k{n}", f"horae_{n}"))
    await store.create_key(ASKED, "other", "me", new_key("k9", "horae_9"))


async def test_rows_are_chained_for_each_tenant_by_the_sealing_step(store: Store) -> None:
    await three_changes(store)
    before = await store.check_audit(TENANT)
    sealed = await store.seal_audit(100)

    assert (before["ok"], before["rows"], before["unsealed"]) == (True, 0, 3)
    assert sealed == 4
    assert await store.seal_audit(100) == 0
    after = await store.check_audit(TENANT)
    assert (after["ok"], after["rows"], after["unsealed"]) == (True, 3, 0)
    assert await store.audit_chains() == [TENANT, "other"]


async def test_sealers_at_the_same_moment_make_one_chain(store: Store) -> None:
    for n in range(40):
        await store.create_key(ASKED, TENANT, "me", new_key(f"k{n}", f"horae_{n}"))
    await asyncio.gather(*(store.seal_audit(10) for _ in range(12)))
    await store.seal_audit(100)

    assert (await store.check_audit(TENANT)) | {"head": ""} == {
        "tenant": TENANT,
        "ok": True,
        "rows": 40,
        "unsealed": 0,
        "head": "",
        "breaks": [],
    }


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET actor = 'nobody' WHERE seq = 2 RETURNING 1",
        "DELETE FROM audit WHERE seq = 2 RETURNING 1",
        "UPDATE audit SET seq = NULL, hash = NULL WHERE seq = 2 RETURNING 1",
    ],
)
async def test_s61_the_log_is_append_only_in_the_database_itself(store: Store, dialect: str, tamper: str) -> None:
    await three_changes(store)
    await store.seal_audit(100)

    with pytest.raises(Exception, match="append only"):
        await run_sql(store, tamper)


@pytest.mark.parametrize(
    ("tamper", "place", "what"),
    [
        ("UPDATE audit SET actor = 'nobody' WHERE tenant = 'default' AND seq = 2 RETURNING 1", 2, "changed"),
        ("UPDATE audit SET after = '{}' WHERE tenant = 'default' AND seq = 1 RETURNING 1", 1, "changed"),
        ("DELETE FROM audit WHERE tenant = 'default' AND seq = 2 RETURNING 1", 2, "deleted"),
        ("DELETE FROM audit WHERE tenant = 'default' AND seq = 3 RETURNING 1", 3, "deleted"),
        ("DELETE FROM audit WHERE tenant = 'default' RETURNING 1", 1, "deleted"),
    ],
)
async def test_s61_what_the_owner_of_the_database_does_to_a_row_breaks_the_chain_there(
    store: Store, dialect: str, tamper: str, place: int, what: str
) -> None:
    await three_changes(store)
    await store.seal_audit(100)
    if dialect == "postgres":
        await run_sql(store, "ALTER TABLE audit DISABLE TRIGGER audit_is_append_only")
    else:
        await run_sql(store, "DROP TRIGGER audit_is_not_changed")
        await run_sql(store, "DROP TRIGGER audit_is_not_deleted")
    await run_sql(store, tamper)

    check = await store.check_audit(TENANT)

    assert not check["ok"]
    assert [(each["seq"], each["what"].partition(":")[0]) for each in check["breaks"]] == [(place, what)]
    assert (await store.check_audit("other"))["ok"]


async def test_a_change_that_fails_leaves_no_entry(store: Store, world: World) -> None:
    job = await world.job()
    await store.create_tenant(ASKED, TENANT, {"max_queued": 0})
    with pytest.raises(Limited):
        await store.trigger(ASKED, TENANT, job, [NewRun("manual", "manual:1")])

    assert [row["action"] for row in await run_sql(store, "SELECT action FROM audit")] == ["tenant.created"]


# The wall

on_postgres = pytest.mark.parametrize("dialect", ["postgres"])
WALLED = {
    "api_keys", "attempts", "audit", "audit_heads", "calendars", "dead_letters", "deliveries", "events", "history",
    "idempotency",
    "job_labels", "job_versions", "jobs",
    "job_calendars", "limits", "logs", "runs", "secrets", "tenants", "usage", "watches", "webhooks",
}  # fmt: skip


@on_postgres
async def test_s17_the_role_of_the_api_is_shown_nothing_without_a_tenant(
    store: Store, world: World, postgres_database: str
) -> None:
    job = await world.job(labels={"a": "b"}, retry={"max_retries": 1, "delay": "1s"})
    await store.create_key(ASKED, TENANT, "me", new_key())
    await world.worker()
    run = await world.run_now(job)
    (claimed,) = await world.claim()
    await store.requeue("w1", [Again(run, claimed.token, 0, "exception", None)])
    await store.add_logs([LogChunk(run, 1, 1, "one", TENANT), LogChunk(run, 1, 2, "theirs", "other")])
    await run_sql(
        store,
        "INSERT INTO logs (run_id, attempt, seq, at_us, text) SELECT id, 1, 3, 0, 'of an earlier release' FROM runs "
        "UNION ALL SELECT 'nobodys', 1, 3, 0, 'of an earlier release'",
    )
    connection = await asyncpg.connect(postgres_database)
    owner = await connection.fetchval("SELECT current_user")
    await connection.execute(f'SET ROLE "{owner}_api"')

    async def seen() -> dict[str, int]:
        return {table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in sorted(WALLED)}

    assert set((await seen()).values()) == {0}
    for nobody in ("", "nobody"):
        await connection.execute("SELECT set_config('horae.tenant', $1, false)", nobody)
        assert set((await seen()).values()) == {0}
    await connection.execute("SELECT set_config('horae.tenant', $1, false)", TENANT)
    shown = await seen()
    assert (shown["jobs"], shown["api_keys"], shown["job_labels"], shown["audit"]) == (1, 1, 1, 1)
    assert (shown["job_versions"], shown["attempts"]) == (1, 1)
    assert [row["seq"] for row in await connection.fetch("SELECT seq FROM logs ORDER BY seq")] == [1, 3]
    with pytest.raises(asyncpg.exceptions.InsufficientPrivilegeError, match="row-level security"):
        await connection.execute(
            "INSERT INTO logs (run_id, attempt, seq, at_us, text, tenant) VALUES ('x', 1, 1, 0, '', 'other')"
        )
    with pytest.raises(asyncpg.exceptions.InsufficientPrivilegeError, match="row-level security"):
        await connection.execute("INSERT INTO limits (tenant, queue, is_paused) VALUES ('other', '', true)")
    with pytest.raises(asyncpg.exceptions.InsufficientPrivilegeError):
        await connection.execute("DELETE FROM audit")
    await connection.close()


@on_postgres
async def test_s18_the_role_of_the_api_has_no_way_around_the_wall(store: Store, postgres_database: str) -> None:
    connection = await asyncpg.connect(postgres_database)
    row = await connection.fetchrow(
        "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = current_user || '_api'"
    )
    walled = {
        each["relname"]
        for each in await connection.fetch(
            "SELECT relname FROM pg_class WHERE relrowsecurity AND relnamespace = 'public'::regnamespace"
        )
    }
    await connection.close()

    assert row is not None
    assert not any(row.values())
    assert walled == WALLED


@on_postgres
async def test_s19_a_connection_that_served_one_tenant_shows_another_only_its_own(store: Store) -> None:
    """A verb that forgets the tenant is shown rows of the caller's tenant alone, on one connection used in turn."""

    @transaction
    def forgetful() -> Any:
        rows = yield Statement("SELECT tenant FROM api_keys ORDER BY tenant")()
        return [row["tenant"] for row in rows]

    from dataclasses import replace

    for n, tenant in enumerate("abc"):
        await store.create_key(None, tenant, "me", new_key(f"k{n}", f"horae_{n}"))
    store.database._room = asyncio.Semaphore(1)
    seen = [
        await store.database.run(replace(forgetful(), tenant=tenant)) for tenant in ("a", "b", None, "c", "a", "nobody")
    ]

    assert seen == [["a"], ["b"], ["a", "b", "c"], ["c"], ["a"], []]


async def test_the_wall_stands_for_an_owner_who_is_no_superuser(postgres_url: str, postgres_database: str) -> None:
    name = postgres_database.rpartition("/")[2].partition("?")[0]
    role = f"{name}_owner"
    on_server(postgres_url, f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD 'x'")
    on_server(postgres_url, f"ALTER DATABASE {name} OWNER TO {role}")
    on_server(with_database(postgres_url, name), f"ALTER SCHEMA public OWNER TO {role}")
    url = _as_role(postgres_database, role)
    store = Store(PostgresDatabase(url))
    try:
        await store.migrate()
        await store.create_key(ASKED, TENANT, "me", new_key())
        again = await store.migrate()
        rows = await store.list_keys("other", None, 10)
    finally:
        await store.close()

    assert store.database._guest == f"{role}_api"
    assert (again, rows) == ([], [])


async def test_an_owner_who_may_not_make_roles_works_without_the_wall(
    postgres_url: str, postgres_database: str
) -> None:
    name = postgres_database.rpartition("/")[2].partition("?")[0]
    role = f"{name}_plain"
    on_server(postgres_url, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    on_server(with_database(postgres_url, name), f"ALTER SCHEMA public OWNER TO {role}")
    store = Store(PostgresDatabase(_as_role(postgres_database, role)))
    try:
        await store.migrate()
        await store.create_key(ASKED, TENANT, "me", new_key())
        rows = await store.list_keys(TENANT, None, 10)
    finally:
        await store.close()

    assert store.database._guest == ""
    assert len(rows) == 1


def _as_role(url: str, role: str) -> str:
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role}:x@{place}"))


async def test_whatever_was_sealed_with_another_key_is_found_and_sealed_anew(store: Store) -> None:
    webhook = NewWebhook("00000000-0000-7000-8000-000000000001", "pager", "https://example.com", ["run.failed"], 0)
    await store.put_secret(ASKED, TENANT, "TOKEN", "oldkey01.a")
    await store.create_webhook(ASKED, TENANT, webhook, "oldkey01.b")
    await store.rotate_webhook(ASKED, TENANT, webhook.id, lambda _: "oldkey01.c", 1_000_000)

    others = await store.secrets_of_other_keys("newkey01")
    for secret in others:
        await store.reseal(secret, secret.sealed.replace("oldkey01", "newkey01"))

    assert sorted((secret.kind, secret.sealed, secret.place) for secret in others) == [
        ("old webhook", "oldkey01.b", (TENANT, "webhook", webhook.id)),
        ("secret", "oldkey01.a", (TENANT, "TOKEN")),
        ("webhook", "oldkey01.c", (TENANT, "webhook", webhook.id)),
    ]
    assert await store.secrets_of_other_keys("newkey01") == []
    assert sorted(s.sealed for s in await store.secrets_of_other_keys("oldkey01")) == [
        "newkey01.a",
        "newkey01.b",
        "newkey01.c",
    ]
