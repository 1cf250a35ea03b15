from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from horae.bench.charts import Bar, bars, lines, number_text
from horae.bench.figures import Figures, Floor, Key, percentiles
from horae.bench.fill import AHEAD_SECONDS, lines_of, six_hours
from horae.bench.floors import FLOORS, PEERS, expected
from horae.bench.growth import SETS, Standing, due_in
from horae.bench.pictures import draw
from horae.bench.soak import rate_between, window_of
from horae.bench.table import as_text, grid, short

SVG = "{http://www.w3.org/2000/svg}"
OURS, BARE = (Key("plan", "postgres", subject, "runs/s") for subject in ("horae", "bare"))


def measured(ours: list[float], bare: list[float]) -> Figures:
    figures = Figures()
    for key, values in ((OURS, ours), (BARE, bare)):
        for value in values:
            figures.add(key.case, key.shape, key.subject, {key.unit: value})
    return figures


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], (7, 7, 7)),
        ([2, 1], (1, 2, 2)),
        (list(range(1, 101)), (50, 99, 100)),
        (list(range(1, 1001)), (500, 990, 1000)),
    ],
)
def test_percentiles_are_values_that_were_measured(values: list[float], expected: tuple[float, ...]) -> None:
    assert percentiles(values) == expected


def test_a_ratio_is_the_median_of_those_of_each_round() -> None:
    # The second round was slow for both: the ratio of the medians would be 0.9.
    figures = measured([100, 40, 90], [200, 100, 100])

    assert figures.ratio(OURS, BARE) == 0.5


def test_sides_with_different_numbers_of_rounds_are_compared_by_their_medians() -> None:
    assert measured([100, 300], [50]).ratio(OURS, BARE) == 4


def test_there_is_no_ratio_to_what_was_not_measured_or_is_nothing() -> None:
    assert measured([100], []).ratio(OURS, BARE) is None
    assert measured([100], [0]).ratio(OURS, BARE) is None
    assert measured([], [100]).ratio(OURS, BARE) is None


def test_only_ratios_decide_and_absolute_figures_are_told() -> None:
    figures = measured([100], [200])
    floors = [Floor(OURS, BARE, least=0.5), Floor(OURS, BARE, least=0.6), Floor(OURS, None, least=300)]

    verdicts = figures.judge(floors)

    assert [(each.is_good, each.gates) for each in verdicts] == [(True, True), (False, True), (False, False)]
    assert figures.as_json(verdicts[:1])["is_good"]
    assert not figures.as_json(verdicts)["is_good"]
    assert figures.as_json(verdicts[2:])["is_good"]


@pytest.mark.parametrize("bound", [{"least": 301}, {"most": 33}])
def test_an_absolute_figure_that_no_machine_explains_decides_too(bound: dict[str, float]) -> None:
    figures = measured([100], [])

    (verdict,) = figures.judge([Floor(OURS, None, **bound)])

    assert (verdict.is_good, verdict.gates) == (False, True)
    assert not figures.is_good([verdict])


def test_a_case_that_broke_is_not_good_and_says_why() -> None:
    figures = measured([100], [100])
    figures.fail("herd", "postgres", "Unavailable: no server")

    assert not figures.is_good(figures.judge([Floor(OURS, BARE, least=0.5)]))
    assert "Unavailable: no server" in as_text(figures, [])


def test_what_a_peer_cannot_do_is_no_fault_of_ours() -> None:
    figures = measured([100], [100])
    figures.remark("drain", "any", "apscheduler", "it has no queue")

    assert figures.is_good(figures.judge([Floor(OURS, BARE, least=0.5)]))


def test_a_floor_may_be_a_ceiling() -> None:
    (verdict,) = measured([70], [100]).judge([Floor(OURS, BARE, most=0.6)])

    assert not verdict.is_good
    assert verdict.floor.words == "<= 0.6"


