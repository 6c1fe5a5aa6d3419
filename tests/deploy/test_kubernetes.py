"""The manifests agree with the daemons, with the image, with SECURITY.md, and with the rest of the deployment."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from consumers.branches.workers import topic_spec
from consumers.loader import load
from consumers.settings import Settings
from consumers.streams import output_topics
from tests.deploy.checkers import documents, faults, program, rule
from tests.deploy.files import DEPLOY, DOCKERFILE, RULES, parsed
from tests.permissions import listed, permissions_of

KUBERNETES = DEPLOY / "kubernetes"
OPTIONS = [KUBERNETES / "base" / "streamsvm.toml", KUBERNETES / "overlays" / "example" / "streamsvm.toml"]
RESOURCES = [one for path in sorted(KUBERNETES.rglob("*.yaml")) for one in documents(path)]
DAEMONS = ("trainer", "scorer", "worker")
FROM_CORESETS = "trainer with training.from_coresets"


def named(kind: str, name: str) -> dict[str, Any]:
    """Return the one resource of this kind and name."""
    (found,) = [one for one in RESOURCES if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def pod(daemon: str) -> dict[str, Any]:
    kind = {"trainer": "StatefulSet", "scorer": "Deployment", "worker": "StatefulSet"}[daemon]
    spec: dict[str, Any] = named(kind, f"streamsvm-{daemon}")["spec"]["template"]["spec"]
    return spec


def container(daemon: str) -> dict[str, Any]:
    (only,) = pod(daemon)["containers"]
    return dict(only)


def settings(daemon: str, options: Path, folder: Path, patch: pytest.MonkeyPatch) -> Settings:
    """Return what a daemon makes of its pod: options, environment and mounted secret."""
    environment = {one["name"]: one.get("value", "0") for one in container(daemon)["env"]}  # a pod's own: its number
    assert environment.pop("STREAMSVM_CONFIG") == mounted(daemon, "options") + "/streamsvm.toml"
    assert environment.pop("STREAMSVM_SECRETS") == mounted(daemon, "secrets")
    for variable, value in environment.items():
        patch.setenv(variable, value)
    (item,) = secret_of(daemon)["items"]
    (folder / item["path"]).write_text("said to nobody")
    return load(file=options, secrets=folder)


def secret_of(daemon: str) -> dict[str, Any]:
    (secret,) = [volume["secret"] for volume in pod(daemon)["volumes"] if volume["name"] == "secrets"]
    return dict(secret)


def mounted(daemon: str, volume: str) -> str:
    (path,) = [one["mountPath"] for one in container(daemon)["volumeMounts"] if one["name"] == volume]
    return str(path)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("daemon", DAEMONS)
def test_pods_get_options_that_exist(
    daemon: str, options: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, environment and secret are a valid configuration, which logs in as that daemon's KafkaUser."""
    found = settings(daemon, options, tmp_path, monkeypatch)
    user = named("KafkaUser", f"streamsvm-{daemon}")
    assert found.models().points.dimension == 8
    assert found.kafka["sasl.username"] == user["metadata"]["name"]
    assert found.kafka["sasl.password"] == "said to nobody"
    assert found.kafka["ssl.ca.location"] == f"{mounted(daemon, 'kafka-ca')}/ca.crt"
    secret = secret_of(daemon)
    assert (secret["secretName"], secret["items"][0]["key"]) == (user["metadata"]["name"], "password")


@pytest.mark.parametrize("options", OPTIONS, ids=lambda path: path.parent.name)
def test_topics_are_those_that_the_daemons_want(options: Path) -> None:
    """The daemons may create nothing, so every topic is there, with the settings that they would give it."""
    found = Settings.model_validate(tomllib.loads(options.read_text()))
    topics = {one["metadata"]["name"]: one["spec"] for one in RESOURCES if one["kind"] == "KafkaTopic"}
    for spec in [*output_topics(found), topic_spec(found, topics[found.input.topic]["partitions"])]:
        made = topics.pop(spec.name)
        assert made["partitions"] == spec.partitions
        assert {name: value for name, value in made["config"].items() if name != "min.insync.replicas"} == spec.config
    scoring = found.scoring
    progress = topics.pop(scoring.progress)
    assert progress["config"]["cleanup.policy"] == "compact"
    assert topics.keys() == {found.input.topic, scoring.topic, scoring.dead_letters, scoring.output_topic}
    counts = {one["partitions"] for one in (progress, topics[scoring.output_topic], topics[scoring.topic])}
    assert len(counts) == 1


