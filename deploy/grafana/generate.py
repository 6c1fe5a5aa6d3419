"""Writes the dashboards: `python deploy/grafana/generate.py` after a change here or in `consumers.metrics`.

The overview answers in ten seconds whether the model is current and good, and whether anything is late. The detail
dashboard is made of the tables of metrics alone: a metric says on which panel it is (`Definition.panel`), so a branch
brings its own. A panel says of its metrics what `consumers.metrics` says. The test suite compares the files with what
this program makes, and checks every query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from consumers.metrics import PROCESS, SCORER, TRAINER, TRAINER_ITSELF, Definition, other_daemons

FOLDER: Final = Path(__file__).parent / "dashboards"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
ONE: Final = '{instance=~"$instance"}'
SCORERS: Final = '{instance=~"$scorer"}'
EITHER: Final = '{instance=~"$instance|$scorer"}'
WINDOW: Final = "5m"
"""Trainings may be rarer than the scrapes that a shorter window holds."""
ORDERED: Final = (
    *TRAINER_ITSELF,
    *SCORER,
    *PROCESS,
    *TRAINER,
    *(definition for daemon in other_daemons() for definition in daemon.definitions),
)
"""All metrics, those of branches last; what two daemons have is there twice."""
DEFINITIONS: Final = {definition.name: definition for definition in reversed(ORDERED)}
TIMES: Final = ("_timestamp_seconds", "_start_time_seconds")
"""Ends of the names of gauges that are a time; what is shown is how long ago it was."""
SHARES: Final = ("_accuracy", "_share", "_recall", "_auc")
"""Ends of the names of gauges that are between 0 and 1."""


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
    right : dict
        Unit by the place of a query, for what belongs to the right axis.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    stacked: bool = False
    right: dict[int, str] = field(default_factory=dict)


def _age(metric: str, whose: str = ONE) -> str:
    """Return the query for seconds since a time; a gauge that was never set shows nothing."""
    return f"time() - max({metric}{whose} > 0)"


def _quantile(share: float, metric: str, whose: str = ONE) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{whose}[{WINDOW}])))"


def _stat(title: str, unit: str, metric: str, query: str) -> Panel:
    return Panel(title, unit, (metric,), (("", query),), "stat", width=4, height=3)


def _graph(title: str, unit: str, metric: str, *queries: tuple[str, str], stacked: bool = False) -> Panel:
    return Panel(title, unit, (metric,), queries, width=6, height=9, stacked=stacked)


Rows = tuple[tuple[str, tuple[Panel, ...]], ...]

ACCURACY: Final = "streamsvm_prequential_balanced_accuracy"
OF_THE_MODEL: Final = f'{ACCURACY}{{instance=~"$instance",scorer="model"}}'
OF_THE_BASELINE: Final = f'{ACCURACY}{{instance=~"$instance",scorer="sgd"}}'
WITHOUT_MAJORITY: Final = f'{ACCURACY}{{instance=~"$instance",scorer!="majority"}}'
"""Always answering the same is a half for ever, and would only flatten the others."""
TRAININGS: Final = '{instance=~"$instance",step="train"}'


def _rejected(instances: str) -> str:
    """Return the query for the share of rows that are rejected."""
    rejected = f'streamsvm_input_rows_total{{instance=~"{instances}",outcome="rejected"}}'
    return (
        f'sum(rate({rejected}[{WINDOW}])) / sum(rate(streamsvm_input_rows_total{{instance=~"{instances}"}}[{WINDOW}]))'
    )


OVERVIEW: Final[Rows] = (
    (
        "Is the model current?",
        (
            _stat("Coreset size", "short", "streamsvm_coreset_points", f"sum(streamsvm_coreset_points{ONE})"),
            _stat(
                "Training time, p95",
                "s",
                "streamsvm_training_seconds",
                _quantile(0.95, "streamsvm_training_seconds", TRAININGS),
            ),
            _stat(
                "Age of the model",
                "s",
                "streamsvm_model_published_timestamp_seconds",
                _age("streamsvm_model_published_timestamp_seconds"),
            ),
            _stat("Rows not in it", "short", "streamsvm_model_rows_behind", f"max(streamsvm_model_rows_behind{ONE})"),
            _stat("Version", "none", "streamsvm_model_version", f"max(streamsvm_model_version{ONE})"),
            _stat(
                "Version that scores",
                "none",
                "streamsvm_serving_version",
                f"min(streamsvm_serving_version{SCORERS})",
            ),
        ),
    ),
    (
        "Is it good?",
        (
            _stat("Balanced accuracy", "percentunit", ACCURACY, f"min({OF_THE_MODEL})"),
            _stat(
                "Ahead of SGD by", "percentunit", ACCURACY, f"min({OF_THE_MODEL} - ignoring (scorer) {OF_THE_BASELINE})"
            ),
            _stat("Knows (1: yes, -1: nothing)", "short", "streamsvm_model_skill", f"min(streamsvm_model_skill{ONE})"),
            _stat("Rows rejected, trainer", "percentunit", "streamsvm_input_rows", _rejected("$instance")),
            _stat("Rows rejected, scorer", "percentunit", "streamsvm_input_rows", _rejected("$scorer")),
            _stat(
                "Scores that are positive",
                "percentunit",
                "streamsvm_scores",
                f'sum(rate(streamsvm_scores_total{{instance=~"$scorer",label="positive"}}[{WINDOW}])) '
                f"/ sum(rate(streamsvm_scores_total{SCORERS}[{WINDOW}]))",
            ),
        ),
    ),
    (
        "Is anything late?",
        (
            _stat("Lag, trainer", "short", "streamsvm_input_lag_records", f"sum(streamsvm_input_lag_records{ONE})"),
            _stat(
                "Sealed leaf to version, p95",
                "s",
                "streamsvm_model_staleness_seconds",
                _quantile(0.95, "streamsvm_model_staleness_seconds"),
            ),
            _stat(
                "Age of the checkpoint",
                "s",
                "streamsvm_checkpoint_timestamp_seconds",
                _age("streamsvm_checkpoint_timestamp_seconds"),
            ),
            _stat("Lag, scorer", "short", "streamsvm_input_lag_records", f"sum(streamsvm_input_lag_records{SCORERS})"),
            _stat(
                "Record to score, p95",
                "s",
                "streamsvm_score_latency_seconds",
                _quantile(0.95, "streamsvm_score_latency_seconds", SCORERS),
            ),
            _stat(
                "Points scored a second",
                "short",
                "streamsvm_scored_points",
                f"sum(rate(streamsvm_scored_points_total{SCORERS}[{WINDOW}]))",
            ),
        ),
    ),
    (
        "Through time",
        (
            _graph(
                "Coreset size by level",
                "short",
                "streamsvm_coreset_points",
                ("level {{level}}", f"sum by (level) (streamsvm_coreset_points{ONE})"),
                stacked=True,
            ),
            _graph(
                "Training time",
                "s",
                "streamsvm_training_seconds",
                ("p50", _quantile(0.5, "streamsvm_training_seconds", TRAININGS)),
                ("p95", _quantile(0.95, "streamsvm_training_seconds", TRAININGS)),
            ),
            _graph(
                "Balanced accuracy on new points",
                "percentunit",
                ACCURACY,
                ("{{scorer}}", f"avg by (scorer) ({WITHOUT_MAJORITY})"),
            ),
            _graph(
                "Lag, trainer and scorer",
                "short",
                "streamsvm_input_lag_records",
                ("{{job}}", f"sum by (job) (streamsvm_input_lag_records{EITHER})"),
            ),
        ),
    ),
)


def _details() -> Rows:
    """Return every panel that a metric names, in rows; both in the order in which metrics name them."""
    shown: dict[str, dict[str, list[Definition]]] = {}
    for definition in dict.fromkeys(DEFINITIONS[one.name] for one in ORDERED if one.panel):
        row, _, title = definition.panel.partition(": ")
        shown.setdefault(row, {}).setdefault(f"{title[:1].upper()}{title[1:]}", []).append(definition)
    return tuple((row, tuple(_detail(*panel) for panel in panels.items())) for row, panels in shown.items())


def _detail(title: str, definitions: list[Definition]) -> Panel:
    """Return the panel of some metrics; those that have another unit than most have the right axis."""
    asked = [(_unit(one), *query) for one in definitions for query in _queries(one)]
    units = [unit for unit, _, _ in asked]
    left = max(units, key=units.count)
    return Panel(
        title,
        left,
        tuple(one.name for one in definitions),
        tuple((legend, promql) for _, legend, promql in asked),
        width=8,
        right={place: unit for place, (unit, _, _) in enumerate(asked) if unit != left},
    )


def _queries(one: Definition) -> Iterator[tuple[str, str]]:
    """Yield legends and queries, for each instance: a counter's rate, a histogram's quantiles, an age or the value."""
    of_scorers, of_trainers = one in tuple(SCORER), one not in tuple(SCORER) or one in tuple(TRAINER)
    whose = EITHER if one in PROCESS or (of_scorers and of_trainers) else SCORERS if of_scorers else ONE
    by = (*one.labels, "instance")
    grouped = f" by ({', '.join(by)}) "
    name = one.name.removeprefix("streamsvm_").removesuffix("_timestamp_seconds").removesuffix("_seconds")
    legend = " ".join((name.replace("_", " "), *(f"{{{{{label}}}}}" for label in by)))
    if one.kind == "counter":
        yield legend, f"sum{grouped}(rate({one.name}_total{whose}[{WINDOW}]))"
    elif one.kind == "histogram":
        le = f" by ({', '.join(('le', *by))}) "
        for share in (0.05, 0.5, 0.95) if one.buckets[0] < 0.0 else (0.5, 0.95):
            rates = f"sum{le}(rate({one.name}_bucket{whose}[{WINDOW}]))"
            yield f"{legend} p{round(100 * share)}", f"histogram_quantile({share}, {rates})"
    elif one.name.endswith(TIMES):
        yield f"age: {legend}", f"time() - max{grouped}({one.name}{whose} > 0)"
    else:
        yield legend, f"max{grouped}({one.name}{whose})"


def _unit(one: Definition) -> str:
    """Return Grafana's name of the unit in which a panel shows a metric."""
    if one.kind == "counter":
        return "Bps" if one.name.endswith("_bytes") else "short" if one.name.endswith("_seconds") else "cps"
    if one.name.endswith("_bytes"):
        return "bytes"
    if one.name.endswith("_seconds"):
        return "s"
    if one.name.endswith("_kkt_gap"):
        return "sci"
    return "percentunit" if one.name.endswith(SHARES) else "short"


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: its identity, which links go by, and its rows."""

    uid: str
    title: str
    description: str
    rows: Rows

    @property
    def path(self) -> Path:
        """The file that it is provisioned from."""
        return FOLDER / f"{self.uid}.json"


DASHBOARDS: Final = (
    Dashboard(
        "streamsvm-overview",
        "streamsvm: overview",
        "Coreset size and training time; whether the model is current and good, and whether anything is late.",
        OVERVIEW,
    ),
    Dashboard(
        "streamsvm",
        "streamsvm: details",
        "Every metric of trainers, scorers and branches, of each instance. Panels of a branch that is off are empty.",
        _details(),
    ),
)


def dashboard(of: Dashboard) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it."""
    return {
        "uid": of.uid,
        "title": of.title,
        "description": of.description,
        "tags": ["streamsvm"],
        "links": [
            {
                "type": "dashboards",
                "title": "streamsvm",
                "tags": ["streamsvm"],
                "asDropdown": False,
                "icon": "external link",
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "tooltip": "",
            }
        ],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                _datasource_variable(),
                _instances("instance", "Trainer", "streamsvm_model_version"),
                _instances("scorer", "Scorer", "streamsvm_serving_version"),
            ]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(of.rows), start=1)],
    }


