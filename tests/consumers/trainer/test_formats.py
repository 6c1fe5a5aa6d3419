"""Every format on its whole way: replay, broker, registry, trainer, version."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from consumers.branches.events.sampling import newest_events
from consumers.replay.replay import RecordFormat, replay
from consumers.settings import RegistryConfig, Settings
from streamsvm.branches.events import points_of, proposal, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import from_arrays
from streamsvm.ingest.avro import AvroWriter
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, Outbox, RegistryUnavailable, SchemaRegistry, TopicSpec
from tests.branches.events.payments import ROW, in_arrow
from tests.branches.events.protobuf_payments import INSTALLED, message_of, payment_class
from tests.branches.events.recipes import payment, payments
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, free_ports
from tests.brokers.registry import Registry
from tests.consumers.trainers import Running, changed, produce, run_until, settings_for, topic, versions
from tests.deadline import eventually
from tests.ingest.rows import Raw
from tests.streams import gaussian

FORMATS: tuple[RecordFormat, ...] = ("json-array", "arrow", "avro")
Client = Callable[[str], SchemaRegistry]
N, ROWS_PER_RECORD = 100, 7


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A real schema registry; skips where none can be had."""
    try:
        running = Registry()
        running.start()
    except CannotRun as error:
        pytest.skip(f"no schema registry: {error}")
    try:
        eventually(lambda: answers(running.url), "the registry answers", 60.0)
        yield running
    finally:
        running.stop()


def answers(url: str) -> bool:
    """Register a schema: the first one takes a registry that has just started the longest."""
    with closing(SchemaRegistry(RegistryConfig(url=url))) as schemas, suppress(RegistryUnavailable):
        schemas.register("first-value", '"string"')
        return True
    return False


@pytest.fixture
def client() -> Iterator[Callable[[str], SchemaRegistry]]:
    """Makes clients, and closes them."""
    with ExitStack() as stack:

        def make(url: str) -> SchemaRegistry:
            return stack.enter_context(closing(SchemaRegistry(RegistryConfig(url=url))))

        yield make


def send(broker: TestBroker, to: str, format_: RecordFormat, schemas: SchemaRegistry) -> None:
    """Replay the same weighted points in a format to partition 0."""
    points = gaussian(N, seed=5)
    source = from_arrays("points", points.X.astype(np.float64), points.y.tolist(), weight=points.weight)
    options = {"partition": 0, "rows_per_record": ROWS_PER_RECORD}
    with closing(Outbox(broker.connection)) as outbox:
        replay(source, outbox, to, format=format_, register=schemas.register, **options)


def test_the_registry_is_asked_and_told(registry: Registry, client: Client) -> None:
    """A schema comes back as it was registered, and only the registry's own word makes an id unknown."""
    schemas, text = client(registry.url), '{"type":"array","items":"double"}'
    assert client(registry.url).schema(schemas.register("asked-value", text)) == text
    assert schemas.schema(2_000_000_000) is None
    with pytest.raises(RegistryUnavailable):
        client(registry.url + "/no-such-api").schema(1)
    with pytest.raises(RegistryUnavailable):
        client(f"http://127.0.0.1:{free_ports(1)[0]}").schema(1)
    with pytest.raises(ConfigurationError):
        schemas.register("asked-value", '{"type": "no-such-type"}')


def started(broker: TestBroker, directory: Path, url: str) -> Settings:
    settings = settings_for(broker.name(), directory)
    return settings.model_copy(update={"registry": RegistryConfig(url=url)})


def test_a_trainer_publishes_the_same_training_sets_from_every_format(
    broker: TestBroker, registry: Registry, client: Client, tmp_path: Path
) -> None:
    """On each broker, from topic to version; a trainer is not told which format its records have."""
    schemas, found = client(registry.url), []
    for format_ in FORMATS:
        settings = started(broker, tmp_path / format_, registry.url)
        prepare(broker, settings)
        send(broker, settings.input.topic, format_, schemas)
        run_until(settings, broker.connection, N)
        published = versions(broker.connection, settings)
        assert len(published) == N // 40
        found.append([version.lineage.training_set_sha256 for version in published])
    assert found[0] == found[1] == found[2]


def prepare(broker: TestBroker, settings: Settings) -> None:
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 1)])


