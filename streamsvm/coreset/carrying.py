"""A partition's state carried over to other columns, where what records become changes in mid-stream.

Points, sums and samples are carried over exactly: a column that stays is what it was; a new one is, in every earlier
row, what it is in a record that lacks its field; one that is dropped is dropped everywhere. Pilots begin anew: the open
leaf is sealed early, under the pilot that screened it, and the next one is not screened. Until that is sealed nothing
bounds its rows, and later ones are bounded by the rows since the change only: of a new column nothing older tells.

Invariant: a pure function of the state, the columns and the two configurations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.buckets import Bucket, Float, Moments
from streamsvm.coreset.memories import Horizons
from streamsvm.coreset.partition import Partition, PartitionState, known
from streamsvm.model.recipes import Columns
from streamsvm.points import Points


def carried_over(
    state: PartitionState, columns: Columns, partition: int, before: ModelConfig, config: ModelConfig
) -> PartitionState:
    """Return the state with which a partition goes on under another recipe.

    Parameters
    ----------
    state : PartitionState
    columns : Columns
    partition : int
    before, config : ModelConfig
        That of the state, and that with which it goes on.
    """
    own = Partition(partition, state.extent.start, before)
    own.restore(state)
    own.seal_early()
    sealed = own.state()
    blank = Partition(partition, sealed.position, config).state()
    memory, extent = sealed.memory, replace(sealed.extent, moments=blank.extent.moments)
    if memory is not None and memory.horizons is not None:
        memory = replace(memory, horizons=_horizons(columns, memory.horizons))
    return replace(
        sealed,
        buckets=tuple(_bucket(columns, one) for one in sealed.buckets),
        leaf=blank.leaf,
        extent=extent,
        screen=None,
        raw=True,
        audit=tuple(_sampled(columns, one) for one in sealed.audit),
        history=blank.history,  # a column that begins would be called drift
        memory=memory,
        since=blank.extent.moments if known(sealed.buckets, memory, config.coreset) else None,
    )


def _points(columns: Columns, points: Points) -> Points:
    """Return points."""
    return replace(points, X=np.ascontiguousarray(columns.of(points.X)))


def _moments(columns: Columns, moments: Moments) -> Moments:
    """Return the moments of the same rows."""
    if not moments.count:
        return Moments.zero(len(columns.source), len(moments.class_weight))
    return replace(moments, mean=columns.of(moments.mean), square=_squares(columns, moments.square))


def _squares(columns: Columns, square: Float) -> Float:
    return square[..., columns.source] * np.square(columns.factor)


def _sampled(columns: Columns, sample: Sampled) -> Sampled:
    """Return the sample of the same rows."""
    return replace(sample, points=_points(columns, sample.points))


def _bucket(columns: Columns, bucket: Bucket) -> Bucket:
    """Return the bucket of the same rows."""
    extent = replace(bucket.extent, moments=_moments(columns, bucket.extent.moments))
    audit = tuple(_sampled(columns, one) for one in bucket.audit)
    return replace(bucket, points=_points(columns, bucket.points), extent=extent, audit=audit)


def _horizons(columns: Columns, horizons: Horizons) -> Horizons:
    """Return the same horizons; experts give new columns no weight."""
    w = np.zeros((*horizons.w.shape[:2], len(columns.source) + 1))
    w[..., :-1] = np.where(columns.factor == 1.0, horizons.w[..., columns.source], 0.0)
    w[..., -1] = horizons.w[..., -1]
    return replace(horizons, w=w)
