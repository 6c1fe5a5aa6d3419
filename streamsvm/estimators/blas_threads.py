"""One BLAS thread while an estimator learns, trains or decides: the number of threads changes the last bits of sums.

The number belongs to the whole process. If each call saved and restored it alone, a call that ends would give back many
threads to another call that still runs. So running calls are counted: the first saves the number, the last restores it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import OpenBLASController, get_cached_controller

_LOCK = threading.Lock()
_calls = 0
_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread, in the whole process, until the last of the running calls has ended."""
    global _calls, _limits
    # threadpoolctl lets the thread that set the number last, and no other, change it until it is cleared.
    with _LOCK:
        if not _calls:
            OpenBLASController.clear_controlling_thread(force=True)
            _limits = get_cached_controller().limit(limits=1, user_api="blas")
        _calls += 1
    try:
        yield
    finally:
        with _LOCK:
            _calls -= 1
            if not _calls:
                OpenBLASController.clear_controlling_thread(force=True)
                _limits.restore_original_limits()
                OpenBLASController.clear_controlling_thread(force=True)
