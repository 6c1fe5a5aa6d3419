"""Writes the dashboard: `python deploy/grafana/generate.py` after a change here or in `streamsvm.metrics`.

A panel names its metrics; what it says about them is what `streamsvm.metrics` says. The test suite compares the file
with what this program makes, and checks every query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from streamsvm.metrics import TRAINER

DASHBOARD: Final = Path(__file__).parent / "dashboards" / "streamsvm.json"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
ONE: Final = '{instance=~"$instance"}'
WINDOW: Final = "5m"
"""Trainings may be rarer than the scrapes that a shorter window holds."""
DEFINITIONS: Final = {definition.name: definition for definition in TRAINER}


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes
    ----------
    title, unit : str
        Unit by Grafana's name for it.
    metrics : tuple of str
        Those whose meaning and advice describe it.
    queries : tuple of (str, str)
        Legend and PromQL.
    kind : str
        `timeseries` or `stat`.
    width, height : int
        In columns of 24, and in Grafana's rows.
    stacked : bool
    steps : bool
        The value holds until the next; no line leads from one to the other.
    right : dict
        Unit by legend, for what belongs to the right axis.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    stacked: bool = False
    steps: bool = False
    right: dict[str, str] = field(default_factory=dict)


def _age(metric: str) -> str:
    """Return the query for seconds since a time; a gauge that was never set shows nothing."""
    return f"time() - max({metric}{ONE} > 0)"


def _quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{ONE}[{WINDOW}])))"


def _stat(title: str, unit: str, metric: str, query: str) -> Panel:
    return Panel(title, unit, (metric,), (("", query),), "stat", width=4, height=4)


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Now",
        (
            _stat("Model version", "none", "streamsvm_model_version", f"max(streamsvm_model_version{ONE})"),
            _stat(
                "Age of the model",
                "s",
                "streamsvm_model_published_timestamp_seconds",
                _age("streamsvm_model_published_timestamp_seconds"),
            ),
            _stat(
                "Points in the model",
                "short",
                "streamsvm_model_points_covered",
                f"max(streamsvm_model_points_covered{ONE})",
            ),
            _stat("Lag", "short", "streamsvm_input_lag_records", f"sum(streamsvm_input_lag_records{ONE})"),
            _stat("Coreset", "short", "streamsvm_coreset_points", f"sum(streamsvm_coreset_points{ONE})"),
            _stat(
                "Age of the checkpoint",
                "s",
                "streamsvm_checkpoint_timestamp_seconds",
                _age("streamsvm_checkpoint_timestamp_seconds"),
            ),
        ),
    ),
    (
        "Coreset",
        (
            Panel(
                "Coreset size by level",
                "short",
                ("streamsvm_coreset_points",),
                (("level {{level}}", f"sum by (level) (streamsvm_coreset_points{ONE})"),),
                width=8,
                stacked=True,
                steps=True,
            ),
            Panel(
                "Points held",
                "short",
                ("streamsvm_points_held", "streamsvm_points_held_peak"),
                (("now", f"sum(streamsvm_points_held{ONE})"), ("peak", f"sum(streamsvm_points_held_peak{ONE})")),
                width=8,
                steps=True,
            ),
            Panel(
                "Coreset and checkpoint size",
                "bytes",
                ("streamsvm_coreset_bytes", "streamsvm_checkpoint_bytes"),
                (
                    ("coreset", f"sum(streamsvm_coreset_bytes{ONE})"),
                    ("checkpoint", f"sum(streamsvm_checkpoint_bytes{ONE})"),
                ),
                width=8,
                steps=True,
            ),
            Panel(
                "Reductions by what they met",
                "short",
                ("streamsvm_coreset_reductions", "streamsvm_coreset_clipped_rows"),
                (
                    ("{{outcome}}", f"sum by (outcome) (streamsvm_coreset_reductions{ONE})"),
                    ("clipped rows", f"sum(streamsvm_coreset_clipped_rows{ONE})"),
                ),
                width=8,
                steps=True,
            ),
        ),
    ),
    (
        "Training",
        (
            Panel(
                "Training time",
                "s",
                ("streamsvm_training_seconds", "streamsvm_tuning_seconds"),
                (
                    ("p50", _quantile(0.5, "streamsvm_training_seconds")),
                    ("p95", _quantile(0.95, "streamsvm_training_seconds")),
                    ("tuning p95", _quantile(0.95, "streamsvm_tuning_seconds")),
                ),
            ),
            Panel(
                "Training set and support vectors",
                "short",
                ("streamsvm_training_points", "streamsvm_model_support_vectors"),
                (
                    ("training points", f"sum(streamsvm_training_points{ONE})"),
                    ("support vectors", f"sum(streamsvm_model_support_vectors{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Trainings",
                "short",
                ("streamsvm_trainings", "streamsvm_cuts_skipped"),
                (
                    ("{{outcome}}", f"sum by (outcome) (streamsvm_trainings_total{ONE})"),
                    ("skipped", f"sum(streamsvm_cuts_skipped_total{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Model in training for",
                "s",
                ("streamsvm_training_running_seconds",),
                (("seconds", f"max(streamsvm_training_running_seconds{ONE})"),),
            ),
            Panel(
                "KKT gap",
                "sci",
                ("streamsvm_model_kkt_gap",),
                (("gap", f"max(streamsvm_model_kkt_gap{ONE})"),),
                steps=True,
            ),
            Panel(
                "Trade-off and kernel width",
                "short",
                ("streamsvm_model_penalty", "streamsvm_model_alpha", "streamsvm_model_gamma"),
                (
                    ("C", f"max(streamsvm_model_penalty{ONE})"),
                    ("alpha", f"max(streamsvm_model_alpha{ONE})"),
                    ("gamma", f"max(streamsvm_model_gamma{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Objective: training set and audit",
                "short",
                (
                    "streamsvm_model_objective",
                    "streamsvm_model_dual_objective",
                    "streamsvm_audit_objective",
                    "streamsvm_audit_objective_low",
                    "streamsvm_audit_objective_high",
                ),
                (
                    ("training set", f"max(streamsvm_model_objective{ONE})"),
                    ("its lower bound", f"max(streamsvm_model_dual_objective{ONE})"),
                    ("whole stream", f"max(streamsvm_audit_objective{ONE})"),
                    ("at least", f"max(streamsvm_audit_objective_low{ONE})"),
                    ("at most", f"max(streamsvm_audit_objective_high{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Points of the audit sample",
                "short",
                ("streamsvm_audit_points",),
                (("points", f"max(streamsvm_audit_points{ONE})"),),
                steps=True,
            ),
        ),
    ),
    (
        "Model",
        (
            Panel(
                "Model version and age",
                "none",
                ("streamsvm_model_version", "streamsvm_model_published_timestamp_seconds"),
                (
                    ("version", f"max(streamsvm_model_version{ONE})"),
                    ("age", _age("streamsvm_model_published_timestamp_seconds")),
                ),
                right={"age": "s"},
            ),
            Panel(
                "Publishes",
                "short",
                ("streamsvm_publishes",),
                (("{{outcome}}", f"sum by (outcome) (streamsvm_publishes_total{ONE})"),),
                steps=True,
            ),
            Panel(
                "Quality gate",
                "short",
                ("streamsvm_gate_verdicts",),
                (("{{outcome}}", f"sum by (outcome) (streamsvm_gate_verdicts_total{ONE})"),),
            ),
            Panel(
                "Balanced accuracy at the gate",
                "percentunit",
                ("streamsvm_gate_candidate_accuracy", "streamsvm_gate_present_accuracy"),
                (
                    ("newest", f"streamsvm_gate_candidate_accuracy{ONE}"),
                    ("current", f"streamsvm_gate_present_accuracy{ONE}"),
                ),
            ),
            Panel(
                "Versions retired",
                "short",
                ("streamsvm_versions_retired",),
                (("retired", f"sum(streamsvm_versions_retired_total{ONE})"),),
            ),
            Panel(
                "Producer renewals",
                "short",
                ("streamsvm_producer_renewals",),
                (("renewals", f"sum(streamsvm_producer_renewals_total{ONE})"),),
                steps=True,
            ),
        ),
    ),
    (
        "Input",
        (
            Panel(
                "Lag by partition",
                "short",
                ("streamsvm_input_lag_records",),
                (("partition {{partition}}", f"sum by (partition) (streamsvm_input_lag_records{ONE})"),),
            ),
            Panel(
                "Records ahead of retention, by partition",
                "short",
                ("streamsvm_input_headroom_records",),
                (("partition {{partition}}", f"min by (partition) (streamsvm_input_headroom_records{ONE})"),),
            ),
            Panel(
                "Records by partition",
                "cps",
                ("streamsvm_input_records",),
                (
                    (
                        "partition {{partition}}",
                        f"sum by (partition) (rate(streamsvm_input_records_total{ONE}[$__rate_interval]))",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Rows by outcome",
                "cps",
                ("streamsvm_input_rows",),
                (("{{outcome}}", f"sum by (outcome) (rate(streamsvm_input_rows_total{ONE}[$__rate_interval]))"),),
                stacked=True,
            ),
            Panel(
                "Dead letters by reason",
                "short",
                ("streamsvm_dead_letters",),
                (("{{reason}}", f"sum by (reason) (streamsvm_dead_letters_total{ONE})"),),
                stacked=True,
                steps=True,
            ),
            Panel(
                "Waiting for the schema registry",
                "s",
                ("streamsvm_registry_waiting_seconds",),
                (("waiting", f"max(streamsvm_registry_waiting_seconds{ONE})"),),
            ),
        ),
    ),
    (
        "Checkpoint",
        (
            Panel(
                "Age of the checkpoint, and failures",
                "s",
                ("streamsvm_checkpoint_timestamp_seconds", "streamsvm_checkpoint_failures"),
                (
                    ("age", _age("streamsvm_checkpoint_timestamp_seconds")),
                    ("failures", f"sum(streamsvm_checkpoint_failures_total{ONE})"),
                ),
                right={"failures": "short"},
            ),
            Panel(
                "Time to write a checkpoint",
                "s",
                ("streamsvm_checkpoint_seconds",),
                (
                    ("p50", _quantile(0.5, "streamsvm_checkpoint_seconds")),
                    ("p95", _quantile(0.95, "streamsvm_checkpoint_seconds")),
                ),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    return {
        "uid": "streamsvm",
        "title": "streamsvm",
        "description": "Coreset, training, models and input of a streamsvm trainer.",
        "tags": ["streamsvm"],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource_variable(), _instance_variable()]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(), start=1)],
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Yield the panels from left to right and down, a heading before each row."""
    y = 0
    for title, panels in ROWS:
        yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, y, 24, 1)}
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > 24:
                x, y = 0, y + panel.height
            yield _panel(panel, _place(x, y, panel.width, panel.height))
            x += panel.width
        y += panels[-1].height


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    common = {
        "type": panel.kind,
        "title": panel.title,
        "description": _description(panel),
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": query, "legendFormat": legend}
            for index, (legend, query) in enumerate(panel.queries)
        ],
    }
    return common | (_stat_options(panel) if panel.kind == "stat" else _timeseries_options(panel))


