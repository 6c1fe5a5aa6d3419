"""Sizes from the theory: by hand, monotone, and honest where they say nothing."""

from __future__ import annotations

import math

import pytest

from tests.papers.sample_size import coreset_size


def test_the_formula_by_hand() -> None:
    """T / epsilon^2 ((d + 1) ln t + ln 1/delta), offline."""
    expected = 100 / 0.01 * (9 * math.log(100) + math.log(10))
    size = coreset_size(100.0, 0.1, 0.1, 8, 10_000_000)
    assert size.draws == math.ceil(expected)
    assert size.guaranteed
    assert size.holds_at(size.draws)
    assert not size.holds_at(size.draws - 1)
    assert str(size) == f"m = {size.draws:,} of 10,000,000 points"


def test_a_tree_pays_for_its_height_and_for_every_node() -> None:
    """H levels: epsilon / (2 h) at each, delta over the 2^h nodes."""
    expected = 100 / (0.1 / 10) ** 2 * (9 * math.log(100) + math.log(10) + 5 * math.log(2))
    assert coreset_size(100.0, 0.1, 0.1, 8, 10**9, levels=5).draws == math.ceil(expected)


def test_the_constant_scales_the_size() -> None:
    """C is explicit."""
    one, ten = (coreset_size(100.0, 0.1, 0.1, 8, 10**9, constant=c).draws for c in (1.0, 10.0))
    assert 10 * one - 10 < ten <= 10 * one


def test_no_guarantee_is_said() -> None:
    """Where the bound exceeds n only the whole set is sure."""
    size = coreset_size(800.9, 0.1, 0.1, 8, 17_898)
    assert not size.guaranteed
    assert not size.holds_at(17_897)
    assert size.holds_at(17_898)
    assert str(size).startswith("no guarantee at any m below n")


@pytest.mark.parametrize(
    "arguments", [(0.5, 0.1, 0.1, 8, 9), (2.0, 0.5, 0.1, 8, 9), (2.0, 0.1, 1.0, 8, 9), (2.0, 0.1, 0.1, 0, 9)]
)
def test_arguments_out_of_range_are_refused(arguments: tuple[float, float, float, int, int]) -> None:
    """T below 1, epsilon from 1/2, delta from 1, no dimension."""
    with pytest.raises(ValueError, match="out of range"):
        coreset_size(*arguments)
