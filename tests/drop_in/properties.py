"""What changes an estimator's answer, and what does not: a table of properties and machines.

    python -m tests.drop_in.properties [--cases 20] [--machines STDASVC,...] [--properties translation,...] [--json]

Each cell draws so many cases (hypothesis), and says to how much a property holds: the largest difference that was seen
between two machines that have to be one. Or it says why the property does not hold, and by how much. A case is rows on
a grid of 1/1024, so that what is done to them (shifts up to 2^30, powers of two) is exact, and some of them are equal.

Two machines are compared by their decision values, less that of one row, because without a free support vector the
intercept is an interval; and by their objective, in which the intercept counts. Both may differ by what `tol` allows
and no more: a KKT gap of at most tol bounds the duality gap by G = tol times the sum of the boxes, so two solutions
have |w - v| <= 2 sqrt(2 G). A fit that warns of its gap is not compared. What the caller gave is compared with its copy
after every fit. Ends with status 1 if a cell does not hold and has no reason.

Kernels of LIBSVM alone are left out: their duals have several solutions.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from streamsvm import STDASVC, STDASVR, CoresetSVC, STDALinearSVC, STDALinearSVR, STDAOneClassSVM
from tests.drop_in.test_recheck import exact_gap

GRID: Final = 1024.0
ROUNDING: Final = 1e-8
"""Of decision values and objectives, relative: what float64 may add."""
HALF: Final = 2.0**-10
"""Of objectives, relative: what 16 bits add, in which `CoresetSVC` keeps the rows of RBF machines."""
SAME: Final = 1e-14
"""Of decision values of one machine, relative."""
FEW, MANY = (6, 60), (610, 700)
"""Rows: of small tables, which LIBSVM tries first, and of those that it is not asked for."""
POLY: Final = {"kernel": "poly", "degree": 3, "coef0": 1.0}
ORIGIN: Final = "a polynomial's values depend on the origin"
PENALISED: Final = "the intercept is penalised, and moves with X"
DROP_INS: Final = ("STDASVC", "STDASVR", "STDAOneClassSVM")
SAMPLED: Final = "what is sampled depends on the order, and leaves are full by rows"
REASONS: Final = {
    ("translation", "STDASVC poly"): ORIGIN,
    ("translation", "STDASVR poly"): ORIGIN,
    ("translation", "STDAOneClassSVM poly"): ORIGIN,
    ("translation", "STDAOneClassSVM linear"): "the origin is what the rows are told from",
    ("translation", "STDALinearSVC"): PENALISED,
    ("translation", "STDALinearSVR"): PENALISED,
    ("rows permuted", "CoresetSVC sampled"): SAMPLED,
    ("weights for copies", "CoresetSVC sampled"): SAMPLED,
    ("classes permuted", "CoresetSVC sampled"): "what is sampled depends on which class is the first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is drawn."""

    seed: int
    n: int
    d: int
    classes: int
    C: float
    tol: float
    shift: int
    power: int

    @property
    def chance(self) -> np.random.Generator:
        """The same numbers each time."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, targets, and weights or None."""

    X: Any
    y: Any
    weight: Any = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A machine of the table; what it has, and how many rows more its cases have."""

    make: Callable[[Case], Any]
    two_classes: bool = False
    labels: bool = True
    sparse: bool = True
    portions: bool = False
    more: int = 0


def _of(kind: Any, **fixed: Any) -> Callable[[Case], Any]:
    def make(case: Case) -> Any:
        own = {"C": case.C} if kind is not STDAOneClassSVM else {"nu": min(0.9, 0.1 + 0.05 * (case.seed % 16))}
        shaped = {"decision_function_shape": "ovo"} if kind is STDASVC else {}
        return kind(tol=case.tol, max_iter=300_000, gamma=0.5, **own, **shaped, **fixed)

    return make


def _linear(kind: Any, loss: str) -> Callable[[Case], Any]:
    return lambda case: kind(C=case.C, tol=case.tol, loss=loss, random_state=0, max_iter=100_000)


def _coreset(memory: int, kernel: Any = "linear", **options: Any) -> Callable[[Case], Any]:
    return lambda case: CoresetSVC(points=memory, kernel=kernel, gamma=0.5, tol=case.tol, C=case.C, **options)


MACHINES: Final = {
    **{
        f"{kind.__name__} {kernel['kernel']}": Kind(_of(kind, **kernel), labels=kind is STDASVC)
        for kind in (STDASVC, STDASVR, STDAOneClassSVM)
        for kernel in ({"kernel": "linear"}, {"kernel": "rbf"}, POLY)
    },
    "STDALinearSVC": Kind(_linear(STDALinearSVC, "hinge"), two_classes=True),
    "STDALinearSVR": Kind(_linear(STDALinearSVR, "epsilon_insensitive"), labels=False),
    "CoresetSVC linear": Kind(_coreset(4_000), two_classes=True, sparse=False, portions=True),
    "CoresetSVC rbf": Kind(_coreset(4_000, "rbf"), two_classes=True, sparse=False, portions=True),
    "CoresetSVC raw rbf": Kind(
        _coreset(4_000, "rbf", standardize=False), two_classes=True, sparse=False, portions=True
    ),
    "CoresetSVC sampled": Kind(_coreset(100), two_classes=True, sparse=False, portions=True, more=300),
}


class Broken(AssertionError):
    """A property that does not hold, by so much.

    Attributes
    ----------
    by : float
        Difference over what is allowed, or infinity of what is not a number.
    """

    def __init__(self, what: str, by: float = np.inf) -> None:
        super().__init__(f"{what}, by {by:.2g} times what is allowed" if by < np.inf else what)
        self.by = by


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a case; small ones are far more often drawn."""
    low, high = draw(st.sampled_from([FEW, FEW, FEW, FEW, MANY]))
    return Case(
        seed=draw(st.integers(0, 2**32)),
        n=draw(st.integers(low, high)),
        d=draw(st.integers(1, 4)),
        classes=draw(st.integers(2, 4)),
        C=draw(st.sampled_from([0.125, 1.0, 8.0])),
        tol=draw(st.sampled_from([1e-3, 1e-7])),
        shift=draw(st.integers(0, 30)),
        power=draw(st.integers(-20, 20)),
    )


