"""The dashboards ask only for what the daemons tell, show all of it, and say what it means."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path

import pytest

from consumers.metrics import PROCESS, SCORER, TRAINER, TRAINER_ITSELF, Definition
from consumers.settings import Settings
from tests.deploy.checkers import promtool
from tests.deploy.files import (
    DASHBOARDS,
    DEPLOY,
    GENERATOR,
    PROMETHEUS,
    PROVISIONING,
    Query,
    dashboards,
    panels,
    parsed,
    queries,
    selectors,
    series,
)

ALL = (*TRAINER, *SCORER, *PROCESS)
SERIES = {name: labels for definition in ALL for name, labels in series(definition).items()}


@pytest.mark.parametrize(
    "query", queries(), ids=lambda query: f"{query.dashboard}: {query.panel}: {query.legend or 'value'}"
)
def test_query_asks_for_series_and_labels_that_exist(query: Query) -> None:
    """Every series and label of a query is one that `consumers.metrics` declares."""
    asked = selectors(query.promql)
    assert asked
    for name, labels in asked.items():
        assert name in SERIES, f"there is no {name}"
        assert labels <= SERIES[name], f"{name} has no label {labels - SERIES[name]}"
        shown = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
        assert shown <= labels, f"the legend shows {shown - labels}, which the query aggregates away"


@pytest.mark.parametrize("definition", dict.fromkeys(ALL), ids=lambda definition: definition.name)
def test_metric_is_on_a_panel_that_explains_it(definition: Definition) -> None:
    """Every metric that names a panel is there, and wherever it is shown, its meaning and its advice are told."""
    showing = [
        panel
        for panel in panels()
        if any(selectors(target["expr"]).keys() & series(definition).keys() for target in panel["targets"])
    ]
    named = [panel for panel in showing if panel["dashboard"] == "streamsvm"]
    assert bool(named) == bool(definition.panel), f"{definition.name} names another panel, or none"
    for panel in showing:
        others = [one for one in ALL if one.name == definition.name]  # two daemons have it
        assert any(one.meaning in panel["description"] and one.advice in panel["description"] for one in others), panel[
            "title"
        ]


def test_the_details_have_every_metric_of_ours() -> None:
    """Whoever looks for a number finds it there, on one of at most 40 panels, whatever the overview leaves out."""
    detail = [panel for panel in panels() if panel["dashboard"] == "streamsvm"]
    shown = {name for panel in detail for target in panel["targets"] for name in selectors(target["expr"])}
    ours = [one for one in ALL if one.name.startswith("streamsvm_")]
    assert [one.name for one in ours if not shown & series(one).keys()] == []
    assert len(detail) <= 40


def test_the_generator_names_no_branch() -> None:
    """A branch brings its panels by its metrics: nothing that only a branch has is named beside its table."""
    plain = {one.name for one in (*TRAINER_ITSELF, *SCORER.of(Settings()), *PROCESS)}
    of_branches = {one.name for one in ALL} - plain
    assert of_branches
    assert [name for name in of_branches if name in GENERATOR.read_text()] == []


def test_the_overview_fits_a_screen() -> None:
    """Coreset size and training time come first, and nothing needs scrolling: 22 of Grafana's rows are a screen."""
    overview = dashboards()["streamsvm-overview"]
    shown = [panel["title"] for panel in overview["panels"] if panel["type"] != "row"]
    rows = [panel["title"] for panel in overview["panels"] if panel["type"] == "row"]
    assert [title.split(",")[0] for title in shown[:2]] == ["Coreset size", "Training time"]
    assert rows == ["Is the model current?", "Is it good?", "Is anything late?", "Through time"]
    titles = " ".join(shown).lower()
    asked = ("age", "accuracy", "knows", "positive", "scored a second", "record to score")
    assert all(word in titles for word in asked)
    assert all(f"{what}, {who}" in titles for what in ("lag", "rejected") for who in ("trainer", "scorer"))
    assert max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in overview["panels"]) <= 22


def test_file_is_what_the_generator_makes() -> None:
    """Nobody edited a dashboard without its generator, or changed a metric without making it anew."""
    made = runpy.run_path(str(GENERATOR))["rendered"]()
    assert set(DASHBOARDS.glob("*")) == made.keys()
    for path, text in made.items():
        assert path.read_text() == text, "run python deploy/grafana/generate.py"


def test_table_of_metrics_is_what_its_generator_makes() -> None:
    """METRICS.md has every metric, in the words of `consumers.metrics`."""
    made = runpy.run_path(str(DEPLOY / "metrics.py"))["rendered"]()
    assert (DEPLOY / "METRICS.md").read_text() == made, "run python deploy/metrics.py"
    assert [one.name for one in ALL if f"- `{one.name}" not in made] == []


def test_panels_have_units_and_the_datasource_by_variable() -> None:
    """Every panel has a unit, a description and the datasource that the reader chose."""
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels():
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"], panel["title"]
        assert [panel["datasource"], *(target["datasource"] for target in panel["targets"])] == [chosen] * (
            1 + len(panel["targets"])
        )
    for one in dashboards().values():
        names = [variable["name"] for variable in one["templating"]["list"]]
        assert names == ["datasource", "instance", "scorer"]


def test_identity_is_stable() -> None:
    """Links to a dashboard survive: its uid is fixed, its panels' numbers and titles are unique."""
    assert dashboards().keys() == {"streamsvm", "streamsvm-overview"}
    for uid, one in dashboards().items():
        numbers = [panel["id"] for panel in one["panels"]]
        titles = [panel["title"] for panel in panels() if panel["dashboard"] == uid]
        assert len(set(numbers)) == len(numbers)
        assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("uid", dashboards())
def test_panels_lie_within_the_grid_and_apart(uid: str) -> None:
    """No panel leaves the 24 columns or covers another."""
    taken: set[tuple[int, int]] = set()
    for panel in dashboards()[uid]["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + column, place["y"] + row) for column in range(place["w"]) for row in range(place["h"])}
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_datasource_is_provisioned_where_compose_runs_it() -> None:
    """The provisioned datasource is the compose file's Prometheus, read at its scrape interval."""
    (source,) = parsed(PROVISIONING / "datasources" / "prometheus.yml")["datasources"]
    scrapes = parsed(PROMETHEUS)["global"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]
    assert source["jsonData"]["timeInterval"] == scrapes["scrape_interval"]


def test_queries_parse(tmp_path: Path) -> None:
    """Prometheus's own parser takes every query."""
    rules = tmp_path / "queries.json"
    recorded = [{"record": f"query:{index}", "expr": query.runnable} for index, query in enumerate(queries())]
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    checked = subprocess.run([promtool(), "check", "rules", rules], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
