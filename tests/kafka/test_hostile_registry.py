"""Who may write to the schema registry, or answers in its place: what that costs, and what it cannot do."""

from __future__ import annotations

import gzip
import io
import json
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from consumers.host import configure_logging
from consumers.settings import LogConfig, RegistryConfig
from consumers.verify.verify import verify
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError, InvalidPoint
from streamsvm.ingest import AvroReader, AvroWriter
from streamsvm.kafka import Cluster, Message, RegistryUnavailable, SchemaRegistry, TopicSpec
from streamsvm.kafka.schema_registry import LARGEST_ANSWER, MOST_KEPT
from streamsvm.verification import EXIT_CLEAN, EXIT_DIFFERS
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun
from tests.brokers.secured import Authority
from tests.consumers.trainers import run_until, settings_for
from tests.ingest.rows import AVRO, POINT, Shelf
from tests.kafka.hostile_registry import (
    DRIPS_S,
    Answer,
    Dripping,
    HostileRegistry,
    Large,
    hostile_registry,
    plain,
    text,
)
from tests.kafka.steps import eventually, send
from tests.streams import gaussian

MEGABYTE = 1_000_000
Client = Callable[..., SchemaRegistry]


@pytest.fixture
def registry() -> Iterator[HostileRegistry]:
    """One that is honest until a test says otherwise."""
    with hostile_registry(text(POINT)) as running:
        yield running


@pytest.fixture
def client() -> Iterator[Client]:
    """Makes clients, and closes them."""
    with ExitStack() as stack:

        def make(url: str, **options: Any) -> SchemaRegistry:
            config = RegistryConfig(url=url, **options)
            return stack.enter_context(closing(SchemaRegistry(config)))

        yield make


# ------------------------------------------------------------------------------------------------ size and time


def test_an_answer_is_taken_up_to_a_bound(registry: HostileRegistry, client: Client) -> None:
    """Of 200 MB a few are read; the record is at fault, for an honest registry would give the same again and again.

    It is asked once, so that a record after a record of it costs nothing.
    """
    registry.answer = large = Large(200)
    reader = AvroReader(client(registry.url), PointsConfig(dimension=2))
    for _ in range(3):
        with pytest.raises(InvalidPoint, match=f"it has over {LARGEST_ANSWER} bytes"):
            reader.prepare(b"\0" + struct.pack(">I", 7) + b"\0")
    assert registry.asked == ["/schemas/ids/7"]
    assert large.taken * MEGABYTE < 3 * LARGEST_ANSWER


