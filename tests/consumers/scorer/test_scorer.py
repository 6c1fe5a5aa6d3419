"""The scorer: what a score says, what is rejected, and that no point is lost."""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import consumers.scorer.life as life_module
import consumers.scorer.scorer as scorer_module
from consumers import constants
from consumers.host.runtime import Health
from consumers.metrics import SCORER, Metrics
from consumers.page.board import ScorerBoard
from consumers.scorer.components import ScorerComponents
from consumers.scorer.scorer import Scorer, portions
from consumers.settings import OutputConfig, ScoringConfig, Settings
from streamsvm.config import Label, PointsConfig
from streamsvm.errors import ConfigurationError, FatalError, InvalidMessage, TopicMissing, TransientError
from streamsvm.ingest import arrow, avro
from streamsvm.ingest.decoder import Rejection, encode
from streamsvm.ingest.schemas import Schemas
from streamsvm.ingest.scored import BatchScorer, label_of, points_config
from streamsvm.kafka import (
    Cluster,
    Connection,
    MemberProgress,
    Message,
    Outbox,
    OutcomeUnknown,
    Publisher,
    Record,
    RegistryUnavailable,
    Slot,
    Subscription,
    Tail,
    TopicSpec,
)
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.pointers import Gate, Head, encode_head, head_key
from streamsvm.model.probability import Sigmoid
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import JvmBroker
from tests.kafka.foreign import members
from tests.registry.test_subscriber import DEADLINE_S, NAME, Trainer, eventually, restartable_broker, version_of

pytestmark = pytest.mark.enough("real")

# ---------------------------------------------------------------- one batch


def record_of(value: bytes | None, offset: int = 0, partition: int = 0, key: bytes | None = b"k") -> Record:
    return Record("points", partition, offset, key, value, (), 1_700_000_000_000, None)


def batch_scorer(number: int = 2, **options: Any) -> BatchScorer:
    limits = {"max_record_bytes": 10_000, "max_message_bytes": 1_000_000}
    labels: tuple[Label, Label] = options.pop("labels", (-1, 1))
    return BatchScorer(version_of(number, labels=labels), "ab" * 32, **{**limits, **options})


def test_a_point_becomes_a_score() -> None:
    """A score repeats the id and says value, label, version and points covered; the record says where it is from."""
    scored = batch_scorer().score([record_of(encode([1.0, 2.5], id="a"), offset=7, partition=3)])
    assert scored.rejected == []
    (record,) = scored.records
    assert json.loads(record.value) == {
        "id": "a",
        "score": 9.0,
        "label": 1,
        "model": NAME,
        "version": 2,
        "points": 180,
    }
    assert (record.key, record.rows) == (b"k", 1)
    assert dict(record.headers) == {
        "streamsvm.source": b"points/3/7",
        "streamsvm.model.sha256": b"ab" * 32,
        "content-type": b"application/json",
    }


def test_a_point_without_an_id_has_a_score_with_null() -> None:
    """The fields of a score are always the same."""
    (record,) = batch_scorer().score([record_of(encode([1.0, 1.0]), key=None)]).records
    assert json.loads(record.value)["id"] is None
    assert record.key is None


@pytest.mark.parametrize(
    ("labels", "negative", "positive"),
    [((-1, 1), -1, 1), (("noise", "pulsar"), "noise", "pulsar"), ((False, True), False, True)],
)
def test_labels_are_the_configured_ones(labels: tuple[Label, Label], negative: Label, positive: Label) -> None:
    """Above 0 the second label is meant, at 0 and below the first, with their own JSON types."""
    records = [record_of(encode([x, 0.0]), offset) for offset, x in enumerate([1.0, -1.0, -3.0])]
    found = [json.loads(record.value) for record in batch_scorer(labels=labels).score(records).records]
    assert [(score["score"], score["label"]) for score in found] == [(4.0, positive), (0.0, negative), (-4.0, negative)]
    assert type(found[0]["label"]) is type(positive)


def test_an_array_gives_an_array_without_its_bad_rows() -> None:
    """Scores of an array keep its order and say their row; a bad row is rejected alone."""
    rows = [encode([1.0, 0.0], id=1), encode([1.0]), b"17", encode([2.0, 0.0], y="ignored", id="b")]
    scored = batch_scorer(1).score([record_of(b" [" + b",".join(rows) + b"]")])
    (record,) = scored.records
    assert [(s["row"], s["id"], s["score"]) for s in json.loads(record.value)] == [(0, 1, 2.0), (3, "b", 3.0)]
    assert record.rows == 2
    (bad,) = scored.rejected
    assert [(rejection.row, rejection.reason) for rejection in bad.rejections] == [
        (1, "wrong_dimension"),
        (2, "wrong_type"),
    ]
    assert bad.rows == 4


