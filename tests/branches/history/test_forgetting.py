"""A forgetting that ends anywhere is finished by the same command, and leaves the files of one that never ended."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from consumers.branches.history.forgetting import Forgetting, ForgettingReport, report_of
from streamsvm.branches.history.forgotten import Forgotten
from streamsvm.branches.history.recorder import Recorder
from streamsvm.branches.history.store import Identity, Store
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import ConfigurationError, StateError, TransientError
from streamsvm.model.left_out import masked
from streamsvm.points import Position, Rows
from tests.branches.history.test_recorder import BASE, SPAN, config, stream

ROWS = 4 * SPAN + 20
PLACES = [Position(3), Position(SPAN + 40), Position(4 * SPAN + 5)]
"""In the held part of a span, in the screened part of another, and in the open span."""
LOG = {0: (0, ROWS)}


class Refusing(FileSystem):
    """A disk that refuses one of its changes, and every later one, as a full disk or a kill does."""

    left = -1
    """Changes until it refuses; negative: it never does."""

    def _change(self) -> None:
        if self.left == 0:
            raise OSError(errno.ENOSPC, "no space")
        self.left -= 1

    def write(self, name: str, content: bytes) -> None:
        self._change()
        super().write(name, content)

    def rename(self, old: str, new: str) -> None:
        self._change()
        super().rename(old, new)

    def remove(self, name: str) -> None:
        self._change()
        super().remove(name)


class RowsOfStream:
    """Reads ranges of one stream."""

    def __init__(self) -> None:
        self.forgotten: Forgotten = {}
        self.rows_read = 0
        self._rows = stream(ROWS)

    def rows(self, partition: int, start: Position, end: Position) -> Iterator[Rows]:
        assert partition == 0
        yield masked(self._rows.slice(start.offset, end.offset), self.forgotten)


def identity() -> Identity:
    return Identity(name="m", topic="t", topic_id="id", config=config(), base={0: BASE})


def recorded(directory: Path, rows: Rows) -> None:
    store, recorder = Store(FileSystem(directory)), Recorder(0, BASE, config(), BASE, 0)
    directory.mkdir(mode=0o700)
    buckets = [(0, BASE, bucket) for bucket in recorder.learn(rows)]
    state = recorder.state
    assert state is not None
    store.claim(identity())
    store.save(buckets, {0: (BASE, state)})


def forget(directory: Path, left: int = -1, log: dict[int, tuple[int, int]] | None = None) -> ForgettingReport:
    disk = Refusing(directory)
    disk.left = left
    report = report_of({0: PLACES}, "tester")
    Forgetting(Store(disk), identity(), LOG if log is None else log, RowsOfStream(), report).run({0: PLACES})
    return report


def files(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "lock"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archive") / "full"
    recorded(directory, stream(ROWS))
    return directory


def test_what_is_left_is_the_archive_of_a_stream_that_rejected_the_rows(archive: Path, tmp_path: Path) -> None:
    """Byte for byte, but for the list of the rows."""
    copytree(archive, tmp_path / "own")
    assert len(forget(tmp_path / "own").changed) == 2 + 2 + 1
    rows = stream(ROWS)
    rows.accepted[[at.offset for at in PLACES]] = False
    recorded(tmp_path / "clean", rows)
    left = files(tmp_path / "own")
    del left["forgotten.json"]
    assert left == files(tmp_path / "clean")


def test_a_forgetting_that_ends_at_any_change_of_the_disk_is_finished(archive: Path, tmp_path: Path) -> None:
    """The same files as without an end; before that, whoever uses the archive is told which rows are half forgotten.

    Once all that needs the log is on the disk, it is finished without the log.
    """
    copytree(archive, tmp_path / "whole")
    forget(tmp_path / "whole")
    whole, ends, without_log, left = files(tmp_path / "whole"), 0, 0, 0
    while True:
        directory = tmp_path / f"ends-{left}"
        copytree(archive, directory)
        try:
            forget(directory, left)
        except TransientError:
            ends += 1
        else:
            break
        store = Store(FileSystem(directory))
        begun = store.under_way()
        if begun is not None:
            with pytest.raises(StateError, match=r"rows are half forgotten: 0:3\.0, 0:104\.0, 0:261\.0") as told:
                store.require_finished()
            assert "streamsvm history forget --archive-only --position 0:3.0" in told.value.remedy
        else:
            assert {name for name in files(directory) if not name.endswith(".partial")} >= set(files(archive)) or (
                set(files(directory)) == set(whole)
            )
        if begun is not None and begun.saved:
            Forgetting(store, identity(), {}, RowsOfStream(), report_of({}, "tester")).run({})
            without_log += 1
        else:
            forget(directory)
        assert files(directory) == whole
        left += 1
    assert ends > 15
    assert without_log > 3


def test_nothing_changes_where_the_log_no_longer_holds_a_bucket(archive: Path, tmp_path: Path) -> None:
    """The refusal comes before the first change."""
    copytree(archive, tmp_path / "own")
    with pytest.raises(ConfigurationError, match="the log no longer holds its rows"):
        forget(tmp_path / "own", log={0: (SPAN, ROWS)})
    assert files(tmp_path / "own") == files(archive)
