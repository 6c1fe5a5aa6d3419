"""Estimators give BLAS one thread while a call runs, whatever other calls run beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from streamsvm import STDASVC, CoresetSVC
from streamsvm.estimators.blas_threads import one_blas_thread


def blas_threads() -> set[int]:
    return {int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_call_that_ends_leaves_one_thread_to_another_that_runs() -> None:
    """The last one restores what was before."""
    with threadpool_limits(2, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}


def fitted(seed: int) -> bytes:
    """Return bits of two estimators; with more threads, 20,000 decisions at once have others."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(20_000, 40))
    y = X[:, 0] + X[:, 1] ** 2 + random.normal(size=len(X)) > 1.0
    coreset: Any = CoresetSVC(kernel="rbf", points=1_000).partial_fit(X[:5_000], y[:5_000], classes=[False, True])
    whole = STDASVC(kernel="rbf").fit(X[:1_000], y[:1_000])
    return b"".join((coreset.decision_function(X).tobytes(), coreset.model_.machine.dual, whole.dual_coef_.tobytes()))


@pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
def test_estimators_fitted_at_the_same_time_have_the_bits_of_each_alone() -> None:
    """With one thread and with three of the caller's, whose number is the caller's again afterwards."""
    alone = [fitted(seed) for seed in range(2)]
    with threadpool_limits(3, user_api="blas"):
        assert fitted(0) == alone[0]
        assert blas_threads() == {3}
        with ThreadPoolExecutor(2) as pool:
            assert [*pool.map(fitted, (0, 1, 1, 0))] == [alone[0], alone[1], alone[1], alone[0]]
        assert blas_threads() == {3}
