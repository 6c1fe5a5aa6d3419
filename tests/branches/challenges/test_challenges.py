"""output.gate = shadow on a broker: who is better becomes current, who is not does not, and the logs prove it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from consumers.branches.challenges import challenges as challenges_module
from consumers.branches.challenges.attached import _Turns
from consumers.branches.challenges.challenges import Challenges
from consumers.branches.challenges.judging import challenges_in, spending_fault
from consumers.branches.challenges.shadow_gate import TIMES, ShadowGate
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.settings import ScoringConfig, Settings
from consumers.verify.verify import verify
from streamsvm.branches.challenges.betting import alpha_of, spent_before
from streamsvm.branches.challenges.record import (
    Challenge,
    Challenged,
    Span,
    challenge_key,
    challenger_key,
    decode_challenge,
    encode_challenge,
)
from streamsvm.branches.challenges.rule import Compared
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, Message, OffsetOutOfRange, Outbox, Recreated, TopicSpec
from streamsvm.learning.training import Trained, train
from streamsvm.model import trail
from streamsvm.model.machine import LinearMachine
from streamsvm.model.pointers import Alias, decode_alias
from streamsvm.model.version import version_key
from streamsvm.points import Rows, Times
from tests.branches.late_labels.test_labels import BEGUN_MS, Timed, write
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_scorer import Running as Scoring
from tests.consumers.test_scorer import stored
from tests.consumers.trainers import Running, settings_for, topic
from tests.faults.daemon import Daemon, arguments
from tests.streams import gaussian, rows_of
from tests.test_subscriber import eventually

ROWS = 400
"""Of one version."""
LABELS = 1_600
SOME = 30
"""Labels that decide nothing yet."""


def shadowed(broker: TestBroker, directory: Path, **output: Any) -> Settings:
    """Return one configuration of a trainer and a scorer of the same labeled points."""
    made = settings_for(broker.name("challenge"), directory, every_leaves=1)
    Cluster(broker.connection).create([TopicSpec(made.input.topic)])
    sizes = {"points": 11 * ROWS // 2, "train_points": 500, "screening": 0.0}
    settings = made.model_copy(
        update={
            "coreset": made.coreset.model_copy(update=sizes),
            "output": made.output.model_copy(
                update={"gate": "shadow", "gate_labels": LABELS, "gate_margin": 0.5, **output}
            ),
            "scoring": ScoringConfig(
                topic=made.input.topic,
                output_topic=f"{made.input.topic}-scores",
                dead_letter_topic=f"{made.input.topic}-scorer.dlq",
                group=f"{made.input.topic}-scorer",  # not that of another test's scorer, which may still be leaving it
                batch_records=100,
                shadow="@challenger",
            ),
        }
    )
    return Settings.model_validate(settings.model_dump(exclude={"features", "events"}))


def weaker(*calls: int) -> Callable[..., Trained]:
    """Return a training of which the named calls, from 1 on, hardly look at the last two features."""
    made = [0]

    def train_or_weaken(*given: Any) -> Trained:
        trained = train(*given)
        made[0] += 1
        if made[0] not in calls:
            return trained
        machine = trained.model.machine
        assert isinstance(machine, LinearMachine)
        poor = LinearMachine(machine.coefficients * np.array([1.0, 0.1, 0.1]), machine.intercept)
        return replace(trained, model=replace(trained.model, machine=poor))

    return train_or_weaken


class Points:
    """Writes labeled points, each once."""

    def __init__(self, connection: Connection, settings: Settings, seed: int) -> None:
        self._outbox, self._topic = Outbox(connection), settings.input.topic
        made = gaussian(20_000, seed)
        self._values = [encode(x, int(y)) for x, y in zip(made.X, made.y, strict=True)]
        self.labels = made.y
        self.sent = 0

    def send(self, n: int) -> int:
        for value in self._values[self.sent : self.sent + n]:
            self._outbox.send(Message(self._topic, value, partition=0))
        self._outbox.flush(30.0)
        self.sent += n
        return self.sent


def newest(connection: Connection, settings: Settings, key: str) -> bytes | None:
    found = [record.value for record in topic(connection, settings.output.aliases_topic) if record.key == key.encode()]
    return found[-1] if found else None


def current(connection: Connection, settings: Settings) -> int:
    value = newest(connection, settings, "m@current")
    return 0 if value is None else decode_alias(value).number


def challenger(connection: Connection, settings: Settings) -> int:
    value = newest(connection, settings, challenger_key("m"))
    return 0 if value is None else decode_alias(value).number


def ended(connection: Connection, settings: Settings) -> Sequence[Challenge]:
    return list(challenges_in(Cluster(connection), settings, 30.0))


def assert_proven(connection: Connection, settings: Settings, one: Challenge, labels: np.ndarray) -> None:
    """Compute the verdict's figures from the scores and the stream, by scikit-learn."""
    assert one.ended is not None
    (span,) = one.ended.scores
    y, champion, rival = [], [], []
    for record in stored(connection, settings.scoring.output_topic):
        score = json.loads(record.value or b"")
        shadow = score.get("shadow", {"version": 0})
        pair = score["version"], shadow["version"]
        if span.begin <= record.offset < span.end and pair == (one.champion.number, one.challenger.number):
            y.append(labels[int(dict(record.headers)["streamsvm.source"].rsplit(b"/", 1)[1])])
            champion.append(score["score"])
            rival.append(shadow["score"])
    assert one.ended.labels == len(y)
    assert one.ended.champion == pytest.approx(roc_auc_score(y, champion), rel=1e-12)
    assert one.ended.challenger == pytest.approx(roc_auc_score(y, rival), rel=1e-12)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_better_challenger_becomes_current_and_a_worse_one_does_not(
    real_broker: TestBroker, tmp_path: Path, seed: int
) -> None:
    """Version 1 is weak, 2 is good, all others are weak: 2 is current within its labels, and stays."""
    connection, settings = real_broker.connection, shadowed(real_broker, tmp_path / "checkpoint")
    points = Points(connection, settings, seed)
    training = weaker(1, *range(3, 100))
    with Running(settings, connection, train=training) as running:
        points.send(ROWS)
        running.wait_for_rows(ROWS)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        assert current(connection, settings) == 1
        with Scoring(settings, connection) as scoring:
            eventually(lambda: scoring.value("streamsvm_scored_points_total") == points.sent, "they are scored")
            points.send(ROWS)
            running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
            assert current(connection, settings) == 1
            eventually(lambda: scoring.value("streamsvm_shadow_version") == 2, "version 2 is in the shadow")
            begun = points.sent
            while current(connection, settings) == 1:
                assert points.sent < begun + LABELS + ROWS, "it never became current"
                points.send(100)
                running.wait_until(
                    lambda: (
                        running.value("streamsvm_challenge_labels") + 100 > points.sent - begun
                        or (running.value("streamsvm_challenges_total", outcome="better") == 1)
                    )
                )
            assert current(connection, settings) == 2
            eventually(lambda: scoring.value("streamsvm_serving_version") == 2, "version 2 serves")
            while running.value("streamsvm_challenges_total", outcome="worse") == 0:
                assert points.sent < begun + 20 * LABELS, "a weak one is never found out"
                points.send(100)
                eventually(lambda: scoring.value("streamsvm_scored_points_total") == points.sent, "they are scored")
                time.sleep(0.2)  # a challenge begins, and is looked at, about once a second
        assert current(connection, settings) == 2
        assert running.value("streamsvm_challenges_total", outcome="better") == 1
    one, *others = ended(connection, settings)
    assert one.ended is not None
    assert (one.challenger.number, one.champion.number, one.ended.outcome) == (2, 1, "better")
    assert one.ended.labels <= LABELS + ROWS
    assert {other.champion.number for other in others} == {2}
    assert all(other.ended is not None and other.ended.outcome != "better" for other in others)
    for each in (one, *others):
        assert_proven(connection, settings, each, points.labels)
    report = verify(Cluster(connection), settings)
    # Weakened versions differ from what training gives; the challenges do not from what their logs give.
    assert (report.faults, report.notes) == ((), ())
    said = [json.loads(record.value or b"") for record in topic(connection, settings.output.audit_topic)]
    assert [entry["to"] for entry in said if entry["event"] == "alias_moved"] == [1, 2]


