"""`streamsvm forget`: rows that a trainer has learned, taken out as if they had been rejected when they came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consumers.settings import Settings
from consumers.verify.erasing import Cost, erase
from consumers.verify.forgetting import Report, report_of
from consumers.verify.verify import verify
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.format import Snapshot, encode
from streamsvm.config import CoresetConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model.version import Version
from streamsvm.points import Points, Position
from streamsvm.verification.report import Outcome
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import encoded, produce, run_until, settings_for, versions
from tests.streams import gaussian

ROWS, FIRST = 230, 150
PLACES = (3, 77, 148)
"""Of one row in a sealed leaf that the first versions are of, one in a later leaf, and one in the open leaf."""
MEMORIES: dict[str, dict[str, Any]] = {
    "all": {},
    "window": {"memory": "window", "window_points": 120},
    "decay": {"memory": "decay", "half_life_points": 60},
    "adaptive": {"memory": "adaptive"},
}


def settings_of(prefix: str, directory: Path, **coreset: Any) -> Settings:
    made = settings_for(prefix, directory / "checkpoint")
    own = made.coreset.model_dump(include={"leaf_rows", "bucket_points", "audit_points", "train_points"})
    return made.model_copy(update={"coreset": CoresetConfig(**{**own, "max_partitions": 4, **coreset})})


def started(connection: Connection, settings: Settings) -> Settings:
    Cluster(connection).create([TopicSpec(settings.input.topic, 1, config={"retention.ms": "-1"})])
    return settings


def newest(settings: Settings) -> Snapshot:
    with CheckpointDirectory(FileSystem(settings.checkpoint.directory), 2) as directory:
        found = next(each.snapshot for each in directory.generations())
    assert found is not None
    return found


def plain(snapshot: Snapshot) -> bytes:
    """Return the bytes of a checkpoint but for the names of its topics and the count of its files and heads."""
    assert snapshot.pending is None
    return encode(replace(snapshot, topic="t", topic_id="", head=None, incarnation=1, sequence=1))


def content(version: Version) -> tuple[Any, ...]:
    """Return everything in a version that does not name its topic or the versions before it."""
    lineage = version.lineage
    return (
        version.model,
        version.fit,
        version.stream,
        version.audit,
        [(part.partition, part.offset, part.row) for part in lineage.cut],
        lineage.training_set_sha256,
        lineage.memory,
        lineage.configuration_sha256,
    )


def agreed(_: Cost) -> bool:
    return True


def forgotten(connection: Connection, settings: Settings, *places: int) -> Report:
    """Erase rows of partition 0."""
    positions = {0: [Position(place) for place in places]}
    report = report_of(positions, "tester")
    assert erase(connection, settings, positions, report, agree=agreed)
    return report


def rejected(points: Points, places: tuple[int, ...]) -> Points:
    """Return points of which some are rejected when they come."""
    X = points.X.copy()
    X[list(places)] = np.nan
    return replace(points, X=X)


@pytest.mark.parametrize("memory", MEMORIES)
def test_what_is_learned_is_that_of_a_stream_that_rejected_the_rows(
    real_broker: TestBroker, tmp_path: Path, memory: str
) -> None:
    """Structure, checkpoint and the next version, byte for byte; no version comes twice, and none of a part."""
    connection, rows = real_broker.connection, gaussian(ROWS, 5)
    own, clean = (
        started(connection, settings_of(real_broker.name(name), tmp_path / name, **MEMORIES[memory]))
        for name in ("own", "clean")
    )
    produce(connection, own.input.topic, encoded(rows)[:FIRST])
    run_until(own, connection, FIRST)
    before = versions(connection, own)
    report = forgotten(connection, own, *PLACES)
    assert report.found == [f"0:{place}" for place in PLACES]
    assert report.rows_to_read == FIRST
    produce(connection, own.input.topic, encoded(rows)[FIRST:])
    run_until(own, connection, ROWS)
    produce(connection, clean.input.topic, encoded(rejected(rows, PLACES)))
    run_until(clean, connection, ROWS)
    assert plain(newest(own)) == plain(newest(clean))
    after = versions(connection, own)[len(before) :]
    assert after
    of_clean = {tuple(version.lineage.cut): content(version) for version in versions(connection, clean)}
    for version in after:
        same_cut = [
            found for cut, found in of_clean.items() if [p.offset for p in cut] == [version.lineage.cut[0].offset]
        ]
        assert same_cut == [content(version)]
    found = verify(Cluster(connection), own)
    assert [row.outcome for row in found.rows] == [Outcome.ERASED] * len(before) + [Outcome.IDENTICAL] * len(after)
    assert found.exit_status == 3
    assert any("cannot be made again: rows of it were erased" in line for line in found.lines())
