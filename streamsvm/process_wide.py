"""What belongs to the whole process and is changed for a while: threads of linear algebra, and filters of warnings.

Saving such a state and restoring it, each caller for itself, goes wrong where two callers overlap: the one that began
second restores what the first had set. Here each state has one owner that counts its holders: the first one saves, the
last one restores.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController


class _Algebra:
    """The number of threads of linear algebra, with a count of those who hold it at 1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._saved: list[int] = []

    def enter(self) -> None:
        """Set the number to 1, unless somebody has."""
        with self._lock:
            if not self._holders:
                self._saved = [library.num_threads for library in _libraries()]
                if self._changes:
                    _set([1] * len(self._saved))
            self._holders += 1

    def leave(self) -> None:
        """Restore what was before the first holder, unless there is another one."""
        with self._lock:
            self._holders -= 1
            if not self._holders and self._changes:
                _set(self._saved)

    @property
    def _changes(self) -> bool:
        """Whether the number was another one before the first holder."""
        return any(saved != 1 for saved in self._saved)


@cache
def _libraries() -> Sequence[Any]:
    """Look for the libraries once a process: that takes 2 ms, as long as a training on some hundred points.

    numpy's and scipy's are loaded by then. scikit-learn's OpenMP may come later; what is called of it runs one thread.
    """
    return ThreadpoolController().lib_controllers  # type: ignore[no-any-return]


def _set(numbers: Sequence[int]) -> None:
    """Set the threads of each library, whichever thread set them before: threadpoolctl lets only that one change them.

    A thread that had set them may set them again afterwards.
    """
    OpenBLASController.clear_controlling_thread(force=True)
    for library, number in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(number)
    OpenBLASController.clear_controlling_thread(force=True)


_ALGEBRA = _Algebra()


@contextmanager
def one_algebra_thread() -> Iterator[None]:
    """Give linear algebra one thread, in the whole process, while the block runs: the number of threads decides bits.

    A thread that learns beside a training holds it all of its life: a pilot of many features is solved with linear
    algebra too, and its bits would depend on whether a training happens to run at that moment.
    """
    _ALGEBRA.enter()
    try:
        yield
    finally:
        _ALGEBRA.leave()


class _WhereSilenced:
    """Stands in a filter of warnings in place of a pattern: matches in those threads only that silence them.

    Who copies the filter by its `pattern`, as scikit-learn does for its workers, gets one that matches nothing.
    """

    pattern = "(?!)"

    def __init__(self, message: str) -> None:
        self._message = message
        self.here = threading.local()

    def match(self, text: str) -> bool:
        """Return whether this thread silences a warning."""
        return bool(getattr(self.here, "depth", 0)) and text.startswith(self._message)


_SILENCERS: dict[tuple[type[Warning], str], _WhereSilenced] = {}


@contextmanager
def silenced(category: type[Warning], message: str = "") -> Iterator[None]:
    """Ignore a category of warnings, or those of it that begin with a message, in this thread while the block runs.

    One filter of each kind stays in the list for good, and asks for the thread. It is put back where somebody's
    `catch_warnings` took it away.
    """
    silencer = _SILENCERS.setdefault((category, message), _WhereSilenced(message))
    filters: Any = warnings.filters
    own = ("ignore", silencer, category, None, 0)
    if own not in filters:
        filters.insert(0, own)
    depth = getattr(silencer.here, "depth", 0)
    silencer.here.depth = depth + 1
    try:
        yield
    finally:
        silencer.here.depth = depth
