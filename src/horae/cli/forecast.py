"""`horae forecast`: how many runs are due when, hour by hour, as a heat map in text."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from horae.cli.output import Column
from horae.cli.session import Command, Session
from horae.cli.times import now, rfc3339

if TYPE_CHECKING:
    from horae.cli.client import Client

SHADES = " ░▒▓█"
COLOURS = (None, "green", "cyan", "yellow", "red")


@click.command(cls=Command)
@click.option("--days", type=click.IntRange(1, 31), default=7, show_default=True, help="How many days.")
@click.option("--queue", help="Only in this queue.")
@click.option("--priority", help="Only high, medium or low.")
@click.option("--suggest", is_flag=True, help="Also the fullest and the quietest minutes of the next hour.")
@click.pass_obj
def forecast(session: Session, days: int, queue: str | None, priority: str | None, suggest: bool) -> None:
    """How many runs are due when, hour by hour, in the zone of this machine.

    \b
    horae forecast --days 3
    horae forecast --suggest
    """
    buckets = _buckets(session.client, timedelta(days=days), "1h", queue, priority)
    if session.out.form != "table":
        columns: list[Column] = [("at", "at"), ("runs", "runs")]
        session.out.rows(buckets, columns, "at")
    else:
        _map(buckets)
    if suggest:
        _suggest(session, _buckets(session.client, timedelta(hours=1), "1m", queue, priority))


def _buckets(
    client: Client, length: timedelta, size: str, queue: str | None, priority: str | None
) -> list[dict[str, Any]]:
    start = now().replace(minute=0, second=0, microsecond=0) if size == "1h" else now()
    span = {"from": rfc3339(start), "to": rfc3339(start + length), "bucket": size}
    found: list[dict[str, Any]] = []
    for bucket in client.get("/forecast", **span)["buckets"]:
        parts = [
            part
            for part in bucket["by"]
            if queue in (None, part["queue"]) and (priority is None or priority.upper() == part["priority"])
        ]
        found.append({"at": bucket["at"], "runs": sum(part["runs"] for part in parts), "by": parts})
    return found


def _map(buckets: list[dict[str, Any]]) -> None:
    """A line for each day, a cell for each hour; the shade is the share of the fullest hour."""
    days: dict[str, dict[int, int]] = defaultdict(dict)
    for each in buckets:
        at = datetime.fromisoformat(each["at"]).astimezone()
        day = days[f"{at:%a %Y-%m-%d}"]
        day[at.hour] = day.get(at.hour, 0) + each["runs"]
    most = max((each["runs"] for each in buckets), default=0)
    if most == 0:
        click.echo("Nothing is due.")
        return
    # Three characters an hour where there is room for them, else two.
    is_narrow = get_terminal_size().columns < 96
    gap = "" if is_narrow else " "
    heads = (f"{hour:02}{gap}" if hour % 2 == 0 or not is_narrow else "  " for hour in range(24))
    click.secho(f"{'':14}  " + "".join(heads) + "  RUNS", bold=True)
    for name, hours in days.items():
        click.echo(f"{name:14}  ", nl=False)
        for hour in range(24):
            level = _level(hours.get(hour, 0), most)
            click.secho(SHADES[level] * 2 + gap, nl=False, fg=COLOURS[level])
        click.echo(f"{sum(hours.values()):6}")
    steps = "  ".join(f"{SHADES[level] * 2} {_least(level, most)}+" for level in range(1, 5))
    zone = f"{now().astimezone():%Z}"
    click.echo(f"\nruns an hour, {zone}:  {steps}   fullest hour {most}")


def _level(runs: int, most: int) -> int:
    return 0 if runs == 0 else min(4, 1 + (runs * 4 - 1) // most) if most else 0


def _least(level: int, most: int) -> int:
    """The fewest runs that have this shade."""
    return max(1, ((level - 1) * most + 4) // 4)


def _suggest(session: Session, buckets: list[dict[str, Any]]) -> None:
    start = now().replace(second=0, microsecond=0)
    counts = {rfc3339(start + timedelta(minutes=minute)): 0 for minute in range(1, 60)}
    counts |= {each["at"]: each["runs"] for each in buckets if each["at"] in counts}
    full, quiet = max(counts, key=lambda at: counts[at]), min(counts, key=lambda at: counts[at])
    if counts[full] == 0:
        session.out.say("Nothing is due in the next hour.")
        return

    def told(at: str) -> str:
        return f"{datetime.fromisoformat(at).astimezone():%H:%M} ({counts[at]} runs)"

    session.out.say(
        f"Next hour: fullest minute {told(full)}, quietest {told(quiet)}.\n"
        f"Try: horae upcoming --from {datetime.fromisoformat(full).astimezone():%H:%M} --for 1m, "
        "then an H in the minute, or --jitter, for those that may wait."
    )
