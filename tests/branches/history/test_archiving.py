"""The trainer's part of the archive, without a broker: what a disk, a restart or a reset does to it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from pydantic import ValidationError

from consumers.branches.history.archivist import Archivist, archive_config
from consumers.branches.history.settings import ArchiveConfig
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings, TrainingConfig
from streamsvm.branches.history.aligned import only_rows
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.store import Identity, Store
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.points import Position, Rows
from tests.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of

SPAN = 64
ROWS = 6 * SPAN + 10


class Kept:
    """An archive in a directory, of one partition."""

    def __init__(self, directory: Path, base: int = 0, **config: object) -> None:
        self.directory, self.base = directory, Position(base)
        self.config = ArchiveConfig(directory=directory, leaf_rows=16, span_rows=SPAN, bucket_points=12, **config)
        model = ModelConfig(
            points=PointsConfig(dimension=DIMENSION), coreset=sized(audit_points=20), svm=SvmConfig(alpha=1e-3)
        )
        self.model, self.metrics = model, Metrics(TRAINER)

    def opened(self, at: int = 0) -> Archivist:
        """Return an archivist of a trainer that goes on at an offset."""
        identity = Identity(
            name="m",
            topic="t",
            topic_id="i",
            config=archive_config(self.model, self.config),
            base={0: self.base},
        )
        archivist = Archivist(self.config, identity, self.metrics)
        archivist.open({0: Position(at)}, {0: only_rows(at - self.base.offset, 2)})
        return archivist

    @property
    def failures(self) -> float | None:
        return self.metrics.registry.get_sample_value("streamsvm_archive_failures_total")

    def nodes(self) -> list[Node]:
        return Store(FileSystem(self.directory)).nodes()

    def all_at_once(self, rows: Rows) -> list[Node]:
        """Return the buckets of an archivist that nothing happens to."""
        other = Kept(self.directory.parent / "other", self.base.offset)
        archivist = other.opened(self.base.offset)
        archivist.learned(rows)
        archivist.save()
        archivist.close()
        return other.nodes()


@pytest.fixture
def rows() -> Rows:
    return rows_of(gaussian(ROWS, 8))


def full(self: FileSystem, name: str, content: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_refuses_loses_nothing_while_the_trainer_lives(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted and tried again; what waited is then written."""
    kept = Kept(tmp_path / "archive")
    archivist = kept.opened()
    archivist.learned(rows.slice(0, 3 * SPAN))
    with monkeypatch.context() as broken:
        broken.setattr(FileSystem, "write", full)
        archivist.save()
    assert kept.failures == 1
    assert not kept.nodes()
    archivist.learned(rows.slice(3 * SPAN, ROWS))
    archivist.save()
    archivist.close()
    assert kept.failures == 1
    assert kept.nodes() == kept.all_at_once(rows)
    assert kept.metrics.registry.get_sample_value("streamsvm_archive_bytes") == sum(
        (kept.directory / node.name).stat().st_size for node in kept.nodes()
    )


