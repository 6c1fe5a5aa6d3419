"""SIGKILL of trainers that forget: over a stream that turns, a memory is the same in every life, and verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from consumers.verify.verify import verify
from streamsvm.config.sizes import ADAPTIVE_LEAF
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster
from streamsvm.model.version import Memory, Version
from streamsvm.points import Points
from streamsvm.verification.report import Outcome
from tests.consumers.trainers import versions
from tests.faults.test_kill import ROWS_A_LIFE, TRAINERS, finish, kill_at, kill_everywhere
from tests.kafka.foreign import delete_records
from tests.live.stage import Stage
from tests.streams import gaussian

Note = Callable[[str, object], None]
POINTS: Final = ("input.learned:3", "cut.trained", "publish.committed", "checkpoint.renamed:2")
"""Within a leaf, with a cut in hand, with a version that no checkpoint knows, and with one that it knows."""
LIVES: Final = len(POINTS) + 1
TURNED: Final = 2
"""The lives whose labels are turned: the last ones."""
MEMORIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "all": {},
    "window": {"coreset_memory": "window", "coreset_window": 8 * 20},
    "decay": {"coreset_memory": "decay", "coreset_half_life": 8 * 20},
    "adaptive": {"coreset_memory": "adaptive", "coreset_points": ADAPTIVE_LEAF * 20},
}
ENOUGH: Final = 1_000
"""Points: with few, what a half-life leaves of the old rule outweighs the new one by chance."""
SCREENED_LEAF: Final = 75
"""Rows of a leaf of which two are a span, so that half of the rows meet a screen."""
SCREENED: Final = {"coreset_memory": "adaptive", "coreset_points": ADAPTIVE_LEAF * SCREENED_LEAF}


def points_of(number: int, lives: int, rows: int = ROWS_A_LIFE) -> Points:
    """Return the points of one life; in the last lives the rule is the opposite."""
    points = gaussian(rows, seed=number)
    return Points(points.X, -points.y if number >= lives - TURNED else points.y, points.weight)


def life_of(lives: int, rows: int = ROWS_A_LIFE) -> Callable[[int], list[bytes]]:
    """Return what makes the records of each of so many lives, one of them for the dead letters."""

    def life(number: int) -> list[bytes]:
        points = points_of(number, lives, rows)
        values = [encode(x, int(y), float(w)) for x, y, w in zip(points.X, points.y, points.weight, strict=True)]
        values[7] = b'{"x": [1'
        return values

    return life


def forgetful(stage: Stage, memory: Mapping[str, Any]) -> Stage:
    """Return a stage whose trainers have a memory; those that forget have no fixed C."""
    unfixed = {"svm_c": None, "coreset_structure": None} if memory else {}
    return replace(stage, options={**({"coreset_points": ENOUGH} if memory else {}), **unfixed, **memory})


def right_after_the_turn(version: Version) -> float:
    """Return the share of fresh rows of the new rule that a version predicts right."""
    fresh = gaussian(1_000, seed=99)
    return float((np.sign(version.model.decision_function(fresh.X)) == -fresh.y).mean())


@pytest.mark.long(keep=("adaptive",))
@pytest.mark.parametrize("name", MEMORIES)
def test_kills_of_a_trainer_that_forgets_change_nothing(
    stage: Stage, tmp_path: Path, name: str, record_property: Note
) -> None:
    """Every version is a clean run's to the byte and recomputed from the log; only a memory that forgets has turned."""
    trainer = forgetful(stage, MEMORIES[name])
    kill_everywhere(trainer, POINTS, tmp_path, life_of(LIVES))
    found = versions(trainer.connection, trainer.settings)
    kinds = {version.lineage.memory.kind if version.lineage.memory else "all" for version in found}
    assert kinds == {name}
    assert found[-1].stream.rows == LIVES * ROWS_A_LIFE
    assert (right_after_the_turn(found[-1]) > 0.6) is (name != "all")
    record_property("named_kills", len(POINTS))


@pytest.mark.long
def test_kills_within_a_screened_span_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """A span is screened by its first leaf: killed within one, the next life goes on with its screen."""
    kill_everywhere(forgetful(stage, SCREENED), POINTS, tmp_path, life_of(LIVES, 4 * SCREENED_LEAF))
    record_property("named_kills", len(POINTS))


def test_a_window_is_verified_when_retention_has_removed_its_past(stage: Stage) -> None:
    """Without the rows before it the newest version is identical; the oldest one's input is said to be gone."""
    trainer, lives = forgetful(stage, MEMORIES["window"]), 6
    trainer.create()
    for number in range(lives):
        trainer.feed(life_of(lives)(number))
    trainer.run_through(2 * lives)
    memory = versions(trainer.connection, trainer.settings)[-1].lineage.memory
    assert isinstance(memory, Memory)
    oldest = memory.partitions[0].oldest[0]
    assert oldest >= (lives * ROWS_A_LIFE - 8 * 20) // 2
    delete_records(trainer.connection, trainer.settings.input.topic, 0, before=oldest)
    report = verify(Cluster(trainer.connection), trainer.settings)
    assert not report.differs, "\n".join(report.lines())
    assert report.rows[-1].outcome == Outcome.IDENTICAL
    assert report.rows[0].outcome == Outcome.UNAVAILABLE
    assert "removed" in report.rows[0].note


@pytest.mark.faults_long
@pytest.mark.parametrize("name", [name for name in MEMORIES if name != "all"])
def test_kills_at_every_named_point_change_nothing(
    stage: Stage, tmp_path: Path, name: str, record_property: Note
) -> None:
    """As of a trainer that forgets nothing."""
    kill_everywhere(forgetful(stage, MEMORIES[name]), TRAINERS, tmp_path, life_of(len(TRAINERS) + 1))
    record_property("named_kills", len(TRAINERS))


@pytest.mark.faults_long
def test_a_restart_that_forgets_too_much_is_found(stage: Stage, tmp_path: Path) -> None:
    """The row can fail: a trainer that resumes without its open leaf does not end with a clean run's models."""
    trainer = forgetful(stage, MEMORIES["adaptive"])
    trainer.create()
    trainer.feed(life_of(2)(0))
    kill_at(trainer, "input.learned:3", 2)
    trainer.feed(life_of(2)(1))
    with pytest.raises(AssertionError, match="not the models of a clean run"):
        finish(trainer, 4, tmp_path, "forgets-the-leaf")
