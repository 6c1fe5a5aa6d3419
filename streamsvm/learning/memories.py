"""What a partition remembers of its rows, behind one interface for every value of `coreset.memory`.

`streamsvm.learning.partition.Partition` has one `PartitionMemory`. The memory owns the structure that sealed leaves go
into, keeps totals of rows whose points are gone, and determines which buckets count in a cut. `EverythingKept` is the
trunk's: all rows count alike. Others, which forget, are plugged in (`streamsvm.learning.memory_kinds`).

Invariant: every answer is a pure function of the partition's rows in log order, the configuration and the seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Reducer
from streamsvm.coreset.shift import FullLeaf, ShiftWatch
from streamsvm.coreset.structure import Bucket, Chain, Extent, Learned, PilotOf, Structure, Tree
from streamsvm.learning.memory_kinds import memory_kind
from streamsvm.learning.tasks import Task
from streamsvm.points import Points, Position, Rows
from streamsvm.sockets import Choices, import_name


class Horizon(NamedTuple):
    """The newest rows of a partition, so many, and their share of a training set's weight."""

    rows: int
    share: float


class Weighing(Protocol):
    """Which buckets of a partition count at a cut, and how much; nothing in it changes any more."""

    @property
    def now_ms(self) -> int:
        """The latest time of a span; -1 where none has one, or age is not counted in time."""
        ...

    def factors(self, now_ms: int, leaf: Moments) -> Sequence[float]:
        """Return the weight factor of each bucket, and of the open leaf, which has these moments.

        Parameters
        ----------
        now_ms : int
            The latest time of all partitions.
        leaf : Moments
        """
        ...

    def horizons(self, now_ms: int) -> tuple[Horizon, ...]:
        """Return the newest rows that count, and their share, the longest first."""
        ...

    def oldest(self, now_ms: int) -> tuple[Position, Learned]:
        """Return where the oldest rows that count begin, and what was learned before them."""
        ...


class MemoryState(Protocol):
    """What a memory keeps besides buckets, for a checkpoint."""

    @property
    def learned(self) -> Learned:
        """Of everything sealed since the base."""
        ...


class PartitionMemory(ABC):
    """The memory of one partition.

    Parameters
    ----------
    partition : int
    config : ModelConfig
    task : Task

    Attributes
    ----------
    forgets : bool
        Whether rows that were learned may count for less than they did.
    structure : Structure
        What sealed leaves go into.
    """

    forgets: ClassVar[bool] = False
    structure: Structure

    def __init__(self, partition: int, config: ModelConfig, task: Task) -> None:
        self._partition, self._config, self._task = partition, config, task

    @property
    def learns_horizons(self) -> bool:
        """Whether the horizons are learned from the stream, and not configured."""
        return False

    @property
    @abstractmethod
    def sealed_count(self) -> int:
        """Valid points sealed since the base."""

    @property
    @abstractmethod
    def leaf_number(self) -> int:
        """The number that names the open leaf, together with seed and partition."""

    @abstractmethod
    def learned(self, leaf: Extent) -> Learned:
        """Return the totals of all rows learned, those of the open leaf included."""

    @abstractmethod
    def begin_after(self, learned: Learned) -> None:
        """Set the totals of what was learned before the base."""

    def note(self, rows: Rows, leaf_rows: int) -> None:  # noqa: B027
        """Note rows before they are added to an open leaf that has `leaf_rows` rows."""

    @abstractmethod
    def rows_to_screen(self, known: int, share: float) -> int:
        """Return how many rows the next leaf may span: a share of the rows before it, or a fixed number."""

    @abstractmethod
    def ends_a_span(self, leaf_rows: int) -> bool:
        """Return whether an audit sample ends with a leaf of so many rows."""

    @abstractmethod
    def seen(self, leaf: Extent) -> Moments | None:
        """Return the moments of all rows that a full leaf's pilot stands for; None: those of its node alone."""

    @abstractmethod
    def insert(self, points: Points, extent: Extent, pilot_of: PilotOf, audit: tuple[Held, ...]) -> None:
        """Put a sealed leaf into the structure, with the audit sample that ended with it, if one did."""

    @abstractmethod
    def is_unlike(self, leaf: FullLeaf) -> bool | None:
        """Return whether a full leaf clearly differs from what came before it; None where nobody watches for that."""

    @abstractmethod
    def weighing(self, leaf: Extent) -> Weighing | None:
        """Return what counts now; None: all buckets, as they are."""

    @abstractmethod
    def state(self) -> MemoryState | None:
        """Return what it knows besides buckets; None if that is nothing."""

    @abstractmethod
    def restore(self, state: MemoryState | None) -> None:
        """Go on from a checkpoint; the structure's buckets are restored by the partition."""


