"""Disks that fail: one that remembers what was synced, one that refuses, and every state a power loss may leave.

The model of a file system is the weakest that POSIX allows. Content that was not synced may be as it was, new, cut off,
zeros, or a mixture; and of the names that changed since the directory was synced each may be as it was or as it became,
independently of every other. Real file systems keep more, so a state that is good here is good there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

Files = Mapping[str, bytes]


@dataclass(eq=False)
class Inode:
    """A file's content: what is on the disk for sure, and what was written since."""

    durable: bytes = b""
    written: list[bytes] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        return self.written[-1] if self.written else self.durable

    def sync(self) -> None:
        self.durable, self.written = self.content, []

    def survivors(self) -> set[bytes]:
        """Return every content that a power loss now may leave."""
        return {self.durable}.union(*(torn(content) for content in self.written))


def torn(content: bytes) -> set[bytes]:
    """Return what may be left of content that was written but not synced."""
    half = len(content) // 2
    zeros = bytes(len(content))
    return {
        b"",
        content[:1],
        content[:half],
        content[:-1],
        content,
        zeros,
        content[:half] + zeros[half:],
        zeros[:half] + content[half:],
    }


class VolatileDisk:
    """A disk in memory that knows what of it would survive a power loss.

    `files`: What is on it, durably. `planted`: Names of the methods that do nothing: a defect to be found.
    """

    def __init__(self, files: Files | None = None, planted: frozenset[str] = frozenset()) -> None:
        self._planted = planted
        self._names: dict[str, list[Inode | None]] = {n: [Inode(content)] for n, content in (files or {}).items()}

    def __str__(self) -> str:
        return "the disk under test"

    def states(self) -> Iterator[dict[str, bytes]]:
        """Yield every set of files that a power loss now may leave, each once."""
        seen = set()
        for chosen in product(*({id(one): one for one in versions}.values() for versions in self._names.values())):
            present = {name: inode for name, inode in zip(self._names, chosen, strict=True) if inode is not None}
            inodes = {id(inode): inode for inode in present.values()}
            for contents in product(*(sorted(inode.survivors()) for inode in inodes.values())):
                content_of = dict(zip(inodes, contents, strict=True))
                state = {name: content_of[id(inode)] for name, inode in present.items()}
                key = frozenset(state.items())
                if key not in seen:
                    seen.add(key)
                    yield state

    def lock(self) -> str:
        """Nobody else has it."""
        return ""

    def unlock(self, left: str = "") -> None:
        """Nobody else wants it."""

    def names(self) -> list[str]:
        return [name for name, versions in self._names.items() if versions[-1] is not None]

    def size(self, name: str) -> int:
        return len(self._inode(name).content)

    def read(self, name: str) -> bytes:
        self._call("read")
        return self._inode(name).content

    def write(self, name: str, content: bytes) -> None:
        self._call("write")
        versions = self._names.setdefault(name, [None])
        inode = versions[-1]
        if inode is None:
            inode = Inode()
            versions.append(inode)
        inode.written.append(content)
        self._after()

    def sync(self, name: str) -> None:
        if self._call("sync"):
            self._inode(name).sync()
        self._after()

    def rename(self, old: str, new: str) -> None:
        self._call("rename")
        self._names.setdefault(new, [None]).append(self._inode(old))
        self._names[old].append(None)
        self._after()

    def remove(self, name: str) -> None:
        self._call("remove")
        self._inode(name)
        self._names[name].append(None)
        self._after()

    def sync_names(self) -> None:
        if self._call("sync_names"):
            self._names = {name: [versions[-1]] for name, versions in self._names.items() if versions[-1] is not None}
        self._after()

    def _inode(self, name: str) -> Inode:
        inode = self._names.get(name, [None])[-1]
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return inode

    def _call(self, method: str) -> bool:
        """Tell whether a method does anything; a subclass may refuse."""
        return method not in self._planted

    def _after(self) -> None:
        """Be told that a call has changed something."""


class SmallDisk(VolatileDisk):
    """A disk of so many bytes: what does not fit is cut off, and refused."""

    def __init__(self, room: int, files: Files | None = None, planted: frozenset[str] = frozenset()) -> None:
        super().__init__(files, planted)
        self.room = room

    def write(self, name: str, content: bytes) -> None:
        free = self.room - sum(self.size(other) for other in self.names() if other != name)
        super().write(name, content[:free] if free > 0 else b"")
        if free < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class RefusingDisk(VolatileDisk):
    """A disk whose calls fail while they are told to."""

    def __init__(self, files: Files | None = None) -> None:
        super().__init__(files)
        self.refuse: dict[str, int] = {}

    def _call(self, method: str) -> bool:
        number = self.refuse.get(method)
        if number is not None:
            raise OSError(number, os.strerror(number))
        return True
