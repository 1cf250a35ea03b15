"""Every refusal says where it is wrong and what to do: all codes of docs/errors.md, and every place that refuses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import horae
from horae.api.problems import Refused, Unauthorized, problem_of
from horae.core.errors import Conflict, Denied, HoraeError, Limited, NotFound, Stale
from horae.store.quotas import too_many_jobs, too_many_runs
from horae.store.store import Store
from tests.scenario.asking import Api, assert_helpful, assert_problem, create, on_one_store
from tests.scenario.conftest import app_over, client_of

SOURCE = Path(horae.__file__).parent
ROW = re.compile(r"^\| `(\w+)` \| (4\d\d) \|", re.MULTILINE)
CODES = [(code, int(status)) for code, status in ROW.findall((SOURCE.parents[1] / "docs/errors.md").read_text())]
KINDS = {409: Conflict, 403: Denied}
OF_THEIR_OWN: dict[str, HoraeError] = {
    "unauthorized": Unauthorized(),
    "not_found": NotFound("There is no job."),
    "stale": Stale("It is now version 3."),
    "quota_jobs": too_many_jobs("acme", 100),
    "quota_queued": too_many_runs("acme", 5, 100, 98),
    "rate_limited": Limited("Used up.", "rate_limited", 1),
    "bad_keys": Limited("Too many.", "bad_keys", 1),
}


def calls_of(name: str) -> list[tuple[Path, ast.Call]]:
    return [
        (file, node)
        for room in ("api", "commands", "store", "worker", "core")
        for file in (SOURCE / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def told_by_all(name: str, code: str) -> bool:
    """Whether every place that raises it so has words of its own."""
    calls = [
        call
        for _, call in calls_of(name)
        if any(isinstance(each, ast.Constant) and each.value == code for each in call.args)
    ]
    return bool(calls) and all(
        len(call.args) > 3 or any(each.arg in ("hint", "faults") for each in call.keywords) for call in calls
    )


@pytest.mark.parametrize(("code", "status"), CODES)
def test_every_code_of_a_refusal_has_a_way_out(code: str, status: int):
    if told_by_all("Refused", code) or told_by_all("_whole", code) or told_by_all("Conflict", code):
        return
    if code in ("invalid", "key_reused", "quota_payload"):  # Lists of faults; the tests of bad input look at each.
        return
    if code in ("not_http", "slow_head", "head_too_large"):  # Before the app; tests/scenario/test_wire.py has them.
        return
    error = OF_THEIR_OWN.get(code) or KINDS[status]("Something.", code)

    problem = problem_of(error, "req_1", {"job": "report"})

    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["errors"]
    assert_helpful(problem)


def test_a_refusal_never_goes_without_faults():
    bare = [
        f"{file.name}:{call.lineno}"
        for file, call in calls_of("Refused")
        if not (isinstance(call.args[0], ast.Constant) and call.args[0].value >= 500)
        and len(call.args) < 4
        and not any(each.arg == "faults" for each in call.keywords)
    ]

    assert bare == []
    assert isinstance(Refused(400, "x", "y").faults, list)


def test_a_quota_names_its_limit_its_use_and_how_to_raise_it():
    jobs, runs = too_many_jobs("acme", 100), too_many_runs("acme", 5, 100, 98)

    assert "100 jobs" in jobs.detail
    assert 'PATCH /tenants/acme {"max_jobs": 200}' in jobs.hint
    assert all(word in runs.detail for word in ("100 runs", "has 98", "5 more"))
    assert 'PATCH /tenants/acme {"max_queued_runs": 206}' in runs.hint


async def test_a_job_that_is_not_there_is_answered_with_the_nearest_name(api: Api):
    await create(api, name="weekly-invoice")
    await create(api, name="zebra")

    for method, verb in (("GET", ""), ("POST", "/run"), ("DELETE", "")):
        answer = await api.request(method, f"jobs/wekly-invoice{verb}")
        (fault,) = assert_problem(answer, 404, "not_found")["errors"]
        assert fault["pointer"] == "/path/job"
        assert fault["hint"] == "Did you mean weekly-invoice? GET /jobs shows them all."
    (fault,) = assert_problem(await api.get("jobs/qqqqqq"), 404, "not_found")["errors"]
    assert fault["hint"] == "GET /jobs shows them all."


@on_one_store
@pytest.mark.parametrize(
    ("method", "path", "body", "pointer", "hint"),
    [
        ("GET", "runs/nope", None, "/path/run", "GET /runs shows them all."),
        ("GET", "runs?job=nope", None, "/query/job", "GET /jobs shows them all."),
        ("POST", "/runs:batch", {"job": "nope", "runs": [{}]}, "/job", "GET /jobs shows them all."),
        ("POST", "/dead-letters:replay", {"filter": {"job": "nope"}}, "/filter/job", "GET /jobs shows them all."),
        ("GET", "calendars/nope", None, "/path/calendar", "GET /calendars shows them all."),
        ("DELETE", "secrets/nope", None, "/path/secret", "GET /secrets shows them all."),
        ("GET", "webhooks/nope", None, "/path/webhook", "GET /webhooks shows them all."),
        ("GET", "keys/nope", None, "/path/key", "GET /keys shows them all."),
        ("GET", "tenants/nope", None, "/path/tenant", "GET /tenants shows them all."),
        ("POST", "deliveries/nope/resend", None, "/path/delivery", "GET /deliveries shows them all."),
        ("POST", "workers/nope/drain", None, "/path/worker", "GET /workers shows them all."),
        ("GET", "job", None, "/path", "Did you mean /api/v1/jobs? /openapi.json shows them all."),
    ],
)
async def test_what_is_not_there_is_named_with_where_to_look(
    api: Api, method: str, path: str, body: object, pointer: str, hint: str
):
    answer = await api.request(method, path, json=body) if body is not None else await api.request(method, path)

    (fault,) = assert_problem(answer, 404, "not_found")["errors"]
    assert (fault["pointer"], fault["hint"]) == (pointer, hint)


async def test_names_of_another_tenant_are_not_told(api: Api):
    await api.post("jobs", json={"name": "weekly-invoice", "type": "noop"}, headers={"X-Horae-Tenant": "theirs"})

    (fault,) = assert_problem(await api.get("jobs/wekly-invoice"), 404, "not_found")["errors"]

    assert fault["hint"] == "GET /jobs shows them all."


@on_one_store
@pytest.mark.parametrize("query", ["", "?atomic=true"])
async def test_every_refused_line_of_a_batch_has_a_way_out(api: Api, query: str):
    lines = [b'{"name": "a", "type": "noop"}', b"nonsense", b'{"name": "' + b"x" * (1 << 20) + b'"}', b'{"nam": 1}']
    lines += [lines[0]]
    answer = await api.post(
        f"/jobs:batch{query}", content=b"\n".join(lines), headers={"Content-Type": "application/x-ndjson"}
    )

    errors = [each["error"] for each in answer.json()["results"] if "error" in each]
    told = [error["code"] for error in errors]
    if query:
        assert told == ["batch_refused", "not_json", "too_large", "batch_refused", "batch_refused"]
    else:
        assert told == ["not_json", "too_large", "invalid", "name_taken"]
    for error in errors:
        assert_helpful(error)


@on_one_store
async def test_a_method_that_a_path_has_not_is_answered_with_those_it_has(api: Api):
    (fault,) = assert_problem(await api.delete("jobs"), 405, "method_not_allowed")["errors"]

    assert (fault["pointer"], fault["hint"]) == ("/method", "Use GET or HEAD or POST.")


@on_one_store
@pytest.mark.parametrize(("header", "value"), [("Host", "evil.example"), ("Origin", "https://evil.example")])
async def test_a_foreign_page_is_told_what_to_use(store: Store, header: str, value: str):
    async with client_of(app_over(store)) as client:
        answer = await client.get("/api/v1/jobs", headers={header: value})

    (fault,) = assert_problem(answer, 403, "denied")["errors"]
    assert fault["pointer"] == f"/headers/{header}"
    assert "horae serve" in fault["hint"]
