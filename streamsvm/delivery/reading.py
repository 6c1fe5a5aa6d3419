"""Where reading goes on, and the rows that wait to be learned; without I/O, clock or threads.

Every process that learns has one: a trainer, in which `streamsvm.delivery.pipeline` adds cuts and versions, or a worker
that learns some partitions for a trainer.

Invariant: while the learner is behind the newest version (after a start from an older checkpoint) rows are read
*again*, and learned only as far as that version's cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from streamsvm.delivery.events import Assigned, CaughtUp, CutDeclined, CutTaken, RowsLearned
from streamsvm.errors import StateError
from streamsvm.learning.learner import Learner
from streamsvm.points import Position, Positions, Rows

Ends = Mapping[int, int | None]
"""Where each partition's end was last met, every committed record before it read; None where it was not."""


SPAN_ROWS: Final = 4_096
SPAN_FEATURES: Final = 1 << 19
"""Most rows, and most features of rows, that one step of learning takes from what waits: some milliseconds, and at most
a few leaves. Fewer cost a call of every part of a partition more often. How many decides nothing of what is learned."""

Step = RowsLearned | CutTaken | CutDeclined | CaughtUp
"""What a step of learning comes to; cuts are the business of a pipeline."""


class Goal(Protocol):
    """How far the newest version has come."""

    @property
    def published_cut(self) -> Mapping[int, Position]:
        """Its cut; empty if there is none."""

    @property
    def next_number(self) -> int:
        """Number of the version after it."""

    def replaying(self, reached: Positions) -> bool:
        """Return whether some partition is still behind its cut."""


class NoGoal:
    """The goal of a worker, which reads nothing again."""

    published_cut: Mapping[int, Position] = MappingProxyType({})
    next_number = 1

    def replaying(self, reached: Positions) -> bool:  # noqa: ARG002
        """Return False."""
        return False


