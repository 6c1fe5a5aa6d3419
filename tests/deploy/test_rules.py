"""Every alert fires when it should and is silent when it should be, by Prometheus's own rule tests; each has a runbook.

Oracle: `promtool test rules`, which evaluates the shipped rules over series that are written down here.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from consumers.metrics import SCORER as SCORER_METRICS, TRAINER as TRAINER_METRICS
from consumers.settings import Settings
from tests.deploy.checkers import promtool
from tests.deploy.files import DEPLOY, ROOT, RULES, parsed

RUNBOOK = DEPLOY / "RUNBOOK.md"
TRAINER = 'instance="t:9464",job="streamsvm-trainer"'
SCORER = 'instance="s:9465",job="streamsvm-scorer"'


@dataclass(frozen=True)
class Case:
    """One alert over two histories, each a sample a minute from 0 on; after `minutes` it fires in the one only.

    Attributes
    ----------
    firing, silent : mapping of a series to its values
        In promtool's notation.
    minutes : int
    """

    firing: dict[str, str]
    silent: dict[str, str]
    minutes: int = 60


def trainer(name: str, *labels: str) -> str:
    return f"{name}{{{','.join((TRAINER, *labels))}}}"


def scorer(name: str, *labels: str) -> str:
    return f"{name}{{{','.join((SCORER, *labels))}}}"


def latency(up_to: str) -> str:
    return scorer("streamsvm_score_latency_seconds_bucket", f'le="{up_to}"')


History = tuple[str, dict[str, str], int]
"""An alert, series with their values, and after how many minutes it is looked at."""
RECORDS, LAG = trainer("streamsvm_input_records_total"), trainer("streamsvm_input_lag_records", 'partition="0"')
OPEN = trainer("streamsvm_input_open_transaction_records", 'partition="0"')
MANIFEST = trainer("streamsvm_coresets_manifest_timestamp_seconds", 'partition="0"')
HEADROOM = trainer("streamsvm_input_headroom_records", 'partition="0"')
ACCEPTED = trainer("streamsvm_input_rows_total", 'outcome="accepted"')
REJECTED = trainer("streamsvm_input_rows_total", 'outcome="rejected"')
BEHIND, BETWEEN = trainer("streamsvm_model_rows_behind"), trainer("streamsvm_model_rows_between_cuts")
BUSY, RUNNING = trainer("streamsvm_training_seconds_sum"), trainer("streamsvm_training_running_seconds")
LONGEST_TURN = trainer("streamsvm_loop_longest_turn_seconds")
CONVERGED = trainer("streamsvm_trainings_total", 'outcome="converged"')
LIMITED = trainer("streamsvm_trainings_total", 'outcome="iteration_limit"')
WRITTEN = trainer("streamsvm_checkpoint_timestamp_seconds")
RESIDENT, STARTED = trainer("process_resident_memory_bytes"), trainer("process_start_time_seconds")
OBJECTIVE = trainer("streamsvm_model_objective")
PASSED, REFUSED = (trainer("streamsvm_gate_verdicts_total", f'outcome="{said}"') for said in ("passed", "refused"))
AUDIT_LOW, AUDIT_HIGH = (trainer("streamsvm_audit_objective", f'end="{end}"') for end in ("low", "high"))


PUBLISHED = trainer("streamsvm_model_published_timestamp_seconds")
STEPS = " ".join(str(300 * (1 + minute // 5)) for minute in range(240))
SERVING = scorer("streamsvm_serving_version")
BETWEEN_CUTS = "streamsvm_model_rows_between_cuts"


def other(name: str) -> str:
    """Return a series of another trainer in the same job."""
    return f'{name}{{instance="other:9464",job="streamsvm-trainer"}}'


def balanced(who: str) -> str:
    return trainer("streamsvm_prequential_balanced_accuracy", f'scorer="{who}"')


def accuracy(who: str) -> str:
    return trainer("streamsvm_prequential_accuracy", f'scorer="{who}"')


CASES = {
    "StreamsvmTargetGone": Case(
        {
            trainer("up"): "1x100 stale",
            BETWEEN: "2000x100 stale",
            other("up"): "1x120",
            other(BETWEEN_CUTS): "2000x120",
        },
        # it restarts, at another address, and does not answer for a while
        {
            trainer("up"): "1x60 0x10 stale",
            BETWEEN: "2000x60 stale",
            other("up"): "_x72 1x60",
            other(BETWEEN_CUTS): "_x73 2000x60",
        },
        120,
    ),
    "StreamsvmTargetFlapping": Case(
        {trainer("up"): "1 0 " * 30, BETWEEN: "2000 stale " * 30},
        # away once, for some minutes
        {trainer("up"): "1x45 0x5 1x10", BETWEEN: "2000x60"},
    ),
    "StreamsvmModelOld": Case(
        # a version each five minutes, then the trainer is gone
        {PUBLISHED: STEPS + " stale", BEHIND: "0x240 stale", BETWEEN: "2000x240 stale"},
        # its input rests
        {PUBLISHED: STEPS + f" {STEPS.split()[-1]}x120", BEHIND: "500x360", BETWEEN: "2000x360"},
        360,
    ),
    "StreamsvmTrainerDown": Case({trainer("up"): "1x20 0x40"}, {trainer("up"): "1x20 0 1x40"}),
    "StreamsvmLagGrowing": Case(
        {RECORDS: "0+6000x60", LAG: "0+3000x60"},
        # far behind and catching up; that is what a restart looks like
        {RECORDS: "0+6000x60", LAG: "500000-3000x60"},
    ),
    "StreamsvmOpenTransaction": Case(
        {OPEN: "0x20 300x40"},
        # transactions come and go
        {OPEN: "0 300 " * 31},
    ),
    "StreamsvmRetentionNear": Case(
        {HEADROOM: "100000-1500x60", LAG: "5000x60"},
        # everything is read: retention then removes what nobody needs
        {HEADROOM: "100000-1500x60", LAG: "0x60"},
    ),
    "StreamsvmModelStale": Case(
        {BEHIND: "0+2000x60", BETWEEN: "2000x60", RECORDS: "0+2000x60"},
        # no input: there is nothing to be stale against
        {BEHIND: "9000x60", BETWEEN: "2000x60", RECORDS: "80000x60"},
    ),
    "StreamsvmTrainingSaturated": Case({BUSY: "0+58x60"}, {BUSY: "0+20x60", RUNNING: "30x60"}),
    "StreamsvmLoopHeldUp": Case({LONGEST_TURN: "12x60"}, {LONGEST_TURN: "0.1x50 80 80 0.1x8"}),
    "StreamsvmTrainingUnfinished": Case(
        {LIMITED: "0+2x60", CONVERGED: "0+1x60"}, {LIMITED: "0x30 1x30", CONVERGED: "0+1x60"}
    ),
    "StreamsvmPublishRefused": Case(
        {trainer("streamsvm_publishes_total", 'outcome="refused"'): "0x50 1x10"},
        {trainer("streamsvm_publishes_total", 'outcome="refused"'): "1x60"},
    ),
    "StreamsvmProducerRenewing": Case(
        {trainer("streamsvm_producer_renewals_total"): "0+1x60"}, {trainer("streamsvm_producer_renewals_total"): "2x60"}
    ),
    "StreamsvmReadersHeldUp": Case(
        {trainer("streamsvm_output_held_up_seconds"): "0x50 60+60x10"},
        {trainer("streamsvm_output_held_up_seconds"): "0x20 5 10 20 0x30"},
    ),
    "StreamsvmCheckpointStale": Case(
        {WRITTEN: "0x60", RECORDS: "0+100x60"},
        # it is written while input flows
        {WRITTEN: "0+60x60", RECORDS: "0+100x60"},
    ),
    "StreamsvmCheckpointFailing": Case(
        {trainer("streamsvm_checkpoint_failures_total"): "0x50 0+1x10"},
        {trainer("streamsvm_checkpoint_failures_total"): "3x60"},
    ),
    "StreamsvmDeadLetters": Case(
        {ACCEPTED: "0+900x60", REJECTED: "0+100x60"}, {ACCEPTED: "0+990x60", REJECTED: "0+10x60"}
    ),
    "StreamsvmUndecodable": Case(
        {trainer("streamsvm_dead_letters_total", 'reason="undecodable"'): "0x50 1x10"},
        {
            trainer("streamsvm_dead_letters_total", 'reason="undecodable"'): "1x60",
            trainer("streamsvm_dead_letters_total", 'reason="malformed_json"'): "0+1x60",
        },
    ),
    "StreamsvmTimesAhead": Case(
        {trainer("streamsvm_join_times_ahead_total", 'log="labels"'): "0x50 1x10"},
        {trainer("streamsvm_join_times_ahead_total", 'log="labels"'): "3x60"},
    ),
    "StreamsvmRestarting": Case(
        {STARTED: "0x39 0+300x20", BETWEEN: "2000x60"}, {STARTED: "0x30 1800x10 3000x20", BETWEEN: "2000x60"}
    ),
    "StreamsvmMostlyRejected": Case(
        {trainer("streamsvm_input_mostly_rejected"): "0x50 1x10"},
        {trainer("streamsvm_input_mostly_rejected"): "1x50 0x10"},
    ),
    "StreamsvmMemoryGrowing": Case(
        {RESIDENT: "300000000+1000000x600", STARTED: "0x600", BETWEEN: "2000x600"},
        {RESIDENT: "300000000x600", STARTED: "0x600", BETWEEN: "2000x600"},
        599,
    ),
    "StreamsvmManifestsLate": Case(
        {MANIFEST: "0x60", LAG: "100x60", BETWEEN: "2000x60"},
        # all is read; or a manifest comes each minute
        {MANIFEST: "0x60", LAG: "0x60", BETWEEN: "2000x60"},
    ),
    "StreamsvmWorseThanBaseline": Case(
        {balanced("model"): "0.8x60", balanced("sgd"): "0.85x60"},
        {balanced("model"): "0.84x60", balanced("sgd"): "0.85x60"},
    ),
    "StreamsvmWorseThanMajority": Case(
        {accuracy("model"): "0.8x60", accuracy("majority"): "0.9x60", trainer("streamsvm_class_weighted"): "0x60"},
        # class weights ask for a lower plain accuracy
        {accuracy("model"): "0.8x60", accuracy("majority"): "0.9x60", trainer("streamsvm_class_weighted"): "1x60"},
    ),
    "StreamsvmNoSkill": Case(
        {trainer("streamsvm_model_skill"): "1x20 -1x40", trainer("streamsvm_model_labels_never_answered"): "0x60"},
        # not clear yet: that is no reason to wake anybody
        {trainer("streamsvm_model_skill"): "0x60", trainer("streamsvm_model_labels_never_answered"): "0x60"},
    ),
    "StreamsvmLabelsMissing": Case(
        {trainer("streamsvm_model_labels_missing"): "0x20 1x100"},
        # the label came
        {trainer("streamsvm_model_labels_missing"): "1x40 0x80"},
        120,
    ),
    "StreamsvmGateHolds": Case(
        {PASSED: "0+1x10 10x180", REFUSED: "0x10 0+1x180"},
        # one in three is refused: that is what the gate is there for
        {PASSED: "0+2x190", REFUSED: "0+1x190"},
        150,
    ),
    "StreamsvmCoresetDegraded": Case(
        {trainer("streamsvm_coreset_reductions", 'outcome="shifted"'): "0x50 1x10"},
        {
            trainer("streamsvm_coreset_reductions", 'outcome="shifted"'): "1x60",
            trainer("streamsvm_coreset_reductions", 'outcome="calibrated"'): "0+1x60",
        },
    ),
    "StreamsvmShortHorizons": Case(
        {trainer("streamsvm_memory_short_share"): "0.1x30 0.9x30"},
        {trainer("streamsvm_memory_short_share"): "0.4x60"},
    ),
    "StreamsvmAuditDisagrees": Case(
        {OBJECTIVE: "10x60", AUDIT_LOW: "20x60", AUDIT_HIGH: "40x60"},
        {OBJECTIVE: "19x60", AUDIT_LOW: "20x60", AUDIT_HIGH: "40x60"},
    ),
    "StreamsvmScorerDown": Case({scorer("up"): "1x20 0x40"}, {scorer("up"): "1x60"}),
    "StreamsvmScorerWithoutModel": Case(
        {scorer("streamsvm_serving_version"): "0x60"}, {scorer("streamsvm_serving_version"): "0x3 1+1x60"}
    ),
    "StreamsvmModelMessageRefused": Case(
        {scorer("streamsvm_model_messages_refused_total"): "0x50 1x10"},
        {scorer("streamsvm_model_messages_refused_total"): "2x60"},
    ),
    "StreamsvmScoresLate": Case(
        {latency("60.0"): "0+90x60", latency("300.0"): "0+100x60", latency("+Inf"): "0+100x60"},
        {latency("60.0"): "0+96x60", latency("300.0"): "0+100x60", latency("+Inf"): "0+100x60"},
    ),
    "StreamsvmScoresDrifted": Case(
        {scorer("streamsvm_score_drift"): "0.1x30 0.3x30", scorer("streamsvm_score_drift_chance"): "0.02x60"},
        # so few scores that chance may do it
        {scorer("streamsvm_score_drift"): "0.3x60", scorer("streamsvm_score_drift_chance"): "0.4x60"},
    ),
}


TOLD = {
    "StreamsvmTargetGone": [
        # nothing of ours is scraped, and never was
        {'up{job="other",instance="o"}': "1x60"},
        # the job of the only trainer has another name from now on: the old one is gone
        {
            trainer("up"): "1x60 stale",
            BETWEEN: "2000x60 stale",
            'up{instance="t:9464",job="svm"}': "_x60 1x60",
            'streamsvm_model_rows_between_cuts{instance="t:9464",job="svm"}': "_x60 2000x60",
        },
        # all scorers are gone
        {BETWEEN: "2000x120", trainer("up"): "1x120", scorer("up"): "1x60 stale", SERVING: "3x60 stale"},
    ],
    "StreamsvmModelOld": [
        # the trainer answers, rows wait, and no version comes
        {PUBLISHED: STEPS + f" {STEPS.split()[-1]}x120", BEHIND: "9000x360", BETWEEN: "2000x360"},
    ],
    "StreamsvmTrainerDown": [
        {'up{job="svm",instance="a"}': "1x20 0x100", BETWEEN_CUTS + '{job="svm",instance="a"}': "2000x20 stale"}
    ],
    "StreamsvmScorerDown": [
        {'up{job="svm",instance="a"}': "1x20 0x100", 'streamsvm_serving_version{job="svm",instance="a"}': "3x20 stale"}
    ],
}
"""Alerts that fire on more histories than one, such as those of a job of any name."""


SHARED = {
    "StreamsvmLagGrowing": {
        scorer("streamsvm_input_records_total", 'partition="0"'): "0+6000x60",
        scorer("streamsvm_input_lag_records", 'partition="0"'): "0+3000x60",
    },
    "StreamsvmDeadLetters": {
        scorer("streamsvm_input_rows_total", 'outcome="accepted"'): "0+900x60",
        scorer("streamsvm_input_rows_total", 'outcome="rejected"'): "0+100x60",
    },
    "StreamsvmMostlyRejected": {scorer("streamsvm_input_mostly_rejected"): "0x50 1x10"},
}
"""Alerts that hold for scorers, too, each with a scorer's history on which it fires."""


