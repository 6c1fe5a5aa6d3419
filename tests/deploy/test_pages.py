"""Every command in a block of a page of `deploy/` is run by a test, or stands here with the reason why none can."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]

from streamsvm.kafka import Cluster, Message, Outbox
from tests.brokers.fixtures import TestBroker
from tests.consumers.cli.test_first_hour import Place, here as here
from tests.consumers.command import run
from tests.deploy.checkers import program
from tests.deploy.files import DEPLOY
from tests.live.process import Daemon

PAGES: Final = sorted(page.name for page in DEPLOY.glob("*.md"))
HOUR: Final = "FIRST_HOUR.md"
"""Its commands are run, line by line, by tests.consumers.cli.test_first_hour."""
PROGRAMS: Final = r"docker|streamsvm|kubectl|python3|make|/opt/streamsvm/bin/\w+|cp|echo|systemctl|kafka-\w+(?:\.sh)?"
BLOCK: Final = re.compile(r"^```(?:sh|console|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED: Final = re.compile(r"^    (streamsvm .*)$", re.MULTILINE)
"""A command of a page that stands in no block."""

ENGINE: Final = "needs a container engine: `make test-deploy` runs compose, tests.deploy.test_checkers its file"
CLUSTER: Final = "needs a cluster: tests.deploy.test_kubernetes validates what it would be given"
UNITS: Final = "tests.deploy.test_units::test_what_the_page_installs_works_and_is_reset"
WORKERS: Final = "tests.deploy.test_pages::test_workers_learn_and_letters_are_mended_as_the_pages_say"
DELETES: Final = (
    "tests.branches.history.test_finding::test_the_command_erases_all_rows_of_ids_and_of_a_topic_of_deletes"
)
ERASED: Final = "tests.branches.history.test_erasing::test_a_row_is_erased_once_and_others_are_named"
RUN: Final = {
    "/opt/streamsvm/bin/pip install": UNITS,
    "cp deploy/systemd/": UNITS,
    "echo STREAMSVM_RESET=": UNITS,
    "kubectl kustomize": "tests.deploy.test_kubernetes::test_the_example_with_workers_is_valid",
    "kubectl set env": "tests.deploy.test_pages::test_a_reset_reaches_the_pod",
    "make wheel": UNITS,
    "python3 -m venv": UNITS,
    "streamsvm dead-letters": WORKERS,
    "streamsvm history forget --config trainer.toml --deletes": DELETES,
    "streamsvm history forget --config trainer.toml --position": ERASED,
    "streamsvm model show --name pulsars": "tests.consumers.cli.test_first_hour::test_the_page_goes_as_it_says",
    "streamsvm scale worker": WORKERS,
    "streamsvm topics create": WORKERS,
    "streamsvm train --config model.toml": WORKERS,
}
"""How a command begins, and the test that runs it."""
NOT_RUN: Final = {
    "docker compose": ENGINE,
    "kubectl apply": CLUSTER,
    "python3 deploy/kubernetes/generate.py": CLUSTER,
    "systemctl enable": "needs systemd itself: tests.deploy.test_units runs what the units start",
}
"""How a command begins that no test runs, and why."""


def commands_of(page: str) -> list[str]:
    """Return the commands in the blocks of a page, without their comments, each in one line."""
    text = (DEPLOY / page).read_text()
    blocks = [*BLOCK.findall(text), *INDENTED.findall(text)]
    lines = "\n".join(blocks).replace("|\n", "|").replace("\n$ ", "\n").removeprefix("$ ").splitlines()
    return [re.split(r"\s{2,}#|\s#\s", line)[0].rstrip() for line in lines if re.match(rf"(?:{PROGRAMS}) ", line)]


@pytest.mark.parametrize("page", [page for page in PAGES if page != HOUR])
def test_each_command_is_run_or_has_its_reason(page: str) -> None:
    """A new command needs a test that runs it, or a line above; a test that is named exists."""
    for command in commands_of(page):
        (tells,) = {told for begins, told in (RUN | NOT_RUN).items() if command.startswith(begins)} or {""}
        assert tells, f"{page}: no test runs `{command}`"
        module, _, name = tells.partition("::")
        assert tells in NOT_RUN.values() or hasattr(importlib.import_module(module), name), tells


def test_there_are_commands() -> None:
    """What is looked for is found: a page whose blocks are written in another way would pass unseen."""
    found = {
        begins
        for page in PAGES
        for command in commands_of(page)
        for begins in RUN | NOT_RUN
        if command.startswith(begins)
    }
    assert found == {*RUN, *NOT_RUN}


def test_a_reset_reaches_the_pod() -> None:
    """The page's line gives the trainer's container the variable, and no other pod."""
    (line,) = [line for line in commands_of("README.md") if line.startswith("kubectl set env")]
    kubectl = program("kubectl", "https://kubernetes.io/docs/tasks/tools/")
    example = DEPLOY / "kubernetes" / "overlays" / "example"
    built = subprocess.run([kubectl, "kustomize", example], capture_output=True, text=True, check=True).stdout
    trainer = [one for one in yaml.safe_load_all(built) if one["kind"] == "StatefulSet"]
    _, _, _, _, namespace, target, variable = line.split()
    kind, _, name = target.partition("/")
    (given,) = trainer
    assert (given["metadata"]["namespace"], given["metadata"]["name"], kind) == (namespace, name, "statefulset")
    local = [kubectl, "set", "env", "--local", "-f", "-", "-o", "json", variable]
    done = subprocess.run(local, input=yaml.safe_dump(given), capture_output=True, text=True, check=True).stdout
    (container,) = yaml.safe_load(done)["spec"]["template"]["spec"]["containers"]
    assert {"name": "STREAMSVM_RESET", "value": "pulsars/1"} in container["env"]


MODEL: Final = """
name = "{0}"
[kafka]
"bootstrap.servers" = "{1}"
[input]
topic = "{0}"
[points]
dimension = 2
labels = ["noise", "pulsar"]
[output]
models_topic = "{0}.models"
[http]
port = 0
"""
ROWS: Final = 4_000


@pytest.mark.long
def test_workers_learn_and_letters_are_mended_as_the_pages_say(
    real_broker: TestBroker, tmp_path: Path, here: Place
) -> None:
    """The lines of Sizing bring a version, of a group's worker and of one with a number; a letter is sent mended."""
    topic, servers = real_broker.topic(2), real_broker.connection.servers
    (tmp_path / "model.toml").write_text(MODEL.format(topic, servers))
    chance = np.random.default_rng(1)
    with closing(Outbox(real_broker.connection)) as outbox:
        for index, y in enumerate(["maybe", *chance.choice(("noise", "pulsar"), ROWS).tolist()]):
            x = (chance.normal(size=2) + (y == "noise")).tolist()
            outbox.send(Message(topic, json.dumps({"x": x, "y": y}).encode(), partition=index % 2))
        outbox.flush(30.0)
    lines = [line for line in commands_of("OPERATIONS.md") if "--config model.toml" in line]
    create, train, *workers = [shlex.split(line.replace("model.toml", str(tmp_path / "model.toml"))) for line in lines]
    assert run(*create[1:]).returncode == 0
    environment = {"STREAMSVM_CHECKPOINT__DIRECTORY": str(tmp_path / "checkpoint")}
    with ExitStack() as stack:
        trainer = Daemon(train[1:], environment)
        stack.callback(trainer.kill)
        for worker in workers:
            daemon = Daemon(worker[1:])
            stack.callback(daemon.kill)
            daemon.wait_for("partition_restored")
            if worker is workers[0]:
                trainer.wait_for("model_published")
            assert daemon.stop() == 0, daemon.said
        assert trainer.stop() == 0, trainer.said
    program("jq", "Debian: apt install jq")
    (mend,) = [line for line in commands_of("FORMATS.md") if "jq" in line]
    variables = {**os.environ, **here.environment, "STREAMSVM_KAFKA__BOOTSTRAP_SERVERS": servers}
    shell = ["bash", "-o", "pipefail", "-c", mend.replace("pulsars", topic)]
    done = subprocess.run(shell, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = [
        one for part in (0, 1) for one in Cluster(real_broker.connection).read_to_end(topic, part, timeout_s=30.0)
    ]
    assert len(stored) == ROWS + 2
    assert sum(json.loads(one.value or b"")["y"] == "maybe" for one in stored) == 1
