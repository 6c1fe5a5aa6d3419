"""From rows to cuts to versions: what is learned, trained and published next, without I/O, clock or threads.

One object holds everything between what was read and what is published: the rows that wait to be learned, the cut that
waits to be trained, the one in training, the result that waits to be published. Whoever drives it reads, trains and
publishes, and tells it; it answers with events.

Invariant: cuts are published in the order of the log, each at most once. While the learner is behind the newest version
(after a start from an older checkpoint) rows are read *again*, only as far as that version's cut, and the learner must
then hold the training set that the version was made from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from streamsvm.checkpoint.format import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.delivery.events import Assigned, CaughtUp, CutDeclined, CutTaken, Learned
from streamsvm.delivery.machine import Delivery
from streamsvm.errors import StateError
from streamsvm.learning.cutting import DueCut
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Made
from streamsvm.points import Position, Rows

Ends = Mapping[int, int | None]
"""Where each partition's end was last met, every committed record before it read; None where it was not."""


class Pipeline:
    """What is between reading and publishing, in one life of a trainer.

    Parameters
    ----------
    delivery : Delivery
    learner : Learner
    config : ModelConfig
    name, topic, topic_id : str
        Of the model and of its input; the id is empty where the broker tells none.
    base : mapping of partition to Position
        Where the incarnation began.
    build : mapping of str to str
        Library versions and CPU target of this process.
    waits_for_training : bool
        Whether every cut is trained: the next one then waits for the one before it. Else a newer cut takes the place
        of one that waits.
    waiting : Cut, TakenCut or None
        A cut that a checkpoint holds, which is still to be published.
    read_to : mapping of partition to int
        Where to read on past a position that the log no longer holds, and held nothing to learn.
    """

    def __init__(
        self,
        delivery: Delivery,
        learner: Learner,
        config: ModelConfig,
        *,
        name: str,
        topic: str,
        topic_id: str,
        base: Mapping[int, Position],
        build: Mapping[str, str],
        waits_for_training: bool,
        waiting: DueCut | None = None,
        read_to: Mapping[int, int] | None = None,
    ) -> None:
        self.learner: Final = learner
        self.base = dict(base)
        self.backlog: deque[Rows] = deque()
        self.held_peak = 0
        """Most points that were held at once."""
        self.unpublished: Made | None = None
        """Trained, and neither published nor settled otherwise."""
        self._delivery = delivery
        self._config = config
        self._name, self._topic, self._topic_id = name, topic, topic_id
        self._build = dict(build)
        self._waits_for_training = waits_for_training
        self._waiting = waiting
        self._training: DueCut | None = None
        self._fetched: dict[int, int] = {}
        self._read_to = dict(read_to or {})
        self._again = False

    # ---------------------------------------------------------------- reading

    @property
    def reads_again(self) -> bool:
        """Whether the rows that are read now were already learned for the newest version."""
        return self._again

    @property
    def fetched(self) -> Mapping[int, int]:
        """The next offset to read of each partition that is read."""
        return self._fetched

    def assign(self, ends: Ends) -> Assigned:
        """Return where to read on from the learner's positions; what was read and not learned is forgotten.

        Raises
        ------
        StateError
            If the learner stands where the newest version was cut, and holds another training set.
        """
        self.pass_markers(ends)
        positions, published = self.learner.positions, self._delivery.published_cut
        read_again, self._again = self._again, self._delivery.replaying(positions)
        differs = ""
        if not self._again:
            differs = self._compare_with_head()
            if read_again and positions != published:
                self.learner.call_for_cut()  # while reading again, cuts of what lies past the newest one were declined
        else:
            # Partitions that already stand at the cut must wait there: with one row more, the same training set would
            # not come again.
            positions = {p: at for p, at in positions.items() if p in published and at < published[p]}
        # Rows that wait were read for other positions than those that are read from now on.
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

    def pass_markers(self, ends: Ends) -> None:
        """Note where reading goes on although no position does: past markers of transactions and aborted records."""
        positions = self.learner.positions
        for partition, fetched in self._fetched.items():
            end = ends.get(partition)
            learned = max(positions[partition], Position(self._read_to.get(partition, 0)))
            # Only where everything fetched is learned: else the end would step over rows that still wait.
            if end is not None and learned >= Position(fetched):
                self._read_to[partition] = end
        # Where a position has passed the note, the note says nothing any more.
        self._read_to = {p: offset for p, offset in self._read_to.items() if offset > positions[p].offset}

    @property
    def ahead(self) -> dict[int, int]:
        """The offset before which each partition holds nothing that is still to be learned."""
        return {p: self._read_to.get(p, at.offset) for p, at in self.learner.positions.items()}

    def extend(self, added: Mapping[int, int]) -> None:
        """Take up new partitions, from their first offsets on; `assign` is due then."""
        starts = {partition: Position(first) for partition, first in added.items()}
        # Sorted, because the base is in the lineage, whose bytes must not depend on the order in which partitions came.
        self.base = dict(sorted({**self.base, **starts}.items()))
        self.learner.extend(starts)

    # --------------------------------------------------------------- learning

    def learn(self) -> Iterator[Learned | CutTaken | CutDeclined | CaughtUp]:
        """Learn the backlog until it ends, a cut falls due that has to wait, or reading again is over.

        After `CaughtUp` nothing more comes, and `assign` is due.

        Raises
        ------
        StateError
            If the log passes the newest version's cut without standing at it.
        """
        published = self._delivery.published_cut if self._again else {}
        # Once a turn: a row of the backlog counts as much as in a leaf, and what a cut below keeps counts at the next.
        self.held_peak = max(self.held_peak, self.points_held() + max(map(len, self.backlog), default=0))
        while True:
            # Before any further row: a cut belongs to the leaf that made it due, not to the batch that the leaf ended
            # in.
            if self.learner.cut_due:
                settled = self._take_cut()
                if settled is None:
                    return
                yield settled
            if self._again and not self._delivery.replaying(self.learner.positions):
                yield CaughtUp(self._delivery.next_number - 1)
                return
            if not self.backlog:
                return
            yield self._learn_rows(self.backlog.popleft(), published)

    def _learn_rows(self, rows: Rows, published: Mapping[int, Position]) -> Learned:
        """Learn from rows what is new in them, up to the newest version's cut or the next due one."""
        # After a restart the first batch may begin before the position: a record is fetched whole, and rows of it may
        # be learned.
        known = rows.index_of(self.learner.position(rows.partition))
        done = self.learner.learn(rows, until=published.get(rows.partition))
        rest = rows.slice(done, len(rows))
        # While reading again, what lies past the cut is dropped: it is read once more when the cut has been met.
        if len(rest) and not (self._again and self._reached(rows.partition)):
            # The learner stopped short of the cut although rows are there: they begin past it, so the log lost what lay
            # between.
            if self._again and not self.learner.cut_due:
                self._refuse_gap(rows.partition, f"continues at offset {int(rest.offset[0])}")
            self.backlog.appendleft(rest)
        return Learned(rows.slice(known, done), self._again)

    def _reached(self, partition: int) -> bool:
        return self.learner.position(partition) >= self._delivery.published_cut[partition]

    def refuse_missing_end(self, ends: Ends) -> None:
        """Refuse to wait for the last records of the newest version's cut where the log ends without them.

        Raises
        ------
        StateError
        """
        if not self._again or self.backlog:
            return
        for partition in self._fetched:
            end, cut = ends.get(partition), self._delivery.published_cut[partition]
            # The end was met and no row came for the rest of the cut: waiting longer would wait for ever.
            if end is not None and Position(end) >= cut > self.learner.position(partition):
                self._refuse_gap(partition, f"ends at offset {end}")

    def _refuse_gap(self, partition: int, what_follows: str) -> None:
        at, cut = self.learner.position(partition), self._delivery.published_cut[partition]
        raise StateError(
            f"{self._name}@{self._delivery.next_number - 1} was made from {self._topic}[{partition}] up to offset "
            f"{cut.offset} row {cut.row}, but after offset {at.offset} row {at.row} the log {what_follows}",
            "Records in between were removed: an input topic must not be compacted. Restore a newer checkpoint.",
        )

    def _compare_with_head(self) -> str:
        """Compare the training set at exactly the newest version's cut with the one that it was trained on.

        Asking for it counts leaves from here on, as publishing that version did. Another build may compute another one.
        """
        head = self._delivery.head
        if head is None or self.learner.positions != self._delivery.published_cut:
            return ""
        # The cut itself is not published again: it only restarts the count of leaves, as publishing that version did.
        found = self.learner.cut().points.sha256()
        if found == head.training_set_sha256:
            return ""
        what = (
            f"replaying the log gave a different training set for {self._name}@{head.number}: SHA-256 {found}, "
            f"published {head.training_set_sha256}"
        )
        # On another build or CPU other bits are no sign of lost records, so that is told and not refused.
        if head.build == self._build:
            raise StateError(what, "The input log no longer holds the records that this version was made from.")
        return what

    # ------------------------------------------------------------ cut to version

    def take_due_cut(self) -> CutTaken | CutDeclined | None:
        """Take or decline the due cut; None if none is due, or it has to wait."""
        return self._take_cut() if self.learner.cut_due else None

    def _take_cut(self) -> CutTaken | CutDeclined | None:
        # Declined and not made: making a cut costs a reduction, and this one could never be published.
        if not self._delivery.admits(self.learner.positions):
            self.learner.decline_cut()
            return CutDeclined()
        # Under `every` no cut may be replaced, so learning waits; the log keeps what is not read.
        if self._waits_for_training and self.in_flight:
            return None
        replaced = self._waiting is not None
        # A cut that waited is replaced: people want the newest model, and its number is given only when it is
        # published.
        self._waiting = taken = self.learner.take()
        return CutTaken(taken, replaced)

    @property
    def in_flight(self) -> list[DueCut]:
        """The cuts taken and not yet settled, the newest first."""
        unpublished = self.unpublished.cut if self.unpublished else None
        return [cut for cut in (self._waiting, self._training, unpublished) if cut is not None]

    @property
    def training(self) -> bool:
        """Whether a cut is in training."""
        return self._training is not None

    def next_training(self) -> DueCut | None:
        """Return the cut to train now, if there is one: nothing is trained while a result waits to be published."""
        # A second result would have to wait behind the first, hold its points, and might be superseded by then.
        if self._waiting is None or self.training or self.unpublished is not None:
            return None
        self._training, self._waiting = self._waiting, None
        return self._training

    def trained(self, made: Made) -> None:
        """Note the result of the training: it waits to be published."""
        self._training, self.unpublished = None, made
        self.learner.note(made.cut.met)

    def settled(self) -> None:
        """Note that the result needs no more publishing."""
        self.unpublished = None

    # ------------------------------------------------------------------ state

    def points_held(self) -> int:
        """Count buckets, leaves, audit samples, the backlog, and the cuts that wait, train, or wait to be published.

        Of a cut that is not made yet only those points count that no partition holds any more.
        """
        in_flight = sum(self.learner.points_beyond(cut) for cut in self.in_flight)
        return self.learner.points_held + sum(len(rows) for rows in self.backlog) + in_flight

    def points_accepted(self) -> int:
        """Count the valid points of this incarnation, those that wait to be learned included."""
        return self.learner.points_accepted + sum(int(rows.accepted.sum()) for rows in self.backlog)

    def snapshot(self, sequence: int, ends: Ends) -> Snapshot:
        """Return what a checkpoint of this number holds."""
        self.pass_markers(ends)
        return Snapshot(
            name=self._name,
            incarnation=self._delivery.incarnation,
            sequence=sequence,
            topic=self._topic,
            topic_id=self._topic_id,
            base=self.base,
            configuration=self._config.canonical(),
            configuration_sha256=self._config.sha256(),
            build=self._build,
            head=self._delivery.head,
            learner=self.learner.state(),
            # Only the newest: after a restart an older one would be superseded by it anyway.
            pending=self.in_flight[0].saved() if self.in_flight else None,
            read_to=self._read_to,
        )
