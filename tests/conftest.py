"""Plugins of the test suite: the brokers that any test may ask for; and what runs first."""

from __future__ import annotations

from typing import Final

import pytest

pytest_plugins = ["tests.brokers.fixtures", "tests.faults.faulty"]

LONG: Final = (
    "tests/simulation/",
    "tests/faults/",
    "tests/interop/",
    "tests/page/",
    "tests/consumers/",
    "tests/deploy/",
)
"""Where tests take long, the longest first: begun last, one would keep one process busy while the others wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; the order within is as collected."""
    items.sort(key=lambda item: next((rank for rank, path in enumerate(LONG) if path in item.nodeid), len(LONG)))
