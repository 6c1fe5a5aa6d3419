"""A cut of any stretch of the past: of buckets of an archive, and of rows that are read again.

`SpanPartition` makes the buckets of an archive, in the trainer and wherever one is made again; `Piece` is a part of a
stretch: a bucket, or rows that were read from the log and learned by themselves; `cut_of` joins pieces to a cut, from
which `streamsvm.learning.recipe` makes a version as of any other.

Invariant: a piece is a pure function of its own rows, the configuration and the seed, and a cut one of its pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from pydantic import ValidationError

from streamsvm.branches.history.aligned import Aligned, only_rows
from streamsvm.config import CoresetConfig, ModelConfig, SvmConfig
from streamsvm.config.sizes import Sizes
from streamsvm.coreset.audit_sample import EVERY_LABEL, LABELS, Held, Sampled, merged
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.structure import Bucket, Extent, Learned
from streamsvm.learning.auditing import audit_shares
from streamsvm.learning.cutting import Cut, training_set
from streamsvm.learning.partition import Partition
from streamsvm.learning.span_memory import SpanMemory
from streamsvm.learning.tasks import Task, task_of
from streamsvm.points import Points, Position, Rows

AUDITED: Final = 4
"""Of a bucket's audit sample: a stretch is of few buckets, and the sample of the largest is the sample of all. So a
bucket has four tenths of `coreset.audit_points`, not the tenth that is enough where many stand together."""
SPAN_POINTS: Final = 1_000
"""Of a span's bucket by default. On 10^6 rows, everything came within 1e-3 of the optimum with half as many."""
LARGEST_AUDIT: Final = 1 << 24


def archived(config: ModelConfig, *, leaf_rows: int, span_rows: int | None, bucket_points: int | None) -> ModelConfig:
    """Return by what an archive of a model's input summarises spans: as a memory whose buckets know their rows only.

    Where C is fixed, nodes are reduced under the default of `svm.alpha`: C is the penalty of all rows of a stream, and
    a node is a part of it. The version that is made of them is trained under the model's own options.

    Parameters
    ----------
    config : ModelConfig
        Of the model.
    leaf_rows : int
    span_rows, bucket_points : int or None
        None: the rows of a span as of `coreset.memory = adaptive`, and `SPAN_POINTS` or 15 points a feature.

    Raises
    ------
    ValueError
        If the sizes do not fit together.
    """
    try:
        return _archived(config, leaf_rows, span_rows, bucket_points)
    except ValidationError as error:
        what = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        raise ValueError(what.replace("coreset.", "archive.")) from None


def _archived(config: ModelConfig, leaf_rows: int, span_rows: int | None, bucket_points: int | None) -> ModelConfig:
    own, svm = config.coreset, config.svm
    points = bucket_points or max(SPAN_POINTS, 15 * config.points.dimension)
    coreset = CoresetConfig(
        reducer=own.reducer,
        clusters=own.clusters,
        memory="adaptive",
        train_points=own.train_points,
        audit_by_label=own.audit_by_label,
        max_leverage=own.max_leverage,
    )
    plain = SvmConfig(kernel=svm.kernel, class_weight=svm.class_weight, gamma=svm.gamma)
    if svm.C is None:
        plain = plain.model_copy(update={"alpha": svm.alpha})
    made = ModelConfig(points=config.points, coreset=coreset, svm=plain, seed=config.seed, **config.recipe_options())
    span = span_rows or made.coreset.span_rows // made.coreset.leaf_rows * leaf_rows
    audit = min(AUDITED * own.audit_points, LARGEST_AUDIT)
    made.coreset._sizes = Sizes(leaf_rows, points, made.coreset.sizes.buckets, audit, span)
    return made


class ArchivedSpans(SpanMemory):
    """All spans of a partition, and what they become two by two; parameters as of `PartitionMemory`."""

    structure: Aligned

    def _empty(self) -> Aligned:
        coreset = self._config.coreset
        return Aligned(
            self._partition,
            self._config.seed,
            coreset.bucket_points,
            self._task.reducer(coreset),
            span_rows=self._span_rows,
            open_points=max(coreset.leaf_rows, coreset.bucket_points),
            audit_points=tuple(audit_shares(self._config, self._task).values()),
            classes=self._task.classes,
        )