class Reading:
    """Everything between reading and learning.

    Parameters
    ----------
    goal : Goal
    learner : Learner
        One that only takes over what other processes learned is offered no rows.
    name, topic : str
        Of the model and of its input.
    read_to : mapping of partition to int
        Where to read on past positions that the log no longer has, and that had nothing to learn.
    waiting_rows : mapping of partition to Rows, or None
        None: rows are those of the input, and what was read and not learned can be read again. Otherwise rows are made
        from more than the input (joined labels), and cannot be read again by themselves: these are the rows that wait
        at the start, and each row waits until it is learned.
    """

    def __init__(
        self,
        goal: Goal,
        learner: Learner,
        *,
        name: str,
        topic: str,
        read_to: Mapping[int, int] | None = None,
        waiting_rows: Mapping[int, Rows] | None = None,
    ) -> None:
        self.learner: Final = learner
        self.backlog: deque[Rows] = deque(rows for _, rows in sorted((waiting_rows or {}).items()))
        self._goal = goal
        self._name, self._topic = name, topic
        self._fetched: dict[int, int] = {}
        self._read_to = dict(read_to or {})
        self._again = False
        self._keeps_rows = waiting_rows is not None
        self._beyond: deque[Rows] = deque()

    @property
    def reads_again(self) -> bool:
        """Whether the rows that are read now were already learned for the newest version."""
        return self._again

    @property
    def fetched(self) -> Mapping[int, int]:
        """The next offset to read of each partition that is read."""
        return self._fetched

    def assign(self, ends: Ends) -> Assigned:
        """Return where to read on from the learner's positions; what was read and not learned is dropped.

        Raises
        ------
        StateError
            If the learner is at the newest version's cut, and has another training set.
        """
        self.pass_markers(ends)
        positions, published = self.learner.positions, self._goal.published_cut
        read_again, self._again = self._again, self._goal.replaying(positions)
        differs = ""
        if not self._again:
            differs = self._compared()
            if read_again and positions != published:
                # Leaves past the newest version's cut were learned before, and their cuts were declined while reading
                # again. Without this they would be in no version until more leaves come.
                self.learner.call_for_cut()
        else:
            # A partition that has reached the cut must wait there for the others: with one more row the training set at
            # the cut could not be compared with the version's.
            positions = {p: at for p, at in positions.items() if p in published and at < published[p]}
        if self._keeps_rows:
            self.backlog.extendleft(reversed(self._beyond))
            self._beyond.clear()
        else:
            # The log is read again from the learner's positions, so rows that still wait would come twice.
            self.backlog.clear()
        self._fetched = {partition: self._read_to.get(partition, at.offset) for partition, at in positions.items()}
        return Assigned(dict(self._fetched), self._again, not self._again and positions == published, differs)

    def note_read(self, ends: Mapping[int, int]) -> None:
        """Note up to where records were read, decoded or not."""
        self._fetched |= ends

    def offer(self, rows: Rows) -> None:
        """Let decoded rows wait to be learned."""
        self.backlog.append(rows)

    def reading(self, ends: Ends) -> dict[int, Position]:
        """Return how far each partition was read: retention may remove what was fetched, or holds nothing to learn."""
        return {
            p: max(at, Position(max(self._fetched.get(p, 0), self._read_to.get(p, 0), ends.get(p) or 0)))
            for p, at in self.learner.positions.items()
        }

    def has_read(self, ends: Ends) -> bool:
        """Return whether all partitions that are read were read up to these ends, which are known."""
        return all((end := ends.get(p)) is not None and fetched >= end for p, fetched in self._fetched.items())

    def pass_markers(self, ends: Ends) -> None:
        """Note where reading goes on although no position does: past markers of transactions and aborted records."""
        # The source of joined rows notes by itself how far each of its logs was read.
        if self._keeps_rows:
            return
        positions, passed = self.learner.positions, {}
        for partition, fetched in self._fetched.items():
            end = ends.get(partition)
            learned = max(positions[partition], Position(self._read_to.get(partition, 0)))
            # Only if everything that was fetched is learned: otherwise reading on at the end would skip rows that wait.
            if end is not None and learned >= Position(fetched):
                passed[partition] = end
        self.read_on_at(passed)

    def read_on_at(self, read_to: Mapping[int, int]) -> None:
        """Note offsets at which to read on, since nothing to learn lies between them and the positions."""
        positions = self.learner.positions
        # Behind the position the note has no meaning any more.
        self._read_to = {p: at for p, at in {**self._read_to, **read_to}.items() if at > positions[p].offset}

    @property
    def ahead(self) -> dict[int, int]:
        """The offset of each partition before which nothing is left to learn."""
        return {p: self._read_to.get(p, at.offset) for p, at in self.learner.positions.items()}

    def _compared(self) -> str:
        """Return how the training set differs from the newest version's; empty where that is not known."""
        return ""

    @property
    def read_to(self) -> Mapping[int, int]:
        """The offset at which to read on, where the log holds nothing to learn between it and the position."""
        return self._read_to

    def learn(self) -> Iterator[Step]:
        """Learn the backlog, step by step, until it ends, or reading again is over.

        The caller may stop after any step: the next call goes on from there. After `CaughtUp` nothing more is learned
        until `assign` was called.

        Raises
        ------
        StateError
            If the log passes the newest version's cut without standing at it.
        """
        while True:
            if self._again and not self._goal.replaying(self.learner.positions):
                yield CaughtUp(self._goal.next_number - 1)
                return
            if not self.backlog:
                return
            yield self._learn_rows(self._next_span())

    def _next_span(self) -> Rows:
        """Take the rows of the next step from the backlog."""
        rows = self.backlog.popleft()
        span = max(1, min(SPAN_ROWS, SPAN_FEATURES // max(rows.points.dimension, 1)))
        if len(rows) <= span:
            return rows
        self.backlog.appendleft(rows.slice(span, len(rows)))
        return rows.slice(0, span)

    def _learn_rows(self, rows: Rows) -> RowsLearned:
        """Learn from rows what is new in them, up to the newest version's cut or the next due one."""
        # After a restart the first batch may begin before the position: a record is fetched as a whole, and some of its
        # rows may be learned already.
        known = rows.index_of(self.learner.position(rows.partition))
        published = self._goal.published_cut if self._again else {}
        done = self.learner.learn(rows, until=published.get(rows.partition))
        rest = rows.slice(done, len(rows))
        # While reading again, rows past the cut are dropped: they are read once more when all partitions have reached
        # it. Joined rows cannot be read once more, so they wait until then.
        if len(rest) and self._keeps_rows and self._again and self._reached(rows.partition):
            self._beyond.append(rest)
        elif len(rest) and not (self._again and self._reached(rows.partition)):
            # The learner stopped before the cut although there are rows: they begin past the cut. So the log has lost
            # the records in between.
            if self._again and not self.learner.cut_due:
                self._refuse_gap(rows.partition, f"continues at offset {int(rest.offset[0])}")
            self.backlog.appendleft(rest)
        return RowsLearned(rows.slice(known, done), self._again)

    def _reached(self, partition: int) -> bool:
        return self.learner.position(partition) >= self._goal.published_cut[partition]

    def refuse_missing_end(self, ends: Ends) -> None:
        """Refuse to wait for the last records of the newest version's cut where the log ends without them.

        Raises
        ------
        StateError
        """
        if not self._again or self.backlog:
            return
        for partition in self._fetched:
            end, cut = ends.get(partition), self._goal.published_cut[partition]
            # The end of the log was reached and the rest of the cut did not come: it would never come.
            if end is not None and Position(end) >= cut > self.learner.position(partition):
                self._refuse_gap(partition, f"ends at offset {end}")

    def _refuse_gap(self, partition: int, what_follows: str) -> None:
        at, cut = self.learner.position(partition), self._goal.published_cut[partition]
        raise StateError(
            f"{self._name}@{self._goal.next_number - 1} was made from {self._topic}[{partition}] up to offset "
            f"{cut.offset} row {cut.row}, but after offset {at.offset} row {at.row} the log {what_follows}",
            "Records in between were removed: an input topic must not be compacted. Restore a newer checkpoint.",
        )

    def rows_waiting(self) -> int:
        """Count the rows that wait to be learned."""
        return sum(len(rows) for rows in self.backlog) + sum(len(rows) for rows in self._beyond)

    def waiting_rows(self) -> dict[int, Rows]:
        """Return what was offered and is not learned yet, partition by partition, in its order."""
        found: dict[int, list[Rows]] = {}
        for rows in (*self._beyond, *self.backlog):
            found.setdefault(rows.partition, []).append(rows)
        return {partition: Rows.union(parts) for partition, parts in sorted(found.items())}

    def points_accepted(self) -> int:
        """Count the valid points of this incarnation, those that wait to be learned included."""
        return self.learner.points_accepted + sum(int(rows.accepted.sum()) for rows in self.backlog)
