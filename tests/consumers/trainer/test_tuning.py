"""Tuning in the daemon: which cuts are tuned, what the topic says of it, restarts, and that `verify` does it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.config import SvmConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning import STEPS, Tuning, naming
from streamsvm.model import Head, Version, decode_head, head_key
from tests.brokers.fixtures import TestBroker
from tests.consumers.forged import Forged, faults, with_lineage
from tests.consumers.trainers import produce, records, run_until, settings_for, topic, versions

pytestmark = pytest.mark.enough("embedded")

SVM = {
    "linear": SvmConfig(alpha=1e-3, tune="auto"),
    "rbf": SvmConfig(C=1.0, kernel="rbf", tune="auto"),
}
EVERY = 500
"""Rows of a version: 25 leaves of 20."""
TUNED_BY = [1, 2, 2, 4, 4]
"""At whose cut each version is tuned: the first, then the first past each 1,000 rows; a version comes every 500."""


@pytest.fixture
def make(broker: TestBroker, tmp_path: Path) -> Callable[..., Settings]:
    """Make settings of a trainer that tunes every 50 leaves, and its input."""

    def made(svm: SvmConfig = SVM["linear"], every_leaves: int = 25) -> Settings:
        base = settings_for(broker.name("t"), tmp_path / "checkpoint", every_leaves=every_leaves)
        Cluster(broker.connection).create([TopicSpec(base.input.topic, 4)])
        return base.model_copy(update={"svm": svm})

    return made


def tuned_by(found: list[Version]) -> list[int | None]:
    """Return the number of the version whose cut each was tuned at; None if there is none."""
    cuts = {version.lineage.cut: version.number for version in found}
    return [None if v.lineage.tuned_at is None else cuts[v.lineage.tuned_at] for v in found]


def heads(settings: Settings, connection: Connection) -> list[Head]:
    key = head_key(settings.name).encode()
    read = topic(connection, settings.output.aliases_topic)
    return [decode_head(r.value) for r in read if r.key == key and r.value is not None]


@pytest.mark.parametrize("kernel", SVM)
def test_cuts_at_or_past_a_multiple_are_tuned_and_the_others_keep_it(
    kernel: str, make: Callable[..., Settings], connection: Connection
) -> None:
    """The lineage names the cut, the head what is in force there, and the model was trained by it."""
    settings = make(SVM[kernel])
    produce(connection, settings.input.topic, records(5 * EVERY))
    running = run_until(settings, connection, 5 * EVERY)
    found = versions(connection, settings)
    assert tuned_by(found) == TUNED_BY
    for version, head in zip(found, heads(settings, connection), strict=True):
        tuning = naming.tuning_of(head)
        assert isinstance(tuning, Tuning)
        assert naming.tuned_at(tuning) == version.lineage.tuned_at
        assert tuning.rows == EVERY * TUNED_BY[version.number - 1]
        assert tuning.applied(settings.svm).penalty(version.stream.weight) == version.fit.C
        assert version.fit.gamma == tuning.gamma
    configured = settings.svm.C or settings.svm.alpha
    assert {t.C or t.alpha for t in map(naming.tuning_of, heads(settings, connection)) if t} <= {
        step * configured for step in STEPS
    }
    assert len({(version.fit.C * version.stream.weight, version.fit.gamma) for version in found}) > 1
    assert running.value("streamsvm_training_seconds_count", step="tune") == 3


def test_a_new_incarnation_tunes_anew(make: Callable[..., Settings], connection: Connection) -> None:
    """What an incarnation chose ends with it: its cuts are not the next one's."""
    settings = make()
    produce(connection, settings.input.topic, records(3 * EVERY))
    run_until(settings, connection, 3 * EVERY)
    changed = settings.model_copy(update={"seed": 3})
    run_until(changed, connection, 3 * EVERY, reset="m/1")
    assert tuned_by(versions(connection, settings)[3:]) == [4, 5, 5]
    report = verify(Cluster(connection), changed)
    assert report.clean, list(report.lines())


def test_a_partition_that_joins_later_leaves_the_choice_as_it_was(
    make: Callable[..., Settings], connection: Connection
) -> None:
    """A version alone is recomputed although its tuning's cut knows fewer records of a partition than its own."""
    settings = make(every_leaves=2)
    produce(connection, settings.input.topic, records(40))
    run_until(settings, connection, 40)
    produce(connection, settings.input.topic, records(60, seed=1), partition=2)
    run_until(settings, connection, 60)
    found = versions(connection, settings)
    assert tuned_by(found) == [1] * len(found)
    assert len(found) > 1
    report = verify(Cluster(connection), settings, number=len(found))
    assert report.clean, list(report.lines())


@pytest.mark.parametrize(
    ("number", "named", "why"),
    [
        (3, 3, "the tuning in force was made at the cut of m@2, but this version names another"),
        (3, 1, "the tuning in force was made at the cut of m@2"),
        (4, 2, "made at the cut of m@2; this version should have been tuned at its own cut, and was not"),
        (2, 3, "names a cut of tuning that does not lie before its own"),
        (3, None, "lineage.tuned_at"),
    ],
)
def test_a_version_that_names_another_tuning_is_found(
    number: int, named: int | None, why: str, make: Callable[..., Settings], connection: Connection
) -> None:
    """Its own cut where none was due, one that is not in force any more, one to come, or none at all."""
    settings = make()
    produce(connection, settings.input.topic, records(5 * EVERY))
    run_until(settings, connection, 5 * EVERY)
    cuts = [version.lineage.cut for version in versions(connection, settings)]
    forged = Forged(settings, connection)
    forged.change(number, lambda v: with_lineage(v, tuned_at=None if named is None else cuts[named - 1]))
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert why in faults(report)[number]


def test_a_head_that_gives_another_value_is_found(make: Callable[..., Settings], connection: Connection) -> None:
    """The next version would be trained by it."""
    settings = make()
    produce(connection, settings.input.topic, records(2 * EVERY))
    run_until(settings, connection, 2 * EVERY)
    forged = Forged(settings, connection)
    report = verify(Cluster(connection), forged.store())  # its head has no tuning at all
    assert "names another cut of tuning" in faults(report)[0]


def test_a_label_that_is_missing_stops_nothing(make: Callable[..., Settings], connection: Connection) -> None:
    """With one label there is nothing to choose by: the configured value stays, and the next tuning is waited for."""
    settings = make()
    values = [record for record in records(10 * EVERY) if b'"y":-1' in record][: 2 * EVERY]
    produce(connection, settings.input.topic, values)
    run_until(settings, connection, 2 * EVERY)
    found = versions(connection, settings)
    assert tuned_by(found) == [1, 2]
    assert settings.svm.penalty(found[-1].stream.weight) == found[-1].fit.C
    assert verify(Cluster(connection), settings).clean
