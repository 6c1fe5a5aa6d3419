"""The scenarios: tables by what is struck. How a row is written is told in `tests/live/__init__.py`."""

from __future__ import annotations

from typing import Final

from tests.live import scenarios_broker, scenarios_kills, scenarios_upgrade, scenarios_world

TABLES: Final = (scenarios_kills, scenarios_broker, scenarios_world, scenarios_upgrade)
SCENARIOS: Final = (*(one for table in TABLES for one in table.SCENARIOS),)