def test_an_array_of_one_stays_an_array() -> None:
    """The form of the output is the form of the input, not the number of rows."""
    (record,) = batch_scorer().score([record_of(b"[" + encode([1.0, 1.0]) + b"]")]).records
    assert [score["row"] for score in json.loads(record.value)] == [0]


def in_format(value: bytes, content_type: str) -> Record:
    return record_of(value)._replace(headers=(("content-type", content_type.encode()),))


@pytest.mark.parametrize("n", [1, 3])
def test_an_arrow_record_gives_an_array(n: int) -> None:
    """Each row has its score, with its row and id, also where there is only one."""
    value = arrow.encode(np.array([[1.0, 0.0], [2.0, 0.5], [-4.0, 1.0]])[:n], ids=["a", "b", "c"][:n])
    (record,) = batch_scorer(1).score([in_format(value, arrow.CONTENT_TYPE)]).records
    found = [(score["row"], score["id"], score["score"]) for score in json.loads(record.value)]
    assert found == [(0, "a", 2.0), (1, "b", 3.5), (2, "c", -2.0)][:n]
    assert record.rows == n


class Shelf:
    """Schemas of one point and of an array of points; away until it is told otherwise."""

    def __init__(self, *, away: bool = False) -> None:
        self.away, self.asked = away, 0

    def schema(self, schema_id: int | str) -> str | None:
        self.asked += 1
        if self.away:
            raise RegistryUnavailable("the registry is away", "Wait.")
        return avro.schema_of(1, many=schema_id == 2) if schema_id in (1, 2) else None


def in_avro(x: Sequence[float], schema_id: int) -> bytes:
    point = {"x": list(x), "y": 1, "w": None, "id": None}
    many = schema_id == 2
    return avro.AvroWriter(avro.schema_of(1, many=many), schema_id).encode([point] if many else point)


def test_avro_is_scored_as_its_schema_says() -> None:
    """A record of one point gives one score, an array an array, an unknown schema a dead letter."""
    records = [in_format(in_avro([1.0, 0.0], schema_id), avro.CONTENT_TYPE) for schema_id in (1, 2)]
    unknown = b"\0\0\0\0\x09" + records[0].value[5:]  # type: ignore[index]
    records = [record._replace(offset=index) for index, record in enumerate([*records, records[0]])]
    records[2] = records[2]._replace(value=unknown)
    scored = batch_scorer(1, schemas=Shelf()).score(records)
    one, several = (json.loads(record.value) for record in scored.records)
    assert (one["score"], several[0]["score"], several[0]["row"]) == (2.0, 2.0, 0)
    assert [bad.rejections[0].reason for bad in scored.rejected] == ["unknown_schema"]


def test_a_record_without_a_good_row_gives_no_score() -> None:
    """What cannot be decoded is rejected, and there is no empty output."""
    records = [record_of(value, offset) for offset, value in enumerate([None, b"", b"[]", b"{", b"[17]"])]
    scored = batch_scorer().score(records)
    assert scored.records == []
    assert [bad.record.offset for bad in scored.rejected] == [0, 1, 2, 3, 4]


def test_scores_of_a_batch_belong_to_their_points() -> None:
    """Over partitions, arrays and bad rows, every score is the decision value of its own point, in full precision."""
    random = np.random.default_rng(5)
    version = replace(
        version_of(1), model=Model(Scaler(random.normal(size=3), np.ones(3)), LinearMachine(random.normal(size=3), 0.1))
    )
    points = {f"{p}-{o}-{r}": random.normal(size=3) for p in (2, 0) for o in range(20) for r in range(1 + o % 3)}
    records = []
    for partition in (2, 0):
        for offset in range(20):
            rows = [
                encode(points[f"{partition}-{offset}-{r}"], id=f"{partition}-{offset}-{r}")
                for r in range(1 + offset % 3)
            ]
            rows.insert(offset % 2, b"null")
            records.append(record_of(b"[" + b",".join(rows) + b"]", offset, partition))
    scorer = BatchScorer(version, "", max_record_bytes=10_000, max_message_bytes=10_000)
    scored = scorer.score(records)
    found = {score["id"]: score["score"] for record in scored.records for score in json.loads(record.value)}
    assert found.keys() == points.keys()
    for name, x in points.items():
        assert found[name] == pytest.approx(float(version.model.decision_function(x[None])[0]), rel=1e-13)
    assert len(scored.rejected) == 40


