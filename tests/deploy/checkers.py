"""The checkers of the deployment's files: each takes a folder like `deploy` and says what is wrong with it.

All but promtool and kubectl come with the extra `dev`; a test that needs one of those and finds none
is skipped, and says so. Kubernetes' own kinds are checked by the schemas of its API, strictly: an unknown field is a
mistake. The operators' kinds are checked by the schemas beside this file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.files import ROOT

YAMLLINT = "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}"
KUBERNETES = "1.32"
"""Oldest version of the API that the manifests are for; the newest that the schemas know is checked as well."""
SCHEMAS = Path(__file__).parent / "schemas"
BUILT = {"Kustomization", "Component"}
"""Kinds that only kustomize reads."""


def said(*command: str | Path) -> str:
    """Run a program and return what it said if it was not content."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return "" if done.returncode == 0 else f"status {done.returncode}\n{done.stdout}{done.stderr}"


def tool(name: str) -> Path:
    """Return a program that is installed beside this interpreter."""
    path = Path(sys.executable).parent / name
    assert path.exists(), f"{name} is missing: install the extra `dev`"
    return path


def program(name: str, package: str) -> str:
    """Return a program of this machine, or skip the test; where the continuous integration runs it, fail."""
    path = shutil.which(name)
    if path is None:
        missing = f"{name} is not on PATH ({package})"
        if os.environ.get("GITHUB_ACTIONS"):
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return path


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def compose(deploy: Path) -> str:
    return said(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", deploy / "compose.yaml")


def yamllint(deploy: Path) -> str:
    return said(tool("yamllint"), "--strict", "-d", YAMLLINT, deploy)


def hadolint(deploy: Path) -> str:
    return said(tool("hadolint"), deploy / "Dockerfile")


def prometheus(deploy: Path) -> str:
    return said(promtool(), "check", "config", deploy / "prometheus" / "prometheus.yml")


def manifests(deploy: Path) -> str:
    """Check each resource by itself, and that of the alert rules as the generator prints it."""
    files = sorted((deploy / "kubernetes").rglob("*.yaml"))
    resources = [one for path in files for one in documents(path)]
    return "\n".join(faults([*resources, yaml.safe_load(rule(deploy))]))


def rule(deploy: Path, *options: str) -> str:
    """Return the PrometheusRule, as the generator prints it."""
    program = [sys.executable, deploy / "kubernetes" / "generate.py", *options]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


def rendered(deploy: Path) -> str:
    """Check each folder that is to be applied as kubectl puts it together."""
    found: list[str] = []
    for folder in sorted((deploy / "kubernetes" / "overlays").iterdir()):
        done = subprocess.run([kubectl(), "kustomize", folder], capture_output=True, text=True, check=False)
        found += [done.stderr] if done.returncode else faults([one for one in yaml.safe_load_all(done.stdout) if one])
    return "\n".join(found)


def promtool() -> str:
    return program("promtool", "Debian: apt install prometheus")


def kubectl() -> str:
    return program("kubectl", "https://kubernetes.io/docs/tasks/tools/")


def faults(resources: list[dict[str, Any]]) -> Iterator[str]:
    """Say what is wrong with resources, a line each."""
    for resource in resources:
        kind = resource["kind"]
        where = f"{kind} {resource.get('metadata', {}).get('name', '')}"
        if (schema := SCHEMAS / f"{kind.lower()}.json").exists():
            found = jsonschema.Draft202012Validator(json.loads(schema.read_text())).iter_errors(resource)
            yield from (f"{where}: {error.json_path}: {error.message}" for error in found)
        elif kind not in BUILT:
            yield from (f"{where}: {fault}" for fault in _api_faults(resource))


def _api_faults(resource: dict[str, Any]) -> Iterator[str]:
    for version in (KUBERNETES, kubernetes_validate.latest_version()):
        try:
            kubernetes_validate.validate(resource, version, strict=True)
        except jsonschema.ValidationError as error:
            yield f"{version}: {error.json_path}: {error.message}"
        except kubernetes_validate.SchemaNotFoundError as error:
            yield error.message


@dataclass(frozen=True)
class Checker:
    """A checker, and a mistake that it must find.

    Attributes
    ----------
    check : callable
        Takes the folder and returns what is wrong, empty if nothing is.
    file : str
        Where the mistake is planted, within the folder.
    right, wrong : str
        What stands there, and what in its place.
    names : str
        What the checker must say of it.
    """

    check: Callable[[Path], str]
    file: str
    right: str
    wrong: str
    names: str


BASE = "kubernetes/base"
CHECKERS = {
    "compose specification": Checker(compose, "compose.yaml", "read_only: true", "readonly: true", "readonly"),
    "yamllint": Checker(yamllint, f"{BASE}/trainer.yaml", "  replicas: 1\n", "  replicas: 1 \n", "trailing spaces"),
    "hadolint": Checker(hadolint, "Dockerfile", "FROM ${PYTHON_IMAGE} AS build", "FROM python AS build", "DL3006"),
    "promtool, scraping": Checker(
        prometheus, "prometheus/prometheus.yml", "scrape_timeout", "scrape_time_out", "scrape_time_out"
    ),
    "promtool, rules": Checker(
        prometheus, "prometheus/rules.yml", "sum by (job, instance) (", "sum by (job, instance (", "could not parse"
    ),
    "Kubernetes API": Checker(manifests, f"{BASE}/trainer.yaml", "runAsNonRoot", "runAsNonroot", "runAsNonroot"),
    "Strimzi's users": Checker(
        manifests, "kubernetes/strimzi/users.yaml", "operations: [Read]", "operation: Read", "operation"
    ),
    "Strimzi's topics": Checker(
        manifests, "kubernetes/strimzi/topics.yaml", "partitions: 1\n", 'partitions: "1"\n', "$.spec.partitions"
    ),
    "rules of the operator": Checker(manifests, "prometheus/rules.yml", "for: 2m", "for: 2 minutes", "2 minutes"),
    "scraping of the operator": Checker(
        manifests, "kubernetes/monitoring/service-monitor.yaml", "- port: http", "- targetPort: http", "targetPort"
    ),
    "kustomize": Checker(rendered, f"{BASE}/kustomization.yaml", "- trainer.yaml", "- trainers.yaml", "trainers.yaml"),
    "kustomize, patched": Checker(
        rendered, "kubernetes/overlays/example/kustomization.yaml", "value: 2", 'value: "2"', "$.spec.replicas"
    ),
}
