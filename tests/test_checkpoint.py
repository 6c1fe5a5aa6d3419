"""Checkpoint files: whole or not at all, newest valid first, one writer."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.checkpoint import CheckpointDirectory
from streamsvm.codec import checkpoint as codec
from streamsvm.codec.checkpoint import Snapshot
from streamsvm.codec.model import Head, PartitionCut
from streamsvm.disk import FileSystem
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, StateError, TransientError
from streamsvm.learner import Learner
from streamsvm.points import Position
from tests.streams import gaussian, rows_of, small_config


def snapshot(sequence: int = 1, head: int = 0, incarnation: int = 1, rows: int = 50) -> Snapshot:
    config = small_config()
    held = Learner(config, {0: Position(0), 2: Position(7, 1)}, 1)
    rest, cut = rows_of(gaussian(rows)), None
    while len(rest):
        rest = rest.slice(held.learn(rest), len(rest))
        if held.cut_due:
            cut = held.cut()
    record = Head(head, incarnation, (PartitionCut(0, 5, 0, 1),), "ab", 3, "cd", {"numpy": "2"}) if head else None
    return Snapshot(
        "m",
        incarnation,
        sequence,
        "t",
        "id",
        {0: Position(0), 2: Position(7, 1)},
        config.canonical(),
        config.sha256(),
        {"numpy": "2"},
        record,
        held.state(),
        cut,
    )


ENCODED = codec.encode(snapshot(head=4))


def test_a_snapshot_survives_its_bytes() -> None:
    """Decode and encode again: the same bytes, the same positions, the same pending training set."""
    saved = snapshot(head=4)
    back = codec.decode(ENCODED)
    assert codec.encode(back) == ENCODED
    assert back.positions == {0: Position(50), 2: Position(7, 1)}
    assert back.head == saved.head
    assert saved.pending is not None
    assert back.pending is not None
    assert back.pending.points.sha256() == saved.pending.points.sha256()


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, len(ENCODED) - 1), flip=st.integers(1, 255))
def test_a_changed_byte_is_found(at: int, flip: int) -> None:
    """Any byte, anywhere: refused."""
    changed = ENCODED[:at] + bytes([ENCODED[at] ^ flip]) + ENCODED[at + 1 :]
    with pytest.raises(CorruptCheckpoint):
        codec.decode(changed)


@settings(max_examples=100, deadline=None)
@given(length=st.integers(0, len(ENCODED) - 1))
def test_a_cut_off_file_is_found(length: int) -> None:
    """Every proper prefix is refused."""
    with pytest.raises(CorruptCheckpoint):
        codec.decode(ENCODED[:length])


def test_another_format_version_is_named() -> None:
    """A file of a newer build, checksum and all, says which version it is."""
    body = codec.MAGIC + struct.pack("<I", 9) + ENCODED[12:-32]
    with pytest.raises(CorruptCheckpoint, match="format version is 9, this build reads 1"):
        codec.decode(body + hashlib.sha256(body).digest())


@pytest.mark.parametrize("shape", ["[99999999999, 3]", "[-1, 3]"])
def test_sizes_are_checked_before_allocating(shape: str) -> None:
    """A header that promises more than the file holds is refused, even under a valid checksum."""
    text = ENCODED[20 : 20 + struct.unpack_from("<Q", ENCODED, 12)[0]].decode()
    start = text.index('"shape":[')
    header = (text[:start] + '"shape":' + shape + text[text.index("]", start) + 1 :]).encode()
    rest = ENCODED[20 + len(text.encode()) : -32]
    body = codec.MAGIC + struct.pack("<IQ", 1, len(header)) + header + rest
    with pytest.raises(CorruptCheckpoint, match="an array"):
        codec.decode(body + hashlib.sha256(body).digest())


def test_the_newest_generation_comes_first_and_old_ones_go(tmp_path: Path) -> None:
    """Order is by incarnation, head number, sequence; only so many are kept."""
    with CheckpointDirectory(FileSystem(tmp_path), 3) as directory:
        for made in (
            snapshot(1),
            snapshot(2, head=1),
            snapshot(9, head=1),
            snapshot(3, head=12),
            snapshot(4, head=2, incarnation=2),
        ):
            directory.save(made)
        found = [generation.snapshot for generation in directory.generations()]
    assert [(s.incarnation, s.head.number if s.head else 0, s.sequence) for s in found if s] == [
        (2, 2, 4),
        (1, 12, 3),
        (1, 1, 9),
    ]


def test_a_damaged_generation_is_told_and_the_one_before_remains(tmp_path: Path) -> None:
    """The fault names what is wrong; the next generation is intact."""
    with CheckpointDirectory(FileSystem(tmp_path), 3) as directory:
        directory.save(snapshot(1))
        directory.save(snapshot(2))
        newest = max(tmp_path.glob("checkpoint-*"))
        newest.write_bytes(newest.read_bytes()[:-5])
        first, second = directory.generations()
    assert first.snapshot is None
    assert "checksum" in first.fault
    assert second.snapshot is not None
    assert second.snapshot.sequence == 1


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """The lock names the directory; once released, the next may have it."""
    with CheckpointDirectory(FileSystem(tmp_path), 3), pytest.raises(StateError, match=str(tmp_path)):
        CheckpointDirectory(FileSystem(tmp_path), 3)
    CheckpointDirectory(FileSystem(tmp_path), 3).close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file stands where the directory should: one line that says so."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        CheckpointDirectory(FileSystem(tmp_path / "file" / "below"), 3)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing write is transient, names the file, leaves no partial one and the old one in place."""
    with CheckpointDirectory(FileSystem(tmp_path), 3) as directory:
        directory.save(snapshot(1))

        def refuse(handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(TransientError, match="No space left"):
            directory.save(snapshot(2))
        assert [g.snapshot.sequence for g in directory.generations() if g.snapshot] == [1]
    assert not list(tmp_path.glob("*.partial"))


def test_a_leftover_of_a_crash_is_cleaned_away(tmp_path: Path) -> None:
    """A partial file that was never renamed is removed at the next start."""
    (tmp_path / "checkpoint-000001-000000000000-000000000001.partial").write_bytes(b"half")
    CheckpointDirectory(FileSystem(tmp_path), 3).close()
    assert not list(tmp_path.glob("*.partial"))