def test_a_challenge_goes_on_where_a_trainer_starts_again(real_broker: TestBroker, tmp_path: Path) -> None:
    """What was scored while no trainer ran counts; beginning and challenger stay what the record says."""
    connection, settings = real_broker.connection, shadowed(real_broker, tmp_path / "checkpoint")
    points = Points(connection, settings, 3)
    with Running(settings, connection, train=weaker(1)) as running:
        points.send(ROWS)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        with Scoring(settings, connection) as scoring:
            eventually(lambda: scoring.value("streamsvm_scored_points_total") == points.sent, "they are scored")
            points.send(ROWS)
            running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
            eventually(lambda: scoring.value("streamsvm_shadow_version") == 2, "version 2 is in the shadow")
            points.send(SOME)
            running.wait_until(lambda: running.value("streamsvm_challenge_labels") == SOME)
            running.stop()
            points.send(LABELS)
            eventually(lambda: scoring.value("streamsvm_scored_points_total") == points.sent, "all are scored")
    record = newest(connection, settings, challenge_key("m"))
    assert record is not None
    begun = decode_challenge(record)
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_challenges_total", outcome="better") == 1)
    one = ended(connection, settings)[0]
    assert msgspec.structs.replace(one, ended=None) == begun
    assert one.ended is not None
    assert one.ended.labels > SOME
    assert_proven(connection, settings, one, points.labels)
    assert current(connection, settings) == 2
    report = verify(Cluster(connection), settings)
    assert (report.faults, report.notes) == ((), ())


