"""What belongs to the whole process and is changed for a while: threads of linear algebra, and filters of warnings.

Saving such a state and restoring it, each caller for itself, goes wrong where two callers overlap: the one that began
second restores what the first had set. Here each state has one owner that counts its holders: the first one saves, the
last one restores.

Threads of linear algebra decide bits, so holders of different numbers may not overlap: a second one in another thread
waits until the first has ended. In the same thread the outermost holder decides.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController


class _Algebra:
    """The number of threads of linear algebra, with those who hold it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: Counter[int] = Counter()
        self._number = 0
        self._saved: list[int] = []

    def enter(self, number: int) -> int:
        """Hold a number of threads; blocks while another thread holds another number. Returns who holds it."""
        me = threading.get_ident()
        with self._changed:
            if me not in self._holders:
                self._changed.wait_for(lambda: not self._holders or self._number == number)
            if not self._holders:
                self._saved = [library.num_threads for library in _libraries()]
                self._number = number
                if self._changes:
                    _set([number] * len(self._saved))
            self._holders[me] += 1
        return me

    def leave(self, holder: int) -> None:
        """Give the number back; the last one restores what was before the first."""
        with self._changed:
            self._holders[holder] -= 1
            if not self._holders[holder]:
                del self._holders[holder]
            if not self._holders:
                if self._changes:
                    _set(self._saved)
                self._changed.notify_all()

    @property
    def _changes(self) -> bool:
        """Whether the number is another one than before the first holder."""
        return any(saved != self._number for saved in self._saved)


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
def algebra_threads(number: int) -> Iterator[None]:
    """Give linear algebra so many threads, in the whole process, while the block runs.

    Blocks while another thread holds another number. A block inside of another one of the same thread changes nothing.
    """
    holder = _ALGEBRA.enter(number)
    try:
        yield
    finally:
        _ALGEBRA.leave(holder)


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
