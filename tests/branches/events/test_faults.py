"""SIGKILL of a trainer of raw events: what a recipe makes of them is the same in every life, and is verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamsvm.toml_text import toml_value
from tests.branches.events.recipes import EVENTS, PAYMENTS, payment, payments
from tests.branches.events.test_daemons import encoded, with_features
from tests.consumers.trainers import versions
from tests.faults.test_kill import ROWS_A_LIFE, kill_everywhere
from tests.live.stage import Stage

Note = Callable[[str, object], None]
POINTS = ("cut.trained", "checkpoint.renamed:2")


def life(number: int) -> list[bytes]:
    """Return the raw events of one life: two versions' worth, three of them for the dead letters."""
    events = [payment(1_000 * number + index) for index in range(ROWS_A_LIFE)]
    events[7] |= {"amount": "12"}
    events[11] |= {"ts": "2026-02-30"}
    del events[13]["vip"]
    return encoded(events)


@pytest.fixture
def raw(stage: Stage, tmp_path: Path) -> Stage:
    """A stage whose trainers declare features in a configuration file."""
    file = tmp_path / "streamsvm.toml"
    tables = {"features": PAYMENTS, "events": EVENTS}
    file.write_text(
        "\n".join(
            f"[{name}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
            for name, table in tables.items()
        )
    )
    return replace(stage, settings=with_features(stage.settings), options={"config": file})


def test_kills_of_a_trainer_of_raw_events_change_nothing(raw: Stage, tmp_path: Path, record_property: Note) -> None:
    """At the steps between an event and a checkpoint of its version."""
    kill_everywhere(raw, POINTS, tmp_path, life)
    found = versions(raw.connection, raw.settings)
    assert all(version.recipe == payments() for version in found)
    assert found[-1].stream.rows - found[-1].stream.points == 3 * (len(POINTS) + 1)
    record_property("named_kills", len(POINTS))