def test_floors_of_what_was_not_measured_say_nothing() -> None:
    assert Figures().judge(FLOORS, expected(["peers", "crowds"], ["pgqueuer"])) == []


def test_nothing_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        percentiles([])


@pytest.mark.parametrize(("bare", "expected"), [([], {(BARE.case, "bare")}), ([0.0], set())])
def test_a_figure_with_nothing_to_stand_beside_is_not_good(bare: list[float], expected: set[tuple[str, str]]) -> None:
    figures = measured([100], bare)

    (verdict,) = figures.judge([Floor(OURS, BARE, least=0.5)], expected)

    assert verdict.value is None
    assert not figures.is_good([verdict])
    assert "none   >= 0.5  MISSED" in as_text(figures, [verdict])


def test_a_peer_that_nobody_asked_for_is_not_missed() -> None:
    assert measured([100], []).judge([Floor(OURS, BARE, least=0.5)]) == []


def test_a_peer_is_missed_in_the_cases_that_it_was_asked_for() -> None:
    figures = Figures()
    figures.add("drain", "1 process", "horae", {"runs/s": 1.0})
    figures.add("herd", "10,000", "horae", {"p99 ms": 1.0})

    def missed(*cases: str) -> list[str]:
        verdicts = figures.judge(FLOORS, expected(cases, ["pgqueuer"]))
        return [verdict.floor.over.case for verdict in verdicts if verdict.floor.under]

    assert (missed("peers"), missed("crowds", "processes"), missed("drain")) == (["drain"], ["herd"], [])


def test_what_is_the_same_on_any_machine_decides_too() -> None:
    figures = measured([99], [])

    (verdict,) = figures.judge([Floor(OURS, None, least=100, is_exact=True)])

    assert verdict.gates
    assert not figures.is_good([verdict])


@pytest.mark.parametrize(("bound", "worst"), [({"least": 100}, 80), ({"most": 100}, 130)])
def test_of_what_is_the_same_on_any_machine_the_worst_counts(bound: dict[str, float], worst: float) -> None:
    (verdict,) = measured([80, 100, 130], []).judge([Floor(OURS, None, **bound, is_exact=True)])

    assert (verdict.value, verdict.is_good) == (worst, False)


def test_every_floor_names_its_row_and_one_bound() -> None:
    assert all(floor.row and (floor.least is None) != (floor.most is None) for floor in FLOORS)
    assert len({(floor.over, floor.under) for floor in FLOORS}) == len(FLOORS)
    against = {floor.under.subject for floor in FLOORS if floor.under}
    assert against == {"bare", "horae", "10,000 jobs", "pgqueuer", "huey", *PEERS}


