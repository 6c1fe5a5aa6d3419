"""Small streams that are made to break bounds, and their objective in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, LinearSVC

from streamsvm.certificate import Certificate, Certifier
from streamsvm.choices import Loss
from streamsvm.model import LEAST_KEPT, Fit, LinearMachine, Model, Scaler
from streamsvm.points import Points

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A stream of one or more partitions, what is minimised over it, and a machine to be judged."""

    parts: Sequence[Points]
    scaler: Scaler
    C: float
    class_weight: tuple[float, float]
    machine: LinearMachine
    batches: int
    loss: Loss = "hinge"

    @property
    def whole(self) -> Points:
        """All rows."""
        return Points.union(self.parts)

    def certifier(self, keep: int = LEAST_KEPT) -> Looking:
        """Return what certifies the machine."""
        fit = Fit(
            C=self.C,
            gamma=None,
            points=1,
            weight=1.0,
            support_vectors=0,
            objective=0.0,
            dual_objective=None,
            kkt_gap=None,
            iterations=0,
            converged=True,
            class_weight=self.class_weight,
        )
        model, dtype = Model(self.scaler, self.machine), self.parts[0].X.dtype
        return Looking(model, fit, range(len(self.parts)), dtype, keep, self.loss)

    def read(self, certifier: Certifier) -> Certificate:
        """Let a certifier see all rows once, and return what they prove."""
        for partition, part in enumerate(self.parts):
            for rows in np.array_split(np.arange(len(part)), self.batches):
                certifier.look(partition, part.take(rows))
        return certifier.certificate()

    def proven(self, keep: int = LEAST_KEPT) -> Certificate:
        """Return what one read proves of the machine."""
        return self.read(self.certifier(keep))

    def exactly(self, machine: LinearMachine) -> Fraction:
        """Return a machine's objective over all rows in real arithmetic."""
        scaler, points = self.scaler, self.whole
        w, b = [Fraction(v) for v in machine.coefficients], Fraction(machine.intercept)
        mean, scale = ([Fraction(v) for v in values] for values in (scaler.mean, scaler.scale))
        total = sum((v * v for v in w), Fraction()) / 2
        for x, sign, weight in zip(points.X.tolist(), points.y.tolist(), points.weight.tolist(), strict=True):
            decision = b + sum(
                (v * (Fraction(value) - m) / s for v, value, m, s in zip(w, x, mean, scale, strict=True)), Fraction()
            )
            factor = Fraction(self.class_weight[sign > 0])
            slack = max(Fraction(), 1 - sign * decision)
            total += Fraction(self.C) * factor * Fraction(weight) * (slack if self.loss == "hinge" else slack * slack)
        return total

    def by_sklearn(self) -> LinearMachine:
        """Return the machine that LIBSVM, or LIBLINEAR, finds best, near enough, within its bound on iterations."""
        points, scaler = self.whole, self.scaler
        weight = self.C * points.class_weighted(self.class_weight).weight
        if len(set(points.y.tolist())) < 2:
            return LinearMachine(np.zeros(points.dimension), float(points.y[0]))
        svc = SVC(kernel="linear", C=1.0, tol=1e-10, max_iter=20_000, cache_size=20)
        if self.loss == "squared_hinge":  # its penalty of the intercept is a 10^8th
            svc = LinearSVC(dual=False, tol=1e-10, intercept_scaling=1e4)
        svc.fit(scaler.transform(points.X), points.y, sample_weight=weight)
        return LinearMachine(svc.coef_[0].copy(), float(svc.intercept_[0]))


def case(number: int, loss: Loss = "hinge") -> Case:
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
    C, class_weight = float(10.0 ** random.uniform(-4, 2)), (float(weights[0]), float(weights[1]))
    borders = np.sort(random.integers(0, n + 1, int(random.integers(0, 4))))
    parts = [points.take(rows) for rows in np.split(np.arange(n), borders)]
    machine = LinearMachine(random.standard_normal(d) * 10.0 ** random.uniform(-3, 2), float(random.normal()))
    made = Case(parts, scaler, C, class_weight, machine, int(random.integers(1, 5)), loss)
    if random.random() < 0.6:  # mostly one that is nearly the best
        near = made.by_sklearn()
        made = replace(made, machine=LinearMachine(near.coefficients * (1 + 1e-4), near.intercept))
    return made


def wild(number: int, loss: Loss = "hinge") -> Case:
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
    C, class_weight = float(10.0 ** random.choice([-20, -4, 0, 2])), (float(weights[0]), float(weights[1]))
    borders = np.sort(random.integers(0, n + 1, int(random.choice([0, 1, 4, n + 6]))))
    w = random.standard_normal(d) * random.choice([1.0, 1e8, 1e20]) / (np.abs(scaler.transform(X)).max(axis=0) + 1e-300)
    if d > 1 and random.random() < 0.3:
        w[-1] = -w[0] * (1.0 + random.choice([0.0, 1e-10]))
    machine = LinearMachine(np.clip(w, -1e150, 1e150), float(random.choice([0.0, 1.0, random.normal(), 1e10])))
    parts = [points.take(rows) for rows in np.split(np.arange(n), borders)]
    return Case(parts, scaler, C, class_weight, machine, int(random.integers(1, 5)), loss)


class Looking(Certifier):
    """A certifier that shows its machines."""

    def machines(self) -> list[LinearMachine]:
        """Return those under which this read looks at the rows."""
        return [survey.machine for surveys in self._surveys for survey in list(surveys.values())[:1]]

    def behind_the_bound(self) -> LinearMachine:
        """Return the machine whose optimality proves the lower bound of the last read."""
        return self._others[-1]


def violations(made: Case, reads: int = 1) -> list[str]:
    """Compare what so many reads prove with exact objectives.

    These are the objectives of the machine, of w = 0, of all machines that were looked under or are behind a bound,
    and, of one read, of scikit-learn's.
    """
    certifier, wrong, own = made.certifier(), list[str](), made.exactly(made.machine)
    others = [LinearMachine(np.zeros(made.whole.dimension), b) for b in (-1.0, 0.0, 1.0)]
    if reads == 1:
        others.append(made.by_sklearn())
    known, looked = [made.exactly(machine) for machine in others], list[Fraction]()
    for read in range(reads):
        looked += [made.exactly(machine) for machine in certifier.machines() if finite(machine)]
        found, behind = made.read(certifier), certifier.behind_the_bound()
        if finite(behind):
            known.append(made.exactly(behind))
        wrong += [f"read {read}: {what}" for what in contradictions(found, own, looked, known)]
        if certifier.done:
            break
    return wrong


def finite(machine: LinearMachine) -> bool:
    """Return whether a machine has an objective in exact fractions."""
    return bool(np.isfinite([*machine.coefficients, machine.intercept]).all())


def contradictions(
    found: Certificate, own: Fraction, looked: Sequence[Fraction], known: Sequence[Fraction]
) -> list[str]:
    """Compare a certificate with exact objectives: of the model, of machines looked under, and of any others."""
    wrong = [] if found.objective >= own else [f"the objective is {float(own)}, the upper bound {found.objective}"]
    if found.reached < min(looked):
        wrong.append(f"no machine was as good as {found.reached}")
    if found.bound > min(*looked, *known):
        wrong.append(f"an objective, {float(min(*looked, *known))}, is below {found.bound}")
    return wrong
