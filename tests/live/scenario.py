"""What a scenario is, and how one is run: steps upon a trainer and its broker, an expected end, and the checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Final, Literal

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Connection
from tests.deadline import Late
from tests.live.cluster import Brokers
from tests.live.history import Recorder
from tests.live.play import Play
from tests.live.stage import Stage
from tests.live.strikes import Step

LATE: Final = (Late, TimeoutExpired, pytest.fail.Exception)
"""What is raised where a deadline is missed: ours, that of a process, pytest-timeout's."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A row of the matrix.

    Attributes
    ----------
    name : str
        A sentence: what holds.
    steps : tuple of Step
        Workload and strikes, in their order; see `tests.live.strikes`. The input is empty at first.
    end : Step
        What must have come of it; the checker judges after it.
    on : "shared", "own", "three" or "forgetful"
        The broker of all tests, one that may be ill-treated and stands behind a proxy, three such, or one that soon
        forgets a transactional id.
    planted : tuple of str
        What is changed in each process: disturbances, such as `steady`, and defects.
    found : str
        What the failure says by which a planted defect is found; empty where nothing may fail.
    options : mapping
        Options of each process on top of the settings, underscores for dashes.
    partitions : int
        Of the input.
    but : frozenset of str
        Anomalies that are none here.
    quick : bool
        Whether `make test` runs it.
    """

    name: str
    steps: tuple[Step, ...]
    end: Step
    on: Literal["shared", "own", "three", "forgetful"] = "shared"
    planted: tuple[str, ...] = ()
    found: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    partitions: int = 1
    but: frozenset[str] = frozenset()
    quick: bool = False

    @property
    def id(self) -> str:
        """Its name as that of a test."""
        return "-".join(self.name.replace(",", "").replace("'", "").split())


def run(scenario: Scenario, settings: Settings, brokers: Brokers | Connection, directory: Path) -> Counter[str]:
    """Play a scenario, have it judged, and return what was counted; raises AssertionError where anything is wrong."""
    with _play(scenario, settings, brokers, directory) as play:
        play.create(scenario.partitions)
        if scenario.found:
            with pytest.raises(AssertionError, match=scenario.found):
                _act(scenario, play)
        else:
            _act(scenario, play)
        return play.counts


def _act(scenario: Scenario, play: Play) -> None:
    """Take the steps, and judge; where a step misses a deadline, let the checker judge what was recorded until then.

    `tests.again` may forgive a missed deadline, an anomaly never: so an anomaly is raised in its place.
    """
    missed: BaseException | None = None
    try:
        for act in (*scenario.steps, scenario.end):
            act(play)
    except LATE as late:
        missed = late
    if missed is None:
        play.judge(scenario.but)
        return
    if not scenario.found:
        play.judge_unfinished(scenario.but)
    raise missed


@contextmanager
def _play(scenario: Scenario, settings: Settings, brokers: Brokers | Connection, directory: Path) -> Iterator[Play]:
    """Set the stage; processes end, and brokers and network are well again, whatever comes."""
    recorder = Recorder(directory / "history.jsonl")
    if isinstance(brokers, Connection):
        stage = Stage(brokers, settings, scenario.options)
        play = Play(stage, brokers, directory, recorder, planted=scenario.planted)
    else:
        direct, through = (
            Connection(options={"bootstrap.servers": servers}, request_timeout_s=10.0)
            for servers in (brokers.direct, brokers.through)
        )
        stage = Stage(through, settings, scenario.options)
        play = Play(stage, direct, directory, recorder, brokers, scenario.planted)
    try:
        yield play
    finally:
        play.end_all()
        recorder.close()
