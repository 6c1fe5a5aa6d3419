"""What decision values answer, and how much of the weight is answered right: of two labels, or of more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.kernels import Float
from streamsvm.points import NO_CODE

Labels = NDArray[np.int8] | NDArray[np.bool_]


def answers(decision: Float, border: float = 0.0) -> NDArray[np.int8]:
    """Return the label of each row's decision as `Points.y` has labels; `NO_CODE` where the decision is not finite.

    Parameters
    ----------
    decision : ndarray of shape (n,) of two labels, (n, n_classes) of more
    border : float
        Of two labels: above it the answer is the second one.
    """
    if decision.ndim == 1:
        said = 2 * (decision > border).astype(np.int8) - 1
        said[~np.isfinite(decision)] = NO_CODE
        return said
    finite = np.isfinite(decision).all(axis=1)
    return np.where(finite, decision.argmax(axis=1), NO_CODE).astype(np.int8)


def accuracy(said: Labels, y: Labels, weight: Float) -> float:
    """Return the share of the weight that is answered right."""
    return float(weight[said == y].sum() / weight.sum())


def balanced_accuracy(said: Labels, y: Labels, weight: Float) -> float:
    """Return the mean, over the labels of `y`, of the share of a label's weight that is answered right."""
    own = [y == label for label in np.unique(y)]
    return float(np.mean([accuracy(said[rows], y[rows], weight[rows]) for rows in own]))
