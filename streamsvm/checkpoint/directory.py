"""Checkpoint files: written whole or not at all, several generations, one writer.

A checkpoint only caches a pure function of the log: any valid generation may be loaded, and a worse one costs time,
never truth. File names order the generations: ``checkpoint-<incarnation>-<head number>-<sequence>.ssvm``.
``CHECKPOINT.md`` has every file kind, every byte, and what each step leaves behind if it is the last one.

Invariant: at every moment after the first `CheckpointDirectory.save`, whatever the disk may lose of what was not
synced, the newest checkpoint that a `save` returned from is on it, whole; and no file is removed before as many good
ones as are to be kept are there, each read or written by this process. Only on a full disk older good ones go before
the next one is written, and the newest stays. A checkpoint of another model is never removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Final, Self

from streamsvm.checkpoint.disk import FULL, Disk, LockLost
from streamsvm.checkpoint.format import decode, encoding, finished
from streamsvm.checkpoint.snapshot import RememberedPart, Snapshot
from streamsvm.crashpoints import crash_point
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, DirectoryTaken, StateError, TransientError

LARGEST_FILE_BYTES: Final = 1 << 34
_NAME: Final = re.compile(r"checkpoint-(\d{6,})-(\d{12,})-(\d{12,})\.(ssvm|partial)", re.ASCII)


def _removed(disk: Disk, name: str) -> None:
    disk.remove(name)


@dataclass(frozen=True, slots=True)
class Generation:
    """One checkpoint file: a snapshot, or why it cannot be used, and what to do about it if that is known."""

    name: str
    snapshot: Snapshot | None
    fault: str
    remedy: str = ""


class CheckpointDirectory:
    """A directory of checkpoints, locked against a second writer.

    Parameters
    ----------
    disk : Disk
    generations : int
        Files to keep.

    Raises
    ------
    ConfigurationError
        If the directory cannot be made or written.
    StateError
        If another process holds it.
    """

    def __init__(self, disk: Disk, generations: int) -> None:
        self._disk = disk
        self._generations = generations
        self._good: dict[str, bool] = {}
        self._lost = ""
        self._models: dict[str, str] = {}
        """The model of each file that was read or written, by the file's name; damaged ones are left out."""
        self._marks: dict[str, Mapping[str, RememberedPart]] = {}
        """The SHA-256 of the record of erased rows that each of these files names; empty where it names none."""
        self.retire = _removed
        """Takes a superfluous generation away. A branch may give it another name, which no method here reads."""
        self.made_room: list[str] = []
        """Checkpoints that were removed because the disk was full; whoever reports them clears the list."""
        self.ended = disk.lock()
        """The newest session of those that ended here as they were told to."""
        crash_point("start.locked")
        for leftover in self._files("partial"):
            with suppress(OSError):  # the next save says what is wrong with the disk
                disk.remove(leftover)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, and leave `ended`."""
        self._disk.unlock(self.ended)

    def keep(self) -> str:
        """See that the directory is still this process's; where it was removed or replaced, make it anew and take it.

        Returns
        -------
        str
            Why it had to be taken again; empty if it is what it was.

        Raises
        ------
        DirectoryTaken
            If another process holds it by now.
        TransientError
            If it cannot be made; the next call tries again.
        """
        try:
            self._disk.names()
        except LockLost as lost:
            self._lost = f"the checkpoint directory {self._disk} was replaced while it was in use: {lost.strerror}"
        except OSError:
            pass  # the next save says what is wrong with the disk
        if not self._lost:
            return ""
        self._take_again()
        why, self._lost = self._lost, ""
        return why

    def _take_again(self) -> None:
        self._good.clear()
        self._disk.unlock()
        try:
            self._disk.lock()
        except StateError as error:
            raise DirectoryTaken(f"{self._lost}; {error.what}", "Give each trainer its own directory.") from None
        except ConfigurationError as error:
            raise TransientError(f"{self._lost}; {error.what}", error.remedy) from None

    def generations(self) -> Iterator[Generation]:
        """Read the checkpoints, the newest first; each is read when the iterator comes to it."""
        for name in self._files("ssvm"):
            found = self._read(name)
            self._meet(found)
            yield found

    def reject(self, name: str) -> None:
        """Say that a generation, though undamaged, is of no use: it no longer counts as one of those to keep."""
        self._good[name] = False

    def remove_unless(
        self, kept: Callable[[Mapping[str, RememberedPart]], bool], model: str, unread_until: int
    ) -> list[str]:
        """Remove the checkpoints of a model but those that are to be kept.

        Parameters
        ----------
        kept : callable
            Tells by the marks of a checkpoint.
        model : str
        unread_until : int
            Files that cannot be read go, too, up to this incarnation; a later one may be another build's.

        Returns
        -------
        list of str
            Their names.

        Raises
        ------
        TransientError
            If the disk refuses.
        """
        own = [name for name in self._files("ssvm") if not self._is_anothers(name, model)]
        gone = [
            name
            for name in own
            if (not kept(self._marks[name]) if name in self._marks else int(name.split("-")[1]) <= unread_until)
        ]
        for name in gone:
            self._remove(name)
        if gone:
            try:
                self._disk.sync_names()
            except OSError as error:
                raise TransientError(f"the directory {self._disk} cannot be synced: {error.strerror}") from None
        return gone

    def save(self, snapshot: Snapshot) -> int:
        """Write a checkpoint and drop those beyond the limit; on return it survives a crash of the machine.

        Returns
        -------
        int
            Bytes written.

        Raises
        ------
        TransientError
            If the disk refuses; the newest checkpoint before it is untouched.
        """
        return finished(self.saving(snapshot))

    def saving(self, snapshot: Snapshot) -> Generator[None, None, int]:
        """Save as `save` does, in steps of some milliseconds, but for the last one, which waits for the disk.

        Nothing is written before the last step: steps that are left off leave nothing behind.
        """
        crash_point("checkpoint.begun")
        name, content = _name(snapshot), (yield from encoding(snapshot))
        yield
        try:
            while not self._write(name, content, snapshot.name):
                pass
            self._good[name] = True
            self._note(name, snapshot)
            self._prune(name, snapshot.name)  # fails if the directory was removed since the file was written
        except OSError as error:
            raise TransientError(
                f"the checkpoint {name} in {self._disk} ({len(content):,} bytes) cannot be written: {error.strerror}",
                "Free space or repair the disk. The checkpoint before it is untouched.",
            ) from None
        crash_point("checkpoint.pruned")
        return len(content)

    def _read(self, name: str) -> Generation:
        try:
            if self._disk.size(name) > LARGEST_FILE_BYTES:
                raise CorruptCheckpoint(f"the file has more than {LARGEST_FILE_BYTES} bytes")
            return Generation(name, decode(self._disk.read(name)), "")
        except CorruptCheckpoint as error:
            return Generation(name, None, error.what, error.remedy)
        except OSError as error:
            return Generation(name, None, f"the file cannot be read: {error.strerror}")

    def _write(self, name: str, content: bytes, model: str) -> bool:
        """Make a file durable before it gets its name, and then the name; False if a full disk got room instead."""
        partial = name.removesuffix("ssvm") + "partial"
        try:
            self._disk.write(partial, content)
            crash_point("checkpoint.written")
            self._disk.sync(partial)
            crash_point("checkpoint.synced")
            self._disk.rename(partial, name)
        except OSError as error:
            try:
                if error.errno in FULL and self._make_room(partial, len(content), model):
                    return False
            finally:
                with suppress(OSError):
                    self._disk.remove(partial)
            raise
        crash_point("checkpoint.renamed")
        self._disk.sync_names()
        crash_point("checkpoint.durable")
        return True

    def _make_room(self, partial: str, needed: int, model: str) -> bool:
        """Remove the oldest good checkpoint, if all of them but the newest give the room that is missing."""
        _, *older = [name for name in self._files("ssvm") if self._is_good(name, model)] or [""]
        try:
            fitted = self._disk.size(partial)
        except OSError:
            fitted = needed  # the file could not even be made: an inode is missing, which any file gives
        if not older or fitted + sum(map(self._disk.size, older)) < needed:
            return False
        self._disk.sync_names()  # the newest one's name may be a predecessor's last act
        self._remove(older[-1])
        self.made_room.append(older[-1])
        return True

    def _prune(self, saved: str, model: str) -> None:
        """Keep the newest good files of a model and the one just saved; before there are enough, keep everything."""
        files = self._files("ssvm")
        if len(files) <= self._generations:
            return
        good = list(islice((name for name in files if self._is_good(name, model)), self._generations))
        if len(good) == self._generations:
            for name in files:
                if name not in {saved, *good} and not self._is_anothers(name, model):
                    self._remove(name, self.retire)

    def _is_good(self, name: str, model: str) -> bool:
        """Return whether a file is known to be valid, and of this model; one never met before is read, once."""
        return not self._is_anothers(name, model) and self._good[name]

    def _is_anothers(self, name: str, model: str) -> bool:
        """Return whether a file is a checkpoint of another model; one never met before is read, once."""
        if name not in self._good:
            self._meet(self._read(name))
        return self._models.get(name, model) != model

    def _meet(self, found: Generation) -> None:
        self._good[found.name] = found.snapshot is not None
        if found.snapshot is not None:
            self._note(found.name, found.snapshot)

    def _note(self, name: str, snapshot: Snapshot) -> None:
        self._models[name] = snapshot.name
        self._marks[name] = snapshot.marks

    def _remove(self, name: str, how: Callable[[Disk, str], None] = _removed) -> None:
        try:
            how(self._disk, name)
        except OSError as error:
            raise TransientError(
                f"the old checkpoint {name} in {self._disk} cannot be removed: {error.strerror}",
                "Repair the disk before old checkpoints fill it. The newest checkpoint is durable.",
            ) from None
        self._good.pop(name, None)

    def _files(self, suffix: str) -> list[str]:
        return _files(self._disk, suffix)


def _files(disk: Disk, suffix: str) -> list[str]:
    """Return the checkpoint files of this suffix, the newest first."""
    named = [(match, name) for name in disk.names() if (match := _NAME.fullmatch(name))]
    ordered = sorted(
        (([int(part) for part in match.groups()[:3]], name) for match, name in named if match[4] == suffix),
        reverse=True,
    )
    return [name for _, name in ordered]


def _name(snapshot: Snapshot) -> str:
    head = snapshot.head.number if snapshot.head else 0
    return f"checkpoint-{snapshot.incarnation:06d}-{head:012d}-{snapshot.sequence:012d}.ssvm"
