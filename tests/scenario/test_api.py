"""The door as a whole: keys, problems, health, and the description of it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from horae.api.access import KeyAccess, key_hash
from horae.commands.jobs import JobCommands
from horae.core.errors import Unavailable
from horae.store.store import Store
from tests.conformance.world import World
from tests.scenario.asking import Api, Flaky, assert_problem, create, end, on_one_store, pointers, run_now
from tests.scenario.conftest import app_over, client_of

# Previews


@on_one_store
async def test_a_preview_tells_in_words_and_in_times(api: Api):
    document = {"schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "count": 2, "from": "2027-01-15T08:00:00Z"}

    answer = (await api.post("schedules/preview", json=document)).json()

    assert answer["description"] == "Every weekday (Monday to Friday) at 09:00, Europe/Berlin time"
    assert answer["next"] == [
        {"at": "2027-01-15T08:00:00Z", "local": "2027-01-15T09:00:00+01:00"},
        {"at": "2027-01-18T08:00:00Z", "local": "2027-01-18T09:00:00+01:00"},
    ]
    assert any("minute 0" in warning for warning in answer["warnings"])
    assert len((await api.post("schedules/preview", json={"schedule": "@hourly"})).json()["next"]) == 5
    assert (await api.post("schedules/preview", json={"schedule": "@manual"})).json()["next"] == []


@on_one_store
async def test_a_preview_follows_the_rule_for_times_that_the_clocks_leave_out(api: Api):
    document = {"schedule": "30 2 * * *", "timezone": "Europe/Berlin", "count": 1, "from": "2030-03-31T00:00:00Z"}

    shifted = (await api.post("schedules/preview", json=document)).json()
    skipped = (await api.post("schedules/preview", json=document | {"dst": {"gap": "skip"}})).json()

    assert shifted["next"][0]["at"] == "2030-03-31T01:00:00Z"
    assert skipped["next"][0]["at"] == "2030-04-01T00:30:00Z"
    assert any("horae leaves it out" in warning for warning in skipped["warnings"])


@on_one_store
@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({}, ["/schedule"]),
        ({"schedule": "61 9 * * *"}, ["/schedule"]),
        ({"schedule": ["@daily", "nope"]}, ["/schedule/1"]),
        ({"schedule": {"cron": "@daily"}}, ["/schedule"]),
        ({"schedule": "@daily", "timezone": "Mars"}, ["/timezone"]),
        ({"schedule": "@daily", "timezone": 5, "count": 101, "from": "now"}, ["/timezone", "/count", "/from"]),
        ({"schedul": "@daily"}, ["/schedul"]),
        ({"schedule": "@daily", "dst": {"gap": "jump", "fold": 2}}, ["/dst/gap", "/dst/fold"]),
        ({"schedule": "@daily", "dst": "skip"}, ["/dst"]),
    ],
)
async def test_a_preview_names_the_place_of_a_mistake(api: Api, document: Any, where: list[str]):
    assert pointers(await api.post("schedules/preview", json=document)) == where


# Who may come in


@on_one_store
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic c2VjcmV0"},
        {"Authorization": "Bearer"},
        {"Authorization": "secret"},
        {"X-API-Key": "secre"},
        {"X-API-Key": b"s\xe4cret"},
        {"X-API-Key": ""},
    ],
)
async def test_without_the_key_every_route_is_closed_with_the_same_words(store: Store, headers: Any):
    app = app_over(store, KeyAccess(key_hash("secret")))
    async with client_of(app, headers=headers) as client:
        details = set()
        for route in app.routes:
            if not route.path.startswith(("/api", "/v1")):
                assert (await client.get(route.path)).status_code == 200
                continue
            for method in route.methods - {"HEAD"}:
                answer = await client.request(method, route.path.replace("{", "").replace("}", ""))
                details.add(assert_problem(answer, 401, "unauthorized")["detail"])
                assert answer.headers["www-authenticate"] == "Bearer"
        assert len(details) == 1


@on_one_store
@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer secret"}, {"authorization": "bearer  secret"}, {"X-API-Key": "secret"}]
)
async def test_the_key_opens_and_names_a_tenant(store: Store, headers: dict[str, str]):
    async with client_of(app_over(store, KeyAccess(key_hash("secret"))), headers=headers) as client:
        assert (await client.get("/api/v1/jobs")).status_code == 200
        made = await client.post("/api/v1/jobs", json={"name": "a"}, headers={"X-Horae-Tenant": "acme"})
        assert made.json()["tenant"] == "acme"
        bad = await client.get("/api/v1/jobs", headers={"X-Horae-Tenant": "a b"})
        assert pointers(bad) == ["/headers/X-Horae-Tenant"]


@on_one_store
async def test_a_key_in_the_address_is_refused(store: Store):
    async with client_of(app_over(store, KeyAccess(key_hash("secret")))) as client:
        assert (await client.get("/v1/jobs?api_key=secret")).status_code == 401
        answer = await client.get("/v1/jobs?api_key=secret", headers={"X-API-Key": "secret"})
        assert pointers(answer) == ["/query/api_key"]
        assert "secret" not in answer.text


@on_one_store
async def test_an_empty_admin_key_opens_nothing(store: Store):
    async with client_of(app_over(store, KeyAccess(key_hash("")))) as client:
        for headers in ({}, {"Authorization": "Bearer "}, {"X-API-Key": ""}):
            assert (await client.get("/v1/jobs", headers=headers)).status_code == 401


@on_one_store
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8700"}, 200),
        ({"Host": "[::1]:8700"}, 200),
        ({"Host": "horae"}, 200),
        ({"Host": "app.localhost"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[bad"}, 403),
        ({"Origin": "http://127.0.0.1:8700"}, 200),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_pages_of_others_cannot_reach_an_open_horae(api: Api, headers: dict[str, str], status: int):
    answer = await api.post("/jobs:batch", json={"jobs": []}, headers=headers)

    assert answer.status_code == status


# Every answer


@on_one_store
async def test_an_unknown_path_and_a_wrong_method_are_problems_too(http: Api):
    for path in ("/", "/api/v1", "/api/v1/", "/api/v1/jobs/", "/api/v2/jobs", "/v1/jobs/a/b/c", "/v1/jobs/a%2Fb"):
        assert_problem(await http.get(path), 404, "not_found")
    for method, path, allowed in (
        ("DELETE", "/v1/jobs", "GET, HEAD, POST"),
        ("POST", "/v1/jobs/a", "DELETE, GET, HEAD, PATCH, PUT"),
        ("BREW", "/v1/runs", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ):
        answer = await http.request(method, path)
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed


@on_one_store
async def test_the_callers_request_id_comes_back_if_it_is_harmless(http: Api):
    for told, is_kept in (("abc-1", True), ("a b", False), ("x" * 101, False), ("<script>", False)):
        answer = await http.get("/healthz", headers={"X-Request-Id": told})
        assert (answer.headers["x-request-id"] == told) is is_kept
        assert answer.headers["x-content-type-options"] == "nosniff"


@on_one_store
async def test_when_the_store_is_away_the_answer_is_503_and_gives_nothing_away(store: Store):
    flaky = Flaky(store)
    flaky.answers = 0
    async with client_of(app_over(flaky)) as client:
        answer = await client.post("/v1/jobs", json={})

        problem = assert_problem(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert "10.0.0.5" not in answer.text
        assert problem["errors"] == []


@on_one_store
async def test_a_bug_of_ours_is_an_opaque_500(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    async def broken(*_: Any) -> None:
        raise KeyError("the secret of the store")

    monkeypatch.setattr(JobCommands, "delete", broken)
    async with client_of(app_over(store)) as client:
        answer = await client.delete("/v1/jobs/x")

    problem = assert_problem(answer, 500, "internal")
    assert "secret" not in answer.text
    assert problem["request_id"] in capsys.readouterr().out


@on_one_store
async def test_ready_says_why_not(store: Store):
    async def not_ready() -> list[str]:
        return ["The schema lacks 0002_pre_more: run `horae migrate`."]

    async def hangs() -> list[str]:
        raise TimeoutError

    async def away() -> list[str]:
        raise Unavailable("PostgreSQL cannot be reached: ConnectionRefusedError: ('10.1.2.3', 5432)")

    for ready, reason in ((not_ready, "0002_pre_more"), (hangs, "did not answer"), (away, "cannot be reached")):
        async with client_of(app_over(store, ready=ready)) as client:
            answer = await client.get("/readyz")
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert reason in answer.json()["reasons"][0]
            assert "10.1.2.3" not in answer.text
            assert (await client.get("/healthz")).status_code == 200


@on_one_store
async def test_metrics_count_answers_by_route_and_never_by_job(http: Api, api: Api):
    job = await create(api)
    await api.get(f"jobs/{job['job_id']}")
    await http.request("BREW", "/nowhere")

    answer = await http.get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    labels = [sample.labels for sample in families["horae_http_requests"].samples]
    assert {"method": "GET", "route": "/api/v1/jobs/{job}", "status": "200"} in labels
    assert {"method": "OTHER", "route": "none", "status": "404"} in labels
    assert job["job_id"] not in answer.text


@on_one_store
async def test_the_openapi_file_is_whole(http: Api, store: Store):
    document = (await http.get("/openapi.json")).json()

    assert document["openapi"].startswith("3.1")
    told = {
        (path if "servers" in item else f"/api/v1{path}", method.upper())
        for path, item in document["paths"].items()
        for method in item
        if method != "servers"
    }
    served = {(route.path, method) for route in app_over(store).routes for method in route.methods - {"HEAD"}}
    assert told == {(path, method) for path, method in served if not path.startswith("/v1/")}
    assert {(path.replace("/api", "", 1), method) for path, method in told if path.startswith("/api")} <= served
    operations = [item[method] for item in document["paths"].values() for method in item if method != "servers"]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert all({"405", "431"} <= operation["responses"].keys() for operation in operations)
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert f"#/components/schemas/{name}" in str(document), name
    for reference in set(_references(document)):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


@on_one_store
async def test_every_request_and_every_answer_in_json_has_an_example_that_fits(http: Api):
    document = (await http.get("/openapi.json")).json()
    checked = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            bodies = [] if method == "servers" else [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                for media, content in body.get("content", {}).items():
                    if "example" in content:
                        schema = {**content["schema"], "components": document["components"]}
                        jsonschema_rs.validator_for(schema).validate(content["example"])
                        checked += 1
                    else:
                        assert "servers" in item or media != "application/json", (method, path, media)

    assert checked > 200


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["$ref"]] if "$ref" in value else [ref for item in value.values() for ref in _references(item)]
    return [ref for item in value for ref in _references(item)] if isinstance(value, list) else []


async def test_answers_fit_their_schemas(http: Api, api: Api, world: World, store: Store):
    await create(api, schedule="@daily", retries=0)
    run = await run_now(api)
    await world.worker()
    await end(store, await world.claim(), "failed", reason="exception", error="boom")
    await api.patch("jobs/report", json={"priority": "LOW"})
    await api.post("jobs/report/pause", json={"reason": "move"})
    document = (await http.get("/openapi.json")).json()
    paths = {
        "/jobs": "jobs", "/jobs/{job}": "jobs/report", "/jobs/{job}/status": "jobs/report/status",
        "/jobs/{job}/runs": "jobs/report/runs", "/jobs/{job}/versions": "jobs/report/versions", "/runs": "runs",
        "/runs/{run}": f"runs/{run}", "/dead-letters": "dead-letters", "/workers": "workers",
        "/dead-letters:groups": "/dead-letters:groups", "/stats": "stats", "/stats/series": "stats/series",
    }  # fmt: skip

    for path, real in paths.items():
        answer = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        schema = {**answer, "components": document["components"]}
        jsonschema_rs.validator_for(schema).validate((await api.get(real)).json())
    problem = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    jsonschema_rs.validator_for(problem).validate((await api.get("jobs/nobody")).json())
