"""Readers in Java and Node.js: what a listener hears, what a subscriber says of itself, and whom it follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest

from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.interop.programs import Program, command
from tests.interop.test_subscribers import scene
from tests.registry.test_anchoring import Topic
from tests.registry.test_subscriber import NAME, Trainer, version_of

LANGUAGES: Final = ("Java", "Node.js")
"""Those whose program has the mode --live."""
TIMEOUT_S: Final = 60.0
QUIET_S: Final = 8
"""Longer than a busy machine needs to find that no broker answers at first."""
NEVER_MS: Final = "600000"


def live(language: str, directory: Path, *given: str) -> Program:
    """Return a program that prints all that a listener hears, and what the subscriber says of itself."""
    return Program(language, command(language, directory, "--live", "live.mjs", *given), directory)


def until(program: Program, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """Return the first line from here on for which something holds, or fail."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        line = program.next(TIMEOUT_S, what)
        if holds(line):
            return line
    pytest.fail(f"{what} was not printed: {program.lines}")


def told(program: Program, kind: str, text: str) -> None:
    """Wait for what a listener hears."""
    until(program, lambda line: line.get(kind) == text, f"{kind}: {text}")


def state(program: Program, **expected: Any) -> None:
    """Wait until the subscriber says something of itself; it may have said so before the listener was told."""
    if not expected.items() <= next((line["state"] for line in program.lines[::-1] if "state" in line), {}).items():
        until(program, lambda line: expected.items() <= line.get("state", {}).items(), str(expected))


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_may_start_first_and_tells_an_outage(language: str, tmp_path: Path) -> None:
    """Each reason to wait is told once; without a broker the version serves on, and the next comes at its return."""
    try:
        broker = JvmBroker()
    except CannotRun as missing:
        pytest.skip(f"no broker: {missing}")
    address = broker.bootstrap_servers
    waits = f"waiting for {NAME}@current: "
    with ExitStack() as stack:
        stack.callback(broker.stop)
        program = stack.enter_context(
            live(language, tmp_path, address, "models", NAME, "current", str(QUIET_S * 1_000))
        )
        told(program, "waits", f"{waits}no broker answered at {address}")
        told(program, "waits", f"{waits}no broker answered at {address} for {QUIET_S} s")
        broker.start()
        connection = Connection(options={"bootstrap.servers": address})
        told(program, "waits", f"{waits}topic models.aliases does not exist at {address}")
        Cluster(connection).create([TopicSpec("models.aliases")])
        told(program, "waits", f"{waits}topic models does not exist at {address}")
        Cluster(connection).create([TopicSpec("models")])
        told(program, "waits", f"{waits}models.aliases has no alias {NAME}@current")
        with closing(Trainer(connection, "models")) as trainer:
            trainer.publish(version_of(1))
        told(program, "serves", f"{NAME}@1")
        state(program, ready=True, version=f"{NAME}@1", missing="", heard=True, aged=True)
        broker.kill()
        silence = f"no broker answered at {address} for {QUIET_S} s; {NAME}@1 serves on"
        told(program, "waits", waits + silence)
        state(program, ready=True, version=f"{NAME}@1", missing=silence)
        broker.start()
        with closing(Trainer(connection, "models")) as trainer:
            trainer.publish(version_of(2))
        told(program, "serves", f"{NAME}@2")
        state(program, missing="", version=f"{NAME}@2")
        heard = [line for line in program.lines if "waits" in line or "hears" in line]
        assert heard.count({"hears": True}) == 2
        assert [line for line in heard if heard.count(line) > 1] == [{"hears": True}] * 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_own_alias_is_followed_and_a_listener_may_refuse(
    language: str, real_broker: TestBroker, tmp_path: Path
) -> None:
    """What `current` and its pin name does not matter; the refused version is not asked about again."""
    connection, (models, given) = real_broker.connection, scene(real_broker, tmp_path)
    with ExitStack() as stack:
        trainer = stack.enter_context(closing(Trainer(connection, models)))
        first, second, third = (trainer.publish(version_of(number)) for number in (1, 2, 3))
        trainer.pin(first)
        program = stack.enter_context(live(language, tmp_path, *given[:3], "stable", NEVER_MS, "2"))
        told(program, "waits", f"waiting for {NAME}@stable: {models}.aliases has no alias {NAME}@stable")
        for alias in (third, second, third, second, first):
            trainer.point(f"{NAME}@stable", alias)
            refusal = f"refused {NAME}@2: we want another"
            if alias is second:
                state(program, missing=refusal, version=f"{NAME}@3")
            else:
                state(program, missing="", version=f"{NAME}@{alias.number}")
        assert [line for line in program.lines if "serves" in line] == [{"serves": f"{NAME}@{n}"} for n in (3, 1)]
        assert [line for line in program.lines if "refused" in line] == [{"refused": refusal}]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_version_by_its_number_is_the_one_that_the_chain_proves(
    language: str, real_broker: TestBroker, tmp_path: Path
) -> None:
    """A forgery that stands before and after it changes nothing; a number that nothing leads to ends the subscriber."""
    connection, (models, given) = real_broker.connection, scene(real_broker, tmp_path)

    def numbered(number: int) -> Program:
        return live(language, tmp_path, *given[:3], str(number), NEVER_MS)

    with ExitStack() as stack:
        topic = stack.enter_context(closing(Topic(connection, models)))
        topic.forge(2, version_of(2))
        topic.grow(5)
        topic.forge(2, version_of(2))
        for number in (2, 5):
            with numbered(number) as program:
                told(program, "serves", f"{NAME}@{number}")
                state(program, ready=True, version=f"{NAME}@{number}", aged=True)
        with numbered(9) as program:
            told(program, "refused", f"{NAME} has no version 9; the newest is 5")
            ended = f"the subscriber of {NAME} ended: {NAME} has no version 9; the newest is 5"
            state(program, ready=False, missing=ended)
