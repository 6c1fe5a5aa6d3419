"""Labels that come later, in a topic of their own: what a trainer learns and publishes follows from both logs alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from consumers.branches.late_labels import join_watch
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.ingest import WATERMARK_HEADER, decode as decode_letter
from streamsvm.joining import ENOUGH
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.verification import Outcome
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, settings_for, topic, versions
from tests.kafka.foreign import Silent, delete_records
from tests.streams import gaussian

BEGUN_MS = 1_000 * int(time.time()) - 3_600_000
"""Not long ago: retention goes by the time of records."""
HORIZON_S = 50.0
N = 400


@dataclass(frozen=True)
class Timed:
    """A record to write: partition, time in ms since the beginning, value, headers."""

    partition: int
    time_ms: int
    value: bytes
    watermark: bool = False


def write(connection: Connection, name: str, records: Iterable[Timed]) -> None:
    producer = Producer(dict(connection.options), logger=Silent())
    for one in records:
        headers = [(WATERMARK_HEADER, b"")] if one.watermark else None
        producer.produce(name, one.value, partition=one.partition, timestamp=BEGUN_MS + one.time_ms, headers=headers)
    assert producer.flush(30.0) == 0


def closed(time_ms: int, partition: int = 0) -> list[Timed]:
    """Return as many watermarks as a log needs to reach a time far behind its last record."""
    return [Timed(partition, time_ms, b"", watermark=True)] * ENOUGH


def stream(n: int, partitions: int = 1, seed: int = 3) -> tuple[list[Timed], list[Timed], pd.DataFrame]:
    """Return rows a second apart, labels late by a heavy tail of which some never come, and who is who."""
    random = np.random.default_rng(seed)
    points = gaussian(n, seed)
    late_s = np.minimum(random.pareto(1.1, n) * 4.0, 10_000.0)
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "partition": np.arange(n) % partitions,
            "time_ms": 1_000 * np.arange(n),
            "y": points.y,
            "label_ms": (1_000 * (np.arange(n) + late_s)).astype(int),
            "comes": random.random(n) < 0.9,
        }
    )
    features = [
        Timed(i % partitions, 1_000 * i, json.dumps({"x": x.tolist(), "id": f"t{i}"}).encode())
        for i, x in enumerate(points.X)
    ]
    coming = table[table.comes].sort_values(["label_ms", "id"], kind="stable")
    labels = [
        Timed(int(one.partition), int(one.label_ms), json.dumps({"id": f"t{one.id}", "y": int(one.y)}).encode())
        for one in coming.itertuples()
    ]
    end = 1_000 * n + 200_000
    closing = [one for p in range(partitions) for one in closed(end, p)]
    labels = [one for one in labels if one.time_ms < end]
    return [*features, *closing], [*labels, *closing], table


def expected(table: pd.DataFrame) -> int:
    """Return how many rows have their label within the horizon, by an offline join."""
    end = int(table.time_ms.max()) + 1_000 + 200_000
    in_time = table.comes & (table.label_ms <= table.time_ms + 1_000 * HORIZON_S) & (table.label_ms < end)
    return int(in_time.sum())


def joined_settings(prefix: str, directory: Path, absent: str = "negative") -> Settings:
    made = settings_for(prefix, directory)
    labels = LabelsConfig(topic=f"{prefix}-labels", horizon=HORIZON_S, absent=absent)
    return made.model_copy(update={"labels": labels})


def topics(connection: Connection, settings: Settings, partitions: int = 1) -> None:
    names = (settings.input.topic, settings.labels.topic)
    Cluster(connection).create([TopicSpec(name, partitions) for name in names])


def run(settings: Settings, connection: Connection, rows: int) -> Running:
    with Running(settings, connection) as running:
        running.wait_for_rows(rows)
    return running


def test_verify_recomputes_versions_of_several_pairs_of_partitions_and_names_labels_that_are_gone(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Each pair is joined by itself, and the proof is of every joined row; deleted labels are named."""
    connection = real_broker.connection
    settings = joined_settings(real_broker.name("labels"), tmp_path / "one", absent="drop")
    topics(connection, settings, 2)
    features, labels, table = stream(N, 2)
    write(connection, settings.input.topic, features)
    write(connection, settings.labels.topic, labels)
    run(settings, connection, expected(table))
    report = verify(Cluster(connection), settings)
    assert {row.outcome for row in report.rows} == {Outcome.IDENTICAL}
    assert report.faults == ()
    certificate = verify(Cluster(connection), settings, keep=1_000).rows[-1].certificate
    assert certificate is not None
    assert certificate.gap is not None
    assert certificate.rows == versions(connection, settings)[-1].stream.rows
    delete_records(connection, settings.labels.topic, 1, 5)
    report = verify(Cluster(connection), settings)
    assert report.rows[-1].outcome is Outcome.UNAVAILABLE  # the first versions may know no label of that partition
    assert "offsets 0-4 were removed" in report.rows[-1].note


