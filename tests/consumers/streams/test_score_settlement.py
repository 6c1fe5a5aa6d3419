"""How far a settlement of scores reads: as far as it takes to see that the newest batch is whole.

What it makes of what it has read is the simulation's to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from consumers.streams.identity import TopicIdentity
from consumers.streams.score_settlement import ScoreSettlement
from consumers.streams.scored_progress import ScoredProgress, ScoredTo
from consumers.streams.settling import SHORT_SLACK_MS
from streamsvm.kafka import Cluster, Message, Place, Publisher, Record, Stamp, Stored, Watermarks

ID = "g-0"
PLACES: tuple[Place, ...] = (("scores", 0), ("scores", 1), ("letters", 0))
DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000


@dataclass
class Log:
    """The partitions, nothing open in them; notes between which times it was read."""

    stored_records: Sequence[Stored]
    embedded: bool = False
    servers: str = "nowhere"
    asked: list[tuple[int | None, int | None]] = field(default_factory=list)
    questions: int = 0

    def marks(self, places: Iterable[Place]) -> dict[Place, Watermarks]:
        self.questions += 1
        return dict.fromkeys(places, Watermarks(100, 100))

    def log_ranges(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        return {partition: self.log_range(topic, partition) for partition in partitions}

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        self.questions += 1
        return 0, 0

    def keeping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stored(
        self,
        places: Iterable[Place],
        wanted: Callable[[Record], bool],
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        **_: Any,
    ) -> list[Stored]:
        self.asked.append((since_ms, until_ms))
        wanted_places = set(places)
        return [
            one
            for one in self.stored_records
            if (one.record.topic, one.record.partition) in wanted_places
            and (since_ms or 0) <= one.record.timestamp_ms < (until_ms or NOW_MS)
            and wanted(one.record)
        ]


class Published(list[Message]):
    """What a settlement publishes."""

    def publish(self, messages: Sequence[Message]) -> None:
        self += messages

    def confirm(self) -> None:
        """Readers pass it at once."""

    def sweep(self, messages: Sequence[Message]) -> None:
        """It is aborted."""


def score(attempt: str, part: int, place: Place, age_ms: int, *, parts: int = 2, committed: bool = True) -> Stored:
    """Return a record of an attempt, as the log holds it."""
    topic, partition = place
    source = ("streamsvm.source", f"points/0/{part - 1}".encode())
    headers = (source, Stamp(attempt, part, parts, ID).header)
    return Stored(Record(topic, partition, part, None, b"%d" % part, headers, NOW_MS - age_ms, None), committed)


def progress(attempt: str, age_ms: int, *, partition: int = 0, writer: str = ID, committed: bool = True) -> Stored:
    """Return what says how far a partition was scored with an attempt."""
    value = msgspec.json.encode(ScoredTo(2, time_ms=NOW_MS - age_ms))
    stamp = Stamp(attempt, 3, 3, writer).header
    key = f"m points {partition} {writer}".encode()
    return Stored(Record("progress", partition, 7, key, value, (stamp,), NOW_MS - age_ms, None), committed)


def settle(log: Log, remembered: Sequence[Message] = ()) -> Published:
    """Settle, after a batch of these messages failed, and return what was published again."""
    clock = [0.0]
    cluster = cast("Cluster", log)
    identity = TopicIdentity(cluster, "points", "id", {})
    settlement = ScoreSettlement(
        cluster,
        ID,
        PLACES,
        family="g-",
        transaction_timeout_s=1.0,
        monotonic=lambda: clock[0],
        wait=lambda seconds: clock.append(clock.pop() + seconds),
        input_topic="points",
        progress=ScoredProgress(
            cluster,
            model="m",
            input_topic="points",
            topic="progress",
            partitions=[0, 1],
            identity=identity,
            monotonic=lambda: 0.0,
            wait=lambda _: None,
        ),
        now_ms=lambda: NOW_MS,
    )
    settlement.remember_at(remembered, NOW_MS)
    published = Published()
    settlement.settle(cast("Publisher", published))
    return published


WITHIN = [(NOW_MS - 60_000, None), (None, None)]
"""Where the newest progress is looked for."""


def test_a_whole_batch_is_looked_for_around_its_time_only() -> None:
    """However much other scorers have stored since."""
    log = Log([score("a", 1, PLACES[0], DAY_MS), score("a", 2, PLACES[1], DAY_MS), progress("a", DAY_MS)])
    assert not settle(log)
    begun = NOW_MS - DAY_MS
    assert log.asked == [*WITHIN, (begun - SHORT_SLACK_MS, begun + SHORT_SLACK_MS)]


def test_a_batch_that_another_one_followed_is_not_looked_for() -> None:
    """A partition without new records keeps the progress of a batch of long ago: that one was confirmed."""
    log = Log([score("b", 1, PLACES[0], 1_000, parts=1), progress("b", 1_000), progress("a", DAY_MS, partition=1)])
    assert not settle(log)
    assert {since for since, _ in log.asked[1:]} == {NOW_MS - 1_000 - SHORT_SLACK_MS}


def test_what_is_missing_is_looked_for_to_the_end() -> None:
    """It may have been published again long after, by who died before the end of it."""
    torn = [
        score("a", 1, PLACES[0], DAY_MS),
        score("a", 2, PLACES[1], DAY_MS, committed=False),
        progress("a", DAY_MS),
    ]
    assert not settle(Log([*torn, score("a", 2, PLACES[1], 1_000)]))
    assert [(one.topic, one.partition, one.value) for one in settle(Log(torn))] == [("scores", 1, b"2")]


def test_progress_of_another_slot_is_left_to_it() -> None:
    """What it lacks is completed by who takes that slot."""
    lacks = [score("a", 1, PLACES[0], DAY_MS, committed=False), progress("a", DAY_MS, writer="g-1")]
    assert not settle(Log(lacks))


@pytest.mark.parametrize("age_ms", [1_000, DAY_MS])
def test_an_aborted_repair_is_made_again(age_ms: int) -> None:
    """Progress that was sent again long after its batch names the batch's time: by that its scores are found."""
    again = progress("a", DAY_MS, committed=False)
    late = Stored(again.record._replace(timestamp_ms=NOW_MS - age_ms), committed=False)
    published = settle(
        Log([score("a", 1, PLACES[0], DAY_MS, parts=3), score("a", 2, PLACES[1], DAY_MS, parts=3), late])
    )
    assert [(one.topic, one.partition) for one in published] == [("progress", 0)]


def test_what_it_asks_does_not_grow_with_the_batch_that_failed() -> None:
    """A batch has thousands of messages, and until it is settled nobody gets a score."""
    questions = []
    for count in (2, 500):
        log, parts = Log([]), [score("a.1", part, PLACES[0], 0, parts=count).record for part in range(1, count + 1)]
        settle(log, [Message(one.topic, one.value, headers=one.headers, partition=one.partition) for one in parts])
        questions.append(log.questions)
    assert questions[1] == questions[0]
