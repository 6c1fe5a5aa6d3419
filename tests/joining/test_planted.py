"""Random worlds of two logs and a joiner that is restarted: the shipped one breaks nothing, each planted defect does.

In each world labels come before their rows, twice, changed, past the horizon and for nobody; portions of both logs are
read in any order; and at a restart whatever is merged is gone from both logs, as retention may have it.
"""

from __future__ import annotations

import random
from typing import Final

import pytest

from consumers.branches.late_labels import joined_source
from streamsvm.joining.joiner import Joiner
from streamsvm.points import Position
from tests.defects import DEFECTS, planted
from tests.joining.reference import Feature, Label, join
from tests.joining.test_joiner import FLOAT, WRONG_MS, features_of, labels_of, read_at_random, rules, told

WORLDS: Final = 150
ROWS: Final = 40


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


def holds(seed: int) -> bool:
    """Run a world, and tell whether points and letters are those of the plain implementation over whole logs."""
    chance = random.Random(seed)
    features, labels = logs(chance)
    expected, letters, _, _ = join(features, labels, rules())
    begun = joined_source.Joiner(0, rules(), 1, FLOAT, Position(0), Position(0))

    def restarted(joiner: Joiner) -> Joiner:
        return joined_source.Joiner.restored(0, rules(), 1, FLOAT, joiner.state())

    _, points, found = read_at_random(begun, features, labels, chance, restarted)
    return points == expected and sorted(told(found)) == sorted(letters)


def test_the_shipped_joiner_breaks_nothing() -> None:
    """In none of the worlds."""
    assert [seed for seed in range(WORLDS) if not holds(seed)] == []


@pytest.mark.parametrize("name", [name for name, defect in DEFECTS.items() if defect.joined])
def test_a_planted_defect_is_found(name: str) -> None:
    """In one of the worlds at least, most often in the first few."""
    with planted(name):
        assert any(not holds(seed) for seed in range(WORLDS))
