"""What a worker asks of a store to find out which lines it may take from."""

from __future__ import annotations

from horae.core.timeguard import TimeGuard
from horae.store.claims import CLAIM, LIMITS, LINE
from horae.store.store import Store
from horae.worker.lines import Lines
from tests.conformance.conftest import START_US, StoreClock
from tests.conformance.world import World, count_queries


async def test_what_holds_lines_back_is_asked_for_when_something_is_due(
    world: World, store: Store, clock: StoreClock
) -> None:
    await world.run_now(await world.job(), due_us=START_US + 60_000_000)

    with count_queries(store) as before:
        await Lines(store, TimeGuard()).look(["-"], ())
    await clock.advance(61)
    with count_queries(store) as after:
        await Lines(store, TimeGuard()).look(["-"], ())

    assert [LIMITS in [query.statement for query in seen] for seen in (before, after)] == [False, True]


async def test_a_claim_begins_at_the_head_that_was_seen(world: World, store: Store) -> None:
    await world.worker()
    await world.run_now(await world.job())
    lines = Lines(store, TimeGuard())
    seen = await lines.look(["-"], ())
    assert seen is not None

    with count_queries(store) as asked:
        assert len(await store.claim("w1", lines.share_out(seen.due, 10)[0])) == 1

    (claim,) = [query.params for query in asked if query.statement in (CLAIM, LINE)]
    from_us = claim["share"][0].from_us if "share" in claim else claim["from_us"]
    assert from_us == seen.waiting[0].head_us
