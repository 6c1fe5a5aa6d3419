"""What comes from outside is data of bounded size, never code."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consumers.loader import load
from streamsvm.errors import InvalidMessage
from streamsvm.ingest import RejectedRecord, Rejection, dead_letter as deadletter
from streamsvm.kafka import Cluster, Connection, DamagedBatch, Record, TopicSpec
from streamsvm.model import Alias, message as model_codec
from streamsvm.registry import ModelSubscriber
from tests.brokers.choice import NoBroker, start_real_broker
from tests.brokers.fixtures import TestBroker
from tests.registry.test_subscriber import NAME, Trainer, eventually, number_of, version_of
from tests.test_architecture import imports_of, modules

CODE_FROM_BYTES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "xml", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__"}
BOMB_BYTES = 150 * 2**20


def test_nothing_is_unpickled_evaluated_or_run_by_a_shell() -> None:
    """No module imports what makes code or objects of foreign bytes, nor calls what evaluates text."""
    for name, path in modules().items():
        roots = {imported.split(".")[0] for imported in imports_of(path)}
        assert not roots & CODE_FROM_BYTES, name
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert not (isinstance(node.func, ast.Name) and node.func.id in CALLS), f"{name}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
                assert isinstance(node.value, ast.Constant), f"{name}:{node.value.lineno}"
                assert node.value.value is False, f"{name}:{node.value.lineno}"


def test_secrets_come_from_files_without_their_final_newline(tmp_path: Path) -> None:
    """A file as an editor, a mounted secret or `LoadCredential` makes it; a key of several lines stays whole."""
    (tmp_path / "kafka__sasl_password").write_text("hunter2\n")
    (tmp_path / "kafka__ssl_key_pem").write_text("BEGIN\nhunter2\nEND\n")
    settings = load(secrets=tmp_path)
    assert settings.kafka["sasl.password"] == "hunter2"
    assert settings.kafka["ssl.key.pem"] == "BEGIN\nhunter2\nEND"
    assert "hunter2" not in str(settings.masked())
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(Connection(options=settings.kafka))


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ((("x", b""),) * 150_000, None),
        ((("\N{GRINNING FACE}", b""),) * 100_000, b"k"),
        ((("name", b"x" * 2_000_000),), b"k" * 2_000_000),
    ],
    ids=["many headers", "wide names", "long content and key"],
)
def test_a_dead_letter_fits_whatever_its_record_brings(
    headers: tuple[tuple[str, bytes], ...], key: bytes | None
) -> None:
    """Key, headers and value of a hostile record together stay below the limit, framing included."""
    record = Record("in", 0, 7, key, b"v" * 480_000, headers, 0, None)
    letter = deadletter.encode(
        "in", RejectedRecord(record, 1, (Rejection(0, "malformed", "no"),)), key, headers, model="m"
    )
    framing = sum(len(name.encode()) + len(content) + 10 for name, content in letter.headers)
    assert len(letter.value or b"") + len(letter.key or b"") + framing <= deadletter.LARGEST_BYTES


def test_a_model_message_claims_no_more_than_it_holds() -> None:
    """Sizes that a message states are compared with what is there, before an array is made of them."""
    value = model_codec.encode(version_of(1))
    for claim in (b'"dimension":2000000000', b'"dimension":-1', b'"dimension":9e99'):
        assert b'"dimension":2' in value
        with pytest.raises(InvalidMessage):
            model_codec.decode(value.replace(b'"dimension":2', claim))


def drop_bomb(connection: Connection, topic: str, codec: str) -> None:
    """Store a record of zeros that is small only while it is compressed, as a foreign producer would."""
    program = (
        "import sys; from confluent_kafka import Producer; servers, topic, codec, size = sys.argv[1:]; failed = [];"
        "producer = Producer({'bootstrap.servers': servers, 'message.max.bytes': 1000000000, 'compression.type': codec,"
        "'queue.buffering.max.kbytes': 2000000});"
        "producer.produce(topic, bytes(int(size)), partition=0, on_delivery=lambda e, m: e and failed.append(e));"
        "sys.exit(str(failed) if producer.flush(60) or failed else 0)"
    )
    servers = str(connection.options["bootstrap.servers"])
    command = [sys.executable, "-c", program, servers, topic, codec, str(BOMB_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def bombed_broker() -> Iterator[TestBroker]:
    """A broker of this module: one that packs bombs anew has no memory left for others, and may refuse them."""
    try:
        running = start_real_broker()
    except NoBroker as error:
        pytest.skip(str(error))
    try:
        yield TestBroker("real", Connection(options={"bootstrap.servers": running.bootstrap_servers}))
    finally:
        running.stop()


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_compressed_bomb_is_not_unpacked(bombed_broker: TestBroker, codec: str) -> None:
    """In a topic that stores zstd, a record beyond `receive.message.max.bytes` is refused, whatever codec sent it."""
    connection, name = bombed_broker.connection, bombed_broker.name("bomb")
    Cluster(connection).create([TopicSpec(name, config={"compression.type": "zstd"})])
    drop_bomb(connection, name, codec)
    with pytest.raises(DamagedBatch, match=f"{name}.*ecompress"):
        Cluster(connection).record(name, 0, 20.0)


def test_a_bomb_among_the_versions_leaves_the_good_one_serving(bombed_broker: TestBroker) -> None:
    """A subscriber that is pointed at it refuses it, goes on serving, and loads the next good version."""
    connection, name = bombed_broker.connection, bombed_broker.name("models")
    compacted = {"cleanup.policy": "compact"}
    Cluster(connection).create([TopicSpec(name, config={"compression.type": "zstd"})])
    Cluster(connection).create([TopicSpec(f"{name}.aliases", config=compacted)])
    with (
        closing(Trainer(connection, name)) as trainer,
        ModelSubscriber(connection, NAME, models_topic=name, patience_s=0.0) as subscriber,
    ):
        alias = trainer.publish(version_of(1))
        eventually(lambda: number_of(subscriber) == 1, "the first version")
        drop_bomb(connection, name, "zstd")
        trainer.point(f"{NAME}@current", Alias(2, alias.sha256, alias.offset + 2))
        eventually(lambda: subscriber.refusals == {"undecodable": 1}, "refused")
        assert number_of(subscriber) == 1
        trainer.publish(version_of(3))
        eventually(lambda: number_of(subscriber) == 3, "the next version")
