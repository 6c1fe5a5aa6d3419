"""Scenarios of workers and of the trainer that adopts from them, on one broker and on three."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from streamsvm.kafka import Connection
from tests.brokers.cluster import Cluster as Nodes
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun
from tests.consumers.trainers import settings_for
from tests.live.adopting import (
    ALONE,
    Adopting,
    AdoptingStep,
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
from tests.live.stage import Stage

THREE: Final = "three"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is done to workers and their trainer; then all must be learned, published and recomputed."""

    name: str
    steps: tuple[AdoptingStep, ...]
    on: str = "shared"
    compacted: bool = False
    planted: str = ""
    found: str = ""
    quick: bool = False


GROUP: Final = (trainer(), workers("a", "b"))
SPLIT: Final = (trainer(), workers("a", "b", **ALONE))

ROWS: Final = (
    Row(
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
    Row(
        name="two workers that own everything change nothing",
        steps=(*SPLIT, feed(), kill_worker("a"), kill_worker("b"), feed(), finish()),
    ),
    *(
        Row(
            name=f"a worker killed at {point} changes nothing",
            steps=(trainer(), feed(), crash_worker(point), finish()),
            quick=point == "coresets.parts:3",
        )
        for point in ("coresets.parts:3", "coresets.manifests:3", "input.learned:5")
    ),
    *(
        Row(
            name=f"a trainer killed at {point} while it leaves its states to workers changes nothing",
            steps=(feed(), crash_opening(point), trainer(), workers("a", **ALONE), feed(), finish()),
        )
        for point in ("coresets.left:2", "coresets.opened:2")
    ),
    Row(
        name="kills of workers and leaders of three brokers change nothing",
        steps=(*GROUP, kill_worker(), kill_leader(), kill_trainer(), put_to_sleep(), kill_worker(), finish()),
        on=THREE,
    ),
    Row(
        name="a coresets topic that is compacted at once changes nothing",
        steps=(*GROUP, kill_worker(), kill_leader(), kill_trainer(), kill_worker(), finish()),
        on=THREE,
        compacted=True,
    ),
    Row(
        name="two workers that own everything on three brokers change nothing",
        steps=(*SPLIT, kill_worker("a"), kill_leader(), kill_worker("b"), finish()),
        on=THREE,
    ),
    Row(
        name="a worker that writes manifests first is found",
        steps=(trainer(), feed(), workers("a", **ALONE), finish()),
        planted="manifest-first",
        found="lacks",
    ),
    Row(
        name="a trainer that adopts less than was left is found",
        steps=(trainer("adopts-a-point-less"), feed(), workers("a", **ALONE), finish()),
        found=r"lacks|recomputed|differs|counts",
    ),
)


@pytest.fixture(scope="module")
def three() -> Iterator[Nodes]:
    """Three nodes; each scenario leaves them well."""
    nodes = Nodes()
    try:
        nodes.start()
    except CannotRun as error:
        pytest.skip(f"no cluster: {error}")
    yield nodes
    nodes.stop()


@pytest.fixture
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Row], Adopting]]:
    """Make topics and settings of a test; no process outlives it."""
    made: list[Adopting] = []

    def make(row: Row) -> Adopting:
        nodes: Nodes | None = None
        if row.on == THREE:
            nodes = request.getfixturevalue("three")
            connection = Connection(options={"bootstrap.servers": nodes.bootstrap_servers})
        else:
            shared: TestBroker = request.getfixturevalue("real_broker")
            connection = shared.connection
        name = f"workers-{abs(hash(tmp_path)) % 10**10}"
        stage = Stage(connection, settings_for(name, tmp_path / "checkpoint"))
        made.append(Adopting(stage, nodes, row.planted, row.compacted))
        return made[-1]

    yield make
    for each in made:
        each.stage.clear()


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.name.replace(" ", "-"), marks=() if row.quick else pytest.mark.long) for row in ROWS],
)
def test_what_workers_learn_is_published_and_recomputed(
    row: Row, play: Callable[[Row], Adopting], record_property: Callable[[str, object], None]
) -> None:
    """Whatever strikes: each version is what one process makes of the log; a planted defect is found."""
    site = play(row)

    def act() -> None:
        for strike in row.steps:
            strike(site)

    if row.found:
        with pytest.raises(AssertionError, match=row.found):
            act()
    else:
        act()
    for kind, count in site.counts.items():
        record_property(kind, count)
