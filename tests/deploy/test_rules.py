"""Every alert fires when it should and is silent when it should be, by Prometheus's own rule tests; each has a runbook.

Oracle: `promtool test rules`, which evaluates the shipped rules over the series of `alerts.json`, a sample a minute.
There `{trainer}` and `{scorer}` are the labels of a target. Which alerts a state has together: `test_states.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from consumers.metrics import SCORER, TRAINER
from consumers.settings import Settings
from tests.deploy.checkers import promtool
from tests.deploy.files import DEPLOY, ROOT, RULES, parsed

History = dict[str, Any]
"""An alert, whether it fires, after how many minutes it is looked at, and series with their values."""
HISTORIES: Final[list[History]] = json.loads((Path(__file__).parent / "alerts.json").read_text())
RUNBOOK: Final = DEPLOY / "RUNBOOK.md"
TARGETS: Final = {
    "{trainer": '{instance="t:9464",job="streamsvm-trainer"',
    "{scorer": '{instance="s:9465",job="streamsvm-scorer"',
    "30*(1 0)": "1 0 " * 30,
    "30*(2000 stale)": "2000 stale " * 30,
    "31*(0 300)": "0 300 " * 31,
}


def spelled(text: str) -> str:
    """Return a series or its values as promtool takes them."""
    for short, whole in TARGETS.items():
        text = text.replace(short, whole)
    return text


def alerts() -> dict[str, dict[str, Any]]:
    """Return the shipped alerts by their names."""
    return {rule["alert"]: rule for group in parsed(RULES)["groups"] for rule in group["rules"] if "alert" in rule}


def fired(asked: Sequence[History], folder: Path, rules: Path = RULES) -> list[History]:
    """Ask promtool which alerts fire at the end of their histories; it evaluates each with what is recorded, alone."""
    files, every = [], parsed(rules)["groups"]
    for number, one in enumerate(asked):
        alert = one["alert"]
        groups = [{**group, "rules": [rule for rule in group["rules"] if rule.get("alert", alert) == alert]}
                  for group in every]  # fmt: skip
        own, test = folder / f"rules-{number}.json", folder / f"test-{number}.json"  # JSON is YAML
        own.write_text(json.dumps({"groups": [group for group in groups if group["rules"]]}))
        firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0 * {number})'
        at = {"expr": firing, "eval_time": f"{one['minutes']}m", "exp_samples": [{"labels": "{}", "value": 0}]}
        given = [{"series": spelled(name), "values": spelled(values)} for name, values in one["series"].items()]
        asks = [{"interval": "1m", "input_series": given, "promql_expr_test": [at]}]
        test.write_text(json.dumps({"rule_files": [str(own)], "evaluation_interval": "1m", "tests": asks}))
        files.append(test)
    checked = subprocess.run([promtool(), "test", "rules", *files], capture_output=True, text=True, check=False)
    said = checked.stdout + checked.stderr
    found = {int(number) for number in re.findall(r"expr: .*vector\(0 \* (\d+)\)", said)}
    assert (checked.returncode != 0) == bool(found), said
    assert len(re.findall(r"got:.*\{\} [1-9]", said)) == len(found), said
    return [one for number, one in enumerate(asked) if number in found]


def test_each_alert_fires_on_its_histories_and_on_no_harmless_one(tmp_path: Path) -> None:
    """Each has one of either, which look alike; also where a target left discovery, or a job has another name."""
    assert sorted(one["alert"] for one in HISTORIES if not one["fires"]) == sorted(alerts())
    assert {one["alert"] for one in HISTORIES if one["fires"]} == alerts().keys()
    assert fired(HISTORIES, tmp_path) == [one for one in HISTORIES if one["fires"]]


def test_no_rule_needs_a_job_of_a_certain_name() -> None:
    """A matcher of a job is only an addition, for a target that never answered."""
    named = {alert for alert, rule in alerts().items() if re.search(r"job=~?[^}]", rule["expr"])}
    assert named == {"StreamsvmTrainerDown", "StreamsvmScorerDown"}


def test_alerts_of_a_branch_that_is_off_are_silent(tmp_path: Path) -> None:
    """Prometheus evaluates them over a plain trainer's metrics, where they have no series, and they do not fire."""
    others = {one.name for of in (TRAINER, SCORER) for one in of} - {
        one.name for of in (TRAINER, SCORER) for one in of.of(Settings())
    }
    asked = {alert for alert, rule in alerts().items() if any(name in rule["expr"] for name in others)}
    assert "StreamsvmTimesAhead" in asked
    plain = {
        "up{trainer}": "1x120",
        "streamsvm_model_rows_between_cuts{trainer}": "2000x120",
        "streamsvm_model_rows_behind{trainer}": "0x120",
        'streamsvm_input_lag_records{trainer,partition="0"}': "5000x120",
        "streamsvm_input_records_total{trainer}": "0+100x120",
    }
    assert fired([{"alert": alert, "minutes": 120, "series": plain} for alert in sorted(asked)], tmp_path) == []


def test_a_planted_mistake_is_caught(tmp_path: Path) -> None:
    """A rule whose threshold lost a digit is silent where it should fire, and the test sees it."""
    wrong = tmp_path / "rules.yml"
    wrong.write_text(RULES.read_text().replace("rejected_share:rate10m > 0.05", "rejected_share:rate10m > 0.5"))
    asked = [one for one in HISTORIES if one["alert"] == "StreamsvmDeadLetters" and one["fires"]]
    assert asked
    assert fired(asked, tmp_path, wrong) == []


def test_alert_names_its_page_of_the_runbook() -> None:
    """Every alert points at a section that exists and says what it means, where to look and what to do."""
    text = RUNBOOK.read_text()
    sections = {title.lower(): body for title, body in re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^#{2,3} |\Z)", text)}
    assert sections.keys() == {alert.lower() for alert in alerts()}
    for alert, rule in alerts().items():
        page, _, heading = rule["annotations"]["runbook_url"].partition("#")
        assert (ROOT / page, heading) == (RUNBOOK, alert.lower())
        assert rule["labels"]["severity"] in {"critical", "warning"}
        missing = [part for part in ("**Means.**", "**Look.**", "**Do.**") if part not in sections[alert.lower()]]
        assert missing == [], alert
