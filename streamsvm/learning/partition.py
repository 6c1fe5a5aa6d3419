"""One partition of the input: its open leaf, its structure of buckets, its audit sample.

`streamsvm.learning.learner` has one `Partition` for each partition of the topic, and calls `add` with rows that fit
into the open leaf. Three things happen to a row here: it is drawn in if it is an outlier
(`streamsvm.learning.bounding`), it may enter the audit sample, and it goes into the leaf. When the leaf is full,
`_seal` does the rest, in this order:

1. compare the leaf with the buckets, to say whether the stream has changed (`_look_for_shift`): this affects no model;
2. put the leaf into the structure, which reduces and merges, and solves a pilot where it needs one (`_insert`);
3. compute a new bound from the buckets, for the rows of the next leaf;
4. make the next leaf's screen from the buckets (`_next_screen`): with a screen the leaf spans many more rows, and keeps
   those that matter.

The order matters. The bound is computed after the merge, from the buckets as they stay, so that a checkpoint need not
contain it. The screen comes last, because it may use a pilot that the merge has solved.

`standing` returns the partition as it is now, for a cut or a checkpoint, without copying anything. It can do that
because buckets never change, and because leaf and audit sample take new memory before they change what was handed out.

Two words. A partition has *learned* rows: these totals only grow. It *keeps* points: they are what a cut is made of. In
the trunk the points stand for all rows that were learned; with a memory that forgets (`streamsvm.learning.memories`)
they stand for some.

Invariant: the content of a partition is a pure function of its log, the configuration and the seed. Other partitions
have no influence on it, and neither has the size of the batches in which rows are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.coreset.leaf import Leaf
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed
from streamsvm.coreset.screens import LeafRule, LeafScreener
from streamsvm.coreset.shift import FullLeaf
from streamsvm.coreset.structure import Extent, Learned, PilotOf
from streamsvm.learning.auditing import make_reservoirs
from streamsvm.learning.bounding import Bounding
from streamsvm.learning.leaf_screens import Sealed, screens_of
from streamsvm.learning.memories import PartitionMemory, memory_of
from streamsvm.learning.partition_at_cut import PartitionAtCut
from streamsvm.learning.partition_state import OpenLeaf, PartitionState
from streamsvm.learning.tasks import Task
from streamsvm.points import Points, Position, Rows

Witness = Callable[[Points, Points], object]
"""Called with valid points in the order of the log, as they came and as they are learned. They may be views: copy what
is needed after the call."""


class Partition:
    """One partition's structure, open leaf and audit sample.

    Parameters
    ----------
    partition : int
    base : Position
        The partition's first row.
    config : ModelConfig
    task : Task
    memory : PartitionMemory, optional
        That of the configuration by default.
    """

    def __init__(
        self, partition: int, base: Position, config: ModelConfig, task: Task, memory: PartitionMemory | None = None
    ) -> None:
        coreset, points = config.coreset, config.points
        self._partition, self._config, self._task = partition, config, task
        # The result of `standing` until the next row: cuts and checkpoints of one moment share it.
        self._standing: PartitionAtCut | None = None
        self._witness: Witness | None = None
        self._screens = screens_of(config, task)
        self.bounding = Bounding(partition)
        self.leader_epoch = -1
        self.beside_offset = -1
        self.leaf = Leaf(base, coreset.leaf_rows, points.dimension, points.numpy_dtype, task.classes)
        self.memory = memory or memory_of(partition, config, task)
        self.structure = self.memory.structure
        self.audit = make_reservoirs(partition, config, task)

    @property
    def position(self) -> Position:
        """The next row to learn."""
        return self.leaf.end

    @property
    def points_held(self) -> int:
        """Points of buckets, open leaf and audit sample."""
        return self.structure.points_held + len(self.leaf) + sum(map(len, self.audit))

    @property
    def count(self) -> int:
        """Valid points learned since the base."""
        return self.sealed_count + self.leaf.count

    @property
    def sealed_count(self) -> int:
        """Valid points sealed since the base."""
        return self.memory.sealed_count

    @property
    def learned(self) -> Learned:
        """Totals of all rows learned since the base."""
        return self.memory.learned(self.leaf.extent)

    def show(self, witness: Witness) -> None:
        """Call a witness with all points that are learned from now on; with those of a first leaf when it is sealed."""
        assert self._witness is None
        assert not self.memory.forgets
        self._witness = witness

    def show_open(self) -> None:
        """Call the witness with the points of an open first leaf, as a cut has them; nothing is learned after that."""
        if self._witness is not None and self.bounding.bound is None:
            self._witness(self.leaf.points, self.standing().open_part().points)
        self._witness = None

    def begin_after(self, learned: Learned) -> None:
        """Set the totals of what was learned before the base; only a partition that forgets can begin so."""
        assert not self.leaf.rows
        self.memory.begin_after(learned)

    def add(self, rows: Rows) -> int:
        """Add rows that fit into the leaf; return how many multiples of `leaf_rows` rows this completed."""
        leaf_rows = self._config.coreset.leaf_rows
        before = self.leaf.rows
        # From here on the partition is another one than it was at the last `standing`.
        self._standing = None
        self.memory.note(rows, before)
        within = self.bounding.draw_in(rows)
        for reservoir in self.audit:
            reservoir.add(within)
        if self._witness is not None and self.bounding.bound is not None:
            self._witness(rows.points.take(rows.accepted), within.points.take(rows.accepted))
        self.leaf.add(within)
        self.leader_epoch = int(rows.leader_epoch[-1])
        if rows.beside_offset is not None:
            self.beside_offset = int(rows.beside_offset[-1])
        # A screened leaf has many times `leaf_rows` rows. Cuts fall due by rows seen, as if there were no screens, or a
        # model would become ever older between two cuts.
        completed = self.leaf.rows // leaf_rows - before // leaf_rows
        if self.leaf.full:
            self._seal()
        return completed

    def _seal(self) -> None:
        self._look_for_shift(FullLeaf(self.leaf.extent.moments, self.leaf.points))
        # Filled while the leaf is inserted. If the tree solves a pilot of all its rows, the screen needs that very one.
        solved: dict[tuple[Position, Position], Any] = {}
        self._insert(solved)
        self._renew_bound()
        screen = self._next_screen(solved)
        if screen is not None:
            self.leaf.screen(screen)

    def _renew_bound(self) -> None:
        known = self.structure.known
        self.bounding.renew(self.structure.extent_of(known).moments if known else None)

    def _insert(self, solved: dict[tuple[Position, Position], Any]) -> None:
        """Put the full leaf into the structure; add to `solved` the pilots that this solves."""
        screened, rows = self.leaf.screened, self.leaf.points
        ends_a_span, is_first = self.memory.ends_a_span(self.leaf.rows), self.bounding.bound is None
        points, extent = self.bounding.seal(*self.leaf.seal(self.observed), self.audit)
        if self._witness is not None and is_first:
            self._witness(rows, points)
        pilots = self._pilots(solved, self.memory.seen(extent), None if screened is None else screened.screen)
        audit = tuple(reservoir.state() for reservoir in self.audit) if ends_a_span else ()
        self.memory.insert(points, extent, pilots, audit)
        if ends_a_span:
            self.audit = make_reservoirs(self._partition, self._config, self._task)

    def _pilots(
        self, solved: dict[tuple[Position, Position], Any], seen: Moments | None, rule: LeafRule | None = None
    ) -> PilotOf:
        """Return a function that solves the pilot of a node.

        Parameters
        ----------
        solved : dict
            Each pilot that is solved is added here, by the first and the last position of its rows.
        seen : Moments or None
            Of all rows seen so far, by which the node's features are scaled; None: the node's own.
        rule : LeafRule or None
            The rule by which the full leaf was screened. Some rules have a pilot already, which need not be solved.
        """
        kept = None if self._screens is None else self._screens.kept_pilot(rule, self.structure.sealed)

        def pilot_of(points: Points, extent: Extent) -> Any:
            known = seen or extent.moments
            if kept is not None:
                found: Any = kept(points, extent.moments.weight, known)
            else:
                found = self._task.pilot(points, extent.moments.weight, known, self._config)
            solved[extent.start, extent.end] = found
            return found

        return pilot_of

    def open_leaf(self) -> OpenLeaf:
        """Return how full the open leaf is."""
        leaf = self.leaf
        start, rows = leaf.extent.start, leaf.rows
        return OpenLeaf(
            sealed=self.structure.sealed,
            start=start,
            end=leaf.end,
            rows=rows,
            span=rows + leaf.missing,
            points=len(leaf.points),
        )

    @property
    def observed(self) -> Observed:
        """Counts of calibrated reductions by outcome; zero for other reducers."""
        return self.structure.reducer.observed

    @property
    def _leaf_name(self) -> tuple[int, int, int]:
        return self._config.seed, self._partition, self.memory.leaf_number

    def _next_screen(self, solved: Mapping[tuple[Position, Position], Any]) -> LeafScreener | None:
        """Make the next leaf's screen from the sealed buckets; None if the leaf is to be short, or a label is missing.

        `solved` has the pilots that sealing has just solved, by the rows that their points represent. If one of them
        covers all rows, it is used again instead of being solved a second time.
        """
        screens, buckets = self._screens, self.structure.known
        if screens is None or not buckets:
            return None
        whole = self.structure.extent_of(buckets)
        span = self.memory.rows_to_screen(whole.rows, screens.share(self.structure.points_held))
        least = self._config.coreset.leaf_rows * screens.least_leaves
        # A screen costs a pass over each row. For a span of little more than a leaf it would save too little, and with
        # one label there is no margin to screen by.
        if span < least or np.count_nonzero(whole.moments.class_weight) < 2:
            return None
        return screens.begun(
            Sealed(
                points=Points.union([bucket.points for bucket in buckets]) if buckets[1:] else buckets[0].points,
                extent=whole,
                pilot=solved.get((whole.start, whole.end)),
                span=span,
                accepted=span * whole.moments.count / whole.rows,
                leaf=self._leaf_name,
            )
        )

    def state(self) -> PartitionState:
        """Return everything that a checkpoint needs; later rows do not change it."""
        return self.standing().state

    def standing(self) -> PartitionAtCut:
        """Return the partition as it stands; copies nothing, and does nothing where no row came since the last call."""
        if self._standing is None:
            points, extent, screened = self.leaf.state()
            state = PartitionState(
                sealed=self.structure.sealed,
                leader_epoch=self.leader_epoch,
                buckets=self.structure.buckets,
                leaf_points=points,
                leaf_extent=extent,
                screened=screened,
                audit=tuple(reservoir.state() for reservoir in self.audit),
                memory=self.memory.state(),
                beside_offset=self.beside_offset,
            )
            self._standing = PartitionAtCut(
                state=state,
                bound=self.bounding.bound,
                places=self.bounding.places,
                weighing=self.memory.weighing(extent),
            )
        return self._standing

    def note_first_leaf(self, sealed: int, tally: Tally) -> None:
        """Count the outliers that a cut bounded in the open first leaf, if that leaf is still the open one."""
        # A cut is made in another thread, and later. If the leaf was sealed meanwhile, its outliers were counted then.
        if self.structure.sealed == sealed:
            self.bounding.note_first_leaf(tally)

    def lacks(self, standing: PartitionAtCut) -> int:
        """Return how many points are in memory only because of an earlier `standing`."""
        # Compared by identity: buckets are shared, and equal content in two places would take memory twice.
        if standing is self._standing:
            return 0
        then, kept = standing.state, {id(bucket) for bucket in self.structure.buckets}
        lacking = sum(len(bucket.points) for bucket in then.buckets if id(bucket) not in kept)
        parts = [(then.leaf_points, self.leaf.points)]
        parts += [(sample.points, reservoir.points) for sample, reservoir in zip(then.audit, self.audit, strict=True)]
        return lacking + sum(len(old) for old, now in parts if not _share(old, now))

    def restore(self, saved: PartitionState) -> None:
        """Restore the state from a checkpoint."""
        self._standing = None
        self.leader_epoch = saved.leader_epoch
        self.beside_offset = saved.beside_offset
        self.memory.restore(saved.memory)
        self.structure.restore(saved.sealed, saved.buckets)
        screener = None if saved.screened is None else saved.screened.resumed(self._leaf_name)
        self.leaf.restore(saved.leaf_points, saved.leaf_extent, screener)
        self.bounding.reopen(len(saved.leaf_points))
        # Not in a checkpoint: the bound follows from the buckets that were just restored.
        self._renew_bound()
        # A state without audit samples leaves the reservoirs empty, as they begin.
        for reservoir, sample in zip(self.audit if saved.audit else (), saved.audit, strict=True):
            reservoir.restore(sample)

    def _look_for_shift(self, leaf: FullLeaf) -> None:
        """Count a leaf that differs from what came before it; this affects no model."""
        if not self.structure.reducer.observes:
            return
        is_unlike, screened = self.memory.is_unlike(leaf), self.leaf.screened
        if is_unlike is None:
            return
        # Labels that follow another rule than those of the buckets, though features and shares are the same.
        has_turned = screened is not None and screened.turned([bucket.points for bucket in self.structure.known])
        self.structure.reducer.observed.shifted += is_unlike or has_turned


def _share(one: Points, other: Points) -> bool:
    """Return whether two views, each from the beginning of a buffer, are of the same buffer."""
    return one.weight.ctypes.data == other.weight.ctypes.data
