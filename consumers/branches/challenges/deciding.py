"""What a challenge is decided by: its rule, the rows that count, and what its record says of the look that ended it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsvm.branches.challenges.record import Challenge
from streamsvm.branches.challenges.rule import Compared, Rule
from streamsvm.branches.challenges.served import Served

FIGURES: Final = ("labels", "terms", "champion", "challenger", "difference", "low", "high", "evidence", "against")
"""What the record of a challenge says of the look that it ended with, under the names of `Compared`."""


def rule_of(challenge: Challenge) -> Rule:
    """Return the rule that a challenge is decided by."""
    return Rule(figure=challenge.figure, labels=challenge.labels, costs=challenge.costs, alpha=challenge.alpha)


def figures_of(compared: Compared) -> dict[str, Any]:
    """Return what the record of a challenge says of the look that it ended with."""
    return {name: getattr(compared, name) for name in FIGURES}


def paired(found: Served, challenge: Challenge) -> Served:
    """Return the rows that this champion was served for, with this challenger in its shadow."""
    versions, shadows = found.column("version"), found.column("shadow_version")
    return found.where((versions == challenge.champion.number) & (shadows == challenge.challenger.number))


def unpaired(found: Served, challenge: Challenge) -> int:
    """Return how many rows one of the two has scored without the other: they count for nothing."""
    by_champion = found.column("version") == challenge.champion.number
    return int(np.count_nonzero(by_champion != (found.column("shadow_version") == challenge.challenger.number)))
