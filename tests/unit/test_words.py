"""Schedules in words, and the warnings beside them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.calendars import parse_calendar
from horae.core.duration import parse_instant
from horae.core.schedule import Dst, parse_schedule, warnings
from horae.core.words import describe

ANCHOR = parse_instant("2026-11-15T12:00:00Z", "")


def words(text: str | list[str], **limits) -> str:
    return describe(parse_schedule(text, zone="Europe/Berlin", anchor_us=ANCHOR, seed="a", **limits))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 9 * * 1-5", "Every weekday (Monday to Friday) at 09:00"),
        ("0 9 * * *", "Every day at 09:00"),
        ("0,30 9,17 * * *", "Every day at 09:00, 09:30, 17:00 and 17:30"),
        ("30 0 9 * * *", "Every day at 09:00:30"),
        ("0 9 * * 1", "Every Monday at 09:00"),
        ("0 9 * * FRI-MON", "Every Monday, Friday, Saturday and Sunday at 09:00"),
        ("0 9 * 6-8 *", "Every day in June to August at 09:00"),
        ("0 9 1 * *", "On day 1 of every month at 09:00"),
        ("0 9 1,15 JAN,JUL *", "On days 1 and 15 of January and July at 09:00"),
        ("0 9 L * *", "On the last day of every month at 09:00"),
        ("0 9 L-1 * *", "On the day 1 day before the last of every month at 09:00"),
        ("0 9 LW * *", "On the last workday of every month at 09:00"),
        ("0 9 15W * *", "On the workday nearest to day 15 of every month at 09:00"),
        ("0 9 * * MON#2", "On the second Monday of every month at 09:00"),
        ("0 9 * * FRIL", "On the last Friday of every month at 09:00"),
        ("0 9 13 * 5", "On day 13 of every month and also every Friday at 09:00"),
        (
            "0 9 13 * */2",
            "On day 13 of every month, but only if that is Tuesday or Thursday or Saturday or Sunday at 09:00",
        ),
        ("0 9 1-31 * MON", "Every day at 09:00"),
        ("* * * * *", "Every minute"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("*/15 9-17 * * 1-5", "Every 15 minutes from 09:00 to 17:45, every weekday (Monday to Friday)"),
        ("*/15 */2 * * *", "Every 15 minutes in hours 0 to 22 in steps of 2"),
        ("@hourly", "Every hour at minute 0"),
        ("5 */2 * * *", "Every 2 hours from 00:05"),
        ("0 1-7 * * *", "At minute 0 of hours 1 to 7"),
        ("7,13 * * * *", "At minutes 7 and 13 of every hour"),
        ("*/45 * * * *", "At minutes 0 and 45 of every hour"),
        ("* * * * * *", "Every second"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("30 * * * * *", "At second 30 of every minute of every hour"),
        ("5,7 0-4 3 * * MON", "At seconds 5 and 7 of minutes 0 to 4 of hour 3, every Monday"),
        ("2026-12-24T18:00:00", "Once, on Thursday 24 December 2026 at 18:00"),
    ],
)
def test_lines_in_words(line, expected):
    assert words(line) == f"{expected}, Europe/Berlin time"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@every 30s", "Every 30 seconds"),
        ("@every 1h", "Every hour"),
        ("@every 90m", "Every 1 hour 30 minutes"),
        ("@now", "Once, right away"),
        ("@manual", "Only when asked for"),
        ([], "Only when asked for"),
        (["@every 1d", "@now"], "Every day; also once, right away"),
        (["0 9 * * *", "0 12 * * 6"], "Every day at 09:00; also every Saturday at 12:00, Europe/Berlin time"),
    ],
)
def test_other_schedules_in_words(text, expected):
    assert words(text) == expected


def test_limits_in_words():
    calendar = parse_calendar({"exclude": ["2026-12-31"], "holidays": "DE", "subdivision": "BY"})

    assert words("@daily", start_us=ANCHOR, end_us=ANCHOR + 86_400_000_000, calendar=calendar) == (
        "Every day at 00:00, Europe/Berlin time, from 2026-11-15T13:00:00+01:00, "
        "until 2026-11-16T13:00:00+01:00, except on 1 given date and holidays of DE (BY)"
    )
    assert words("@daily", calendar=parse_calendar({"include": ["2026-12-30", "2026-12-31"]})).endswith(
        "only on 2 given dates"
    )
    assert words("@daily", calendar=parse_calendar({"name": "shop"})).endswith('on the days of calendar "shop"')


EXPECTED_WARNINGS = {
    "or": '"7 0 13 * 5" runs on day 13 and also on weekday 5 (64 days in 2027), because cron joins day and weekday '
    'with OR. For one of them write "7 0 13 * *" or "7 0 * * 5".',
    "crowd": 'Many jobs run at minute 0. "H 0 * * *" gives this one a minute of its own.',
    "step": '"*/45" in the minute field starts anew at 0, so its last step is shorter. '
    'For every 45 minutes write "@every 45m".',
    "six": '"0 7 9 * * *" has 6 fields. horae reads the first as seconds; Quartz also starts with seconds, AWS ends '
    'with a year. Without seconds write "7 9 * * *".',
    "gap": "02:30 does not exist in America/New_York on 2027-03-14 (clocks go from 02:00 to 03:00). "
    'horae runs right after the jump; choose dst.gap "skip" to leave it out.',
    "fold": "01:30 comes twice in America/New_York on 2027-11-07 (clocks go from 02:00 to 01:00). "
    'horae runs at both; choose dst.fold "first" or "last" to run once.',
    "fixed": "EST never changes to summer time. If that is not meant, use America/New_York.",
    "never": "This schedule has no due time left: see its window, its calendar and its dates.",
}


@pytest.mark.parametrize(
    ("line", "zone", "expected"),
    [
        ("7 9 * * 1-5", "Europe/Berlin", []),
        ("H 0 * * *", "Europe/Berlin", []),
        ("*/10 * * * *", "America/New_York", []),
        ("@every 45m", "America/New_York", []),
        ("@manual", "UTC", []),
        ("7 0 13 * 5", "UTC", ["or"]),
        ("@daily", "UTC", ["crowd"]),
        ("*/45 * * * *", "UTC", ["step"]),
        ("0 7 9 * * *", "UTC", ["six"]),
        ("30 2 * * *", "America/New_York", ["gap"]),
        ("30 1 * * *", "America/New_York", ["fold"]),
        ("30 1,2 * * *", "America/New_York", ["gap", "fold"]),
        ("7 9 * * *", "EST", ["fixed"]),
        ("2020-01-01T00:00:00Z", "UTC", ["never"]),
    ],
)
def test_warnings(line, zone, expected):
    found = parse_schedule(line, zone=zone, anchor_us=ANCHOR, dst=Dst(fold="both"), seed="a")

    assert warnings(found) == [EXPECTED_WARNINGS[name] for name in expected]


def test_a_day_that_a_zone_left_out_is_not_told_as_a_jump_of_no_length():
    found = parse_schedule("30 8 30 12 *", zone="Pacific/Apia", anchor_us=ANCHOR, seed="a")

    assert warnings(found, 1_322_697_600_000_000) == [
        (
            "08:30 does not exist in Pacific/Apia on 2011-12-30 (the whole day is left out). "
            'horae runs right after the jump; choose dst.gap "skip" to leave it out.'
        )
    ]


FIELD = st.sampled_from(["*", "*/3", "5", "1-4", "2,3", "1-6/2", "4-2", "H"])


@settings(max_examples=300, deadline=None)
@given(
    FIELD,
    FIELD,
    FIELD,
    FIELD | st.sampled_from(["?", "L", "LW,3", "L-2"]),
    FIELD,
    FIELD | st.sampled_from(["?", "FRI#1,2", "5L"]),
)
def test_every_line_has_words_and_warnings_of_some_kind(second, minute, hour, day, month, weekday):
    found = parse_schedule(f"{second} {minute} {hour} {day} {month} {weekday}", zone="UTC", anchor_us=ANCHOR)

    assert describe(found).endswith(", UTC")
    assert all(warnings(found))
