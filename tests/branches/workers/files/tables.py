"""Files under test: the same points in each format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.files.survey import found_in, survey
from streamsvm.branches.workers.files_part import FilesOfPartition, FilesOrigin, Layout
from streamsvm.branches.workers.key_partitions import partitions_of
from streamsvm.points import Points
from tests.streams import DIMENSION, gaussian

FEATURES = tuple(f"f{index}" for index in range(DIMENSION))
LAYOUT = Layout.of(label="y", features=FEATURES, weight="w", key="user", time="at")
FIRST_MS = 1_700_000_000_000


def table(n: int, seed: int = 0, **changed: Any) -> pa.Table:
    """Return points with keys and times, and some columns changed."""
    points: Points = gaussian(n, seed)
    X = points.X.astype(np.float64)
    columns: dict[str, Any] = {name: X[:, index] for index, name in enumerate(FEATURES)}
    columns |= {"y": points.y.astype(np.int64), "w": points.weight, "user": [f"user-{seed}-{k}" for k in range(n)]}
    columns |= {"at": FIRST_MS + np.arange(n), "unused": ["-"] * n}
    return pa.table(columns | changed)


def write(path: Path, points: pa.Table, part_rows: int = 300) -> Path:
    """Write a file by its ending, in parts of so many rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pa.parquet.write_table(points, path, row_group_size=part_rows)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, points.schema) as writer:
            writer.write_table(points, max_chunksize=part_rows)
    else:
        pa.csv.write_csv(points, path)
    return path


def partition_of(keys: Sequence[str], partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the partition of each key."""
    text = np.frombuffer("".join(keys).encode(), np.uint8)
    return partitions_of(text, np.cumsum([0, *map(len, keys)]), partitions)


def plan_of(paths: Sequence[Path], layout: Layout = LAYOUT, partitions: int = 3, *, in_topic: bool = True) -> FilesPlan:
    """Look at files, and let a topic go on behind them that begins at the offset 100."""
    files = found_in(paths)
    found = survey(files, layout, partitions)
    of = tuple(
        FilesOfPartition(partition, rows, 100 + (rows if in_topic else 0)) for partition, rows in enumerate(found.rows)
    )
    origin = FilesOrigin(files=found.named, layout=layout, in_topic=in_topic, partitions=of)
    return FilesPlan(origin=origin, files=tuple(files), parts=found.parts, dead_letters="")
