"""What a scenario is, and how one is run: steps upon daemons and their broker, an expected end, and a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, Final, Literal, Protocol

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Connection
from tests.deadline import Late
from tests.live.cluster import Brokers
from tests.live.history import Recorder
from tests.live.play import Play
from tests.live.stage import Stage
from tests.live.strikes import nothing_more

LATE: Final = (Late, TimeoutExpired, pytest.fail.Exception)
"""What is raised where a deadline is missed: ours, that of a process, pytest-timeout's."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A row of the matrix.

    `name`: A sentence: what holds. `steps`: Workload and strikes, in their order; see `strikes`, `scoring` and
    `adopting`. Topics are empty at first. `end`: What must have come of it; it is judged after that. `on` ("shared",
    "own", "three" or "forgetful"): The broker of all tests, one that may be ill-treated and stands behind a proxy,
    three such, or one that soon forgets a transactional id. `planted`: What is changed in each process: disturbances,
    such as `steady`, and defects. `found`: What the failure says by which a planted defect is found; empty where
    nothing may fail. `options`: Options of each process on top of the settings, underscores for dashes. `but`:
    Anomalies that are none here. `quick`: Whether `make test` runs it.
    """

    name: str
    steps: tuple[Callable[[Any], None], ...]
    end: Callable[[Any], None] = nothing_more
    on: Literal["shared", "own", "three", "forgetful"] = "shared"
    planted: tuple[str, ...] = ()
    found: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    but: frozenset[str] = frozenset()
    quick: bool = False

    @property
    def id(self) -> str:
        """Its name as that of a test."""
        return "-".join(self.name.replace(",", "").replace("'", "").split())

    def spoilt(self, name: str, *planted: str, found: str) -> Scenario:
        """Return the same scenario with a defect in each process, which must be found."""
        return replace(self, name=name, planted=planted, found=found, but=frozenset(), quick=False)


class Site(Protocol):
    """What the steps of a scenario act upon."""

    counts: Counter[str]

    def judge(self, but: frozenset[str] = frozenset()) -> None:
        """Fail where anything is wrong; `but` names anomalies that are none here."""

    def end_all(self) -> None:
        """End every process, and see that brokers and network are well, whatever was done to them."""


def rows(scenarios: Iterable[Scenario]) -> list[Any]:
    """Return the cases of a test."""
    return [pytest.param(one, id=one.id, marks=() if one.quick else pytest.mark.long) for one in scenarios]


def play_out(scenario: Scenario, play: Site, record: Callable[[str, object], None] = lambda *_: None) -> None:
    """Take the steps, have it judged, and record what was counted.

    Raises `AssertionError` where anything is wrong; where a defect is planted, if it is not found.
    """
    try:
        if scenario.found:
            with pytest.raises(AssertionError, match=scenario.found):
                _act(scenario, play)
        else:
            _act(scenario, play)
        for kind, count in play.counts.items():
            record(kind, count)
    finally:
        play.end_all()


def _act(scenario: Scenario, play: Site) -> None:
    """Take the steps, and judge; where a step misses a deadline, let the checker judge what was recorded until then.

    `tests.again` may forgive a missed deadline, an anomaly never: so an anomaly is raised in its place.
    """
    try:
        for act in (*scenario.steps, scenario.end):
            act(play)
    except LATE:
        if not scenario.found and isinstance(play, Play):
            play.judge_unfinished(scenario.but)
        raise
    play.judge(scenario.but)


def run(
    scenario: Scenario,
    settings: Settings,
    brokers: Brokers | Connection,
    directory: Path,
    record: Callable[[str, object], None] = lambda *_: None,
) -> None:
    """Play a scenario of trainers, behind the network where there is one."""
    if isinstance(brokers, Connection):
        through = direct = brokers
    else:
        direct, through = (
            Connection(options={"bootstrap.servers": servers}, request_timeout_s=10.0)
            for servers in (brokers.direct, brokers.through)
        )
    recorder = Recorder(directory / "history.jsonl")
    own = None if isinstance(brokers, Connection) else brokers
    play = Play(Stage(through, settings, scenario.options), direct, directory, recorder, own, scenario.planted)
    try:
        play.create()
        play_out(scenario, play, record)
    finally:
        recorder.close()