def test_a_score_has_the_probability_that_its_version_knows() -> None:
    """That of the second label, beside the decision value, in an array as alone; none from a version without."""
    version = version_of(1)
    version = replace(version, model=replace(version.model, probability=Sigmoid(-2.0, 0.5)))
    scorer = BatchScorer(version, "", max_record_bytes=10_000, max_message_bytes=10_000)
    rows = [encode(x) for x in ([0.3, 0.1], [-5.0, 0.0], [1e3, 0.0])]
    scored = scorer.score([record_of(b"[" + rows[0] + b",null," + rows[1] + b"]"), record_of(rows[2], 1)])
    many, alone = (json.loads(record.value) for record in scored.records)
    for score in (*many, alone):
        expected = 1.0 / (1.0 + math.exp(-2.0 * score["score"] + 0.5))
        assert score["probability"] == pytest.approx(expected, rel=1e-12)
    assert [score["row"] for score in many] == [0, 2]
    assert alone["probability"] == 1.0
    (plain,) = batch_scorer(1).score([record_of(rows[0])]).records
    assert "probability" not in json.loads(plain.value)


def test_a_score_beyond_float64_is_rejected() -> None:
    """JSON has no infinity: a point whose score overflows is a dead letter, its neighbours are not."""
    version = version_of(1, weight=1e300)
    scorer = BatchScorer(version, "", max_record_bytes=10_000, max_message_bytes=10_000)
    value = (
        b"[" + encode([1e99, 1e99], id="big") + b"," + encode([1e99, -1e99], id="odd") + b"," + encode([0, 0]) + b"]"
    )
    scored = scorer.score([record_of(value)])
    (bad,) = scored.rejected
    assert {(rejection.row, rejection.reason) for rejection in bad.rejections} == {(0, "not_finite"), (1, "not_finite")}
    assert [score["row"] for score in json.loads(scored.records[0].value)] == [2]


def test_scores_too_large_for_the_output_are_rejected() -> None:
    """A record whose scores would not fit into a message is a dead letter and does not stop the stream."""
    rows = [encode([1.0, 1.0]) for _ in range(50)]
    records = [record_of(b"[" + b",".join(rows) + b"]", 0), record_of(rows[0], 1)]
    scored = batch_scorer(max_message_bytes=2_000).score(records)
    (bad,) = scored.rejected
    assert bad.rejections[0] == Rejection(0, "too_many_rows", bad.rejections[0].what)
    assert "the output topic allows 2000" in bad.rejections[0].what
    assert len(bad.rejections) == 50
    assert [dict(record.headers)["streamsvm.source"] for record in scored.records] == [b"points/0/1"]


