"""The readers as packages: pinned, of one version, and used as their pages say; what they share with no other test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np
import pytest
from confluent_kafka import Producer

from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import Alias, LinearMachine, Model, Scaler, Version
from streamsvm.registry import Loaded
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, JvmBroker, kafka_jars
from tests.golden import answers
from tests.interop.programs import DEPLOY, NODE, NODE_READER, Program, command
from tests.interop.test_subscribers import scene
from tests.registry.test_subscriber import NAME, Trainer, eventually, version_of

ROOT: Final = DEPLOY.parent
JAVA: Final = DEPLOY / "java"
FOLDERS: Final = (JAVA, NODE_READER)
LANGUAGES: Final = ("Java", "Node.js")
TIMEOUT_S: Final = 60.0
PAGE_TIMEOUT_S: Final = 500.0
SCORE: Final = {"id": 1, "score": 0.5, "label": 1, "model": "m", "version": 1, "points": 9}
PASSED: Final = {"id": "µ" * 300, "x": [round(0.37 * i, 2) for i in range(60_000)]}
"""More than one block of every compression, with repetitions near and far."""


def pinned_in_java() -> dict[str, str]:
    """Return the version of each dependency and plugin of the module."""
    pom = ElementTree.parse(JAVA / "pom.xml").getroot()
    found = [*pom.iterfind(".//dependency"), *pom.iterfind(".//plugin")]
    properties = {f"${{{one.tag}}}": one.text or "" for one in pom.iterfind("./properties/*")}
    versions = {one.findtext("artifactId", ""): one.findtext("version", "") for one in found}
    return {name: properties.get(version, version) for name, version in versions.items()}


def test_both_have_the_version_of_the_whole() -> None:
    """What pages name is what is built."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    package = json.loads((NODE_READER / "package.json").read_text())
    pom = (JAVA / "pom.xml").read_text()
    assert package["version"] == version
    assert f"<artifactId>streamsvm-reader</artifactId>\n  <version>{version}</version>" in pom
    assert f"<version>{version}</version>" in (JAVA / "README.md").read_text()
    assert f"streamsvm-reader-{version}.tgz" in (NODE_READER / "README.md").read_text()


def test_every_dependency_is_pinned_and_no_host_is_named() -> None:
    """One version each, by hash for npm; the addresses are the machine's own. The tests run the same ones."""
    lock = json.loads((NODE_READER / "package-lock.json").read_text())
    package = json.loads((NODE_READER / "package.json").read_text())
    installed = {name.removeprefix("node_modules/"): one for name, one in lock["packages"].items() if name}
    assert all(one["integrity"].startswith("sha512-") and "resolved" not in one for one in installed.values())
    wanted = package["dependencies"] | package["devDependencies"] | package["peerDependencies"]
    assert wanted == {name: installed[name]["version"] for name in wanted}
    tests = json.loads((NODE / "package.json").read_text())["dependencies"]
    used = package["dependencies"] | package["peerDependencies"]
    assert {name: tests[name] for name in used} == used
    pinned = pinned_in_java()
    assert all(re.fullmatch(r"[\d.]+", version) for version in pinned.values()), pinned
    for file in ((NODE_READER / "package-lock.json"), (JAVA / "pom.xml")):
        hosts = set(re.findall(r"https?://([^/\"<]+)", file.read_text()))
        assert not hosts, file
    assert "<repository>" not in (JAVA / "pom.xml").read_text()


def test_java_is_built_with_the_jars_that_the_tests_run() -> None:
    """kafka-clients and Jackson, of the versions that the test broker brings."""
    try:
        jars = {path.name for path in kafka_jars().iterdir()}
    except CannotRun as missing:
        pytest.skip(f"no jars: {missing}")
    pinned = pinned_in_java()
    for name in ("kafka-clients", "jackson-databind"):
        assert f"{name}-{pinned[name]}.jar" in jars


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_carries_the_licence(folder: Path) -> None:
    """A file of its own: npm packs no link."""
    assert not (folder / "LICENSE").is_symlink()
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_kept_answers_are_what_python_says() -> None:
    """The packages' own tests compare with this file."""
    kept, found = json.loads(answers.FILE.read_text("utf-8")), answers.answers()
    assert kept["scores"] == found["scores"]
    for mine, theirs in zip(kept["models"], found["models"], strict=True):
        assert {**mine, "answers": 0} == {**theirs, "answers": 0}
        for one, other in zip(mine["answers"], theirs["answers"], strict=True):
            found_leaves = flat(other)
            for path, leaf in flat(one).items():
                told = found_leaves.pop(path)
                close = pytest.approx(told, rel=1e-12, abs=1e-12) if isinstance(told, float) else told
                assert leaf == close, (mine["model"], path)
            assert found_leaves == {}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of a value by their paths."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: leaf for key, one in items for name, leaf in flat(one, f"{path}.{key}").items()}
    return {path: value}


