r"""How much one point can matter to the objective whatever the model, and lower bounds of the optimum.

The problem of a weighted set P, U = sum of u, lambda the penalty (LIBSVM's C), the bias b not regularised:

    f(p, w, b) = |w|^2 / (2 U) + lambda max(0, 1 - y (<w, z> + b)),      F = sum over P of u f
    s(p) = sup over (w, b) of u(p) f(p, w, b) / F(w, b)                            (Definition 3)

Source: Lemma 5.3 of Tukan, Baykal, Feldman and Rus 2020, here with one cluster per label.

Let P_i be the points of p's label, c their weighted mean, U_i their weight, and p_delta = c - y z, of which the bias
takes no part: all of one label have the same last entry of y (z, 1). As the hinge loss h is convex and grows by at most
<p_delta, w>,

    f(p) <= f(c) + lambda [<w, p_delta>]_+ <= (F(P) - F(P \ P_i)) / U_i + lambda [<w, p_delta>]_+,
    s(p) / u(p) <= 1 / U_i + lambda sup g,    g(w, b) = ([<w, p_delta>]_+ - alpha |w|^2) / F(w, b),
    alpha = U(P \ P_i) / (2 lambda U U_i)                                          (eq. 13)

`direct_bound`, ours, bounds g without the lemma's cases and without a gradient. F(w, b) >= max(opt, |w|^2 / 2). Write
a = |p_delta|, beta = a / sqrt(opt) and r = |w|. Then

    g <= (a r - alpha r^2) / max(opt, r^2 / 2),

where the right side rises up to r = min(a / (2 alpha), sqrt(2 opt)) and falls from there, so

    g <= beta^2 / (4 alpha)               if beta <= 2 sqrt(2) alpha,
    g <= sqrt(2) beta - 2 alpha           otherwise.

It has no floor: a point at the mean has g = 0. It is attained for separable data with p_delta parallel to w*.

Every bound falls as opt grows, so opt must be a *lower* bound of the optimum: an F(w~) in its place, without the xi
taken off, under-states sensitivities. A dual objective certifies one: `dual_bound`, or `mean_bound` in closed form. As
s(p) <= 1 by definition, so is its bound. With opt = 0, where one label only is present, no bound but 1 holds.
"""

from __future__ import annotations

import numpy as np

from streamsvm.compiling import njit
from streamsvm.linalg import Float
from streamsvm.points import Signs


def direct_bound(alpha: Float, distance: Float, optimum: float) -> Float:
    """Bound g by F >= max(opt, |w|^2 / 2); see the module."""
    beta = distance / np.sqrt(optimum)
    near = beta <= 2.0 * np.sqrt(2.0) * alpha
    curved = np.divide(beta * beta, 4.0 * alpha, out=np.zeros_like(beta), where=near & (alpha > 0))
    return np.asarray(np.where(near, curved, np.sqrt(2.0) * beta - 2.0 * alpha), dtype=np.float64)


def mean_bound(Z: Float, y: Signs, weight: Float, penalty: float) -> float:
    r"""Return a lower bound of the optimum in closed form, positive if and only if both labels are present.

    The dual point a_i = theta u_i / U_y keeps sum a y = 0 and gives D = 2 theta - theta^2 |mu_+ - mu_-|^2 / 2, mu the
    weighted means of the labels; 0 <= theta <= lambda min(U_+, U_-) keeps it feasible. The best such theta is taken.
    Weak where labels overlap much, but it never fails: a solver that stopped early is held to it.
    """
    sums, totals = _sum_labels(Z, y, weight)
    if not totals.all():
        return 0.0
    means = sums / totals[:, None]
    apart = means[1] - means[0]
    squared = float(np.einsum("i,i->", apart, apart))
    most = penalty * float(totals.min())
    theta = most if most * squared <= 2.0 else 2.0 / squared
    return 2.0 * theta - 0.5 * theta * theta * squared


def dual_bound(Z: Float, y: Signs, upper: Float, alpha: Float) -> float:
    r"""Return the dual objective of a solver's answer made exactly feasible: a certified lower bound of the optimum.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), -1 or +1, both present
    upper : ndarray of shape (n,), lambda u
    alpha : ndarray of shape (n,)
        Any numbers; how good they are decides how good the bound is.

    Notes
    -----
    Clipped to the box; the label with the greater sum is scaled down to the other's, so that sum a y = 0 up to
    rounding; then all are scaled by the s in [0, 1] that makes D(s a) = s sum a - s^2 |w|^2 / 2 greatest. A relative
    margin of 1e-9 is taken off for rounding. No BLAS, whose bits depend on the number of threads.
    """
    feasible = np.clip(alpha, 0.0, upper)
    sums, totals = _sum_labels(Z, y, feasible)
    if not totals.all():
        return 0.0
    least = float(totals.min())
    w = sums[1] * (least / totals[1]) - sums[0] * (least / totals[0])
    total, norm = 2.0 * least, float(np.einsum("i,i->", w, w))
    s = 1.0 if norm <= total else total / norm
    return max(0.0, (s * total - 0.5 * s * s * norm) * (1.0 - 1e-9))


@njit(cache=True, nogil=True)
def _sum_labels(Z, y, share):  # type: ignore[no-untyped-def]
    """Return the sums of share z, shape (2, d), and of shares, shape (2,), of the labels -1 and +1."""
    sums, totals = np.zeros((2, Z.shape[1])), np.zeros(2)
    for i in range(len(y)):
        label, own = 1 if y[i] > 0 else 0, share[i]
        totals[label] += own
        for j in range(Z.shape[1]):
            sums[label, j] += own * Z[i, j]
    return sums, totals
