"""The horae that users have in their own tests: its start, its answers, and how what goes wrong comes out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from horae.core.errors import Invalid
from horae.sdk import App
from horae.testing import Horae, virtual
from tests.scenario.conftest import app_over, client_of


@virtual
async def test_runs_are_what_the_api_answers():
    app = App()

    @app.job(schedule="@every 10s", retry=0)
    def report(fail: bool = False) -> dict[str, int]:
        if fail:
            raise ValueError("no data")
        return {"rows": 3}

    async with Horae(app) as horae:
        await horae.advance(seconds=15)
        await horae.run("report", {"fail": True})
        await horae.advance(seconds=2)
        runs = await horae.runs("report")
        async with client_of(app_over(horae.store)) as client:
            answer = await client.get("/api/v1/runs?job=report")

    assert runs == answer.json()["runs"][::-1]
    assert [(run["status"], run["result"]) for run in runs[:1]] == [("SUCCEEDED", {"rows": 3})]
    assert {run["status"] for run in runs} == {"FAILED", "PENDING", "SUCCEEDED"}


@virtual
async def test_no_run_is_left_out_however_many_there_are():
    async with Horae() as horae:
        await horae.create({"name": "a", "type": "noop", "schedule": "@every 1s"})
        await horae.advance(seconds=1100)

        ended = [run for run in await horae.runs("a") if run["status"] == "SUCCEEDED"]
        assert len(ended) >= 1099
        assert ended[0]["scheduled_for"] == "2027-01-15T08:00:01Z"


@pytest.mark.parametrize("error", [AssertionError("plain"), ValueError("mine"), KeyboardInterrupt()])
def test_what_a_test_raises_comes_out_as_it_is(error: BaseException):
    @virtual
    async def test() -> None:
        async with Horae() as horae:
            await horae.advance(seconds=1)
            raise error

    with pytest.raises(type(error)) as raised:
        test()

    assert raised.value is error


@virtual
async def test_a_time_limit_around_it_holds():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), Horae():
            await asyncio.sleep(60)


def test_the_error_of_a_node_that_breaks_comes_out():
    broken = RuntimeError("a bug of ours")

    async def breaks() -> None:
        raise broken

    @virtual
    async def test() -> None:
        async with Horae() as horae:
            horae._group.create_task(breaks())
            await horae.advance(hours=1)

    with pytest.raises(RuntimeError) as raised:
        test()

    assert raised.value is broken


@virtual
async def test_a_declaration_that_is_refused_is_told_with_its_place():
    app = App()
    app.job("bad", schedule="61 * * * *")(lambda: None)
    before = asyncio.all_tasks()

    with pytest.raises(Invalid) as refused:
        async with Horae(app):
            pass

    assert f"{__file__}:" in refused.value.__notes__[0]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "start",
    [
        "2027-03-27T12:00:00+01:00",
        datetime(2027, 3, 27, 11, tzinfo=UTC),
        datetime(2027, 3, 27, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    ],
)
def test_it_starts_when_it_is_told_to(start: Any):
    @virtual
    async def test() -> None:
        async with Horae(start=start) as horae:
            assert horae.now == datetime(2027, 3, 27, 11, tzinfo=UTC)

    test()


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (datetime(2027, 1, 1), "no time zone"),  # noqa: DTZ001
        ("tomorrow", "A time looks like"),
        ("2027-02-30T00:00:00Z", "not on the calendar"),
        (1_800_000_000, "A time looks like"),
    ],
)
def test_a_start_that_is_no_time_is_refused(start: Any, says: str):
    with pytest.raises(ValueError, match=says):
        Horae(start=start)


@virtual
async def test_time_does_not_go_back():
    async with Horae() as horae:
        await horae.advance(hours=2, minutes=-30)
        before = horae.now
        for back in ({"hours": -1}, {"seconds": -0.1}, {"days": 1, "hours": -25}, {"hours": float("nan")}):
            with pytest.raises(ValueError, match="does not go back"):
                await horae.advance(**back)

        assert horae.now == before


async def test_a_test_without_virtual_is_told_so():
    with pytest.raises(RuntimeError, match="@virtual"):
        async with Horae():
            pass
