"""The marker of the tests that start containers."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deploy: starts the whole stack in containers; takes minutes")
