"""Which records of the input a model stands on: the points that its trainer's newest checkpoint holds."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from streamsvm.checkpoint.format import decode
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.coreset.reduce import Observed
from streamsvm.errors import ConfigurationError, CorruptCheckpoint
from streamsvm.learning.learner import latest_ms
from streamsvm.model.version import Version
from streamsvm.points import Position, label_codes

COLUMNS = "partition", "offset", "row", "label", "weight", "id_hash"


def newest_checkpoint(directory: Path, name: str) -> Snapshot:
    """Return the newest checkpoint of a model in a directory; a trainer may run meanwhile.

    Raises
    ------
    ConfigurationError
        If there is none.
    """
    for path in sorted(directory.glob("checkpoint-*.ssvm"), reverse=True):
        try:
            found = decode(path.read_bytes())
        except (CorruptCheckpoint, FileNotFoundError):  # the trainer removes old ones
            continue
        if found.name == name:
            return found
    raise ConfigurationError(
        f"{directory} holds no checkpoint of {name}", "Name the directory that is the trainer's checkpoint.directory."
    )


def kept_points(found: Snapshot, version: Version) -> Iterator[str]:
    """Yield CSV: the points that a checkpoint holds of the rows that a version has learned, under their weights."""
    config = ModelConfig.of_canonical(found.configuration)
    ends = {one.partition: Position(one.offset, one.row) for one in version.lineage.cut}
    labels = dict(zip(label_codes(len(version.labels)), version.labels, strict=True))
    states = found.learner.partitions
    now_ms = latest_ms(states, config.coreset)
    yield _line(COLUMNS)
    for partition, state in states.items():
        for points in state.parts(Observed(), state.factors(config.coreset, now_ms)):
            for place, code, weight in zip(
                points.places.tolist(), points.y.tolist(), points.weight.tolist(), strict=True
            ):
                offset, row, hashed = place
                if Position(offset, row) < ends.get(partition, Position(-1)):
                    id_hash = f"{hashed % (1 << 64):016x}" if hashed else ""
                    yield _line((partition, offset, row, labels[code], repr(weight), id_hash))


def _line(values: tuple[object, ...]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()