def table(case: Case, kind: Kind) -> Table:
    """Return rows on the grid, about a fifth of them equal to another, and targets that they explain."""
    chance = case.chance
    X = np.round(chance.normal(size=(case.n, case.d)) * GRID) / GRID
    X = X[np.where(chance.random(case.n) < 0.2, chance.integers(0, case.n, case.n), np.arange(case.n))]
    f = X @ chance.normal(size=case.d) + 0.3 * chance.normal(size=case.n)
    if not kind.labels:
        return Table(X, np.round(f * GRID) / GRID)
    k = 2 if kind.two_classes else case.classes
    y = np.searchsorted(np.quantile(f, np.arange(1, k) / k), f)
    assume(len(np.unique(y)) == k)
    return Table(X, y)


def fitted(machine: Any, given: Table, X: Any = None) -> Any:
    """Fit on a table, or on its rows in another form; see that the caller's arrays are as before. Warnings end it."""
    X = given.X if X is None else X
    before = [pickle.dumps(part) for part in (X, given.y, given.weight)]
    options = {} if given.weight is None else {"sample_weight": given.weight}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        machine.fit(X, given.y, **options)
    if [pickle.dumps(part) for part in (X, given.y, given.weight)] != before:
        raise Broken("fit changed what the caller gave")
    assume(not any(issubclass(one.category, ConvergenceWarning) for one in said))
    return machine


def values(machine: Any, X: Any) -> Any:
    """Return decision values, shape (m, machines); of classes positive for the pair's first class."""
    decide = machine.decision_function if hasattr(machine, "decision_function") else machine.predict
    found = np.asarray(decide(X))
    if not np.isfinite(found).all():
        raise Broken("a decision value is not finite")
    found = found.reshape(len(found), -1)
    return -found if hasattr(machine, "classes_") and found.shape[1] == 1 else found


def boxes(machine: Any, given: Table) -> Any:
    """Return the largest dual variable of each row."""
    # OneClassSVM has a C, too, of 0.
    C = 1.0 if isinstance(machine, STDAOneClassSVM) else machine.C
    return np.full(given.X.shape[0], C) if given.weight is None else C * given.weight


