"""The scenarios: tables by what is struck. How a row is written is told in `tests/live/__init__.py`."""

from __future__ import annotations

from typing import Final

from tests.live import scenarios_broker, scenarios_kills, scenarios_world

SCENARIOS: Final = (*scenarios_kills.SCENARIOS, *scenarios_broker.SCENARIOS, *scenarios_world.SCENARIOS)