class LatePoints:
    """Writes points, and later their labels to a topic of their own, each once and in one order."""

    def __init__(self, connection: Connection, settings: Settings, seed: int) -> None:
        self._connection, self._settings = connection, settings
        made = gaussian(20_000, seed)
        self._X, self.labels = made.X, made.y
        self.sent = 0
        self.told_ms: list[int] = []

    def send(self, n: int) -> None:
        """Write so many rows."""
        now = self._now_ms()
        write(
            self._connection,
            self._settings.input.topic,
            [Timed(0, now, encode(self._X[i], id=f"t{i}")) for i in range(self.sent, self.sent + n)],
        )
        self.sent += n

    def label(self) -> None:
        """Write the labels of all rows that have none yet."""
        now, rows = self._now_ms(), range(len(self.told_ms), self.sent)
        labels = [Timed(0, now, b'{"id": "t%d", "y": %d}' % (i, self.labels[i])) for i in rows]
        write(self._connection, self._settings.labels.topic, labels)
        self.told_ms += [now + BEGUN_MS] * len(rows)

    def _now_ms(self) -> int:
        return round(1_000 * time.time()) - BEGUN_MS


def test_a_challenge_is_decided_by_labels_that_come_later(real_broker: TestBroker, tmp_path: Path) -> None:
    """With labels.topic: by the rows' ids, of one partition, and again by verify."""
    connection, made = real_broker.connection, shadowed(real_broker, tmp_path / "checkpoint")
    late = LabelsConfig(topic=f"{made.input.topic}-labels", horizon=120.0, early=0.0, absent="drop")
    Cluster(connection).create([TopicSpec(late.topic)])
    settings = made.model_copy(update={"labels": late})
    points = LatePoints(connection, settings, 3)
    with ExitStack() as stack:
        running = stack.enter_context(Running(settings, connection, train=weaker(1, *range(3, 100))))
        running.wait_until_started()  # it makes the topics
        scoring = stack.enter_context(Scoring(settings, connection))

        def write_and_label(n: int) -> None:
            points.send(n)
            eventually(lambda: scoring.value("streamsvm_scored_points_total") == scored + points.sent, "scored")
            points.label()

        points.send(ROWS)
        points.label()
        points.send(1)  # a label waits for a later record of the points
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        eventually(lambda: scoring.value("streamsvm_scored_points_total") > 0, "they are scored")
        scored = 0
        write_and_label(ROWS)
        points.send(1)
        running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
        eventually(lambda: scoring.value("streamsvm_shadow_version") == 2, "version 2 is in the shadow")
        begun = points.sent
        while running.value("streamsvm_challenges_total", outcome="better") == 0:
            assert points.sent < begun + LABELS + ROWS, "it never became current"
            write_and_label(100)
            running.wait_until(
                lambda: (
                    running.value("streamsvm_challenge_labels") + ROWS > points.sent - begun
                    or (running.value("streamsvm_challenges_total", outcome="better") == 1)
                )
            )
        assert current(connection, settings) == 2
    one = ended(connection, settings)[0]
    assert one.ended is not None
    (scores,), (told,) = one.ended.scores, one.ended.told
    assert told.begin > 0
    y, champion, rival = [], [], []
    for record in stored(connection, settings.scoring.output_topic):
        score = json.loads(record.value or b"")
        row = int(score["id"][1:])  # labels were written in the order of the rows, one a record
        read = scores.begin <= record.offset < scores.end and told.begin <= row < told.end
        # Of a row that was scored before the first label that was read, the label may have come before that.
        counts = read and (record.timestamp_ms or 0) > points.told_ms[told.begin]
        if counts and (score["version"], score.get("shadow", {}).get("version")) == (1, 2):
            y.append(points.labels[row])
            champion.append(score["score"])
            rival.append(score["shadow"]["score"])
    assert one.ended.labels == len(y) > 0
    assert one.ended.champion == pytest.approx(roc_auc_score(y, champion), rel=1e-12)
    assert one.ended.challenger == pytest.approx(roc_auc_score(y, rival), rel=1e-12)
    report = verify(Cluster(connection), settings)
    assert (report.faults, report.notes) == ((), ())