class SpanPartition(Partition):
    """The rows of one partition from any place on, as an archive summarises them.

    Parameters
    ----------
    partition : int
    begin : Position
        The first row.
    config : ModelConfig
        That of `archived`.
    first_row : int
        Rows of the partition before that: a multiple of `coreset.span_rows`.
    """

    structure: Aligned

    def __init__(self, partition: int, begin: Position, config: ModelConfig, first_row: int = 0) -> None:
        task = task_of(config)
        super().__init__(partition, begin, config, task, ArchivedSpans(partition, config, task))
        self.begin_after(only_rows(first_row, self._task.classes))

    def learn(self, rows: Rows, until: Position | None = None) -> list[Bucket]:
        """Learn rows up to a position, but those that are learned already; return the buckets that this made."""
        done, stop = rows.index_of(self.position), len(rows) if until is None else rows.index_of(until)
        while done < stop:
            step = min(self.leaf.missing, stop - done)
            self.add(rows.slice(done, done + step))
            done += step
        return self.structure.taken()

    def parent(self, older: Bucket, newer: Bucket) -> Bucket:
        """Return the bucket that two siblings become."""
        return self.structure.parent(older, newer, self._pilots({}, None))

    def pieces(self) -> list[Piece]:
        """Return everything learned since the beginning, that of an open span too, as a cut has it."""
        standing = self.standing()
        leaf = standing.open_part(self._config, self._task)
        extent = replace(standing.state.leaf_extent, moments=leaf.moments)
        own = Piece(leaf.points, extent, tuple(standing.clipped_audit(self._config, leaf)))
        return [*map(Piece.of, standing.state.buckets), own]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a stretch.

    Attributes
    ----------
    points : Points
        Weighted.
    extent : Extent
        What they stand for.
    audit : tuple of Held
        The audit sample of its rows, or that of each label; empty where it is part of the next piece's.
    """

    points: Points
    extent: Extent
    audit: tuple[Held, ...]

    @staticmethod
    def of(bucket: Bucket) -> Piece:
        """Return a bucket as a piece."""
        return Piece(bucket.points, bucket.extent, bucket.audit)


def cut_of(pieces: Mapping[int, Sequence[Piece]], config: ModelConfig, archive: ModelConfig) -> Cut:
    """Return the cut of a stretch, which is of exactly the rows of its pieces.

    Parameters
    ----------
    pieces : mapping of partition to sequence of Piece
        The oldest first, at least one of each partition; they need not follow one another without a gap.
    config : ModelConfig
        Of the model.
    archive : ModelConfig
        That of `archived`, by which the pieces were made.
    """
    task = task_of(config)
    moments, learned = Moments.zero(config.points.dimension, task.classes), Learned.nothing(task.classes)
    for partition in sorted(pieces):
        own = Moments.zero(config.points.dimension, task.classes)
        for piece in pieces[partition]:
            own = own.merge(piece.extent.moments)
            learned = learned.join(piece.extent.learned)
        moments = moments.merge(own)
    positions = {partition: pieces[partition][-1].extent.end for partition in sorted(pieces)}
    points = [piece.points for partition in sorted(pieces) for piece in pieces[partition] if len(piece.points)]
    return Cut(
        positions=positions,
        leader_epochs={},
        points=training_set(points, moments, positions, config, task),
        moments=moments,
        rows=learned.rows,
        first_time_ms=learned.first_time_ms,
        last_time_ms=learned.last_time_ms,
        audit=tuple(one for partition in sorted(pieces) for one in _sampled(pieces[partition], archive, task)),
    )


def _sampled(pieces: Sequence[Piece], archive: ModelConfig, task: Task) -> list[Sampled]:
    """Return the audit sample of a partition's pieces, or that of each label."""
    more = archive.coreset.audit_points // (archive.coreset.bucket_audit_points or 1)
    class_weight = np.zeros(task.classes)
    for piece in pieces:
        class_weight = class_weight + piece.extent.moments.class_weight
    found = []
    for place, (label, most) in enumerate(audit_shares(archive, task).items()):
        sample = merged([piece.audit[place] for piece in pieces if piece.audit], more * most)
        of_label = class_weight if label == EVERY_LABEL else np.where(np.equal(LABELS, label), class_weight, 0.0)
        found.append(sample.sampled(of_label))
    return found
