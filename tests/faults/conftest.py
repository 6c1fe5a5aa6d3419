"""What the short form of the matrix leaves out is said at its end."""

from __future__ import annotations

from typing import Any

import pytest

LONG = "faults_long"
LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker(LONG):
            item.config.stash.setdefault(LEFT_OUT, []).append(item.nodeid)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, [])
    if left_out:
        terminalreporter.write_line(f"faults: {len(left_out)} long tests are left to `make faults`")
