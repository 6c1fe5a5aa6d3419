"""The golden checkpoint with totals of all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from streamsvm.branches.bounds.epochs import Epoch
from streamsvm.branches.bounds.frames import Frame
from streamsvm.branches.bounds.totals import Changed, Condensed, Ledger, Totals
from streamsvm.branches.bounds.totals_kernels import STRATA
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.coreset.screening import Screened
from streamsvm.learning.cutting import Cut
from tests.golden.checkpoint import handmade


def handmade_totals() -> Snapshot:
    """Return the same with totals of all rows: of the bucket, of the screen, of a leaf with outliers, of the cut."""
    made = handmade()
    now, pending = made.learner.partitions[0], made.pending
    assert isinstance(pending, Cut)
    assert isinstance(now.screened, Screened)
    frame = Frame(
        scaling=np.array([[0.1, -2.5], [1e-3, 7.0]]),
        machine=np.array([0.5, -0.25, 1e-17]),
        factor=np.eye(3, dtype=np.float32),
    )
    epoch = Epoch(
        frame=frame,
        rows=7,
        stratum=np.array([0, 95]),
        weight=np.array([3.0, 4.5]),
        length=np.array([1.0, 1e300]),
        nearest=np.array([0.0, 0.25]),
        sums=np.array([[1.0, 2.0], [-0.0, 1e-300]]),
        error=np.array([0.0, 1e-12]),
    )
    changed = Changed(rows=1, weight=np.array([0.0, 1e9]), moved=np.array([[0.0, -0.0], [2.5, 1e300]]))
    totals = Totals(np.array([1.0, 0.0]), pending.points.take(slice(1)), (epoch,), changed)
    condensed = Condensed(
        frame=frame,
        rows=3,
        weight=np.zeros(STRATA),
        length=np.ones(STRATA),
        nearest=np.full(STRATA, 2.0),
        sums=np.arange(2.0 * STRATA).reshape(STRATA, 2),
        spread=np.array([0.5, 1e9]),
        own=np.array([1.0, 2.0, 3.0]),
        held_beside=(pending.points,),
        border=0.125,
        most=9,
        changed=changed,
    )
    (bucket,) = now.buckets
    first = replace(now, buckets=(replace(bucket, totals=totals),), screened=replace(now.screened, condensed=condensed))
    came = pending.points.take(slice(1)).scaled(3.0)
    second = replace(
        made.learner.partitions[3],
        leaf_points=pending.points,
        leaf_extent=replace(now.leaf_extent, rows=2),
        leaf_totals=Totals(np.array([0.0, 1e9]), came, (), changed),
    )
    return replace(
        made,
        learner=replace(made.learner, partitions={**made.learner.partitions, 0: first, 3: second}),
        pending=replace(pending, ledger=Ledger(pending.points, totals)),
    )


CHECKPOINTS: Final[Mapping[str, Callable[[], Snapshot]]] = {"checkpoint-1-totals": handmade_totals}
PARTS: Final = tuple((place, "checkpoint-1-totals", "totals") for place in ("bucket", "screen", "cut"))