def test_a_verdict_that_the_logs_do_not_give_is_a_fault(real_broker: TestBroker, tmp_path: Path) -> None:
    """Somebody writes a challenge to the audit trail that was never won: verify says so."""
    connection, settings = real_broker.connection, shadowed(real_broker, tmp_path / "checkpoint", gate_wait=0.0)
    points = Points(connection, settings, 3)
    with Running(settings, connection, train=weaker()) as running:
        for version in (1, 2):
            points.send(ROWS)
            running.wait_until(lambda n=version: running.value("streamsvm_model_version") == n)  # type: ignore[misc]
        running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
        points.send(TIMES)  # of a later time
        running.wait_until(lambda: running.value("streamsvm_challenges_total", outcome="unlabeled") == 1)
    (one, *_) = ended(connection, settings)
    assert one.ended is not None
    assert one.ended.labels == 0
    assert verify(Cluster(connection), settings).clean
    forged = msgspec.structs.replace(
        one, ended=msgspec.structs.replace(one.ended, outcome="better", labels=5_000, champion=0.5, evidence=9.0)
    )
    entry = Challenged(name="m", challenge=forged, by="trainer", time="2026-01-01T00:00:00+00:00")
    outbox = Outbox(connection)
    outbox.send(Message(settings.output.audit_topic, trail.encode(entry), b"m@2", partition=0))
    outbox.flush(30.0)
    outbox.close()
    report = verify(Cluster(connection), settings)
    assert report.differs
    assert any("the challenge of m@2 was decided by {'unpaired': 0, 'labels': 5000" in said for said in report.faults)
    assert any("the challenge of m@2 has number 1 after number 1" in said for said in report.faults)


def forge(connection: Connection, settings: Settings, sources: Sequence[bytes]) -> None:
    """Write scores that are well-formed but for what their header says of the scored record."""
    said = {"id": "a", "score": 1.5, "label": 1, "model": "m", "version": 1, "points": 9}
    value = json.dumps({**said, "shadow": {"version": 2, "score": 1.0, "label": 1}}).encode()
    outbox = Outbox(connection)
    for source in sources:
        headers = (("streamsvm.source", settings.scoring.topic.encode() + source),)
        outbox.send(Message(settings.scoring.output_topic, value, headers=headers, partition=0))
    outbox.flush(30.0)
    outbox.close()


