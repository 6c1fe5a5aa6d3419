"""What Python says of events that a recipe rejects: readers in other languages say the same (`inputs.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import recipe_of

FILE: Final = Path(__file__).parents[2] / "contract" / "inputs.json"
TABLE: Final[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
COLUMNS: Final = columns_of(recipe_of(TABLE["recipe"]))


def test_the_event_without_changes_is_accepted() -> None:
    """So each row of the table is rejected for its own fields."""
    assert COLUMNS.of_events([TABLE["event"]]).faults == {}


@pytest.mark.parametrize("row", TABLE["rejected"], ids=lambda row: row["given"][:40])
def test_a_rejection_says_what_the_table_says(row: dict[str, str]) -> None:
    """Of several wrong fields the one whose feature comes first."""
    faults = COLUMNS.of_events([TABLE["event"] | json.loads(row["given"])]).faults
    assert faults[0].what == row["says"]
