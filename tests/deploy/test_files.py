"""The deployment's files are valid, pinned, and agree with the project and with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamsvm.config import load
from streamsvm.metrics import PROCESS, SCORER, TRAINER
from tests.deploy.files import COMPOSE, DEPLOY, DOCKERFILE, PROMETHEUS, ROOT, RULES, compose, parsed, selectors, series

YAMLLINT = "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}"


def run(*command: str | Path) -> None:
    """Run a checker and fail with what it said."""
    checked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def tool(name: str) -> Path:
    """Return a checker that is installed beside this interpreter."""
    path = Path(sys.executable).parent / name
    assert path.exists(), f"{name} is missing: install the extra `dev`"
    return path


def requirements(name: str) -> dict[str, str]:
    """Return what a requirements file says of each package, comments and markers left out."""
    blocks = re.split(r"(?m)^(?=\w)", (ROOT / "requirements" / name).read_text())
    found = {}
    for block in blocks:
        if match := re.match(r"([\w.-]+)==(\S+)", block):
            found[match[1]] = " ".join([match[2], *sorted(re.findall(r"--hash=\S+", block))])
    return found


def test_compose_file_follows_the_specification() -> None:
    """The compose file is valid by the specification's schema."""
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_yaml_is_clean() -> None:
    """yamllint finds nothing, not even a warning."""
    run(tool("yamllint"), "--strict", "-d", YAMLLINT, DEPLOY)


def test_dockerfile_is_clean() -> None:
    """hadolint finds nothing."""
    run(tool("hadolint"), DOCKERFILE)


def test_prometheus_takes_its_configuration() -> None:
    """Prometheus's own checker takes the scrape configuration."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH (Debian: apt install prometheus)")
    run(promtool, "check", "config", PROMETHEUS)


def test_alerts_ask_for_metrics_and_labels_that_exist() -> None:
    """Every series of every rule is one that a daemon tells, with the labels it has there, or one recorded here."""
    known = {
        name: labels for definition in (*TRAINER, *SCORER, *PROCESS) for name, labels in series(definition).items()
    }
    assert parsed(PROMETHEUS)["rule_files"] == [RULES.name]
    rules = [rule for group in parsed(RULES)["groups"] for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert rules
    for rule in rules:
        asked = selectors(rule["expr"])
        named = re.findall(r"\bstreamsvm:\w+(?::\w+)*", rule["expr"])
        assert set(named) <= recorded, rule
        assert asked or named or rule["expr"].startswith("up{"), rule
        for name, labels in asked.items():
            assert labels <= known[name], rule


def test_ports_are_bound_to_the_loopback_address() -> None:
    """Nothing listens to the network of a machine that runs the stack."""
    published = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published), published


def test_images_are_pinned() -> None:
    """Every image has a version; only the one built here is local."""
    for name, service in compose()["services"].items():
        image, _, tag = service["image"].partition(":")
        assert (image, tag) == ("streamsvm", "local") or re.fullmatch(r"v?\d+\.\d+\.\d+", tag), name
    bases = re.findall(r"(?m)^FROM (\S+)", DOCKERFILE.read_text())
    assert len(set(bases)) == 1, "the environment of one stage runs on the interpreter of the other"


def test_long_running_services_restart() -> None:
    """Whatever should always run comes back after a crash and after a reboot."""
    for name, service in compose()["services"].items():
        expected = "on-failure:5" if name == "topics" else "unless-stopped"
        assert service["restart"] == expected, name


def test_containers_get_options_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of image and compose file is a valid configuration of a trainer."""
    image = dict(re.findall(r"(STREAMSVM_\w+)=(\S+)", DOCKERFILE.read_text()))
    for name in ("trainer", "replay"):
        with monkeypatch.context() as patch:
            for variable, value in {**image, **compose()["services"][name]["environment"]}.items():
                patch.setenv(variable, str(value))
            settings = load()
        assert settings.kafka["bootstrap.servers"] == "kafka:19092"
        assert str(settings.checkpoint.directory) == "/var/lib/streamsvm/checkpoint"
        if name == "trainer":
            assert settings.models().points.dimension == 8
            assert settings.input.topic in compose()["services"]["topics"]["command"]
            assert settings.input.topic in compose()["services"]["replay"]["command"]


def test_prometheus_scrapes_the_trainer() -> None:
    """The scrape target is the compose file's trainer at the port that the image opens."""
    (job,) = parsed(PROMETHEUS)["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["trainer:9464"]}]
    assert "EXPOSE 9464" in DOCKERFILE.read_text()
    assert "trainer" in compose()["services"]


def test_build_requirements_are_those_of_development() -> None:
    """The wheel in the image is built by what the wheel is tested with."""
    build, development = requirements("build.txt"), requirements("dev.txt")
    assert "hatchling" in build
    for package, pinned in build.items():
        assert "--hash=" in pinned
        assert development[package] == pinned, f"requirements/build.txt: {package} differs from dev.txt"


def test_build_context_holds_what_the_image_copies() -> None:
    """Everything the Dockerfile copies is let in by .dockerignore, and nothing else is."""
    let_in = set(re.findall(r"(?m)^!(\S+)", (ROOT / ".dockerignore").read_text()))
    copied = {
        source.rstrip("/")
        for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", DOCKERFILE.read_text())
        for source in line.split()[:-1]
    }
    assert let_in == copied
    assert all((ROOT / path).exists() for path in copied)
