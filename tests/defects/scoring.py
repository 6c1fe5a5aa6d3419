"""Defects of who scores: progress beside scores, members, batches that failed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from consumers.scorer.life import ScorerLife
from consumers.scorer.placing import Placing
from consumers.scorer.scorer import Scorer
from consumers.scorer.seat import Seat
from consumers.streams.score_settlement import ScoreSettlement
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.settlement import AttemptRecord
from streamsvm.errors import Fenced
from streamsvm.ingest import scored as scores_codec
from streamsvm.kafka import Input, Message, OutcomeUnknown, Publisher, Slot, Subscription
from tests.defects.planting import TABLE, Live, Simulated, replace_part, wrap
from tests.defects.publishing import LOST

MOVED: Final = {"positions lost": 2, "positions set back": 2, "positions set ahead": 2, "kill": 2}
"""What happens to a group from outside, and a scorer that asks it where to read on."""


@TABLE.defect(
    Simulated(breach="doubled-score", faults={"kill": 2}, scorer=True),
    live=Live(part="score", nemeses=("kill-scorer",), shows=("doubled-score",)),
)
def commits_beside_its_scores() -> None:
    """How far a batch went is committed after the transaction of its scores, in one of its own."""

    def hand_over(
        _: Any,
        scorer: Scorer,
        seat: Seat,
        publisher: Publisher,
        messages: Sequence[Message],
        progress: Any,
        positions: Any,
        life: ScorerLife,
    ) -> None:
        publisher.publish([one for one in messages if one.topic != life.progress.topic])
        crash_point("scores.placed")
        publisher.publish([one for one in messages if one.topic == life.progress.topic], progress=progress)
        publisher.confirm()

    wrap(Scorer, "_hand_over", hand_over)


@TABLE.defect(
    Simulated(
        breach="doubled-score|reordered",
        faults={"session expires": 3},
        scorer=True,
        world=True,
        two=True,
        partitions=2,
    ),
    live=Live(part="score", nemeses=("stop-scorer",), shows=("doubled-score", "lost-score")),
)
def names_no_member() -> None:
    """Scores are committed in the name of the group alone, so that nobody asks whether the scorer is still in it."""
    strangers: dict[Subscription, Input] = {}

    def progress(original: Any, subscription: Subscription, positions: Any) -> Any:
        made = original(subscription, positions)
        if subscription not in strangers:
            connection, topic = subscription._feed._connection, subscription._topic
            strangers[subscription] = Input(connection, topic, group=subscription._group)
        return replace(made, member=strangers[subscription]._consumer.consumer_group_metadata())

    wrap(Subscription, "progress", progress)


@TABLE.defect(
    Simulated(breach="lost-score", faults={"failed": 2}, scorer=True, world=True),
    live=Live(part="score", nemeses=("kill-broker",), shows=("lost-score", "stuck-scorer")),
)
def passes_over_what_failed() -> None:
    """A batch that was not committed is not read again."""

    def put_aside(original: Any, scorer: Scorer, seat: Seat, error: Any) -> None:
        seat.subscription.rewind = lambda: None  # type: ignore[method-assign]
        original(scorer, seat, error)

    wrap(Scorer, "_put_back", put_aside)


@TABLE.defect(live=Live(part="score", nemeses=("rebalance",), shows=("forged-score",), faults=1))
def names_another_model() -> None:
    """Every tenth batch of scores carries a hash that is not its version's."""
    made = [0]

    def score(original: Any, scorer: Any, records: Any) -> Any:
        made[0] += 1
        scored = original(scorer, records)
        if made[0] % 10:
            return scored
        other = hashlib.sha256(b"another").hexdigest().encode()
        for at, one in enumerate(scored.records):
            headers = tuple((n, other if n == scores_codec.MODEL_SHA256_HEADER else v) for n, v in one.headers)
            scored.records[at] = scores_codec.ScoreRecord(one.key, one.value, headers, one.rows)
        return scored

    wrap(scores_codec.BatchScorer, "score", score)


@TABLE.defect(
    live=Live(part="score", nemeses=("kill-both",), shows=("stuck-reader", "stuck-scorer"), faults=4),
)
def has_random_ids() -> None:
    """Each process makes a transactional id up, which says neither slot nor group: nobody takes a dead one's over."""
    own = uuid.uuid4().hex
    replace_part(Slot, "transactional_id", property(lambda slot: f"{own}-{slot.number}"))


@TABLE.defect(
    Simulated(breach="doubled-score", faults={"failed": 3, "markers lost": 2}, scorer=True),
)
def keeps_its_publisher() -> None:
    """After an abort the same publisher goes on."""

    def put_back(original: Any, scorer: Scorer, seat: Seat, error: Any) -> None:
        scorer._trouble = error.what
        seat.subscription.rewind()
        if isinstance(error, OutcomeUnknown | Fenced):
            scorer._let_go(seat)
        scorer._stop.wait(1.0)

    wrap(Scorer, "_put_back", put_back)


@TABLE.defect(Simulated(breach="lost-score|doubled-score", faults=MOVED, scorer=True))
def trusts_its_group() -> None:
    """Where the group has a position, scoring goes on there, whatever was committed with the scores."""

    def place(original: Any, placing: Placing, partitions: Any, hints: Any, begun: Any) -> dict[int, int | None]:
        placed: dict[int, int | None] = original(placing, partitions, hints, begun)
        said = {partition: hint.offset for partition, hint in hints.items() if hint.offset is not None}
        return {partition: said.get(partition, at) for partition, at in placed.items()}

    wrap(Placing, "place", place)


@TABLE.defect(Simulated(breach="doubled-score", faults=LOST, scorer=True))
def commits_no_positions_again() -> None:
    """The progress of an attempt that readers see is not committed again."""

    def is_missed(original: Any, settlement: ScoreSettlement, part: AttemptRecord, hung: Any) -> bool:
        return part.topic != settlement._progress.topic

    wrap(ScoreSettlement, "_is_missed", is_missed)


@TABLE.defect(
    Simulated(breach="are held up|there is no rest", faults={**LOST, "failed": 2, "expire": 1}, scorer=True),
)
def gives_no_positions_back() -> None:
    """What hangs of progress is not aborted."""
    wrap(ScoreSettlement, "_end_progress", lambda original, *given: None)
