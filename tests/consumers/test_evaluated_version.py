"""`streamsvm evaluate --config`: it learns as a trainer with the same configuration, and names the version's hash."""

from __future__ import annotations

import csv
from contextlib import closing
from pathlib import Path

import numpy as np

from consumers.cli.file_options import LeftOut, events_of
from consumers.evaluate import Plan, evaluate, settings_of
from consumers.evaluate.plan import EvaluationReport
from consumers.loader import load
from consumers.replay.replay import replay_events
from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.ingest.files.event_files import events_in
from streamsvm.kafka import Cluster
from streamsvm.model.message import content_sha256
from streamsvm.model.version import Version
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import run_until, versions

PARTITIONS = 4
"""Of every topic of the embedded broker."""
LEAVES = 10
LEAF_ROWS = 20
ROWS = PARTITIONS * LEAVES * LEAF_ROWS
CONFIG = """
seed = 7
name = "loans"

[events]
label = {field = "y", negative = ["paid"], positive = ["default"]}

[features]
amount = {as = "number", log1p = true}
age = {as = "number", missing = "reject"}
country = {as = "category", values = ["NA", "DE"], missing = "indicator"}

[svm]
class_weight = "balanced"
C = 2.0

[coreset]
leaf_rows = 20
bucket_points = 10
audit_points = 15
max_partitions = 4

[training]
every_leaves = 40
"""


def written(folder: Path, text: str = CONFIG) -> tuple[Path, Path]:
    """Return a file of rows, of which some lack what they must have, and a configuration."""
    random = np.random.default_rng(5)
    rows, config = folder / "loans.csv", folder / "loans.toml"
    with rows.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["amount", "age", "country", "y"])
        for row in range(ROWS):
            amount, age = random.lognormal(6.0), random.integers(18, 80)
            bad = random.random() < 1 / (1 + np.exp(0.1 * (age - 30)))
            place = ["NA", "na", "DE", "FR"][random.integers(4)]
            lacking = row % 37 == 5 or row >= ROWS - 2
            writer.writerow([f"{amount:.2f}", "" if lacking else age, place, "default" if bad else "paid"])
    config.write_text(text)
    return rows, config


def evaluated(rows: Path, config: Path, partitions: int, **options: object) -> EvaluationReport:
    """Evaluate as the command does."""
    settings, left_out = settings_of(config, options), LeftOut()
    source = events_of(rows, settings, None, None, left_out)
    plan = Plan(find_optimum=False).of_config(settings.models(), partitions)
    return evaluate(source, plan, rejected=lambda: left_out.rows)


def trained(broker: TestBroker, rows: Path, config: Path, folder: Path) -> Version:
    """Send the file as the command does, train on it, and return the version of all its rows."""
    prefix, cluster = broker.name("evaluated"), Cluster(broker.connection)
    own = load(file=config)
    settings = Settings(
        **{name: getattr(own, name) for name in ("name", "points", "coreset", "svm", "seed", "features")},
        kafka={"bootstrap.servers": "unused:1"},
        input=InputConfig(topic=f"{prefix}-in"),
        output=OutputConfig(models_topic=f"{prefix}-models"),
        training=TrainingConfig(policy="every", every_leaves=own.training.every_leaves),
        checkpoint=CheckpointConfig(directory=folder),
    )
    with closing(cluster.outbox()) as outbox:
        events = events_in(rows, "csv", own.features)
        replay_events(events, outbox, settings.input.topic, partitions=PARTITIONS)
    run_until(settings, broker.connection, ROWS)
    (*_, version) = versions(broker.connection, settings)
    assert version.stream.rows == ROWS
    return version


def test_the_hashes_are_those_of_the_version_that_a_trainer_publishes(
    embedded_broker: TestBroker, tmp_path: Path
) -> None:
    """Sent and learned for real, with rows that are rejected; another seed, order or dealing is another version."""
    rows, config = written(tmp_path)
    version = trained(embedded_broker, rows, config, tmp_path / "checkpoint")
    found = evaluated(rows, config, PARTITIONS).version
    assert found is not None
    assert found.training_set_sha256 == version.lineage.training_set_sha256
    assert found.content_sha256 == content_sha256(version)
    assert (found.rows, found.partitions) == (ROWS, PARTITIONS)
    assert version.stream.points < version.stream.rows
    others = [evaluated(rows, config, 3), evaluated(rows, config, PARTITIONS, seed=8)]
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join([lines[0], *lines[:0:-1]]))
    others.append(evaluated(rows, config, PARTITIONS))
    assert found.content_sha256 not in {one.version.content_sha256 for one in others if one.version is not None}
