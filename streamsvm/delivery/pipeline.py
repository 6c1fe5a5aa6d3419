"""From rows to cuts to versions: what is learned, trained and published next, without I/O, clock or threads.

One `Pipeline` has everything between what was read and what is published: rows that wait to be learned, the cut that
waits to be trained, the one in training, the result that waits to be published. Its driver reads, trains and publishes,
calls a method here for each of these, and gets *events* back (`streamsvm.delivery.events`), of which metrics, log and
page are made. The driver is the trainer's loop (`consumers.trainer.trainer`), a test, or a simulation.

The way of a cut: `learn` takes it when it falls due, and it waits; `next_training` moves it into training; `trained`
gives its result, which waits to be published; `settled` ends it. At most one cut is in each of the three places
(`CutsInFlight`). Under the policy `latest` a newer cut replaces one that waits; under `every` learning stops until
there is room.

What comes before a cut, reading and the backlog of rows, is in the base class (`streamsvm.delivery.reading`), which a
worker without versions uses, too.

Invariant: cuts are published in the order of the log, each at most once in an incarnation. While the learner is behind
the newest version (after a start from an older checkpoint) rows are read *again*, only as far as that version's cut.
There the learner must have the very training set that the version was made from: a different one means that the log has
changed. Where rows of that version are left out since, a version at the same cut takes its place before any new row is
learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.delivery.events import Assigned, CaughtUp, CutDeclined, CutTaken
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.reading import Ends, Reading, Step
from streamsvm.errors import StateError
from streamsvm.learning.learner import DueCut, Learner
from streamsvm.learning.recipe import Made
from streamsvm.points import Position, Positions, Rows


@dataclass(slots=True)
class CutsInFlight:
    """The cuts taken and not yet settled: at most one in each place.

    Attributes
    ----------
    waiting : Cut, TakenCut or None
        Still to be trained.
    training : Cut, TakenCut or None
    unpublished : Made or None
        Trained, and neither published nor settled otherwise.
    """

    waiting: DueCut | None
    training: DueCut | None = None
    unpublished: Made | None = None

    def newest_first(self) -> list[DueCut]:
        """Return them in this order."""
        unpublished = self.unpublished.cut if self.unpublished else None
        return [cut for cut in (self.waiting, self.training, unpublished) if cut is not None]

    def next_training(self) -> DueCut | None:
        """Return the cut to train now, if there is one."""
        # Not while a result is unpublished: a second one would have to wait behind it with its points in memory, and a
        # newer cut might have replaced it by then.
        if self.waiting is None or self.training is not None or self.unpublished is not None:
            return None
        self.training, self.waiting = self.waiting, None
        return self.training


class Pipeline(Reading):
    """Everything between reading and publishing, in one life of a trainer.

    Parameters
    ----------
    delivery : Delivery
    learner : Learner
    config : ModelConfig
    name, topic, topic_id : str
        Of the model and of its input; the id is empty if the broker does not report topic ids.
    base : mapping of partition to Position
        Where the incarnation began.
    build : mapping of str to str
        Library versions and CPU target of this process.
    waits_for_training : bool
        Whether every cut is trained: the next one then waits for the one before it. Otherwise a newer cut replaces one
        that waits.
    waiting : Cut, TakenCut or None
        A cut from a checkpoint, which is still to be published.
    read_to : mapping of partition to int
        Where to read on past positions that the log no longer has, and that had nothing to learn.
    waiting_rows : mapping of partition to Rows, or None
        Where rows cannot be read again by themselves, those that wait at the start; see `Reading`.
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
        waiting_rows: Mapping[int, Rows] | None = None,
    ) -> None:
        super().__init__(delivery, learner, name=name, topic=topic, read_to=read_to, waiting_rows=waiting_rows)
        self.base = dict(base)
        self.points_peak = 0
        """Most points that were in memory at once."""
        self._delivery = delivery
        self._config = config
        self._topic_id = topic_id
        self._build = dict(build)
        self._waits_for_training = waits_for_training
        self._cuts = CutsInFlight(waiting)
        self._replacing = False

    # --------------------------------------------------------------- learning

    def learn(self) -> Iterator[Step]:
        """Learn the backlog, step by step, until it ends, a cut falls due that has to wait, or reading again is over.

        The caller may stop after any step: the next call goes on from there. After `CaughtUp` nothing more is learned
        until `assign` was called.

        Raises
        ------
        StateError
            If the log passes the newest version's cut without standing at it.
        """
        # Measured once a call, which is once a turn of the loop: points of a cut that is taken below count in the
        # next.
        self.points_peak = max(self.points_peak, self.points_held() + max(map(len, self.backlog), default=0))
        while True:
            # Before any further row is learned. The cut is at the end of the leaf that made it due, which is usually in
            # the middle of a batch; after one more row it would be another cut.
            if self.learner.cut_due:
                settled = self._take_cut()
                if settled is None:
                    return
                yield settled
            if self._again and not self._delivery.replaying(self.learner.positions):
                yield CaughtUp(self._delivery.next_number - 1)
                return
            # Nothing new is learned before the version is out that takes the place of the newest one.
            if self._replacing and self.in_flight:
                return
            self._replacing = False
            if not self.backlog:
                return
            yield self._learn_rows(self._next_span())

    def assign(self, ends: Ends) -> Assigned:
        """Return where to read on, as `Reading.assign` does; a version with other options is due at once."""
        assigned = super().assign(ends)
        if self._delivery.retrains and not (self._again or self.in_flight):
            self.learner.call_for_cut()
        return assigned

    def _compared(self) -> str:
        """Compare the training set at exactly the newest version's cut with the one that it was trained on.

        Making the cut also restarts the count of leaves, as publishing that version did. A build other than the one
        that published may compute another training set.
        """
        head = self._delivery.head
        if head is None or self.learner.positions != self._delivery.published_cut:
            return ""
        if head.incarnation != self._delivery.incarnation:
            # Its training set cannot be made again. Where rows of that version were erased since, a version at the same
            # cut, without the rows, takes its place.
            if self._delivery.replaces:
                self._replace(self._delivery.published_cut)
            return ""
        # The cut is made for its hash and dropped; making it restarts the count of leaves.
        found = self.learner.cut().points.sha256()
        if found == head.training_set_sha256:
            return ""
        what = (
            f"replaying the log gave a different training set for {self._name}@{head.number}: SHA-256 {found}, "
            f"published {head.training_set_sha256}"
        )
        # On another build or CPU different bits are not a sign of lost records. Then the caller only logs a warning.
        if head.build == self._build:
            raise StateError(what, "The input log no longer holds the records that this version was made from.")
        return what

    def _replace(self, published: Positions) -> None:
        """Let a cut be due where the newest version was cut, unless it was taken there already."""
        if not any(dict(cut.positions) == dict(published) for cut in self.in_flight):
            self.learner.call_for_cut()
        self._replacing = True

    def extend(self, added: Mapping[int, int]) -> None:
        """Begin to learn new partitions, from their first offsets on; the caller then calls `assign`."""
        starts = {partition: Position(first) for partition, first in added.items()}
        # Sorted, because the base is in the lineage, whose bytes must not depend on the order in which partitions came.
        self.base = dict(sorted({**self.base, **starts}.items()))
        self.learner.extend(starts)

    # ------------------------------------------------------------ cut to version

    def take_due_cut(self) -> CutTaken | CutDeclined | None:
        """Take or decline the due cut; None if none is due, or it has to wait."""
        return self._take_cut() if self.learner.cut_due else None

    def _take_cut(self) -> CutTaken | CutDeclined | None:
        # While the log is read again: the cut has been published. It is passed over before it is made, since making it
        # would cost a reduction.
        if not self._delivery.admits(self.learner.positions):
            self.learner.decline_cut()
            return CutDeclined()
        # Under `every` no cut may be replaced, so learning waits. That loses nothing: what is not read stays in the
        # log.
        if self._waits_for_training and self.in_flight:
            return None
        replaced = self._cuts.waiting is not None
        # Under `latest` a cut that waited is replaced, because people want the newest model. Numbers have no gap by
        # that: a number is given only when a version is published.
        self._cuts.waiting = taken = self.learner.take()
        return CutTaken(taken, replaced)

    @property
    def in_flight(self) -> list[DueCut]:
        """The cuts taken and not yet settled, the newest first."""
        return self._cuts.newest_first()

    @property
    def training(self) -> bool:
        """Whether a cut is in training."""
        return self._cuts.training is not None

    @property
    def unpublished(self) -> Made | None:
        """The result that is neither published nor settled otherwise; None if there is none."""
        return self._cuts.unpublished

    def next_training(self) -> DueCut | None:
        """Return the cut to train now, if there is one: nothing is trained while a result waits to be published."""
        return self._cuts.next_training()

    def trained(self, made: Made) -> None:
        """Note the result of the training: it waits to be published."""
        self._cuts.training, self._cuts.unpublished = None, made
        self.learner.note(made.cut)

    def settled(self) -> None:
        """Note that the result was published, refused or superseded: nothing is left to do for it."""
        self._cuts.unpublished = None

    # ------------------------------------------------------------------ state

    def points_held(self) -> int:
        """Count the points in memory: of partitions, of the backlog, and of the cuts in flight.

        Of a cut that is not made yet only those points count that no partition keeps any more.
        """
        in_flight = sum(self.learner.points_beyond(cut) for cut in self.in_flight)
        return self.learner.points_held + self.rows_waiting() + in_flight

    def snapshot(self, sequence: int, ends: Ends) -> Snapshot:
        """Return the content of the checkpoint with this number."""
        self.pass_markers(ends)
        return Snapshot(
            name=self._name,
            incarnation=self._delivery.incarnation,
            sequence=sequence,
            topic=self._topic,
            topic_id=self._topic_id,
            base=self.base,
            configuration=self._config.canonical(),
            configuration_sha256=self._config.learned_sha256(),
            build=self._build,
            head=self._delivery.head,
            learner=self.learner.state(),
            # Only the newest: after a restart an older one would be superseded by it anyway.
            pending=self.in_flight[0].saved() if self.in_flight else None,
            read_to=self._read_to,
        )
