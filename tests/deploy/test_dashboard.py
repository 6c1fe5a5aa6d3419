"""The dashboards and the rules ask only for what the daemons tell."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from consumers.metrics import PROCESS, SCORER, TRAINER
from tests.deploy.checkers import promtool, said
from tests.deploy.files import DASHBOARDS, GENERATOR, RULES, parsed, queries, selectors, series

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


def test_rules_ask_for_series_and_labels_that_exist() -> None:
    """Every series of every rule is one that a daemon tells, with the labels it has there, or one recorded here."""
    rules = [rule for group in parsed(RULES)["groups"] for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert rules
    for rule in rules:
        asked = selectors(rule["expr"])
        named = set(re.findall(r"\bstreamsvm:\w+(?::\w+)*", rule["expr"]))
        assert named <= recorded, rule
        assert asked or named or rule["expr"].startswith("up{"), rule
        assert all(labels <= SERIES[name] for name, labels in asked.items()), rule


def test_file_is_what_the_generator_makes() -> None:
    """Nobody edited a dashboard without its generator, or changed a metric without making it anew."""
    made = runpy.run_path(str(GENERATOR))["rendered"]()
    assert set(DASHBOARDS.glob("*")) == made.keys()
    for path, text in made.items():
        assert path.read_text() == text, "run python deploy/grafana/generate.py"


def test_queries_parse(tmp_path: Path) -> None:
    """Prometheus's own parser takes every query."""
    rules = tmp_path / "queries.json"
    recorded = [{"record": f"query:{index}", "expr": query.runnable} for index, query in enumerate(queries())]
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    assert said(promtool(), "check", "rules", rules) == ""
