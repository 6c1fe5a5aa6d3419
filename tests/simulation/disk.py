"""A disk in memory that forgets: what was not synced may be lost, torn or kept, in any combination.

After POSIX and no file system in particular: the content of a file is safe once the file is synced, its name once the
directory is. SIGKILL loses nothing; a power loss keeps, of what is not safe, whatever the chooser says.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

Choose = Callable[[str, list[str]], int]


@dataclass
class Inode:
    """A file's bytes: those that are safe, and those that a reader sees now."""

    safe: bytes | None = None
    seen: bytes = b""


@dataclass
class NameChange:
    """A change of the directory that is not safe yet: names to give and names to take away."""

    give: dict[str, Inode] = field(default_factory=dict)
    take: tuple[str, ...] = ()

    def apply(self, names: dict[str, Inode]) -> None:
        for name in self.take:
            names.pop(name, None)
        names.update(self.give)


class Disk:
    """One directory.

    `holder`: Who holds the lock; a death releases it. `saved`: Which write was the last that was made safe with its
    name; -1 if none, or if it was lost since.
    """

    def __init__(self) -> None:
        self.holder: object = None
        self.saved = -1
        self._safe: dict[str, Inode] = {}
        self._seen: dict[str, Inode] = {}
        self._changes: list[NameChange] = []

    def names(self) -> list[str]:
        """Return the names that a reader sees."""
        return sorted(self._seen)

    def generations(self) -> list[str]:
        """Return the names of the checkpoints, the oldest first."""
        return [name for name in self.names() if name.endswith(".ssvm")]

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        return self._inode(name).seen

    def write(self, name: str, content: bytes) -> None:
        """Create a file, or write it anew."""
        if name not in self._seen:
            self._change(NameChange({name: Inode()}))
        self._seen[name].seen = content

    def sync(self, name: str) -> None:
        """Make a file's bytes safe."""
        inode = self._inode(name)
        inode.safe = inode.seen

    def rename(self, old: str, new: str) -> None:
        """Rename a file over another."""
        self._change(NameChange({new: self._inode(old)}, (old,)))

    def remove(self, name: str) -> None:
        """Remove a name."""
        self._inode(name)
        self._change(NameChange(take=(name,)))

    def sync_names(self) -> None:
        """Make all names safe."""
        self._safe, self._changes = dict(self._seen), []

    def lose_power(self, choose: Choose) -> None:
        """Keep what is safe, and of the rest whatever is chosen; what is left is safe."""
        names = dict(self._safe)
        for change in self._changes:
            if choose("unsafe name", ["lost", "kept"]):
                change.apply(names)
        for inode in {id(inode): inode for inode in names.values()}.values():
            if inode.safe != inode.seen:
                kept = [inode.safe or b"", inode.seen, inode.seen[: len(inode.seen) // 2], bytes(len(inode.seen))]
                inode.seen = kept[choose("unsafe content", ["lost", "kept", "torn", "zeros"])]
            inode.safe = inode.seen
        self._safe, self._seen, self._changes = names, dict(names), []

    def copy(self) -> Disk:
        """Return another directory with what a reader sees in this one, all of it safe."""
        other = Disk()
        for name, inode in self._seen.items():
            other._seen[name] = Inode(inode.seen, inode.seen)
        other.sync_names()
        other.saved = self.saved
        return other

    def _change(self, change: NameChange) -> None:
        change.apply(self._seen)
        self._changes.append(change)

    def _inode(self, name: str) -> Inode:
        if name not in self._seen:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        return self._seen[name]
