"""Names the field that answers for the label by itself, where nearly all held-out rows are right.

A field's values are exchanged at random among the rows, and what the ranking loses by that is measured (permutation
importance; Breiman 2001). Two such fields hide one another, so if no field is missed the others are exchanged instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from streamsvm.points import Points

Float = NDArray[np.float64]

TOO_GOOD: Final = 0.999
"""Area under the curve above which a field is suspected that is known only after the outcome."""
MOST_OF_A_LABEL: Final = 1_000
"""Held-out rows of each label that are exchanged: each field costs an evaluation of the model on them."""
MISSED: Final = 0.05
"""Fall of the area below which a field is not missed."""


def suspected(decide: Callable[[Float], Float], test: Points, fields: Mapping[str, slice], seed: int) -> str:
    """Ask whether a field is known too late, and name the one that decides.

    Parameters
    ----------
    decide : callable
        Returns the decision values of rows, shape (n,).
    test : Points
        Held-out points of both labels.
    fields : mapping of str to slice
        The columns of each field.
    seed : int
    """
    random = np.random.default_rng(seed)
    rows = np.concatenate([random.permutation(np.flatnonzero(test.y == y))[:MOST_OF_A_LABEL] for y in (-1, 1)])
    X, y = test.X[rows].astype(np.float64), test.y[rows]
    exchanged = X[random.permutation(len(X))]

    def area(first: Float, second: Float, place: slice) -> float:
        mixed = first.copy()
        mixed[:, place] = second[:, place]
        return float(roc_auc_score(y, decide(mixed)))

    without = {name: area(X, exchanged, place) for name, place in fields.items()}
    name = min(without, key=without.__getitem__)
    question = "all rows right: is a field known too late?"
    if without[name] <= TOO_GOOD - MISSED:
        return f"{question} {name} decides: with its values exchanged at random the AUC is {without[name]:.3f}"
    alone = {name: area(exchanged, X, place) for name, place in fields.items()}
    name = max(alone, key=alone.__getitem__)
    return f"{question} {name} decides most: with the values of all others exchanged the AUC is {alone[name]:.3f}"
