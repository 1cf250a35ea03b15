"""The verifier's own enumeration of due times against the engine's: two ways to the same instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.compiled import schedule_of
from horae.core.document import parse_job
from horae.core.schedule import next_after
from horae.store.jobs import encode
from horae.verify.oracle import due_times

LINES = [
    "* * * * *",
    "*/7 * * * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15,45 1-3 * * *",
    "0 0 L * *",
    "0 12 15W * *",
    "0 9 * * MON#2",
    "H H(0-5) * * *",
    "H/20 * * * *",
    "0 */3 13 * FRI",
    "@every 50m",
    "@daily",
]
# Around a change of the clocks in each place: an hour, half an hour, a whole day, at midnight, none at all.
PLACES = [
    ("Europe/Berlin", datetime(2027, 3, 28, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2027, 10, 31, tzinfo=UTC)),
    ("America/New_York", datetime(2027, 11, 7, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2027, 4, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2027, 10, 2, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),
    ("America/Havana", datetime(2027, 3, 14, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2027, 2, 7, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2027, 6, 1, tzinfo=UTC)),
    ("UTC", datetime(2028, 2, 29, tzinfo=UTC)),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]} {place[1]:%Y-%m}")
@settings(deadline=None, max_examples=40)
@given(
    line=st.sampled_from(LINES),
    gap=st.sampled_from(["shift", "skip"]),
    fold=st.sampled_from(["first", "last", "both"]),
    hours=st.integers(-30, 20),
    excluded=st.booleans(),
)
def test_both_enumerations_agree(
    place: tuple[str, datetime], line: str, gap: str, fold: str, hours: int, excluded: bool
) -> None:
    zone, day = place
    from_us = round((day + timedelta(hours=hours)).timestamp()) * 1_000_000
    to_us = from_us + 30 * 3600 * 1_000_000
    document: dict[str, Any] = {"name": "j", "type": "noop", "schedule": line, "timezone": zone}
    document |= {"dst": {"gap": gap, "fold": fold}}
    if excluded and not line.startswith("@every"):
        document["calendar"] = {"exclude": [f"{day:%Y-%m-%d}"]}
    definition = parse_job(document, job_id="some-job", now_us=from_us, tenant="default")
    schedule = schedule_of(definition, "some-job", from_us)

    engine, at = [], next_after(schedule, from_us)
    while at is not None and at <= to_us:
        engine.append(at)
        at = next_after(schedule, at)

    spec = msgspec.json.decode(encode(definition))
    assert due_times(spec, "some-job", from_us, from_us + 1, to_us) == engine