def test_what_the_join_refuses_becomes_a_dead_letter_with_its_record(real_broker: TestBroker, tmp_path: Path) -> None:
    """Keyless, doubled and absent rows, changed and unmatched labels: each with its reason and its own bytes, once."""
    connection = real_broker.connection
    settings = joined_settings(real_broker.name("labels"), tmp_path / "one", absent="dead_letter")
    topics(connection, settings)
    point = {"x": [1.0, 2.0, 3.0]}
    rows = {
        "missing_key": point,
        "doubled_key": [point | {"id": "b"}, point | {"id": "a"}],
        "absent_label": point | {"id": "c"},
    }
    label = {"id": "a", "y": 1}
    labels = {
        "changed_label": {"id": "a", "y": -1},
        "unmatched_label": {"id": "nobody", "y": 1},
        "missing_field": {"id": "a"},
    }
    sent = [point | {"id": "a"}, *rows.values()]
    write(connection, settings.input.topic, [Timed(0, 1_000, json.dumps(one).encode()) for one in sent])
    told = [label, {"id": "b", "y": -1}, label, *labels.values()]
    write(connection, settings.labels.topic, [Timed(0, 2_000, json.dumps(one).encode()) for one in told])
    for name in (settings.input.topic, settings.labels.topic):
        write(connection, name, closed(900_000))
    with Running(settings, connection) as running:
        running.wait_for_rows(2)
        running.wait_until(lambda: running.value("streamsvm_labels_total", outcome="unmatched_label") == 1)
    assert running.value("streamsvm_labels_total", outcome="doubled_label") == 1
    for dead_letters, refused in ((settings.input.dead_letters, rows), (settings.labels.dead_letters, labels)):
        letters = [decode_letter(record.value, record.headers) for record in topic(connection, dead_letters)]
        found = {letter.rows[0].reason: json.loads(letter.value or b"null") for letter in letters}
        assert found == refused
        assert len(letters) == len(refused)


def test_a_trainer_that_may_writes_watermarks_where_no_label_comes(real_broker: TestBroker, tmp_path: Path) -> None:
    """Without a single label rows past the horizon become negative, by a record that verify reads, too."""
    connection, n = real_broker.connection, 100
    settings = joined_settings(real_broker.name("labels"), tmp_path / "one")
    settings = settings.model_copy(update={"labels": settings.labels.model_copy(update={"idle_s": 0.2})})
    topics(connection, settings)
    write(connection, settings.input.topic, stream(n)[0][:n])
    # A positive row long ago, so that there are two labels to tell apart.
    write(connection, settings.labels.topic, [Timed(0, 1_000, b'{"id": "t0", "y": 1}')])
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_join_watermarks_total") >= 1)
        # The watermarks themselves wait until the features have passed their time.
        write(connection, settings.input.topic, closed(3_700_000))
        running.wait_for_rows(n)
    assert running.value("streamsvm_labels_total", outcome="absent") == n - 1
    marks = topic(connection, settings.labels.topic)[1:]
    assert marks
    assert all(dict(record.headers) == {WATERMARK_HEADER: b""} for record in marks)
    assert verify(Cluster(connection), settings).clean


