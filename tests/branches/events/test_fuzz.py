"""The fuzzers of raw events find what they are there for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamsvm.branches.events import arrow_events, envelopes
from tests.fuzz.every_target import TARGETS
from tests.fuzz.running import MOST_KEPT, run


def nulls_for_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what is null in a column for what stands in its place."""
    monkeypatch.setattr(arrow_events, "_missing", lambda column: np.zeros(len(column), np.bool_))


def deleted_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn the state before a deletion."""
    sound = envelopes._debezium

    def opened(row: Any) -> Any:
        is_deletion = isinstance(row, dict) and row.get("op") == "d" and isinstance(row.get("before"), dict)
        return row["before"] if is_deletion else sound(row)

    monkeypatch.setitem(envelopes._OPENERS, "debezium", opened)  # type: ignore[arg-type]


DEFECTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "arrow-nulls": ("event-arrow", nulls_for_zeros),
    "debezium-deletions": ("event-debezium", deleted_rows),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_escapes(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader's care taken away its fuzzer finds a case within a thousand, and keeps it."""
    name, plant = DEFECTS[defect]
    plant(monkeypatch)
    found = run(TARGETS[name], 1_000)
    assert found.escapes > 0
    assert 0 < len(found.kept) <= MOST_KEPT