@pytest.mark.parametrize("who", ["trainer", "scorer", "subscriber", "worker"])
def test_users_may_do_the_least(who: str) -> None:
    """A KafkaUser has the permissions that SECURITY.md lists for it, and no others."""
    names = {
        "in": "candidates",
        "in.dlq": "candidates.dlq",
        "m.coresets": "pulsars.coresets",
        "streamsvm-m": "streamsvm-pulsars",
        "streamsvm/m/models": "streamsvm/pulsars/models",
        "streamsvm/m/models/moves": "streamsvm/pulsars/models/moves",
        "m-scorer": "pulsars-scorer",
        "m-scorer-*": "pulsars-scorer-*",
    }
    wanted = {
        (kind.replace("transactional_id", "transactionalId"), names.get(name, name), operation.capitalize())
        for row_of, kind, name, operation in listed()
        if row_of == who
    }
    rules = named("KafkaUser", f"streamsvm-{who}")["spec"]["authorization"]["acls"]
    star = {"literal": "", "prefix": "*"}
    given = {
        (rule["resource"]["type"], rule["resource"]["name"] + star[rule["resource"]["patternType"]], operation)
        for rule in rules
        for operation in rule["operations"]
    }
    wanted = {one for one in wanted if one[:2] != ("group", "streamsvm-m-workers")}  # those here have fixed ordinals
    assert wanted
    assert given == wanted


@pytest.fixture(scope="module")
def combined(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What kubectl makes of the example with workers beside it."""
    folder = tmp_path_factory.mktemp("combined") / "kubernetes"
    shutil.copytree(KUBERNETES, folder)
    overlay = folder / "overlays" / "example"
    file = overlay / "kustomization.yaml"
    file.write_text(file.read_text().replace("- ../../monitoring", "- ../../monitoring\n  - ../../workers"))
    kubectl = program("kubectl", "https://kubernetes.io/docs/tasks/tools/")
    built = subprocess.run([kubectl, "kustomize", overlay], capture_output=True, text=True, check=True).stdout
    return [one for one in yaml.safe_load_all(built) if one]


def of_kind(resources: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in resources if one["kind"] in kinds]


def test_the_example_with_workers_is_valid(combined: list[dict[str, Any]]) -> None:
    """Strictly, by the schemas of Kubernetes and of the operators; the trainer may use what workers write."""
    assert list(faults(combined)) == []
    (trainer,) = [one for one in of_kind(combined, "KafkaUser") if one["metadata"]["name"] == "streamsvm-trainer"]
    rules = trainer["spec"]["authorization"]["acls"]
    given = {("topic", rule["resource"]["name"], each) for rule in rules for each in rule["operations"]}
    wanted = {("topic", "pulsars.coresets", each.capitalize()) for _, _, each in permissions_of(FROM_CORESETS)[-2:]}
    assert wanted <= given


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", selector)
    return bool(wanted.items() <= labels.items())


@pytest.mark.parametrize("daemon", DAEMONS)
def test_every_daemon_is_found_named_and_let_out(daemon: str, combined: list[dict[str, Any]]) -> None:
    """The ServiceMonitor finds its pods by a Service, `serviceName` is one, and policies let it to what it needs."""
    (workload,) = [
        one
        for one in of_kind(combined, "StatefulSet", "Deployment")
        if one["metadata"]["name"] == f"streamsvm-{daemon}"
    ]
    template = workload["spec"]["template"]
    labels = template["metadata"]["labels"]
    (monitor,) = of_kind(combined, "ServiceMonitor")
    watched = [
        one
        for one in of_kind(combined, "Service")
        if selects(monitor["spec"]["selector"], one["metadata"]["labels"]) and selects(one["spec"]["selector"], labels)
    ]
    (service,) = watched
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == f"streamsvm-{daemon}"
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    assert {one["port"] for one in monitor["spec"]["endpoints"]} <= {port["name"] for port in service["spec"]["ports"]}
    assert workload["spec"].get("serviceName", service["metadata"]["name"]) == service["metadata"]["name"]
    rules = [
        rule
        for policy in of_kind(combined, "NetworkPolicy")
        if selects(policy["spec"]["podSelector"], labels)
        for rule in policy["spec"]["egress"]
    ]
    reached = {
        (next(iter(peer["podSelector"]["matchLabels"].values())), port["port"])
        for rule in rules
        for peer in rule["to"]
        for port in rule["ports"]
    }
    assert reached == {("kube-dns", 53), ("kafka", 9093), ("schema-registry", 8081)}


def test_rules_are_those_of_prometheus() -> None:
    """The operator gets the rules that are tested, and the labels that were asked for."""
    printed = yaml.safe_load(rule(DEPLOY, "--label", "release=prometheus"))
    assert printed["spec"] == parsed(RULES)
    assert printed["metadata"]["labels"] == {"app.kubernetes.io/part-of": "streamsvm", "release": "prometheus"}


@pytest.mark.parametrize("daemon", DAEMONS)
def test_pods_are_confined(daemon: str) -> None:
    """A daemon that is taken over has no root, no capability, no token, and nowhere to write but its own volumes."""
    spec, only = pod(daemon), container(daemon)
    (user,) = re.findall(r"(?m)^USER (\d+):\1$", DOCKERFILE.read_text())
    wanted = {"runAsNonRoot": True, "runAsUser": int(user), "runAsGroup": int(user), "fsGroup": int(user)}
    assert wanted.items() <= spec["securityContext"].items()
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    assert {"memory"} == only["resources"]["limits"].keys()


def test_there_is_no_secret_in_the_repository() -> None:
    """Secrets are referred to, never written."""
    assert not [one for one in RESOURCES if one["kind"] == "Secret"]
