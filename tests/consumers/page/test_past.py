"""What a page knows after a restart: what the topics tell, and no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from consumers.metrics import TRAINER_ITSELF
from consumers.page.past import MOST_CHARACTERS, NEAR, letter_of, past_of
from consumers.page.site import Site
from consumers.page.status import TrainerStatus
from consumers.settings import Settings
from streamsvm.ingest import RejectedRecord, Rejection
from streamsvm.kafka import Cluster, Connection, Message, Record, TopicSpec
from streamsvm.model import Head, message as model_codec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, changed, produce, records, run_until, settings_for, topic, versions
from tests.kafka.steps import send
from tests.streams import head_of

NOW = datetime(2026, 3, 2, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("past"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 1)])
    return made


def status_of(running: Running, settings: Settings) -> TrainerStatus:
    status = Site(settings, running.board, running.metrics, running.health).status()
    assert isinstance(status, TrainerStatus)
    return status


def test_curves_say_where_the_kept_points_are(settings: Settings, connection: Connection) -> None:
    """As shares between each two knots, until a restart: the topics have no points."""
    settings = changed(settings, "svm", kernel="additive")
    produce(connection, settings.input.topic, records(130))
    looks = status_of(run_until(settings, connection, 130), settings).looks
    assert looks is not None
    assert looks.shapes
    assert [len(one.shares) for one in looks.shapes] == [len(one.knots[0]) - 1 for one in looks.shapes]
    assert [sum(one.shares) for one in looks.shapes] == pytest.approx([1.0] * len(looks.shapes), abs=1e-4)


def test_a_restart_forgets_nothing_that_the_topics_know(settings: Settings, connection: Connection) -> None:
    """Versions, skill, rows, what the model looks at, and dead letters are those of before, without a new version."""
    produce(connection, settings.input.topic, [*records(130), b'{"x": [1], "y": 1}'])
    before = run_until(settings, connection, 131)
    old = status_of(before, settings)
    with Running(settings, connection) as again:
        again.wait_until_started()
        again.wait_until(
            lambda: status_of(again, settings).structure.rows == 130 and status_of(again, settings).versions != ()
        )
        new = status_of(again, settings)
        assert new.structure.partitions[0].rows == 131
        numbers = [part.number for part in new.versions]
        assert numbers == [version.number for version in versions(connection, settings)][::-1]
        assert [part.sha256 for part in new.versions] == [part.sha256 for part in old.versions]
        assert [part.earlier for part in new.versions] == [True] * len(numbers)
        for one, other in zip(new.versions, old.versions, strict=True):
            for name in ("rows", "objective", "gap", "cut", "current"):
                assert getattr(one, name) == getattr(other, name), name
            assert one.seconds == pytest.approx(other.seconds, abs=1e-6)
            assert abs(one.published - other.published) < timedelta(seconds=1)
        assert (new.quality.skill is None) == (old.quality.skill is None)
        assert new.looks == old.looks
        assert new.looks is not None
        assert new.looks.features
        assert (new.input.accepted, new.input.rejected) == (0, 0)
        assert "does not cover" not in new.verdict.detail
        assert "has not published" not in new.verdict.detail
        assert new.memory.points_held_peak >= new.memory.points_held > 0
        letters = new.input.letters
        assert letters is not None
        assert letters.newest is not None
        assert letters.before is not None
        assert letters.before >= 1
        assert (letters.newest.offset, letters.newest.reason) == (130, "wrong_dimension")
        assert again.value("streamsvm_model_points_covered") > 0


def test_a_restart_shows_the_figures_of_the_newest_version(settings: Settings, connection: Connection) -> None:
    """Every gauge of a version is what it was, without a new version."""
    produce(connection, settings.input.topic, [*records(1_230), b'{"x": [1], "y": 1}'])
    before = run_until(settings, connection, 1_231)
    of_a_version = ("streamsvm_model_", "streamsvm_audit_", "streamsvm_training_points")
    names = [one.name for one in TRAINER_ITSELF if one.kind == "gauge" and one.name.startswith(of_a_version)]

    def shown_by(running: Running) -> dict[tuple[str, ...], float]:
        return {(name, *labels): value for name in names for labels, value in running.metrics.values(name).items()}

    assert before.value("streamsvm_model_rows_behind") > 0
    with Running(settings, connection) as again:
        to_a_header = pytest.approx(shown_by(before), abs=1e-6, nan_ok=True)  # which has six digits of a figure
        again.wait_until(lambda: shown_by(again) == to_a_header)
        assert again.value("streamsvm_publishes_total", outcome="published") == 0


def test_a_version_with_another_hash_ends_the_walk(settings: Settings, connection: Connection) -> None:
    """What does not follow from the head's hash is not shown, and nothing fails: the trainer starts all the same."""
    produce(connection, settings.input.topic, records(130))
    run_until(settings, connection, 130)
    models = settings.output.models_topic
    stood = [record for record in topic(connection, models) if record.value is not None]
    newest = versions(connection, settings)[-1]
    head = _head(newest.number, stood[-1])
    names = settings.name, models, settings.input.dead_letters
    found = past_of(Cluster(connection), *names, head)
    assert [part.number for part in found.versions] == list(range(newest.number, 0, -1))
    assert not past_of(Cluster(connection), *names, structs.replace(head, sha256="0" * 64)).versions
    assert not past_of(Cluster(connection), *names, structs.replace(head, offset=10_000)).versions
    # Other records stand between a version and the one before it: the walk ends before it.
    copy = Message(models, stood[-1].value, stood[-1].key, stood[-1].headers, 0)
    send(connection, [*[Message(models, b"{}", b"other@1", (), 0)] * NEAR, copy])
    copied = [record for record in topic(connection, models) if record.value is not None][-1]
    cut_short = past_of(Cluster(connection), *names, _head(newest.number, copied))
    assert [part.number for part in cut_short.versions] == [newest.number]


def _head(number: int, record: Record) -> Head:
    return head_of(number, sha256=model_codec.sha256(record.value or b""), offset=record.offset)


def test_what_cannot_be_read_is_left_out() -> None:
    """Nobody answers: an empty past, and no error."""
    nowhere = Connection(options={"bootstrap.servers": "127.0.0.1:1"}, request_timeout_s=0.5)
    found = past_of(Cluster(nowhere), "m", "models", "letters", None)
    assert (found.versions, found.newest) == ((), None)
    assert found.letters is not None
    assert (found.letters.before, found.letters.newest) == (None, None)


def test_a_letter_is_short_and_steers_nothing() -> None:
    """What a stranger wrote is cut, and control characters are escaped."""
    record = Record("t", 3, 17, None, None, (), None, None)
    bad = RejectedRecord(record, 1, (Rejection(0, "unknown_label", "y is '\x1b[2J" + 1_000 * "a"),))
    letter = letter_of("t", bad, NOW)
    assert len(letter.message) == MOST_CHARACTERS
    assert "\x1b" not in letter.message
    assert letter.message.startswith("y is '\\x1b[2J")
