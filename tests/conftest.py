"""Plugins of the test suite: the brokers that any test may ask for; and what runs first."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import structlog

pytest_plugins = ["tests.brokers.fixtures", "tests.faults.faulty"]

ROOT: Final = Path(__file__).parent.parent
LONG: Final = (
    "tests/simulation/",
    "tests/faults/",
    "tests/interop/",
    "tests/consumers/page/",
    "tests/consumers/",
    "tests/deploy/",
)
"""Where tests take long, the longest first: begun last, one would keep one process busy while the others wait."""

SHARED: Final = (
    "tests/simulation/",
    "tests/faults/",
    "tests/interop/",
    "tests/benchmarks/",
    "tests/consumers/test_settling.py",
    "tests/consumers/test_models.py",
    "tests/consumers/test_verify.py",
    "tests/test_anchoring.py",
)
"""Where a share will do for one commit, if `STREAMSVM_TEST_SHARE` names it; all of it runs by default."""
SHARES: Final = 3
TRAINING: Final = ("tests/faults/", "tests/consumers/")
"""Where trainers are started."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile before the processes of a parallel run begin, in the one that begins them."""
    refuse_the_tree_where_the_wheel_is_tested()
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None) and not config.option.collectonly:
        compile_for_trainers()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test of a run that is not parallel, where it starts trainers."""
    config = session.config
    parallel = hasattr(config, "workerinput") or config.getoption("numprocesses", None)
    starts = any(path in item.nodeid for item in session.items for path in TRAINING)
    if starts and not parallel and not config.option.collectonly:
        compile_for_trainers()


def refuse_the_tree_where_the_wheel_is_tested() -> None:
    """End where `.ci/installed` runs and the packages come from this tree all the same.

    Raises
    ------
    pytest.UsageError
        If `STREAMSVM_TEST_INSTALLED` is set and `streamsvm` or `consumers` would be imported from the tree.
    """
    if not os.environ.get("STREAMSVM_TEST_INSTALLED"):
        return
    for package in ("streamsvm", "consumers"):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None or Path(spec.origin).is_relative_to(ROOT):
            raise pytest.UsageError(f"{package} is to be tested as installed, but is {spec and spec.origin}")


def compile_for_trainers() -> None:
    from tests.compiled import compile_kernels  # not before it is known to be needed: it imports nearly everything

    compile_kernels()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Undo what a command that ran in this process made of the log: it may have silenced it for the next test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long; the order within is as collected. Leave what other commits run to them."""
    commit = os.environ.get("STREAMSVM_TEST_SHARE", "")
    if commit:
        left = [item for item in items if item.nodeid.startswith(SHARED) and _part(item.nodeid) != _part(commit)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    items.sort(key=lambda item: next((rank for rank, path in enumerate(LONG) if path in item.nodeid), len(LONG)))


def _part(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % SHARES


def pytest_report_header() -> str:
    """Say what is left out."""
    commit = os.environ.get("STREAMSVM_TEST_SHARE", "")
    return f"share: of the long tests, one in {SHARES}, as chosen by {commit}" if commit else ""
