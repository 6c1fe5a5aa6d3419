"""The deployment's files are valid, pinned, and agree with the project and with each other."""

from __future__ import annotations

import re

import pytest

from consumers.host import Names
from consumers.loader import load
from consumers.settings import HttpConfig
from tests.deploy.files import BY_TAG, DEPLOY, DOCKERFILE, PROMETHEUS, ROOT, RULES, compose, images, parsed


def test_images_are_pinned() -> None:
    """Every image has an exact version and a digest, but those of which none is known; the one built here is local."""
    for name, service in compose()["services"].items():
        assert service["image"] == "streamsvm:local" or service["image"].startswith("${"), name
    for reference in images().values():
        image, tag, digest = re.fullmatch(r"([\w/]+):([^@]+)(@sha256:[0-9a-f]{64})?", reference).groups()
        assert re.match(r"v?\d+\.\d+\.\d+(-|$)", tag), reference
        assert digest or BY_TAG.get(image) == tag, reference
        assert reference in (DEPLOY / "README.md").read_text()
    assert re.findall(r"(?m)^FROM (\S+)", DOCKERFILE.read_text()) == ["${PYTHON_IMAGE}"] * 2


OURS = ("outputs", "trainer", "worker-1", "worker-2", "scorer", "replay", "questions")


@pytest.mark.parametrize("name", OURS)
def test_containers_get_options_that_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of image and compose file is a valid configuration, and the topics are those that are made."""
    image = dict(re.findall(r"(STREAMSVM_\w+)=(\S+)", DOCKERFILE.read_text()))
    services = compose()["services"]
    for variable, value in {**image, **services[name]["environment"]}.items():
        monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value)))  # as without that variable
    settings = load()
    (script,) = services["topics"]["command"]
    (made,) = re.findall(r"for topic in (.+); do", script)
    assert settings.kafka["bootstrap.servers"] == "kafka:19092"
    assert str(settings.checkpoint.directory) == "/var/lib/streamsvm/checkpoint"
    assert made.split() == ["candidates", "points"]
    if name in ("outputs", "trainer", "worker-1", "worker-2"):
        assert (settings.name, settings.input.topic) == ("pulsars", "candidates")
    if name in ("trainer", "worker-1", "worker-2"):
        assert settings.models().points.dimension == 8
    if name == "scorer":
        assert settings.scoring.topic == "points"
    if name in ("replay", "questions"):
        (topic,) = [here for here in made.split() if here in services[name]["command"]]
        assert topic == {"replay": "candidates", "questions": "points"}[name]


def test_no_container_leaves_a_core_dump() -> None:
    """A dump would hold passwords and points; ours are confined, and none but Grafana's keeps a capability."""
    for name, service in compose()["services"].items():
        if name in OURS:
            assert (service["ulimits"], service["read_only"]) == ({"core": 0}, True), name
        if name != "grafana":
            assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name


def test_prometheus_scrapes_the_daemons() -> None:
    """The scrape targets are the compose file's trainer and scorer at the port that the image opens."""
    assert parsed(PROMETHEUS)["rule_files"] == [RULES.name]
    targets = {job["job_name"]: job["static_configs"] for job in parsed(PROMETHEUS)["scrape_configs"]}
    assert targets == {f"streamsvm-{daemon}": [{"targets": [f"{daemon}:9464"]}] for daemon in ("trainer", "scorer")}
    assert "EXPOSE 9464" in DOCKERFILE.read_text()
    for daemon in ("trainer", "scorer"):
        allowed = compose()["services"][daemon]["environment"]["STREAMSVM_HTTP__ALLOWED_HOSTS"]
        assert Names(HttpConfig(allowed_hosts=(allowed,))).answers_to(f"{daemon}:9464")


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
