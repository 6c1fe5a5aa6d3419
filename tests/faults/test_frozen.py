"""SIGSTOP, and a second instance on the same directory or on a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.consumers.trainers import records
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

VERSIONS = 25
REFUSED, FENCED = 78, 70


def second_on_the_same_directory(stage: Stage, planted: str = "") -> None:
    """Freeze a trainer, start another on its directory, and let the first go on."""
    stage.create()
    stage.feed(records(60))
    first = stage.start(planted)
    assert first.reaches_version(1)
    first.freeze()
    second = stage.start(planted)
    try:
        assert not second.reaches_version(1), "the second one works on the directory of the first"
        assert second.wait() == REFUSED
        assert "another process holds the checkpoint directory" in second.log[-1]
        assert "Stop that process, or give each trainer its own directory." in second.log[-1]
        assert "Traceback" not in second.said
    finally:
        first.thaw()
    stage.feed(records(20, seed=1))
    assert first.reaches_version(2)
    assert first.stop() == 0
    check_counts(check_promise(stage.connection, stage.settings))


def second_on_a_copy(stage: Stage, directory: Path, planted: str = "") -> None:
    """Freeze a trainer while it publishes, start another on a copy of its directory, and thaw the first."""
    stage.create()
    stage.feed(records(40 * VERSIONS))
    first = stage.start(planted)
    assert first.reaches_version(3)
    first.freeze()
    shutil.copytree(stage.settings.checkpoint.directory, directory)
    second = stage.in_directory(directory).start(planted)
    assert second.reaches_version(VERSIONS)
    before = stage.models()
    first.thaw()
    stage.feed(records(40, seed=1))
    assert not first.reaches_version(VERSIONS + 1), "the first one went on"
    assert first.wait() == FENCED, first.said
    assert "Traceback" not in first.said
    assert second.reaches_version(VERSIONS + 1)
    assert second.stop() == 0
    assert stage.models()[:-1] == before, "the first one committed after it was thawed"
    found = check_promise(stage.connection, stage.settings)
    check_counts(found)
    assert len(found) == VERSIONS + 1


def test_a_second_trainer_on_the_directory_of_a_frozen_one_is_refused(stage: Stage) -> None:
    """A frozen process holds its lock: the second ends with one clear line, the first goes on when it is thawed."""
    second_on_the_same_directory(stage)


@pytest.mark.long
def test_a_frozen_trainer_whose_copy_went_on_is_fenced(
    stage: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Thawed after its copy took over, the first commits nothing more and ends with status 70."""
    second_on_a_copy(stage, tmp_path / "copy")
    record_property("versions", VERSIONS + 1)


@pytest.mark.faults_long
def test_a_frozen_trainer_is_fenced_wherever_it_stood(
    stage: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Ten times over, each time frozen some versions further, and the copy becomes the next to be frozen."""
    stage.create()
    holder, number = stage, 0
    running = holder.start()
    for turn in range(10):
        stage.feed(records(40 * VERSIONS, seed=turn))
        assert running.reaches_version(number + 1 + turn % 5)
        running.freeze()
        copy = tmp_path / f"copy-{turn}"
        shutil.copytree(holder.settings.checkpoint.directory, copy)
        holder, frozen = stage.in_directory(copy), running
        running = holder.start()
        number += VERSIONS
        assert running.reaches_version(number)
        frozen.thaw()
        stage.feed(records(40, seed=100 + turn))
        number += 1
        assert frozen.wait() == FENCED, frozen.said
        assert running.reaches_version(number)
    assert running.stop() == 0
    check_counts(check_promise(stage.connection, stage.settings))
    record_property("versions", number)


@pytest.mark.faults_long
def test_a_missing_lock_is_found(stage: Stage) -> None:
    """The row can fail: without the lock a second trainer starts."""
    with pytest.raises(AssertionError, match="works on the directory of the first"):
        second_on_the_same_directory(stage, "locks-nothing")


@pytest.mark.faults_long
def test_a_missing_fence_is_found(stage: Stage, tmp_path: Path) -> None:
    """The row can fail: with a transactional id for each process the first one goes on beside the second."""
    with pytest.raises(AssertionError, match="the first one went on"):
        second_on_a_copy(stage, tmp_path / "copy", "takes-an-id-of-its-own")
