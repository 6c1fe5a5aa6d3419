"""Scenarios of scorers: killed, frozen and joined by others, they answer each record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from streamsvm.crashpoints import POINTS
from tests.brokers.fixtures import TestBroker
from tests.live.scenario import Scenario, play_out, rows
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
    Scenario(
        name="a kill at any named point doubles and loses nothing",
        steps=(*killed_at(*(f"{point}:{times}" for times, point in enumerate(NAMED, 1))),),
    ),
    *(
        Scenario(
            name=f"a kill at passage {times} of any named point doubles and loses nothing",
            steps=(*killed_at(*(f"{point}:{times}" for point in NAMED)),),
        )
        for times in (1, 2, 3)
    ),
    *(
        Scenario(
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
    Scenario(
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
        Scenario(
            name=f"{kills} kills at random moments double and lose nothing",
            steps=(begin("a", "b"), kill_at_random(kills), stop("a"), finish("b")),
        )
        for kills in (4, 50)
    ),
    Scenario(
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
    Scenario(
        name="a scorer frozen within a transaction adds nothing",
        steps=(*frozen_in_its_slot("freezes-before-its-positions"), same_id("frozen", "other")),
        quick=True,
    ),
    Scenario(
        name="a scorer frozen within a transaction holds up nobody for ever",
        steps=(
            *frozen_beside_another("freezes-before-its-positions", "ends-transactions-early"),
            seen("other", "taking_over_the_id_of_another"),
        ),
    ),
    Scenario(
        name="a scorer frozen before a transaction adds nothing",
        steps=(*frozen_beside_another("freezes-before-its-scores"), seen("frozen", "batch_put_back")),
    ),
    Scenario(
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
    Scenario(
        name="a scorer that names no member is found",
        steps=frozen_beside_another("names-no-member+freezes-before-its-scores"),
        found="answered twice",
    ),
    *(
        Scenario(
            name=f"a scorer that commits beside its scores is found at {point}",
            steps=(feed(500), crash("killed", point), begin("last"), finish("last")),
            planted=("commits-beside-its-scores",),
            found="answered twice",
        )
        for point in ("scores.placed", "scores.placed:3")
    ),
)


@pytest.mark.parametrize("scenario", rows(ROWS))
def test_scorers_answer_each_record_once(
    scenario: Scenario, real_broker: TestBroker, record_property: Callable[[str, object], None]
) -> None:
    """Whatever strikes: one score for each point and one letter for each bad record; a planted defect is found."""
    play_out(scenario, Scoring(real_broker.connect(fetch_wait_max_ms=10), *scenario.planted), record_property)