def test_the_tests_of_node_pass_without_its_packages(tmp_path: Path) -> None:
    """The core has no dependency: its tests run where nothing was installed. Java's need JUnit: `make readers`."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    reader, tests = tmp_path / "deploy" / "node", tmp_path / "tests"
    shutil.copytree(NODE_READER, reader, ignore=shutil.ignore_patterns("node_modules"))
    tests.mkdir()
    for name in ("golden", "contract"):
        (tests / name).symlink_to(ROOT / "tests" / name)
    files = map(str, sorted((reader / "test").glob("*.test.mjs")))
    ran = subprocess.run(
        ["node", "--test", *files], cwd=reader, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stdout
    assert "# pass 0" not in ran.stdout


# ---------------------------------------------------------------- on a real broker


def servers(broker: TestBroker) -> str:
    return str(broker.connection.options["bootstrap.servers"])


def produce(broker: TestBroker, topic: str, value: bytes, headers: dict[str, str], compression: str = "none") -> None:
    """Write a record by librdkafka."""
    producer = Producer({"bootstrap.servers": servers(broker), "compression.type": compression, "log_level": 0})
    producer.produce(topic, value, partition=0, headers=list(headers.items()))
    assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_records_of_scores_are_read(language: str, real_broker: TestBroker, tmp_path: Path) -> None:
    """As the scorer makes them: a row for each good point, with its version and its reasons."""
    topic, kept = real_broker.topic(), json.loads(answers.FILE.read_text("utf-8"))["scores"]
    produce(real_broker, topic, kept["value"].encode(), kept["headers"])
    given = command(language, tmp_path, "--scores", "read_scores.mjs", servers(real_broker), topic, "1")
    with Program(language, given, tmp_path) as program:
        read = program.next(TIMEOUT_S)
    assert read["source"] == kept["headers"]["streamsvm.source"]
    assert read["modelSha256"] == kept["headers"]["streamsvm.model.sha256"]
    for row, expected in zip(read["rows"], json.loads(kept["value"]), strict=True):
        assert row["id"] == expected["id"]
        assert row["label"] == expected["label"]
        assert row["reasons"] == expected["reasons"]
        assert row["row"] == expected["row"]


@pytest.mark.long(keep=("librdkafka-zstd", "librdkafka-snappy", "Java-lz4"))
@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("producer", ["librdkafka", "Java"])
def test_node_reads_every_compression(producer: str, compression: str, real_broker: TestBroker, tmp_path: Path) -> None:
    """Of both clients that people produce with: each frames LZ4 and Snappy in its own way."""
    topic, value = real_broker.topic(), json.dumps([{**SCORE, "passed": PASSED}])
    if producer == "Java":
        (tmp_path / "value").write_text(value)
        given = command("Java", tmp_path, "--produce", "", servers(real_broker), topic, compression)
        subprocess.run([*given, str(tmp_path / "value")], check=True, capture_output=True, timeout=TIMEOUT_S)
    else:
        produce(real_broker, topic, value.encode(), {}, compression)
    given = command("Node.js", tmp_path, "", "read_scores.mjs", servers(real_broker), topic)
    with Program("Node.js", given, tmp_path) as program:
        assert program.next(TIMEOUT_S)["rows"] == json.loads(value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_follows_pins_and_goes_on_after_what_it_refused(
    language: str, real_broker: TestBroker, tmp_path: Path
) -> None:
    """It begins with the newest alias, is held by a pin, refuses a record that is not there, and serves the next."""
    connection, (models, arguments) = real_broker.connection, scene(real_broker, tmp_path)
    with ExitStack() as stack:
        trainer = stack.enter_context(closing(Trainer(connection, models)))
        published = [trainer.publish(version_of(number)) for number in (1, 2)]
        given = command(language, tmp_path, "", "subscriber.mjs", *arguments)
        program = stack.enter_context(Program(language, given, tmp_path))
        assert program.next(TIMEOUT_S)["version"] == 2
        trainer.pin(published[0])
        assert program.next(TIMEOUT_S)["version"] == 1
        trainer.publish(version_of(3))
        trainer.pin(Alias(7, "f" * 64, published[1].offset))
        eventually(lambda: f"refused {NAME}@7" in program.complaints, "a refusal")
        trainer.pin(None)
        assert program.next(TIMEOUT_S)["version"] == 3


def producer_of(broker: TestBroker, transactional_id: str) -> Producer:
    """Return a producer within a transaction."""
    producer = Producer({"bootstrap.servers": servers(broker), "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    return producer


@pytest.mark.parametrize(
    ("library", "gives"),
    [("streamsvm-reader/kafkajs", ["last"]), ("kafkajs", ["of the first", "last"])],
    ids=["mended", "shipped"],
)
def test_of_overlapping_aborted_transactions_nothing_is_given_out(
    real_broker: TestBroker, tmp_path: Path, library: str, gives: list[str]
) -> None:
    """The transaction that began first ends last, so that the broker names it second.

    The client library in Node.js gives out what was aborted; mended, it does not. The shipped library's answer is the
    reason for the mended one: should a later release give "last" alone, take that.
    """
    topic = real_broker.topic()
    reads = command("Node.js", tmp_path, "", "committed.mjs", library, servers(real_broker), topic)
    first, second = producer_of(real_broker, f"{topic}-first"), producer_of(real_broker, f"{topic}-second")
    for producer, value in ((first, b"of the first"), (second, b"of the second")):
        producer.produce(topic, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
    second.abort_transaction(TIMEOUT_S)
    # An abort is answered before its marker is written, and the order of the markers is what the broker tells.
    place, cluster = (topic, 0), Cluster(real_broker.connection)
    eventually(lambda: cluster.marks([place])[place].end == 3, "the marker of the first abort")
    first.abort_transaction(TIMEOUT_S)
    last = producer_of(real_broker, f"{topic}-last")
    last.produce(topic, b"last", partition=0)
    last.commit_transaction(TIMEOUT_S)
    with Program("Node.js", reads, tmp_path) as program:
        given = [program.next(TIMEOUT_S)["value"]]
        while given[-1] != "last":
            given.append(program.next(TIMEOUT_S)["value"])
    assert given == gives


# ---------------------------------------------------------------- the pages


@pytest.mark.skipif(
    os.environ.get("STREAMSVM_TEST_READERS") != "1",
    reason="fetches what the packages need: set STREAMSVM_TEST_READERS=1, or run make readers",
)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_page_leads_from_an_empty_folder_to_a_scored_point(folder: Path, tmp_path: Path) -> None:
    """The commands as they stand there, but for the broker's address; the last line is the score."""
    (script,) = re.findall(r"```sh\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    broker = JvmBroker()
    broker.start()
    try:
        address = broker.bootstrap_servers
        version = of_eight_features()
        expected = Loaded(version=version, sha256="", offset=0, loaded_at=0.0).decision_function([ROW])[0]
        connection = Connection(options={"bootstrap.servers": address})
        Cluster(connection).create([TopicSpec("models"), TopicSpec("models.aliases")])
        with closing(Trainer(connection, "models")) as trainer:
            trainer.publish(version)
        script = script.replace("localhost:9092", address)
        ran = subprocess.run(
            ["sh", "-e", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "STREAMSVM": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PAGE_TIMEOUT_S,
        )
    finally:
        broker.stop()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last = re.sub(r"\x1b\[\d*m", "", ran.stdout).splitlines()[-1]  # Maven ends in a colour, also where it is quiet
    print(last)
    assert last.startswith(("pulsar@2:", "Model(pulsar@2,"))
    assert "pulsar" in last.partition(": ")[2]
    assert float(last.rpartition(" ")[2]) == pytest.approx(expected, rel=1e-12)


ROW: Final = [140.56, 55.68, -0.23, -0.70, 3.20, 19.11, 7.98, 74.24]
"""As the pages have it."""


def of_eight_features() -> Version:
    """Return version 2 of a model like that of the first hour."""
    machine = LinearMachine(np.array([0.5, -0.25, 1.5, 0.75, -0.5, 0.25, -1.0, 0.125]), 0.375)
    model = Model(Scaler(np.full(8, 10.0), np.full(8, 20.0)), machine)
    return replace(version_of(2), model=model, labels=("noise", "pulsar"))