def test_asking_writes_no_line_of_the_log(
    registry: HostileRegistry, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write records decides how many unknown ids are asked for: a line for each would fill the disk."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(LogConfig())
    registry.answer = plain(b'{"error_code": 40403, "message": "Schema not found"}', 404)
    asking = client(registry.url)
    assert [asking.schema(number) for number in range(20)] == [None] * 20
    assert len(registry.asked) == 20
    assert stream.getvalue() == ""


def test_an_answer_is_not_unpacked(registry: HostileRegistry, client: Client) -> None:
    """A megabyte of it could be a gigabyte."""
    packed = gzip.compress(json.dumps({"schema": POINT}).encode())
    registry.answer = plain(packed, Content_Encoding="gzip")
    with pytest.raises(RegistryUnavailable, match="the answer is packed, which nobody asked for"):
        client(registry.url).schema(1)


@pytest.mark.parametrize(
    "beginning", [b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"]
)
def test_an_answer_that_drips_is_given_up(registry: HostileRegistry, client: Client, beginning: bytes) -> None:
    """While the bytes still come; its connection is closed, and the next question finds whoever answers."""
    registry.answer = dripping = Dripping(beginning)
    schemas = client(registry.url)
    with pytest.raises(RegistryUnavailable, match="the answer was not complete within"):
        schemas.schema(1)
    registry.answer = text(POINT)

    def answers() -> bool:
        with suppress(RegistryUnavailable):  # a busy machine may give no answer within the second that is waited for it
            return schemas.schema(1) == POINT
        return False

    eventually(answers, "the next question is answered")
    assert dripping.ended.wait(DRIPS_S + 20.0)
    assert not dripping.through


def test_what_is_kept_is_bounded(registry: HostileRegistry, client: Client) -> None:
    """By number and by size: the newest are known without asking, the oldest are asked for again."""
    schemas = client(registry.url)
    for number in range(MOST_KEPT + 1):
        schemas.schema(number)
    schemas.schema(MOST_KEPT)
    assert len(registry.asked) == MOST_KEPT + 1
    schemas.schema(0)
    assert len(registry.asked) == MOST_KEPT + 2
    registry.answer = text(POINT + " " * 5 * MEGABYTE)
    for number in range(1_000, 1_005):
        schemas.schema(number)
    before = len(registry.asked)
    schemas.schema(1_004)
    assert len(registry.asked) == before
    schemas.schema(1_000)
    assert len(registry.asked) == before + 1


def test_parsed_schemas_are_bounded_by_their_texts(registry: HostileRegistry) -> None:
    """Each may be just below the largest, and what is parsed of it takes many times that."""
    asked: list[int | str] = []

    class Books(Shelf):
        def schema(self, schema_id: int | str) -> str:
            asked.append(schema_id)
            return POINT + " " * (MEGABYTE - len(POINT))

    reader = AvroReader(Books(), PointsConfig(dimension=2))
    for number in (*range(6), 5, 0):
        reader.prepare(b"\0" + struct.pack(">I", number) + b"\0")
    assert asked == [*range(6), 0]


# ------------------------------------------------------------------------------------------------------ answers

NO_ANSWERS: dict[str, Answer] = {
    "nothing": plain(b""),
    "null": plain(b"null"),
    "a list": plain(b"[]"),
    "half": plain(b'{"schema": "'),
    "no schema": plain(b"{}"),
    "null for a schema": plain(b'{"schema": null}'),
    "a number": plain(b'{"schema": 5}'),
    "no text": plain(b'{"schema": "\xff\xfe"}'),
    "nested": plain(b"[" * 200_000),
    "a proxy's 404": plain(b"<html>", 404),
    "a failure": plain(b'{"error_code": 50001, "message": "no"}', 500),
    "a lie of another status": plain(b'{"error_code": 40403, "message": "no"}', 500),
}


@pytest.mark.parametrize("said", NO_ANSWERS)
def test_what_is_no_answer_decides_nothing(registry: HostileRegistry, client: Client, said: str) -> None:
    """The input waits, as if nobody answered; once there is an answer, it goes on."""
    registry.answer = NO_ANSWERS[said]
    schemas = client(registry.url)
    with pytest.raises(RegistryUnavailable) as waits:
        schemas.schema(1)
    assert len(str(waits.value)) < 600
    registry.answer = text(POINT)
    assert schemas.schema(1) == POINT


def test_nobody_is_sent_elsewhere(registry: HostileRegistry, client: Client) -> None:
    """A redirection is no answer, so that no password goes to another host."""
    with hostile_registry(text(POINT)) as other:
        for status in (301, 302, 303, 307, 308):
            registry.answer = plain(b"", status, Location=f"{other.url}/schemas/ids/1")
            with pytest.raises(RegistryUnavailable):
                client(registry.url, username="me", password="hush").schema(1)
        assert other.asked == []
    assert set(registry.credentials) == {"Basic bWU6aHVzaA=="}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("first", [text(POINT), plain(b'{"error_code": 40403, "message": "Schema not found"}', 404)])
def test_credentials_that_were_accepted_are_tried_again(
    registry: HostileRegistry, client: Client, first: Answer, status: int
) -> None:
    """At first a refusal is an error; once there was an answer it may pass, as a registry that is away."""
    refusal = plain(b'{"error_code": %d, "message": "Unauthorized"}' % status, status)
    schemas = client(registry.url, username="me", password="hush")
    registry.answer = refusal
    with pytest.raises(ConfigurationError, match="Unauthorized"):
        schemas.schema(1)
    registry.answer = first
    assert schemas.schema(1) in (POINT, None)
    registry.answer = refusal
    with pytest.raises(RegistryUnavailable, match="accepted these credentials before") as refused:
        schemas.schema(2)
    assert "registry.password" in refused.value.remedy
    registry.answer = text(POINT)
    assert schemas.schema(2) == POINT


def test_another_authority_or_name_is_not_trusted(tmp_path: Path, client: Client) -> None:
    """Over https nothing is asked of whoever is not vouched for, by this name."""
    try:
        for name in ("ours", "theirs"):
            (tmp_path / name).mkdir()
        ours, theirs = (Authority(tmp_path / name) for name in ("ours", "theirs"))
    except CannotRun as error:
        pytest.skip(f"no certificates: {error}")
    certificate = ours.certificate("registry")
    with hostile_registry(text(POINT), certificate=certificate) as right:
        assert client(right.url, ca_file=ours.ca).schema(1) == POINT
        with pytest.raises(RegistryUnavailable, match="certificate verify failed"):
            client(right.url, ca_file=theirs.ca, username="me", password="hush").schema(1)
        with pytest.raises(RegistryUnavailable, match="certificate verify failed") as unknown:
            client(right.url, username="me", password="hush").schema(1)
        assert "registry.ca_file" in unknown.value.remedy
        assert right.credentials == [""]
    with hostile_registry(text(POINT), "127.0.0.2", certificate) as misnamed:
        with pytest.raises(RegistryUnavailable, match=r"certificate verify failed.*127\.0\.0\.2"):
            client(misnamed.url, ca_file=ours.ca, username="me", password="hush").schema(1)
        assert misnamed.asked == []


# ------------------------------------------------------------------------------------- a schema that changes


def schema_of(*names: str) -> str:
    """Return the schema of a labeled point whose features are fields of these names."""
    fields = [{"name": name, "type": "double"} for name in names]
    return json.dumps({"type": "record", "name": "P", "fields": [*fields, {"name": "y", "type": "int"}]})


def test_an_id_that_changes_its_meaning_is_found(broker: TestBroker, registry: HostileRegistry, tmp_path: Path) -> None:
    """A running process has asked and does not ask again; `verify` reads by the new schema, and says what differs."""
    registry.answer = text(schema_of("a", "b", "c"))
    settings = settings_for(broker.name("r"), tmp_path)
    assert settings.points is not None
    points = settings.points.model_copy(update={"feature_names": ("a", "b", "c"), "format": "avro"})
    settings = settings.model_copy(update={"points": points, "registry": RegistryConfig(url=registry.url)})
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 1)])
    rows, writer = gaussian(80, 0), AvroWriter(schema_of("a", "b", "c"), 1)
    labeled = ({"a": a, "b": b, "c": c, "y": y} for (a, b, c), y in zip(rows.X.tolist(), rows.y.tolist(), strict=True))
    values = [Message(settings.input.topic, writer.encode(one), headers=AVRO, partition=0) for one in labeled]
    send(broker.connection, values)
    run_until(settings, broker.connection, 80)
    assert registry.asked == ["/schemas/ids/1"]
    assert verify(Cluster(broker.connection), settings).exit_status == EXIT_CLEAN
    registry.answer = text(schema_of("b", "a", "c"))
    report = verify(Cluster(broker.connection), settings)
    assert report.exit_status == EXIT_DIFFERS
    assert {row.number for row in report.rows if row.faults} == {1, 2}