@pytest.mark.parametrize(
    ("place", "against", "bound"),
    [
        (("plan", "postgres", "runs/s"), "bare", ">= 0.5"),
        (("plan", "postgres", "runs/s"), None, ">= 20000"),
        (("path", "postgres", "runs/s"), "bare", ">= 0.5"),
        (("drain", "1 process", "runs/s"), "pgqueuer", ">= 1.3"),
        (("drain", "2 processes", "runs/s"), "pgqueuer", ">= 1.1"),
        *((("drain", "1 process", "runs/s"), peer, ">= 2") for peer in PEERS),
        *((("drain", "2 processes", "runs/s"), peer, ">= 2") for peer in PEERS),
        (("drain", "sqlite, 1 process", "runs/s"), "huey", ">= 2"),
        (("lateness", "1,000/s at once", "p99 ms"), None, "<= 100"),
        (("herd", "10,000", "p99 ms"), "pgqueuer", "<= 0.6"),
        (("herd", "100,000", "max ms"), "pgqueuer", "<= 0.7"),
        (("herd", "100,000", "% staged before"), None, ">= 100"),
        *(
            (("growth", f"{n} jobs", "scan ms"), "10,000 jobs", "<= 1.5")
            for n in ("100,000", "1,000,000", "10,000,000")
        ),
        *(
            (("growth", f"{n} jobs", "plan ms"), "10,000 jobs", "<= 1.5")
            for n in ("100,000", "1,000,000", "10,000,000")
        ),
        (("growth", "10,000,000 jobs", "scheduler MB"), None, "<= 200"),
        (("create", "http, one at a time", "p99 ms"), None, "<= 100"),
        (("create", "http, batches", "jobs/s"), None, ">= 10000"),
        (("failover", "kill -9", "s"), None, "<= 6"),  # with a lease of five
        (("failover", "stop", "s"), None, "<= 1"),
        (("http", "1 process", "runs/s"), "bare", ">= 0.8"),
        (("idle", "one host", "% of a core"), None, "<= 1"),
        (("idle", "one host", "statements/s"), None, "<= 5"),
        (("soak", "path, 1800 s, late", "runs/s"), "horae", ">= 0.9"),
        (("soak", "transaction held open, 300 s", "part left"), "bare", ">= 0.9"),
        (("start", "dev", "ready s"), None, "<= 2"),
        (("start", "dev", "MB"), None, "<= 120"),
        (("start", "worker", "MB"), None, "<= 100"),
        (("start", "cli", "ms"), None, "<= 100"),
    ],
)
def test_the_bounds_are_the_figures_to_reach(place: tuple[str, str, str], against: str | None, bound: str) -> None:
    case, shape, unit = place
    found = [
        floor.words
        for floor in FLOORS
        if floor.over == Key(case, shape, "horae", unit) and (floor.under and floor.under.subject) == against
    ]

    assert found == [bound]


@pytest.mark.parametrize("count", [10_000, 100_000, 1_000_000, 10_000_000])
def test_among_however_many_jobs_as_many_are_due_together_each_time_later(count: int) -> None:
    assert {due_in(count, number) for number in range(SETS)} == {500}
    ends = [Standing(0).until_us(count, number) for number in range(SETS)]
    assert {b - a for a, b in pairwise(ends)} == {ends[0] + 30_000_000}


def test_the_json_has_each_figure_with_its_spread() -> None:
    figures = measured([3, 1, 2], [])
    figures.remark("drain", "any", "apscheduler", "it has no queue")

    told = json.loads(json.dumps(figures.as_json([])))

    expected = {"case": "plan", "shape": "postgres", "subject": "horae", "unit": "runs/s"}
    assert told["figures"] == [expected | {"median": 2, "low": 1, "high": 3, "values": [3, 1, 2]}]
    assert told["remarks"] == [{"case": "drain", "shape": "any", "subject": "apscheduler", "why": "it has no queue"}]


def test_the_table_has_figures_remarks_and_verdicts() -> None:
    figures = measured([12_345], [30_000])
    figures.remark("drain", "any", "apscheduler", "it has no queue")

    floors = [Floor(OURS, BARE, least=0.5), Floor(Key("herd", "100,000", "horae", "% done"), None, least=100)]
    text = as_text(figures, figures.judge(floors), floors)

    assert "plan  postgres  horae  12,345  runs/s  12,345  12,345  1" in text
    assert "drain  any    apscheduler  it has no queue" in text
    assert "plan  postgres  runs/s  bare     0.41   >= 0.5  MISSED" in text
    assert text.endswith("Not measured, though there is a bound: herd 100,000.")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert grid(("a", "b"), [("long", "x"), ("s", "y")]) == "a     b\n----  -\nlong  x\ns     y"


@pytest.mark.parametrize(("value", "text"), [(12_345.6, "12,346"), (100, "100"), (12.34, "12.3"), (0.123, "0.12")])
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(("value", "text"), [(17_000, "17 K"), (3_400_000, "3.4 M"), (0.25, "0.25"), (999, "999")])
def test_numbers_on_charts_are_short(value: float, text: str) -> None:
    assert number_text(value) == text


