"""Small streams that are made to break bounds, and their objective in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from streamsvm.certificate.bounds import Bounds, Objective, bounds_of
from streamsvm.certificate.certifying import Certifier
from streamsvm.certificate.survey import Survey, joined
from streamsvm.model import LEAST_KEPT, Fit, LinearMachine, Model, Scaler
from streamsvm.points import Points

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A stream of one or more partitions, what is minimised over it, and a machine to be judged."""

    parts: Sequence[Points]
    objective: Objective
    machine: LinearMachine
    batches: int

    @property
    def whole(self) -> Points:
        """All rows."""
        return Points.union(self.parts)

    def bounds(self, keep: int = LEAST_KEPT) -> Bounds:
        """Return what is proven of the machine."""
        scaler, surveyed = self.objective.scaler, []
        for part in self.parts:
            survey = Survey(scaler, self.machine, part.X.dtype, keep)
            for rows in np.array_split(np.arange(len(part)), self.batches):
                survey.add(part.take(rows))
            surveyed.append(survey.surveyed())
        return bounds_of(joined(surveyed, scaler, keep), self.objective, self.machine)

    def exactly(self, machine: LinearMachine) -> Fraction:
        """Return a machine's objective over all rows in real arithmetic."""
        scaler, points = self.objective.scaler, self.whole
        w, b = [Fraction(v) for v in machine.coefficients], Fraction(machine.intercept)
        mean, scale = ([Fraction(v) for v in values] for values in (scaler.mean, scaler.scale))
        total = sum((v * v for v in w), Fraction()) / 2
        for x, sign, weight in zip(points.X.tolist(), points.y.tolist(), points.weight.tolist(), strict=True):
            decision = b + sum(
                (v * (Fraction(value) - m) / s for v, value, m, s in zip(w, x, mean, scale, strict=True)), Fraction()
            )
            factor = Fraction(self.objective.class_weight[sign > 0])
            total += Fraction(self.objective.C) * factor * Fraction(weight) * max(Fraction(), 1 - sign * decision)
        return total

    def by_libsvm(self) -> LinearMachine:
        """Return the machine that LIBSVM finds best, near enough, within its bound on iterations."""
        points, scaler = self.whole, self.objective.scaler
        weight = self.objective.C * points.class_weighted(self.objective.class_weight).weight
        if len(set(points.y.tolist())) < 2:
            return LinearMachine(np.zeros(points.dimension), float(points.y[0]))
        svc = SVC(kernel="linear", C=1.0, tol=1e-10, max_iter=20_000, cache_size=20)
        svc.fit(scaler.transform(points.X), points.y, sample_weight=weight)
        return LinearMachine(svc.coef_[0].copy(), float(svc.intercept_[0]))


def case(number: int) -> Case:
    """Return a hostile stream: collinear columns, offsets, weights of 1 to 10^6, orders, sizes, far machines."""
    random = np.random.default_rng([7, number])
    n, d = int(random.choice([1, 2, 3, 10, 70, 150, 400])), int(random.integers(1, 5))
    X = random.standard_normal((n, d)) * 10.0 ** random.uniform(-3, 3, d)
    if random.random() < 0.5:
        X += random.choice([1.0, 1e3, 1e6], d)
    if d > 1 and random.random() < 0.5:
        X[:, -1] = X[:, 0] * random.choice([1.0, -1.0, 1.0 + 1e-9])
    if random.random() < 0.2:
        X = np.round(X)
    dtype = np.float32 if random.random() < 0.3 else np.float64
    X = np.ascontiguousarray(X, dtype=dtype)
    direction = random.standard_normal(d)
    spread = X.std(axis=0, dtype=np.float64)
    Z = (X - X.mean(axis=0, dtype=np.float64)) / np.where(spread > 0, spread, 1.0)
    noise = random.choice([0.0, 0.3, 3.0])
    y = np.where(Z @ direction + noise * random.standard_normal(n) > random.normal(), 1, -1).astype(np.int8)
    weight = np.ones(n) if random.random() < 0.5 else 10.0 ** random.uniform(0, 6, n)
    order = {0: np.arange(n), 1: np.argsort(y, kind="stable"), 2: np.argsort(X[:, 0], kind="stable")}
    points = Points(X, y, weight).take(order[int(random.integers(3))])
    scaler = Scaler.identity(d)
    if random.random() < 0.7 or np.abs(X).max() > 1e4:
        scaler = Scaler.standard(X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64))
    weights = (1.0, 1.0) if random.random() < 0.6 else tuple(10.0 ** random.uniform(-2, 2, 2))
    objective = Objective(scaler, float(10.0 ** random.uniform(-4, 2)), (float(weights[0]), float(weights[1])))
    borders = np.sort(random.integers(0, n + 1, int(random.integers(0, 4))))
    parts = [points.take(rows) for rows in np.split(np.arange(n), borders)]
    machine = LinearMachine(random.standard_normal(d) * 10.0 ** random.uniform(-3, 2), float(random.normal()))
    made = Case(parts, objective, machine, int(random.integers(1, 5)))
    if random.random() < 0.6:  # mostly one that is nearly the best
        near = made.by_libsvm()
        made = Case(parts, objective, LinearMachine(near.coefficients * (1 + 1e-4), near.intercept), made.batches)
    return made


