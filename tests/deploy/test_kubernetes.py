"""The manifests agree with the daemons, with the image, with SECURITY.md, and with the rest of the deployment."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from consumers.loader import load
from consumers.settings import Settings
from consumers.streams import output_topics
from tests.deploy.checkers import documents, rule
from tests.deploy.files import DEPLOY, DOCKERFILE, RULES, parsed
from tests.permissions import listed

KUBERNETES = DEPLOY / "kubernetes"
OPTIONS = [KUBERNETES / "base" / "streamsvm.toml", KUBERNETES / "overlays" / "example" / "streamsvm.toml"]
RESOURCES = [one for path in sorted(KUBERNETES.rglob("*.yaml")) for one in documents(path)]
DAEMONS = ("trainer", "scorer")


def named(kind: str, name: str) -> dict[str, Any]:
    """Return the one resource of this kind and name."""
    (found,) = [one for one in RESOURCES if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def pod(daemon: str) -> dict[str, Any]:
    kind = {"trainer": "StatefulSet", "scorer": "Deployment"}[daemon]
    spec: dict[str, Any] = named(kind, f"streamsvm-{daemon}")["spec"]["template"]["spec"]
    return spec


def container(daemon: str) -> dict[str, Any]:
    (only,) = pod(daemon)["containers"]
    return dict(only)


def settings(daemon: str, options: Path, folder: Path, patch: pytest.MonkeyPatch) -> Settings:
    """Return what a daemon makes of its pod: options, environment and mounted secret."""
    environment = {one["name"]: one["value"] for one in container(daemon)["env"]}
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
    for spec in output_topics(found):
        made = topics.pop(spec.name)
        assert made["partitions"] == spec.partitions
        assert {name: value for name, value in made["config"].items() if name != "min.insync.replicas"} == spec.config
    scoring = found.scoring
    progress = topics.pop(scoring.progress)
    assert progress["config"]["cleanup.policy"] == "compact"
    assert topics.keys() == {found.input.topic, scoring.topic, scoring.dead_letters, scoring.output_topic}
    counts = {one["partitions"] for one in (progress, topics[scoring.output_topic], topics[scoring.topic])}
    assert len(counts) == 1


@pytest.mark.parametrize("who", ["trainer", "scorer", "subscriber"])
def test_users_may_do_the_least(who: str) -> None:
    """A KafkaUser has the permissions that SECURITY.md lists for it, and no others."""
    names = {
        "in": "candidates",
        "in.dlq": "candidates.dlq",
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
    assert wanted
    assert given == wanted


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