@pytest.mark.parametrize(
    ("sources", "unreadable", "nowhere"),
    [
        ((b"/99999999999999999999/5", b"/0/" + b"9" * 400, b"/-1/5", b"/0/\xff"), 4, 0),
        ((b"/999/5", b"/0/900000000000000", b"/2147483647/9223372036854775806"), 0, 3),
    ],
    ids=["unreadable", "nowhere"],
)
def test_scores_of_places_that_are_not_there_neither_end_a_trainer_nor_keep_a_challenge(
    real_broker: TestBroker, tmp_path: Path, sources: tuple[bytes, ...], unreadable: int, nowhere: int
) -> None:
    """They are counted and named; the challenge ends with its time, at every start, and its logs give its verdict."""
    settings = shadowed(real_broker, tmp_path / "checkpoint", gate_wait=0.0)
    connection = real_broker.connection
    Cluster(connection).create([TopicSpec(settings.scoring.output_topic)])
    points = Points(connection, settings, 3)
    with Running(settings, connection) as running:
        for version in (1, 2):
            points.send(ROWS)
            running.wait_until(lambda n=version: running.value("streamsvm_model_version") == n)  # type: ignore[misc]
        running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
    forge(connection, settings, sources)
    for _ in range(2):
        with Running(settings, connection) as running:
            if unreadable:
                running.wait_until(
                    lambda: running.value("streamsvm_challenge_scores_left_out", reason="unreadable") == unreadable
                )
            running.wait_until(
                lambda: running.value("streamsvm_challenge_scores_left_out", reason="nowhere") == nowhere
            )
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
        points.send(TIMES)  # of a later time
        running.wait_until(lambda: running.value("streamsvm_challenges_total", outcome="unlabeled") == 1)
    assert current(connection, settings) == 1
    assert verify(Cluster(connection), settings).clean


@pytest.mark.parametrize(("unlabeled", "outcome", "expected"), [("keep", "unlabeled", 1), ("pass", "passed", 2)])
def test_without_a_scorer_the_time_of_the_records_ends_a_challenge(
    real_broker: TestBroker, tmp_path: Path, unlabeled: str, outcome: str, expected: int
) -> None:
    """There is not even a topic of scores; then output.gate_unlabeled says whether the challenger becomes current."""
    settings = shadowed(real_broker, tmp_path / "checkpoint", gate_wait=0.0, gate_unlabeled=unlabeled)
    connection = real_broker.connection
    points = Points(connection, settings, 3)
    with Running(settings, connection) as running:
        for version in (1, 2):
            points.send(ROWS)
            running.wait_until(lambda n=version: running.value("streamsvm_model_version") == n)  # type: ignore[misc]
        running.wait_until(lambda: running.value("streamsvm_challenger_version") == 2)
        points.send(TIMES)  # of a later time
        running.wait_until(lambda: running.value("streamsvm_challenges_total", outcome=outcome) == 1)
    assert current(connection, settings) == expected
    assert verify(Cluster(connection), settings).clean


@pytest.mark.parametrize("point", ["publish.sent:4", "publish.answered:4", "publish.committed:2", "publish.answered:5"])
def test_a_trainer_killed_around_a_challenge_goes_on_with_it(
    real_broker: TestBroker, tmp_path: Path, point: str
) -> None:
    """Killed while a challenge begins or ends: it stands once, or is made anew, and nothing is moved twice."""
    settings = shadowed(real_broker, tmp_path / "checkpoint", gate_wait=0.0, gate_unlabeled="pass")
    connection = real_broker.connection
    points = Points(connection, settings, 3)
    more = {"output_gate": "shadow", "output_gate_wait": 0, "output_gate_unlabeled": "pass"}
    environment = {"STREAMSVM_SCORING__TOPIC": settings.scoring.topic, "STREAMSVM_SCORING__OUTPUT_TOPIC": "none-yet"}
    daemon = Daemon(arguments(settings, connection, **more), {**environment, "STREAMSVM_TEST_CRASH_AT": point})
    daemon.wait_for("started")
    for _ in range(6):
        points.send(ROWS)
    assert daemon.wait() == -signal.SIGKILL, f"{point} was never reached\n{daemon.said}"
    daemon = Daemon(arguments(settings, connection, **more), environment)
    daemon.wait_for("started")
    while current(connection, settings) < 2:
        points.send(ROWS)
        daemon.wait_for("model_published")
    daemon.stop()
    found = ended(connection, settings)
    numbers = [one.challenger.number for one in found]
    assert numbers == sorted(set(numbers))
    moved = [
        entry["to"]
        for record in topic(connection, settings.output.audit_topic)
        if (entry := json.loads(record.value or b""))["event"] == "alias_moved"
    ]
    assert moved == [1, *(one.challenger.number for one in found if one.ended and one.ended.outcome == "passed")]
    assert current(connection, settings) == moved[-1]
    record = newest(connection, settings, challenge_key("m"))
    assert record is not None
    assert (decode_challenge(record).ended is None) == (challenger(connection, settings) > 0)
    assert verify(Cluster(connection), settings).clean


