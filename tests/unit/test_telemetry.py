"""What a scrape shows of what was counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from horae import telemetry
from horae.core.timeguard import TimeGuard

Figures = dict[tuple[str, ...], float]


def scrape() -> Figures:
    """Every sample by its name and the values of its labels."""
    text = telemetry.exposition()[0].decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("horae_") and sample.name != "horae_planner_scan_age_seconds"  # grows by itself
    }


def growth(happen: Callable[[], Any]) -> Figures:
    before = scrape()
    happen()
    return {key: grown for key, value in scrape().items() if (grown := value - before.get(key, 0))}


def test_a_batch_of_attempts_counts_each_and_the_lateness_of_first_ones() -> None:
    batch = [("noop", 10_000), ("noop", 10_001), ("http", None), ("noop", 301_000_000)]

    grown = growth(lambda: telemetry.attempts_started(batch))

    assert grown["horae_attempts_started_total", "noop"] == 3
    assert grown["horae_attempts_started_total", "http"] == 1
    # A bound includes what is just as large; what is above the last one is in none but +Inf.
    buckets = {key[1]: value for key, value in grown.items() if key[0] == "horae_run_lateness_seconds_bucket"}
    assert (buckets["0.01"], buckets["0.025"], buckets["300.0"], buckets["+Inf"]) == (1, 2, 2, 3)
    assert grown["horae_run_lateness_seconds_count",] == 3
    assert grown["horae_run_lateness_seconds_sum",] == pytest.approx(301.020001)


def test_an_outage_that_several_loops_see_counts_once_and_the_next_one_again() -> None:
    def happen() -> None:
        for _ in range(2):
            for who in ("planner", "heartbeat", "planner"):
                telemetry.store_away(who)
            telemetry.store_back("planner")
            telemetry.store_away("worker")
            for who in ("heartbeat", "worker"):
                telemetry.store_back(who)

    assert growth(happen) == {("horae_store_away_total",): 2}


def test_shards_are_held_no_longer_than_their_lease() -> None:
    telemetry.shards_held(64, 60)
    assert scrape()["horae_shards_held",] == 64

    telemetry.shards_held(64, -0.001)

    assert scrape()["horae_shards_held",] == 0


async def test_a_clock_that_jumps_is_not_trusted() -> None:
    guard = TimeGuard()
    telemetry.watch(guard, 1_000_000_000, 0.0)
    assert scrape()["horae_clock_trusted",] == 1

    telemetry.watch(guard, 900_000_000, 0.0, high_us=1_000_000_000_000_000)

    assert scrape()["horae_clock_trusted",] == 0


def test_what_can_happen_is_shown_before_it_has() -> None:
    shown = scrape()

    assert {
        ("horae_runs_ended_total", status) for status in ("succeeded", "failed", "cancelled", "unknown")
    } <= shown.keys()
    assert ("horae_due_times_skipped_total", "scheduler_down") in shown
    assert ("horae_webhook_attempts_total", "given_up") in shown
