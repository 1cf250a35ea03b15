"""What a target may say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.egress import allow_ranges
from horae.core.targets import FIELDS, check_target, normalize_target, read_expect

URL = "https://example.com/hook"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def pointers(type, target, allow=()):
    return [fault.pointer for fault in check_target(type, target, "/target", allow)]


@pytest.mark.parametrize(
    ("type", "target"),
    [
        ("http", URL),
        ("http", {"url": URL}),
        ("http", {"url": URL, "method": "get", "headers": {"X-A": "b", "X-N": 5}, "expect": "2xx,404"}),
        ("http", {"url": URL, "method": "GET", "body": None, "headers": None, "expect": None}),
        ("http", {"url": URL, "body": "text", "expect": {"status": [200, "3xx"], "body_contains": "ok"}}),
        ("shell", {"command": "echo hi"}),
        ("shell", {"command": ["echo", "hi", ""], "cwd": "/srv", "env": {"REGION": "eu"}}),
        ("python", {"handler": "report", "args": {"region": "eu"}}),
        ("custom", {}),
        ("custom", None),
        ("custom", {"args": {}}),
        ("noop", None),
        ("noop", {"sleep": "1m30s", "fail": 2}),
        ("noop", {"sleep": 0.5}),
    ],
)
def test_a_good_target_has_no_faults(type, target):
    assert check_target(type, target, "/target") == []


@pytest.mark.parametrize(
    ("type", "target", "pointer"),
    [
        ("http", None, "/target"),
        ("http", [], "/target"),
        ("http", {}, "/target/url"),
        ("http", {"url": 5}, "/target/url"),
        ("http", {"url": "http://10.0.0.1/"}, "/target/url"),
        ("http", {"url": URL, "method": "TRACE"}, "/target/method"),
        ("http", {"url": URL, "method": "GET", "body": {"a": 1}}, "/target/body"),
        ("http", {"url": URL, "headers": ["a"]}, "/target/headers"),
        ("http", {"url": URL, "headers": {"X-A": "b\r\nX-C: d"}}, "/target/headers/X-A"),
        ("http", {"url": URL, "headers": {"X-A\r\n": "b"}}, "/target/headers/X-A\r\n"),
        ("http", {"url": URL, "headers": {"X A": "b"}}, "/target/headers/X A"),
        ("http", {"url": URL, "headers": {"X-A": None}}, "/target/headers/X-A"),
        ("http", {"url": URL, "headers": {"X-A": "\ud800"}}, "/target/headers/X-A"),
        ("http", {"url": URL, "headers": {"X-A": "1", "x-a": "2"}}, "/target/headers/x-a"),
        ("http", {"url": URL, "headers": {f"X-{n}": "1" for n in range(65)}}, "/target/headers"),
        ("http", {"url": URL, "expect": "ok"}, "/target/expect"),
        ("http", {"url": URL, "expect": "299-200"}, "/target/expect"),
        ("http", {"url": URL, "expect": "6xx"}, "/target/expect"),
        ("http", {"url": URL, "expect": ""}, "/target/expect"),
        ("http", {"url": URL, "expect": []}, "/target/expect"),
        ("http", {"url": URL, "expect": True}, "/target/expect"),
        ("http", {"url": URL, "expect": {"statuses": 200}}, "/target/expect"),
        ("http", {"url": URL, "expect": {"status": {"status": 200}}}, "/target/expect"),
        ("http", {"url": URL, "expect": {"body_contains": 5}}, "/target/expect"),
        ("http", {"url": URL, "follow_redirects": True}, "/target/follow_redirects"),
        ("shell", {}, "/target/command"),
        ("shell", {"command": "  "}, "/target/command"),
        ("shell", {"command": []}, "/target/command"),
        ("shell", {"command": ["echo", 5]}, "/target/command"),
        ("shell", {"command": "a\0b"}, "/target/command"),
        ("shell", {"command": "x" * 200_000}, "/target/command"),
        ("shell", {"command": "x", "cwd": "relative"}, "/target/cwd"),
        ("shell", {"command": "x", "env": ["A=b"]}, "/target/env"),
        ("shell", {"command": "x", "env": {"A-B": "c"}}, "/target/env/A-B"),
        ("shell", {"command": "x", "env": {"HORAE_FENCE": "9"}}, "/target/env/HORAE_FENCE"),
        ("shell", {"command": "x", "env": {"A": 5}}, "/target/env/A"),
        ("python", {}, "/target/handler"),
        ("python", {"handler": " "}, "/target/handler"),
        ("custom", {"handler": 5}, "/target/handler"),
        ("python", {"handler": "a", "args": []}, "/target/args"),
        ("noop", {"sleep": "soon"}, "/target/sleep"),
        ("noop", {"fail": -1}, "/target/fail"),
        ("noop", {"fail": True}, "/target/fail"),
    ],
)
def test_each_fault_is_named_where_it_is(type, target, pointer):
    assert pointers(type, target) == [pointer]


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "Idempotency-Key",
        "X-Horae-Run",
        "webhook-id",
        "TraceParent",
    ],
)
def test_a_header_that_horae_sets_cannot_be_given(name):
    assert pointers("http", {"url": URL, "headers": {name: "x"}}) == [f"/target/headers/{name}"]


def test_an_unknown_field_brings_the_nearest_name():
    (fault,) = check_target("http", {"url": URL, "metod": "GET"}, "/target")

    assert "method" in fault.hint


def test_an_address_that_the_operator_allows_is_accepted():
    assert pointers("http", {"url": "http://127.0.0.1:80/"}, allow_ranges("127.0.0.0/8")) == []


@pytest.mark.parametrize(
    ("expect", "good", "bad"),
    [
        (None, [200, 204, 299], [199, 300, 404, 500]),
        ("2xx", [200, 299], [300]),
        (200, [200], [201]),
        ("200", [200], [201]),
        ("200-204, 404", [200, 204, 404], [205, 403]),
        (["2XX", 404], [250, 404], [405]),
        ({"status": "3xx"}, [302], [200]),
        ({"body_contains": "x"}, [200], [500]),
    ],
)
def test_expect_says_which_statuses_are_good(expect, good, bad):
    found = read_expect(expect)

    assert all(found.takes_status(status) for status in good)
    assert not any(found.takes_status(status) for status in bad)


def test_defaults_are_filled_in():
    assert normalize_target("http", URL) == {"url": URL, "method": "POST", "headers": {}, "expect": "2xx"}
    assert normalize_target("http", {"url": URL, "method": "put", "headers": {"N": 5}, "body": None}) == {
        "url": URL,
        "method": "PUT",
        "headers": {"N": "5"},
        "expect": "2xx",
    }
    assert normalize_target("noop", None) == {"sleep": "0s", "fail": 0}
    assert normalize_target("shell", {"command": "x", "cwd": None}) == {"command": "x"}
    assert normalize_target("custom", None) == {}


@given(st.sampled_from(sorted(FIELDS)), JSON)
def test_no_input_breaks_the_check_and_what_passes_can_be_filled_in(type, target):
    if not check_target(type, target, "/target"):
        filled = normalize_target(type, target)
        assert check_target(type, filled, "/target") == []
        assert normalize_target(type, filled) == filled


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_no_value_of_a_known_field_breaks_the_check(type, data):
    names = st.sampled_from(FIELDS[type])
    target = data.draw(st.dictionaries(names, JSON, max_size=5))

    if not check_target(type, target, "/target"):
        normalize_target(type, target)