# ------------------------------------------------------------------ without a broker


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"input": {"topic": "a"}, "scoring": {"topic": "b"}}, "Let the scorer score the input, or give labels.topic"),
        ({"output": {"gate": "shadow", "gate_figure": "cost"}}, "gate_figure = cost, but svm.cost is not given"),
        (
            {"output": {"gate": "shadow", "gate_figure": "log_loss"}},
            "gate_figure = log_loss, but svm.probability is not given",
        ),
        ({"output": {"gate": "shadow", "gate_margin": "none"}}, "gate = shadow, but output.gate_margin is not given"),
        ({"points": {"dimension": 2, "labels": ["a", "b", "c"]}}, "points.labels has 3 labels: .* not supported yet"),
        ({"registry": {"url": "http://registry:8081"}}, "gate = shadow, .* registry.url = http://registry:8081: "),
    ],
)
def test_what_a_challenge_cannot_be_decided_by_is_refused(given: dict[str, Any], what: str) -> None:
    """At the start, in a line."""
    plain = {"output": {"gate": "shadow"}, "input": {"topic": "a"}, "scoring": {"topic": "a"}}
    with pytest.raises(ValueError, match=what):
        Settings.model_validate({**plain, **given})


def test_a_challenge_is_read_back_as_it_was_written() -> None:
    """And what has another field is refused: a newer build wrote it."""
    one = Challenge(
        number=3,
        alpha=alpha_of(3),
        spent=spent_before(3),
        challenger=Alias(2, "ab" * 32, 7),
        champion=Alias(1, "cd" * 32, 3),
        figure="cost",
        labels=5_000,
        costs=(5.0, 1.0),
        since_ms=-1,
        wait_ms=604_800_000,
        scores_topic="scores",
        scored_topic="points",
        labels_topic="labels",
        scores=(),
        told=(),
    )
    from streamsvm.errors import InvalidMessage

    value = encode_challenge(one)
    assert decode_challenge(value) == one
    with pytest.raises(InvalidMessage):
        decode_challenge(value[:-1] + b',"more":1}')


NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAMPION, RIVAL = Alias(1, "cd" * 32, 3), Alias(2, "ab" * 32, 7)
OPEN = Challenge(
    number=7,
    alpha=alpha_of(7),
    spent=spent_before(7),
    challenger=RIVAL,
    champion=CHAMPION,
    figure="auc",
    labels=LABELS,
    costs=None,
    since_ms=10,
    wait_ms=5,
    scores_topic="scores",
    scored_topic="points",
    labels_topic="points",
    scores=(Span(0, 0, 0),),
    told=(),
)