def _description(panel: Panel) -> str:
    """Say what the metrics mean and what to do; counters are shown as they are, so say since when they count."""
    parts = []
    for name in panel.metrics:
        definition = DEFINITIONS[name]
        raw = definition.kind == "counter" and not any(f"rate({name}" in query for _, query in panel.queries)
        since = " Since the trainer's start." if raw else ""
        parts.append(f"{definition.meaning}{since}\n\n{definition.advice}")
    return "\n\n".join(parts)


def _stat_options(panel: Panel) -> dict[str, Any]:
    return {
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {
            "colorMode": "none",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


def _timeseries_options(panel: Panel) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter" if panel.steps else "linear",
        "showPoints": "never",
        "fillOpacity": 40 if panel.stacked else 0,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }
    return {
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": drawn},
            "overrides": [
                {
                    "matcher": {"id": "byName", "options": legend},
                    "properties": [{"id": "custom.axisPlacement", "value": "right"}, {"id": "unit", "value": unit}],
                }
                for legend, unit in panel.right.items()
            ],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _datasource_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def _instance_variable() -> dict[str, Any]:
    return {
        "name": "instance",
        "label": "Trainer",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": "label_values(streamsvm_model_version, instance)", "refId": "instance"},
        "definition": "label_values(streamsvm_model_version, instance)",
        "refresh": 2,
        "sort": 1,
        "multi": False,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main() -> None:
    """Write the file."""
    DASHBOARD.write_text(rendered(), encoding="utf-8")


def rendered() -> str:
    """Return the text of the file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    main()