MINUTE_MS = 60_000
ALL = 1_000


@pytest.mark.parametrize(
    ("wrong", "timestamp_ms"),
    [
        ("labels", int(time.time() * 1_000) - BEGUN_MS + 55 * MINUTE_MS),
        ("labels", 1_000 * BEGUN_MS),
        ("features", 1_000 * BEGUN_MS),
    ],
    ids=["labels, by 55 minutes", "labels, in microseconds", "features, in microseconds"],
)
def test_one_timestamp_ahead_costs_no_row_its_label_and_is_named(
    real_broker: TestBroker, tmp_path: Path, wrong: str, timestamp_ms: int
) -> None:
    """By 55 minutes, or in microseconds: a thousand labels a minute late, all joined within ten; verify agrees."""
    connection = real_broker.connection
    settings = joined_settings(real_broker.name("labels"), tmp_path / "one")
    own = settings.labels.model_copy(update={"horizon": 600.0})
    settings = settings.model_copy(update={"labels": own})
    names = {"features": settings.input.topic, "labels": settings.labels.topic}
    anything = {name: str(2**63 - 1) for name in ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")}
    Cluster(connection).create([TopicSpec(name, 1, config=anything) for name in names.values()])
    points = gaussian(ALL, 5)
    sent = {
        "features": [
            Timed(0, 1_000 * i, json.dumps({"x": x.tolist(), "id": f"t{i}"}).encode()) for i, x in enumerate(points.X)
        ],
        "labels": [
            Timed(0, MINUTE_MS + 1_000 * i, json.dumps({"id": f"t{i}", "y": int(y)}).encode())
            for i, y in enumerate(points.y)
        ],
    }
    sent[wrong][300] = Timed(0, timestamp_ms, sent[wrong][300].value)
    for log, name in names.items():
        write(connection, name, [*sent[log], *closed(3_000_000)])
    with capture_logs() as logs:
        running = run(settings, connection, ALL)
    assert running.value("streamsvm_labels_total", outcome="joined") == ALL
    assert running.value("streamsvm_labels_total", outcome="absent") == 0
    assert running.value("streamsvm_join_times_ahead_total", log=wrong) == 1
    (named,) = [one for one in logs if one["event"] == "time_ahead"]
    assert (named["topic"], named["partition"], named["offset"]) == (names[wrong], 0, 300)
    newest = versions(connection, settings)[-1]
    first = points.y[: newest.stream.rows]
    assert newest.stream.class_weight == ((first < 0).sum(), (first > 0).sum())
    assert verify(Cluster(connection), settings).clean


def test_a_trainer_is_not_ready_only_while_a_join_waits_for_the_future(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of now that wait for labels are no reason; a time that five records have moved past the present is one."""
    monkeypatch.setattr(join_watch, "WAITS_BEFORE_WARNING_S", 0.0)
    connection = real_broker.connection
    settings = joined_settings(real_broker.name("labels"), tmp_path / "one")
    topics(connection, settings)
    features, labels, _ = stream(100)
    write(connection, settings.input.topic, features[:100])
    write(connection, settings.labels.topic, labels[:20])
    now = int(time.time() * 1_000) - BEGUN_MS
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_join_waiting_seconds") > 1)
        assert "join" not in running.health.ready()[1]["waiting_for"]
        write(connection, settings.labels.topic, [Timed(0, now + 55 * MINUTE_MS, one.value) for one in labels[20:25]])
        running.wait_until(lambda: "join" in running.health.ready()[1]["waiting_for"])
        assert f"partition 0 of {settings.labels.topic} has reached" in running.health.ready()[1]["waiting_for"]["join"]