class Alone:
    """Challenges of a trainer whose broker, gate and follower are stand-ins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, retired: bool = False) -> None:
        settings = Settings.model_validate(
            {
                "input": {"topic": "points"},
                "points": {"dimension": 2},
                "output": {"gate": "shadow", "gate_unlabeled": "pass"},
                "scoring": {"topic": "points", "output_topic": "scores"},
            }
        )
        key = version_key(settings.name, RIVAL.number).encode()
        self.cluster, self.session, self.quality, self.follower = Mock(), Mock(), Mock(), Mock()
        self.cluster.read_to_end.side_effect = lambda *_, **__: [Mock(key=key, value=None if retired else b"v")]
        self.cluster.newest.return_value = {}
        self.cluster.describe.return_value.partitions = [0]
        self.cluster.log_range.return_value = (0, 4)
        self.cluster.topic_id.return_value = "an-id"
        self.follower.full, self.follower.read.return_value = False, 0
        self.follower.unreadable = self.follower.nowhere = self.follower.grown = 0
        self.follower.spans.return_value = ({0: (0, 4)}, {})
        self.follower.reached.return_value = True
        self.gate = Mock(waiting=RIVAL, time_ms=100, present=Mock(alias=CHAMPION, number=1))
        self.found = Compared(outcome="open", labels=0)
        monkeypatch.setattr(challenges_module, "Follower", lambda *_: self.follower)
        monkeypatch.setattr(challenges_module, "paired", lambda *_: None)
        monkeypatch.setattr(challenges_module, "unpaired", lambda *_: 3)
        monkeypatch.setattr(challenges_module, "compare", lambda *_: self.found)
        self.won = Mock(version=Mock(), why="the broker does not answer")
        monkeypatch.setattr(challenges_module, "present_of", lambda *_: self.won)
        self.time = 0.0
        self.tested = Challenges(
            settings,
            self.cluster,
            self.session,
            self.gate,
            self.quality,
            Mock(),
            now=lambda: NOW,
            monotonic=lambda: self.time,
        )

    def opened(self) -> Alone:
        record = Mock(value=encode_challenge(OPEN))
        self.cluster.newest.side_effect = lambda _, keys, __: {keys[0]: record}
        return self

    def records(self) -> list[Challenge]:
        """Turn once, and return the records of challenges that were published."""
        self.session.reset_mock()
        self.time += 2.0
        self.tested.turn(ready=True)
        return [decode_challenge(call.args[0][0].value) for call in self.session.publish.call_args_list]

    def turn(self) -> list[str]:
        """Turn once, and return how the challenges that were published ended, "open" of one that began."""
        return ["open" if one.ended is None else one.ended.outcome for one in self.records()]


def test_a_challenge_whose_time_is_over_ends_when_its_logs_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and not after an error, however late it is."""
    alone = Alone(monkeypatch).opened()
    alone.follower.reached.return_value = False
    assert alone.turn() == []
    alone.follower.reached.return_value = True
    alone.follower.joined.side_effect = TransientError("no answer", "")
    assert alone.turn() == []
    alone.follower.joined.side_effect = None
    assert alone.turn() == ["passed"]


def test_a_version_under_way_is_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A challenge is not read from the topic again for every version that is published, as it is after a doubt."""
    alone = Alone(monkeypatch).opened()
    session, delivery = Mock(sending=False), Mock(ready=True)
    turns = _Turns(alone.tested, delivery, session)
    for sending, ready, asked in (
        (False, True, 1),
        (True, False, 1),
        (False, True, 1),
        (False, False, 1),
        (False, True, 2),
    ):
        session.sending, delivery.ready = sending, ready
        alone.time += 2.0
        turns.turn()
        assert alone.cluster.newest.call_count == asked


def test_a_challenge_whose_logs_are_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to wait for."""
    alone = Alone(monkeypatch).opened()
    alone.follower.joined.side_effect = OffsetOutOfRange("scores", 0, 0)
    assert alone.turn() == ["passed"]


def test_a_challenge_whose_log_was_made_again_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and its challenger does not become current although too few labels would let it pass."""
    alone = Alone(monkeypatch).opened()
    alone.follower.joined.side_effect = Recreated("the topic scores was recreated")
    assert alone.turn() == ["void"]


def test_a_challenge_begins_before_the_time_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer that starts again waits for no row; time counts from the first one, and is told in the record."""
    alone = Alone(monkeypatch)
    alone.gate.time_ms = -1
    assert alone.turn() == ["open"]
    assert alone.turn() == []
    alone.gate.time_ms = 100
    assert alone.turn() == ["open"]
    record, *others = alone.session.publish.call_args.args[0]
    assert (decode_challenge(record.value).since_ms, others) == (100, [])
    alone.gate.time_ms += 1 + decode_challenge(record.value).wait_ms
    assert alone.turn() == ["passed"]


def test_a_version_that_was_retired_challenges_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for before a challenge begins."""
    assert Alone(monkeypatch, retired=True).turn() == []


def test_a_record_of_the_next_century_ends_no_challenge() -> None:
    """Nor do fifty of them: the time is the median of the newest rows, and goes on with them."""
    gate = ShadowGate(Mock(), None, Mock())
    assert gate.time_ms == -1
    gate.note(_of_times([-1]))
    assert gate.time_ms == -1
    gate.note(_of_times(range(1_000, 1_000 + TIMES)))
    assert gate.time_ms == 1_000 + TIMES // 2
    gate.note(_of_times([1 << 60] * (TIMES // 2)))
    assert gate.time_ms == 1_000 + TIMES - 1
    gate.note(_of_times(range(2_000, 2_000 + 10 * TIMES)))
    assert gate.time_ms == 2_000 + 10 * TIMES - 1 - TIMES // 2


def _of_times(times: Sequence[int]) -> Rows:
    return replace(rows_of(gaussian(len(times), 1)), times=Times.of(np.array(times, np.int64)))


def test_a_version_that_was_retired_does_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its challenge is void."""
    assert Alone(monkeypatch, retired=True).opened().turn() == ["void"]


