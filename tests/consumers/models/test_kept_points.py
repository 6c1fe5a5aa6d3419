"""The records that a version stands on, as `streamsvm model show --points` prints them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from consumers.models.show import newest_checkpoint
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.trainers import produce, records, run_until, settings_for, versions
from tests.streams import id_hash

ROWS = 500


@pytest.mark.real_broker
def test_the_records_that_stand_for_all_are_named(real_broker: TestBroker, tmp_path: Path) -> None:
    """Each with offset, label and hash of its id; together they weigh what all records of each label weigh."""
    settings, connection = settings_for(real_broker.name("kept"), tmp_path / "state"), real_broker.connection
    Cluster(connection).create([TopicSpec(settings.input.topic)])
    sent = [json.loads(record) | {"id": f"e{number}"} for number, record in enumerate(records(ROWS))]
    produce(connection, settings.input.topic, [json.dumps(record).encode() for record in sent])
    run_until(settings, connection, ROWS)
    newest = versions(connection, settings)[-1]
    end = newest.lineage.cut[0].offset
    assert end >= ROWS - 40
    servers = str(connection.options["bootstrap.servers"])
    told = run(
        "model", "show", "--points", "--bootstrap-servers", servers, "--name", settings.name,
        "--output-models-topic", settings.output.models_topic, "--checkpoint-directory", str(tmp_path / "state"),
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    kept = list(csv.DictReader(told.stdout.splitlines()))
    assert 50 < len(kept) < ROWS / 2
    assert all(int(one["offset"]) < end for one in kept)
    assert [int(one["offset"]) for one in kept] == sorted({int(one["offset"]) for one in kept})
    for one in kept:
        record = sent[int(one["offset"])]
        assert int(one["label"]) == record["y"]
        assert int(one["id_hash"], 16) == id_hash(record["id"], "m") % (1 << 64)
    for label in (-1, 1):
        weighed = sum(float(one["weight"]) for one in kept if int(one["label"]) == label)
        assert weighed == pytest.approx(sum(record["w"] for record in sent[:end] if record["y"] == label), rel=0.05)
    with pytest.raises(ConfigurationError, match="holds no checkpoint of other"):
        newest_checkpoint(tmp_path / "state", "other")
