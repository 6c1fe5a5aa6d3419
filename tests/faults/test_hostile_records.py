"""A flood of hostile records over a trainer and a scorer: nothing ends, all adds up, good records pass beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.hostile_records import GOOD_ONE_IN, MOST_GROWTH_MB, Count, Flood, flooded
from tests.live.stage import Stage


def check(count: Count, note: Callable[[str, object], None]) -> None:
    note("flooded", f"{count.records} records, {count.records_per_s} a second, {count.growth_mb:.0f} MB more")
    assert (count.escapes, count.restarts, count.failed) == ([], 0, 0), count.failures
    assert count.probes >= 10
    assert set(Flood.KINDS) < count.by_kind.keys()
    assert count.good_scored == count.good_learned == count.good == count.records // GOOD_ONE_IN > 0
    assert count.only_labels > 0, "no record was wrong by its label only: the comparison shows less than it should"
    assert min(count.rows["trainer"].values()) > 0
    assert count.growth_mb < MOST_GROWTH_MB


def test_a_record_is_a_function_of_its_number() -> None:
    """A run that goes on, or one that is looked into, makes the same records again."""
    first, again = Flood(7), Flood(7)
    numbers = [*range(120), 10**7, 10**7 + 99]
    assert [first.record(number) for number in numbers] == [again.record(number) for number in reversed(numbers)][::-1]
    assert first.record(5) != Flood(8).record(5)


@pytest.mark.long(keep=("4000",))
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("records", [4_000, pytest.param(200_000, marks=pytest.mark.faults_long)])
def test_a_flood_ends_nothing_and_adds_up(
    stage: Stage, records: int, record_property: Callable[[str, object], None]
) -> None:
    """Every record is accounted for by both daemons, and each good one is learned and scored once."""
    timed_s = 0.0 if records < 10_000 else 10.0
    check(flooded(stage, Count(), records, chunk=min(records // 2, 50_000), timed_s=timed_s), record_property)


@pytest.mark.parametrize(
    ("planted", "found"),
    [("dies-of-far-exponents", "ended with status"), ("learns-bad-rows", "the trainer counts")],
)
@pytest.mark.timeout(1_200)
@pytest.mark.faults_long
def test_a_flood_finds_a_defect(stage: Stage, planted: str, found: str) -> None:
    """Planted: a kind of record ends a daemon; a rejected row is learned."""
    count = flooded(stage, Count(), 4_000, planted=planted, chunk=2_000, timed_s=0.0)
    assert not count.clean
    assert any(found in what for what in count.escapes), count.escapes
