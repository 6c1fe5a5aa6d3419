"""Each benchmark runs in its smallest form, and its figures are what it says; nothing here is about speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamsvm.config import ModelConfig
from streamsvm.learning import Learner
from streamsvm.points import Position
from tests.benchmarks import certificate, checkpoint, houses, ingest, reduce_rate, scale, scorer, solver, tails
from tests.brokers.fixtures import TestBroker
from tests.streams import gaussian, rows_of, small_config

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith(("test_", "__")))


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    """Return the options that name a folder with one small set."""
    points = gaussian(900)
    np.savez(tmp_path / "small.npz", X=points.X, y=points.y)
    return ["--data", str(tmp_path)]


@pytest.mark.parametrize("name", MODULES)
def test_programs_load(name: str) -> None:
    """What a benchmark takes from the product is still there; peers that the project does not install are not."""
    if name == "ingest_peers":
        pytest.importorskip("orjson")
    assert import_module(f"tests.benchmarks.{name}").__doc__


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_no_bound_of_a_certificate_is_violated(data: Sequence[str], loss: str) -> None:
    """In each order and number of partitions; what is proven cannot be less than what is true."""
    given = [*data, "--memory", "80", "--partitions", "1,3", "--order", "shuffled,by-class", "--rounds", "2"]
    made = certificate.main([*given, "--hostile", "5", "--loss", loss])
    assert made["hostile"]["violated"] == 0
    assert len(made["rows"]) == 4
    for row in made["rows"]:
        assert row["violated"] == 0
        assert row["lower"] <= row["upper"]
        assert row["certified_gap"] >= row["gap"] - 1e-8


def test_checkpoints_grow_with_the_points(tmp_path: Path) -> None:
    """By the bytes of a point, and each step takes time."""
    small, large = checkpoint.main(["--points", "1000,2000", "--dimension", "3", "--rounds", "1"])
    assert large["bytes"] - small["bytes"] == pytest.approx(1000 * (3 * 4 + 1 + 8), rel=0.05)
    steps = (*checkpoint.STEPS, "save", "load")
    assert all(row[f"{step}_s"] > 0 for row in (small, large) for step in steps)


def test_rates_of_a_stream_are_beside_those_of_sgd() -> None:
    """A median with its interval for each contender and part."""
    (row,) = reduce_rate.main(["--dimensions", "3", "--memory", "200", "--points", "9000", "--rounds", "1"])
    parts = {f"{structure} {part}" for structure in ("chain", "tree") for part in ("first", "whole", "late")}
    assert row["rates"].keys() == parts | {"sgd"}
    assert all(0 < least <= median <= most for median, least, most in row["rates"].values())


@pytest.mark.long
def test_solvers_find_the_same_optimum(data: Sequence[str], tmp_path: Path) -> None:
    """Of a small case; a peer that was measured is not measured again, one that is added is."""
    given = [*data, "--C", "1", "--kernel", "linear", "--weighted", "--rounds", "2", "--json", str(tmp_path / "kept")]
    first = solver.main([*given, "--peers", "svc"])
    both = solver.main([*given, "--peers", "svc,liblinear"])
    assert next(iter(first.items())) in both.items()
    assert len(both) == 2
    for row in both.values():
        assert row["peer_objective"] == pytest.approx(row["objective"], rel=1e-2)
        assert row["ratio"] > 0.0


def test_strangers_do_not_make_a_bounded_stream_worse_than_a_reservoir() -> None:
    """Tails and strangers, with a reservoir of as many points."""
    small = ["--rows", "8000", "--test-rows", "20000", "--memory", "2000", "--rounds", "2"]
    rows = tails.main(["--sets", "cauchy,one-far,ten-equal-first", *small])
    for trials in rows.values():
        assert tails.mean(trials, "bounded", "accuracy") > tails.mean(trials, "reservoir", "accuracy") - 0.002
        if trials[0]["strangers"]:
            assert tails.mean(trials, "bounded", "auc") > tails.mean(trials, "unbounded", "auc") + 0.1
    with pytest.raises(SystemExit):
        tails.main(["--sets", "elec2"])


def _rows(values: Sequence[float], name: str = "a", rows: int = 10_000) -> list[dict[str, Any]]:
    return [{"set": name, "rows": rows, "accuracy": value} for value in values]


def test_a_build_is_worse_by_the_mean_or_by_one_set_beyond_chance() -> None:
    """A set with few held-out rows counts in the mean only; no difference is not worse."""
    before = _rows([0.9, 0.91, 0.92])
    assert houses.verdict(before, before, "accuracy")[2]
    assert not houses.verdict(before, _rows([0.899, 0.909, 0.919]), "accuracy")[2]
    worse, better = _rows([0.89, 0.90, 0.91], "b"), _rows([0.93, 0.94, 0.95])
    both = before + _rows([0.9, 0.91, 0.92], "b")
    lines, mean, fine = houses.verdict(both, better + worse, "accuracy")
    assert (round(mean, 3), fine) == (0.01, False)
    assert "WORSE" in lines[1]
    few = [{**row, "rows": 100} for row in better + worse]
    assert houses.verdict(both, few, "accuracy")[2]


@pytest.mark.parametrize("case", [pytest.param(name, marks=pytest.mark.long) for name in houses.CASES])
def test_every_case_of_houses_is_learned(case: str, tmp_path: Path) -> None:
    """Better than chance on held-out rows, and the same again."""
    points = gaussian(1_200)
    np.savez(tmp_path / "elec2.npz", X=points.X, y=points.y)
    name = "four" if case == "labels" else "elec2"
    found = houses.measure(case, name, 0, tmp_path, 1_200)
    assert found["accuracy"] > (0.4 if case == "labels" else 0.6)
    assert found == houses.measure(case, name, 0, tmp_path, 1_200)


# --------------------------------------------------------------------------------------------------- on a real broker


@pytest.mark.long
def test_every_format_comes_from_topic_to_model(
    real_broker: TestBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As few points as end with a leaf: each format has all of them in its last version, and a line of the table."""
    monkeypatch.setattr(ingest, "LENGTH", {})
    n = ingest.whole_points(tuple(ingest.FORMATS), (1,))
    cases = ingest.cases_of(tuple(ingest.FORMATS), (3,), (1,))
    ingest.fill(real_broker.connection, n, cases)
    rows = []
    for run, (format_, dimension, _) in enumerate(cases):
        lap = ingest.train(real_broker.connection, format_, n, dimension, 1, run % 2, run)
        assert lap["seen"] == n
        assert lap["versions"] >= 1
        rows.append(ingest.row(ingest.OURS[run % 2], format_, 3, 1, [lap | {"points": n}]))
    told = list(ingest.lines(rows, {3: ingest.decoding(3, 1)}, 0.0))
    assert [line.split()[1] for line in told[-len(rows) :]] == list(ingest.FORMATS)
    assert "Traceback" not in capfd.readouterr().err