@pytest.mark.embedded_broker
def test_the_input_waits_while_the_registry_does_not_answer(
    broker: TestBroker, registry: Registry, client: Client, tmp_path: Path
) -> None:
    """Nothing is learned or rejected meanwhile, everyone can see why, and all of it is learned afterwards."""
    settings = started(broker, tmp_path, registry.url)
    prepare(broker, settings)
    send(broker, settings.input.topic, "avro", client(registry.url))
    registry.pause()
    try:
        with Running(settings, broker.connection) as running:
            running.wait_until(lambda: running.value("streamsvm_registry_waiting_seconds") > 1.0)
            ready, answer = running.health.ready()
            assert not ready
            assert settings.registry.url in answer["waiting_for"]["registry"]
            assert running.health.healthy()[0]
            assert running.value("streamsvm_input_rows_total", outcome="accepted") == 0
            registry.resume()
            running.wait_for_rows(N)
            assert running.value("streamsvm_registry_waiting_seconds") == 0
            assert running.health.ready()[0]
    finally:
        registry.resume()
    assert topic(broker.connection, settings.input.dead_letters) == []


def test_avro_without_a_registry_is_refused_at_the_start(tmp_path: Path, embedded_broker: TestBroker) -> None:
    """Configured to be Avro, points need to have somewhere to get their schemas from."""
    settings = started(embedded_broker, tmp_path, "")
    settings = changed(settings, "points", format="avro")
    prepare(embedded_broker, settings)
    with pytest.raises(ConfigurationError, match=r"registry\.url"):
        run_until(settings, embedded_broker.connection, 1)


def test_events_that_confluents_serializers_wrote_through_a_real_registry_are_read(
    registry: Registry, client: Client
) -> None:
    """Protobuf with a file that it imports, Avro and JSON Schema: the points are those of the same events in JSON."""
    if not INSTALLED:
        pytest.skip("the packages that read Protobuf are not installed")
    events = [payment(index) for index in range(20)]
    recipe = payments()
    plain = PointDecoder(PointsConfig(**points_of(recipe)), recipe=recipe)
    expected = plain.decode([Raw(json.dumps(event).encode(), at) for at, event in enumerate(events)]).rows[0]
    schemas = client(registry.url)
    with closing(SchemaRegistryClient({"url": registry.url})) as registered:
        for format_, serialize in confluent(registered).items():
            config = PointsConfig(**points_of(recipe), format=format_)
            reader = PointDecoder(config, recipe=recipe, schemas=schemas)
            found = reader.decode([Raw(serialize(event), at) for at, event in enumerate(events)])
            assert not found.rejected, (format_, found.rejected[0].rejections)
            assert found.rows[0].points.sha256() == expected.points.sha256(), format_


def confluent(registry: SchemaRegistryClient) -> dict[Any, Callable[[dict[str, Any]], bytes]]:
    """Return what Confluent's own serializers write of an event, by the format."""
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    fields = [field for field in ROW["fields"] if field["name"] != "weight"]
    avro = AvroSerializer(registry, json.dumps({**ROW, "fields": fields}))
    proto = ProtobufSerializer(payment_class(), registry, {"use.deprecated.format": False})
    draft = '{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Payment", "type": "object"}'
    plain = JSONSerializer(draft, registry)
    contexts = {name: SerializationContext(name, MessageField.VALUE) for name in ("avro", "protobuf", "json-schema")}
    return {
        "avro": lambda event: avro({"risk": None, **event}, contexts["avro"]),
        "protobuf": lambda event: proto(message_of(event), contexts["protobuf"]),
        "json-schema": lambda event: plain(event, contexts["json-schema"]),
    }


def test_features_are_proposed_from_a_topic_of_every_format(
    real_broker: TestBroker, registry: Registry, client: Client
) -> None:
    """Without a group; from Arrow and Avro as from JSON, and it is a configuration."""
    broker = real_broker
    settings = Settings(kafka={"bootstrap.servers": broker.connection.servers}, registry={"url": registry.url})
    events = [{**payment(index), "weight": None, "risk": None, "items": [{"price": index}]} for index in range(60)]
    schema_id = client(registry.url).register(f"{broker.name()}-value", json.dumps(ROW))
    writer = AvroWriter(json.dumps(ROW), schema_id)
    of_format: dict[Any, list[bytes]] = {
        "json": [json.dumps(event).encode() for event in events],
        "avro": [writer.encode(event) for event in events],
        "arrow": [in_arrow(events)],
    }
    proposals = {}
    for format_, values in of_format.items():
        name = broker.topic()
        produce(broker.connection, name, [*values, b"nonsense"])
        found, unreadable = newest_events(settings, name, format_, "none", 1_000)
        assert len(found) == len(events)
        assert unreadable.total() == 1
        proposals[format_] = {one.path: one.options for one in proposal(found, ("is_fraud",)).fields}
        assert proposals[format_].pop(("more",), None) is None
    assert proposals["avro"] == proposals["json"]
    assert proposals["arrow"] == proposals["json"]
    recipe_from(
        {"_".join(path): {**options, "field": list(path)} for path, options in proposals["json"].items() if options}, {}
    )
