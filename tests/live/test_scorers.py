"""Scenarios of scorers: killed, frozen and joined by others, they answer each record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from streamsvm.crashpoints import POINTS
from tests.brokers.fixtures import TestBroker
from tests.live.scoring import (
    DEFAULT_SESSION,
    LONG_SESSION,
    Scoring,
    ScoringStep,
    all_answered,
    begin,
    crash,
    different_slots,
    feed,
    feed_until,
    feed_until_all_work,
    finish,
    freeze,
    given_up,
    kill_at_random,
    same_id,
    scored,
    see,
    seen,
    slots,
    stop,
    thaw,
)

NAMED: Final = [point for point in POINTS if point.startswith("scores.")]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is done to scorers; at the end every record must have its one answer, unless a defect is `found`."""

    name: str
    steps: tuple[ScoringStep, ...]
    planted: str = ""
    found: str = ""
    quick: bool = False


def killed_at(*points: str) -> Iterator[ScoringStep]:
    """One life for each point, each with new records; the last one comes to the end."""
    for point in points:
        yield feed(500)
        yield crash("killed", point)
    yield begin("last")
    yield finish("last")


def frozen_in_its_slot(planted: str) -> tuple[ScoringStep, ...]:
    """Freeze a scorer with its second batch in hand; a successor in its slot answers that, and it goes on beside."""
    return (
        feed(1_000),
        begin("frozen", planted=planted),
        see("frozen", "freezes"),
        given_up(),
        begin("other"),
        scored("other", 900),
        *thawed_beside_another(),
    )


def frozen_beside_another(planted: str, beside: str = "") -> tuple[ScoringStep, ...]:
    """The same, but it is one in another slot, there before, that answers the batch: nobody takes its slot."""
    return (
        begin("other", planted=beside),
        begin("frozen", planted=planted),
        feed_until("frozen", "freezes"),
        slots(other=0, frozen=1),
        all_answered(),
        *thawed_beside_another(),
    )


def thawed_beside_another() -> tuple[ScoringStep, ...]:
    """Let the frozen scorer go on beside the other one."""
    return thaw("frozen"), feed(500), all_answered(), stop("frozen"), finish("other")


ROWS: Final = (
    Row(
        name="a kill at any named point doubles and loses nothing",
        steps=(*killed_at(*(f"{point}:{times}" for times, point in enumerate(NAMED, 1))),),
    ),
    *(
        Row(
            name=f"a kill at passage {times} of any named point doubles and loses nothing",
            steps=(*killed_at(*(f"{point}:{times}" for point in NAMED)),),
        )
        for times in (1, 2, 3)
    ),
    *(
        Row(
            name=f"a scorer killed at {point} is succeeded in its slot and nobody waits for a timeout",
            steps=(
                feed(500),
                crash("killed", f"{point}:2", session=LONG_SESSION),
                begin("successor", session=LONG_SESSION),
                same_id("killed", "successor"),
                finish("successor"),
            ),
            quick=point == "scores.placed",
        )
        for point in ("scores.sent", "scores.placed")
    ),
    Row(
        name="scorers that start at once come to a slot each and have work",
        steps=(
            begin("a", "b", "c", session=DEFAULT_SESSION),
            feed_until_all_work("a", "b", "c"),
            stop("b", "c"),
            finish("a"),
            different_slots("a", "b", "c"),
        ),
    ),
    *(
        Row(
            name=f"{kills} kills at random moments double and lose nothing",
            steps=(begin("a", "b"), kill_at_random(kills), stop("a"), finish("b")),
        )
        for kills in (4, 50)
    ),
    Row(
        name="a scorer frozen past its session adds nothing when it wakes",
        steps=(
            begin("frozen"),
            feed(5_000),
            scored("frozen", 1),
            freeze("frozen"),
            begin("other"),
            feed(1_000),
            scored("other", 1_000),
            thaw("frozen"),
            feed(3_000),
            all_answered(),
            stop("frozen"),
            finish("other"),
        ),
    ),
    Row(
        name="a scorer frozen within a transaction adds nothing",
        steps=(*frozen_in_its_slot("freezes-before-its-positions"), same_id("frozen", "other")),
        quick=True,
    ),
    Row(
        name="a scorer frozen within a transaction holds up nobody for ever",
        steps=(
            *frozen_beside_another("freezes-before-its-positions", "ends-transactions-early"),
            seen("other", "taking_over_the_id_of_another"),
        ),
    ),
    Row(
        name="a scorer frozen before a transaction adds nothing",
        steps=(*frozen_beside_another("freezes-before-its-scores"), seen("frozen", "batch_put_back")),
    ),
    Row(
        name="a client that hangs is given up and does no harm later",
        steps=(
            feed(300),
            begin("a", planted="hangs-in-the-client"),
            seen("a", "batch_put_back"),
            seen("a", "publisher_renewed", "returned_late", after="batch_put_back"),
            feed(300),
            finish("a"),
        ),
        quick=True,
    ),
    Row(
        name="a scorer that names no member is found",
        steps=frozen_beside_another("names-no-member+freezes-before-its-scores"),
        found="answered twice",
    ),
    *(
        Row(
            name=f"a scorer that commits beside its scores is found at {point}",
            steps=(feed(500), crash("killed", point), begin("last"), finish("last")),
            planted="commits-beside-its-scores",
            found="answered twice",
        )
        for point in ("scores.placed", "scores.placed:3")
    ),
)


@pytest.fixture
def play(real_broker: TestBroker) -> Iterator[Callable[[str], Scoring]]:
    """Make the topics of a test; no scorer outlives it."""
    made: list[Scoring] = []

    def make(planted: str) -> Scoring:
        made.append(Scoring(real_broker.connect(fetch_wait_max_ms=10), planted))
        return made[-1]

    yield make
    for each in made:
        each.clear()


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.name.replace(" ", "-"), marks=() if row.quick else pytest.mark.long) for row in ROWS],
)
def test_scorers_answer_each_record_once(
    row: Row, play: Callable[[str], Scoring], record_property: Callable[[str, object], None]
) -> None:
    """Whatever strikes: one score for each point and one letter for each bad record; a planted defect is found."""
    site = play(row.planted)

    def act() -> None:
        for strike in row.steps:
            strike(site)

    if row.found:
        with pytest.raises(AssertionError, match=row.found):
            act()
    else:
        act()
    for kind, count in {**site.counts, "points": site.sent}.items():
        record_property(kind, count)
