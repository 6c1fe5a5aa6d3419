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

TRAINING: Final = ("tests/faults/", "tests/consumers/")
"""Where trainers are started."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile before the processes of a parallel run begin, in the one that begins them."""
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None) and not config.option.collectonly:
        compile_for_trainers()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test of a run that is not parallel, where it starts trainers."""
    config = session.config
    parallel = hasattr(config, "workerinput") or config.getoption("numprocesses", None)
    starts = any(path in item.nodeid for item in session.items for path in TRAINING)
    if starts and not parallel and not config.option.collectonly:
        compile_for_trainers()


def compile_for_trainers() -> None:
    from tests.compiled import compile_kernels  # not before it is known to be needed: it imports nearly everything

    compile_kernels()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; the order within is as collected."""
    items.sort(key=lambda item: next((rank for rank, path in enumerate(LONG) if path in item.nodeid), len(LONG)))