def test_the_limits_of_scoring_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oversize records are rejected undecoded."""
    monkeypatch.setattr(PointsConfig, "ROWS_PER_RECORD", 3)
    records = [record_of(encode([1.0, 1.0], id="x" * 200)), record_of(b"[" + b",".join([encode([1, 1])] * 4) + b"]", 1)]
    scored = batch_scorer(max_record_bytes=150).score(records)
    assert [bad.rejections[0].reason for bad in scored.rejected] == ["oversize_record", "too_many_rows"]


def test_points_are_read_as_float64() -> None:
    """Whatever a version was trained in, scoring keeps the precision of the input."""
    assert points_config(version_of(1)).dtype == "float64"
    (record,) = batch_scorer(1).score([record_of(encode([0.1, 0.0]))]).records
    assert json.loads(record.value)["score"] == 1.1


def test_impossible_labels_are_refused() -> None:
    """A version whose labels cannot be told apart scores nothing."""
    with pytest.raises(InvalidMessage, match="holds the same label twice"):
        batch_scorer(labels=("a", "a"))


def test_zero_means_the_first_label() -> None:
    """The border belongs to the negative label, as in `Model.predict_sign`."""
    assert [label_of(score, ("no", "yes")) for score in (-1.0, 0.0, 1e-300)] == ["no", "no", "yes"]


# ---------------------------------------------------------------- the daemon


class Running:
    """A scorer in a thread; leaving stops it and raises what it raised."""

    def __init__(self, settings: Settings, connection: Connection, schemas: Schemas | None = None) -> None:
        self.metrics, self.health, self._stop = Metrics(SCORER), Health(stuck_after_s=60.0), threading.Event()
        self.failure: BaseException | None = None
        self._components = ScorerComponents(
            connection=connection, metrics=self.metrics, health=self.health, stop=self._stop, schemas=schemas
        )
        self._scorer = Scorer(settings, self._components)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._scorer.run()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure = error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the scorer did not stop"
        if self.failure is not None:
            raise self.failure from error

    def ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def board(self) -> ScorerBoard:
        return self._components.board

    @property
    def transactional_id(self) -> str:
        seat = self._scorer._seat
        return seat.slot.transactional_id if seat else ""

    def partitions(self) -> list[Any]:
        seat = self._scorer._seat
        return list(seat.subscription._consumer.assignment()) if seat else []

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def waiting_for(self) -> dict[str, str]:
        waiting = self.health.ready()[1]["waiting_for"]
        assert isinstance(waiting, dict)
        return waiting


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """A connection whose reads answer soon: the embedded broker keeps an idle fetch for its whole wait."""
    return broker.connect(fetch_wait_max_ms=10)


def settings_for(connection: Connection) -> Settings:
    """Return settings whose topics no other test uses; input and models exist, the others do not yet."""
    unique = uuid.uuid4().hex[:12]
    points, models = f"points-{unique}", f"models-{unique}"
    Cluster(connection).create([TopicSpec(points, 4), TopicSpec(models), TopicSpec(f"{models}.aliases")])
    return Settings(
        name=NAME,
        kafka={"bootstrap.servers": "unused:1"},
        output=OutputConfig(models_topic=models),
        scoring=ScoringConfig(topic=points, output_topic=f"scores-{unique}", group=f"g-{unique}"),
    )


@pytest.fixture
def settings(connection: Connection) -> Settings:
    return settings_for(connection)


@pytest.fixture
def restartable() -> Iterator[JvmBroker]:
    with restartable_broker() as broker:
        yield broker


@pytest.fixture
def trainer(connection: Connection, settings: Settings) -> Iterator[Trainer]:
    with closing(Trainer(connection, settings.output.models_topic)) as made:
        yield made


def produce(connection: Connection, topic: str, values: Sequence[bytes | None], key: bytes | None = None) -> None:
    """Store records, dealt over four partitions."""
    with closing(Outbox(connection)) as outbox:
        for index, value in enumerate(values):
            outbox.send(Message(topic, value, key, (("trace", b"t"),), partition=index % 4))
        outbox.flush(DEADLINE_S)


def stored(connection: Connection, topic: str) -> list[Record]:
    partitions = Cluster(connection).describe(topic).partitions
    return [record for p in partitions for record in Cluster(connection).read_to_end(topic, p, timeout_s=DEADLINE_S)]


def scores(connection: Connection, settings: Settings) -> list[dict[str, Any]]:
    found = [json.loads(record.value or b"") for record in stored(connection, settings.scoring.output_topic)]
    return [score for one in found for score in (one if isinstance(one, list) else [one])]


def points(numbers: Sequence[int], dimension: int = 2) -> list[bytes | None]:
    return [encode([float(number)] * dimension, id=number) for number in numbers]


def test_points_in_scores_out(connection: Connection, settings: Settings, trainer: Trainer) -> None:
    """Good, bad and array records: every good row has its score, every bad record its dead letter."""
    topic = settings.scoring.topic
    trainer.publish(version_of(2, labels=("noise", "pulsar")))
    array = b"[" + b",".join([encode([-1, -2], id="x"), encode([1, 2, 3]), encode([5, 5], id="y")]) + b"]"
    half = b'{"x": [1, 2], "\\ud800": 1}'
    bad: list[bytes | None] = [b"not json", None, encode([1.0], id="short"), half]
    produce(connection, topic, [*points(range(20)), array, *bad], key=b"star")
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 22, "22 points are scored")
        eventually(lambda: len(stored(connection, settings.scoring.dead_letters)) == 5, "five dead letters")
        assert running.health.ready()[0], running.health.ready()
    by_id = {score["id"]: score for score in scores(connection, settings)}
    assert by_id.keys() == {*range(20), "x", "y"}
    for number in range(20):
        assert (by_id[number]["score"], by_id[number]["version"]) == (4.0 * number + 2.0, 2)
        assert (by_id[number]["label"], by_id[number]["points"]) == ("pulsar", 180)
    assert (by_id["x"]["score"], by_id["x"]["label"], by_id["x"]["row"]) == (-4.0, "noise", 0)
    assert by_id["y"]["row"] == 2
    assert {record.key for record in stored(connection, settings.scoring.output_topic)} == {b"star"}
    letters = stored(connection, settings.scoring.dead_letters)
    assert {dict(letter.headers)["__streams.errors.exception"] for letter in letters} == {
        b"wrong_dimension",
        b"malformed_json",
        b"empty_record",
    }
    assert {letter.value for letter in letters} == {array, *bad}
    assert all(dict(letter.headers)["trace"] == b"t" and letter.key == b"star" for letter in letters)
    assert running.value("streamsvm_dead_letters_total", reason="wrong_dimension") == 2
    assert running.value("streamsvm_serving_version") == 2
    assert running.value("streamsvm_serving_loaded_timestamp_seconds") > 1.7e9


def test_points_wait_while_the_schema_registry_is_away(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Nothing is scored or rejected meanwhile, everyone can see why, and each point is scored once afterwards."""
    trainer.publish(version_of(2))
    shelf = Shelf(away=True)
    kind = (("content-type", avro.CONTENT_TYPE.encode()),)
    with closing(Outbox(connection)) as outbox:
        for number in range(10):
            outbox.send(Message(settings.scoring.topic, in_avro([number, 0.0], 1), None, kind, partition=number % 4))
        outbox.flush(DEADLINE_S)
    with Running(settings, connection, shelf) as running:
        eventually(lambda: running.value("streamsvm_registry_waiting_seconds") > 0.6, "it says how long it waits")
        eventually(lambda: shelf.asked > 1, "it asks again")
        assert running.waiting_for() == {"registry": "the registry is away"}
        assert running.value("streamsvm_scored_points_total") == 0
        shelf.away = False
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "all points are scored")
        assert running.value("streamsvm_registry_waiting_seconds") == 0
        assert running.health.ready()[0], running.health.ready()
    assert stored(connection, settings.scoring.dead_letters) == []
    assert len(scores(connection, settings)) == 10


