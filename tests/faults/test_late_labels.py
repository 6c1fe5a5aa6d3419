"""Late labels at length: the order of reading, kills and recomputation change no byte of any version."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from consumers.branches.late_labels.settings import LabelsConfig
from streamsvm.crashpoints import POINTS
from streamsvm.errors import StateError
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, TopicSpec
from tests.branches.late_labels.test_labels import Timed, write
from tests.brokers.fixtures import TestBroker
from tests.faults.late_labels import VERSIONS, run
from tests.faults.test_kill import ROWS_A_LIFE, TRAINERS, kill_everywhere
from tests.live.stage import Stage
from tests.streams import gaussian

Note = Callable[[str, object], None]
ROW_MS = 1_000
LATE = 30
"""Rows after which the label of one comes."""
AHEAD = LATE + 10
"""Rows written before those of the first life, so that each life has its versions while rows wait for a label."""
STREAM = gaussian(ROWS_A_LIFE * (len(POINTS) + 2), seed=11)
KILLED_AT = ("input.learned:2", "publish.committed", "checkpoint.renamed:2", "deadletters.sent")


@pytest.mark.long(keep=("4000",))
@pytest.mark.parametrize(
    ("rows", "kills"), [(4_000, 2), pytest.param(100_000, 20, marks=pytest.mark.faults_long)], ids=["4000", "100000"]
)
def test_three_readings_of_the_same_logs_give_the_same_versions(
    real_broker: TestBroker, tmp_path: Path, rows: int, kills: int
) -> None:
    """One as they come, one in uneven portions, one killed again and again; pandas counts as they do."""
    found = run(real_broker.connection, rows, kills, tmp_path, real_broker.name("late"))
    assert found["versions"] == found["verified"] == VERSIONS
    assert found["joined"] + found["absent"] == rows
    assert found["versions_at_last_kill"] > VERSIONS // 3


@pytest.mark.long
def test_a_trainer_that_forgets_what_waits_is_found(real_broker: TestBroker, tmp_path: Path) -> None:
    """The check can fail: without the rows within their horizon other versions follow, or the next start refuses."""
    with pytest.raises((AssertionError, StateError), match=r"killed|different training set"):
        run(real_broker.connection, 4_000, 2, tmp_path, real_broker.name("late"), defect="forgets-what-waits")


class Late(Stage):
    """A trainer whose labels come `LATE` rows after their rows; it is fed the numbers of rows."""

    def create(self, partitions: int = 1, **config: str) -> None:
        """Create both topics."""
        topics = (self.settings.input.topic, self.settings.labels.topic)
        Cluster(self.connection).create([TopicSpec(name, partitions) for name in topics])

    def feed(self, values: Sequence[bytes | None], partition: int = 0) -> None:
        """Write rows, one of them no point at all, and the labels that are due by the newest."""
        rows = [int(value or b"") for value in values]
        points = [Timed(0, ROW_MS * i, encode(STREAM.X[i], id=f"t{i}")) for i in rows]
        write(self.connection, self.settings.input.topic, [*points, Timed(0, ROW_MS * rows[-1], b'{"x": [1')])
        due = range(max(0, rows[0] - LATE), rows[-1] - LATE + 1)
        labels = [
            Timed(0, ROW_MS * (i + LATE), json.dumps({"id": f"t{i}", "y": int(STREAM.y[i])}).encode()) for i in due
        ]
        write(self.connection, self.settings.labels.topic, labels)


@pytest.fixture
def late(stage: Stage) -> Late:
    """A stage of two topics; between two lives some rows always wait for their label."""
    labels = LabelsConfig(topic=f"{stage.settings.input.topic}-labels", horizon=10.0 * LATE * ROW_MS / 1_000)
    options = {"labels_topic": labels.topic, "labels_horizon": labels.horizon}
    return Late(stage.connection, stage.settings.model_copy(update={"labels": labels}), options, stage.started)


def life(number: int) -> list[bytes]:
    """Return the numbers of the rows of one life."""
    begin = AHEAD + ROWS_A_LIFE * number if number else 0
    return [b"%d" % i for i in range(begin, AHEAD + ROWS_A_LIFE * (number + 1))]


@pytest.mark.long
def test_kills_with_a_join_open_change_nothing(late: Late, tmp_path: Path, record_property: Note) -> None:
    """Around what is learned, published, saved and refused: the models of a clean run, which verify finds clean."""
    kill_everywhere(late, KILLED_AT, tmp_path, life)
    record_property("named_kills", len(KILLED_AT))


@pytest.mark.faults_long
def test_kills_at_every_named_point_with_a_join_open_change_nothing(
    late: Late, tmp_path: Path, record_property: Note
) -> None:
    """As of labels that come with their points."""
    kill_everywhere(late, TRAINERS, tmp_path, life)
    record_property("named_kills", len(TRAINERS))
