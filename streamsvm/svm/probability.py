r"""From a decision value to a probability of the positive label.

*Sigmoid* (Platt): P(y = 1 | f) = 1 / (1 + exp(a f + b)), a and b by maximum likelihood. Two numbers; right where the
classes' decision values are about normal.

It has Platt's targets in place of 1 and 0: (n+ + 1) / (n+ + 2) for a positive point and 1 / (n- + 2) for a negative
one. So it stays finite where decision values separate the labels.

Invariant: of the same decision values, labels and weights in the same order comes the same function, to the last bit.

What is fitted are points that stand for a stream, by weights of any scale: they are scaled to sum to the number of
points, since that, and not the length of the stream, is how much is known. Platt's targets depend on it.

The fit is scikit-learn's `LogisticRegression` without a penalty on each point twice, once a label, its weight divided
by its target. `CalibratedClassifierCV(FrozenEstimator(...))` is the oracle of the tests. It is imported where it fits:
most models have no probability, and the import takes a second and 130 MB.

Sources: Platt 1999; Lin, Lin and Weng 2007 (that the likelihood is convex).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.kernels import Float
from streamsvm.model.probability import Sigmoid

LEAST_POINTS: Final = 10
"""Points of each label without which nothing is to be fitted: fewer say little about how often it is."""
TOLERANCE: Final = 1e-8
"""Gradient of the mean likelihood at which Platt's fit ends; Newton's last step leaves far less."""


def objection(decision: Float, y: NDArray[np.int8]) -> str:
    """Return why points do not suffice to fit probabilities; empty if they do."""
    for label, which in ((-1, "negative"), (1, "positive")):
        if (count := int(np.count_nonzero(y == label))) < LEAST_POINTS:
            return f"the audit sample holds {count} points of the {which} label, but {LEAST_POINTS} are needed"
    return "" if np.isfinite(decision).all() else "the decision value of a point of the audit sample is not finite"


def fit_probability(decision: Float, y: NDArray[np.int8], weight: Float) -> Sigmoid:
    """Fit probabilities to decision values of points that the machine need not know, and that have no `objection`.

    Parameters
    ----------
    decision : ndarray of shape (n,)
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    weight : ndarray of shape (n,), positive
        How much each point stands for, in any unit.
    """
    share = weight / weight.mean()
    positive, negative = float(share[y > 0].sum()), float(share[y < 0].sum())
    target = np.where(y > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    mean, spread = float(decision.mean()), float(decision.std())
    if not spread > np.finfo(np.float64).eps * abs(mean):
        mean_target = float(share @ target) / float(share.sum())
        return Sigmoid(0.0, float(np.log1p(-mean_target) - np.log(mean_target)))
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    z = ((decision - mean) / spread)[:, None]
    # Where the optimum is met to the last digit the line search finds nothing lower, says so, and L-BFGS confirms.
    with silenced(ConvergenceWarning, "Line search of Newton solver"):
        found: Any = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=TOLERANCE).fit(
            np.concatenate((z, z)),
            np.repeat([1, 0], len(z)),
            sample_weight=np.concatenate((share * target, share * (1.0 - target))),
        )
    slope, intercept = float(found.coef_[0, 0]) / spread, float(found.intercept_[0])
    return Sigmoid(-slope, slope * mean - intercept)


class _WhereSilenced:
    """Stands in a filter of warnings in place of a pattern: matches in those threads only that silence them.

    Who copies the filter by its `pattern`, as scikit-learn does for its workers, gets one that matches nothing.
    """

    pattern = "(?!)"

    def __init__(self, message: str) -> None:
        self._message = message
        self.here = ContextVar(message, default=False)  # each thread has its own value

    def match(self, text: str) -> bool:
        """Return whether this thread silences a warning."""
        return self.here.get() and text.startswith(self._message)


_SILENCERS: dict[tuple[type[Warning], str], _WhereSilenced] = {}


@contextmanager
def silenced(category: type[Warning], message: str = "") -> Iterator[None]:
    """Ignore a category of warnings, or those of it that begin with a message, in this thread while the block runs.

    One filter of each kind stays in the list for good, and asks for the thread. It is put back where somebody's
    `catch_warnings` took it away.
    """
    silencer = _SILENCERS.setdefault((category, message), _WhereSilenced(message))
    filters: Any = warnings.filters
    own = ("ignore", silencer, category, None, 0)
    if own not in filters:
        filters.insert(0, own)
    before = silencer.here.set(True)
    try:
        yield
    finally:
        silencer.here.reset(before)
