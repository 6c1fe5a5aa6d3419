"""Scorers and workers of a release beside trainers of the next one, and the other way round.

The next one is `tests.live.later`; scenarios of trainers alone are in `tests/live/scenarios_upgrade.py`.
Readers in Java and Node.js meet the same parts in `tests/interop/test_contract.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from streamsvm.kafka import Cluster, TopicSpec
from tests.consumers.trainers import produce, records, topic
from tests.deadline import eventually
from tests.live.adopting import command as worker_command
from tests.live.later import NAMES, VERSION
from tests.live.process import DEADLINE_S, Daemon, scorer
from tests.live.stage import Stage

OLD: Final = ""
KINDS: Final = tuple(NAMES)
ROWS: Final = 80
"""Of each life of a trainer: four leaves, and so two versions."""
EACH: Final[dict[str, Any]] = {"output_gate_margin": "none"}
"""Every version becomes current."""


@pytest.fixture(name="stage")
def _each_current(stage: Stage) -> Stage:
    """A trainer of a topic of its own, every version of which becomes current."""
    stage.create()
    return replace(stage, options=EACH)


def life(stage: Stage, build: str, number: int) -> None:
    """Feed what two versions are of, and run a trainer until the second of them is there."""
    stage.feed(records(ROWS, seed=number))
    daemon = stage.start(build=build)
    assert daemon.reaches_version(number), daemon.said
    assert daemon.stop() == 0, daemon.said


# ---------------------------------------------------------------- scorers


class Asked:
    """Points of a scorer's own, and what it answers."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._prefix, self._sent = stage, stage.settings.input.topic, 0
        names = (self._name("points"), self._name("points.dlq"), self._name("scores"))
        Cluster(stage.connection).create([TopicSpec(name) for name in names])

    def _name(self, what: str) -> str:
        return f"{self._prefix}-{what}"

    def scorer(self, build: str) -> Daemon:
        """Start a scorer."""
        settings, servers = self._stage.settings, self._stage.connection.servers
        topics = (settings.output.models_topic, self._name("points"), self._name("scores"))
        return self._stage.start_command(
            scorer(servers, settings.name, *topics, scoring_group=self._prefix), build=build
        )

    def answered_by(self) -> int:
        """Ask for one more score; return the number of the version that gave it."""
        produce(self._stage.connection, self._name("points"), [b'{"x": [1.0, 2.0, 3.0]}'])
        self._sent += 1
        eventually(lambda: len(self._scores()) == self._sent, "the point is scored", DEADLINE_S)
        return int(json.loads(self._scores()[-1].value or b"")["version"])

    def _scores(self) -> list[Any]:
        return topic(self._stage.connection, self._name("scores"))

    def eventually_by(self, number: int) -> None:
        """Ask until a version gives the score."""
        eventually(lambda: self.answered_by() == number, f"version {number} scores", DEADLINE_S)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_scorers_of_both_releases_beside_trainers_of_both(stage: Stage, kind: str) -> None:
    """This one's goes on, or keeps what it has and says why; the next one's reads both; no point is scored twice."""
    life(stage, OLD, 2)
    asked = Asked(stage)
    old = asked.scorer(OLD)
    asked.eventually_by(2)
    life(stage, kind, 4)
    if kind == "optional":
        asked.eventually_by(4)
    else:
        eventually(lambda: told_by(old, "'later'"), "it says what it refused", DEADLINE_S)
        assert f"Upgrade the reader to streamsvm {VERSION}" in old.said
        assert asked.answered_by() == 2
    assert old.stop() == 0, old.said
    later = asked.scorer(kind)
    asked.eventually_by(4)
    if kind == "optional":
        life(stage, OLD, 6)
        asked.eventually_by(6)
    assert later.stop() == 0, later.said


def told_by(daemon: Daemon, words: str) -> bool:
    """Return whether a process has said something by now."""
    daemon.catch_up()
    return words in daemon.said


# ---------------------------------------------------------------- workers


@pytest.fixture
def with_workers(stage: Stage) -> Stage:
    """A trainer that reads what workers of their own learned."""
    training = stage.settings.training.model_copy(update={"policy": "latest"})
    own = {"name": stage.settings.input.topic, "training": training}
    options = {"training_from_coresets": "true", **EACH}
    return replace(stage, settings=stage.settings.model_copy(update=own), options=options)


def worker(stage: Stage, build: str) -> Daemon:
    """Start the only worker of its group."""
    daemon = stage.start_command(worker_command(stage.settings, stage.connection, stage.options), build=build)
    daemon.wait_for("worker_started")
    return daemon


def covers(daemon: Daemon, rows: int) -> Callable[[], bool]:
    """Return what tells whether a trainer has published a version of all rows but an open leaf's."""

    def told() -> bool:
        daemon.catch_up()
        assert daemon.ended() is None, daemon.said
        return any(one["points"] >= rows - 20 for one in daemon.events("model_published"))

    return told


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_workers_of_both_releases_hand_over_to_trainers_of_both(with_workers: Stage, kind: str) -> None:
    """The next one's trainer takes what this one's worker learned; the other way round what may be passed over."""
    stage = with_workers
    stage.feed(records(ROWS))
    own, adopts = stage.start(build=kind), worker(stage, OLD)
    eventually(covers(own, ROWS), "the later trainer covers the rows", DEADLINE_S)
    assert [own.stop(), adopts.stop()] == [0, 0]
    if kind == "required":  # the later trainer's own checkpoint is refused, as of a trainer without workers
        for path in stage.settings.checkpoint.directory.glob("*.ssvm"):
            path.unlink()
    reset = {"reset": f"{stage.settings.name}/1"} if kind == "required" else {}
    back, later = stage.start(build=OLD, **reset), worker(stage, kind)
    stage.feed(records(ROWS, seed=1))
    if kind == "required":
        needs = "has a part of the kind 'later', which this build does not know. Use the build that wrote it, or a"
        eventually(lambda: told_by(back, needs), "the manifest is passed over", DEADLINE_S)
        assert later.stop() == 0
        later = worker(stage, OLD)
    eventually(covers(back, 2 * ROWS), "this trainer covers the rows", DEADLINE_S)
    assert [back.stop(), later.stop()] == [0, 0]