def test_ratios_are_to_the_same_topic() -> None:
    """Speeds, and processor times, are compared with the SGD loop's of the same format, features and partitions."""
    lap = {"points": 100_000, "learned_s": 1.0, "loop_s": 1.0, "versions": 8, "longest_turn_s": 0.3}
    slow = lap | {"wall_s": 9.0, "cpu_s": 9.0}
    rows = [
        ingest.row("streamsvm", "json", 8, 16, [lap | {"wall_s": 1.0, "cpu_s": 0.5}]),
        ingest.row("sgd", "json", 8, 16, [lap | {"wall_s": 3.0, "cpu_s": 2.0}]),
        *(ingest.row("sgd", *other, [slow]) for other in (("json", 24, 16), ("json", 8, 1), ("avro", 8, 16))),
    ]
    assert rows[0]["longest_turn_s"] == 0.3
    ours = next(line for line in ingest.lines(rows, {8: {}, 24: {}}, 0.0) if line.startswith("streamsvm "))
    assert " 3.00 " in ours
    assert " 4.00 " in ours


@pytest.mark.long
def test_workers_learn_the_bytes_of_one_process(real_broker: TestBroker, capfd: pytest.CaptureFixture[str]) -> None:
    """Each process's time is told."""
    n = scale.points_of(9_000, "json", 2)
    scale.fill(real_broker.connection, "json", n, 3, 2)
    runs = {workers: scale.run(real_broker.connection, "json", n, 3, 2, workers, workers) for workers in (0, 2)}
    assert runs[2]["digest"] == runs[0]["digest"]
    rows = [
        scale.row(workers, 2, "json", n, 3, [run], 100 * sum(run["published_of"].values()))
        for workers, run in runs.items()
    ]
    assert rows[1]["published_share"] == 0.01
    assert [cpu > 0.0 for cpu in rows[1]["worker_cpu_us_a_point"]] == [True, True]
    assert rows[0]["slowest_worker_rate"] is None
    assert len(list(scale.lines([row | {"bytes_equal": True, "times_one": 1.0} for row in rows], 0.0))) == 3 + len(rows)
    assert "Traceback" not in capfd.readouterr().err


def digest_of(config: ModelConfig, n: int, spoil: bool = False) -> str:
    """Return the digest of a small stream, its last weight moved by the least step if told so."""
    learner = Learner(config, {0: Position(0)}, 1 << 30)
    learner.learn(rows_of(gaussian(n)))
    state = learner.state()
    if spoil:
        own = state.partitions[0]
        weight = np.nextafter(own.leaf.weight, 9.0)
        state = replace(state, partitions={0: replace(own, leaf=own.leaf.reweighted(weight))})
    return scale.digest_of(state, config)


def test_the_digest_of_what_was_learned_knows_the_last_bit() -> None:
    """Equal streams have one digest; one more row, or a weight moved by the least step, has another."""
    config = small_config()
    assert digest_of(config, 101) == digest_of(config, 101)
    assert digest_of(config, 101) != digest_of(config, 102)
    assert digest_of(config, 101) != digest_of(config, 101, spoil=True)


def test_streams_end_with_whole_records() -> None:
    """As many in each partition."""
    assert scale.points_of(100_000, "arrow", 8) == 3 * 4_096 * 8
    assert scale.points_of(100, "json", 8) == 96


@pytest.mark.long
def test_rates_of_a_scorer_are_measured(real_broker: TestBroker) -> None:
    """This tree beside itself: each has a rate, and the ratio is that of the two."""
    broker = SimpleNamespace(bootstrap_servers=real_broker.connection.servers, stop=lambda: None)
    few = ["--partitions", "2", "--batches", "200", "--points", "1000", "--rounds", "1"]
    this, other = scorer.main([*few, "--other", str(houses.ROOT)], start=lambda: broker)
    assert [(row["tree"], row["partitions"], row["batch_records"]) for row in (this, other)] == [
        ("this", 2, 200),
        ("other", 2, 200),
    ]
    assert other["ratio"][0] == this["points_per_s"] / other["points_per_s"] > 0