def squared_norms(machine: Any, given: Table) -> Any:
    """Return |w|^2 of each machine."""
    if isinstance(machine, CoresetSVC):
        return np.array([one.squared_norm for one in machine._stream.made().machines])
    if isinstance(machine, STDALinearSVC | STDALinearSVR):
        intercept = np.atleast_1d(machine.intercept_) / machine.intercept_scaling
        return np.square(np.atleast_2d(machine.coef_)).sum(axis=1) + np.square(intercept)
    S, dual = _dense(machine.support_vectors_), _dense(machine._dual_coef_)
    if machine.kernel == "linear" and not isinstance(machine, STDAOneClassSVM):
        S = S - S.mean(axis=0)
    K = kernel(machine, S, S)
    if not isinstance(machine, STDASVC):
        return np.array([dual[0] @ K @ dual[0]])
    ends = np.cumsum(machine._n_support)
    own = [slice(end - count, end) for count, end in zip(machine._n_support, ends, strict=True)]
    found = []
    for i, j in combinations(range(len(own)), 2):
        b = np.zeros(len(S))
        b[own[i]], b[own[j]] = dual[j - 1, own[i]], dual[i, own[j]]
        found.append(b @ K @ b)
    return np.array(found)


def kernel(machine: Any, A: Any, B: Any) -> Any:
    """Return kernel values, plainly."""
    products = A @ B.T
    if machine.kernel == "linear":
        return np.asarray(products)
    if machine.kernel == "poly":
        return np.asarray((machine._gamma * products + machine.coef0) ** machine.degree)
    return np.exp(-machine._gamma * np.square(A[:, None, :] - B[None, :, :]).sum(axis=2))


def objectives(machine: Any, given: Table, f: Any) -> Any:
    """Return the primal objective of each machine, by its own decision values."""
    upper = boxes(machine, given)
    half = 0.5 * squared_norms(machine, given)
    if isinstance(machine, STDAOneClassSVM):
        return half + np.maximum(0.0, -f[:, 0]) @ upper + machine.nu * upper.sum() * float(machine.intercept_[0])
    if isinstance(machine, STDASVR | STDALinearSVR):
        return half + np.maximum(0.0, np.abs(f[:, 0] - given.y) - machine.epsilon) @ upper
    label = np.searchsorted(machine.classes_, given.y)
    found = []
    for at, (i, j) in enumerate(combinations(range(len(machine.classes_)), 2)):
        rows = np.flatnonzero((label == i) | (label == j))
        sign = np.where(label[rows] == i, 1.0, -1.0)
        found.append(np.maximum(0.0, 1.0 - sign * f[rows, at]) @ upper[rows])
    return half + np.array(found)


def radius(machine: Any, X: Any) -> float:
    """Return how far the images of rows are from one another, at most."""
    X = _dense(X)
    if isinstance(machine, CoresetSVC) and machine.kernel == "linear":
        return 2.0 * float(np.sqrt(np.square((X - X.mean(axis=0)) / _least(X.std(axis=0))).sum(axis=1).max()))
    name = getattr(machine, "kernel", "linear")
    if name == "rbf":
        return 2.0
    if name == "poly":
        return 2.0 * float(np.sqrt(np.max((machine._gamma * np.square(X).sum(axis=1) + machine.coef0) ** 3)))
    return 2.0 * float(np.sqrt(np.square(X - X.mean(axis=0)).sum(axis=1).max()))


def same(one: Any, f: Any, P: Any, g: Any, Q: Any, given: Table) -> float:
    """Return by how much two machines differ, whose values over the same rows and whose objectives are these."""
    gap = float(boxes(one, given).sum()) * one.tol * 1.01
    if isinstance(one, STDALinearSVC | STDALinearSVR):
        gap += 1e-5 * float(np.abs(P).max())
    if isinstance(one, CoresetSVC) and one.kernel == "rbf":
        gap += HALF * float(np.abs(P).max())
    size = float(np.abs(f).max()) + float(np.abs(g).max()) + 1.0
    moved = float(np.abs((f - f[0]) - (g - g[0])).max())
    if isinstance(one, STDASVR):  # of the values, in which the intercept counts
        size += float(np.abs(given.y).max())
    allowed = 2.0 * np.sqrt(2.0 * gap) * radius(one, given.X) + ROUNDING * size
    if moved > allowed:
        raise Broken(f"decision values differ by {moved:.3g}", moved / allowed)
    cost = float(np.abs(P - Q).max())
    if cost > gap + ROUNDING * (1.0 + float(np.abs(P).max())):
        raise Broken(f"objectives {P.tolist()} and {Q.tolist()} differ", cost / gap)
    return moved / size


