"""Short runs on a real broker: nothing is wrong with the daemons as shipped, and planted defects are found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from tests.brokers.jvm import CannotRun
from tests.defects import LIVE
from tests.live.running import Outcome, plan_of, run
from tests.live.world import Plan

SHORT: Final[Mapping[str, Any]] = MappingProxyType(
    {"transactions": 20, "seed": 1, "bound_s": 60.0, "most_s": 120.0, "node": False, "operators": 0}
)
RUNS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "recreated": {"models": ("a", "c", "d"), "scorers": 1, "faults": 4},
        "wrong-clock": {"models": ("d",), "scorers": 0, "faults": 4},
        "kill-worker": {"models": ("e",), "scorers": 0, "faults": 4, "transactions": 8},
    }
)
PLANTED: Final = ("looks-by-the-clock-only", "believes-every-clock", "believes-its-positions", "manifest-first")


def ran(plan: Plan, directory: Path) -> Outcome:
    try:
        return run(plan, directory)
    except CannotRun as missing:
        pytest.skip(f"no broker: {missing}")


@pytest.mark.long
@pytest.mark.parametrize("nemesis", RUNS)
def test_nothing_is_wrong_with_a_short_run(nemesis: str, tmp_path: Path) -> None:
    """Topics that are made again while daemons read them, clocks that are wrong, workers that are killed."""
    outcome = ran(Plan(nemeses=(nemesis,), **{**SHORT, **RUNS[nemesis]}), tmp_path)
    assert outcome.anomalies == [], [anomaly.line() for anomaly in outcome.anomalies]
    assert outcome.faults[nemesis] >= RUNS[nemesis]["faults"]
    assert outcome.counts["versions"] >= outcome.plan.transactions


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found(name: str, tmp_path: Path) -> None:
    """What each replaces is what the short runs above are sound by."""
    short = {"transactions": 20, "bound_s": 20.0, "most_s": 120.0, "rate": 20.0}
    plan = plan_of(name, seed=1, **short, scorers=1 if LIVE[name].part == "score" else 0)
    found = {anomaly.name for anomaly in ran(plan, tmp_path).anomalies}
    assert found & set(LIVE[name].shows), found
