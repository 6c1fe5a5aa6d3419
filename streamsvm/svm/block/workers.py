"""Who does work that divides into independent parts: the caller alone, or the caller and others with it.

The solver starts no thread. A caller that wants more than one passes a `WorkerPool`; how work is divided follows from
the number of its threads and from sizes only, so the same number gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

FEWEST_VALUES: Final = 1 << 17
"""Kernel values below which another worker's start costs more than it saves."""


SHARES: Final = 4
"""Parts for each worker where their number changes no result: none waits long for one whose processor was taken."""


class WorkerPool(Protocol):
    """Run parts of work, which release the GIL, at the same time."""

    @property
    def count(self) -> int:
        """How many parts run at the same time, at least 1."""
        ...

    def run(self, parts: Sequence[Callable[[], object]]) -> None:
        """Run every part, and return when all have ended; a thread that is free takes the next."""
        ...


class _Alone:
    count = 1

    def run(self, parts: Sequence[Callable[[], object]]) -> None:
        for part in parts:
            part()


ALONE: Final[WorkerPool] = _Alone()


def divided(size: int, workers: WorkerPool, least: int = 1, each: int = 1) -> list[slice]:
    """Divide places 0 to size - 1 into as many runs as there are workers, each of at least `least` places.

    Parameters
    ----------
    size : int
    workers : WorkerPool
    least : int
        Fewer are not worth another worker's start.
    each : int, default 1
        So many runs for each worker: who is done early takes another. Only where no result depends on their number.
    """
    most = workers.count * each if workers.count > 1 else 1
    count = max(1, min(most, size // least))
    return [slice(part * size // count, (part + 1) * size // count) for part in range(count)]
