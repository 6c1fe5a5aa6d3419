"""Every state in which a user would call somebody has its alert within ten minutes, and no other; health has none.

Oracle: `promtool test rules` with all shipped rules over the series of `states.json`, a sample a minute. For each
daemon `healthy` has what its series begin with and gain a minute. A state changes some from minute `begins` on: `+k`
goes on by k a minute, `a+k` does so from a, a number stays, `stale` ends, several values are the values themselves; `*`
stands for all others. What daemons show was recorded live where the state says so, else it is read from their code.
"""

from __future__ import annotations

import json
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


def history(state: State) -> list[dict[str, str]]:
    """Return the series of all daemons before and during a state; `trainer2` is another trainer, which begins then."""
    begins, then, found = state.get("begins", BEGINS), state["then"], []
    for daemon in sorted(HEALTHY.keys() | then.keys()):
        kind, changes = daemon.rstrip("2"), then.get(daemon, {})
        assert changes.keys() <= {*HEALTHY[kind], "*"}, changes
        for name, healthy in HEALTHY[kind].items():
            metric, _, more = name.partition("{")
            labels = ",".join(filter(None, [f'job="streamsvm-{kind}",instance="{daemon}:9464"', more.rstrip("}")]))
            told = values(healthy, begins, changes.get(name, changes.get("*", "")))
            if daemon != kind:
                told = f"_x{begins} {told.partition(' ')[2]}"
            found.append({"series": f"{metric}{{{labels}}}", "values": told})
    return found


def said(state: State, folder: Path, rules: Path = RULES) -> str:
    """Return what promtool finds wrong if a state has exactly its alert, within ten minutes and ever after."""
    begins, alert = state.get("begins", BEGINS), state["alert"]
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    firing = 'ALERTS{alertstate="firing"}'
    asked = [
        {"expr": f"group by (alertname) ({firing})", "eval_time": f"{begins + WITHIN}m", "exp_samples": expected},
        {
            "expr": f"group by (alertname) (last_over_time({firing}[{begins + LASTS}m]))",
            "eval_time": f"{begins + LASTS}m",
            "exp_samples": expected,
        },
    ]
    tests = [{"interval": "1m", "input_series": history(state), "promql_expr_test": asked}]
    file = folder / "states.json"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("state", STATES, ids=[state["state"] for state in STATES])
def test_a_state_has_its_alert_within_ten_minutes_and_no_other(state: State, tmp_path: Path) -> None:
    """A healthy one has none, from its first minute to its last."""
    assert said(state, tmp_path) == ""


def test_a_cause_that_is_not_named_is_caught(tmp_path: Path) -> None:
    """Without its `unless`, a rule fires beside the cause, and the test sees it."""
    wrong = tmp_path / "rules.yml"
    wrong.write_text(RULES.read_text().replace("unless on (job, instance) ALERTS{", "unless on (job, instance) NONE{"))
    (throttled,) = (state for state in STATES if state["state"] == "a quota throttles both to a standstill")
    assert "StreamsvmNotReady" in said(throttled, tmp_path, wrong)


def test_daemons_have_the_series_of_the_states() -> None:
    """Every series of the table is one that the daemon declares."""
    declared = {"trainer": tuple(TRAINER), "adopter": tuple(TRAINER), "scorer": tuple(SCORER)}
    declared |= {one.title.lower(): one.definitions for one in other_daemons()}
    for daemon, healthy in HEALTHY.items():
        known = {name: labels for one in (*declared[daemon], *PROCESS) for name, labels in series(one).items()}
        for name in healthy.keys() - {"up"}:
            ((metric, labels),) = selectors(name).items()
            assert labels <= known[metric], name