def test_nothing_is_consumed_before_there_is_a_model(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Without a model the scorer is not ready, says why, and scores every point once a model comes."""
    produce(connection, settings.scoring.topic, points(range(5)))
    with Running(settings, connection) as running:
        eventually(lambda: "has no alias" in running.waiting_for().get("model", ""), "it says what it waits for")
        assert running.value("streamsvm_serving_version") == 0
        trainer.publish_hashed(b"{", 1)
        eventually(lambda: running.value("streamsvm_model_messages_refused_total") == 1, "the refusal is counted")
        assert running.value("streamsvm_scored_points_total") == 0
        trainer.publish(version_of(2))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 5, "all are scored")
    assert {score["id"] for score in scores(connection, settings)} == set(range(5))


def held_back(why: str) -> Head:
    """Return the head of a first version that the gate did not let become current."""
    gate = Gate(
        outcome="refused",
        why=why,
        scored_on="",
        points=0,
        candidate=None,
        present=None,
        against=None,
        margin=0.1,
        window=(),
        recent=(),
    )
    return Head(
        number=1,
        incarnation=1,
        offset=0,
        gate=gate,
        cut=(),
        sha256="ab" * 32,
        training_set_sha256="",
        build={},
        links=(),
    )


def test_a_scorer_says_why_no_version_is_current(connection: Connection, settings: Settings, trainer: Trainer) -> None:
    """One was published and is held back: /readyz says so; a pin is served all the same."""
    trainer.say(head_key(NAME), encode_head(held_back("it would be the first, and it knows nothing")))
    with Running(settings, connection) as running:
        said = (
            "has no alias pulsar@current: version 1, the newest, was held back, because it would be the first, and it"
        )
        eventually(lambda: said in running.waiting_for().get("model", ""), "it says what it waits for")
        trainer.pin(trainer.publish(version_of(1), named=False))
        eventually(lambda: running.value("streamsvm_serving_version") == 1, "the pin is served")


def test_each_score_belongs_to_one_version(connection: Connection, settings: Settings, trainer: Trainer) -> None:
    """While versions change, a score is always the one that its own version gives."""
    trainer.publish(version_of(1))
    with Running(settings, connection) as running:
        for number in range(1, 6):
            trainer.publish(version_of(number))
            produce(connection, settings.scoring.topic, points(range(20 * number - 20, 20 * number)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 100, "all are scored")
        eventually(lambda: running.value("streamsvm_serving_version") == 5, "the newest serves")
    found = scores(connection, settings)
    assert {score["id"] for score in found} == set(range(100))
    for score in found:
        assert score["score"] == score["version"] * (2.0 * score["id"] + 1)
        assert score["points"] == 90 * score["version"]


@pytest.mark.embedded_broker
def test_a_version_of_another_dimension_decides_what_a_point_is(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Points are decoded by the dimension of the version that serves."""
    trainer.publish(version_of(1))
    with Running(settings, connection) as running:
        produce(connection, settings.scoring.topic, points([1, 2]))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 2, "two are scored")
        trainer.publish(version_of(2, dimension=3))
        eventually(lambda: running.value("streamsvm_serving_version") == 2, "the new version serves")
        produce(connection, settings.scoring.topic, [*points([3]), *points([4, 5], dimension=3)])
        eventually(lambda: running.value("streamsvm_scored_points_total") == 4, "two more are scored")
        eventually(
            lambda: running.value("streamsvm_dead_letters_total", reason="wrong_dimension") == 1, "one is rejected"
        )
    assert {score["id"] for score in scores(connection, settings)} == {1, 2, 4, 5}


