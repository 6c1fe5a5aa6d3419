"""Streams that change: three made by their published definitions, and public sets whose features turn at once.

Sources: Street and Kim 2001 (SEA); Hulten, Spencer and Domingos 2001 (the turning hyperplane); Agrawal, Imielinski and
Swami 1993 (AGRAWAL: nine attributes of an applicant, ten rules). Features that turn: at each change a random half of
the features of a shuffled public set is mirrored at its mean, so that what is easy stays as easy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Stream = tuple[Float, NDArray[np.int8], list[int]]
"""Features, signs, and the rows at which the world changes at once; none of a stream that changes slowly."""

SEA_BORDERS: Final = (8.0, 9.0, 7.0, 9.5)
SEA_NOISE: Final = 0.1
HYPERPLANE_NOISE: Final = 0.05


def sea(n: int = 60_000, seed: int = 0, borders: tuple[float, ...] = SEA_BORDERS) -> Stream:
    """Three features in [0, 10]; positive where the first two sum to at most 8, then 9, 7, 9.5; a tenth is noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(0.0, 10.0, (n, 3))
    concept = np.minimum(np.arange(n) * len(borders) // n, len(borders) - 1)
    positive = X[:, 0] + X[:, 1] <= np.array(borders)[concept]
    changes = [int(np.searchsorted(concept, k)) for k in range(1, len(borders))]
    return X, _signs(positive ^ (random.random(n) < SEA_NOISE)), changes


def hyperplane(n: int = 60_000, seed: int = 0, d: int = 10, turning: int = 2, magnitude: float = 0.001) -> Stream:
    """Features in [0, 1]; positive above a plane of which some weights move with each row, one way, then the other."""
    random = np.random.default_rng(seed)
    X, weight, way = random.random((n, d)), random.random(d), np.ones(turning)
    positive = np.empty(n, np.bool_)
    turns = random.random((n, turning)) < 0.1
    for i in range(n):
        positive[i] = X[i] @ weight >= 0.5 * weight.sum()
        weight[:turning] += way * magnitude
        way[turns[i]] *= -1.0
    return X, _signs(positive ^ (random.random(n) < HYPERPLANE_NOISE)), []


def agrawal(n: int = 60_000, seed: int = 0, rules: tuple[int, ...] = (1, 4, 7, 9, 2, 5)) -> Stream:
    """Applicants for a loan, whose bank goes by one rule after the other; attributes are disturbed by 5 %."""
    random = np.random.default_rng(seed)
    salary = random.uniform(20_000.0, 150_000.0, n)
    commission = np.where(salary >= 75_000.0, 0.0, random.uniform(10_000.0, 75_000.0, n))
    age = random.integers(20, 81, n).astype(np.float64)
    education, car, zipcode = random.integers(0, 5, n), random.integers(1, 21, n), random.integers(0, 9, n)
    value = (9 - zipcode) * 100_000.0 * random.uniform(0.5, 1.5, n)
    years, loan = random.integers(1, 31, n).astype(np.float64), random.uniform(0.0, 500_000.0, n)
    rule = np.array(rules)[np.minimum(np.arange(n) * len(rules) // n, len(rules) - 1)]
    group_a = np.zeros(n, np.bool_)
    for number in set(rules):
        own = rule == number
        group_a[own] = _rule(number, salary, commission, age, education, value, years, loan)[own]
    X = np.column_stack([salary, commission, age, education, car, zipcode, value, years, loan]).astype(np.float64)
    for column, width in ((0, 130_000.0), (1, 65_000.0), (2, 60.0), (6, 1_350_000.0), (7, 29.0), (8, 500_000.0)):
        X[:, column] += random.uniform(-0.05, 0.05, n) * width
    changes = [int(np.searchsorted(np.arange(n) * len(rules) // n, k)) for k in range(1, len(rules))]
    return X, _signs(~group_a), changes


def _rule(
    number: int,
    salary: Float,
    commission: Float,
    age: Float,
    education: NDArray[np.int64],
    value: Float,
    years: Float,
    loan: Float,
) -> NDArray[np.bool_]:
    """Tell which applicants a rule puts into group A."""
    young, old = age < 40.0, age >= 60.0
    by_age = (young, ~young & ~old, old)
    income = salary + commission

    def between(low: float, high: float, of: Float) -> NDArray[np.bool_]:
        return (low <= of) & (of <= high)

    if number == 1:
        return young | old
    if number == 2:
        bounds = ((50_000.0, 100_000.0), (75_000.0, 125_000.0), (25_000.0, 75_000.0))
        return np.logical_or.reduce([part & between(*own, salary) for part, own in zip(by_age, bounds, strict=True)])
    if number == 4:
        low, middle = np.isin(education, (0, 1)), np.isin(education, (1, 2, 3))
        high = np.isin(education, (2, 3, 4))
        chosen = (
            np.where(low, between(25_000.0, 75_000.0, salary), between(50_000.0, 100_000.0, salary)),
            np.where(middle, between(50_000.0, 100_000.0, salary), between(75_000.0, 125_000.0, salary)),
            np.where(high, between(50_000.0, 100_000.0, salary), between(25_000.0, 75_000.0, salary)),
        )
        return np.logical_or.reduce([part & own for part, own in zip(by_age, chosen, strict=True)])
    if number == 5:
        bounds = ((50_000.0, 100_000.0), (75_000.0, 125_000.0), (25_000.0, 75_000.0))
        loans = (
            ((100_000.0, 300_000.0), (200_000.0, 400_000.0)),
            ((200_000.0, 400_000.0), (300_000.0, 500_000.0)),
            ((300_000.0, 500_000.0), (100_000.0, 300_000.0)),
        )
        chosen = tuple(
            np.where(between(*own, salary), between(*inside, loan), between(*outside, loan))
            for own, (inside, outside) in zip(bounds, loans, strict=True)
        )
        return np.logical_or.reduce([part & own for part, own in zip(by_age, chosen, strict=True)])
    if number == 7:
        return 0.67 * income - 0.2 * loan - 20_000.0 > 0.0
    if number == 9:
        return 0.67 * income - 5_000.0 * education - 0.2 * loan - 10_000.0 > 0.0
    raise AssertionError(number)


def turned(X: Float, y: NDArray[np.int8], n: int = 60_000, changes: int = 4, seed: int = 0) -> Stream:
    """Return rows of a set, shuffled, of which a random half of the features is mirrored anew at each change."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(y))[:n]
    X, y = X[chosen].astype(np.float64), y[chosen]
    length = len(y) // (changes + 1)
    at = [k * length + int(random.integers(-length // 4, length // 4)) for k in range(1, changes + 1)]
    mean = X.mean(axis=0)
    for begin, end in zip([0, *at], [*at, len(y)], strict=True):
        mirrored = random.permutation(X.shape[1])[: X.shape[1] // 2] if begin else np.empty(0, np.intp)
        X[begin:end, mirrored] = 2.0 * mean[mirrored] - X[begin:end, mirrored]
    return X, _signs(y > 0), at


def _signs(positive: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(positive, 1, -1).astype(np.int8)


MADE: Final[dict[str, Callable[[int], Stream]]] = {
    "SEA": sea,
    "Hyperplane": hyperplane,
    "AGRAWAL": agrawal,
}
"""The streams that are made from nothing."""
