"""The room of the papers' algorithms: what its plug lists, and a daemon that runs all of it."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from streamsvm.papers.plug import PLUGS

from consumers.verify.verify import verify
from streamsvm import algorithms, papers
from streamsvm.config import CoresetConfig, PointsConfig, SvmConfig
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.learning import REDUCERS, SHARED_REDUCERS, STRUCTURES
from streamsvm.sockets import Choices, rooms
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, run_until, settings_for, versions
from tests.streams import DIMENSION, gaussian

TABLES = {
    "coreset.reducer": REDUCERS,
    "coreset.reducer of several labels": SHARED_REDUCERS,
    "coreset.structure": STRUCTURES,
}
"""Every socket of the trunk."""


def test_the_plug_fits_the_sockets_of_the_trunk() -> None:
    """Each of its names is in a table of the trunk, and what it stands for is there."""
    assert "papers" in rooms()
    assert PLUGS.keys() <= TABLES.keys() | {"descriptions"}
    for socket in PLUGS.keys() & TABLES.keys():
        for name in PLUGS[socket]:
            assert callable(TABLES[socket][name])


@pytest.mark.parametrize("option", algorithms.OWN)
def test_an_option_has_the_choices_of_its_table(option: str) -> None:
    """The trunk's own first, each once."""
    names = algorithms.names(option)
    assert names == tuple(TABLES[option])
    assert names[: len(algorithms.OWN[option])] == algorithms.OWN[option]
    assert len(set(names)) == len(names)


def test_the_examples_of_the_docstring() -> None:
    """The room's example says what it prints."""
    found = doctest.testmod(papers)
    assert found.attempted > 0
    assert found.failed == 0


def test_a_table_knows_no_other_name() -> None:
    """And finds its own without any room."""
    table = Choices("no such socket", {"a": 1})
    assert dict(table) == {"a": 1}
    with pytest.raises(KeyError):
        table["b"]


@pytest.mark.long
def test_a_daemon_runs_the_papers_algorithms_and_is_verified(broker: TestBroker, tmp_path: Path) -> None:
    """Alg. 1 in Alg. 2's counter, for three labels: every version is recomputed to the last byte."""
    settings = settings_for(broker.name("papers"), tmp_path)
    options = {
        "points": PointsConfig(dimension=DIMENSION, labels=(0, 1, 2)),
        "coreset": CoresetConfig(structure="counter", reducer="sensitivity", points=363, train_points=500),
        "svm": SvmConfig(alpha=1e-2),
    }
    settings = settings.model_copy(update=options)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    points = gaussian(200)
    labels = np.digitize(points.X[:, 0], [-0.7, 0.7]).tolist()
    values = [encode(x, label, float(w)) for x, label, w in zip(points.X, labels, points.weight, strict=True)]
    produce(broker.connection, settings.input.topic, values)
    run_until(settings, broker.connection, 200)
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())
    made = versions(broker.connection, settings)
    assert len(made) == len(report.rows) == 5
    for version in made:
        options = version.lineage.configuration["coreset"]
        assert (options["structure"], options["reducer"]) == ("counter", "sensitivity")
