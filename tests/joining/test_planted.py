"""Random worlds of two logs and a joiner that is restarted: the shipped one breaks nothing, each planted defect does.

In each world labels come before their rows, twice, changed, past the horizon and for nobody; portions of both logs are
read in any order; and at a restart whatever is merged is gone from both logs, as retention may have it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.joining import log_time
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.log_time import Decided
from streamsvm.joining.rows import JoinRules, JoinState, LabelRows, Letter
from streamsvm.points import Position, Rows
from tests.joining.reference import Feature, Label, join
from tests.joining.test_joiner import (
    FLOAT,
    WRONG_MS,
    features_of,
    labels_of,
    read_at_random,
    rules,
    told,
)

WORLDS: Final = 150
ROWS: Final = 40


class Shipped(Joiner):
    """The joiner as it is."""

    def forgets(self, saved: JoinState) -> JoinState:
        """Return what a restart has of a state."""
        return saved


class LosesEarlyLabels(Shipped):
    """A label that comes before its row is thrown away, as if no row could follow it."""

    def __init__(self, partition: int, of: JoinRules, *places: object) -> None:
        super().__init__(partition, replace(of, early_ms=-1), *places)  # type: ignore[arg-type]


class IgnoresTheHorizon(Shipped):
    """A label still counts a millisecond past the horizon."""

    def __init__(self, partition: int, of: JoinRules, *places: object) -> None:
        super().__init__(partition, replace(of, horizon_ms=of.horizon_ms + 1), *places)  # type: ignore[arg-type]


class TakesLabelsTwice(Shipped):
    """After a restart rows that have their label are forgotten: a second row of the key is learned, too."""

    def forgets(self, saved: JoinState) -> JoinState:
        """Keep the rows only that wait for a label."""
        return _with_rows(saved, saved.row_sign == 0)


class ReadsFeaturesAgain(Shipped):
    """Rows within their horizon are not in the checkpoint, but to be read again: retention has removed them."""

    def forgets(self, saved: JoinState) -> JoinState:
        """Keep no rows."""
        return _with_rows(saved, np.zeros(len(saved.row_key), np.bool_))


class MergesByArrival(Shipped):
    """Features at hand are merged without waiting for the labels of their time."""

    def join(self) -> tuple[Rows | None, list[Letter]]:
        """Take the labels for read as far as the features are."""
        if not self._labels.chunks:
            self._labels.time_ms = max(self._labels.time_ms, self._features.read_ms)
        return super().join()


class TakesTheNewestTime(Shipped):
    """Times of the labels that run backwards are taken as they are, and not as the greatest so far."""

    def add_labels(self, chunk: LabelRows) -> None:
        """Forget how far the time had come."""
        self._labels.read_ms = -1
        super().add_labels(chunk)


class ForgetsTheTime(Shipped):
    """After a restart the time of the labels is told anew, by the records that come then."""

    def forgets(self, saved: JoinState) -> JoinState:
        """Begin to tell the time anew."""
        return replace(saved, labels=replace(saved.labels, time_ms=-1))


def _with_rows(saved: JoinState, kept: np.ndarray) -> JoinState:
    names = ("row_key", "row_time", "row_offset", "row_row", "row_sign")
    arrays = {name: getattr(saved, name)[kept] for name in names}
    return replace(saved, **arrays, row_points=saved.row_points.take(kept))


def logs(chance: random.Random) -> tuple[list[Feature], list[Label]]:
    """Return two logs in which everything happens that may."""
    features = [(_step(chance), None if chance.random() < 0.05 else str(chance.randint(0, 15))) for _ in range(ROWS)]
    labels = [(_step(chance), str(chance.randint(0, 15)), chance.choice([-1, 1, 1, 0])) for _ in range(ROWS)]
    return features_of(features), labels_of(labels)


def _step(chance: random.Random) -> int:
    """Return how much later a record is: seldom after a pause, and seldom by a wrong clock."""
    if chance.random() < 0.06:
        return chance.choice([70_000, WRONG_MS, 10**15])
    return chance.randint(-1, 3)


def holds(kind: type[Shipped], seed: int) -> bool:
    """Run a world, and tell whether points and letters are those of the plain implementation over whole logs."""
    chance = random.Random(seed)
    features, labels = logs(chance)
    expected, letters, _, _ = join(features, labels, rules())
    begun = kind(0, rules(), 1, FLOAT, Position(0), Position(0))

    def restarted(joiner: Shipped) -> Shipped:
        return kind.restored(0, rules(), 1, FLOAT, joiner.forgets(joiner.state()))  # type: ignore[return-value]

    _, points, found = read_at_random(begun, features, labels, chance, restarted)
    return points == expected and sorted(told(found)) == sorted(letters)


def test_the_shipped_joiner_breaks_nothing() -> None:
    """In none of the worlds."""
    assert [seed for seed in range(WORLDS) if not holds(Shipped, seed)] == []


@pytest.mark.parametrize(
    "defect",
    [
        LosesEarlyLabels,
        IgnoresTheHorizon,
        TakesLabelsTwice,
        ReadsFeaturesAgain,
        MergesByArrival,
        TakesTheNewestTime,
        ForgetsTheTime,
    ],
)
def test_a_planted_defect_is_found(defect: type[Shipped]) -> None:
    """In one of the worlds at least, most often in the first few."""
    assert any(not holds(defect, seed) for seed in range(WORLDS))


@pytest.mark.parametrize("wrong", ["every timestamp counts", "a leap never counts", "what follows is not waited for"])
def test_a_planted_defect_of_the_time_of_a_log_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of the worlds at least."""
    shipped = log_time.decided

    def decided(
        timestamp_ms: NDArray[np.int64], last: NDArray[np.bool_], begun_ms: int, *, closed: bool = False
    ) -> Decided:
        if wrong == "what follows is not waited for":
            return shipped(timestamp_ms, last, begun_ms, closed=True)
        near = timestamp_ms < 60_000 if wrong == "a leap never counts" else timestamp_ms >= -1
        times = np.maximum.accumulate(np.maximum(np.where(near, timestamp_ms, -1), begun_ms))
        return Decided(times, 0, -1)

    monkeypatch.setattr(log_time, "decided", decided)
    assert any(not holds(Shipped, seed) for seed in range(WORLDS))
