"""Cron lines: what each field means, what is refused and with which words, and how long nasty ones take."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.cron import count_walls, next_wall, parse_cron, values_of
from horae.core.errors import Invalid
from horae.core.schedule import next_after, parse_schedule


def days_in(line: str, month: str) -> list[int]:
    """The days of the month on which a UTC line runs."""
    found = parse_schedule(line, zone="UTC", anchor_us=0)
    year, number = (int(part) for part in month.split("-"))
    start = parse_schedule(f"{month}-01T00:00:00Z", zone="UTC", anchor_us=0).lines[0].at_us
    end = start + (32 * 86_400 * 1_000_000)
    days, at = [], start - 1
    while (at := next_after(found, at)) is not None and at < end:
        day = (at - start) // (86_400 * 1_000_000) + 1
        days.append(day)
    length = 29 if (number, year % 4) == (2, 0) else 28 if number == 2 else 30 if number in (4, 6, 9, 11) else 31
    return [day for day in days if day <= length]


@pytest.mark.parametrize(
    ("minute", "expected"),
    [
        ("5", [5]),
        ("1,3,2,3", [1, 2, 3]),
        ("10-13", [10, 11, 12, 13]),
        ("58-1", [58, 59, 0, 1]),
        ("*/20", [0, 20, 40]),
        ("50-10/10", [50, 0, 10]),
        ("40/10", [40, 50]),
        ("*/60", [0]),
        ("0-6/3,59", [0, 3, 6, 59]),
    ],
)
def test_minutes(minute, expected):
    assert values_of(parse_cron(f"{minute} * * * *").minute) == sorted(expected)


@pytest.mark.parametrize(
    ("weekday", "expected"),
    [
        ("0", [0]),
        ("7", [0]),
        ("sun", [0]),
        ("1-5", [1, 2, 3, 4, 5]),
        ("5-7", [0, 5, 6]),
        ("FRI-MON", [0, 1, 5, 6]),
        ("6-1", [0, 1, 6]),
        ("7-2", [0, 1, 2]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("*/2", [0, 2, 4, 6]),
        ("1/2", [1, 3, 5]),
        ("Mon,wed", [1, 3]),
    ],
)
def test_weekdays(weekday, expected):
    assert values_of(parse_cron(f"0 0 * * {weekday}").weekday.bits) == expected


def test_months_and_hours_may_wrap_and_have_names():
    assert values_of(parse_cron("0 0 * nov-Feb *").month) == [1, 2, 11, 12]
    assert values_of(parse_cron("0 22-2 * * *").hour) == [0, 1, 2, 22, 23]
    assert values_of(parse_cron("0 22-4/3 * * *").hour) == [1, 4, 22]


@pytest.mark.parametrize(
    ("days", "month", "expected"),
    [
        ("L * *", "2026-11", [30]),
        ("L * *", "2028-02", [29]),
        ("L-3 * *", "2026-11", [27]),
        ("LW * *", "2026-10", [30]),  # the 31st is a Saturday
        ("LW * *", "2027-01", [29]),  # a Sunday
        ("15W * *", "2026-11", [16]),  # a Sunday
        ("14W * *", "2026-11", [13]),  # a Saturday
        ("1W * *", "2026-08", [3]),  # a Saturday: not back into July
        ("31W * *", "2027-01", [29]),  # a Sunday: not on into February
        ("31W * *", "2026-11", []),
        ("* * MON#2", "2026-11", [9]),
        ("* * 1#5", "2026-11", [30]),
        ("* * 1#5", "2026-10", []),
        ("* * 5L", "2026-11", [27]),
        ("* * FRIL", "2026-11", [27]),
        ("* * 7L", "2026-11", [29]),
        ("1,L * MON#1", "2026-11", [1, 2, 30]),
        ("13 * 5", "2026-11", [6, 13, 20, 27]),
        ("13 * FRI", "2027-01", [1, 8, 13, 15, 22, 29]),
        ("*/10 * 0", "2026-11", [1]),
        ("1-7 * */7", "2026-11", [1]),
        ("? * MON", "2026-11", [2, 9, 16, 23, 30]),
        ("13 * ?", "2026-11", [13]),
        ("*/2 * */2", "2026-11", [1, 3, 5, 7, 15, 17, 19, 21, 29]),
    ],
)
def test_days_of_the_month_and_of_the_week(days, month, expected):
    assert days_in(f"0 0 {days}", month) == expected


@pytest.mark.parametrize(
    ("macro", "line"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_macros_are_lines(macro, line):
    short, long = parse_cron(macro), parse_cron(line)

    assert (short.minute, short.hour, short.day, short.month, short.weekday, short.is_elapsed) == (
        long.minute,
        long.hour,
        long.day,
        long.month,
        long.weekday,
        long.is_elapsed,
    )


@pytest.mark.parametrize(
    ("line", "is_elapsed"),
    [
        ("0 * * * *", True),
        ("0 */2 * * *", True),
        ("0 H/2 * * *", True),
        ("0 0 h/2 * * *", True),
        ("0 H * * *", False),
        ("* 2 * * *", False),
        ("* * 2 * * *", False),
        ("0 0-23 * * *", False),
    ],
)
def test_the_hour_decides_whether_a_line_follows_elapsed_time(line, is_elapsed):
    assert parse_cron(line).is_elapsed == is_elapsed


def test_h_is_stable_for_a_seed_and_spreads_seeds():
    lines = [parse_cron("H H H * H", seed=f"job-{number}") for number in range(400)]

    assert lines[7] == parse_cron("H H H * H", seed="job-7")
    assert {values_of(line.minute)[0] for line in lines} == set(range(60))
    assert {values_of(line.hour)[0] for line in lines} == set(range(24))
    assert {values_of(line.day.bits)[0] for line in lines} == set(range(1, 29))
    assert {values_of(line.weekday.bits)[0] for line in lines} == set(range(7))
    assert len({(line.minute, line.hour) for line in lines}) > 300


@given(st.text(max_size=20))
def test_h_keeps_to_its_range_and_step(seed):
    line = parse_cron("H/15 H(22-2) H/7 * *", seed=seed)
    stepped = values_of(parse_cron("H(10-29)/5 * * * *", seed=seed).minute)

    assert len(values_of(line.minute)) == 4
    assert values_of(line.minute)[1] - values_of(line.minute)[0] == 15
    assert values_of(line.hour)[0] in (22, 23, 0, 1, 2)
    assert len(values_of(line.day.bits)) == 4
    assert len(stepped) == 4
    assert all(10 <= minute <= 29 for minute in stepped)


def test_lines_without_h_do_not_depend_on_the_seed():
    assert parse_cron("0 0 * MAR THU", seed="a") is parse_cron("0 0 * MAR THU", seed="b")


FIELDS = "A cron schedule has 5 fields (minute hour day month weekday), or 6 with seconds first"
REFUSED = [
    ("61 9 * * *", 'Minute must be 0-59; got 61 in "61 9 * * *".', 'For 10:01 write "1 10 * * *".'),
    ("75 * * * *", 'Minute must be 0-59; got 75 in "75 * * * *".', 'The last one is "59 * * * *".'),
    ("0 24 * * *", 'Hour must be 0-23; got 24 in "0 24 * * *".', 'For midnight write "0 0 * * *".'),
    ("0 0 32 * *", 'Day must be 1-31; got 32 in "0 0 32 * *".', 'For the last day of the month write "0 0 L * *".'),
    ("0 0 0 * *", 'Day must be 1-31; got 0 in "0 0 0 * *".', 'The first one is "0 0 1 * *".'),
    ("0 0 1 13 *", 'Month must be 1-12 or JAN-DEC; got 13 in "0 0 1 13 *".', 'The last one is "0 0 1 12 *".'),
    ("0 0 * * 8", 'Weekday must be 0-7 or SUN-SAT; got 8 in "0 0 * * 8".', 'For Sunday write "0 0 * * 7".'),
    (
        "0 9 * *",
        f'{FIELDS}; "0 9 * *" has 4.',
        'A field that does not matter is a *: "0 9 * * *".',
    ),
    (
        "0 0 9 * * ? 2027",
        f'{FIELDS}; "0 0 9 * * ? 2027" has 7.',
        'If the last field is a year, leave it out: "0 0 9 * * ?".',
    ),
    (
        "0 9 * MON-FRI *",
        '"MON-FRI" is in the month field (4th). Weekdays go last.',
        'Did you mean "0 9 * * MON-FRI"?',
    ),
    (
        "0 0 1 * jan",
        '"JAN" is in the weekday field (5th). Months go before the weekday.',
        'Did you mean "0 0 1 JAN *"?',
    ),
    (
        "0 9 * * monday",
        'Weekday must be 0-7 or SUN-SAT; got "MONDAY" in "0 9 * * MONDAY".',
        'Did you mean "0 9 * * MON"?',
    ),
    (
        "0 0 31 2 *",
        '"0 0 31 2 *" never happens: February has no day 31.',
        'For the last day of February use "0 0 L 2 *".',
    ),
    (
        "0 0 31 4,6 *",
        '"0 0 31 4,6 *" never happens: April and June have no day 31.',
        'For the last day of those months use "0 0 L 4,6 *".',
    ),
    (
        "0 0 30 2 *",
        '"0 0 30 2 *" never happens: February has no day 30.',
        'For the last day of February use "0 0 L 2 *".',
    ),
    ("0 0 30 2 */2", '"0 0 30 2 */2" never happens: February has no day 30.', None),
    ("0 0 */31 * 5L", '"0 0 */31 * 5L" never happens: no day of any month is "*/31" and "5L".', None),
    ("0 0 L-30 2 *", '"0 0 L-30 2 *" never happens: no day of February is "L-30".', None),
    ("0 0 30W 2 *", '"0 0 30W 2 *" never happens: no day of February is "30W".', None),
    ("0 0 */31 1 MON#2", '"0 0 */31 1 MON#2" never happens: no day of January is "*/31" and "MON#2".', None),
    (
        "*/90 * * * *",
        'The minute step must be 1-60; got 90 in "*/90 * * * *".',
        'For every 90 minutes write "@every 90m".',
    ),
    ("*/0 * * * *", 'The minute step must be 1-60; got 0 in "*/0 * * * *".', 'Write "*/2".'),
    ("0 0 * * MON#6", 'The number after # must be 1-5; got 6 in "0 0 * * MON#6".', 'The most is "0 0 * * MON#5".'),
    ("0 0 32W * *", 'The day of W must be 1-31; got 32 in "0 0 32W * *".', 'The most is "0 0 31W * *".'),
    ("1,,2 * * * *", 'The minute field has a comma too many in "1,,2 * * * *".', "Leave it out."),
    ("? * * * *", 'The minute field cannot be read: "?" in "? * * * *".', None),
    ("0 0 * * L", 'The weekday field cannot be read: "L" in "0 0 * * L".', None),
    ("0 -5 * * *", 'The hour field cannot be read: "-5" in "0 -5 * * *".', None),
    ("0 1--5 * * *", 'The hour field cannot be read: "1--5" in "0 1--5 * * *".', None),
]


@pytest.mark.parametrize(("line", "detail", "hint"), REFUSED)
def test_a_refusal_says_what_where_and_how_to_fix_it(line, detail, hint):
    with pytest.raises(Invalid) as refused:
        parse_cron(line, pointer="/cron")

    assert [(fault.pointer, fault.detail) for fault in refused.value.faults] == [("/cron", detail)]
    assert hint is None or refused.value.faults[0].hint == hint


@pytest.mark.parametrize(("line", "hint"), [(line, hint) for line, _, hint in REFUSED if hint and '"@' not in hint])
def test_a_fix_to_paste_is_itself_accepted(line, hint):
    fixes = [part for part in hint.split('"')[1::2] if " " in part]

    assert all(parse_cron(fix) for fix in fixes)


def test_every_bad_field_is_named_at_once():
    with pytest.raises(Invalid) as refused:
        parse_cron("61 25 32 13 9")

    assert [fault.detail.split()[0] for fault in refused.value.faults] == ["Minute", "Hour", "Day", "Month", "Weekday"]


@pytest.mark.parametrize(
    ("text", "detail", "hint"),
    [
        ("@reboot", '"@reboot" has no time', "@now"),
        ("@dayly", '"@dayly" is not a schedule.', 'Did you mean "@daily"?'),
        ("@every", "A length of time looks like", "30s"),
        ("@every 500ms", "@every takes whole seconds, 1s or more", "@every 1s"),
        ("@every -5s", "cannot be negative", "0s"),
        ("@every 1e9d", "A length of time looks like", "30s"),
        ("", "must be a text and not empty", "@manual"),
        ("2026-13-01T00:00:00Z", "is not on the calendar or not on the clock", "2026"),
        ("2026-12-01", "A time looks like 2026-11-15T09:00:00Z", "offset"),
        ("2300-01-01T00:00:00Z", "is outside 1970 to 2200", "@manual"),
        ("0001-01-01T00:00:00Z", "is outside 1970 to 2200", "@manual"),
    ],
)
def test_other_lines_are_refused_with_help(text, detail, hint):
    with pytest.raises(Invalid) as refused:
        parse_schedule(text, zone="UTC", anchor_us=0)

    assert refused.value.faults[0].pointer == "/schedule"
    assert detail in refused.value.faults[0].detail
    assert hint in refused.value.faults[0].hint


def test_faults_of_a_list_point_at_their_line():
    with pytest.raises(Invalid) as refused:
        parse_schedule(["0 9 * * *", "61 * * * *", 5, "@reboot"], zone="UTC", anchor_us=0, pointer="/when")

    assert [fault.pointer for fault in refused.value.faults] == ["/when/1", "/when/2", "/when/3"]


NASTY = [
    "1" * 10_000,
    "* " * 5_000,
    "," * 499,
    "*/" * 249,
    "-".join("1" * 250),
    f"{'9' * 490} * * * *",
    "H(" * 240,
    f"{','.join(['0-59/1'] * 68)} * * * *",
    f"0 0 {','.join(['1W,LW,L-1'] * 47)} * *",
    "٣ * * * *",
    "\ud800 * * * *",
    "0 0 \x00 * *",
    "@" * 499,
    "@every " + "9" * 490,
    "2026-" + "1" * 490,
    "59 59 23 29 2 */7",
    "0 0 29 2 */7",
]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_nasty_texts_are_answered_in_bounded_time(text):
    started = time.perf_counter()
    try:
        next_after(parse_schedule(text, zone="Europe/Berlin", anchor_us=0), 1_800_000_000_000_000)
    except Invalid as invalid:
        assert all(len(fault.detail) < 400 for fault in invalid.faults)  # noqa: PT017

    assert time.perf_counter() - started < 0.2  # 0.05 promised; the rest is for a noisy machine


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="0123456789*/,-?LWH#()@ MONJANFRI:TZ.", max_size=40) | st.text(max_size=30))
def test_any_text_is_a_schedule_or_refused_in_words(text):
    try:
        found = parse_schedule(text, zone="America/New_York", anchor_us=0, seed="a")
    except Invalid as invalid:
        assert all(fault.detail and fault.pointer == "/schedule" for fault in invalid.faults)  # noqa: PT017
    else:
        next_after(found, 1_800_000_000_000_000)


@settings(max_examples=200)
@given(
    st.sampled_from(["*/7 3 * * *", "* * * * * *", "0 0 L * *", "30 */5 1-7 * MON", "0,59 0,59 0,23 * * *"]),
    st.integers(1_700_000_000, 1_900_000_000),
    st.integers(-5, 400_000),
)
def test_counting_is_the_same_as_stepping(line, low, length):
    cron = parse_cron(line)
    count, wall = 0, next_wall(cron, low)
    while wall < low + length and count < 500:
        count, wall = count + 1, next_wall(cron, wall + 1)

    assert count == min(500, count_walls(cron, low, low + length))
