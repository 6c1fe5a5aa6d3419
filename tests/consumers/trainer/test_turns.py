"""The longest turn of the main loop, as a scrape sees it."""

from __future__ import annotations

from consumers.trainer.gauges import TURNS_S, Turns


def test_the_longest_turn_stays_until_a_scrape_must_have_seen_it() -> None:
    """For half a minute at least, and no longer than a whole one; then it is forgotten."""
    turns, now = Turns(100.0), 100.0
    for length in (0.1, 7.0, 0.1):
        now += length
        turns.next(now)
    assert turns.longest_s == 7.0
    long_one_ended = now
    while now < long_one_ended + TURNS_S - 0.1:
        now += 0.1
        turns.next(now)
    assert turns.longest_s == 7.0
    while now < long_one_ended + 2 * TURNS_S:
        now += 0.1
        turns.next(now)
    assert turns.longest_s < 0.2
