"""Recovery after poisoning: the commands of SECURITY.md, in their order, on a real broker."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.registry import load_version
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.trainers import produce, records, settings_for, versions
from tests.live.process import Daemon, arguments

TEXT = (Path(__file__).parents[3] / "SECURITY.md").read_text()
SECTION = TEXT.split("## Recovery after poisoning")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^ *streamsvm (.+)$", SECTION, re.MULTILINE)
GOOD, BAD, RENEWED = 1, 2, 3


def mislabeled(n: int) -> list[bytes]:
    """Return points with the labels of the other class."""
    turned = [json.loads(value) for value in records(n, seed=1)]
    return [json.dumps({**point, "y": -point["y"]}).encode() for point in turned]


def read_by(broker: TestBroker, settings: Settings) -> int:
    """Return the number of the version that readers get."""
    return load_version(broker.connection, "m", models_topic=settings.output.models_topic).version.number


def learn(settings: Settings, broker: TestBroker, number: int, *more: str) -> None:
    """Run a trainer until it has published a version, and stop it."""
    daemon = Daemon([*arguments(settings, broker.connection), *more])
    try:
        assert daemon.reaches_version(number), daemon.said
        assert daemon.stop() == 0, daemon.said
    finally:
        daemon.kill()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_documented_recovery_gives_readers_a_clean_model(real_broker: TestBroker, tmp_path: Path) -> None:
    """Every command of the section runs; the new version covers no bad point, and the bad one is retired."""
    broker, settings = real_broker, settings_for(real_broker.name(), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(settings.input.topic)])
    produce(broker.connection, settings.input.topic, records(40))
    learn(settings, broker, GOOD)
    produce(broker.connection, settings.input.topic, mislabeled(40))
    learn(settings, broker, BAD, "--output-gate-margin", "none")
    assert read_by(broker, settings) == BAD
    clean_since = datetime.now(UTC).isoformat()
    produce(broker.connection, settings.input.topic, records(40, seed=2))
    common = ["--bootstrap-servers", broker.connection.servers, "--name", "m"]
    common += ["--output-models-topic", settings.output.models_topic]
    told: dict[str, Any] = {}
    for command in COMMANDS:
        words = shlex.split(command)
        given = [{"GOOD": str(GOOD), "BAD": str(BAD), "TIME": clean_since}.get(word, word) for word in words]
        if given[0] == "train":
            settings.checkpoint.directory.rename(tmp_path / "kept")
            learn(settings, broker, RENEWED, *given[1:])
            assert read_by(broker, settings) == GOOD
            continue
        finished = run(*given, *common)
        assert finished.returncode == 0, finished.stderr
        told[command] = json.loads(finished.stdout) if "--json" in words else finished.stdout
    first_bad = 40
    assert told["model show --version BAD --json"]["lineage"]["cut"][0]["offset"] > first_bad
    assert [row["version"] for row in told["model list --all --json"]] == [GOOD, BAD]
    renewed = versions(broker.connection, settings)[-1]
    assert (renewed.number, renewed.stream.points, renewed.lineage.base[0].offset) == (RENEWED, 40, 80)
    assert read_by(broker, settings) == RENEWED
    listed = run("model", "list", "--json", *common)
    assert [row["version"] for row in json.loads(listed.stdout)] == [GOOD, RENEWED]


def test_every_step_of_the_section_has_its_commands() -> None:
    """What is written there as a command is found, and run, by the test above."""
    fenced = [line for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL) for line in block.split("\n")]
    assert [line.split("streamsvm ", 1)[1] for line in fenced if line.strip()] == COMMANDS
    assert len(COMMANDS) == 9
