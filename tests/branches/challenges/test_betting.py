"""The test by betting: its evidence is bounded by a martingale, its error for life is one, its interval holds."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from streamsvm.branches.challenges.betting import (
    BETS,
    BLOCK,
    Float,
    block_differences,
    interval,
    log_evidence,
    log_wealths,
)

RARE_AND_DEAR = ((-1.0, 0.02), (0.02, 0.9), (0.0, 0.08))
"""Differences and their chances, with a mean below 0: a loss of all against many gains of a fiftieth."""
EVEN = ((-1.0, 0.5), (1.0, 0.5))
TIES = ((-0.5, 0.25), (0.0, 0.25), (0.25, 0.5))


def evidence(differences: Float) -> float:
    return math.exp(log_evidence(log_wealths(differences)))


def exact(differences: Float) -> Fraction:
    """Return the evidence by the module's formula, in fractions."""
    wealths = [math.prod(1 + Fraction(bet) * Fraction(d) for d in differences.tolist()) for bet in BETS.tolist()]
    return sum(wealths, Fraction(0)) / len(wealths)


@pytest.mark.parametrize("kind", [RARE_AND_DEAR, EVEN, TIES])
def test_evidence_against_no_gain_is_a_supermartingale(kind: tuple[tuple[float, float], ...]) -> None:
    """At each node of the whole tree of six steps its mean over the next step is at most what it is."""
    assert sum(value * chance for value, chance in kind) <= 1e-15
    for length in range(6):
        for past in product([value for value, _ in kind], repeat=length):
            now = evidence(np.array(past))
            following = sum(chance * evidence(np.array([*past, value])) for value, chance in kind)
            assert following <= now * (1.0 + 1e-12)


def test_evidence_is_bounded_where_only_the_average_is_no_gain() -> None:
    """Means of +0.3 and -0.3 in turn, or six good steps and six bad ones: the mean of the evidence is at most 1."""
    for means in ([0.3, -0.3] * 5, [0.3] * 5 + [-0.3] * 5):
        total = 0.0
        for steps in product((-1.0, 1.0), repeat=len(means)):
            chance = math.prod((1.0 + step * mean) / 2.0 for step, mean in zip(steps, means, strict=True))
            total += chance * evidence(np.array(steps))
        assert total <= 1.0 + 1e-12


def test_evidence_is_what_its_formula_says() -> None:
    """By exact fractions, with a loss of everything among the differences."""
    for differences in ([], [-1.0], [1.0] * 30, [0.02, -1.0, 0.5, 0.0, 0.02], [-0.125] * 40):
        given = np.array(differences)
        assert evidence(given) == pytest.approx(float(exact(given)), rel=1e-12)


def test_the_interval_fails_at_any_time_with_chance_alpha_at_most() -> None:
    """Of all sequences of twelve fair steps, the share of which some prefix's interval lies above the mean, 0."""
    alpha, failed, n = 0.2, 0, 12
    for steps in product((-1.0, 1.0), repeat=n):
        given = np.array(steps)
        ends = [interval(log_wealths(given[:t]), log_wealths(-given[:t]), t, alpha) for t in range(1, n + 1)]
        assert all(low <= high for low, high in ends)
        failed += any(low > 0.0 for low, _ in ends)
    assert 0 < failed <= alpha * 2**n


def test_the_interval_closes_in_on_the_mean() -> None:
    """Of 20,000 differences it has the mean, within a twentieth."""
    given = np.random.default_rng(2).choice([-1.0, 0.0, 1.0], p=[0.1, 0.6, 0.3], size=20_000)
    low, high = interval(log_wealths(given), log_wealths(-given), len(given), 0.01)
    assert 0.15 < low < 0.2 < high < 0.25


def test_blocks_are_disjoint_and_have_both_labels() -> None:
    """Each difference is that of scikit-learn's AUCs over its block; a partition's last rows wait for more."""
    random = np.random.default_rng(3)
    n = 400
    partition = np.repeat([0, 1], [250, 150])
    positive = random.random(n) < 0.15
    old, new = (np.round(random.normal(size=n) + positive, 1) for _ in range(2))
    found, blocks = np.empty(n), list[slice]()
    count = block_differences(partition, positive, old, new, BLOCK, found)
    for first, end in ((0, 250), (250, 400)):
        begin = first
        for i in range(first, end):
            if i + 1 - begin >= BLOCK and 0 < positive[begin : i + 1].sum() < i + 1 - begin:
                blocks.append(slice(begin, i + 1))
                begin = i + 1
    assert count == len(blocks) > 20
    for block, difference in zip(blocks, found.tolist(), strict=False):
        areas = [roc_auc_score(positive[block], scores[block]) for scores in (old, new)]
        assert difference == pytest.approx(areas[1] - areas[0], abs=1e-12)
