"""How many threads a solver uses, and those threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numba import config

from streamsvm.process_wide import algebra_threads

PROCESSORS: Final = -1
"""Value of `threads` that means one for each processor that this process may use."""


def number_of(threads: int) -> int:
    """Return how many threads a value of the parameter means."""
    numba: Any = config
    return int(numba.NUMBA_DEFAULT_NUM_THREADS) if threads == PROCESSORS else int(threads)


class Threads:
    """`streamsvm.svm.block.workers.WorkerPool` of so many threads, the caller's one of them; a context.

    Inside, linear algebra has one thread: where it had several, too, they would wait for one another, and many products
    are too small for that. Sums are divided among the threads, which rounds otherwise for another number of them, and
    always alike for the same number.

    Parameters
    ----------
    count : int
        Or `PROCESSORS`.
    """

    def __init__(self, count: int) -> None:
        self.count, self._limit = number_of(count), algebra_threads(1)
        self._others: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        self._limit.__enter__()
        return self

    def __exit__(self, *said: object) -> None:
        self._limit.__exit__(None, None, None)
        if self._others is not None:
            self._others.shutdown()

    def run(self, parts: Sequence[Callable[[], object]]) -> None:
        """Run every part; see `WorkerPool`."""
        left, begun = deque(parts), []
        if len(parts) > 1:
            self._others = self._others or ThreadPoolExecutor(self.count - 1)
            begun = [self._others.submit(_take, left) for _ in range(min(self.count, len(parts)) - 1)]
        _take(left)
        for one in begun:
            one.result()


def _take(left: deque[Callable[[], object]]) -> None:
    """Run parts until none is left."""
    while True:
        try:
            part = left.popleft()
        except IndexError:
            return
        part()


def check_threads(threads: Any) -> None:
    """Refuse what is not a number of threads."""
    if (
        not isinstance(threads, (int, np.integer))
        or isinstance(threads, bool)
        or (threads < 1 and threads != PROCESSORS)
    ):
        raise ValueError(f"threads = {threads!r}: give a positive whole number, or -1 for all processors")