def of_branches() -> set[str]:
    """Return the alerts that need a metric which a plain trainer and a plain scorer have not."""
    plain = {one.name for of in (TRAINER_METRICS, SCORER_METRICS) for one in of.of(Settings())}
    others = {one.name for of in (TRAINER_METRICS, SCORER_METRICS) for one in of} - plain
    return {alert for alert, rule in alerts().items() if any(name in rule["expr"] for name in others)}


def alerts() -> dict[str, dict[str, Any]]:
    rules = [rule for group in parsed(RULES)["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def fired(asked: Sequence[History], folder: Path, rules: Path = RULES) -> list[History]:
    """Ask promtool which alerts fire at the end of their histories; it evaluates each with what is recorded, alone."""
    files, every = [], parsed(rules)["groups"]
    for number, (alert, series, minutes) in enumerate(asked):
        groups = [
            {**group, "rules": [one for one in group["rules"] if one.get("alert", alert) == alert]} for group in every
        ]
        own, test = folder / f"rules-{number}.json", folder / f"test-{number}.json"  # JSON is YAML
        own.write_text(json.dumps({"groups": [group for group in groups if group["rules"]]}))
        firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0 * {number})'
        expected = {"expr": firing, "eval_time": f"{minutes}m", "exp_samples": [{"labels": "{}", "value": 0}]}
        given = [{"series": name, "values": values} for name, values in series.items()]
        asks = [{"interval": "1m", "input_series": given, "promql_expr_test": [expected]}]
        test.write_text(json.dumps({"rule_files": [str(own)], "evaluation_interval": "1m", "tests": asks}))
        files.append(test)
    checked = subprocess.run([promtool(), "test", "rules", *files], capture_output=True, text=True, check=False)
    said = checked.stdout + checked.stderr
    found = {int(number) for number in re.findall(r"expr: .*vector\(0 \* (\d+)\)", said)}
    assert (checked.returncode != 0) == bool(found), said
    assert len(re.findall(r"got:.*\{\} [1-9]", said)) == len(found), said
    return [one for number, one in enumerate(asked) if number in found]


def test_every_alert_has_its_histories() -> None:
    """No alert is added without saying when it fires and when it does not."""
    assert alerts().keys() == CASES.keys()


def test_each_alert_fires_on_its_histories(tmp_path: Path) -> None:
    """On those that it is made for; also where a target left discovery, a job has a name of its own, or of a scorer."""
    asked = [(alert, case.firing, case.minutes) for alert, case in CASES.items()]
    for alert, histories in TOLD.items():
        asked += [(alert, series, 360 if alert == "StreamsvmModelOld" else 120) for series in histories]
    asked += [(alert, series, 60) for alert, series in SHARED.items()]
    found = fired(asked, tmp_path)
    assert [one for one in asked if one not in found] == []


def test_each_alert_is_silent_on_a_history_that_is_harmless(tmp_path: Path) -> None:
    """Although it looks alike."""
    assert fired([(alert, case.silent, case.minutes) for alert, case in CASES.items()], tmp_path) == []


def test_no_rule_needs_a_job_of_a_certain_name() -> None:
    """A matcher of a job is only an addition, for a target that never answered."""
    for alert, rule in alerts().items():
        named = re.findall(r"job=~?[^}]*", rule["expr"])
        assert not named or alert in ("StreamsvmTrainerDown", "StreamsvmScorerDown"), alert


def test_alerts_of_a_branch_that_is_off_are_silent(tmp_path: Path) -> None:
    """Prometheus evaluates them over a plain trainer's metrics, where they have no series, and they do not fire."""
    asked = of_branches()
    assert {"StreamsvmTimesAhead", "StreamsvmManifestsLate"} <= asked
    plain = {trainer("up"): "1x120", BETWEEN: "2000x120", BEHIND: "0x120", LAG: "5000x120", RECORDS: "0+100x120"}
    assert fired([(alert, plain, 120) for alert in sorted(asked)], tmp_path) == []


def test_a_planted_mistake_is_caught(tmp_path: Path) -> None:
    """A rule whose threshold lost a digit is silent where it should fire, and the test sees it."""
    wrong = tmp_path / "rules.yml"
    wrong.write_text(RULES.read_text().replace("rejected_share:rate10m > 0.05", "rejected_share:rate10m > 0.5"))
    case = CASES["StreamsvmDeadLetters"]
    assert fired([("StreamsvmDeadLetters", case.firing, case.minutes)], tmp_path, wrong) == []


def test_alert_names_its_page_of_the_runbook() -> None:
    """Every alert points at a section that exists and says what it means, where to look and what to do."""
    text = RUNBOOK.read_text()
    sections = {title.lower(): body for title, body in re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^#{2,3} |\Z)", text)}
    assert sections.keys() == {alert.lower() for alert in alerts()}
    for alert, rule in alerts().items():
        page, _, heading = rule["annotations"]["runbook_url"].partition("#")
        assert (ROOT / page, heading) == (RUNBOOK, alert.lower())
        assert rule["labels"]["severity"] in {"critical", "warning"}
        for part in ("**Means.**", "**Look.**", "**Do.**"):
            assert part in sections[alert.lower()], f"{alert} has no {part}"


def test_without_promtool_the_continuous_integration_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere such a test is skipped, and the end of the run says so."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt install prometheus"):
        promtool()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with pytest.raises(pytest.fail.Exception, match="apt install prometheus"):
        promtool()
