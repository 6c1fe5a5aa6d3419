"""Writes the dashboards: `python deploy/grafana/generate.py` after a change here or in `consumers.metrics`.

*The model* answers whether it is current and good; *the stream*, whether anything is late or lost. A panel says of its
metrics what `consumers.metrics` says. The other metrics are on /metrics, each with its meaning and its advice.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from consumers.metrics import PROCESS, SCORER, TRAINER

FOLDER: Final = Path(__file__).parent / "dashboards"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
TRAINERS: Final = 'instance=~"$instance"'
SCORERS: Final = 'instance=~"$scorer"'
EITHER: Final = 'instance=~"$instance|$scorer"'
SAID: Final = {one.name: f"{one.meaning}\n\n{one.advice}" for one in (*PROCESS, *SCORER, *TRAINER)}
ACCURACY: Final = f"streamsvm_prequential_balanced_accuracy{{{TRAINERS}"

Queries = tuple[tuple[str, str], ...]
"""Legends and PromQL."""


def _age(metric: str) -> str:
    """Return the query for seconds since a time; a gauge that was never set shows nothing."""
    return f"time() - max({metric}{{{TRAINERS}}} > 0)"


def _quantiles(metric: str, where: str) -> Queries:
    """Return median and 95th percentile. Trainings may be rarer than the scrapes of a shorter window than 5 minutes."""
    rates = f"sum by (le) (rate({metric}_bucket{{{where}}}[5m]))"
    return ("p50", f"histogram_quantile(0.5, {rates})"), ("p95", f"histogram_quantile(0.95, {rates})")


def _rates(metric: str, where: str, by: str) -> Queries:
    return ((f"{{{{{by}}}}}", f"sum by ({by}) (rate({metric}_total{{{where}}}[5m]))"),)


def _rejected(where: str) -> Queries:
    rows = "streamsvm_input_rows_total"
    share = f'sum(rate({rows}{{{where},outcome="rejected"}}[5m])) / sum(rate({rows}{{{where}}}[5m]))'
    return (("", share),)


def _one(query: str) -> Queries:
    return (("", query),)


MODEL: Final[tuple[tuple[str, str, Queries], ...]] = (
    ("Age of the model", "s", _one(_age("streamsvm_model_published_timestamp_seconds"))),
    ("Rows not in it", "short", _one(f"max(streamsvm_model_rows_behind{{{TRAINERS}}})")),
    ("Version", "none", _one(f"max(streamsvm_model_version{{{TRAINERS}}})")),
    ("Balanced accuracy", "percentunit", _one(f'min({ACCURACY},scorer="model"}})')),
    (
        "Ahead of SGD by",
        "percentunit",
        _one(f'min({ACCURACY},scorer="model"}} - ignoring (scorer) {ACCURACY},scorer="sgd"}})'),
    ),
    ("Knows (1: yes, -1: nothing)", "short", _one(f"min(streamsvm_model_skill{{{TRAINERS}}})")),
    (
        "Balanced accuracy on new points",
        "percentunit",
        (("{{scorer}}", f'avg by (scorer) ({ACCURACY},scorer!="majority"}})'),),
    ),
    (
        "Shares of the second label",
        "percentunit",
        (("{{of}}", f"avg by (of) (streamsvm_prequential_positive_share{{{TRAINERS}}})"),),
    ),
    (
        "Coreset size by level",
        "short",
        (("level {{level}}", f"sum by (level) (streamsvm_coreset_points{{{TRAINERS}}})"),),
    ),
    ("Training time", "s", _quantiles("streamsvm_training_seconds", f'{TRAINERS},step="train"')),
    ("Sealed leaf to version", "s", _quantiles("streamsvm_model_staleness_seconds", TRAINERS)),
    ("Versions by the gate's verdict", "cps", _rates("streamsvm_gate_verdicts", TRAINERS, "outcome")),
    ("Publishes by outcome", "cps", _rates("streamsvm_publishes", TRAINERS, "outcome")),
    ("Age of the checkpoint", "s", _one(_age("streamsvm_checkpoint_timestamp_seconds"))),
    ("KKT gap of the solver", "sci", _one(f"max(streamsvm_model_kkt_gap{{{TRAINERS}}})")),
    (
        "Memory of the process",
        "bytes",
        (("{{instance}}", f"max by (instance) (process_resident_memory_bytes{{{EITHER}}})"),),
    ),
)
"""Title, unit and queries of each panel; the first six are single figures."""

STREAM: Final[tuple[tuple[str, str, Queries], ...]] = (
    ("Lag, trainer", "short", _one(f"sum(streamsvm_input_lag_records{{{TRAINERS}}})")),
    ("Lag, scorer", "short", _one(f"sum(streamsvm_input_lag_records{{{SCORERS}}})")),
    ("Rows rejected, trainer", "percentunit", _rejected(TRAINERS)),
    ("Rows rejected, scorer", "percentunit", _rejected(SCORERS)),
    ("Version that scores", "none", _one(f"min(streamsvm_serving_version{{{SCORERS}}})")),
    ("Points scored a second", "short", _one(f"sum(rate(streamsvm_scored_points_total{{{SCORERS}}}[5m]))")),
    (
        "Lag by partition",
        "short",
        (("{{job}} {{partition}}", f"sum by (job, partition) (streamsvm_input_lag_records{{{EITHER}}})"),),
    ),
    ("Records read", "cps", _rates("streamsvm_input_records", EITHER, "job")),
    ("Rows by outcome", "cps", _rates("streamsvm_input_rows", EITHER, "outcome")),
    ("Dead letters by reason", "cps", _rates("streamsvm_dead_letters", EITHER, "reason")),
    ("What waits", "short", (("{{reason}}", f"sum by (reason) (streamsvm_not_ready{{{EITHER}}})"),)),
    (
        "Records in open transactions",
        "short",
        (("{{job}}", f"sum by (job) (streamsvm_input_open_transaction_records{{{EITHER}}})"),),
    ),
    (
        "Waiting for the schema registry",
        "s",
        (("{{instance}}", f"max by (instance) (streamsvm_registry_waiting_seconds{{{EITHER}}})"),),
    ),
    ("Record to score", "s", _quantiles("streamsvm_score_latency_seconds", SCORERS)),
    ("Scores by label", "cps", _rates("streamsvm_scores", SCORERS, "label")),
    (
        "Drift of scores",
        "short",
        (
            ("drift", f"max(streamsvm_score_drift{{{SCORERS}}})"),
            ("by chance", f"max(streamsvm_score_drift_chance{{{SCORERS}}})"),
        ),
    ),
    (
        "Longest turn of the main loop",
        "s",
        (("{{instance}}", f"max by (instance) (streamsvm_loop_longest_turn_seconds{{{TRAINERS}}})"),),
    ),
)
FIGURES: Final = 6
"""Panels of a dashboard that show one figure; the others show lines."""


def _panel(number: int, title: str, unit: str, queries: Queries) -> dict[str, Any]:
    """Return a panel: six figures in the first row, and below them rows of two lines."""
    place = number - FIGURES
    figure = place < 0
    metrics = dict.fromkeys(re.findall(r"\b(?:streamsvm|process)_\w+", " ".join(promql for _, promql in queries)))
    names = [next(name for name in (metric, metric.rpartition("_")[0]) if name in SAID) for metric in metrics]
    drawn = {"drawStyle": "line", "showPoints": "never"} | ({} if unit == "percentunit" else {"axisSoftMin": 0})
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    return {
        "id": number + 1,
        "type": "stat" if figure else "timeseries",
        "title": title,
        "description": "\n\n".join(SAID[name] for name in dict.fromkeys(names)),
        "datasource": DATASOURCE,
        "gridPos": {"x": 4 * number, "y": 0, "w": 4, "h": 3}
        if figure
        else {"x": 12 * (place % 2), "y": 3 + 7 * (place // 2), "w": 12, "h": 7},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": query, "legendFormat": legend}
            for index, (legend, query) in enumerate(queries)
        ],
        "fieldConfig": {"defaults": {"unit": unit} | ({} if figure else {"custom": drawn}), "overrides": []},
        "options": {"colorMode": "none", "graphMode": "area", "reduceOptions": reduced}
        if figure
        else {
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _instances(name: str, label: str, metric: str) -> dict[str, Any]:
    """Return a variable of the processes that tell a metric."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({metric}, instance)", "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": False,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _dashboard(uid: str, title: str, description: str, panels: tuple[tuple[str, str, Queries], ...]) -> str:
    """Return a dashboard as Grafana reads it, a panel a line."""
    link = {"type": "dashboards", "title": "streamsvm", "tags": ["streamsvm"], "asDropdown": False, "tooltip": ""}
    link |= {"icon": "external link", "includeVars": True, "keepTime": True, "targetBlank": False}
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    variables = [
        source,
        _instances("instance", "Trainer", "streamsvm_model_version"),
        _instances("scorer", "Scorer", "streamsvm_serving_version"),
    ]
    head = {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["streamsvm"],
        "links": [link],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables},
    }
    lines = ",\n".join(json.dumps(_panel(number, *panel)) for number, panel in enumerate(panels))
    fields = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items())
    return f'{{\n{fields},\n"panels": [\n{lines}\n]\n}}\n'


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    model = "streamsvm-model", "streamsvm: the model", "Whether the model is current, and whether it is good."
    stream = "streamsvm-stream", "streamsvm: the stream", "Whether anything is late, rejected or held up."
    return {
        FOLDER / f"{head[0]}.json": _dashboard(*head, panels) for head, panels in ((model, MODEL), (stream, STREAM))
    }


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")
