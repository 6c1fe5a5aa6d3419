"""`streamsvm evaluate --config`: it learns as a trainer with the same configuration, and names the version's hash."""

from __future__ import annotations

import csv
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consumers.cli import SkippedRowCounter, rows_by_recipe
from consumers.evaluate import Plan, configured, evaluate, not_followed, partitions_of, settings_of
from consumers.evaluate.plan import EvaluationReport, EvaluationRow
from consumers.evaluate.reading import read
from consumers.loader import load
from consumers.replay import replay_events
from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.branches.events import events_in
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import from_arrays, open_source
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import Version, content_sha256
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
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
points = 110
structure = "tree"

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
    settings, left_out = settings_of(config, options), SkippedRowCounter()
    source = rows_by_recipe(rows, settings, None, None, left_out, {})
    plan = Plan(find_optimum=False).of_config(settings.models(), partitions, settings.training.every_leaves)
    return evaluate(source, plan, rejected=lambda: left_out.rows)


def trained(broker: TestBroker, rows: Path, config: Path, folder: Path, partitions: int) -> Version:
    """Send the file as the command does, train on it, and return the last version."""
    prefix, cluster, own = broker.name("evaluated"), Cluster(broker.connection), load(file=config)
    if broker.kind == "real":
        cluster.create([TopicSpec(f"{prefix}-in", partitions)])
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
        replay_events(events, outbox, settings.input.topic, partitions=partitions)
    run_until(settings, broker.connection, ROWS)
    (*_, version) = versions(broker.connection, settings)
    return version


def the_version(report: EvaluationReport, version: Version) -> Any:
    """Return what a report says of its version, having seen that it is this one, by both hashes."""
    found = report.version
    assert found is not None
    assert found.training_set_sha256 == version.lineage.training_set_sha256
    assert found.content_sha256 == content_sha256(version)
    return found


def test_the_hashes_are_those_of_the_version_that_a_trainer_publishes(
    embedded_broker: TestBroker, tmp_path: Path
) -> None:
    """Sent and learned for real, with rows that are rejected; another seed, order or dealing is another version."""
    rows, config = written(tmp_path)
    version = trained(embedded_broker, rows, config, tmp_path / "checkpoint", PARTITIONS)
    found = the_version(evaluated(rows, config, PARTITIONS), version)
    assert (found.rows, found.of_rows, found.partitions) == (ROWS, ROWS, PARTITIONS)
    assert version.stream.points < version.stream.rows
    others = [evaluated(rows, config, 3), evaluated(rows, config, PARTITIONS, seed=8)]
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join([lines[0], *lines[:0:-1]]))
    others.append(evaluated(rows, config, PARTITIONS))
    assert found.content_sha256 not in {one.version.content_sha256 for one in others if one.version is not None}


def test_of_one_partition_the_version_ends_where_the_last_cut_falls(real_broker: TestBroker, tmp_path: Path) -> None:
    """Rows behind it stand in no version; on Apache Kafka, whose offsets and epochs are its own."""
    rows, config = written(tmp_path, CONFIG.replace("every_leaves = 40", "every_leaves = 3"))
    version = trained(real_broker, rows, config, tmp_path / "checkpoint", 1)
    found = the_version(evaluated(rows, config, 1), version)
    assert (found.rows, found.of_rows) == (version.stream.rows, ROWS)
    assert found.rows == ROWS // (3 * LEAF_ROWS) * 3 * LEAF_ROWS < ROWS


def row_of(report: EvaluationReport, name: str) -> EvaluationRow:
    (row,) = (row for row in report.rows if row.name == name)
    return row


def test_the_command_follows_the_file_and_says_what_it_does_not_follow(tmp_path: Path) -> None:
    """Options override; sections of daemons, and where the number of partitions comes from, are named."""
    rows, config = written(tmp_path, CONFIG + "[http]\nport = 0\n")
    given = ["evaluate", str(rows), "--config", str(config), "--skip-incomplete", "--no-optimum"]
    found = evaluated(rows, config, 1)
    assert found.version is not None
    shown = run(*given)
    assert f"content {found.version.content_sha256}" in shown.stdout
    assert f"learned as train --config {config} does, from 1 partition (no input.topic is configured)" in shown.stdout
    assert "not followed here: [http], [training], name" in shown.stdout
    told = json.loads(run(*given, "--seed", "8", "--class-weight", "1,3", "--partitions", "2", "--json").stdout)
    other = evaluated(rows, config, 2, seed=8, svm={"class_weight": "1,3"}).version
    assert other is not None
    assert told["version"]["content_sha256"] == other.content_sha256 != found.version.content_sha256
    assert "Give the trainer's configuration" in error_of(run("evaluate", str(rows), "--partitions", "2"))


def test_what_is_learned_is_what_the_configuration_says(tmp_path: Path) -> None:
    """Labels in its order, structure and memory by the trainer's rules, class weights; no class of other defaults."""
    rows, config = written(tmp_path, CONFIG.replace('points = 110\nstructure = "tree"', "points = 400"))
    found = evaluated(rows, config, 1)
    assert found.labels == ("paid", "default")
    ours, settings = row_of(found, "streamsvm"), load(file=config)
    assert ours.points_held == settings.coreset.points == 400
    assert settings.coreset.structure == "chain"
    assert "calibrated chain" in ours.note
    assert found.C == 2.0


