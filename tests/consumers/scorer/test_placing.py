"""Where a scorer reads on once the log is not the one that was scored: after an unclean leader election."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest

from consumers.scorer import Placing
from consumers.settings import ScoringConfig
from consumers.streams import ScoredProgress, ScoredTo, TopicIdentity
from streamsvm.errors import LogGap, TransientError
from streamsvm.kafka import Cluster, GroupPosition, Place, Record, Watermarks

SCORED = 1_000
NOTHING = GroupPosition()


@dataclass
class Log:
    """A partition of points that begins somewhere, by the leader epoch of each record; and one record of progress."""

    epochs: list[int]
    first: int = 0
    known: ScoredTo | None = None
    topic: str = "id"
    embedded: bool = False
    looks: int = 0

    def keeping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def topic_id(self, _: str) -> str:
        return self.topic

    def marks(self, places: Iterable[Place]) -> dict[Place, Watermarks]:
        return dict.fromkeys(places, Watermarks(1, 1))

    def log_ranges(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        return {partition: self.log_range(topic, partition) for partition in partitions}

    def log_range(self, topic: str, _: int) -> tuple[int, int]:
        return (self.first, len(self.epochs)) if topic == "points" else (0, 1)

    def read_to_end(self, topic: str, partition: int, **_: Any) -> Iterator[Record]:
        if self.known is not None:
            yield Record(topic, partition, 0, b"m points 0 g-0", msgspec.json.encode(self.known), (), None, None)

    def stored_at(self, topic: str, partition: int, offset: int, _: float) -> Record | None:
        self.looks += 1
        if offset >= len(self.epochs):
            return None
        return Record(topic, partition, offset, None, b"", (), None, self.epochs[offset])

    def leader_epoch(self, topic: str, partition: int, offset: int) -> int | None:
        found = self.stored_at(topic, partition, offset, 0.0)
        return None if found is None else found.leader_epoch


def place(log: Log, hint: GroupPosition | None = NOTHING, reset: str = "", **options: Any) -> int:
    """Return where a scorer reads on."""
    cluster = cast("Cluster", log)
    identity = TopicIdentity(cluster, "points", "id", {})
    progress = ScoredProgress(
        cluster,
        model="m",
        input_topic="points",
        topic="progress",
        partitions=[0],
        identity=identity,
        monotonic=lambda: 0.0,
        wait=lambda _: None,
    )
    scoring = ScoringConfig(topic="points", **options)
    placing = Placing(cluster, progress, model="m", scoring=scoring, identity=identity, reset=reset)
    return placing.place([0], {0: hint} if hint else {}, {})[0]


def scored(offset: int = SCORED, leader_epoch: int = 3) -> ScoredTo:
    return ScoredTo(offset, "id", leader_epoch)


@pytest.mark.parametrize("lost_from", [0, 1, 400, 999])
@pytest.mark.parametrize("written_since", [0, 100, 5_000])
def test_what_another_leader_wrote_is_scored(lost_from: int, written_since: int) -> None:
    """From the first record that lies in the place of one that was scored, found in a few looks."""
    log = Log([3] * lost_from + [4] * written_since, known=scored())
    assert place(log) == lost_from
    assert log.looks <= 12


def test_nothing_changed_where_the_last_record_is_the_one_that_was_scored() -> None:
    """Epochs before it, and after it, are of elections that lost nothing."""
    log = Log([1] * 10 + [3] * 990 + [7] * 50, known=scored())
    assert place(log) == SCORED
    assert log.looks == 1


@pytest.mark.parametrize("first", [SCORED, SCORED + 1])
def test_retention_is_no_change(first: int) -> None:
    """The last record that was scored may be gone; the next one may not."""
    log = Log([4] * 2_000, first, scored())
    if first == SCORED:
        assert place(log) == SCORED
        return
    with pytest.raises(LogGap, match=f"offset {SCORED} of points.0. is out of range: the log starts at {first}"):
        place(log)
    assert place(log, on_gap="beginning") < 0  # the first record


def test_a_scorer_may_refuse_what_changed() -> None:
    """It names what is gone, and the way out."""
    log = Log([3] * 400 + [4] * 900, known=scored())
    gone = r"offsets 400 to 999 of points\[0\] were scored and are no longer in the log"
    with pytest.raises(LogGap, match=gone) as error:
        place(log, on_changed="fail")
    assert "--scoring-on-changed score" in str(error.value)


def test_a_topic_that_was_made_again_is_not_a_log_that_was_cut() -> None:
    """Its id is asked for before anything is said of elections."""
    with pytest.raises(LogGap, match="was recreated"):
        place(Log([0] * 20, known=scored(), topic="another"))


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (GroupPosition(), -2),
        (GroupPosition(7), 7),
        (GroupPosition(7, "id"), 7),
        (GroupPosition(7, "id", "other"), -2),
        (GroupPosition(7, "id", "m"), -2),
    ],
    ids=["none", "a person's", "a scorer's without progress", "another model's", "of a batch that was aborted"],
)
def test_a_group_is_a_hint_where_nothing_is_known(hint: GroupPosition, expected: int) -> None:
    """The first record is the place where the hint is none of this model's."""
    assert place(Log([0] * 20), hint) == expected


def test_a_reset_begins_where_a_person_said() -> None:
    """At the first record where nobody did; not before the group has answered, nor where the log has nothing."""
    log = Log([3] * 2_000, known=scored())
    assert place(log, reset="m/1") < 0
    assert place(log, GroupPosition(7, "id", "m"), "m/1") < 0
    assert place(log, GroupPosition(1_700), "m/1") == 1_700
    assert place(log, GroupPosition(1_700), "m/2") == SCORED
    with pytest.raises(TransientError):
        place(log, None, "m/1")
    with pytest.raises(LogGap, match="out of range"):
        place(Log([3] * 2_000, 50, scored()), GroupPosition(7), "m/1")


def test_a_group_that_does_not_answer_is_waited_for_only_where_nothing_is_known() -> None:
    """Where a record says how far the input was scored, nobody needs the group."""
    assert place(Log([3] * 2_000, known=scored()), None) == SCORED
    with pytest.raises(TransientError):
        place(Log([3] * 2_000), None)
