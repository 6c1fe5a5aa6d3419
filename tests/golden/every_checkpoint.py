"""Every golden checkpoint: what it was made from, and the snapshot that its file holds.

`checkpoint-1` has two partitions, one of them empty, a head and a pending cut; `checkpoint-1-taken` the same with a cut
that was taken and not made, since when the partition changed. Those of branches are `SNAPSHOTS` of their tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from streamsvm.checkpoint import Snapshot
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.learning import Learner
from streamsvm.model import decode_head
from streamsvm.points import Position, id_hashes
from tests.config.sizes import sized
from tests.golden import HERE
from tests.golden.checkpoint import kept_snapshot
from tests.plugged import of_branches
from tests.streams import DIMENSION, gaussian, rows_of, snapshot_of


def made(rows: int = 150, labels: int = 2, since: int | None = None, **coreset: Any) -> Snapshot:
    """Return a snapshot of so many rows, with a cut of the first ones; `since` so many rows it was taken only."""
    names = (-1, 1) if labels == 2 else tuple(range(labels))
    sizes = {"leaf_rows": 16, "bucket_points": 10, "audit_points": 7, "train_points": 64, **coreset}
    config = ModelConfig(points=PointsConfig(dimension=DIMENSION, labels=names), coreset=sized(**sizes), seed=11)
    base = {0: Position(0), 2: Position(7, 1)}
    held, points = Learner(config, base, 1 << 30), gaussian(rows)
    if labels > 2:
        points = replace(points, y=(abs(points.X[:, 0] * 9) % labels).astype(np.int8))
    ids = [None if row % 3 else f"row {row}" for row in range(rows)]
    whole = replace(rows_of(points), id_hash=id_hashes(ids, "m"))
    cut = rows - (since or 20)
    held.learn(whole, until=Position(cut))
    pending = held.take()
    saved = pending.saved() if since else replace(pending.make(), observed=None)
    held.learn(whole)
    return snapshot_of(
        held.state(),
        incarnation=2,
        sequence=5,
        topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
        base=base,
        configuration=config.canonical(),
        configuration_sha256=config.sha256(),
        build={"numpy": "2"},
        head=decode_head((HERE / "head.record").read_bytes()),
        pending=saved,
        read_to={0: rows + 2},
    )


MADE: Final[dict[str, Callable[[], Snapshot]]] = {
    "checkpoint-1": made,
    "checkpoint-1-taken": partial(made, since=3),
    "checkpoint-1-classes": partial(made, 560, labels=3),
    "checkpoint-1-forgetful": partial(made, 150, memory="adaptive", span_rows=32, audit_points=60),
}
for _own in of_branches("golden", "SNAPSHOTS"):
    MADE |= {name: lambda change=change: change(made()) for name, change in _own.items()}  # type: ignore[misc]
HANDMADE: Final = {name: partial(kept_snapshot, name) for name in MADE}
"""What returns the snapshot of each golden file."""
