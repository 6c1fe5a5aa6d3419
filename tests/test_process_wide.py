"""What belongs to the whole process has one owner: callers that overlap restore what was before the first of them."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from streamsvm.process_wide import one_algebra_thread, silenced

DEADLINE_S = 60.0


def blas_threads() -> set[int]:
    return {int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_overlapping_holders_restore_what_was_before_the_first() -> None:
    """The first one ends before the second, which holds it, too."""
    with threadpool_limits(2, user_api="blas"):
        first, second = one_algebra_thread(), one_algebra_thread()
        entered, left = threading.Event(), threading.Event()

        def hold() -> None:
            with second:
                entered.set()
                assert left.wait(DEADLINE_S)
                assert blas_threads() == {1}

        first.__enter__()
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(hold)
            assert entered.wait(DEADLINE_S)
            first.__exit__(None, None, None)
            left.set()
            other.result()
        assert blas_threads() == {2}


def test_a_warning_is_silent_in_the_thread_that_silences_it_only() -> None:
    """Another thread's warnings stay, and the filters of others too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        def elsewhere() -> None:
            with pytest.raises(ConvergenceWarning):
                warnings.warn("loud", ConvergenceWarning, stacklevel=1)

        with silenced(ConvergenceWarning), ThreadPoolExecutor(1) as pool:
            warnings.warn("quiet", ConvergenceWarning, stacklevel=1)
            pool.submit(elsewhere).result()
        elsewhere()
        with silenced(ConvergenceWarning, "beginning"):
            warnings.warn("beginning of a message", ConvergenceWarning, stacklevel=1)
            elsewhere()
