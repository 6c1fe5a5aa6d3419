"""Deciles, the population stability index, its chance level, and the header that carries the deciles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chi2

from streamsvm.model import Deciles, deciles_header as codec, deciles_of
from streamsvm.quality.drift import CHANCE, ScoreWindow, chance_level, drift_of


def of(scores: np.ndarray, weight: np.ndarray | None = None) -> Deciles:
    found = deciles_of(scores, np.ones(len(scores)) if weight is None else weight)
    assert found is not None
    return found


def test_deciles_are_numpys() -> None:
    """Of a sample without ties the cuts are the deciles, and each bin has a tenth."""
    scores = np.random.default_rng(1).normal(size=1_000)
    found = of(scores)
    assert found.cuts == tuple(np.quantile(scores, np.arange(1, 10) / 10, method="inverted_cdf"))
    assert found.shares == pytest.approx([0.1] * 10)
    assert found.n == 1_000


def test_weights_count_as_copies() -> None:
    """A point of weight three is as three points; the size that they tell as much as is smaller, by Kish."""
    scores = np.random.default_rng(2).normal(size=300)
    weight = np.where(np.arange(300) % 2, 3.0, 1.0)
    copied = of(np.repeat(scores, weight.astype(int)))
    found = of(scores, weight)
    assert found.cuts == copied.cuts
    assert found.shares == pytest.approx(copied.shares)
    assert found.n == pytest.approx(600.0**2 / 1_500.0)


def test_equal_scores_share_a_bin() -> None:
    """Ties make fewer bins, not empty ones; a sample of one value, or a small one, has none."""
    found = of(np.repeat([0.0, 1.0, 2.0], [50, 100, 50]))
    assert found.cuts == (0.0, 1.0)
    assert found.shares == pytest.approx([0.25, 0.5, 0.25])
    assert deciles_of(np.ones(1_000), np.ones(1_000)) is None
    assert deciles_of(np.arange(99.0), np.ones(99)) is None


def test_the_index_is_that_of_the_definition() -> None:
    """Of large samples, where half an observation is nothing, it is the sum over the bins."""
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.3, 0.3, 0.4])
    found = drift_of(q * 1e8, Deciles((0.0, 1.0), tuple(p), 1e8))
    assert found.index == pytest.approx(float(((q - p) * np.log(q / p)).sum()), rel=1e-6)


def test_an_empty_bin_is_no_infinity() -> None:
    """All new scores in one bin: a great index, and a finite one."""
    found = drift_of(np.array([500.0, 0.0]), Deciles((0.0,), (0.5, 0.5), 1_000.0))
    assert 1.0 < found.index < 10.0


def test_as_many_scores_in_the_same_bins_drift_by_nothing() -> None:
    """Both sides are smoothed alike, which shows where bins hold few scores or none."""
    assert drift_of(np.array([7.0, 3.0, 0.0]), Deciles((0.0, 1.0), (0.7, 0.3, 0.0), 10.0)).index == pytest.approx(0.0)


def test_the_chance_level_is_the_chi_squares() -> None:
    """Oracle: scipy's chi-square."""
    assert chance_level(10, 500.0, 2_000.0) == pytest.approx(chi2.isf(CHANCE, 9) * (1 / 500 + 1 / 2_000))


def test_chance_passes_its_level_about_as_often_as_it_says() -> None:
    """Of 3000 pairs of samples of one distribution, 3 are expected above, and by far not a hundredth."""
    random, above = np.random.default_rng(3), 0
    for _ in range(3_000):
        window = ScoreWindow(1_000)
        reference = of(random.normal(size=500))
        window.add(random.normal(size=1_000), reference)
        drift = window.drift(reference)
        assert drift is not None
        above += drift.index > drift.chance
    assert above <= 12


@given(st.lists(st.integers(0, 700), max_size=12), st.integers(1, 500))
def test_the_window_holds_the_newest(batches: list[int], capacity: int) -> None:
    """However scores are cut into batches, the index is that of the last `capacity` ones."""
    reference = of(np.arange(200.0))
    scores = np.random.default_rng(4).uniform(-10.0, 210.0, size=sum(batches))
    pieces, whole = ScoreWindow(capacity), ScoreWindow(capacity)
    start = 0
    for size in batches:
        pieces.add(scores[start : start + size], reference)
        start += size
    whole.add(scores[max(0, len(scores) - capacity) :], reference)
    assert len(pieces) == len(whole) == min(capacity, len(scores))
    assert pieces.drift(reference) == whole.drift(reference)


def test_a_header_says_what_was_written() -> None:
    """Nine significant digits, well below the limit."""
    scores = np.random.default_rng(5).normal(1e-7, 1e9, size=400)
    text = codec.encode(of(scores)).encode()
    found = codec.decode([("other", b"1"), (codec.HEADER, text)])
    assert found is not None
    assert found.cuts == pytest.approx(of(scores).cuts, rel=1e-8)
    assert len(text) < codec.LARGEST_BYTES // 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"n":1000,"cuts":[],"shares":[1]}',
        b'{"n":1000,"cuts":[0],"shares":[1]}',
        b'{"n":1000,"cuts":[0,0],"shares":[0.5,0.25,0.25]}',
        b'{"n":1000,"cuts":[0],"shares":[0.5,0.6]}',
        b'{"n":1000,"cuts":[0],"shares":[-0.5,1.5]}',
        b'{"n":1e999,"cuts":[0],"shares":[0.5,0.5]}',
        b'{"n":3,"cuts":[0],"shares":[0.5,0.5]}',
        b'{"n":1000,"cuts":["0"],"shares":[0.5,0.5]}',
        b'{"n":1000,"cuts":[0],"shares":[0.5,0.5]}' + b" " * codec.LARGEST_BYTES,
    ],
)
def test_a_header_that_makes_no_sense_is_passed_over(content: bytes) -> None:
    """Whoever writes to the topic may write any."""
    assert codec.decode([(codec.HEADER, content)]) is None
    assert codec.decode([]) is None