def test_with_everything_in_memory_the_gap_is_the_solvers_own(tmp_path: Path) -> None:
    """That of a reservoir that holds all points, too; where the tolerance is coarse for the objective it is said."""
    rows, config = written(tmp_path, CONFIG.replace('points = 110\nstructure = "tree"', "points = 4_000"))
    settings, left_out = settings_of(config, {}), SkippedRowCounter()
    plan = Plan().of_config(settings.models(), 1)
    found = evaluate(rows_by_recipe(rows, settings, None, None, left_out, {}), plan)
    ours, all_of_them = row_of(found, "streamsvm"), row_of(found, "reservoir")
    assert ours.gap is not None
    assert ours.gap == pytest.approx(all_of_them.gap, rel=1e-3, abs=1e-9)
    assert ours.gap < 1e-4
    assert "all points are held as they came, so that the gap is the solver's own" in ours.note
    assert "coarse" not in ours.note
    random = np.random.default_rng(0)
    y = (random.random(5_000) < 0.028).astype(int)
    apart = np.column_stack([random.standard_normal((len(y), 6)), y * (5 + random.random(len(y)))])
    easy = row_of(evaluate(from_arrays("apart", apart, y), Plan()), "streamsvm")
    assert "its tolerance, 0.001, is coarse for an objective of" in easy.note


@pytest.mark.parametrize(("weights", "other"), [("none", "balanced"), ("balanced", "unweighted")])
def test_where_a_label_is_rare_both_class_weights_are_shown(tmp_path: Path, weights: str, other: str) -> None:
    """The configured ones and the others, which score as a configuration with them does."""
    rows, config = written(tmp_path)
    lines = rows.read_text().splitlines(keepends=True)
    seldom = [line for at, line in enumerate(lines) if at == 0 or "default" not in line or at % 8 == 0]
    rows.write_text("".join(seldom))
    found = evaluated(rows, config, 1, svm={"class_weight": weights})
    theirs = "none" if weights == "balanced" else "balanced"
    expected = evaluated(rows, config, 1, svm={"class_weight": theirs})
    assert row_of(found, other).scores == row_of(expected, "streamsvm").scores != row_of(found, "streamsvm").scores
    assert "of the rows have the rarer label" in row_of(found, other).note
    assert [row.name for row in found.rows][:2] == ["streamsvm", other]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1e39,30,DE,paid", "row 3: the feature amount is 1e+39, beyond the range of points.dtype"),
        ("1e400,30,DE,paid", "row 3, column amount: '1e400' is too large for a number"),
        ("x,30,DE,paid", "row 3: amount is 'x', not a number"),
        ("NaN,30,DE,paid", "row 3: amount is missing"),
        ("1,30,DE,Paid", "row 3: y is 'Paid'; events.label means 'paid' as negative"),
        ("1,30,DE,null", "row 3: y is missing"),
    ],
)
def test_a_bad_cell_is_named_by_file_row_and_column(tmp_path: Path, line: str, says: str) -> None:
    """In one line, before anything is learned."""
    rows, config = written(tmp_path, CONFIG.replace(", log1p = true", ""))
    good = [line for line in rows.read_text().splitlines() if ",," not in line]
    rows.write_text("\n".join([*good[:3], line, *good[3:]]) + "\n")
    told = error_of(run("evaluate", str(rows), "--config", str(config)))
    assert str(rows) in told
    assert says in told


@pytest.mark.parametrize(
    ("content", "labels", "says"),
    [
        ("a,y\n1,1\n2,0\n3,2\n", (0, 1), "row 3, column of the label: 2 is none of points.labels, 0, 1"),
        ("a,y\n1,1\n2,01\n3,1\n", ("0", "1"), "row 2, column of the label: '01' is none of points.labels, '0', '1'"),
        ("a,y\n1,1\n1e39,0\n", (0, 1), "row 2, column a: 1e+39 is too large; a feature must be at most 3.40282e"),
        ("a,b,y\n1,1,1\n", (0, 1), "has 2 features; points.dimension is 1"),
    ],
)
def test_points_that_a_trainer_would_reject_are_named(
    tmp_path: Path, content: str, labels: tuple[int | str, ...], says: str
) -> None:
    """By the labels, the dimension and the range that are configured."""
    path = tmp_path / "points.csv"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        read(open_source(path), config=PointsConfig(dimension=1, labels=labels))
    assert says in caught.value.what


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[events]\nid = "id"\n[features]\namount = "number"\n[labels]\ntopic = "labels"\nhorizon = "1h"\n',
            "labels.topic = labels: a file of rows has its labels",
        ),
        (
            '[points]\ndimension = 2\n[coreset]\nmemory = "window"\nwindow = "60s"\n',
            "coreset.window = 1m: the rows of a file have no times",
        ),
    ],
)
def test_what_a_file_cannot_have_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """Labels of a topic of their own, and ages by the clock."""
    config = tmp_path / "loans.toml"
    config.write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        settings_of(config, {})


def test_partitions_are_those_of_the_configured_topic(
    embedded_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for once; 1 where no topic is configured, or nobody answers, and it is said why."""
    cluster, topic = Cluster(embedded_broker.connection), embedded_broker.name("asked")
    cluster.describe(topic)
    monkeypatch.setattr(configured, "connect", lambda *_: embedded_broker.connection)
    asked = load({"input": {"topic": topic}})
    assert partitions_of(asked) == (PARTITIONS, f"as many as the topic {topic} has")
    assert partitions_of(load()) == (1, "no input.topic is configured")
    assert not_followed(load({"http": {"port": 0}, "svm": {"C": 2.0}, "seed": 3})) == ["[http]"]
    silent = Connection(options={"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(configured, "connect", lambda *_: silent)
    monkeypatch.setattr(configured, "LIMITS_TIMEOUT_S", 0.5)
    count, why = partitions_of(load({"input": {"topic": "loans"}}))
    assert count == 1
    assert why.startswith("the topic loans cannot be asked: ")
