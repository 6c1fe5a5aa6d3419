"""Every state in which a user would call somebody has its alert within ten minutes, and no other; health has none.

Oracle: `promtool test rules` with all shipped rules over the series of `states.json`, a sample a minute. For each
daemon `healthy` has what its series begin with and gain a minute. A state changes some from minute `begins` on: `+k`
goes on by k a minute, `a+k` does so from a, a number stays, `stale` ends, several values are the values themselves; `*`
stands for all others. What daemons show was recorded live where the state says so, else it is read from their code.
States lie side by side, each with jobs of its own; `alone` is one in which a rule looks at the targets of all jobs.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from consumers.metrics import PROCESS, SCORER, TRAINER, other_daemons
from tests.deploy.checkers import promtool
from tests.deploy.files import RULES, selectors, series

State = dict[str, Any]
TABLE: Final = json.loads((Path(__file__).parent / "states.json").read_text())
HEALTHY: Final[dict[str, dict[str, list[float]]]] = TABLE["healthy"]
STATES: Final[list[State]] = TABLE["states"]
BEGINS: Final = 70
"""Minutes of health before a state, unless it has its own."""
LASTS: Final = 130
WITHIN: Final = 10
"""Minutes until the alert, unless a state has its own."""


def values(healthy: list[float], begins: int, change: str) -> str:
    """Return a series as promtool takes it; an empty change is none."""
    start, gain = healthy
    before = f"{start:.10g}+{gain:.10g}x{begins - 1}" if begins else ""
    newest = start + gain * max(begins - 1, 0)
    if not change:
        after = f"{start + gain * begins:.10g}+{gain:.10g}x{LASTS}"
    elif " " in change or change == "stale":
        after = change
    elif change == "NaN":  # promtool repeats numbers only
        after = " ".join([change] * LASTS)
    elif change.startswith("+"):
        after = f"{newest:.10g}{change}x{LASTS}"
    else:
        after = f"{change}x{LASTS}"
    return f"{before} {after}".strip()


def history(state: State, number: int) -> list[dict[str, str]]:
    """Return the series of a state's daemons before and during it; `trainer2` is another trainer, which begins then."""
    begins, then, found = state.get("begins", BEGINS), state["then"], []
    for daemon, changes in sorted(then.items()):
        kind = daemon.rstrip("2")
        assert changes.keys() <= {*HEALTHY[kind], "*"}, changes
        target = f'job="streamsvm-{kind}-{number}",instance="{daemon}:9464"'
        for name, healthy in HEALTHY[kind].items():
            metric, _, more = name.partition("{")
            labels = ",".join(filter(None, [target, more.rstrip("}")]))
            told = values(healthy, begins, changes.get(name, changes.get("*", "")))
            if daemon != kind:
                told = f"_x{begins} {told.partition(' ')[2]}"
            found.append({"series": f"{metric}{{{labels}}}", "values": told})
    return found


def asked(state: State, number: int) -> list[dict[str, Any]]:
    """Return what promtool asks: whether a state has its alert, and no other, in time and ever after."""
    begins, alert = state.get("begins", BEGINS), state["alert"]
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    firing = f'ALERTS{{alertstate="firing",job=~"|.*-{number}"}}'
    ever = f"last_over_time({firing}[{begins + LASTS}m])"
    return [
        {"expr": f"group by (alertname) ({found})", "eval_time": f"{begins + minutes}m", "exp_samples": expected}
        for found, minutes in ((firing, state.get("within", WITHIN)), (ever, LASTS))
    ]


def wrong(states: list[State], folder: Path, rules: Path = RULES) -> dict[str, str]:
    """Return what promtool finds wrong, by state; evaluating costs by the run, hardly by the series."""
    numbered = [*enumerate(states)]
    together = [(number, state) for number, state in numbered if "alone" not in state]
    runs = [together, *([one] for one in numbered if one not in together)]
    tests = [
        {
            "interval": "1m",
            "input_series": [series for number, state in run for series in history(state, number)],
            "promql_expr_test": [query for number, state in run for query in asked(state, number)],
        }
        for run in runs
    ]
    file = folder / "states.json"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True, check=False)
    said, found = done.stdout + done.stderr, dict[str, str]()
    for fault, number in re.findall(r"(expr: .*-(\d+)\\\"\}.*\n +exp: .*\n +got: .*)", said):
        name = states[int(number)]["state"]
        found[name] = f"{found.get(name, '')}{fault}\n"
    assert (done.returncode != 0) == bool(found), said
    return found


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is wrong with the states, by state."""
    return wrong(STATES, tmp_path_factory.mktemp("states"))


@pytest.mark.parametrize("state", [state["state"] for state in STATES])
def test_a_state_has_its_alert_in_time_and_no_other(state: str, faults: dict[str, str]) -> None:
    """A healthy one has none, from its first minute to its last."""
    assert faults.get(state, "") == ""


def test_a_cause_that_is_not_named_is_caught(tmp_path: Path) -> None:
    """Without its `unless`, a rule fires beside the cause, and the test sees it in that state only."""
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.read_text().replace("unless on (job, instance) ALERTS{", "unless on (job, instance) NONE{"))
    names = ("a quota throttles both to a standstill", "nothing is wrong")
    found = wrong([state for state in STATES if state["state"] in names], tmp_path, rules)
    assert found.keys() == {names[0]}
    assert "StreamsvmNotReady" in found[names[0]]


def test_daemons_have_the_series_of_the_states() -> None:
    """Every series of the table is one that the daemon declares."""
    declared = {"trainer": tuple(TRAINER), "adopter": tuple(TRAINER), "scorer": tuple(SCORER)}
    declared |= {one.title.lower(): one.definitions for one in other_daemons()}
    for daemon, healthy in HEALTHY.items():
        known = {name: labels for one in (*declared[daemon], *PROCESS) for name, labels in series(one).items()}
        for name in healthy.keys() - {"up"}:
            ((metric, labels),) = selectors(name).items()
            assert labels <= known[metric], name
