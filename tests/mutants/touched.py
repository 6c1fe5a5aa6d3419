"""A plugin of pytest that writes down how long each test takes, and which functions of the product it runs.

Compiled functions and other processes are not seen. Which line a function begins at names it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

OUT: Final = "STREAMSVM_TEST_MUTANTS_TOUCHED"
"""The variable that names the file to write to."""


class Touched:
    """What each test touched."""

    def __init__(self, root: Path) -> None:
        self._root = str(root) + os.sep
        self._names: dict[CodeType, str] = {}
        self._now: set[str] = set()
        self._tests: dict[str, dict[str, Any]] = {}

    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a function that is called; its lines are not traced."""
        code = frame.f_code
        if code not in self._names:
            path = code.co_filename.removeprefix(self._root)
            ours = path.startswith(("streamsvm/", "consumers/"))
            self._names[code] = f"{path}:{code.co_firstlineno}" if ours else ""
        self._now.add(self._names[code])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace a test with its fixtures."""
        self._now = set()
        begun = time.process_time()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            seconds = round(time.process_time() - begun, 3)
            known = {"seconds": seconds, "touched": sorted(self._now - {""})}
            self._tests.setdefault(item.nodeid, {}).update(known)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what does not pass."""
        if report.failed:
            self._tests.setdefault(report.nodeid, {})["failed"] = True

    def pytest_sessionfinish(self) -> None:
        """Write it all."""
        Path(os.environ[OUT]).write_text(json.dumps(self._tests))


def pytest_configure(config: pytest.Config) -> None:
    """Begin, where the file is named."""
    if OUT in os.environ:
        config.pluginmanager.register(Touched(config.rootpath))
