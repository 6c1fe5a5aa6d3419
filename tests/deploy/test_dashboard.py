"""The dashboards ask only for what the daemons tell, and say what it means."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path

import pytest

from consumers.metrics import PROCESS, SCORER, TRAINER
from tests.deploy.checkers import promtool
from tests.deploy.files import (
    DASHBOARDS,
    GENERATOR,
    PROMETHEUS,
    PROVISIONING,
    dashboards,
    panels,
    parsed,
    queries,
    selectors,
    series,
)

ALL = (*TRAINER, *SCORER, *PROCESS)
SERIES = {name: labels for definition in ALL for name, labels in series(definition).items()}


def test_queries_ask_for_series_and_labels_that_exist() -> None:
    """Every series and label of a query is one that `consumers.metrics` declares."""
    for query in queries():
        asked = selectors(query.promql)
        assert asked, query
        for name, labels in asked.items():
            assert name in SERIES, f"there is no {name}"
            assert labels <= SERIES[name], f"{name} has no label {labels - SERIES[name]}"
            shown = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
            assert shown <= labels, f"the legend shows {shown - labels}, which the query aggregates away"


def test_file_is_what_the_generator_makes() -> None:
    """Nobody edited a dashboard without its generator, or changed a metric without making it anew."""
    made = runpy.run_path(str(GENERATOR))["rendered"]()
    assert set(DASHBOARDS.glob("*")) == made.keys()
    for path, text in made.items():
        assert path.read_text() == text, "run python deploy/grafana/generate.py"


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
    assert dashboards().keys() == {"streamsvm-model", "streamsvm-stream"}
    for uid, one in dashboards().items():
        numbers = [panel["id"] for panel in one["panels"]]
        titles = [panel["title"] for panel in panels() if panel["dashboard"] == uid]
        assert len(set(numbers)) == len(numbers)
        assert len(set(titles)) == len(titles) <= 16


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
