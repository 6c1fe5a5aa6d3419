"""Planted defects of the scorer: the shipped code, or its world, without one of the parts that keep its promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from consumers.scorer.scorer import Scorer
from consumers.scorer.seat import Members, Seat
from consumers.streams import score_settlement
from consumers.streams.identity import TopicIdentity
from consumers.streams.score_settlement import ScoreSettlement
from streamsvm.errors import Fenced, TransientError
from streamsvm.kafka import Message, OutcomeUnknown
from tests.simulation.broker import Entry
from tests.simulation.planting import Defect, replaced
from tests.simulation.running import Design
from tests.simulation.scorer_ports import (
    POSITIONS,
    Progress,
    ScorePublisher,
    ScorerCluster,
    ScorerPorts,
    Subscription,
)

Last = Callable[[Sequence[int]], Sequence[Message]] | None


def _with(publisher: type[ScorePublisher]) -> Design:
    cluster = type("Cluster", (ScorerCluster,), {"publishers": publisher})
    return Design(ports=type("Ports", (ScorerPorts,), {"clusters": cluster}))


def _nothing(*_: Any, **__: Any) -> None: ...


class _Apart(ScorePublisher):
    """Commits positions after the scores, by themselves."""

    def publish(self, messages: Sequence[Message], last: Last = None, progress: Any = None) -> list[int]:
        offsets = super().publish(messages, last)
        self._point("scores are committed, and positions are not")
        for partition, offset in progress.positions.items():
            self._broker.produce(POSITIONS, Entry(f'[{offset}, ""]'.encode(), str(partition).encode()))
        return offsets


class _Unchecked(ScorePublisher):
    """A coordinator that takes positions from members that were replaced."""

    def _place(self, progress: Progress, attempt: str) -> None:
        group = self._world.group
        group.members.setdefault(progress.slot, progress.life)
        with mock.patch.dict(group.members, {progress.slot: progress.life}):
            super()._place(replace(progress, generation=group.generation), attempt)


class _Resending(ScorePublisher):
    def publish(self, messages: Sequence[Message], last: Last = None, progress: Any = None) -> list[int]:
        try:
            return super().publish(messages, last, progress)
        except OutcomeUnknown:
            self._ended = None
            self.start()
            return super().publish(messages, last, progress)


class _SweepingByCommit(ScorePublisher):
    def _abort(self) -> None:
        self._sent = False
        self._commit()


@contextmanager
def _unconfirmed() -> Iterator[None]:
    with mock.patch.object(ScorePublisher, "confirm", _nothing), mock.patch.object(Members, "confirm", _nothing):
        yield


def _keeps_its_publisher(self: Scorer, seat: Seat, error: TransientError | Fenced) -> None:
    self._trouble = error.what
    seat.subscription.rewind()
    if isinstance(error, OutcomeUnknown | Fenced):
        self._let_go(seat)
    self._stop.wait(1.0)


def _no_position(parts: Any, input_topic: str) -> Mapping[int, int]:
    return {}


def _trusts_its_group(self: ScoreSettlement, publisher: Any, left_open: Any) -> None:
    """Look at the group's positions only: what they say is done, whatever the scores say."""
    self._give_positions_back(publisher)


LOST = {"markers lost": 2, "markers late": 1, "markers arrive": 2, "kill": 1}
TWO: Final[Mapping[str, Any]] = {"two": True, "partitions": 2}

DEFECTS: Final[Mapping[str, Defect]] = {
    f"scorer: {name}": replace(defect, scorer=True)
    for name, defect in {
        "positions are committed apart from the scores": Defect(
            "one transaction", "doubled-score", {"kill": 2}, _with(_Apart)
        ),
        "what was put back is passed over": Defect(
            "the rewind", "lost-score", {"failed": 2}, planted=replaced(Subscription, "rewind", _nothing)
        ),
        "a batch is sent again after a timeout": Defect(
            "another publisher, and settling", "doubled-score", {"unanswered": 2}, _with(_Resending)
        ),
        "a dead transaction is not settled": Defect(
            "ending what has no marker",
            "doubled-score|lost-score|are held up|are in doubt|points of partition|there is no rest",
            LOST,
            planted=replaced(ScoreSettlement, "settle", _nothing),
        ),
        "a dead transaction is settled by a commit": Defect(
            "the abort",
            "doubled-score|phantom|points of partition|ended without a reason",
            {**LOST, "failed": 2},
            _with(_SweepingByCommit),
        ),
        "what is half visible is not completed": Defect(
            "publishing the missing answers again",
            "lost-score|doubled-score|are in doubt|there is no rest",
            LOST,
            planted=replaced(ScoreSettlement, "_complete", _nothing),
        ),
        "it trusts its group's position over what its own scores say": Defect(
            "looking for the attempts that the positions, and what hangs, belong to",
            "lost-score|doubled-score",
            LOST,
            planted=replaced(ScoreSettlement, "_complete", _trusts_its_group),
        ),
        "positions in doubt are not committed again": Defect(
            "the positions of an attempt that readers see",
            "doubled-score",
            LOST,
            planted=replaced(score_settlement, "positions_of", _no_position),
        ),
        "positions in doubt are not given back": Defect(
            "the abort of what moves them",
            "are in doubt|there is no rest",
            {**LOST, "failed": 2, "expire": 1},
            planted=replaced(ScoreSettlement, "_give_positions_back", _nothing),
        ),
        "nobody waits for markers": Defect(
            "the look at stable offsets and positions after a commit",
            "doubled-score|lost-score|are held up|are in doubt",
            {**LOST, "failed": 2},
            planted=_unconfirmed,
        ),
        "a publisher goes on after an abort": Defect(
            "another publisher after each failed transaction",
            "doubled-score",
            {"failed": 3, "markers lost": 2},
            planted=replaced(Scorer, "_put_back", _keeps_its_publisher),
        ),
        "a member that was replaced commits": Defect(
            "the group's generation", "doubled-score|reordered", {"session expires": 3}, _with(_Unchecked), **TWO
        ),
        "a topic is not asked for its id": Defect(
            "the question before each commit",
            "doubled-score|lost-score|phantom",
            {"points recreated": 2, "unnoticed": 4},
            planted=replaced(TopicIdentity, "confirm", _nothing),
            records=8,
        ),
    }.items()
}
"""Every defect of the scorer by name."""
