"""Calendars: which days they leave out, and how they are written."""

import sys
from datetime import date

import pytest

from horae.core import calendars
from horae.core.calendars import Calendar, check_calendar, check_days, next_included, parse_calendar, why_left_out
from horae.core.errors import Invalid


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def test_excluded_and_included_days():
    found = parse_calendar({"exclude": ["2026-12-25"], "include": ["2026-12-24", "2026-12-25"]})

    assert why_left_out(found, day("2026-12-24")) is None
    assert why_left_out(found, day("2026-12-25")) == "an excluded date"
    assert why_left_out(found, day("2026-12-26")) == "not one of the included dates"
    assert next_included(found, day("2026-01-01")) == day("2026-12-24")
    assert next_included(found, day("2026-12-26")) is None


def test_an_empty_list_of_included_days_allows_none():
    assert why_left_out(parse_calendar({"include": []}), day("2026-12-24")) is not None


def test_holidays_of_a_country_and_of_a_part_of_it():
    germany = parse_calendar({"holidays": "de"})
    bavaria = parse_calendar({"holidays": "DE", "subdivision": "BY"})

    assert why_left_out(germany, day("2026-12-25")) == "Christmas Day"
    assert why_left_out(germany, day("2027-01-06")) is None
    assert why_left_out(bavaria, day("2027-01-06")) == "Epiphany"


def test_a_calendar_of_the_tenant_keeps_its_name():
    named = parse_calendar({"name": "works-council", "version": 2, "exclude": ["2026-12-24"]})

    assert named == Calendar("works-council", frozenset({day("2026-12-24")}))


def test_a_name_is_a_country_or_not_known():
    assert check_calendar("us-CA", "/calendar") == {"holidays": "US", "subdivision": "CA"}
    with pytest.raises(Invalid) as refused:
        check_calendar("works-council", "/calendar")
    assert refused.value.faults[0].detail == 'There is no calendar "works-council".'
    assert "PUT /calendars/works-council" in refused.value.faults[0].hint


def test_a_definition_must_name_days():
    assert check_days({"exclude": ["2026-12-24"], "holidays": None}) == {"exclude": ["2026-12-24"]}
    with pytest.raises(Invalid) as refused:
        check_days({"exclude": []})
    assert refused.value.faults[0].detail == "A calendar must name some days."


@pytest.mark.parametrize(
    ("value", "pointer", "detail"),
    [
        (5, "/calendar", "A calendar is a name or an object; got int."),
        ("nowhere", "/calendar", "A calendar is a name or an object; got str."),
        ({"version": 2}, "/calendar/version", 'A calendar has no field "version".'),
        ({"name": "a b"}, "/calendar/name", "Must be the name of a calendar."),
        ({"holiday": "DE"}, "/calendar/holiday", 'A calendar has no field "holiday".'),
        ({"exclude": "2026-12-25"}, "/calendar/exclude", "Must be a list of at most 1000 dates."),
        ({"exclude": ["2026-12-25"] * 1001}, "/calendar/exclude", "Must be a list of at most 1000 dates."),
        ({"exclude": ["25.12.2026"]}, "/calendar/exclude/0", 'A date looks like 2026-12-25; got "25.12.2026".'),
        ({"include": [20261225]}, "/calendar/include/0", 'A date looks like 2026-12-25; got "20261225".'),
        ({"holidays": "XX"}, "/calendar/holidays", 'There are no holidays for "XX".'),
        ({"holidays": "DE", "subdivision": "ZZ"}, "/calendar/subdivision", 'There are no holidays for "ZZ".'),
        ({"holidays": ["DE"]}, "/calendar/holidays", "Must be a code of letters."),
        ({"holidays": "__init__"}, "/calendar/holidays", "Must be a code of letters."),
        ({"subdivision": "BY"}, "/calendar/subdivision", "A subdivision needs a country."),
    ],
)
def test_other_forms_are_refused(value, pointer, detail):
    with pytest.raises(Invalid) as refused:
        parse_calendar(value)

    assert [(fault.pointer, fault.detail) for fault in refused.value.faults] == [(pointer, detail)]
    assert refused.value.faults[0].hint


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    calendars._holidays.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)

    with pytest.raises(Invalid) as refused:
        parse_calendar({"holidays": "DE"})
    assert refused.value.faults[0].hint == 'Run: pip install "horae[calendars]"'
    assert len(parse_calendar({"exclude": ["2026-12-25"]}).exclude) == 1


@pytest.mark.parametrize("field", ["holidays", "subdivision", "exclude", "include"])
@pytest.mark.parametrize("value", [{}, False, 0])
def test_what_is_empty_but_of_the_wrong_kind_is_refused(field: str, value: object):
    with pytest.raises(Invalid) as refused:
        check_days({"exclude": ["2026-12-25"], "holidays": "DE"} | {field: value})

    assert [fault.pointer for fault in refused.value.faults] == [f"/{field}"]


def test_null_is_the_same_as_absent():
    assert check_days({"exclude": None, "include": None, "holidays": "DE", "subdivision": None}) == {"holidays": "DE"}
