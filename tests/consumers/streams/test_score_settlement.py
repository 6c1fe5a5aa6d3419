"""How far a settlement of scores reads: as far as it takes to see that the newest batch is whole.

What it makes of what it has read is the simulation's to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from consumers.streams.score_settlement import ScoreSettlement
from consumers.streams.settling import SHORT_SLACK_MS
from streamsvm.kafka import (
    Cluster,
    GroupStanding,
    MemberProgress,
    Message,
    Place,
    Publisher,
    Record,
    Stamp,
    Stored,
    Watermarks,
)

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

    def marks(self, places: Iterable[Place]) -> dict[Place, Watermarks]:
        return dict.fromkeys(places, Watermarks(100, 100))

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
        return [
            one
            for one in self.stored_records
            if (since_ms or 0) <= one.record.timestamp_ms < (until_ms or NOW_MS) and wanted(one.record)
        ]


@dataclass
class Members:
    """Where the group stands; what is in doubt ends when somebody ends it, or after so many looks."""

    told: dict[int, GroupStanding]
    looks: int = 1_000
    asked_for: list[dict[int, int]] = field(default_factory=list)

    def standings(self) -> dict[int, GroupStanding]:
        self.looks -= 1
        if self.looks < 0:
            self.told = {partition: replace(one, in_doubt=False) for partition, one in self.told.items()}
        return dict(self.told)

    def progress(self, positions: Mapping[int, int]) -> MemberProgress:
        self.asked_for.append(dict(positions))
        return MemberProgress("positions", (), None)

    def confirm(self, positions: Mapping[int, int]) -> None:
        self.told.update({partition: GroupStanding(offset) for partition, offset in positions.items()})

    def vacant(self) -> list[str]:
        return []


class Published(list[Message]):
    """What a settlement publishes."""

    def publish(self, messages: Sequence[Message], progress: MemberProgress | None = None) -> None:
        self += messages

    def confirm(self) -> None:
        """Readers pass it at once."""

    def sweep(self, messages: Sequence[Message], progress: MemberProgress | None = None) -> None:
        """It is aborted."""


def score(attempt: str, part: int, place: Place, age_ms: int, *, parts: int = 2, committed: bool = True) -> Stored:
    """Return a record of an attempt, as the log holds it."""
    topic, partition = place
    source = ("streamsvm.source", f"points/0/{part - 1}".encode())
    headers = (source, Stamp(attempt, part, parts, ID).header)
    return Stored(Record(topic, partition, part, None, b"%d" % part, headers, NOW_MS - age_ms, None), committed)


def standing(attempt: str, age_ms: int, *, offset: int = 2, writer: str = ID, in_doubt: bool = False) -> GroupStanding:
    return GroupStanding(offset, in_doubt, attempt, writer, NOW_MS - age_ms)


def settle(log: Log, told: dict[int, GroupStanding], members: Members | None = None) -> Published:
    """Settle, and return what was published again."""
    clock = [0.0]
    settlement = ScoreSettlement(
        cast("Cluster", log),
        ID,
        PLACES,
        family="g-",
        transaction_timeout_s=1.0,
        monotonic=lambda: clock[0],
        wait=lambda seconds: clock.append(clock.pop() + seconds),
        input_topic="points",
        group=members or Members(told),
        topic_id=lambda: "new",
    )
    published = Published()
    settlement.settle(cast("Publisher", published))
    return published


def test_a_whole_batch_is_looked_for_around_its_time_only() -> None:
    """However much other scorers have stored since."""
    log = Log([score("a", 1, PLACES[0], DAY_MS), score("a", 2, PLACES[1], DAY_MS)])
    assert not settle(log, {0: standing("a", DAY_MS)})
    begun = NOW_MS - DAY_MS
    assert log.asked == [(begun - SHORT_SLACK_MS, begun + SHORT_SLACK_MS)]


def test_a_batch_that_another_one_followed_is_not_looked_for() -> None:
    """A partition without new records keeps the position of a batch of long ago: that one was confirmed."""
    log = Log([score("b", 1, PLACES[0], 1_000, parts=1)])
    assert not settle(log, {0: standing("b", 1_000), 1: standing("a", 30 * DAY_MS)})
    assert [since for since, _ in log.asked] == [NOW_MS - 1_000 - SHORT_SLACK_MS]


def test_what_is_missing_is_looked_for_to_the_end() -> None:
    """It may have been published again long after, by who died before the end of it."""
    torn = [score("a", 1, PLACES[0], DAY_MS), score("a", 2, PLACES[1], DAY_MS, committed=False)]
    again = score("a", 2, PLACES[1], 1_000)
    assert not settle(Log([*torn, again]), {0: standing("a", DAY_MS)})
    published = settle(Log(torn), {0: standing("a", DAY_MS)})
    assert [(one.topic, one.partition, one.value) for one in published] == [("scores", 1, b"2")]


def test_the_doubt_of_another_slot_is_left_to_it() -> None:
    """To commit our last position in a partition that was ours once would have all since then scored again."""
    log = Log([score("a", 1, PLACES[0], DAY_MS), score("a", 2, PLACES[1], DAY_MS)])
    told = {0: standing("b", 1_000, offset=7, writer="g-1", in_doubt=True), 1: standing("a", DAY_MS)}
    for looks in (3, 30):
        members = Members(dict(told), looks)
        assert not settle(log, {}, members)
        assert all(positions == {0: 7} for positions in members.asked_for)  # to be aborted
