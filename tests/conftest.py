"""Plugins of the test suite: the brokers that any test may ask for; and what runs first."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pytest
import structlog

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


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Undo what a command that ran in this process made of the log: it may have silenced it for the next test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; the order within is as collected."""
    items.sort(key=lambda item: next((rank for rank, path in enumerate(LONG) if path in item.nodeid), len(LONG)))
