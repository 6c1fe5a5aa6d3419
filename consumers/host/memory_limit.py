"""What the coresets of all partitions may take, beside what the container allows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streamsvm.config import ModelConfig

FILES: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Of cgroup v2, and of v1."""
UNLIMITED: Final = 1 << 60
"""Version 1 writes a number near 2^63 where there is no limit."""


def container_limit(files: tuple[Path, ...] = FILES) -> int | None:
    """Return the memory limit of this container in bytes; None if there is none, or none can be read."""
    for file in files:
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        return int(text) if text.isdecimal() and int(text) < UNLIMITED else None
    return None


def shortage(config: ModelConfig, partitions: int, limit: int | None) -> str:
    """Return by what the coresets of so many partitions can exceed a limit; empty if they cannot."""
    needed = config.coreset.largest_bytes(config.points, partitions)
    if limit is None or needed <= limit:
        return ""
    return (
        f"the coresets of {partitions} partitions, {config.coreset.kept_points:,} points each (coreset.points), can "
        f"take {needed:,} bytes with a reduction and a training set, but the container has {limit:,}"
    )
