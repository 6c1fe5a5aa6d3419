"""SIGKILL of a trainer of seven labels: its machines are the same in every life, and are verified."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamsvm.config import PointsConfig
from streamsvm.model.classes import ClassModel
from tests.consumers.trainer.test_classes import LABELS, records_of, several
from tests.consumers.trainers import versions
from tests.faults.test_kill import ROWS_A_LIFE, TRAINERS, finish, kill_at, kill_at_random, kill_everywhere
from tests.live.stage import Stage
from tests.streams import DIMENSION

Note = Callable[[str, object], None]
POINTS = ("cut.trained", "publish.committed", "checkpoint.renamed:2")


def life(number: int) -> list[bytes]:
    """Return the records of one life: two versions' worth, two of them for the dead letters."""
    values = records_of(several(ROWS_A_LIFE, number))
    values[7] = b'{"x": [1'
    values[11] = values[11].replace(b'"y":"', b'"y":"not ')
    return values


@pytest.fixture
def seven(stage: Stage) -> Stage:
    """A stage whose trainers tell seven labels apart."""
    points = PointsConfig(dimension=DIMENSION, labels=LABELS)
    settings = stage.settings.model_copy(update={"points": points})
    return replace(stage, settings=settings, options={"points_labels": ",".join(LABELS)})


@pytest.mark.long
def test_kills_of_a_trainer_of_seven_labels_change_nothing(seven: Stage, tmp_path: Path, record_property: Note) -> None:
    """Around a training, a transaction and a checkpoint: the models of a clean run, which verify finds clean."""
    kill_everywhere(seven, POINTS, tmp_path, life)
    found = versions(seven.connection, seven.settings)
    assert all(isinstance(version.model, ClassModel) and version.labels == LABELS for version in found)
    assert found[-1].stream.rows - found[-1].stream.points == 2 * (len(POINTS) + 1)
    record_property("named_kills", len(POINTS))


@pytest.mark.long
def test_kills_at_random_moments_change_nothing(seven: Stage, tmp_path: Path, record_property: Note) -> None:
    """As of two labels, between the first contact and the last version."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    record_property(
        "versions", kill_at_random(seven, 3, 800, seed, tmp_path, lambda rows, seed: records_of(several(rows, seed)))
    )
    record_property("random_kills", 3)


@pytest.mark.faults_long
def test_kills_at_every_named_point_change_nothing(seven: Stage, tmp_path: Path, record_property: Note) -> None:
    """As of two labels."""
    kill_everywhere(seven, TRAINERS, tmp_path, life)
    record_property("named_kills", len(TRAINERS))


@pytest.mark.faults_long
def test_a_restart_that_forgets_points_is_found(seven: Stage, tmp_path: Path) -> None:
    """The row can fail: a trainer that resumes without its open leaf does not end with a clean run's models."""
    seven.create()
    seven.feed(life(0))
    kill_at(seven, "input.learned:3", 2)
    seven.feed(life(1))
    with pytest.raises(AssertionError, match="not the models of a clean run"):
        finish(seven, 4, tmp_path, "forgets-the-leaf")
