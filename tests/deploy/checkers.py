"""The checkers of the deployment's files: each takes a tree like this one and says what is wrong with it.

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
from pathlib import Path
from typing import Any, Final, NamedTuple

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.files import ROOT

YAMLLINT: Final = "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}"
KUBERNETES: Final = "1.32"
"""Oldest version of the API that the manifests are for; the newest that the schemas know is checked as well."""
SCHEMAS: Final = Path(__file__).parent / "schemas"
BUILT: Final = {"Kustomization", "Component"}
"""Kinds that only kustomize reads."""
WORKFLOW: Final = ".github/workflows/ci.yml"


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


def promtool() -> str:
    return program("promtool", "Debian: apt install prometheus")


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def compose(root: Path) -> str:
    return said(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", root / "deploy" / "compose.yaml")


def workflow(root: Path) -> str:
    return said(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", root / WORKFLOW)


def yamllint(root: Path) -> str:
    return said(tool("yamllint"), "--strict", "-d", YAMLLINT, root / "deploy", root / WORKFLOW)


def hadolint(root: Path) -> str:
    return said(tool("hadolint"), root / "deploy" / "Dockerfile")


def prometheus(root: Path) -> str:
    return said(promtool(), "check", "config", root / "deploy" / "prometheus" / "prometheus.yml")


def manifests(root: Path) -> str:
    """Check each resource by itself, and that of the alert rules as the generator prints it."""
    files = sorted((root / "deploy" / "kubernetes").rglob("*.yaml"))
    resources = [one for path in files for one in documents(path)]
    return "\n".join(faults([*resources, yaml.safe_load(rule(root / "deploy"))]))


def rule(deploy: Path, *options: str) -> str:
    """Return the PrometheusRule, as the generator prints it."""
    program = [sys.executable, deploy / "kubernetes" / "generate.py", *options]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


def kustomize(root: Path) -> str:
    """Check each folder that is to be applied as kubectl puts it together."""
    kubectl, found = program("kubectl", "https://kubernetes.io/docs/tasks/tools/"), []
    for folder in sorted((root / "deploy" / "kubernetes" / "overlays").iterdir()):
        done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
        found += [done.stderr] if done.returncode else faults([one for one in yaml.safe_load_all(done.stdout) if one])
    return "\n".join(found)


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


class Mistake(NamedTuple):
    """Who must find a mistake, in which file, what stands there, what in its place, and what is said of it."""

    check: Callable[[Path], str]
    file: str
    right: str
    wrong: str
    names: str


BASE: Final = "deploy/kubernetes/base"
PROMETHEUS: Final = "deploy/prometheus"
EXAMPLE: Final = "deploy/kubernetes/overlays/example/kustomization.yaml"
MISTAKES: Final = (
    Mistake(compose, "deploy/compose.yaml", "read_only: true", "readonly: true", "readonly"),
    Mistake(workflow, WORKFLOW, "runs-on:", "run-on:", "run-on"),
    Mistake(workflow, WORKFLOW, "fail-fast: false", "fail-fast: [no]", "fail-fast"),
    Mistake(workflow, WORKFLOW, "contents: read", "contents: reading", "reading"),
    Mistake(yamllint, f"{BASE}/trainer.yaml", "  replicas: 1\n", "  replicas: 1 \n", "trailing spaces"),
    Mistake(hadolint, "deploy/Dockerfile", "FROM ${PYTHON_IMAGE} AS build", "FROM python AS build", "DL3006"),
    Mistake(prometheus, f"{PROMETHEUS}/prometheus.yml", "scrape_timeout", "scrape_time_out", "scrape_time_out"),
    Mistake(prometheus, f"{PROMETHEUS}/rules.yml", "sum by (job, instance) (", "sum by (job, instance (", "not parse"),
    Mistake(manifests, f"{BASE}/trainer.yaml", "runAsNonRoot", "runAsNonroot", "runAsNonroot"),
    Mistake(manifests, "deploy/kubernetes/strimzi/users.yaml", "operations: [Read]", "operation: Read", "operation"),
    Mistake(manifests, "deploy/kubernetes/strimzi/topics.yaml", "partitions: 1\n", 'partitions: "1"\n', "partitions"),
    Mistake(manifests, f"{PROMETHEUS}/rules.yml", "for: 2m", "for: 2 minutes", "2 minutes"),
    Mistake(manifests, "deploy/kubernetes/monitoring/service-monitor.yaml", "- port: http", "- targetPort: http",
            "targetPort"),
    Mistake(kustomize, f"{BASE}/kustomization.yaml", "- trainer.yaml", "- trainers.yaml", "trainers.yaml"),
    Mistake(kustomize, EXAMPLE, "value: 2", 'value: "2"', "$.spec.replicas"),
)  # fmt: skip
