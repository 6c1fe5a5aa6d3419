"""What the tests of the coreset have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Let libraries of linear algebra use one thread, as the daemons do: their sums are then the same everywhere."""
    with threadpool_limits(1):
        yield