def _panels(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the panels from left to right and down, a heading before each row."""
    y = 0
    for title, panels in rows:
        yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, y, 24, 1)}
        x, y, height = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > 24:
                x, y = 0, y + height
            yield _panel(panel, _place(x, y, panel.width, panel.height))
            x, height = x + panel.width, panel.height
        y += panels[-1].height


def _reference(place: int) -> str:
    """Return Grafana's name of a query by its place."""
    return chr(ord("A") + place)


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
            {"refId": _reference(index), "datasource": DATASOURCE, "expr": query, "legendFormat": legend}
            for index, (legend, query) in enumerate(panel.queries)
        ],
    }
    return common | (_stat_options(panel) if panel.kind == "stat" else _timeseries_options(panel))


def _description(panel: Panel) -> str:
    """Say what the metrics mean and what to do."""
    of = (DEFINITIONS[name] for name in panel.metrics)
    return "\n\n".join(f"{definition.meaning}\n\n{definition.advice}" for definition in of)


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
    floor = {} if panel.unit == "percentunit" else {"axisSoftMin": 0}
    drawn: dict[str, Any] = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter" if panel.stacked else "linear",
        "showPoints": "never",
        "fillOpacity": 40 if panel.stacked else 0,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    } | floor
    return {
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "custom": drawn},
            "overrides": [
                {
                    "matcher": {"id": "byFrameRefID", "options": _reference(place)},
                    "properties": [{"id": "custom.axisPlacement", "value": "right"}, {"id": "unit", "value": unit}],
                }
                for place, unit in panel.right.items()
            ],
        },
        "options": {
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _datasource_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


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


def main() -> None:
    """Write the files."""
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    return {of.path: json.dumps(dashboard(of), indent=2) + "\n" for of in DASHBOARDS}


if __name__ == "__main__":
    main()
