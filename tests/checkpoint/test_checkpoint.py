"""Checkpoint files: whole or not at all, newest valid first, one writer."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm import private
from streamsvm.branches.late_labels import Joining
from streamsvm.checkpoint import format as codec
from streamsvm.checkpoint.directory import CheckpointDirectory, Generation
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.coreset import FORMAT, KINDS, MAGIC, field_names
from streamsvm.crashpoints import POINTS
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, DirectoryTaken, StateError, TransientError
from streamsvm.learning import Cut, Learner, LearnerState
from streamsvm.model import PartitionCut
from streamsvm.points import Position, Rows
from tests.checkpoint.disks import RefusingDisk, SmallDisk, VolatileDisk
from tests.golden import HERE as GOLDEN
from tests.golden.checkpoint import as_json, handmade, handmade_taken
from tests.golden.every_checkpoint import HANDMADE
from tests.golden.rewritten import at, changed, opened, sealed
from tests.streams import gaussian, head_of, rows_of, small_config, snapshot_of

ROOT = Path(__file__).parent.parent.parent


def snapshot(sequence: int = 1, head: int = 0, incarnation: int = 1, rows: int = 50) -> Snapshot:
    config = small_config()
    held = Learner(config, {0: Position(0), 2: Position(7, 1)}, 1)
    rest, cut = rows_of(gaussian(rows)), None
    while len(rest):
        rest = rest.slice(held.learn(rest), len(rest))
        if held.cut_due:
            cut = held.cut()
    return snapshot_of(
        held.state(),
        incarnation=incarnation,
        sequence=sequence,
        topic_id="id",
        base={0: Position(0), 2: Position(7, 1)},
        configuration=config.canonical(),
        configuration_sha256=config.sha256(),
        build={"numpy": "2"},
        head=head_of(head, [PartitionCut(0, 5, 0, 1)], incarnation=incarnation) if head else None,
        pending=cut,
    )


ENCODED = codec.encode(snapshot(head=4))


def test_rows_learned_between_two_steps_of_encoding_change_nothing() -> None:
    """A checkpoint is of the moment at which it was begun, however long it takes."""
    held, saved = Learner(small_config(), {0: Position(0), 2: Position(0)}, 1), snapshot()
    learn_all(held, rows_of(gaussian(53)))
    at_once = codec.encode(replace(saved, learner=held.state()))
    steps, later = codec.encoding(replace(saved, learner=held.state())), rows_of(gaussian(60), 2)
    for begin in range(0, 60, 20):
        next(steps)
        learn_all(held, rows_of(gaussian(20), first_offset=53 + begin))
        learn_all(held, later.slice(begin, begin + 20))
    assert codec.finished(steps) == at_once


def learn_all(held: Learner, rows: Rows) -> None:
    """Learn rows, and decline the cuts that fall due."""
    while len(rows):
        rows = rows.slice(held.learn(rows), len(rows))
        if held.cut_due:
            held.decline_cut()


def test_a_snapshot_survives_its_bytes() -> None:
    """Decode and encode again: the same bytes, the same positions, the same pending training set."""
    saved = snapshot(head=4)
    back = codec.decode(ENCODED)
    assert codec.encode(back) == ENCODED
    assert back.positions == {0: Position(50), 2: Position(7, 1)}
    assert back.head == saved.head
    assert isinstance(saved.pending, Cut)
    assert isinstance(back.pending, Cut)
    assert back.pending.points.sha256() == saved.pending.points.sha256()


def test_another_format_is_named() -> None:
    """A file of another build, checksum and all, says which format it has and what to do."""
    told = "was written before the first release, or by a later one: its format is {}, .*start under a new name"
    for version in (0, 2, 8, 99):
        with pytest.raises(CorruptCheckpoint, match=told.format(version)):
            codec.decode(sealed(*opened(ENCODED), version=version))


@pytest.mark.parametrize("name", HANDMADE)
def test_a_golden_file_is_what_is_written_and_read(name: str) -> None:
    """Byte for byte, with every part; and it is read as what it means."""
    content = (GOLDEN / f"{name}.ssvm").read_bytes()
    assert codec.encode(HANDMADE[name]()) == content
    found = codec.decode(content)
    assert codec.encode(found) == content
    assert as_json(found) == json.loads((GOLDEN / f"{name}.json").read_text())


SECRET = ["@", "Secret", [1]]
UNKNOWN = ", which this build does not know. Use the build that wrote it, or a newer one; or start .*--reset"


@pytest.mark.parametrize("name", HANDMADE)
def test_what_another_build_added_is_refused_by_its_name(name: str) -> None:
    """A part of a branch, a kind of object and another field of one, wherever it stands; the remedy names the build."""
    content = codec.encode(HANDMADE[name]())
    for part in (SECRET, ["@", "Position", [1, 2]]):
        kind = "a part of the kind 'Secret'" if part is SECRET else "the part 'secret'"
        with pytest.raises(CorruptCheckpoint, match=f"the file has {kind}{UNKNOWN}"):
            codec.decode(changed(content, lambda own, part=part: own.append(["secret", part]), "parts"))
    first = ("learner", "partitions", 0)
    for path in ((), first, (*first, "buckets", 0), (*first, "buckets", 0, "points"), (*first, "audit", 0)):
        head, arrays = opened(content)
        kind, own = at(head[2], *path)[1:]
        own += [None] * (1 + len(field_names(KINDS[kind].of)) - len(own))
        with pytest.raises(CorruptCheckpoint, match=f"the file has a part of the kind '{kind}' with .*{UNKNOWN}"):
            codec.decode(sealed(head, arrays))


def test_the_release_that_wrote_an_unknown_part_is_named() -> None:
    """It, or a newer one, reads the file."""
    content = codec.encode(replace(handmade(), build={"streamsvm": "0.1.1"}))
    with pytest.raises(
        CorruptCheckpoint, match=r"Use streamsvm 0\.1\.1, which wrote it, or a newer one; or start .*--reset"
    ):
        codec.decode(changed(content, lambda own: own.append(["secret", SECRET]), "parts"))


def test_a_field_that_a_later_release_adds_to_the_head_is_passed_over() -> None:
    """As in the aliases topic, of which the head is a copy."""
    content = codec.encode(handmade())
    assert as_json(codec.decode(changed(content, lambda own: own[2].update(later=[1]), "head"))) == as_json(handmade())


def test_no_part_is_read_where_another_one_belongs() -> None:
    """What a branch keeps under its name is of its own kind."""
    parts = codec.decode((GOLDEN / "checkpoint-1-erased.ssvm").read_bytes()).parts
    wrong = codec.encode(replace(handmade(), parts={"join": parts["erased"]}))
    with pytest.raises(CorruptCheckpoint, match="the file has the part 'join', which this build does not know"):
        codec.decode(wrong)


def refused(saved: Snapshot, told: str) -> None:
    """Require that a snapshot is written, and not read."""
    with pytest.raises(CorruptCheckpoint, match=told):
        codec.decode(codec.encode(saved))


def test_what_does_not_fit_each_other_is_refused() -> None:
    """Names, partitions of a cut, columns of a join and of rows that wait, and states of other features."""
    saved, taken = handmade(), handmade_taken()
    content = changed(ENCODED, lambda own: own[2].__setitem__(field_names(Snapshot).index("incarnation"), 9))
    with pytest.raises(CorruptCheckpoint, match=r"the file is named .*incarnation=1.* but holds .*incarnation=9"):
        codec.decode(content)
    assert isinstance(taken.pending, LearnerState)
    state = taken.pending.partitions[0]
    refused(replace(taken, pending=LearnerState({9: state}, 0)), "a cut is of partition 9, which the learner does not")
    leaf = replace(state.leaf, X=state.leaf.X[:, :1])
    wrong = LearnerState({**taken.pending.partitions, 0: replace(state, leaf=leaf)}, 0)
    refused(replace(taken, pending=wrong), "not that of this model: the features of the leaf")
    refused(replace(taken, learner=wrong), "not that of this model: the features of the leaf")
    cut = saved.pending
    assert isinstance(cut, Cut)
    points = replace(cut.points, X=cut.points.X[:, :1])
    refused(replace(saved, pending=replace(cut, points=points)), "a cut has arrays of different shapes")
    joined = HANDMADE["checkpoint-1-joined"]()
    own = joined.parts["join"]
    assert isinstance(own, Joining)
    join, rows = own.partitions[0], own.waiting[0]
    changes: dict[str, dict[str, Any]] = {
        "row_key of a join is described as": {"partitions": {0: replace(join, row_key=join.row_key[1:])}},
        "a join is described as one of 2 outcomes": {"partitions": {0: replace(join, counts=(1, 2))}},
        "offset of rows is described as": {"waiting": {0: replace(rows, offset=rows.offset[1:])}},
        "rows that wait in partition 1": {"waiting": {1: rows}},
        "rows that wait in partition 0": {"waiting": {0: replace(rows, beside_offset=None)}},
    }
    for told, change in changes.items():
        refused(joined.with_part("join", replace(own, **change)), told)
    path = ("parts", "join", "partitions", 0, "early_key")
    with pytest.raises(CorruptCheckpoint, match="early_key of a JoinState is described as int64"):
        codec.decode(changed(codec.encode(joined), lambda array: array.__setitem__(1, "<i8"), *path))


SIZES: list[tuple[str, list[Any]]] = [
    ("an array ends at byte", ["#", "<f4", [99999999999, 3]]),
    ("an array ends at byte", ["#", "<f4", [1 << 39, 1 << 39, 1 << 39]]),
    ("damaged", ["#", "<f4", [0, 1 << 62]]),
    ("an array is described as", ["#", "<f4", [-1, 3]]),
    ("an array is described as", ["#", "|O", [5, 3]]),
    ("5 rows of array 99 are named", ["=", 99, 5]),
    ("5 rows of array -1 are named", ["=", -1, 5]),
]


def test_a_head_that_says_what_the_file_does_not_hold_is_refused() -> None:
    """Under a valid checksum, and before anything is allocated: references, sizes, shapes, bytes that nobody names.

    What is allocated is bounded by the file's length: every array is of its own bytes, or names those of another one.
    """
    path = ("learner", "partitions", 0, "buckets", 0, "points")
    for told, new in SIZES:
        with pytest.raises(CorruptCheckpoint, match=told):
            codec.decode(changed(ENCODED, lambda own, new=new: own.__setitem__(slice(0, 3), new), *path, "X"))  # type: ignore[misc]
    for name in ("y", "weight"):
        with pytest.raises(CorruptCheckpoint, match=f"{name} of points is described as .*, 1"):
            codec.decode(changed(ENCODED, lambda array: array[2].append(1), *path, name))
    with pytest.raises(CorruptCheckpoint, match="an array ends at byte"):
        codec.decode(changed(ENCODED, lambda own: own.extend(own[1:] * 1000), *path[:-2]))
    with pytest.raises(CorruptCheckpoint, match="the arrays end at byte"):
        codec.decode(changed(ENCODED, lambda _: None, more=b"more"))
    body = ENCODED[:12] + struct.pack("<Q", 1 << 63) + ENCODED[20:-32]
    with pytest.raises(CorruptCheckpoint, match="head is longer than the file"):
        codec.decode(body + hashlib.sha256(body).digest())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_lying_head_is_refused(draw: st.DataObject) -> None:
    """Any value of the head replaced by one of another type, under a valid checksum: refused in our words."""
    head, arrays = opened(ENCODED)
    free = [at(head[2], name) for name in ("configuration", "build", "head")]
    own: Any = head
    while True:
        key = draw.draw(st.sampled_from(sorted(own) if isinstance(own, dict) else range(len(own))))
        if not isinstance(own[key], dict | list) or not own[key]:
            break
        own = own[key]
        if any(own is one for one in free):
            return
    own[key] = [] if isinstance(own[key], int | str) else "x"
    with pytest.raises(CorruptCheckpoint):
        codec.decode(sealed(head, arrays))


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


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """The lock names the directory; once released, the next may have it. One that cannot be made is named."""
    with CheckpointDirectory(FileSystem(tmp_path), 3), pytest.raises(StateError, match=str(tmp_path)):
        CheckpointDirectory(FileSystem(tmp_path), 3)
    CheckpointDirectory(FileSystem(tmp_path), 3).close()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        CheckpointDirectory(FileSystem(tmp_path / "file" / "below"), 3)


def sequences(found: Iterable[Generation]) -> list[int]:
    """Return the sequence numbers of the generations that can be read."""
    return [one.snapshot.sequence for one in found if one.snapshot]


def names(disk: VolatileDisk) -> list[str]:
    return sorted(name.removeprefix("checkpoint-000001-0000000000") for name in disk.names())


def test_a_directory_that_goes_once_the_file_is_written_is_a_failed_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found out where older files are looked for: an error that is tried again, not one that ends the process."""

    def go(name: str) -> None:
        if name == "checkpoint.durable":
            (tmp_path / "held").rename(tmp_path / "gone")

    with CheckpointDirectory(FileSystem(tmp_path / "held"), 3) as directory:
        monkeypatch.setattr("streamsvm.checkpoint.directory.crash_point", go)
        with pytest.raises(TransientError, match="cannot be written"):
            directory.save(snapshot(1))


