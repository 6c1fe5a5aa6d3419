"""The deployment's files, as its tests read them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from consumers.metrics import Definition

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
DOCKERFILE = DEPLOY / "Dockerfile"
PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yml"
RULES = DEPLOY / "prometheus" / "rules.yml"
GENERATOR = DEPLOY / "grafana" / "generate.py"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
BY_TAG = {"prom/prometheus": "v2.42.0"}
"""Images of which no digest is known here, with their exact tags; deploy/README.md says so."""
TARGET_LABELS = {"instance", "job"}
"""Labels that Prometheus adds when it scrapes."""


@dataclass(frozen=True)
class Query:
    """One query of one panel."""

    dashboard: str
    panel: str
    legend: str
    promql: str

    @property
    def runnable(self) -> str:
        """The query as Prometheus takes it, of every instance: Grafana's variables are filled in."""
        filled = self.promql
        for variable, value in (("$instance", ".*"), ("$scorer", ".*"), ("$__rate_interval", "1m")):
            filled = filled.replace(variable, value)
        assert "$" not in filled, f"{self.panel}: a variable that only Grafana knows: {filled}"
        return filled


def images() -> dict[str, str]:
    """Return the images that are pulled, by the variable that replaces each."""
    (base,) = re.findall(r"(?m)^ARG (PYTHON_IMAGE)=(\S+)$", DOCKERFILE.read_text())
    return dict([base, *re.findall(r"image: (?:>-\s+)?\$\{(\w+):-(\S+)\}", COMPOSE.read_text())])


def dashboards() -> dict[str, dict[str, Any]]:
    """Return each dashboard by its uid."""
    loaded = [json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))]
    return {one["uid"]: one for one in loaded}


def panels() -> list[dict[str, Any]]:
    """Return the panels of all dashboards, each with its dashboard's uid."""
    return [
        {"dashboard": uid, **panel}
        for uid, one in dashboards().items()
        for panel in one["panels"]
        if panel["type"] != "row"
    ]


def queries() -> list[Query]:
    """Return the queries of all panels of all dashboards."""
    return [
        Query(panel["dashboard"], panel["title"], target["legendFormat"], target["expr"])
        for panel in panels()
        for target in panel["targets"]
    ]


def selectors(promql: str) -> dict[str, set[str]]:
    """Return each series of a query with the labels that the query asks of it, in matchers, `by` and the legend."""
    grouped = {label for labels in re.findall(r"\bby \(([^)]*)\)", promql) for label in re.split(r",\s*", labels)}
    found: dict[str, set[str]] = {}
    for name, matchers in re.findall(r"\b((?:streamsvm|process|python)_\w+)(?:\{([^}]*)\})?", promql):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers), grouped)
    return found


def series(definition: Definition) -> dict[str, set[str]]:
    """Return the series of a metric, as a scrape shows them, with their labels."""
    labels = set(definition.labels) | TARGET_LABELS
    if definition.kind == "counter":
        return {f"{definition.name}_total": labels}
    if definition.kind == "gauge":
        return {definition.name: labels}
    return {
        f"{definition.name}_bucket": labels | {"le"},
        f"{definition.name}_sum": labels,
        f"{definition.name}_count": labels,
    }


def parsed(path: Path) -> dict[str, Any]:
    """Return what a YAML file says."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def compose() -> dict[str, Any]:
    return parsed(COMPOSE)