def compared(
    kind: Kind, case: Case, given: Table, other: Table, *, asked: Any = None, back: Callable[[Any], Any] = lambda f: f
) -> float:
    """Fit on both tables, decide on the first one's rows and on what became of them, and compare.

    Parameters
    ----------
    asked : optional
        What became of the rows; by default those of the other table.
    back : callable
        Makes of the second machine's values what the first one's have to be.
    """
    one, two = fitted(kind.make(case), given), fitted(kind.make(case), other)
    f, g = values(one, given.X), back(values(two, other.X if asked is None else asked))
    return same(
        one, f, objectives(one, given, f), g, back(objectives(two, other, values(two, other.X))[None])[0], given
    )


# Properties. Each returns the largest difference, or raises Broken.


def translation(kind: Kind, case: Case) -> float:
    """Every row moved by the same vector."""
    given = table(case, kind)
    shift = np.sign(case.chance.normal(size=case.d)) * 2.0**case.shift
    return compared(kind, case, given, replace(given, X=given.X + shift))


def scaling(kind: Kind, case: Case) -> float:
    """Every row times a power of two, with gamma = scale; a linear machine's C, and what else has its unit, too."""
    given, unit = table(case, kind), 2.0**case.power
    one, two, of_values = kind.make(case), kind.make(case), 1.0
    if getattr(one, "kernel", "linear") != "linear":
        one.gamma = two.gamma = "scale"
    elif isinstance(one, STDAOneClassSVM):
        of_values = unit**2
        two.tol *= of_values
    elif not isinstance(one, CoresetSVC):
        two.C /= unit**2
        if hasattr(two, "intercept_scaling"):
            two.intercept_scaling *= unit
    other = replace(given, X=given.X * unit)
    fitted(one, given), fitted(two, other)
    f, g = values(one, given.X), values(two, other.X)
    P, Q = objectives(one, given, f), objectives(two, other, g)
    if not isinstance(one, STDAOneClassSVM):
        Q = Q * (one.C / two.C)
    return same(one, f, P, g / of_values, Q / of_values, given)


def rows_permuted(kind: Kind, case: Case) -> float:
    """The same rows in another order."""
    given = table(case, kind)
    order = case.chance.permutation(case.n)
    return compared(kind, case, given, Table(given.X[order], given.y[order]), asked=given.X)


def classes_permuted(kind: Kind, case: Case) -> float:
    """The classes with one another's names."""
    given = table(case, kind)
    k = int(given.y.max()) + 1
    names = case.chance.permutation(k)
    place = {pair: at for at, pair in enumerate(combinations(range(k), 2))}
    pairs = [(names[i], names[j]) for i, j in place]
    columns = [place[min(pair), max(pair)] for pair in pairs]

    def back(f: Any) -> Any:
        # An objective is a row of numbers that change no sign.
        return f[:, columns] * (1.0 if len(f) == 1 else np.where([a < b for a, b in pairs], 1.0, -1.0))

    return compared(kind, case, given, replace(given, y=names[given.y]), back=back)


def weights_for_copies(kind: Kind, case: Case) -> float:
    """A row of weight 3 is three rows, and one of weight 0 is none."""
    given = table(case, kind)
    weight = case.chance.integers(0, 4, case.n)
    assume(weight.any() and (not kind.labels or len(np.unique(given.y[weight > 0])) == len(np.unique(given.y))))
    copies = np.repeat(np.arange(case.n), weight)
    weighed = replace(given, weight=weight.astype(np.float64))
    return compared(kind, case, weighed, Table(given.X[copies], given.y[copies]), asked=given.X)


