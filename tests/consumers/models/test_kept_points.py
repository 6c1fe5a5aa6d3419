"""The records that a version stands on, as `streamsvm model show --points` prints them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.trainers import changed, produce, records, run_until, settings_for, versions
from tests.streams import id_hash


@pytest.mark.real_broker
def test_the_records_that_stand_for_all_are_named(real_broker: TestBroker, tmp_path: Path) -> None:
    """Each with offset, label and hash of its id; together they weigh what all records of each label weigh."""
    settings, connection = settings_for(real_broker.name("kept"), tmp_path / "state"), real_broker.connection
    Cluster(connection).create([TopicSpec(settings.input.topic)])
    sent = [json.loads(record) | {"id": f"e{number}"} for number, record in enumerate(records(500))]
    produce(connection, settings.input.topic, [json.dumps(record).encode() for record in sent])
    run_until(settings, connection, len(sent))
    end = versions(connection, settings)[-1].lineage.cut[0].offset
    show = [
        "model",
        "show",
        "--points",
        "--bootstrap-servers",
        str(connection.options["bootstrap.servers"]),
        "--name",
        "m",
    ]
    show += ["--output-models-topic", settings.output.models_topic, "--checkpoint-directory"]
    kept = list(csv.DictReader(run(*show, str(tmp_path / "state")).stdout.splitlines()))
    assert 50 < len(kept) < end / 2
    assert [int(one["offset"]) for one in kept] == sorted({int(one["offset"]) for one in kept})
    for one in kept:
        record = sent[:end][int(one["offset"])]
        assert int(one["label"]) == record["y"]
        assert int(one["id_hash"], 16) == id_hash(record["id"], "m") % (1 << 64)
    for label in (-1, 1):
        weighed = sum(float(one["weight"]) for one in kept if int(one["label"]) == label)
        assert weighed == pytest.approx(sum(record["w"] for record in sent[:end] if record["y"] == label), rel=0.05)
    assert "holds no checkpoint of m" in run(*show, str(tmp_path)).stderr


def test_other_options_are_tried_without_publishing(broker: TestBroker, tmp_path: Path) -> None:
    """The configured penalty gives the same figures again, others their own; what was learned and published stays."""
    settings, connection = settings_for(broker.name("again"), tmp_path / "state"), broker.connection
    Cluster(connection).create([TopicSpec(settings.input.topic)])
    produce(connection, settings.input.topic, records(500))
    run_until(settings, connection, 500)
    published = len(versions(connection, settings))

    def again(*options: str) -> dict[str, dict[str, float]]:
        done = run(*command, "--json", *options)
        assert done.returncode == 0, done.stderr
        told: dict[str, dict[str, float]] = json.loads(done.stdout)
        return {name: {key: one for key, one in own.items() if key != "seconds"} for name, own in told.items()}

    command = ["model", "train-again", "--name", "m", "--checkpoint-directory", str(tmp_path / "state")]
    same = again("--svm-alpha", str(settings.svm.alpha or 1e-4))
    assert same["now"] == same["again"]
    assert 0.5 < same["now"]["auc"] <= 1.0
    found_of = {}
    for options in (
        ("--svm-alpha", "1"),
        ("--svm-loss", "squared_hinge"),
        ("--svm-kernel", "rbf"),
        ("--svm-c", "1e-3"),
    ):
        found = found_of[options[1]] = again(*options)
        assert found["now"] == same["now"]
        assert found["again"]["support_vectors"] != same["now"]["support_vectors"]
        assert found["again"]["rows"] == same["now"]["rows"]
    squared = again("--svm-kernel", "rbf", "--svm-loss", "squared_hinge")
    assert squared == again("--svm-kernel", "rbf"), "the loss follows the kernel"
    assert "as configured" in run(*command, "--svm-alpha", "1").stdout
    assert "no option of [svm] is given" in run(*command).stderr
    assert "landmarks" in run(*command, "--svm-landmarks", "9").stderr
    assert len(versions(connection, settings)) == published
    # What was tried is what a trainer then makes, of the points that it has.
    run_until(changed(settings, "svm", kernel="rbf"), connection, 0)
    assert again("--svm-alpha", "1")["now"] == found_of["rbf"]["again"]
    assert again("--svm-kernel", "linear")["again"] == same["now"]