@pytest.mark.parametrize("method", ["write", "sync", "rename", "sync_names"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_leaves_the_old_checkpoint(method: str, number: int) -> None:
    """Whatever step fails: file and reason are named, the old one stays, and the next save works.

    After a failed fsync, too, the bytes are written anew: a second fsync may say "fine" about lost ones.
    """
    disk = RefusingDisk()
    with CheckpointDirectory(disk, 3) as directory:
        directory.save(snapshot(1))
        disk.refuse[method] = number
        with pytest.raises(
            TransientError, match=rf"checkpoint-.*2\.ssvm in .*cannot be written: {os.strerror(number)}"
        ):
            directory.save(snapshot(2))
        assert not [name for name in disk.names() if name.endswith("partial")]
        assert 1 in sequences(directory.generations())
        disk.refuse.clear()
        directory.save(snapshot(3))
        assert sequences(directory.generations())[0] == 3


@pytest.mark.parametrize(("room", "kept", "removed"), [(4.5, 3, 0), (3.5, 3, 4), (2.5, 2, 5)])
def test_a_full_disk_gives_up_older_checkpoints(room: float, kept: int, removed: int) -> None:
    """Room for as many as are kept is enough; with room for fewer there are fewer."""
    disk = SmallDisk(int(room * len(codec.encode(snapshot(1)))))
    with CheckpointDirectory(disk, 3) as directory:
        for sequence in range(1, 8):
            directory.save(snapshot(sequence))
        assert sequences(directory.generations()) == [7, 6, 5][:kept]
        assert len(directory.made_room) == removed


def test_a_full_disk_never_gives_up_the_newest() -> None:
    """With room for one only, the next save fails, and the one stays."""
    disk = SmallDisk(int(1.5 * len(codec.encode(snapshot(1)))))
    with CheckpointDirectory(disk, 3) as directory:
        directory.save(snapshot(1))
        with pytest.raises(TransientError, match="No space left"):
            directory.save(snapshot(2))
        assert sequences(directory.generations()) == [1]


def test_a_full_disk_gives_up_nothing_in_vain_and_nothing_of_anothers() -> None:
    """Where all that might go is too little for the next one, all of it stays."""
    others = {"checkpoint-000001-000000000009-000000000009.ssvm": codec.encode(replace(snapshot(9), name="other"))}
    disk = VolatileDisk(others)
    with CheckpointDirectory(disk, 3) as directory:
        for sequence in (1, 2):
            directory.save(snapshot(sequence, rows=10))
    before = {name: disk.read(name) for name in disk.names()}
    small = SmallDisk(sum(map(len, before.values())), before)
    with CheckpointDirectory(small, 3) as directory, pytest.raises(TransientError, match="No space left"):
        directory.save(snapshot(4, rows=400))
    assert {name: small.read(name) for name in small.names()} == before


def test_a_file_that_cannot_be_read_is_told_and_one_that_cannot_be_removed_is_an_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An I/O error while reading, or a file that is too large, is a fault of that generation, not the end of the start.

    The new checkpoint is there where an old one stays, but a disk that fills up silently would be worse.
    """
    disk = RefusingDisk()
    with CheckpointDirectory(disk, 2) as directory:
        largest = max([directory.save(snapshot(sequence)) for sequence in (1, 2)])
        for bound, readable in ((largest, [2, 1]), (largest - 1, [])):
            monkeypatch.setattr("streamsvm.checkpoint.directory.LARGEST_FILE_BYTES", bound)
            assert sequences(directory.generations()) == readable
        monkeypatch.undo()
        reading = directory.generations()
        disk.refuse["read"] = errno.EIO
        newest = next(reading)
        disk.refuse.clear()
        assert (newest.snapshot, newest.fault) == (None, "the file cannot be read: Input/output error")
        assert sequences(reading) == [1]
        disk.refuse["remove"] = errno.EPERM
        with pytest.raises(TransientError, match="cannot be removed: Operation not permitted"):
            directory.save(snapshot(3))
        assert sequences(directory.generations())[0] == 3


def test_damaged_newer_files_do_not_push_out_good_older_ones() -> None:
    """Three damaged files of high numbers count for nothing; when there are enough good ones they are removed."""
    good = {f"checkpoint-000001-000000000000-{n:012d}.ssvm": codec.encode(snapshot(n)) for n in (1, 2)}
    damaged = {f"checkpoint-000001-000000000009-{n:012d}.ssvm": b"damaged" for n in (7, 8, 9)}
    disk = VolatileDisk(good | damaged)
    with CheckpointDirectory(disk, 3) as directory:
        directory.save(snapshot(3))
        assert names(disk) == ["00-000000000001.ssvm", "00-000000000002.ssvm", "00-000000000003.ssvm"]
    disk = VolatileDisk(good | damaged)
    with CheckpointDirectory(disk, 4) as directory:
        directory.save(snapshot(3))
        assert set(disk.names()) == good.keys() | damaged.keys() | {"checkpoint-000001-000000000000-000000000003.ssvm"}
        for until, gone in ((0, set()), (1, {*damaged})):
            assert {*directory.remove_unless(lambda _: True, "m", until)} == gone


def test_a_rejected_generation_counts_for_nothing() -> None:
    """Undamaged files that a start could not use do not push out the one that it went on from."""
    unfit = {f"checkpoint-000001-00000000000{n}-{n:012d}.ssvm": codec.encode(snapshot(n, head=n)) for n in (7, 8)}
    old = {"checkpoint-000001-000000000000-000000000001.ssvm": codec.encode(snapshot(1))}
    disk = VolatileDisk(unfit | old)
    with CheckpointDirectory(disk, 2) as directory:
        for generation in directory.generations():
            if generation.snapshot is not None and generation.snapshot.head is not None:
                directory.reject(generation.name)
        directory.save(snapshot(2))
    assert names(disk) == ["00-000000000001.ssvm", "00-000000000002.ssvm"]


def test_what_was_just_saved_is_kept_whatever_its_number() -> None:
    """Even where as many good files as are kept have higher numbers."""
    newer = {f"checkpoint-000001-00000000000{n}-{n:012d}.ssvm": codec.encode(snapshot(n, head=n)) for n in (7, 8, 9)}
    disk = VolatileDisk(newer)
    with CheckpointDirectory(disk, 2) as directory:
        directory.save(snapshot(1))
    assert names(disk) == ["00-000000000001.ssvm", "08-000000000008.ssvm", "09-000000000009.ssvm"]


def test_lives_that_save_once_each_do_not_fill_the_disk(tmp_path: Path) -> None:
    """A crash loop: each life reads what it finds before it counts it, so that old files go all the same."""
    for sequence in range(1, 9):
        with CheckpointDirectory(FileSystem(tmp_path), 2) as directory:
            directory.save(snapshot(sequence))
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2


def test_foreign_files_are_left_alone_and_a_leftover_of_a_crash_is_cleaned_away(tmp_path: Path) -> None:
    """What is not named like a checkpoint, and directories, are not ours, whatever their suffix."""
    foreign = ["notes.partial", "checkpoint-1-1-1.ssvm", "checkpoint-old.ssvm", "checkpoint-000001.partial"]
    for name in foreign:
        (tmp_path / name).write_text("not ours")
    (tmp_path / "checkpoint-000001-000000000009-000000000009.ssvm").mkdir()
    (tmp_path / "checkpoint-000001-000000000000-000000000001.partial").write_bytes(b"half")
    with CheckpointDirectory(FileSystem(tmp_path), 1) as directory:
        assert {path.name for path in tmp_path.glob("*.partial")} <= {*foreign}
        for sequence in (1, 2):
            directory.save(snapshot(sequence))
        assert sequences(directory.generations()) == [2]
    assert all((tmp_path / name).read_text() == "not ours" for name in foreign)


def test_a_made_directory_is_made_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each directory that had to be made is synced into the one above it, from the top."""
    synced: list[Path] = []
    monkeypatch.setattr("streamsvm.checkpoint.disk._sync_directory", synced.append)
    FileSystem(tmp_path / "a" / "b").lock()
    assert synced == [tmp_path, tmp_path / "a"]


# ------------------------------------------------------------------ other users of the machine

OTHER_USER = 65_534
AS_ANOTHER_USER = """
import fcntl, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in sys.argv[2:]:
    try:
        handle = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(name, "opened")
    except OSError as error:
        print(name, type(error).__name__)
"""


def modes(directory: Path) -> dict[str, str]:
    return {path.name: f"{path.stat().st_mode & 0o777:04o}" for path in directory.iterdir()}


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    """What a shell and a container have."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_usual_umask")
def test_what_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    """Directories 0700, lock and checkpoints 0600, whatever the umask; foreign files keep their mode.

    A lock and a checkpoint of an earlier build that all could read lose it at a start.
    """
    directory = tmp_path / "a" / "b"
    with CheckpointDirectory(FileSystem(directory), 3) as checkpoints:
        checkpoints.save(snapshot(1))
        (directory / "notes").touch()
        found = modes(directory)
    checkpoint = "checkpoint-000001-000000000000-000000000001.ssvm"
    assert found == {"lock": "0600", checkpoint: "0600", "notes": "0644"}
    assert [f"{made.stat().st_mode & 0o777:04o}" for made in (directory, directory.parent)] == ["0700", "0700"]
    for name in ("lock", checkpoint):
        (directory / name).chmod(0o644)
    CheckpointDirectory(FileSystem(directory), 3).close()
    assert modes(directory) == found


@pytest.mark.usefixtures("_usual_umask")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_neither_read_points_nor_hold_the_lock() -> None:
    """Not even through a handle that may only read, in a directory that everyone may enter."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        directory.chmod(0o755)
        with CheckpointDirectory(FileSystem(directory), 3) as checkpoints:
            checkpoints.save(snapshot(1))
        names = sorted(path.name for path in directory.iterdir())
        command = [sys.executable, "-c", AS_ANOTHER_USER, made, *names]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        assert said == [f"{name} PermissionError" for name in names]
        CheckpointDirectory(FileSystem(directory), 3).close()


@pytest.mark.parametrize("suffix", ["partial", "ssvm"])
def test_a_planted_link_is_not_followed(tmp_path: Path, suffix: str) -> None:
    """A link where a checkpoint is about to be written: the file it points to keeps its bytes, and no link stays."""
    directory, victim = tmp_path / "checkpoint", tmp_path / "victim"
    victim.write_text("precious")
    with CheckpointDirectory(FileSystem(directory), 3) as checkpoints:
        planted = directory / f"checkpoint-000001-000000000000-000000000001.{suffix}"
        planted.symlink_to(victim)
        checkpoints.save(snapshot(1))
        assert sequences(checkpoints.generations()) == [1]
    assert victim.read_text() == "precious"
    assert not [path for path in directory.iterdir() if path.is_symlink()]


def test_a_link_in_the_place_of_a_file_is_not_read_and_one_in_that_of_the_lock_is_refused(tmp_path: Path) -> None:
    """Neither its size nor its bytes: a link is no checkpoint. The message names the lock and where it leads."""
    disk = FileSystem(tmp_path / "checkpoint")
    disk.lock()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "checkpoint" / "planted").symlink_to(tmp_path / "victim")
    for read in (disk.read, disk.sync):
        with pytest.raises(OSError, match="symbolic links"):
            read("planted")
    assert disk.names() == ["lock"]
    disk.unlock()
    (tmp_path / "checkpoint" / "lock").unlink()
    (tmp_path / "checkpoint" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"lock is a symbolic link to .*elsewhere"):
        CheckpointDirectory(disk, 3)
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_the_world_may_write_is_refused(tmp_path: Path) -> None:
    """Others could replace checkpoints there; the message says the mode and what to do; a person may insist.

    A private one below it is fine, as in /tmp: whoever may write above cannot rename what is ours there.
    """
    for mode in (0o777, 0o702, 0o1777):
        tmp_path.chmod(mode)
        with pytest.raises(ConfigurationError, match=rf"every user may write .*{mode:04o}.*chmod 700"):
            CheckpointDirectory(FileSystem(tmp_path), 3)
        assert not list(tmp_path.iterdir())
    CheckpointDirectory(FileSystem(tmp_path / "own"), 3).close()
    assert (tmp_path / "own" / "lock").exists()
    CheckpointDirectory(FileSystem(tmp_path, trusted=True), 3).close()


@pytest.mark.parametrize(
    ("owner", "mode", "accepted"),
    [
        ("this user", 0o755, True),
        ("this user", 0o775, True),
        ("root", 0o2775, True),
        ("root", 0o777, False),
        ("another", 0o770, False),
    ],
)
def test_whose_directory_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, mode: int, accepted: bool
) -> None:
    """This user's own, or root's that our group may write, as `fsGroup` makes a volume; never another user's."""
    tmp_path.chmod(mode)
    owners = {"this user": os.geteuid(), "root": 0, "another": OTHER_USER}
    real = Path.stat

    def as_owned(path: Path, **options: bool) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result((*found[:4], owners[owner], *found[5:]))

    monkeypatch.setattr(Path, "stat", as_owned)
    monkeypatch.setattr(os, "geteuid", lambda: 10_001 if owner != "this user" else owners[owner])
    if accepted:
        private.check_directory(tmp_path)
    else:
        with pytest.raises(ConfigurationError, match=r"could replace checkpoints.*trust_directory"):
            private.check_directory(tmp_path)