def test_a_restart_goes_on_where_the_last_batch_was_committed(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """After a clean stop the next scorer scores what came meanwhile, and nothing twice."""
    trainer.publish(version_of(1))
    for start in (0, 30):
        produce(connection, settings.scoring.topic, points(range(start, start + 30)))
        with Running(settings, connection) as running:
            eventually(lambda: running.value("streamsvm_scored_points_total") == 30, "30 are scored")
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(60))


@pytest.mark.embedded_broker
def test_a_crash_before_the_commit_loses_no_point(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without transactions a scorer that dies before committing leaves copies, with the same source, and no gap."""
    trainer.publish(version_of(1))
    produce(connection, settings.scoring.topic, points(range(30)))

    def die(self: Subscription, positions: dict[int, int]) -> None:
        raise FatalError(f"killed before committing {positions}")

    with monkeypatch.context() as patched:
        patched.setattr(Subscription, "commit", die)
        with pytest.raises(FatalError, match="killed before committing"), Running(settings, connection) as running:
            eventually(running.ended, "it dies")
    first = scores(connection, settings)
    assert first
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 30, "all are scored, the first again")
    assert {score["id"] for score in scores(connection, settings)} == set(range(30))
    sources = [dict(record.headers)["streamsvm.source"] for record in stored(connection, settings.scoring.output_topic)]
    assert len(sources) == 30 + len(first)
    assert len(set(sources)) == 30


@pytest.mark.real_broker
@pytest.mark.parametrize("step", ["_add", "_commit"], ids=["aborted", "unanswered"])
def test_a_batch_that_fails_is_scored_once(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Transactions that are aborted, or committed without an answer: a good row has one score, a bad one one letter."""
    original, calls = getattr(Publisher, step), [0]

    def fail(self: Publisher, *given: Any) -> None:
        calls[0] += 1
        if calls[0] % 3 != 2:
            original(self, *given)
            return
        if step == "_add":
            raise TransientError("the coordinator is away")
        original(self)
        self._ended = OutcomeUnknown("the answer was lost")
        raise self._ended

    monkeypatch.setattr(scorer_module, "RETRY_S", 0.0)
    trainer.publish(version_of(1))
    monkeypatch.setattr(Publisher, step, fail)
    produce(connection, settings.scoring.topic, [*points(range(60)), b"bad", b"worse"])
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") > 0, "it is at work")
        eventually(lambda: len(scores(connection, settings)) >= 60, "all are scored")
        eventually(lambda: len(stored(connection, settings.scoring.dead_letters)) >= 2, "both letters are written")
        produce(connection, settings.scoring.topic, points(range(60, 70)))
        eventually(lambda: len(scores(connection, settings)) >= 70, "and what comes after")
        assert running.value("streamsvm_scored_batches_total", outcome="put_back") >= 2
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(70))
    assert len(stored(connection, settings.scoring.dead_letters)) == 2


