"""An SDK app in a whole horae on a driven clock: what users write in their own tests."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import pairwise
from typing import Any

from horae.sdk import App, Context, Fatal, RetryAfter, Skip
from horae.testing import Horae, virtual


@virtual
async def test_the_jobs_of_an_app_run_when_they_are_due():
    app = App()
    seen: list[tuple[str, str, int]] = []

    @app.job(schedule="30 9,10 * * *", timezone="Europe/Berlin", args={"region": "eu"})
    def report(region: str, *, ctx: Context) -> dict[str, Any]:
        ctx.log("for %s", region)
        seen.append((region, ctx.due_at.isoformat(), ctx.attempt))
        return {"rows": 3}

    async with Horae(app) as horae:
        await horae.advance(hours=2)
        runs = await horae.runs("report")

        assert [run["status"] for run in runs] == ["SUCCEEDED", "SUCCEEDED"]
        assert seen == [("eu", "2027-01-15T08:30:00+00:00", 1), ("eu", "2027-01-15T09:30:00+00:00", 1)]
        assert await horae.logs(runs[0]["run_id"]) == "for eu\n"
        assert (await horae.verify()).is_clean


@virtual
async def test_a_payload_goes_over_the_arguments_and_secrets_stay_out_of_the_log():
    app = App()

    @app.job(args={"region": "eu"}, secrets=["TOKEN"])
    async def report(region: str, *, ctx: Context) -> str:
        ctx.log(ctx.secrets["TOKEN"])
        return f"{region} {ctx.secrets['TOKEN']} {ctx.idempotency_key == ctx.run_id} {ctx.fence > 0}"

    async with Horae(app, secrets={"TOKEN": "correct horse"}) as horae:
        run_id = await horae.run("report", {"region": "us"})
        await horae.advance(seconds=2)
        (run,) = await horae.runs("report")

        assert run["result"] == "us *** True True"
        assert await horae.logs(run_id) == "***\n"


@virtual
async def test_a_job_declared_without_parentheses_runs_when_it_is_asked_for():
    app = App()

    @app.job
    def report(region: str = "eu") -> str:
        return region

    async with Horae(app) as horae:
        run_id = await horae.run("report")
        await horae.advance(seconds=2)

        (run,) = await horae.runs("report")
        assert (run["run_id"], run["status"], run["result"]) == (run_id, "SUCCEEDED", "eu")


@virtual
async def test_what_a_handler_raises_decides_what_follows():
    app = App()
    tries: dict[str, int] = {}

    def count(ctx: Context) -> int:
        tries[ctx.job] = ctx.attempt
        return ctx.attempt

    @app.job(schedule="@now", retry=2)
    def flaky(*, ctx: Context) -> str:
        if count(ctx) < 3:
            raise RuntimeError("not yet")
        return "at last"

    @app.job(schedule="@now", retry=5)
    def hopeless(*, ctx: Context) -> None:
        count(ctx)
        raise Fatal("bad input")

    @app.job(schedule="@now")
    def idle(*, ctx: Context) -> None:
        count(ctx)
        raise Skip("no data")

    @app.job(schedule="@now", retry=1)
    def later(*, ctx: Context) -> None:
        if count(ctx) == 1:
            raise RetryAfter("5m")

    async with Horae(app) as horae:
        await horae.advance(minutes=1)
        assert tries == {"flaky": 3, "hopeless": 1, "idle": 1, "later": 1}
        await horae.advance(minutes=5)

        statuses = {name: (await horae.runs(name))[0]["status"] for name in app.jobs}
        assert statuses == {"flaky": "SUCCEEDED", "hopeless": "FAILED", "idle": "SUCCEEDED", "later": "SUCCEEDED"}
        assert tries["later"] == 2


@virtual
async def test_an_upstream_result_comes_with_the_context():
    app = App()
    seen: list[Any] = []

    @app.job(schedule="@now")
    def first() -> list[int]:
        return [1, 2]

    @app.job(after="first")
    def second(*, ctx: Context) -> None:
        seen.append(ctx.upstream["result"] if ctx.upstream else None)

    async with Horae(app) as horae:
        await horae.advance(seconds=5)

        assert seen == [[1, 2]]


@virtual
async def test_a_month_passes_in_few_steps_and_nothing_of_it_is_lost():
    app = App()
    due: list[str] = []

    @app.job(schedule="0 9 * * *", timezone="Europe/Berlin")
    def report(*, ctx: Context) -> None:
        due.append(ctx.due_at.isoformat())

    async with Horae(app, nodes=2) as horae:
        await horae.advance(seconds=1)
        asked = count_statements(horae)
        await horae.advance(days=90)

        assert len(due) == len(set(due)) == 90
        assert due[0] == "2027-01-16T08:00:00+00:00"
        assert due[-1] == "2027-04-15T07:00:00+00:00"  # summer came
        assert (await horae.verify()).is_clean
        assert max(run["lateness_ms"] for run in await horae.runs("report")) < 1000
        # Every second of it would be about ten million.
        assert len(asked) < 100_000


@virtual
async def test_no_step_passes_over_somebody_who_waits():
    app = App()
    woken: list[float] = []

    @app.job(schedule="@every 10h", retry={"max_retries": 1, "delay": "2h", "max_delay": "2h", "backoff": "fixed"})
    async def slow(*, ctx: Context) -> None:
        if ctx.attempt == 1:
            await asyncio.sleep(20)
            raise ValueError("the next attempt is in two hours")

    async def bystander() -> None:
        while True:
            await asyncio.sleep(7)
            woken.append(asyncio.get_running_loop().time())

    async with Horae(app) as horae:
        await horae.advance(hours=13)
        (run,) = await horae.runs("slow")
        assert (run["status"], run["attempt_number"]) == ("SUCCEEDED", 2)
        took = datetime.fromisoformat(run["end_time"]) - datetime.fromisoformat(run["scheduled_for"])
        assert abs(took.total_seconds() - 7220) < 5

        task = asyncio.create_task(bystander())
        await horae.advance(minutes=10)
        task.cancel()
        assert len(woken) == 85
        assert {round(later - sooner, 3) for sooner, later in pairwise(woken)} == {7.0}


def count_statements(horae: Horae) -> list[None]:
    seen: list[None] = []
    run = horae.store.database.run

    def counted(transaction: Any) -> Any:
        seen.append(None)
        return run(transaction)

    horae.store.database.run = counted  # type: ignore[method-assign]
    return seen


@virtual
async def test_a_chain_may_be_declared_in_any_order():
    app = App()

    @app.job(after="first")
    def second() -> None: ...

    @app.job
    def first() -> None: ...

    async with Horae(app) as horae:
        await horae.run("first")
        await horae.advance(minutes=1)

        assert [run["status"] for run in await horae.runs("second")] == ["SUCCEEDED"]
