"""`horae run JOB`, also `horae job run`: a run now, whatever the schedule says."""

from __future__ import annotations

from typing import Any

import click

from horae.cli.completion import JOB
from horae.cli.failure import USAGE, Failure, path
from horae.cli.session import Command, Session, changing


@click.command("start", cls=Command)
@JOB
@click.option("--payload", help="Instead of the job's: JSON, @file or - for standard input.")
@click.option("--arg", multiple=True, metavar="NAME=VALUE", help="One field of the payload; JSON or text; repeatable.")
@click.option("--priority", help="high, medium or low.")
@click.option("--at", help="Not now but then: +10m, 09:00.")
@click.option("--idempotency-key", help="A repeat with the same key starts nothing; default: a new one.")
@click.option("--wait", is_flag=True, help="Until it ended; exit code 3 if badly.")
@click.option("--follow", is_flag=True, help="Show its log meanwhile; waits as well.")
@click.option("--timeout", help="Stop waiting after this long, with exit code 8; the run goes on.")
@changing
@click.pass_obj
def start(
    session: Session,
    /,
    job_name: str,
    priority: str | None,
    at: str | None,
    idempotency_key: str | None,
    **flags: Any,
) -> None:
    """Run it now, or at a given time, whatever its schedule says."""
    body = _payload(flags["payload"], flags["arg"])
    if priority:
        body["priority"] = priority
    if at:
        from horae.cli.times import read_time

        body["run_at"] = read_time(at, "--at", is_future=True)
    is_waited = flags["wait"] or flags["follow"]
    if is_waited:
        from horae.cli.waiting import limit_request

        limit_request(session, flags["timeout"])
    made = session.client.post(path("jobs", job_name, "run"), body, key=idempotency_key)
    if not is_waited:
        session.out.done(made, "run_id", f"Run {made['run_id']}\nNext: horae logs -f {made['run_id']}")
        return
    from horae.cli.waiting import Shown, wait_for_run

    wait_for_run(session, made["run_id"], log=Shown() if flags["follow"] else None, timeout=flags["timeout"])


def _payload(text: str | None, args: tuple[str, ...]) -> dict[str, Any]:
    import json

    from horae.cli.fields import read_json, read_pair

    if text is None and not args:
        return {}
    payload = {} if text is None else read_json(text, "--payload")
    if args and not isinstance(payload, dict):
        raise Failure(USAGE, "--arg sets a field, and the payload is no object.", code="usage")
    for each in args:
        name, value = read_pair(each, "--arg", "region=eu")
        try:
            payload[name] = json.loads(value)
        except ValueError:
            payload[name] = value
    return {"payload": payload}