@pytest.mark.real_broker
def test_a_rebalance_between_poll_and_commit_scores_the_batch_once(
    broker: TestBroker, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker refuses the positions of the generation before: the batch is aborted, put back, and scored once."""
    connection = broker.connect(fetch_wait_max_ms=10, heartbeat_interval_ms=100)
    scoring, original, others = settings.scoring, Publisher._add, list[Subscription]()

    def add(self: Publisher, progress: MemberProgress, attempt: str) -> None:
        if not others and any(position.offset for position in progress.offsets):  # a batch, not what a start settles
            others.append(Subscription(connection, scoring.topic, group=scoring.group))
            eventually(lambda: not others[0].poll(1, 0.1) and members(connection, scoring.group) == 2, "one more joins")
        original(self, progress, attempt)

    monkeypatch.setattr(scorer_module, "RETRY_S", 0.0)
    monkeypatch.setattr(Publisher, "_add", add)
    trainer.publish(version_of(1))
    produce(connection, scoring.topic, points(range(20)))
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_batches_total", outcome="put_back") == 1, "it is refused")
        others[0].close()
        produce(connection, scoring.topic, points(range(20, 40)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 40, "all are scored")
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(40))


@pytest.mark.real_broker
def test_a_scorer_whose_transaction_the_broker_ended_goes_on(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fence means that a transaction took too long, since nobody else has the id: the batch is scored, once."""
    monkeypatch.setattr(scorer_module, "RETRY_S", 0.0)
    trainer.publish(version_of(1))
    with Running(settings, connection) as running:
        produce(connection, settings.scoring.topic, points(range(10)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
        with closing(Publisher(connection, running.transactional_id)) as rival:
            rival.start()
        produce(connection, settings.scoring.topic, points(range(10, 20)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 20, "the others are scored")
        assert running.value("streamsvm_scored_batches_total", outcome="put_back") == 1
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(20))


@pytest.mark.long
@pytest.mark.real_broker
def test_scorers_that_come_and_go_score_each_point_once(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """Two instances share a group; one leaves and another comes while points stream in: one score for each."""
    trainer.publish(version_of(1))
    topic, sent = settings.scoring.topic, 0

    def feed(count: int) -> None:
        nonlocal sent
        produce(connection, topic, points(range(sent, sent + count)))
        sent += count

    with Running(settings, connection) as steady:
        for _ in range(3):
            feed(400)
            with Running(settings, connection) as passing:
                eventually(lambda: bool(passing.partitions()), "the second has partitions")
                both = {f"{settings.scoring.group}-{slot}" for slot in (0, 1)}
                # One has none for a moment where it gets a new producer, as after a transaction that came too late.
                eventually(lambda: {steady.transactional_id, passing.transactional_id} == both, "a slot each")  # noqa: B023
                feed(400)
                eventually(lambda: passing.value("streamsvm_scored_points_total") >= 50, "the second is at work")
        eventually(lambda: len(scores(connection, settings)) >= sent, "all are scored", 60.0)
        assert steady.value("streamsvm_scored_points_total") < sent
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(sent))


def joins(connection: Connection, settings: Settings) -> Subscription:
    """Return a member that takes slot 0 of the scorers' group, as somebody does who does not ask."""
    scoring = settings.scoring
    return Subscription(connection, scoring.topic, group=scoring.group, slot=Slot(scoring.group, 0))


@pytest.mark.real_broker
def test_a_scorer_whose_slot_is_taken_goes_on_in_another(
    broker: TestBroker, settings: Settings, trainer: Trainer
) -> None:
    """It claims the next slot, with its transactional id, and what it had polled is scored once, by whomever."""
    connection = broker.connect(fetch_wait_max_ms=10, heartbeat_interval_ms=100)
    trainer.publish(version_of(1))
    with Running(settings, connection) as running:
        produce(connection, settings.scoring.topic, points(range(10)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the first are scored")
        assert running.transactional_id == f"{settings.scoring.group}-0"
        with closing(joins(connection, settings)) as thief:
            eventually(lambda: not thief.poll(1, 0.1) and running.transactional_id.endswith("-1"), "it claims slot 1")
            eventually(lambda: not thief.poll(1, 0.1) and len(running.partitions()) == 2, "it has its share")
        produce(connection, settings.scoring.topic, points(range(10, 30)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 30, "all are scored")
        eventually(lambda: running.health.ready()[0], "it is ready")
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(30))


@pytest.mark.long
def test_a_broker_that_restarts_costs_no_point(restartable: JvmBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker killed in the midst of the work and started again gets one score for every point."""
    connection = Connection(options={"bootstrap.servers": restartable.bootstrap_servers}, request_timeout_s=5.0)
    monkeypatch.setattr(constants, "SCORED_AT_ONCE", 40)
    settings = settings_for(connection)
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1))
    produce(connection, settings.scoring.topic, points(range(2_000)))
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") >= 50, "it is at work")
        restartable.kill()
        eventually(lambda: "broker" in running.waiting_for(), "it says so")
        restartable.start()
        wait_s = 120.0 + life_module.LOST_S  # the client may never come back from the call that the kill met
        eventually(lambda: len(scores(connection, settings)) >= 2_000, "all are scored", wait_s)
        eventually(lambda: running.health.ready()[0], "it is ready again")
    assert sorted(score["id"] for score in scores(connection, settings)) == list(range(2_000))


def test_a_broker_that_never_returns_does_not_hold_up_the_stop(
    restartable: JvmBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the broker killed under a commit, which then never returns, the scorer still says so and stops."""
    connection = Connection(options={"bootstrap.servers": restartable.bootstrap_servers}, request_timeout_s=5.0)
    settings = settings_for(connection)
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1))
    produce(connection, settings.scoring.topic, points(range(20)))
    publish = Publisher.publish

    def publish_into_the_void(self: Publisher, *given: Any, **named: Any) -> list[int]:
        restartable.kill()
        return publish(self, *given, **named)

    monkeypatch.setattr(Publisher, "publish", publish_into_the_void)
    monkeypatch.setattr(scorer_module, "PROMPT_S", 0.2)
    with Running(settings, connection) as running:
        eventually(lambda: running.waiting_for().get("broker", "").endswith("a commit"), "it says so")


@pytest.mark.embedded_broker
@pytest.mark.parametrize("verb", ["commit", "close"])
def test_a_call_that_never_returns_does_not_hold_up_the_stop(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """What the client blocks on for want of a broker is left behind at a stop."""
    for_ever, called = threading.Event(), threading.Event()

    class Stuck(Subscription):
        def _stick(self, *_: object) -> None:
            called.set()
            for_ever.wait()

    setattr(Stuck, verb, Stuck._stick)

    def subscription(cluster: Cluster, topic: str, **more: Any) -> Stuck:
        return Stuck(cluster._connection, topic, **more)

    monkeypatch.setattr(Cluster, "subscription", subscription)
    monkeypatch.setattr(scorer_module, "GRACE_S", 0.1)
    trainer.publish(version_of(1))
    produce(connection, settings.scoring.topic, points([1]))
    with Running(settings, connection) as running:
        scored = verb == "close"
        eventually(
            lambda: running.value("streamsvm_scored_points_total") == 1 if scored else called.is_set(),
            "it is scored, or its commit hangs",
        )
    assert called.is_set()
    for_ever.set()


@pytest.mark.embedded_broker
def test_a_subscriber_that_ended_stops_the_scorer(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer never goes on with a model that nobody follows any more."""
    trainer.publish(version_of(1))

    def broken(*_: object) -> list[Record]:
        raise FatalError("the client cannot go on")

    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_serving_version") == 1, "it serves")
        monkeypatch.setattr(Tail, "poll", broken)
        eventually(running.ended, "it stops")
        failure, running.failure = running.failure, None
    assert str(failure) == "the client cannot go on"


@pytest.mark.real_broker
@pytest.mark.parametrize("missing", ["input", "models"])
def test_a_missing_topic_is_an_error_of_the_start(broker: TestBroker, settings: Settings, missing: str) -> None:
    """The input and the models topic must exist; the error names the one that does not."""
    absent = broker.name("absent")
    scoring = settings.scoring.model_copy(update={"topic": absent}) if missing == "input" else settings.scoring
    output = OutputConfig(models_topic=absent) if missing == "models" else settings.output
    changed = settings.model_copy(update={"scoring": scoring, "output": output})
    with pytest.raises(TopicMissing, match=absent), Running(changed, broker.connection) as running:
        eventually(running.ended, "it ends")


def test_the_outputs_are_created(connection: Connection, settings: Settings, trainer: Trainer) -> None:
    """Scores get as many partitions as the input has; the dead-letter topic exists before it is needed."""
    trainer.publish(version_of(1))
    with Running(settings, connection) as running:
        eventually(lambda: running.health.ready()[0], "it is ready")
        assert len(Cluster(connection).describe(settings.scoring.output_topic).partitions) == 4
        assert Cluster(connection).describe(settings.scoring.dead_letters).partitions


def test_a_batch_is_taken_in_portions_of_so_many_bytes() -> None:
    """Every record once, in order; one that is larger than a portion alone; a small batch as it is."""
    records = [record_of(b"x" * size, offset=at) for at, size in enumerate([3, 4, 30, 1, 0, 9, 1])]
    parts = [[len(record.value or b"") for record in part] for part in portions(records, 10)]
    assert parts == [[3, 4], [30], [1, 0, 9], [1]]
    assert next(portions(records, 48)) is records
    assert list(portions([], 10)) == [[]]


@pytest.mark.real_broker
def test_portions_are_scored_once_each(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a transaction of its own, through a stop in their midst, too."""
    monkeypatch.setattr(scorer_module, "PORTION_BYTES", 200)
    trainer.publish(version_of(1))
    produce(connection, settings.scoring.topic, points(range(300)))
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") >= 20, "some are scored")
    with Running(settings, connection) as running:
        eventually(lambda: len(scores(connection, settings)) >= 300, "all are scored")
    ids = [score["id"] for score in scores(connection, settings)]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == 300


@pytest.mark.embedded_broker
def test_scores_must_not_go_to_the_input(connection: Connection, settings: Settings) -> None:
    """A topic that feeds itself is refused."""
    loop = settings.scoring.model_copy(update={"output_topic": settings.scoring.topic})
    changed = settings.model_copy(update={"scoring": loop})
    with (
        pytest.raises(ConfigurationError, match=r"is configured both for scoring\.topic and for the scores"),
        Running(changed, connection) as running,
    ):
        eventually(running.ended, "it ends")