@pytest.mark.parametrize("error", [StateError("it is damaged"), OSError(errno.EIO, "Input/output error")])
def test_no_failure_to_save_ends_a_trainer(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(self: Store, identity: Identity) -> None:
        raise error

    kept = Kept(tmp_path / "archive")
    archivist = kept.opened()
    archivist.learned(rows)
    with monkeypatch.context() as broken:
        broken.setattr(Store, "claim", fails)
        archivist.save()
    assert kept.failures == 1
    archivist.save()
    archivist.close()
    assert kept.nodes() == kept.all_at_once(rows)


@pytest.mark.parametrize("again_from", [0, SPAN + 3, 3 * SPAN + 7])
def test_a_checkpoint_that_is_behind_the_archive_changes_nothing(tmp_path: Path, rows: Rows, again_from: int) -> None:
    """A crash between both: the rows come again, and are passed over."""
    kept = Kept(tmp_path / "archive")
    archivist = kept.opened()
    archivist.learned(rows.slice(0, 3 * SPAN + 7))
    archivist.save()
    archivist.close()
    archivist = kept.opened(again_from)
    archivist.learned(rows.slice(again_from, ROWS))
    archivist.save()
    archivist.close()
    assert kept.nodes() == kept.all_at_once(rows)


def test_an_archive_that_was_away_goes_on_with_the_next_span(tmp_path: Path, rows: Rows) -> None:
    """What is in between is missing, and nothing wrong is in its place."""
    kept = Kept(tmp_path / "archive")
    archivist = kept.opened()
    archivist.learned(rows.slice(0, SPAN + 9))
    archivist.save()
    archivist.close()
    archivist = kept.opened(2 * SPAN + 1)
    archivist.learned(rows.slice(2 * SPAN + 1, ROWS))
    archivist.save()
    archivist.close()
    whole = kept.all_at_once(rows)
    assert set(kept.nodes()) < set(whole)
    assert {node.number for node in kept.nodes() if node.level == 1} == {0, 3, 4, 5}


def test_a_damaged_state_costs_the_open_span_only(tmp_path: Path, rows: Rows) -> None:
    kept = Kept(tmp_path / "archive")
    archivist = kept.opened()
    archivist.learned(rows.slice(0, SPAN + 9))
    archivist.save()
    archivist.close()
    (kept.directory / "open-0.state").write_bytes(b"no state")
    archivist = kept.opened(SPAN + 9)
    archivist.learned(rows.slice(SPAN + 9, ROWS))
    archivist.save()
    archivist.close()
    assert {node.number for node in kept.nodes() if node.level == 1} == {0, 2, 3, 4, 5}


def test_a_new_incarnation_counts_anew_beside_the_old(tmp_path: Path, rows: Rows) -> None:
    kept = Kept(tmp_path / "archive")
    archivist = kept.opened()
    archivist.learned(rows.slice(0, 2 * SPAN))
    archivist.save()
    archivist.close()
    again = Kept(tmp_path / "archive", base=100)
    archivist = again.opened(100)
    archivist.learned(rows.slice(100, ROWS))
    archivist.save()
    archivist.close()
    new = [node for node in again.nodes() if node.base == Position(100)]
    assert new == again.all_at_once(rows.slice(100, ROWS))
    assert [node.start.offset for node in new if node.level == 1] == [100 + SPAN * number for number in range(4)]
    assert len([node for node in again.nodes() if node.base == Position(0)]) == 3


def test_two_trainers_need_two_archives(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "archive")
    first = kept.opened()
    with pytest.raises(StateError, match="another process holds the archive directory"):
        kept.opened()
    first.close()


def test_what_cannot_be_archived_is_refused(tmp_path: Path) -> None:
    archive = ArchiveConfig(directory=tmp_path)
    with pytest.raises(ValidationError, match=r"archive\.directory = .*, but training\.workers = 2: .* yet"):
        Settings(points=PointsConfig(dimension=2), archive=archive, training=TrainingConfig(workers=2))
    with pytest.raises(ValidationError, match=r"archive\.directory = .*, and labels\.topic = l: .* yet"):
        Settings(points=PointsConfig(dimension=2), archive=archive, labels=LabelsConfig(topic="l", horizon=60.0))
    kept = Kept(tmp_path)
    several = ModelConfig(points=PointsConfig(dimension=2, labels=(0, 1, 2)))
    with pytest.raises(ConfigurationError, match=r"points\.labels has 3 labels: archives are of two"):
        archive_config(several, kept.config)
    uneven = kept.config.model_copy(update={"span_rows": 65})
    with pytest.raises(ConfigurationError, match=r"archive\.span_rows = 65 is not a multiple of archive\.leaf_rows"):
        archive_config(kept.model, uneven)
    fixed = kept.model.model_copy(update={"svm": SvmConfig(C=1.0)})
    assert archive_config(fixed, kept.config).svm.C is None