class EverythingKept(PartitionMemory):
    """Everything since the beginning counts, all rows alike; parameters as of `PartitionMemory`."""

    def __init__(self, partition: int, config: ModelConfig, task: Task) -> None:
        super().__init__(partition, config, task)
        self.structure = make_structure(partition, config.seed, config.coreset, task)
        self._shift = ShiftWatch(config.points.dimension, task.classes)

    @property
    def sealed_count(self) -> int:
        """See `PartitionMemory`."""
        return self.structure.count

    @property
    def leaf_number(self) -> int:
        """The number of leaves before it."""
        return self.structure.sealed

    def learned(self, leaf: Extent) -> Learned:
        """See `PartitionMemory`."""
        return learned(None, self.structure.buckets, leaf)

    def begin_after(self, learned: Learned) -> None:
        """Refuse: only a partition that forgets can begin elsewhere than its log."""
        raise AssertionError(f"{learned.rows} rows cannot be left out: everything counts here")

    def rows_to_screen(self, known: int, share: float) -> int:
        """Return the share, in whole leaves."""
        leaf_rows = self._config.coreset.leaf_rows
        return int(known * share) // leaf_rows * leaf_rows

    def ends_a_span(self, leaf_rows: int) -> bool:  # noqa: ARG002
        """Return False: there is one sample of the whole stream."""
        return False

    def seen(self, leaf: Extent) -> Moments | None:
        """Return the moments of everything."""
        return self.structure.extent_with(leaf).moments

    def insert(self, points: Points, extent: Extent, pilot_of: PilotOf, audit: tuple[Held, ...]) -> None:
        """See `PartitionMemory`."""
        assert not audit
        self.structure.insert(points, extent, pilot_of)

    def is_unlike(self, leaf: FullLeaf) -> bool | None:
        """Compare a leaf with all sealed ones."""
        buckets = self.structure.buckets
        before = self.structure.extent_of(buckets).moments if buckets else Moments.zero(len(leaf.moments.mean))
        return self._shift.shifted(before, leaf)

    def weighing(self, leaf: Extent) -> Weighing | None:  # noqa: ARG002
        """Return None: all rows count alike."""
        return None

    def state(self) -> MemoryState | None:
        """Return None: buckets are all there is."""
        return None

    def restore(self, state: MemoryState | None) -> None:
        """See `PartitionMemory`."""


def memory_of(partition: int, config: ModelConfig, task: Task) -> PartitionMemory:
    """Return the empty memory of a configuration.

    Raises
    ------
    ValueError
        If nothing of this name is plugged in.
    TypeError
        If what is plugged in is not a memory.
    """
    kind = memory_kind(config.coreset.memory)
    make = import_name(kind.where)
    if not (isinstance(make, type) and issubclass(make, PartitionMemory)):
        raise TypeError(f"{kind.where} is not a memory")
    return make(partition, config, task)


def learned(state: MemoryState | None, buckets: Sequence[Bucket], leaf: Extent) -> Learned:
    """Return the totals of all rows that a partition learned."""
    if state is not None:
        return state.learned.join(leaf.learned)
    # Of totals, not of extents: to merge moments takes ten times as long, and observers ask often.
    return reduce(Learned.join, [*(bucket.extent.learned for bucket in buckets), leaf.learned])


def make_structure(partition: int, seed: int, config: CoresetConfig, task: Task) -> Structure:
    """Return the empty structure of a partition that keeps everything."""
    return STRUCTURES[str(config.structure)](partition, seed, config, task.reducer(config))


def _tree(partition: int, seed: int, config: CoresetConfig, reducer: Reducer[Any]) -> Tree:
    return Tree(partition, seed, config.sizes.buckets, config.bucket_points, reducer)


def _chain(partition: int, seed: int, config: CoresetConfig, reducer: Reducer[Any]) -> Chain:
    return Chain(partition, seed, config.bucket_points, reducer)


STRUCTURES: Final[Choices[Callable[[int, int, CoresetConfig, Reducer[Any]], Structure]]] = Choices(
    "coreset.structure", {"tree": _tree, "chain": _chain}
)
"""What makes each structure of which nothing is forgotten, by its name: `coreset.structure`."""
