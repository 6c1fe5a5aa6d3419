"""The learner: rows in, cuts out; no I/O, no clock, no threads.

`Learner.learn` is offered the rows of one partition, and gives them to that partition's
`streamsvm.learning.partition.Partition` in pieces that end where a leaf is full or a cut falls due. What partitions,
cuts and checkpoints have in common, in whatever process rows are learned, is in the base class,
`streamsvm.learning.partitions`. A trainer drives a learner by `streamsvm.delivery.pipeline`; `verify`, `evaluate` and
the estimators drive the same class.

Invariant: a row is learned once however often it is offered, because rows before the partition's position are passed
over.

A cut is due after so many leaves, counted over all partitions. Then `learn` stops, in the middle of a batch if need be:
the cut belongs to the leaf that made it due, so that it is the same for every size of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset import audit_sample as audit
from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers import calibrated
from streamsvm.coreset.reducers.base import Purpose, generator
from streamsvm.coreset.structure import Learned
from streamsvm.learning import leaf_screens, pilots, training
from streamsvm.learning.partition import Witness
from streamsvm.learning.partitions import Partitions
from streamsvm.learning.tasks import Task
from streamsvm.points import Points, Position, Positions, Rows, Times

REHEARSED = 2_000
"""Rows with which a learner is warmed up."""


class Learner(Partitions):
    """Learns the rows of all partitions, and stops where a cut is due.

    Parameters
    ----------
    config, base, every_leaves, task
        As of `Partitions`.
    before : mapping of partition to Learned, optional
        What was learned before the base, where that is not the beginning. Only of partitions that forget, and only
        where a span begins: from there on they hold what they would have held.
    """

    def __init__(
        self,
        config: ModelConfig,
        base: Positions,
        every_leaves: int,
        task: Task | None = None,
        before: Mapping[int, Learned] | None = None,
    ) -> None:
        super().__init__(config, base, every_leaves, task)
        for partition, learned in (before or {}).items():
            self._partitions[partition].begin_after(learned)

    def learn(self, rows: Rows, until: Position | None = None) -> int:
        """See `Partitions.learn`."""
        own = self._partitions[rows.partition]
        done = rows.index_of(own.position)
        stop = len(rows) if until is None else rows.index_of(until)
        while done < stop and not self.cut_due:
            # Never past the end of the leaf, the row that makes a cut due, or the rows that may be learned now.
            step = min(own.leaf.missing, self._rows_to_cut(own.leaf), stop - done)
            completed = own.add(rows if step == len(rows) else rows.slice(done, done + step))
            # Leaves without a valid point in any partition do not count: nothing could be trained at such a cut.
            if completed and self._anything_sealed():
                self._cutter.leaves += completed
            done += step
        return done

    def _rows_to_cut(self, leaf: Leaf) -> int:
        """Return after how many rows a cut falls due: a screened leaf counts once for each `leaf_rows` rows."""
        leaf_rows = self._config.coreset.leaf_rows
        return self._cutter.missing * leaf_rows - leaf.rows % leaf_rows

    def show(self, witnesses: Mapping[int, Witness]) -> None:
        """Show each partition's points to its witness, as they are learned from now on; not where some are forgotten.

        The points of a partition's first leaf, which get their bounds when it is sealed, are shown then; `show_open`
        shows those that are left.
        """
        for partition, witness in witnesses.items():
            self._partitions[partition].show(witness)

    def show_open(self) -> None:
        """Show what was learned and not shown yet, as a cut has it; nothing may be learned after that."""
        for own in self._partitions.values():
            own.show_open()


def warm_up(config: ModelConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, all functions that learning and training run for a configuration.

    This takes ten seconds and more on a cold start, so call it before the first poll: a consumer that does not poll for
    `max.poll.interval.ms` loses its partitions. `say` is called with a sentence before each part; an exception that it
    raises ends the warm-up.
    """
    say("preparing sums and the audit sample")
    Moments.zero(1).add(Points.empty(1, config.points.numpy_dtype))
    audit.warm_up(config.points.numpy_dtype)
    leaf_screens.warm_up(config, say)
    say("preparing the pilots")
    pilots.warm_up(config, say)
    say("preparing trainings")
    training.warm_up(config.svm, say)
    say("preparing reductions")
    calibrated.warm_up()
    _rehearse(config)


def _rehearse(config: ModelConfig) -> None:
    """Learn and cut random rows with a small learner, to compile what reductions, screens and cuts still need."""
    # Small leaves, buckets and training set: every kind of reduction happens within `REHEARSED` rows.
    own = config.coreset
    coreset = CoresetConfig(
        reducer=own.reducer,
        structure=own.structure,
        points=2_112 if own.structure == "counter" else 352,
        train_points=48,
    )
    several = config.points.classes > 2
    points = PointsConfig(dimension=2, dtype=config.points.dtype, labels=(0, 1, 2) if several else (-1, 1))
    weighted = isinstance(config.svm.class_weight, tuple) and several
    svm = config.svm.model_copy(update={"class_weight": (1.0, 2.0, 3.0)}) if weighted else config.svm
    n, random = REHEARSED, generator(0, Purpose.CUT, (0, 0, 0))
    X = random.standard_normal((n, 2)).astype(points.numpy_dtype)
    y = np.where(X[:, 0] + random.standard_normal(n) > 0, 1, -1).astype(np.int8)
    if several:
        y = np.where(X[:, 1] > 1.0, 2, np.maximum(y, 0)).astype(np.int8)
    rows = Rows(
        partition=0,
        offset=np.arange(n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        times=Times.of(np.full(n, -1, np.int64)),
        accepted=np.ones(n, np.bool_),
        points=Points(X, y, np.ones(n)),
        leader_epoch=np.full(n, -1, np.int64),
    )
    learner = Learner(ModelConfig(points=points, coreset=coreset, svm=svm), {0: Position(0)}, n)
    learner.learn(rows)
    learner.cut()
