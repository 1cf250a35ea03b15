"""An SDK app in a whole horae on a driven clock: what users write in their own tests."""

from __future__ import annotations

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

        assert [run["status"] for run in runs] == ["succeeded", "succeeded"]
        assert seen == [("eu", "2027-01-15T08:30:00+00:00", 1), ("eu", "2027-01-15T09:30:00+00:00", 1)]
        assert await horae.logs(runs[0]["id"]) == "for eu\n"
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

        assert run["result"] == '"us *** True True"'
        assert await horae.logs(run_id) == "***\n"


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
        assert statuses == {"flaky": "succeeded", "hopeless": "failed", "idle": "succeeded", "later": "succeeded"}
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
