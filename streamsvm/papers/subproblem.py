r"""The two subproblems of a decomposition step, each a few dozen variables, solved to rounding or nearly so.

Box:       min_t 1/2 t'Ht + c't,   low <= t <= high            (STDA: one step length t_l a direction)
Equality:  min_b 1/2 b'Kb + p'b,   low <= b <= high, sum_i b_i fixed      (SVMLight: the variables themselves)

Both start from the present point, which is feasible, and never raise the objective. H and K may be singular
(duplicated points).
"""

from __future__ import annotations

import numpy as np

from streamsvm.compiling import njit

NEWTON_STEPS = 50
"""Most steps of projected Newton; the set of active bounds is nearly always found in fewer than ten."""

HALVINGS = 10
"""Most halvings of a step on the projection arc, before a walk from bound to bound takes its place."""

ARMIJO = 1e-4
"""Share of the promised decrease that a step must bring."""

RIDGE = 1e-12
"""Multiple of the mean diagonal that is added to the Hessian of the free variables, for singular ones."""

PAIR_STEPS = 5_000
"""Most pair steps inside one of SVMLight's working sets."""

LEAST_CURVATURE = 1e-12
"""Stands for the curvature along a pair where there is none, as LIBSVM's tau."""


@njit(cache=True, nogil=True)
def minimise_in_box(H, c, low, high, accuracy, t):  # type: ignore[no-untyped-def]
    """Minimise 1/2 t'Ht + c't over a box by Bertsekas' projected Newton method.

    At each step the variables that a bound holds back (they stand on it and the gradient pushes outward) are left
    where they are; the others follow the Newton direction along the projection arc, with Armijo's rule. Where H is
    singular (a linear kernel in fewer dimensions than directions, duplicated points) that direction may be so long that
    no reasonable part of the arc descends; then the step goes straight, from bound to bound, to the minimum of a face.

    Parameters
    ----------
    H : ndarray of shape (m, m), float64
        Symmetric, positive semidefinite.
    c, low, high : ndarray of shape (m,), float64
        low <= 0 <= high.
    accuracy : float
        Largest gradient entry of a free variable at which to stop.
    t : ndarray of shape (m,), float64
        In: a feasible point. Out: the minimiser.

    Returns
    -------
    float
        The decrease of the objective, never negative.

    Notes
    -----
    Source: Bertsekas 1982, "Projected Newton methods for optimization problems with simple constraints", which Liuzzi
    et al. 2015 cite for Algorithm 4, Step 3.
    """
    m = len(c)
    gradient = c + _product(H, t)
    decrease = 0.0
    for _ in range(NEWTON_STEPS):
        free, count = _free_variables(gradient, t, low, high, accuracy)
        if count == 0:
            break
        direction = _newton_direction(H, gradient, free[:count], m)
        gain = _along_the_arc(H, gradient, direction, low, high, t)
        if gain <= 0.0:
            gain = _within_a_face(H, gradient, low, high, free[:count], t)
        if gain <= 0.0:
            break
        decrease += gain
        gradient = c + _product(H, t)
    return decrease


@njit(cache=True, nogil=True)
def _product(H, t):  # type: ignore[no-untyped-def]
    """Return H t; for so few variables a loop costs no more than BLAS, and compiles in a fraction of the time."""
    product = np.zeros(len(t))
    for i in range(len(t)):
        for j in range(len(t)):
            product[i] += H[i, j] * t[j]
    return product


@njit(cache=True, nogil=True)
def _free_variables(gradient, t, low, high, accuracy):  # type: ignore[no-untyped-def]
    """Return the variables that no bound holds back, and their count; 0 if their gradient is below `accuracy`."""
    m = len(t)
    free = np.empty(m, np.int64)
    count = 0
    steepest = 0.0
    for i in range(m):
        fixed = (t[i] <= low[i] and gradient[i] >= 0.0) or (t[i] >= high[i] and gradient[i] <= 0.0)
        if not fixed:
            free[count] = i
            count += 1
            steepest = max(steepest, abs(gradient[i]))
    return free, count if steepest > accuracy else 0


@njit(cache=True, nogil=True)
def _newton_direction(H, gradient, free, m):  # type: ignore[no-untyped-def]
    """Solve (H + ridge I) d = -gradient over the free variables by Cholesky; 0 elsewhere."""
    k = len(free)
    ridge = 0.0
    for i in free:
        ridge += H[i, i]
    ridge = max(RIDGE * ridge / k, LEAST_CURVATURE)
    L = np.zeros((k, k))
    d = np.zeros(k)
    for r in range(k):
        for s in range(r + 1):
            value = H[free[r], free[s]]
            for i in range(s):
                value -= L[r, i] * L[s, i]
            if s < r:
                L[r, s] = value / L[s, s]
            else:
                L[r, r] = np.sqrt(max(value + ridge, ridge))
        value = -gradient[free[r]]
        for i in range(r):
            value -= L[r, i] * d[i]
        d[r] = value / L[r, r]
    for r in range(k - 1, -1, -1):
        for s in range(r + 1, k):
            d[r] -= L[s, r] * d[s]
        d[r] /= L[r, r]
    direction = np.zeros(m)
    for r in range(k):
        direction[free[r]] = d[r]
    return direction


