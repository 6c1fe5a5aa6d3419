"""Quality as served: the scores that went out, joined with the labels that came, are those of a join in pandas."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from consumers import constants
from consumers.branches.challenges.reading import join_ranges, logs_of, read_served
from consumers.branches.challenges.table import plain, summary
from consumers.branches.late_labels import LabelsConfig
from consumers.settings import InputConfig, OutputConfig, ScoringConfig, Settings
from streamsvm.branches.challenges.quality import by_version
from streamsvm.branches.challenges.score_records import ScoreDecoder
from streamsvm.branches.challenges.served import COLUMNS, ServedLabels, ServedScores, gathered, served
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from streamsvm.model import LinearMachine, Model, Scaler, Sigmoid, Version
from tests.branches.late_labels.test_labels import Timed, write
from tests.brokers.fixtures import TestBroker
from tests.consumers.scorer.running import Running, stored
from tests.registry.test_subscriber import NAME, Trainer, eventually, version_of

HORIZON_S = 60.0
COSTS = (5.0, 1.0)


def version(number: int, w: Sequence[float]) -> Version:
    """Return a version with probabilities."""
    machine = LinearMachine(np.array(w, np.float64), 0.1)
    model = Model(Scaler.identity(2), machine, Sigmoid(-1.3, 0.05))
    return replace(version_of(number), model=model)


def settings_of(broker: TestBroker, *, late: bool) -> Settings:
    """Return one configuration of a trainer and a scorer, whose topics exist, in two partitions."""
    points, models = broker.name("points"), broker.name("models")
    labels = broker.name("labels")
    names = [points, *([labels] if late else [])]
    specs = [TopicSpec(name, 2) for name in names]
    Cluster(broker.connection).create([*specs, TopicSpec(models), TopicSpec(f"{models}.aliases")])
    return Settings(
        name=NAME,
        kafka={"bootstrap.servers": "unused:1"},
        points=PointsConfig(dimension=2),
        input=InputConfig(topic=points),
        labels=LabelsConfig(topic=labels, horizon=HORIZON_S) if late else LabelsConfig(),
        svm=SvmConfig(cost=COSTS),
        output=OutputConfig(models_topic=models),
        scoring=ScoringConfig(topic=points, output_topic=broker.name("scores"), group=points),
    )


def serve(connection: Connection, settings: Settings, values: Sequence[bytes], partition_of: Sequence[int]) -> None:
    """Score a first half of the records with version 1, and the rest with version 2."""
    half, now_ms = len(values) // 2, 1_000 * int(time.time())
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version(1, (1.0, -0.2)))
        with Running(settings, connection) as running:
            for number, part in ((1, range(half)), (2, range(half, len(values)))):
                if number == 2:
                    trainer.publish(version(2, (0.7, 0.7)))
                    eventually(lambda: running.value("streamsvm_serving_version") == 2, "version 2 serves")
                records = [Timed(partition_of[i], 0, values[i]) for i in part]
                write_at(connection, settings.scoring.topic, records, now_ms)
                done = part.stop
                eventually(lambda n=done: running.value("streamsvm_scored_points_total") == n, f"{done} are scored")  # type: ignore[misc]


def write_at(connection: Connection, topic: str, records: Sequence[Timed], at_ms: int) -> None:
    from tests.branches.late_labels.test_labels import BEGUN_MS

    write(connection, topic, [Timed(one.partition, at_ms + one.time_ms - BEGUN_MS, one.value) for one in records])


def cloud(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.4, 1, -1)
    return random.normal(size=(n, 2)) + 0.6 * y[:, None], y


def in_pandas(connection: Connection, settings: Settings) -> pd.DataFrame:
    """Return the scores as their topic holds them, with where and when."""
    rows = []
    for record in stored(connection, settings.scoring.output_topic):
        _, partition, offset = dict(record.headers)["streamsvm.source"].rsplit(b"/", 2)
        found = json.loads(record.value or b"")
        for one in found if isinstance(found, list) else [found]:
            place = {"partition": int(partition), "offset": int(offset), "row": one.get("row", 0)}
            rows.append({**one, **place, "time_ms": record.timestamp_ms})
    return pd.DataFrame(rows)


def assert_equal_to(found: pd.DataFrame, said: dict[str, object]) -> None:
    """Compare figures by version with pandas and scikit-learn over a table of version, score, probability, y."""
    rows = {row["version"]: row for row in said["versions"]}  # type: ignore[attr-defined]
    assert set(rows) == set(found.version)
    for number, own in found.groupby("version"):
        row, answer = rows[number], own.label
        assert (row["labels"], row["positives"]) == (len(own), int((own.y > 0).sum()))
        assert row["auc"] == pytest.approx(roc_auc_score(own.y, own.score), rel=1e-12)
        assert row["accuracy"] == pytest.approx((answer == own.y).mean(), rel=1e-12)
        assert row["log_loss"] == pytest.approx(log_loss(own.y > 0, own.probability), rel=1e-12)
        cost = COSTS[0] * ((own.y > 0) & (answer < 0)) + COSTS[1] * ((own.y < 0) & (answer > 0))
        assert row["cost"] == pytest.approx(cost.mean(), rel=1e-12)


def test_late_labels_of_scores_are_those_of_a_join_in_pandas(real_broker: TestBroker) -> None:
    """Of two versions and two partitions: labels late, too late, doubled, changed, early and of nobody."""
    connection, n = real_broker.connection, 600
    settings = settings_of(real_broker, late=True)
    X, y = cloud(n, 1)
    partition = np.arange(n) % 2
    serve(connection, settings, [encode(x, id=f"t{i}") for i, x in enumerate(X)], partition.tolist())
    scores = in_pandas(connection, settings)
    assert len(scores) == n
    random, came = np.random.default_rng(2), scores.time_ms.to_numpy()
    of = scores.id.str[1:].astype(int).to_numpy()
    late_ms = np.where(
        random.random(n) < 0.1, -2_000, (1_000 * np.minimum(5 * random.pareto(1.1, n), 300.0)).astype(int)
    )
    labels = pd.DataFrame({"of": of, "time_ms": came + late_ms, "y": y[of], "drawn": random.random(n)})
    labels = labels[labels.drawn < 0.9]
    again = labels[labels.drawn < 0.2].assign(time_ms=lambda one: one.time_ms + 3_000)
    changed = again[again.drawn < 0.1].assign(y=lambda one: -one.y)
    strangers = pd.DataFrame({"of": [10_000, 10_001], "time_ms": came[:2] + 1_000, "y": [1, -1]})
    sent = pd.concat([labels, again.drop(changed.index), changed, strangers]).sort_values("time_ms", kind="stable")
    records = [
        Timed(int(one.of) % 2, int(one.time_ms), json.dumps({"id": f"t{one.of}", "y": int(one.y)}).encode())
        for one in sent.itertuples()
    ]
    write_at(connection, settings.labels.topic, records, 0)

    reading = read_served(Cluster(connection), settings)
    said = plain(reading, {}, COSTS)

    # The oracle: a score's time is the running maximum in the order of its input, a label's that of its partition.
    scores = scores.sort_values(["partition", "offset"], kind="stable")
    scores["time_ms"] = scores.groupby("partition").time_ms.cummax()
    sent["partition"] = sent.of % 2
    sent["label_ms"] = sent.groupby("partition").time_ms.cummax()
    scores["of"] = scores.id.str[1:].astype(int)
    both = sent.reset_index(drop=True).merge(scores[["of", "time_ms"]], on="of", suffixes=("", "_scored"))
    within = both.label_ms.between(
        both.time_ms_scored - 1_000 * constants.LABEL_EARLY_S, both.time_ms_scored + 1_000 * HORIZON_S
    )
    first = both[within].drop_duplicates("of", keep="first").set_index("of").y
    assert 0 < len(first) < len(labels)
    assert_equal_to(scores.assign(y=scores.of.map(first)).dropna(subset="y"), said)
    assert said["outcomes"]["joined"] == len(first)
    assert said["outcomes"]["unmatched_label"] >= 2
    assert said["outcomes"]["doubled_label"] > 0
    assert said["outcomes"]["changed_label"] > 0
    assert said["outcomes"]["joined"] + said["outcomes"]["absent"] + said["outcomes"]["open"] == n
    assert "scores have a label" in summary(said)
    again_said = plain(join_ranges(Cluster(connection), logs_of(settings), reading.scores, reading.labels), {}, COSTS)
    assert again_said == said


def test_labels_that_come_with_the_points_are_found_by_their_place(real_broker: TestBroker) -> None:
    """Records of one row and of several, good rows and bad ones: each score meets the label of its own row."""
    connection, n = real_broker.connection, 200
    settings = settings_of(real_broker, late=False)
    X, y = cloud(n, 4)
    rows = [encode(x, int(label)) for x, label in zip(X, y, strict=True)]
    rows[7] = b'{"x": [1.0, 2.0]}'  # has a score, and no label
    rows[9] = b'{"x": [1.0], "y": 1}'
    values = [*rows[:100], *[b"[" + b",".join(rows[at : at + 5]) + b"]" for at in range(100, n, 5)]]
    half = len(values) // 2
    assert half < 100
    partitions = [at % 2 for at in range(len(values))]
    now_ms = 1_000 * int(time.time())
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version(1, (1.0, -0.2)))
        with Running(settings, connection) as running:
            records = [Timed(p, 0, value) for p, value in zip(partitions, values, strict=True)]
            write_at(connection, settings.scoring.topic, records, now_ms)
            eventually(lambda: running.value("streamsvm_scored_points_total") == n - 1, "all are scored")
    said = plain(read_served(Cluster(connection), settings), {}, COSTS)
    labels = []
    for p in range(2):
        for offset, at in enumerate(range(p, len(values), 2)):
            found = json.loads(values[at])
            for row, one in enumerate(found if isinstance(found, list) else [found]):
                labels.append({"partition": p, "offset": offset, "row": row, "y": one.get("y")})
    scores = in_pandas(connection, settings).merge(pd.DataFrame(labels), on=["partition", "offset", "row"])
    scores = scores.dropna(subset="y")
    assert len(scores) == n - 2
    assert_equal_to(scores, said)
    assert said["outcomes"]["joined"] == n - 2


# ------------------------------------------------------------------ without a broker


def score_record(offset: int, value: object, key: bytes | None = b"k", source: bytes = b"points/0/%d") -> Record:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = (("streamsvm.source", source % offset if b"%" in source else source),)
    return Record("scores", 3, offset, key, body, headers, 1_000 * offset, None)


SAID = {"id": "a", "score": 1.5, "label": 1, "model": NAME, "version": 4, "points": 9}


@pytest.mark.parametrize(
    "record",
    [
        score_record(1, b"not json"),
        score_record(1, b""),
        score_record(1, {**SAID, "model": "other"}),
        score_record(1, {**SAID, "label": "positive"}),
        score_record(1, {**SAID, "score": [1.0, 2.0, 3.0]}),
        score_record(1, {**SAID, "version": 0}),
        score_record(1, {**SAID, "version": 1 << 60}),
        score_record(1, {**SAID, "id": None}),
        score_record(1, SAID, source=b"elsewhere/0/1"),
        score_record(1, SAID, source=b"points/x/1"),
        score_record(1, SAID, source=b"points"),
        score_record(1, SAID, source=b"points/99999999999999999999/5"),
        score_record(1, SAID, source=b"points/0/99999999999999999999"),
        score_record(1, SAID, source=b"points/0/" + b"9" * 400),
        score_record(1, SAID, source=b"points/-1/5"),
        score_record(1, SAID, source=b"points/0/1_0"),
        score_record(1, {**SAID, "row": 10**30}),
        score_record(1, {**SAID, "row": -1}),
        score_record(1, {**SAID, "version": 10**30}),
        score_record(1, {**SAID, "label": 10**30}),
        score_record(1, b'{"id":"a","score":1e400,"label":1,"model":"m","version":4}'),
        score_record(1, b"[" * 100_000),
    ],
)
def test_a_record_that_is_no_score_of_the_model_is_left_out(record: Record) -> None:
    """Whoever may write to the topic of scores ends nobody who reads it."""
    decoder = ScoreDecoder(PointsConfig(dimension=2), "id", NAME, "points")
    found = decoder.decode([record, score_record(2, SAID)])
    assert found.left_out == 1
    assert found.scores.keys == [b"a"]
    assert dict(zip(COLUMNS, found.scores.said[0].tolist(), strict=True))["version"] == 4.0


def test_a_score_says_what_the_version_in_the_shadow_said() -> None:
    """Its version, value and answer stand beside those of what was served; without one they are 0 and NaN."""
    decoder = ScoreDecoder(PointsConfig(dimension=2), "record", NAME, "points")
    shadow = {"version": 5, "score": -0.5, "label": -1, "probability": 0.25}
    records = [score_record(1, {**SAID, "shadow": shadow}), score_record(2, SAID)]
    first, second = (dict(zip(COLUMNS, one, strict=True)) for one in decoder.decode(records).scores.said.tolist())
    assert (first["shadow_version"], first["shadow_score"], first["shadow_probability"]) == (5.0, -0.5, 0.25)
    assert first["shadow_answer"] == -1.0
    assert (second["shadow_version"], math.isnan(second["shadow_score"])) == (0.0, True)


def test_the_order_in_which_scores_are_read_changes_nothing() -> None:
    """Scores of one input partition lie in several of the output: only their places count."""
    decoder = ScoreDecoder(PointsConfig(dimension=2), "id", NAME, "points")
    records = [
        score_record(at, {**SAID, "id": f"t{at % 40}", "score": math.sin(at), "version": 1 + at // 30})
        for at in range(60)
    ]
    labels = ServedLabels(
        time_ms=np.arange(40, dtype=np.int64) * 1_500,
        last=np.ones(40, np.bool_),
        keys=[b"t%d" % at for at in range(40)],
        sign=np.where(np.arange(40) % 3, 1, -1).astype(np.int8),
    )
    found = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(60)
        parts = [decoder.decode([records[at] for at in part]).scores for part in np.array_split(order, 7)]
        one = served(gathered(parts), {0: labels}, horizon_ms=20_000, early_ms=5_000)
        found.append((by_version(one), one.counts))
    assert all(one == found[0] for one in found)
    assert found[0][1]["joined"] > 20
    assert found[0][1]["doubled_row"] == 0  # the second score of a key comes past the horizon


@pytest.mark.parametrize("log", ["scores", "labels"])
def test_one_timestamp_ahead_costs_the_report_no_label(log: str) -> None:
    """Of a hundred scores whose labels come a second later, within a horizon of ten seconds."""
    n = 100
    said = np.zeros((n, len(COLUMNS)))
    said[:, 0] = np.arange(n)
    came = 1_800_000_000_000 + 1_000 * np.arange(n)
    keys, comes = [b"t%d" % at for at in range(n)], came + 1_000
    (came if log == "scores" else comes)[30] += 3_300_000
    scores = ServedScores(partition=np.zeros(n, np.int64), time_ms=came, keys=keys, said=said)
    labels = ServedLabels(time_ms=comes, last=np.ones(n, np.bool_), keys=keys, sign=np.ones(n, np.int8))
    assert len(served(scores, {0: labels}, horizon_ms=10_000, early_ms=100)) == n
