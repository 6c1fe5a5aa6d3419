"""Scenarios of workers and of the trainer that adopts from them, on one broker and on three."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from streamsvm.kafka import Connection
from tests.consumers.trainers import settings_for
from tests.live.adopting import (
    ALONE,
    Adopting,
    compact_at_once,
    crash_opening,
    crash_worker,
    feed,
    finish,
    kill_leader,
    kill_trainer,
    kill_worker,
    put_to_sleep,
    trainer,
    workers,
)
from tests.live.cluster import Brokers
from tests.live.scenario import Scenario, play_out, rows
from tests.live.stage import Stage

GROUP: Final = (trainer(), workers("a", "b"))
SPLIT: Final = (trainer(), workers("a", "b", **ALONE))

ROWS: Final = (
    Scenario(
        name="kills and a stop of workers change nothing",
        steps=(
            *GROUP,
            *[kill_worker()] * 2,
            put_to_sleep(),
            kill_trainer(),
            *[kill_worker()] * 2,
            kill_trainer(),
            kill_worker(),
            finish(),
        ),
    ),
    Scenario(
        name="two workers that own everything change nothing",
        steps=(*SPLIT, feed(), kill_worker("a"), kill_worker("b"), feed(), finish()),
    ),
    *(
        Scenario(
            name=f"a worker killed at {point} changes nothing",
            steps=(trainer(), feed(), crash_worker(point), finish()),
            quick=point == "coresets.parts:3",
        )
        for point in ("coresets.parts:3", "coresets.manifests:3", "input.learned:5")
    ),
    *(
        Scenario(
            name=f"a trainer killed at {point} while it leaves its states to workers changes nothing",
            steps=(feed(), crash_opening(point), trainer(), workers("a", **ALONE), feed(), finish()),
        )
        for point in ("coresets.left:2", "coresets.opened:2")
    ),
    Scenario(
        name="kills of workers and leaders of three brokers change nothing",
        steps=(*GROUP, kill_worker(), kill_leader(), kill_trainer(), put_to_sleep(), kill_worker(), finish()),
        on="three",
    ),
    Scenario(
        name="a coresets topic that is compacted at once changes nothing",
        steps=(*GROUP, compact_at_once(), kill_worker(), kill_leader(), kill_trainer(), kill_worker(), finish()),
        on="three",
    ),
    Scenario(
        name="two workers that own everything on three brokers change nothing",
        steps=(*SPLIT, kill_worker("a"), kill_leader(), kill_worker("b"), finish()),
        on="three",
    ),
    Scenario(
        name="a worker that writes manifests first is found",
        steps=(trainer(), feed(), workers("a", **ALONE), finish()),
        planted=("manifest-first",),
        found="lacks",
    ),
    Scenario(
        name="a trainer that adopts less than was left is found",
        steps=(trainer("adopts-a-point-less"), feed(), workers("a", **ALONE), finish()),
        found=r"lacks|recomputed|differs|counts",
    ),
)


@pytest.mark.parametrize("scenario", rows(ROWS))
def test_what_workers_learn_is_published_and_recomputed(
    scenario: Scenario,
    at_hand: Callable[[str], Brokers | Connection],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Whatever strikes: each version is what one process makes of the log; a planted defect is found."""
    brokers = at_hand(scenario.on)
    nodes = brokers if isinstance(brokers, Brokers) else None
    connection = Connection(options={"bootstrap.servers": nodes.direct}) if nodes else brokers
    assert isinstance(connection, Connection)
    name = f"workers-{abs(hash(tmp_path)) % 10**10}"
    stage = Stage(connection, settings_for(name, tmp_path / "checkpoint"))
    play_out(scenario, Adopting(stage, nodes, *scenario.planted), record_property)
