"""Machines that are fitted in several threads, and of several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from streamsvm.drop_in.stdasvc import STDASVC
from tests.test_process_wide import blas_threads


def test_parallel_fits_leave_the_process_as_it_was_and_are_alike() -> None:
    """Forty fits in three threads give the bits of a fit alone, and the threads of before."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    y = np.where(X @ np.arange(1.0, 7.0) + rng.normal(size=700) > 0, 1, -1)
    with threadpool_limits(2, user_api="blas"):
        alone = STDASVC(kernel="rbf", C=1.0).fit(X, y)
        with ThreadPoolExecutor(3) as pool:
            machines = list(pool.map(lambda _: STDASVC(kernel="rbf", C=1.0).fit(X, y), range(40)))
        assert blas_threads() == {2}
    for machine in machines:
        assert machine.dual_coef_.tobytes() == alone.dual_coef_.tobytes()
        assert machine.intercept_.tobytes() == alone.intercept_.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_machine_has_the_same_bits_with_the_same_number_of_threads(threads: int) -> None:
    """However the threads take turns."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3_000, 8))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + rng.normal(size=3_000) > 0.5, 1, -1)
    machines = [STDASVC(kernel="rbf", threads=threads).fit(X, y) for _ in range(3)]
    assert len({(m.dual_coef_.tobytes(), m.intercept_.tobytes()) for m in machines}) == 1
