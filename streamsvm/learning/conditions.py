"""Conditions in which a model may be no better than one of a plain sample, or old: what each means, and when to say so.

A condition of the coreset is reported, in a log or by a warning, with the first count, then again each time the count
has grown tenfold: that stays short however long the condition lasts. Drift is reported once, when it begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streamsvm.coreset.drift import Drift

AGAIN_AT: Final = 10
"""Growth of a count after which it is worth saying again."""
MEANINGS: Final[Mapping[str, str]] = {
    "by_weight": "a coreset was made of points of one label only, and which of them will matter is not known yet: the "
    "coreset is a plain sample, and the model can be worse than one trained on a reservoir sample of the same memory",
    "crowded": "more than a third of the weight is active, as with label noise or a hard table: the coreset of this "
    "rbf machine is a plain sample, and the model is as good as one trained on a reservoir sample of the same memory",
    "uncalibrated": "a coreset has too few points for so many features to keep totals exact: expect the error of a "
    "plain sample",
    "strained": "keeping totals exact pushes weights of a coreset to their bounds: a few points stand for many, and "
    "the model is less accurate",
}
"""By the outcome, one of `streamsvm.coreset.reduce.Observed.counts`: what it is and what follows."""

DRIFTS: Final = "the newest rows come from another distribution than those before, which still count"


def moved(found: Drift, names: Sequence[str], labels: Sequence[object]) -> str:
    """Return the name of the feature, or the label, that drifts; features without names are numbered."""
    if found.feature is None:
        assert found.label is not None
        return f"the share of the label {labels[found.label]!r}"
    return f"the feature {names[found.feature] if names else f'x[{found.feature}]'}"


class Seldom:
    """Decides which conditions are due to be logged."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._drifting: frozenset[int] = frozenset()

    def due(self, counts: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return each condition of `Observed.counts` that is due, with its count; it is due again at ten times that."""
        due = [(name, counts[name]) for name in MEANINGS if counts[name] and counts[name] >= self._next.get(name, 1)]
        self._next |= {name: AGAIN_AT * count for name, count in due}
        return due

    def begun(self, drifts: Mapping[int, Drift]) -> dict[int, Drift]:
        """Return the drift of each partition that did not drift when this was called last."""
        begun = {partition: one for partition, one in drifts.items() if partition not in self._drifting}
        self._drifting = frozenset(drifts)
        return begun