def test_a_winner_that_could_not_be_fetched_is_fetched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is asked again until the trainer has it, too."""
    alone = Alone(monkeypatch).opened()
    alone.won.version, version = None, alone.won.version
    assert alone.turn() == ["passed"]
    ended_now = alone.session.publish.call_args.args[0][0]
    alone.cluster.newest.side_effect = lambda _, keys, __: {keys[0]: ended_now}
    assert not alone.quality.promoted.called
    alone.won.version = version
    alone.turn()
    assert alone.quality.promoted.called


def test_a_challenge_goes_on_from_the_number_of_the_newest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts, of whatever incarnation or copy, has no other count: the 8th follows the 7th."""
    alone = Alone(monkeypatch).opened()
    (over,) = alone.records()
    assert (over.number, over.ended is None) == (7, False)
    alone = Alone(monkeypatch)
    alone.cluster.newest.side_effect = lambda _, keys, __: {keys[0]: Mock(value=encode_challenge(lost))}
    assert over.ended is not None
    lost = msgspec.structs.replace(over, ended=msgspec.structs.replace(over.ended, outcome="worse"))
    alone.gate.waiting = Alias(9, "ef" * 32, 30)
    alone.cluster.read_to_end.side_effect = lambda *_, **__: [Mock(key=b"m@9", value=b"v")]
    monkeypatch.setattr(alone.tested, "_key", lambda alias: f"m@{alias.number}")
    (begun,) = alone.records()
    assert (begun.number, begun.alpha, begun.spent) == (8, alpha_of(8), spent_before(8))


def test_the_first_challenge_of_a_name_has_number_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was spent before."""
    (begun,) = Alone(monkeypatch).records()
    assert (begun.number, begun.alpha, begun.spent) == (1, alpha_of(1), 0.0)


def test_nobody_looks_before_all_was_read_that_was_there_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a start after a kill would look at fewer rows than were looked at before it, in an order of its own."""
    alone = Alone(monkeypatch).opened()
    alone.gate.time_ms = 11  # not over
    alone.found = Compared(outcome="better", labels=50, terms=50, champion=0.5, challenger=0.6, evidence=99.0)
    alone.follower.reached.return_value = False
    assert alone.turn() == []
    alone.cluster.log_range.return_value = (0, 9)
    alone.follower.reached.return_value = True
    (won,) = alone.records()
    assert alone.follower.reached.call_args.args == ({0: 4}, {})
    assert won.ended is not None
    assert (won.ended.outcome, won.ended.evidence, won.ended.unpaired) == ("better", 99.0, 3)


def test_what_a_challenge_spends_is_checked() -> None:
    """The next number, and what it spends; a number that comes again, or another share, is a fault."""
    assert spending_fault(OPEN, 6) == ""
    assert spending_fault(OPEN, 0) == ""  # the audit trail no longer has those before it
    assert "number 7 after number 7" in spending_fault(OPEN, 7)
    assert "number 7 after number 4" in spending_fault(OPEN, 4)
    assert "says that it spends 0.01" in spending_fault(msgspec.structs.replace(OPEN, alpha=0.01), 6)
    assert "after 0.0;" in spending_fault(msgspec.structs.replace(OPEN, spent=0.0), 6)


def test_labels_that_cannot_be_enough_are_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as the champion's figure is known, with the option's name and what it would take."""
    alone, said = Alone(monkeypatch).opened(), Mock()
    monkeypatch.setattr(challenges_module, "log", said)
    alone.gate.time_ms = 11
    alone.found = Compared(outcome="open", labels=200, terms=20, champion=0.9, challenger=0.9)
    for _ in range(3):
        alone.tested.compared = None
        assert alone.turn() == []
    ((event,), fields), *others = said.warning.call_args_list
    assert (event, others) == ("challenge_needs_more_labels", [])
    assert f"output.gate_labels to at least {fields['needed']}" in fields["remedy"]
    assert fields["needed"] > fields["gate_labels"] == LABELS
