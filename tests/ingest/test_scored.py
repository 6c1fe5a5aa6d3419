"""Scores of one batch: what a score says, what is rejected, and by which version."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import InvalidMessage
from streamsvm.ingest import arrow, avro
from streamsvm.ingest.decoder import Rejection, encode
from streamsvm.ingest.scored import BatchScorer
from streamsvm.kafka import Record
from streamsvm.model import LinearMachine, Model, Scaler, Sigmoid
from tests.ingest.rows import SHELF
from tests.registry.test_subscriber import NAME, version_of


def record_of(value: bytes | None, offset: int = 0, partition: int = 0, key: bytes | None = b"k") -> Record:
    return Record("points", partition, offset, key, value, (), 1_700_000_000_000, None)


def batch_scorer(number: int = 2, **options: Any) -> BatchScorer:
    limits = {"max_record_bytes": 10_000, "max_message_bytes": 1_000_000}
    labels: tuple[Label, Label] = options.pop("labels", (-1, 1))
    return BatchScorer(version_of(number, labels=labels), "ab" * 32, **{**limits, **options})


def test_a_point_becomes_a_score() -> None:
    """With id, value, label, version and points covered; the record says where it is from; an array stays an array."""
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
    (plain, several) = (
        batch_scorer(1).score([record_of(value, key=None)]).records[0]
        for value in (encode([0.1, 0.0]), b"[" + encode([1.0, 1.0]) + b"]")
    )
    assert (json.loads(plain.value)["id"], json.loads(plain.value)["score"], plain.key) == (None, 1.1, None)
    assert [score["row"] for score in json.loads(several.value)] == [0]
    assert dict(record.headers) == {
        "streamsvm.source": b"points/3/7",
        "streamsvm.model.sha256": b"ab" * 32,
        "content-type": b"application/json",
    }


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
    scored = batch_scorer(1, schemas=SHELF).score(records)
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


@pytest.mark.parametrize(
    ("given", "copied"),
    [
        ([("traceparent", b"00-4bf9-01")], [("traceparent", b"00-4bf9-01")]),
        ([("other", b"1"), ("baggage", b""), ("Traceparent", b"x")], [("baggage", b"")]),
        ([("baggage", b"1"), ("traceparent", b"a"), ("baggage", b"2")], [("baggage", b"2"), ("traceparent", b"a")]),
        ([("traceparent", b"x" * 1_024), ("baggage", b"x" * 1_025)], [("traceparent", b"x" * 1_024)]),
        ([("traceparent", None)], []),
        ([], []),
    ],
)
def test_chosen_headers_go_to_the_scores(given: list[tuple[str, bytes]], copied: list[tuple[str, bytes]]) -> None:
    """Behind the scorer's own; of one that repeats the last, and none that is too large."""
    record = Record("points", 0, 0, b"k", b'{"x": [1.0, 2.0]}', tuple(given), 0, 0)
    (one,) = batch_scorer(copied=("traceparent", "baggage")).score([record]).records
    assert list(one.headers[3:]) == copied
    assert [name for name, _ in one.headers[:3]] == ["streamsvm.source", "streamsvm.model.sha256", "content-type"]
    (without,) = batch_scorer().score([record]).records
    assert one.headers[:3] == without.headers


def test_the_limits_of_scoring_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oversize records are rejected undecoded."""
    monkeypatch.setattr(PointsConfig, "ROWS_PER_RECORD", 3)
    records = [record_of(encode([1.0, 1.0], id="x" * 200)), record_of(b"[" + b",".join([encode([1, 1])] * 4) + b"]", 1)]
    scored = batch_scorer(max_record_bytes=150).score(records)
    assert [bad.rejections[0].reason for bad in scored.rejected] == ["oversize_record", "too_many_rows"]


def test_impossible_labels_are_refused() -> None:
    """A version whose labels cannot be told apart scores nothing."""
    with pytest.raises(InvalidMessage, match="holds the same label twice"):
        batch_scorer(labels=("a", "a"))
