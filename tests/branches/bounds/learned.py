"""Small hostile streams that the learner goes through, and the bounds of what it made of them against exact sums."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from streamsvm.branches.bounds.certificate.bounds import Objective
from streamsvm.branches.bounds.certified import Certified
from streamsvm.branches.bounds.proving import certified
from streamsvm.checkpoint import format as codec
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Made, make
from streamsvm.model.machine import LinearMachine
from streamsvm.points import Points, Position
from tests.branches.bounds.certificate.hostile import Case
from tests.sizes import sized
from tests.streams import rows_of, snapshot_of

SIZES = (1, 3, 20, 60, 60, 150, 150, 400, 400, 900)


@dataclass(frozen=True)
class Stream:
    """Rows of some partitions, how they are learned, and where the learner is restarted."""

    parts: list[Points]
    config: ModelConfig
    batch: int
    restarts: tuple[int, ...]


def stream(number: int) -> Stream:
    """Return a stream: collinear columns, offsets of 1e6, weights of 1 to 1e6, sizes, orders and structures."""
    random = np.random.default_rng([13, number])
    n, d = int(random.choice(SIZES)), int(random.integers(1, 6))
    X = random.standard_normal((n, d)) * 10.0 ** random.uniform(-3, 3, d)
    if random.random() < 0.4:
        X += random.choice([1.0, 1e3, 1e6], d)
    if d > 1 and random.random() < 0.4:
        X[:, -1] = X[:, 0] * random.choice([1.0, -1.0, 1.0 + 1e-9])
    if random.random() < 0.2:
        X = np.round(X)
    dtype: Literal["float32", "float64"] = "float32" if random.random() < 0.5 else "float64"
    X = np.ascontiguousarray(X, dtype=dtype)
    spread = X.std(axis=0, dtype=np.float64)
    Z = (X - X.mean(axis=0, dtype=np.float64)) / np.where(spread > 0, spread, 1.0)
    noise = random.choice([0.0, 0.3, 3.0])
    y = np.where(Z @ random.standard_normal(d) + noise * random.standard_normal(n) > random.normal(), 1, -1)
    weight = np.ones(n) if random.random() < 0.5 else 10.0 ** random.uniform(0, 6, n)
    order = [random.permutation(n), np.argsort(y, kind="stable"), np.argsort(X[:, 0], kind="stable")]
    points = Points(X, y.astype(np.int8), weight).take(order[int(random.choice([0, 0, 0, 1, 2]))])
    points = _with_outliers(points, number)
    partitions = int(random.integers(1, 4))
    return Stream(
        parts=[points.take(slice(part, None, partitions)) for part in range(partitions)],
        config=ModelConfig(
            points=PointsConfig(dimension=d, dtype=dtype),
            coreset=sized(**_coreset(random)),
            svm=SvmConfig.model_validate(_svm(random)),
            seed=number,
        ),
        batch=int(random.choice([1, 7, 64, 1_000])),
        restarts=tuple(int(at) for at in random.integers(0, n // partitions + 1, int(random.integers(0, 3)))),
    )


def _with_outliers(points: Points, number: int) -> Points:
    """Return half of all streams with a few values, or weights, far beyond the others; drawn beside all else."""
    random = np.random.default_rng([19, number])
    X, weight = points.X.copy(), points.weight.copy()
    if random.random() < 0.5:
        for row in random.integers(0, len(points), int(random.integers(1, 4 + len(points) // 100))):
            if random.random() < 0.7:
                size, feature = 10.0 ** random.choice([2, 2, 3, 6, 12, 30]), random.integers(points.dimension)
                X[row, feature] = np.clip(
                    float(X[row, feature]) * float(random.choice([-1.0, 1.0]) * size), -3e38, 3e38
                )
            if random.random() < 0.3:
                weight[row] *= 10.0 ** random.choice([2, 4, 8])
    return Points(X, points.y, weight)


def _coreset(random: np.random.Generator) -> dict[str, Any]:
    structure = str(random.choice(["chain", "tree", "counter"]))
    bucket = int(random.choice([4, 12, 40, 300]))
    made: dict[str, Any] = {
        "structure": "tree" if structure == "counter" else structure,
        "leaf_rows": int(random.choice([2, 9, 30, 60])),
        "bucket_points": bucket,
        "train_points": int(random.choice([10, 100, 10_000])),
        "screening": float(random.choice([0.0, 0.25, 1.0])),
        "reducer": str(random.choice(["calibrated", "calibrated", "calibrated", "uniform", "sensitivity"])),
        "max_partitions": 4,
    }
    if structure == "tree" and made["reducer"] == "calibrated":
        made["buckets"] = int(random.integers(2, 5))
    if structure == "counter":
        made["buckets"] = None
    if random.random() < 0.5:
        made["max_leverage"] = None
    if random.random() < 0.2:
        made["clip_sd"] = 3.0
    return made


def _svm(random: np.random.Generator) -> dict[str, Any]:
    made: dict[str, Any] = {"tolerance": float(10.0 ** random.uniform(-6, -1))}
    made["C" if random.random() < 0.5 else "alpha"] = float(10.0 ** random.uniform(-4, 0))
    if random.random() < 0.3:
        made["class_weight"] = "balanced"
    return made


def learned(one: Stream) -> tuple[Made, Points]:
    """Return what is made of a stream, and its rows as they came."""
    base = dict.fromkeys(range(len(one.parts)), Position(0))
    learner = Learner(one.config, base, 1 << 40)
    done = 0
    longest = max(map(len, one.parts))
    while done < longest:
        end = min([at for at in (done + one.batch, longest, *one.restarts) if at > done])
        for partition, part in enumerate(one.parts):
            piece = rows_of(part, partition).slice(min(done, len(part)), min(end, len(part)))
            if len(piece):
                learner.learn(piece)
        done = end
        if done in one.restarts:
            content = codec.encode(snapshot_of(learner.state()))
            learner = Learner(one.config, base, 1 << 40)
            learner.restore(codec.decode(content).learner)
    return make(learner.cut(), one.config), Points.union(one.parts)


def bounds(made: Made, machine: LinearMachine) -> Certified:
    """Return what is proven of a machine over the totals that a version was made from."""
    assert made.cut.ledger is not None
    return certified(
        made.cut.ledger, made.trained.model.scaler, machine, made.trained.fit, made.cut.moments.count, None
    )


def violations(number: int) -> tuple[list[str], list[Certified]]:
    """Compare bounds of a stream with exact objectives: of its version, of LIBSVM's machine, and of others."""
    one = stream(number)
    made, rows = learned(one)
    if made.certified is None:
        return [f"stream {number}: no bounds"], []
    model, fit, random = made.trained.model, made.trained.fit, np.random.default_rng([17, number])
    assert isinstance(model.machine, LinearMachine)
    case = Case([rows], Objective(model.scaler, fit.C, (fit.class_weight[0], fit.class_weight[1])), model.machine, 1)
    own = model.machine
    machines = {"its own": own}
    with suppress(ValueError):  # of rows at 1e30 standard deviations LIBSVM has no finite machine
        machines["LIBSVM's"] = case.by_libsvm()
    for name, size in (("a near", 1e-3), ("a far", 1.0)):
        change = size * random.standard_normal(len(own.coefficients) + 1)
        machines[name] = LinearMachine(own.coefficients + change[:-1], own.intercept + float(change[-1]))
    exact: dict[str, Fraction] = {name: case.exactly(machine) for name, machine in machines.items()}
    wrong, found = [], []
    for name, machine in machines.items():
        proven = bounds(made, machine)
        assert proven.kind == "proven"
        found.append(proven)
        if Fraction(proven.upper) < exact[name]:
            wrong.append(f"stream {number}: {name} objective is {float(exact[name])}, the upper bound {proven.upper}")
        for other, value in exact.items():
            if Fraction(proven.lower) > value:
                wrong.append(f"stream {number}: {other} objective is {float(value)}, the lower bound {proven.lower}")
    rows_counted = made.certified.rows
    if rows_counted != len(rows):
        wrong.append(f"stream {number}: {rows_counted} rows of {len(rows)}")
    return wrong, found