def portions(kind: Kind, case: Case) -> float:
    """One `fit`, and `partial_fit` of portions of any size, some of them without a weight: the same bits."""
    given = table(case, kind)
    weight = np.where(case.chance.random(case.n) < 0.2, 0.0, 1.0)
    assume(len(np.unique(given.y[weight > 0.0])) == len(np.unique(given.y)))
    whole = fitted(kind.make(case), replace(given, weight=weight))
    parts, at = kind.make(case), 0
    while at < case.n:
        rows = slice(at, at + int(case.chance.integers(1, 1 + max(1, case.n // 3))) if at % 2 else at + 1)
        parts.partial_fit(given.X[rows], given.y[rows], classes=np.unique(given.y), sample_weight=weight[rows])
        at = rows.stop
    return _same_bits(whole, parts, given.X, given.X, "portions")


def forms(kind: Kind, case: Case) -> float:
    """The same numbers of other types, in other orders of memory, as lists, read-only: a machine of the same bits."""
    given = table(case, kind)
    right, worst = fitted(kind.make(case), given), 0.0
    wide = np.repeat(np.repeat(given.X, 2, axis=0), 3, axis=1)
    fixed = given.X.copy()
    fixed.setflags(write=False)
    made = [np.asfortranarray(given.X), wide[::2, ::3], given.X[::-1].copy()[::-1], given.X.astype(">f8"), fixed]
    for X in [*made, given.X.tolist(), given.X.astype(np.float32), given.X.astype(object)]:
        found = fitted(kind.make(case), given, X)
        what = f"{type(X).__name__} {getattr(X, 'dtype', '')}"
        _same_bits(right, found, given.X, given.X, what)
        # LinearSVC decides by a product of matrices, which rounds by how rows lie in memory.
        f, g = values(right, given.X), values(found, X)
        size = 1.0 + float(np.abs(f).max())
        worst = max(worst, float(np.abs(f - g).max()) / size)
        if worst > SAME:
            raise Broken(f"{what}: values of the same machine differ", worst / SAME)
    return worst


def sparse_forms(kind: Kind, case: Case) -> float:
    """CSR, CSC, COO with duplicates, unsorted, of 64-bit places, read-only: the machine of the same dense rows."""
    given = table(case, kind)
    given = replace(given, X=np.where(case.chance.random(given.X.shape) < 0.3, 0.0, given.X))
    one, worst = fitted(kind.make(case), given), 0.0
    f = values(one, given.X)
    P = objectives(one, given, f)
    for X in _sparse(given.X):
        two = fitted(kind.make(case), given, X)
        g = values(two, X)
        worst = max(worst, same(one, f, P, g, objectives(two, given, g), given))
    return worst


def _sparse(X: Any) -> Iterator[Any]:
    rows = sparse.csr_array(X)
    yield rows
    yield sparse.csc_matrix(X)
    yield sparse.csr_matrix((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=X.shape)
    at, column = np.nonzero(X)
    twice = sparse.coo_array((np.tile(0.5 * X[at, column], 2), (np.tile(at, 2), np.tile(column, 2))), shape=X.shape)
    yield twice
    # Halves, the columns of each row from the last to the first.
    order = np.lexsort((-twice.coords[1], twice.coords[0]))
    starts = np.append(0, np.cumsum(np.bincount(twice.coords[0], minlength=len(X))))
    halves = sparse.csr_array((twice.data[order], twice.coords[1][order], starts), shape=X.shape)
    yield halves
    fixed = halves.copy()
    for part in (fixed.data, fixed.indices, fixed.indptr):
        part.setflags(write=False)
    yield fixed


def pickling(kind: Kind, case: Case) -> float:
    """What is read back answers with the same bits."""
    given = table(case, kind)
    machine = fitted(kind.make(case), given)
    return _same_bits(machine, pickle.loads(pickle.dumps(machine)), given.X, given.X, "what was read back")


def failed_fit(kind: Kind, case: Case) -> float:
    """After a fit that raises nothing answers, and the next fit gives the same bits as if it had not been."""
    given = table(case, kind)
    right, machine = fitted(kind.make(case), given), fitted(kind.make(case), given)
    for wrong in (np.nan, 1e200):
        X = given.X.copy()
        X[case.chance.integers(case.n), 0] = wrong
        try:
            machine.fit(X, given.y)
        except ValueError:
            pass
        else:
            continue  # it was learned, or clipped and warned of
        try:
            machine.predict(given.X)
        except NotFittedError:
            continue
        raise Broken(f"predict answers after a fit that failed for a feature of {wrong}")
    return _same_bits(right, fitted(machine, given), given.X, given.X, "a fit after a failed one")


def ended(kind: Kind, case: Case) -> float:
    """Status 0 is a gap within tol in extended precision, of rows and boxes of any size; else there is a warning."""
    given, chance = table(case, kind), case.chance
    X = given.X * 10.0 ** chance.choice([0, 0, -3, 2, 5, 8], case.d) + 10.0 ** chance.uniform(-1, 9, case.d)
    machine = kind.make(case)
    machine.gamma = "scale"
    if hasattr(machine, "C"):
        machine.C = 10.0 ** float(chance.choice([-2, 0, 2, 5, 9]))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            machine.fit(X, given.y)
        except ValueError as refused:
            assume("not finite" not in str(refused))
            raise
    if machine.fit_status_:
        if not any("KKT gap is" in str(one.message) for one in said):
            raise Broken("it did not end, and does not say so")
        return 0.0
    gap = exact_gap(machine, X, given.y)
    if not gap <= 1.01 * machine.tol:
        raise Broken(f"status 0 at a gap of {gap:.3g}, tol {machine.tol:g}", gap / machine.tol)
    return gap


def _same_bits(one: Any, other: Any, X: Any, Z: Any, what: str) -> float:
    f, g = values(one, X), values(other, Z)
    if not np.array_equal(f, g):
        raise Broken(f"{what}: values differ by {np.abs(f - g).max():.3g}")
    return 0.0


def _dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)


def _least(deviation: Any) -> Any:
    return np.where(deviation > 0.0, deviation, 1.0)


PROPERTIES: Final[dict[str, tuple[Callable[[Kind, Case], float], Callable[[str, Kind], str]]]] = {
    "ended": (ended, lambda name, _: "" if name.split()[0] in DROP_INS else "no dual variables to look at"),
    "translation": (translation, lambda *_: ""),
    "scaling, gamma = scale": (scaling, lambda *_: ""),
    "rows permuted": (rows_permuted, lambda *_: ""),
    "classes permuted": (classes_permuted, lambda _, kind: "" if kind.labels else "no classes"),
    "weights for copies": (weights_for_copies, lambda *_: ""),
    "portions": (portions, lambda _, kind: "" if kind.portions else "no partial_fit"),
    "dtype and layout": (forms, lambda *_: ""),
    "dense and sparse": (sparse_forms, lambda _, kind: "" if kind.sparse else "dense rows only"),
    "pickling": (pickling, lambda *_: ""),
    "failed fit": (failed_fit, lambda *_: ""),
}
"""What is asked, and why it is not asked of a machine; empty: it is."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What was found out about a property of a machine.

    Attributes
    ----------
    holds : bool or None
        None: it is not asked.
    expected : bool
        Whether it is as it should be.
    says : str
    """

    property: str
    machine: str
    holds: bool | None
    expected: bool
    says: str


def looked_at(name: str, machine: str, count: int) -> Cell:
    """Draw cases of a cell."""
    ask, excuse = PROPERTIES[name]
    kind = MACHINES[machine]
    if why := excuse(machine, kind):
        return Cell(name, machine, None, True, f"not asked: {why}")
    reason, seen = REASONS.get((name, machine)), [0.0]

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,) if reason else (Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(case=cases())
    def check(case: Case) -> None:
        try:
            seen.append(ask(kind, replace(case, n=case.n + kind.more)))
        except (Broken, HypothesisException) as broken:
            broken.add_note(str(case))
            raise
        except Exception as raised:
            other = Broken(f"{type(raised).__name__}: {raised}")
            other.add_note(str(case))
            raise other from raised

    try:
        check()
    except Broken as broken:
        at = next((note for note in broken.__notes__ if note.startswith("Case(")), "")
        if reason:
            return Cell(name, machine, False, True, f"does not hold, because {reason} ({broken})")
        return Cell(name, machine, False, False, f"DOES NOT HOLD: {broken}; {at}")
    if reason:
        return Cell(name, machine, True, True, f"does not hold, because {reason}; not seen in {count} cases")
    return Cell(name, machine, True, True, "holds, to the bit" if not max(seen) else f"holds, to {max(seen):.1e}")


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if a cell is not as it should be."""
    parser = argparse.ArgumentParser(description="properties of the estimators")
    parser.add_argument("--cases", type=int, default=20, help="for each cell (default: %(default)s)")
    parser.add_argument("--machines", default="", help="beginnings of names, separated by commas (default: all)")
    parser.add_argument("--properties", default="", help="the same of properties")
    parser.add_argument("--json", action="store_true", help="print an object a line")
    chosen = parser.parse_args(arguments)
    cells = []
    for name in _chosen(PROPERTIES, chosen.properties):
        for machine in _chosen(MACHINES, chosen.machines):
            cell = looked_at(name, machine, chosen.cases)
            cells.append(cell)
            shown = json.dumps(asdict(cell)) if chosen.json else f"{name:<24}{machine:<24}{cell.says}"
            print(shown, flush=True)
    return int(not all(cell.expected for cell in cells))


def _chosen(names: Any, beginnings: str) -> list[str]:
    return [name for name in names if any(name.startswith(one) for one in beginnings.split(","))]


if __name__ == "__main__":
    sys.exit(main())