LEFT_BEHIND = {
    "start.locked": {},
    "checkpoint.begun": {1: ".ssvm"},
    "checkpoint.written": {1: ".ssvm", 2: ".partial"},
    "checkpoint.synced": {1: ".ssvm", 2: ".partial"},
    "checkpoint.renamed": {1: ".ssvm", 2: ".ssvm"},
    "checkpoint.durable": {1: ".ssvm", 2: ".ssvm"},
    "checkpoint.pruned": {2: ".ssvm"},
}
"""Files by their running number, after a kill at the point."""
LIVES = """
import os, sys
from dataclasses import replace
from pathlib import Path
from streamsvm.checkpoint.directory import CheckpointDirectory, Generation
from streamsvm.crashpoints import arm
from streamsvm.checkpoint.disk import FileSystem
from tests.golden.checkpoint import handmade
for point in sys.argv[2:]:
    child = os.fork()
    if not child:
        arm(point if point.startswith("start") else point + ":2")
        directory = CheckpointDirectory(FileSystem(Path(sys.argv[1]) / point), 1)
        for number in (1, 2):
            directory.save(replace(handmade(), sequence=number))
        os._exit(0)
    print(point, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_kill_at_each_point_leaves_what_the_document_says(tmp_path: Path) -> None:
    """Killed at the second checkpoint, one generation kept: the files are those that CHECKPOINT.md names."""
    lives = [sys.executable, "-c", LIVES, str(tmp_path), *LEFT_BEHIND]
    ended = subprocess.run(lives, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert ended == [f"{point} {-signal.SIGKILL}" for point in LEFT_BEHIND]
    for point, files in LEFT_BEHIND.items():
        found = {int(path.stem.split("-")[3]): path.suffix for path in (tmp_path / point).glob("checkpoint-*")}
        assert found == files, point


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table in CHECKPOINT.md whose first column has this heading."""
    lines = (ROOT / "streamsvm" / "CHECKPOINT.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    rows = takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_the_document_has_every_byte() -> None:
    """The table of offsets leaves no gap, and what it names stands there."""
    text, arrays = struct.unpack_from("<Q", ENCODED, 12)[0], opened(ENCODED)[1]
    lengths = {"H": text, "B": len(arrays)}
    begin, found = 0, []
    for offset, size, _ in table("offset"):
        assert sum(int(lengths.get(term, term)) for term in offset.split(" + ")) == begin
        end = begin + int(lengths.get(size, size))
        found.append(ENCODED[begin:end])
        begin = end
    assert begin == len(ENCODED)
    assert found[0] == MAGIC
    assert int.from_bytes(found[1], "little") == FORMAT
    assert int.from_bytes(found[2], "little") == text
    assert msgspec.msgpack.decode(found[3]) == opened(ENCODED)[0]
    assert found[4] == arrays
    assert found[5] == hashlib.sha256(b"".join(found[:5])).digest()


def test_the_document_has_every_crash_point() -> None:
    """Each named place of writing a checkpoint is in the table, in the order in which it is passed."""
    written = [name for name in POINTS if name.startswith("checkpoint.")]
    assert [row[0].strip("`") for row in table("crash point")] == written
    assert set(written) <= LEFT_BEHIND.keys()
    assert {row[0].strip("`") for row in table("step")} - {""} <= POINTS.keys()


def test_a_removed_directory_is_made_and_taken_again(tmp_path: Path) -> None:
    """Whoever holds a directory that is gone holds nothing: it is made anew, and a second writer is still refused."""
    with CheckpointDirectory(FileSystem(tmp_path / "held"), 3) as directory:
        directory.save(snapshot())
        assert directory.keep() == ""
        shutil.rmtree(tmp_path / "held")
        assert "was removed" in directory.keep()
        assert directory.keep() == ""
        directory.save(snapshot(2))
        with pytest.raises(StateError, match="another process holds"):
            CheckpointDirectory(FileSystem(tmp_path / "held"), 3)
    assert [path.name[-10:] for path in (tmp_path / "held").glob("checkpoint-*")] == ["00002.ssvm"]


def test_nothing_is_written_under_the_lock_of_another(tmp_path: Path) -> None:
    """A directory that another process made anew is not ours, whatever its name."""
    with CheckpointDirectory(FileSystem(tmp_path / "held"), 3) as directory:
        directory.save(snapshot())
        shutil.rmtree(tmp_path / "held")
        with CheckpointDirectory(FileSystem(tmp_path / "held"), 3):
            with pytest.raises(TransientError, match="is not the one that this process locked"):
                directory.save(snapshot(2))
            with pytest.raises(DirectoryTaken, match="another process holds"):
                directory.keep()
            assert [path.name for path in (tmp_path / "held").iterdir()] == ["lock"]
        assert directory.keep(), "the other one has ended"
        directory.save(snapshot(3))


def test_a_directory_that_cannot_be_made_again_is_tried_again(tmp_path: Path) -> None:
    """Such as one whose volume is gone: nothing is written without a lock meanwhile."""
    above = tmp_path / "volume"
    with CheckpointDirectory(FileSystem(above / "held"), 3) as directory:
        shutil.rmtree(above)
        above.touch()
        for _ in range(2):
            with pytest.raises(TransientError, match="cannot be written"):
                directory.keep()
        above.unlink()
        assert "was removed" in directory.keep()
        directory.save(snapshot())


def test_no_save_removes_another_models_checkpoint() -> None:
    """Where two models' files lie together, as a reset once left them, only one's own old ones go."""
    others = {
        f"checkpoint-000001-000000000003-{n:012d}.ssvm": codec.encode(replace(snapshot(n, head=3), name="other"))
        for n in (1, 2, 3)
    }
    disk = VolatileDisk(others)
    with CheckpointDirectory(disk, 2) as directory:
        for sequence in range(1, 6):
            directory.save(snapshot(sequence, incarnation=2))
    own = {f"checkpoint-000002-000000000000-{n:012d}.ssvm" for n in (4, 5)}
    assert set(disk.names()) == others.keys() | own


def test_a_file_and_its_name_are_flushed_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by its own call: a power loss before it may take what it flushes."""
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.fstat(handle).st_ino))
    disk = FileSystem(tmp_path)
    disk.write("a", b"content")
    assert flushed == []
    disk.sync("a")
    assert flushed == [(tmp_path / "a").stat().st_ino]
    disk.sync_names()
    assert flushed[1:] == [tmp_path.stat().st_ino]
