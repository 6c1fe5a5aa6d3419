"""Plugins of the test suite: the brokers that any test may ask for; and what runs first."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
import structlog

from tests import deadline, forked, marks
from tests.brokers.choice import may_be_had

pytest_plugins = ["tests.brokers.fixtures", "tests.live.fixtures"]

hypothesis.settings.register_profile("unhurried", deadline=None)  # a shared machine makes any example late
hypothesis.settings.load_profile("unhurried")

ROOT: Final = Path(__file__).parent.parent
SLOWEST: Final = (
    "tests/simulation/",
    "tests/live/",
    "tests/interop/",
    "tests/consumers/page/",
    "tests/consumers/",
    "tests/deploy/",
)
"""Where tests take long, the longest first: begun last, one would keep one process busy while the others wait."""

SHARE: Final = "STREAMSVM_TEST_SHARE"
"""The variable that names a commit: of the long tests, those are run that this commit's hash chooses."""

SHARES: Final = 40
LONG_TIMEOUT_S: Final = 1_200
"""A minute of a quiet machine may be five beside five other processes; the limit of the others is in pyproject.toml."""

PROMETHEUS: Final = "Debian: apt install prometheus"
"""What tests say that skip for want of it. Not fetched: `go install` refuses the `replace` lines of its module."""

LOGS: Final = ("root", "streamsvm.kafka.client", "httpx", "httpx2", "httpcore", "httpcore2")
"""Loggers whose level a command sets for its process."""

LATE: Final = "again/failures"
FAILURES: Final[dict[str, bool]] = {}
"""Whether each test that failed in this run only missed a deadline."""

LEFT: Final = pytest.StashKey[int]()
TRAINING: Final = ("tests/live/", "tests/consumers/")
"""Where trainers are started."""
BROKERS: Final = frozenset({"broker", "real_broker", "embedded_broker", "stage", "open_browser"})
"""Fixtures that start a process, or threads of one."""


@pytest.fixture(autouse=True)
def few_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let daemons in this process take few records at once, so that tests see many batches; benchmarks do not."""
    if request.node.nodeid.startswith("tests/benchmarks/"):
        return
    from consumers import constants

    few = {
        "BATCH_RECORDS": 17,
        "SCORED_AT_ONCE": 7,
        "WATCH_INTERVAL_S": constants.WATCH_INTERVAL_S,
        "LABEL_EARLY_S": constants.LABEL_EARLY_S,
    }
    for name, value in few.items():
        monkeypatch.setattr(constants, name, value)


def pytest_configure(config: pytest.Config) -> None:
    """Compile before the processes of a parallel run begin, in the one that begins them."""
    if getattr(config, "cache", None) is not None and not hasattr(config, "workerinput"):
        config.cache.set(LATE, {})  # a run that ends before its summary must not leave the failures of another
    refuse_the_tree_where_the_wheel_is_tested()
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None) and not config.option.collectonly:
        compile_for_trainers()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test of a run that is not parallel, where it starts trainers."""
    config = session.config
    parallel = hasattr(config, "workerinput") or config.getoption("numprocesses", None)
    starts = any(
        item.nodeid.startswith(TRAINING) and not BROKERS.isdisjoint(getattr(item, "fixturenames", ()))
        for item in session.items
    )
    if starts and not parallel and not config.option.collectonly:
        compile_for_trainers()


def refuse_the_tree_where_the_wheel_is_tested() -> None:
    """End where `.ci/installed` runs and the packages come from this tree all the same.

    Raises `pytest.UsageError` if `STREAMSVM_TEST_INSTALLED` is set and `streamsvm` or `consumers` would be imported
    from the tree.
    """
    if not os.environ.get("STREAMSVM_TEST_INSTALLED"):
        return
    for package in ("streamsvm", "consumers"):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None or Path(spec.origin).is_relative_to(ROOT):
            raise pytest.UsageError(f"{package} is to be tested as installed, but is {spec and spec.origin}")


def compile_for_trainers() -> None:
    from tests.compiled import compile_kernels  # as late: who collects only needs none of it

    compile_kernels()


@pytest.fixture(autouse=True)
def _processes_end_with_their_test() -> Iterator[None]:
    """End what a test started and left running, whatever became of the test; a fixture of more tests ends its own."""
    before = {*forked.RUNNING}
    yield
    forked.end_all(but=before)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Undo what a command that ran in this process made of the log: it may have silenced it for the next test."""
    root = logging.getLogger()
    handlers, levels = root.handlers[:], {name: logging.getLogger(name).level for name in LOGS}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)  # not the attribute: a logger remembers what it is enabled for
    structlog.reset_defaults()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is long, leave the long tests of other commits to them, begin with what takes long.

    Raises `pytest.UsageError` if a mark names a case that its test does not have.
    """
    lost = marks.unmatched(items) if not any("::" in arg for arg in config.args) else []
    if lost:
        raise pytest.UsageError(f"marks of long tests name cases that do not exist: {', '.join(lost)}")
    ids, real = {item.nodeid for item in items}, may_be_had()
    for item in items:
        long = marks.is_long(item, ids, real=real)
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "long"]  # cases have one each
        if long:
            item.add_marker("long")
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
    commit = os.environ.get(SHARE, "")
    if commit:
        left = {item for item in items if item.get_closest_marker("long") and _part(item.nodeid) != _part(commit)}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: next((rank for rank, path in enumerate(SLOWEST) if path in item.nodeid), len(SLOWEST)))


def _part(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % SHARES


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the long tests that are left out."""
    for item in items:
        if item.get_closest_marker("long"):
            item.config.stash[LEFT] = item.config.stash.get(LEFT, 0) + 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that began this one, and leave none that would keep it from ending."""
    forked.end_all()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["long tests left"] = session.config.stash.get(LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear it from a process of a parallel run: each has collected the same."""
    node.config.stash[LEFT] = getattr(node, "workeroutput", {}).get("long tests left", 0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember which failures missed a deadline and nothing else: `tests.again` reads it."""
    if report.failed:
        FAILURES[report.nodeid] = FAILURES.get(report.nodeid, True) and deadline.is_missed(str(report.longrepr))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many long tests are left, and who runs them."""
    if getattr(config, "cache", None) is not None and not hasattr(config, "workerinput"):
        config.cache.set(LATE, FAILURES)
    left = config.stash.get(LEFT, 0)
    if left:
        terminalreporter.write_line(f"long: {left} tests are left to `make test-long`; for one: pytest -m long NAME")
    unchecked = [each for each in terminalreporter.stats.get("skipped", []) if PROMETHEUS in str(each.longrepr)]
    if unchecked:
        terminalreporter.write_line(
            f"prometheus: {len(unchecked)} tests of rules and dashboards need it ({PROMETHEUS})"
        )


def pytest_report_header() -> str:
    """Say what is left out."""
    commit = os.environ.get(SHARE, "")
    return f"share: of the long tests, one in {SHARES}, as chosen by {commit}" if commit else ""
