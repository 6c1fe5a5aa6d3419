"""Small streams that are made to break bounds, and their objective in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, LinearSVC

from streamsvm.certificate import Certificate, Certifier
from streamsvm.choices import Loss
from streamsvm.model import LEAST_KEPT, AdditiveMachine, Fit, LinearMachine, Model, Scaler, Surface
from streamsvm.points import Points

Float = NDArray[np.float64]
Kernel = Literal["linear", "additive"]


@dataclass(frozen=True)
class Case:
    """A stream of one or more partitions, what is minimised over it, and a machine to be judged."""

    parts: Sequence[Points]
    scaler: Scaler
    C: float
    class_weight: tuple[float, float]
    machine: LinearMachine | AdditiveMachine
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

    def columns(self) -> Float:
        """Return the rows as a machine of this kernel is linear over them, near enough."""
        Z = self.scaler.transform(self.whole.X)
        if isinstance(self.machine, LinearMachine):
            return Z
        found = [np.zeros((len(Z), 0))]
        for z, knots in zip(Z.T, self.machine.knots, strict=True):
            if len(knots):
                found.append(np.delete(hats(z, knots), np.abs(knots).argmin(), axis=1))
        for one in self.machine.surfaces:
            rows, columns = hats(Z[:, one.first], one.rows), hats(Z[:, one.second], one.columns)
            found.append((rows[:, :, None] * columns[:, None, :]).reshape(len(Z), -1))
        made = np.concatenate(found, axis=1)
        return made if made.shape[1] else np.zeros((len(Z), 1))

    def exactly(self, machine: LinearMachine | AdditiveMachine) -> Fraction:
        """Return the objective, in real arithmetic, of a machine or of one over the columns of its map."""
        scaler, points = self.scaler, self.whole
        if isinstance(self.machine, AdditiveMachine) and isinstance(machine, LinearMachine):
            machine = over_knots(self.machine, machine)
        w = exact(machine.coefficients if isinstance(machine, LinearMachine) else numbers_of(machine))
        mean, scale = exact(scaler.mean), exact(scaler.scale)
        total = sum((v * v for v in w), Fraction()) / 2
        for x, sign, weight in zip(points.X.tolist(), points.y.tolist(), points.weight.tolist(), strict=True):
            z = [(Fraction(value) - m) / s for value, m, s in zip(x, mean, scale, strict=True)]
            if isinstance(machine, LinearMachine):
                decision = sum((v * at for v, at in zip(w, z, strict=True)), Fraction(machine.intercept))
            else:
                decision = exact_score(machine, z)
            factor = Fraction(self.class_weight[sign > 0])
            slack = max(Fraction(), 1 - sign * decision)
            total += Fraction(self.C) * factor * Fraction(weight) * (slack if self.loss == "hinge" else slack * slack)
        return total

    def by_sklearn(self) -> LinearMachine:
        """Return the machine over columns that LIBSVM or LIBLINEAR finds best, near enough, in bounded iterations."""
        points, columns = self.whole, self.columns()
        weight = self.C * points.class_weighted(self.class_weight).weight
        if len(set(points.y.tolist())) < 2:
            return LinearMachine(np.zeros(columns.shape[1]), float(points.y[0]))
        svc = SVC(kernel="linear", C=1.0, tol=1e-10, max_iter=20_000, cache_size=20)
        if self.loss == "squared_hinge":  # its penalty of the intercept is a 10^8th
            svc = LinearSVC(dual=False, tol=1e-10, intercept_scaling=1e4)
        svc.fit(columns, points.y, sample_weight=weight)
        return LinearMachine(svc.coef_[0].copy(), float(svc.intercept_[0]))


def hats(z: Float, knots: Float) -> Float:
    """Return the hat functions of values, a column for each knot."""
    return np.array([np.interp(z, knots, one) for one in np.eye(len(knots))]).T


def over_knots(like: AdditiveMachine, own: LinearMachine) -> AdditiveMachine:
    """Return a machine over `Case.columns` as one of the knots and pairs of another."""
    rest = iter(own.coefficients.tolist())
    values = tuple(
        np.array([0.0 if knot == np.abs(knots).argmin() else next(rest) for knot in range(len(knots))])
        for knots in like.knots
    )
    surfaces = tuple(
        one._replace(values=np.array([[next(rest) for _ in one.columns] for _ in one.rows])) for one in like.surfaces
    )
    return AdditiveMachine(like.knots, values, surfaces, own.intercept)


def numbers_of(machine: AdditiveMachine) -> Float:
    """Return all values at knots."""
    return np.concatenate([*machine.values, *(one.values.ravel() for one in machine.surfaces)])


def exact(values: Float) -> list[Fraction]:
    """Return numbers as fractions."""
    return [Fraction(value) for value in values.tolist()]


def exact_score(machine: AdditiveMachine, z: Sequence[Fraction]) -> Fraction:
    """Return the decision value of a scaled row in real arithmetic."""
    found = Fraction(machine.intercept)
    for at, knots, values in zip(z, machine.knots, machine.values, strict=True):
        if len(knots):
            found += exact_line(at, exact(knots), exact(values))
    for one in machine.surfaces:
        lines = [exact_line(z[one.second], exact(one.columns), exact(row)) for row in one.values]
        found += exact_line(z[one.first], exact(one.rows), lines)
    return found


def exact_line(at: Fraction, knots: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    """Return what a function that is linear between knots, and flat beyond them, is at a place."""
    if at <= knots[0]:
        return values[0]
    for low, high, left, right in zip(knots, knots[1:], values, values[1:], strict=False):
        if at <= high:
            return left + (right - left) * (at - low) / (high - low)
    return values[-1]


def curved(made: Case, random: np.random.Generator) -> Case:
    """Return a stream with an additive machine: knots at rows, beyond all, a few roundings apart; far and near ones."""
    Z = made.scaler.transform(made.whole.X)

    def some(z: Float, least: int, most: int) -> Float:
        count = int(random.integers(least, most + 1))
        knots = random.choice(z, count)
        match int(random.integers(4)):
            case 0:
                knots = knots + random.standard_normal(count) * 10.0 ** random.uniform(-16, 1)
            case 1:
                knots = knots[0] * (1.0 + np.arange(count) * 2.0 ** -random.integers(1, 53))
        knots = np.unique(knots)
        return knots if len(knots) > 1 else np.array([knots[0], knots[0] + max(1.0, abs(knots[0]))])

    d = Z.shape[1]
    knots = tuple(some(z, 2, 7) if random.random() < 0.85 else np.empty(0) for z in Z.T)
    coarse = tuple(some(z, 2, 4) for z in Z.T)
    pairs = tuple(pair for pair in combinations(range(d), 2) if random.random() < 0.4)
    empty = AdditiveMachine(
        knots,
        tuple(map(np.zeros_like, knots)),
        tuple(Surface(i, j, coarse[i], coarse[j], np.zeros((len(coarse[i]), len(coarse[j])))) for i, j in pairs),
        0.0,
    )
    made = replace(made, machine=empty)
    size = made.columns().shape[1]
    own = LinearMachine(random.standard_normal(size) * 10.0 ** random.uniform(-3, 2), float(random.normal()))
    if np.isfinite(Z).all() and random.random() < 0.6:
        near = made.by_sklearn()
        own = LinearMachine(near.coefficients * (1 + 1e-4), near.intercept)
    return replace(made, machine=over_knots(empty, own))


def case(number: int, loss: Loss = "hinge", kernel: Kernel = "linear") -> Case:
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
    if kernel == "additive":
        return curved(made, random)
    if random.random() < 0.6:  # mostly one that is nearly the best
        near = made.by_sklearn()
        made = replace(made, machine=LinearMachine(near.coefficients * (1 + 1e-4), near.intercept))
    return made


def wild(number: int, loss: Loss = "hinge", kernel: Kernel = "linear") -> Case:
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
    made = Case(parts, scaler, C, class_weight, machine, int(random.integers(1, 5)), loss)
    return curved(made, random) if kernel == "additive" else made


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
    others = [LinearMachine(np.zeros(made.columns().shape[1]), b) for b in (-1.0, 0.0, 1.0)]
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
