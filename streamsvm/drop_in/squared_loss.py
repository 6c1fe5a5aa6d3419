r"""Linear machines whose loss is squared: how far they are from the optimum, and Newton's method to get there.

Problem, of coefficients v with that of the intercept as the last, rows s_i (a class's sign times the row, the scaling
of the intercept beside it), heights h_i and penalties c_i:

    min P(v) = R(v) + sum_i c_i max(0, h_i - <s_i, v>)^2,   R(v) = |v|^2 / 2, or |v|_1.

Its dual, over a_i >= 0: max sum_i a_i h_i - a_i^2 / (4 c_i) - |sum_i a_i s_i|^2 / 2; with |v|_1 the last term is absent
and no entry of sum_i a_i s_i may exceed 1 in magnitude. At any v a dual point is 2 c_i max(0, h_i - <s_i, v>) times a
factor, so the gap needs nothing but v: LIBLINEAR says only that it ended.

Source of the method: Keerthi and DeCoste 2005, "A modified finite Newton method for fast solution of large scale linear
SVMs"; the line search is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, solve

from streamsvm.model.kernels import Float

MOST_COLUMNS: Final = 2_000
"""Columns of a problem that Newton's method solves: a step factorises a matrix of so many rows and columns."""
MOST_STEPS, MOST_HALVINGS = 60, 60
"""Newton's steps, of which ten are usual; halvings of an interval in a line search, which leave rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SquaredLoss:
    """A problem of this module.

    Attributes
    ----------
    S : ndarray or CSR array of shape (n, d + 1)
        The s_i.
    height, penalty : ndarray of shape (n,)
        The h_i and c_i; penalties are positive.
    absolute : bool
        Whether R is |v|_1.
    """

    S: Any
    height: Float
    penalty: Float
    absolute: bool = False

    @property
    def is_newtons(self) -> bool:
        """Whether `newton` can solve it."""
        return not self.absolute and self.S.shape[1] <= MOST_COLUMNS

    def gap(self, v: Float) -> float:
        """Return the duality gap at v over P(v), computed from scratch; infinite where it is not a number."""
        with np.errstate(all="ignore"):
            short = self._short(v)
            a = 2.0 * self.penalty * short
            along = np.asarray(self.S.T @ a).ravel()
            loss = float(self.penalty @ (short * short))
            primal = loss + float(np.abs(v).sum() if self.absolute else 0.5 * (v @ v))
            # a_i^2 / (4 c_i) sums to the loss.
            gain = float(a @ self.height)
            if self.absolute:
                steep = float(np.abs(along).max(initial=0.0))
                t = min(gain / (2.0 * loss), 1.0 / steep) if loss > 0.0 and steep > 0.0 else 0.0
                gap = primal - t * gain + t * t * loss
            else:
                curve = float(along @ along) + 2.0 * loss
                t = max(0.0, gain / curve) if curve > 0.0 else 0.0
                # With the factor 1 the gap is the gradient's square, without a difference of large numbers.
                gap = min(primal - 0.5 * t * gain, 0.5 * float((v - along) @ (v - along)))
            if not (np.isfinite(primal) and np.isfinite(gap)):
                return np.inf
            return max(0.0, gap) / primal if primal > 0.0 else 0.0

    def newton(self, v: Float, gap: float) -> tuple[Float, int, float]:
        """Return coefficients, steps, and the relative gap reached, from v on; R is |v|^2 / 2.

        Parameters
        ----------
        v : ndarray of shape (d + 1,)
            A start; from 0 if it is not finite.
        gap : float
            At which to stop.
        """
        best = v if np.isfinite(v).all() else np.zeros(len(v))
        reached, v = self.gap(best), best
        for step in range(MOST_STEPS):
            if reached <= gap:
                return best, step, reached
            with np.errstate(all="ignore"):
                moved = self._step(v)
            if moved is None:
                return best, step, reached
            v, found = moved, self.gap(moved)
            if found < reached:
                best, reached = v, found
        return best, MOST_STEPS, reached

    def _short(self, v: Float) -> Float:
        short: Float = np.maximum(0.0, self.height - np.asarray(self.S @ v).ravel())
        return short

    def _step(self, v: Float) -> Float | None:
        """Return the least point on Newton's line; None where rounding leaves none."""
        lacks = self.height - np.asarray(self.S @ v).ravel()
        active = np.flatnonzero(lacks > 0.0)
        part, weight = self.S[active], 2.0 * self.penalty[active]
        gradient = v - np.asarray(part.T @ (weight * lacks[active])).ravel()
        if isinstance(part, np.ndarray):
            H = part.T @ (weight[:, None] * part)
        else:
            H = (part.T @ (sparse.diags_array(weight) @ part)).toarray()
        H[np.diag_indices_from(H)] += 1.0
        unit = 1.0 / np.sqrt(np.diagonal(H))
        try:
            direction = -unit * solve(unit[:, None] * H * unit, unit * gradient, assume_a="pos")
        except (LinAlgError, ValueError):
            return None
        t = self._least_on_line(v, direction, lacks)
        moved = v + t * direction
        return None if np.array_equal(moved, v) or not np.isfinite(moved).all() else moved

    def _least_on_line(self, v: Float, direction: Float, lacks: Float) -> float:
        """Return t > 0 where the derivative of P(v + t direction), which only grows, is 0."""
        falls = np.asarray(self.S @ direction).ravel()
        start, curve, weight = float(v @ direction), float(direction @ direction), 2.0 * self.penalty * falls

        def slope(t: float) -> float:
            return start + t * curve - float(weight @ np.maximum(0.0, lacks - t * falls))

        low, high = 0.0, 1.0
        if abs(slope(1.0)) <= 1e-12 * abs(slope(0.0)):
            return 1.0
        while slope(high) < 0.0 and high < 1e12:
            low, high = high, 2.0 * high
        for _ in range(MOST_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
        return high


def beside(X: Any, sign: Float | None, scaling: float) -> Any:
    """Return rows with the scaling of the intercept beside them, each times its sign; dense, or CSR."""
    n = X.shape[0]
    sign = np.ones(n) if sign is None else sign
    if isinstance(X, np.ndarray):
        return sign[:, None] * np.column_stack((X, np.full(n, scaling)))
    column = sparse.csr_array(np.full((n, 1), scaling))
    return (sparse.diags_array(sign) @ sparse.hstack((sparse.csr_array(X), column), format="csr")).tocsr()


def both_ways(S: Any) -> Any:
    """Return rows and their negatives, one after the other."""
    return np.vstack((S, -S)) if isinstance(S, np.ndarray) else sparse.vstack((S, -S), format="csr")