def wild(number: int) -> Case:
    """Return a stream of magnitudes that no other test has: what the numbers that a trainer accepts can come to.

    Features from subnormal ones to 1e99, offsets of 1e16 that no scaler takes away, rows of zeros, weights of 1e-15 to
    1e15, more partitions than rows, margins that cancel, machines of up to 1e150.
    """
    random = np.random.default_rng([11, number])
    n, d = int(random.choice([1, 2, 3, 10, 70, 130])), int(random.integers(1, 5))
    X = random.standard_normal((n, d)) * 10.0 ** random.choice([0, 0, -8, 8, -150, -318, 40, 99], d)
    if random.random() < 0.4:
        X += random.choice([0.0, 1e8, 1e16], d)
    if d > 1 and random.random() < 0.5:
        X[:, -1] = X[:, 0] * random.choice([1.0, -1.0, 1.0 + 2e-16])
    if random.random() < 0.4:
        X[random.random(n) < random.choice([0.1, 0.9, 1.0])] = 0.0
    X = np.clip(X, -1e100, 1e100)
    far = np.abs(X).max(axis=0) + 1e-300
    signs = np.where(random.standard_normal(n) + X @ (1.0 / far) > 0, 1, -1).astype(np.int8)
    weight = [np.ones(n), 10.0 ** random.uniform(-15, 15, n), random.choice([1e-15, 1e15], n)][int(random.integers(3))]
    scaler = Scaler.identity(d)
    if random.random() < 0.5:
        scaler = Scaler.standard(X.mean(axis=0), X.var(axis=0))
    elif random.random() < 0.3:
        scaler = Scaler(10.0 ** random.uniform(-100, 100, d), 10.0 ** random.uniform(-100, 100, d))
    if random.random() < 0.25:
        X = np.clip(X, -3e38, 3e38).astype(np.float32)
    points = Points(X, signs, weight)
    if random.random() < 0.5:
        points = points.take(np.argsort(X[:, 0], kind="stable"))
    weights = 10.0 ** random.uniform(-6, 6, 2)
    objective = Objective(scaler, float(10.0 ** random.choice([-20, -4, 0, 2])), (float(weights[0]), float(weights[1])))
    borders = np.sort(random.integers(0, n + 1, int(random.choice([0, 1, 4, n + 6]))))
    w = random.standard_normal(d) * random.choice([1.0, 1e8, 1e20]) / (np.abs(scaler.transform(X)).max(axis=0) + 1e-300)
    if d > 1 and random.random() < 0.3:
        w[-1] = -w[0] * (1.0 + random.choice([0.0, 1e-10]))
    machine = LinearMachine(np.clip(w, -1e150, 1e150), float(random.choice([0.0, 1.0, random.normal(), 1e10])))
    parts = [points.take(rows) for rows in np.split(np.arange(n), borders)]
    return Case(parts, objective, machine, int(random.integers(1, 5)))


class Looking(Certifier):
    """A certifier that tells under which machines it looks."""

    def machines(self) -> list[LinearMachine]:
        """Return those of this read."""
        return [machine for machine, _ in self._looks]


def violations_of_reads(made: Case, reads: int) -> list[str]:
    """Compare what several reads prove with exact objectives: of all machines looked under, and of those of w = 0."""
    objective, wrong, d = made.objective, list[str](), made.whole.dimension
    fit = Fit(
        C=objective.C,
        gamma=None,
        points=1,
        weight=1.0,
        support_vectors=0,
        objective=0.0,
        dual_objective=None,
        kkt_gap=None,
        iterations=0,
        converged=True,
        class_weight=objective.class_weight,
    )
    certifier = Looking(
        Model(objective.scaler, made.machine), fit, range(len(made.parts)), made.whole.X.dtype, LEAST_KEPT
    )
    machines, own = [LinearMachine(np.zeros(d), b) for b in (-1.0, 0.0, 1.0)], made.exactly(made.machine)
    looked: list[Fraction] = []
    for read in range(reads):
        for partition, part in enumerate(made.parts):
            for rows in np.array_split(np.arange(len(part)), made.batches):
                certifier.look(partition, part.take(rows))
        looked += [made.exactly(one) for one in certifier.machines() if np.isfinite(one.coefficients).all()]
        found = certifier.certificate()
        if found.objective < own:
            wrong.append(f"the objective is {float(own)}, the upper bound {found.objective}")
        if found.reached < min(looked):
            wrong.append(f"read {read}: no machine was as good as {found.reached}")
        least = min([*looked, *map(made.exactly, machines)])
        if found.bound > least:
            wrong.append(f"read {read}: an objective, {float(least)}, is below {found.bound}")
        if certifier.done:
            break
    return wrong


def violations(made: Case, found: Bounds) -> list[str]:
    """Compare bounds with exact objectives: of the machine, of LIBSVM's, and of the one behind the lower bound."""
    own = made.exactly(made.machine)
    wrong = [] if found.upper >= own else [f"the objective is {float(own)}, the upper bound {found.upper}"]
    for name, machine in {"its own": made.machine, "LIBSVM's": made.by_libsvm(), "the best": found.best}.items():
        if found.lower > made.exactly(machine):
            wrong.append(f"{name} objective is below {found.lower}")
    return wrong
