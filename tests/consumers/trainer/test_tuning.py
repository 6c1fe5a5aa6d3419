"""Tuning in the daemon: which cuts are tuned, what the topic says of it, restarts, and that `verify` does it again."""

from __future__ import annotations

import pytest

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.config import SvmConfig
from streamsvm.kafka import Cluster, Connection, Message
from streamsvm.learning import STEPS, Tuning, naming
from streamsvm.model import Head, Version, decode_head, head_key
from tests.consumers.forged import Forged, faults, retired_record, with_lineage
from tests.consumers.trainers import aliases, changed, learn, produce, records, run_until, versions

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
def settings(settings: Settings) -> Settings:
    """A trainer that makes a version every 25 leaves, and tunes every 50."""
    return changed(settings, "training", every_leaves=25).model_copy(update={"svm": SVM["linear"]})


def tuned_by(found: list[Version]) -> list[int | None]:
    """Return the number of the version whose cut each was tuned at; None if there is none."""
    cuts = {version.lineage.cut: version.number for version in found}
    return [None if v.lineage.tuned_at is None else cuts[v.lineage.tuned_at] for v in found]


def heads(settings: Settings, connection: Connection) -> list[Head]:
    return [decode_head(value) for value in aliases(connection, settings, head_key(settings.name))]


@pytest.mark.parametrize("kernel", SVM)
def test_cuts_at_or_past_a_multiple_are_tuned_and_the_others_keep_it(
    kernel: str, settings: Settings, connection: Connection
) -> None:
    """The lineage names the cut, the head what is in force there, and the model was trained by it."""
    settings = settings.model_copy(update={"svm": SVM[kernel]})
    running = learn(settings, connection, 5 * EVERY)
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


def test_a_new_incarnation_tunes_anew(settings: Settings, connection: Connection) -> None:
    """What an incarnation chose ends with it: its cuts are not the next one's."""
    learn(settings, connection, 3 * EVERY)
    other = settings.model_copy(update={"seed": 3})
    run_until(other, connection, 3 * EVERY, reset="m/1")
    assert tuned_by(versions(connection, settings)[3:]) == [4, 5, 5]
    report = verify(Cluster(connection), other)
    assert report.clean, list(report.lines())


def test_other_options_are_tuned_at_once(settings: Settings, connection: Connection) -> None:
    """Where the newest version was trained with others; `verify` is clean, also of one alone, and of what is left."""
    settings = changed(settings, "training", every_leaves=2)
    other = settings.model_copy(update={"svm": SvmConfig(alpha=1e-2, loss="squared_hinge", tune="auto")})
    learn(settings, connection, 80)
    for seed, options in enumerate((other, changed(settings, "svm", tune=None), settings)):
        learn(options, connection, 40, seed=seed + 1)
    assert tuned_by(versions(connection, settings)) == [1, 1, 3, 3, None, None, 7, 7]
    for number in (None, *range(1, 9)):
        report = verify(Cluster(connection), other, number=number)
        assert report.clean, list(report.lines())
    compacted = Forged(settings, connection)
    del compacted.versions[2]
    tombstone = Message(compacted.settings.output.models_topic, None, b"m@3", partition=0)
    found = faults(verify(Cluster(connection), compacted.store(tombstone, retired_record(compacted, 3))))
    assert found.keys() <= {0}, found  # heads that are forged have no tuning


def test_a_partition_that_joins_later_leaves_the_choice_as_it_was(settings: Settings, connection: Connection) -> None:
    """A version alone is recomputed although its tuning's cut knows fewer records of a partition than its own."""
    settings = changed(settings, "training", every_leaves=2)
    learn(settings, connection, 40)
    produce(connection, settings.input.topic, records(60, seed=1), partition=2)
    run_until(settings, connection, 60)
    found = versions(connection, settings)
    assert tuned_by(found) == [1] * len(found)
    assert len(found) > 1
    report = verify(Cluster(connection), settings, number=len(found))
    assert report.clean, list(report.lines())


def test_a_version_that_names_another_tuning_is_found(settings: Settings, connection: Connection) -> None:
    """Its own cut where none was due, one that is not in force any more, one to come, or none at all.

    So is a head without the tuning in force: the next version would be trained by it.
    """
    learn(settings, connection, 5 * EVERY)
    cuts = {version.number: version.lineage.cut for version in versions(connection, settings)}
    for number, named, why in (
        (3, 3, "the tuning in force was made at the cut of m@2, but this version names another"),
        (3, 1, "the tuning in force was made at the cut of m@2"),
        (4, 2, "made at the cut of m@2; this version should have been tuned at its own cut, and was not"),
        (2, 3, "names a cut of tuning that does not lie before its own"),
        (3, None, "lineage.tuned_at"),
    ):
        forged, cut = Forged(settings, connection), cuts.get(named)
        forged.change(number, lambda version, cut=cut: with_lineage(version, tuned_at=cut))
        forged.rechain()
        found = faults(verify(Cluster(connection), forged.store()))
        assert why in found[number]
        assert "names another cut of tuning" in found[0]


def test_a_label_that_is_missing_stops_nothing(settings: Settings, connection: Connection) -> None:
    """With one label there is nothing to choose by: the configured value stays, and the next tuning is waited for."""
    values = [record for record in records(10 * EVERY) if b'"y":-1' in record][: 2 * EVERY]
    produce(connection, settings.input.topic, values)
    run_until(settings, connection, 2 * EVERY)
    found = versions(connection, settings)
    assert tuned_by(found) == [1, 2]
    assert settings.svm.penalty(found[-1].stream.weight) == found[-1].fit.C
    assert verify(Cluster(connection), settings).clean