@njit(cache=True, nogil=True)
def _along_the_arc(H, gradient, direction, low, high, t):  # type: ignore[no-untyped-def]
    """Move t to the first point of the projection arc that decreases enough; return the decrease, 0 if none does."""
    m = len(t)
    step = np.empty(m)
    length = 1.0
    for _ in range(HALVINGS):
        promised = 0.0
        for i in range(m):
            step[i] = min(max(t[i] + length * direction[i], low[i]), high[i]) - t[i]
            promised -= gradient[i] * step[i]
        gain = promised - 0.5 * (step * _product(H, step)).sum()
        if gain > 0.0 and gain >= ARMIJO * promised:
            for i in range(m):
                t[i] = min(max(t[i] + length * direction[i], low[i]), high[i])
            return gain
        length *= 0.5
    return 0.0


@njit(cache=True, nogil=True)
def _within_a_face(H, gradient, low, high, free, t):  # type: ignore[no-untyped-def]
    """Follow Newton directions from bound to bound, holding each bound met, to the minimum of a face.

    Every direction descends, and the last variable left free can always move: so t does.

    Parameters
    ----------
    gradient : ndarray of shape (m,), float64
        At t; overwritten.
    free : ndarray of int64
        Variables that no bound holds back; overwritten.

    Returns
    -------
    float
        The decrease.
    """
    count = len(free)
    decrease = 0.0
    while count > 0:
        direction = _newton_direction(H, gradient, free[:count], len(t))
        length, first = _first_bound(direction, low, high, free[:count], t)
        change = _product(H, direction)
        decrease -= (length * direction * (gradient + 0.5 * length * change)).sum()
        for i in free[:count]:
            t[i] = min(max(t[i] + length * direction[i], low[i]), high[i])
        if first < 0:
            break
        blocked = free[first]
        t[blocked] = low[blocked] if direction[blocked] < 0.0 else high[blocked]
        free[first] = free[count - 1]
        count -= 1
        gradient += length * change
    return decrease


@njit(cache=True, nogil=True)
def _first_bound(direction, low, high, free, t):  # type: ignore[no-untyped-def]
    """Return how much of a direction fits into the box, at most 1, and the place in `free` of what stops it (or -1)."""
    length, first = 1.0, -1
    for k in range(len(free)):
        i = free[k]
        room = (low[i] if direction[i] < 0.0 else high[i]) - t[i]
        if direction[i] != 0.0 and abs(room) < length * abs(direction[i]):
            length, first = room / direction[i], k
    return length, first


@njit(cache=True, nogil=True)
def minimise_with_equality(K, gradient, low, high, accuracy, b):  # type: ignore[no-untyped-def]
    """Minimise 1/2 b'Kb + p'b over a box, the sum of b fixed, by steps along the most violating pair.

    Parameters
    ----------
    K : ndarray of shape (m, m), float64
        Symmetric, positive semidefinite.
    gradient : ndarray of shape (m,), float64
        In: at the present b. Out: at the minimiser.
    low, high : ndarray of shape (m,), float64
    accuracy : float
        Violation of the most violating pair at which to stop.
    b : ndarray of shape (m,), float64
        In: a feasible point. Out: the minimiser.

    Notes
    -----
    Joachims 1998 leaves the method open and Liuzzi et al. 2015 ran SVMLight with the interior-point solver LOQO. For 30
    variables any exact method gives the same iterates; this one needs no linear algebra.
    """
    m = len(b)
    for _ in range(PAIR_STEPS):
        rise, fall = -1, -1
        for i in range(m):
            if b[i] < high[i] and (rise < 0 or gradient[i] < gradient[rise]):
                rise = i
            if b[i] > low[i] and (fall < 0 or gradient[i] > gradient[fall]):
                fall = i
        if rise < 0 or fall < 0 or gradient[fall] - gradient[rise] <= accuracy:
            return
        curvature = max(K[rise, rise] + K[fall, fall] - 2.0 * K[rise, fall], LEAST_CURVATURE)
        t = (gradient[fall] - gradient[rise]) / curvature
        if t >= high[rise] - b[rise] or t >= b[fall] - low[fall]:
            t = min(high[rise] - b[rise], b[fall] - low[fall])
        move_pair(b, low, high, rise, fall, t)
        for i in range(m):
            gradient[i] += t * (K[i, rise] - K[i, fall])


@njit(cache=True, nogil=True)
def move_pair(b, low, high, rise, fall, t):  # type: ignore[no-untyped-def]
    """Add t to b[rise] and take it from b[fall]; who reaches a bound stands on it exactly.

    Without the exactness a variable a rounding error away from its bound would count as free and be chosen for ever.
    """
    to_high, to_low = high[rise] - b[rise], b[fall] - low[fall]
    from_low, from_high = low[rise] - b[rise], b[fall] - high[fall]
    b[rise] = high[rise] if t >= to_high else (low[rise] if t <= from_low else b[rise] + t)
    b[fall] = low[fall] if t >= to_low else (high[fall] if t <= from_high else b[fall] - t)