def test_the_longest_bar_fills_the_width_and_ours_stands_out() -> None:
    chart = ET.fromstring(bars("a < b", "runs/s", [Bar("horae", 50, 40, 60, is_ours=True), Bar("other", 100, 90, 100)]))

    _, ours, other = chart.findall(f"{SVG}rect")
    assert float(ours.attrib["width"]) * 2 == float(other.attrib["width"]) == 460
    assert ours.attrib["fill"] != other.attrib["fill"]
    assert "a < b" in [text.text for text in chart.findall(f"{SVG}text")]


def test_a_chart_of_no_bars_or_points_is_still_a_chart() -> None:
    assert ET.fromstring(bars("t", "u", []))
    assert "nothing was measured" in lines("t", "u", "jobs", {"a": [(1, 0)]})


def test_a_size_of_nothing_stands_at_the_left_edge() -> None:
    chart = ET.fromstring(lines("t", "ms", "finished", {"claim": [(0, 7), (1_000, 8), (10_000, 9)]}))

    drawn = chart.find(f"{SVG}polyline")
    assert drawn is not None
    none, first, *_ = [float(point.split(",")[0]) for point in drawn.attrib["points"].split()]
    assert none == 80 < first
    assert "0" in [text.text for text in chart.findall(f"{SVG}text")]


def test_lines_go_by_powers_of_ten() -> None:
    chart = ET.fromstring(lines("t", "ms", "jobs", {"scan": [(10_000, 1), (100, 100), (1_000, 10)]}))

    drawn = chart.find(f"{SVG}polyline")
    assert drawn is not None
    points = [tuple(map(float, point.split(","))) for point in drawn.attrib["points"].split()]
    (x1, y1), (x2, y2), (x3, y3) = points
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y2 - y1 == pytest.approx(y3 - y2, abs=0.2)
    assert x1 < x2 < x3
    assert y1 < y2 < y3  # down the page: less


def test_charts_are_drawn_of_what_was_measured(tmp_path) -> None:
    figures = measured([100], [200])
    for count, value in ((10_000, 2.0), (100_000, 2.5)):
        figures.add("growth", f"{count:,} jobs", "horae", {"scan ms": value, "database MB": 3})
    figures.add("drain", "1 process", "horae", {"runs/s": 20})

    (tmp_path / "herd.svg").write_text("<svg>of a run before</svg>")

    assert draw(figures, tmp_path) == ["limits.svg", "growth-jobs.svg", "growth-size.svg"]
    assert not (tmp_path / "herd.svg").exists()
    assert all(ET.fromstring(path.read_text()) for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("seen", "rate"),
    [
        ([(0.0, 0), (1.0, 10), (2.0, 40), (3.0, 50)], 30.0),
        ([(0.0, 0), (4.0, 80)], 20.0),  # nobody looked within the window
        ([(1.9, 0), (2.1, 10)], 50.0),  # nor before it
    ],
)
def test_the_rate_of_a_window_needs_no_look_within_it(seen, rate: float) -> None:
    assert rate_between(seen, 1.0, 2.0) == pytest.approx(rate)


@pytest.mark.parametrize(("seconds", "window"), [(4, 3), (120, 24), (1800, 60)])
def test_a_short_soak_is_not_told_of_less_time_than_the_server_takes_to_count(seconds: float, window: float) -> None:
    assert window_of(seconds) == window


@pytest.mark.parametrize("hour", range(24))
@pytest.mark.parametrize("minute", [0, 6, 59])
def test_jobs_of_the_benchmark_are_due_within_its_look_ahead_but_not_while_it_runs(hour: int, minute: int) -> None:
    now_us = round(datetime(2026, 11, 18, hour, minute, 59, tzinfo=UTC).timestamp()) * 1_000_000

    dues = [due_us - now_us for *_, due_us in lines_of(six_hours(now_us), now_us)]

    assert min(dues) > 3600e6
    assert max(dues) < (AHEAD_SECONDS - 3600) * 1e6
