r"""STDA-SVM: a decomposition method that steps along many violating pairs at once.

Problem (the dual of `streamsvm.svm.problem`), with a box of its own for each point:

    min f(a) = 1/2 sum_ij a_i a_j y_i y_j k_ij - sum_i a_i,   0 <= a_i <= C_i,   sum_i y_i a_i = 0.

Source: Liuzzi, Lucidi, Manno and Rinaldi 2015 ("the paper"), Algorithms 1 to 4; q, eta and the tolerance have the
paper's defaults. Comments of the code give the steps of Algorithm 4. Where we differ, and why:

*Variables.* We keep b_i = y_i a_i, so that sum b_i = 0, min(0, y_i C_i) <= b_i <= max(0, y_i C_i), and
F_i = grad f_i / y_i = sum_j b_j k_ij - y_i. Then R (eq. 3) holds the points whose b may rise, S (eq. 4) those whose b
may fall, and a direction adds t to b_j, j in R, and takes it from b_i, i in S, with t between
max(low_j - b_j, b_i - high_i) and min(high_j - b_j, b_i - low_i): the four lines of bounds in Section 3.3 are this one.

*Sign.* Equation (9) has i in R and d_i = 1/y_i; Algorithms 1 to 3 call i-bar the point of S and give it -1/y_i. It is
one direction under two names. We say `rising` (the point of R, with small F) and `falling` (of S).

*Linear term.* Section 3.3 drops D'e because "D'e = 0". That holds only where the pair's labels agree (else it is +-2).
The linear term of the subproblem is D' grad f, which is F_rising - F_falling < 0 for each direction.

*Optimality of the subproblem.* The two printed conditions are the same line. With g_l = F_rising - F_falling at the new
point they should read: g_l >= 0 if t_l = l_l; g_l = 0 inside; g_l <= 0 if t_l = u_l.

*Number of directions.* `while (m <= q)` admits q + 1; we take at most q, as the text says.

*First level.* The printed test, violation > eta Delta, falls below the tolerance when Delta nears it: the first level
would polish pairs that are optimal already and never return to the violating ones. We test > max(eta Delta, eps).

Floating point: everything is float64; points are centred first (the kernel matrix of the RBF does not change; that of
the linear kernel changes by terms that sum b_i = 0 cancels). F is updated by increments; when the stopping rule is met
F is recomputed from scratch, and the run goes on if the true gap is larger. No chance, no clock: the same problem gives
the same bits on the same build, CPU and number of BLAS threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.model.kernels import Float, LinearKernel
from streamsvm.svm.problem import Problem, Solution, answered, scores_without_bias

Method = Literal["stda", "svmlight"]
Places = NDArray[np.intp]

NEWTON_STEPS = 50
"""Most faces of the box on which a subproblem is minimised; nearly always fewer than ten are needed."""
RIDGE = 1e-12
"""Least curvature, and multiple of the mean curvature, added to the Hessian: duplicated points make it singular."""
PAIR_STEPS = 5_000
"""Most steps inside one of SVMLight's working sets."""
SUBPROBLEM_ACCURACY = 0.1
"""Share of the tolerance to which subproblems are solved."""


@dataclass(frozen=True, slots=True)
class PaperStdaSolver:
    """STDA-SVM to the letter, or SVMLight's subproblem on the same selection.

    Attributes
    ----------
    method : str
        `stda`, or `svmlight`: no first level, and the subproblem is over the 2 q variables themselves, with the
        equality constraint (Joachims 1998). For comparison.
    directions : int
        q, the most directions of an iteration; fewer if the cache cannot hold two columns of each.
    eta : float
        In (0, 1]: how violating a pair from the cache must be, as a share of the most violating pair.
    cache_bytes : int
        Bound on the bytes of the most recently used columns of the kernel matrix. The paper gives none.
    """

    method: Method = "stda"
    directions: int = 15
    eta: float = 0.1
    cache_bytes: int = 200 << 20

    def solve(self, problem: Problem) -> Solution:
        """Solve from a cold start.

        Raises
        ------
        ValueError
            As of `streamsvm.svm.problem.answered`, or if not even the two columns of one direction fit into the cache.
        """
        return answered(problem, self._solve)

    def _solve(self, problem: Problem) -> Solution:
        """Solve by Algorithm 4."""
        n, kernel, tolerance = len(problem.y), problem.kernel, problem.tolerance
        room = self.cache_bytes // (8 * n)
        if room < 2:
            raise ValueError(f"cache_bytes = {self.cache_bytes} has no room for 2 columns; give at least {16 * n}")
        q = min(self.directions, room // 2)
        centre = problem.Z.mean(axis=0)
        Z, y = problem.Z - centre, problem.y.astype(np.float64)
        low, high = np.minimum(y * problem.upper, 0.0), np.maximum(y * problem.upper, 0.0)
        b, F, exact = np.zeros(n), -y, True
        cache: dict[int, Float] = {}  # columns of the kernel matrix, the least recently used first
        iterations = columns = 0
        while True:
            may_rise, may_fall = b < high, b > low  # Step 1: R and S
            rising, falling = violating_pairs(F, np.flatnonzero(may_rise), np.flatnonzero(may_fall), q, 0.0)
            delta = np.max(F[falling[:1]] - F[rising[:1]], initial=0.0)
            optimal = delta < tolerance
            if (optimal and exact) or (not optimal and iterations == problem.max_iterations):
                break
            if not optimal:
                if self.method == "stda":  # Step 2, first level; else the pairs chosen among all points stand
                    cached = np.sort(np.fromiter(cache, np.intp))
                    at_hand = violating_pairs(
                        F, cached[may_rise[cached]], cached[may_fall[cached]], q, max(self.eta * delta, tolerance)
                    )
                    if len(at_hand[0]) >= 2:
                        rising, falling = at_hand
                members = np.concatenate([rising, falling])
                missing = [i for i in members.tolist() if i not in cache]
                if missing:
                    cache |= zip(missing, map(np.copy, kernel.gram(Z[missing], Z)), strict=True)
                    columns += len(missing)
                for i in members.tolist():
                    cache[i] = cache.pop(i)
                while len(cache) > room:
                    del cache[next(iter(cache))]
                C = np.stack([cache[i] for i in members.tolist()])
                solve = along_directions if self.method == "stda" else over_working_set
                accuracy = SUBPROBLEM_ACCURACY * tolerance
                moved = solve(C[:, members], F[members], b[members], low[members], high[members], accuracy)
                change = moved - b[members]
                if change.any():
                    F = F + change @ C
                    b[members] = moved  # Step 4
                    iterations, exact = iterations + 1, False
                    continue
                if exact:
                    break  # no step changes any variable any more
            F, exact = scores_without_bias(Z, y, y * b, kernel) - y, True
        free = may_rise & may_fall
        # Without a free variable the optimality conditions leave an interval for the bias: its middle.
        intercept = -F[free].mean() if free.any() else -0.5 * (F[may_fall].max() + F[may_rise].min())
        coefficients = None
        if isinstance(kernel, LinearKernel):
            coefficients = Z.T @ b
            intercept -= coefficients @ centre
        return Solution(
            alpha=y * b,
            intercept=float(intercept),
            iterations=iterations,
            converged=bool(optimal),
            coefficients=coefficients,
            columns=columns,
        )


def violating_pairs(F: Float, R: Places, S: Places, q: int, threshold: float) -> tuple[Places, Places]:
    """Select at most q pairs, the most violating first: Algorithm 1, and the loops of Algorithms 2 and 3.

    Returns the point of R and the point of S of each pair. F_S - F_R is more than `threshold` >= 0 in each, so that
    the F of every selected point of S exceeds that of every selected point of R: no point is in two pairs.
    """
    rising = R[np.argsort(F[R], kind="stable")[:q]]
    falling = S[np.argsort(-F[S], kind="stable")[:q]]
    most = min(len(rising), len(falling))
    pairs = int(np.count_nonzero(F[falling[:most]] - F[rising[:most]] > threshold))
    return rising[:pairs], falling[:pairs]


def along_directions(K: Float, F: Float, b: Float, low: Float, high: Float, accuracy: float) -> Float:
    """Return b after Algorithm 4, Step 3 (eq. 18): the first half rises by t, the second falls by t."""
    p = len(b) // 2
    D = np.vstack([np.eye(p), -np.eye(p)])
    back, forth = low - b, high - b
    shortest, longest = np.maximum(back[:p], -forth[p:]), np.minimum(forth[:p], -back[p:])
    step = D @ minimise_in_box(D.T @ K @ D, D.T @ F, shortest, longest, accuracy)
    # Who reaches a bound stands on it exactly: a rounding error away it would be chosen for ever.
    return np.where(step >= forth, high, np.where(step <= back, low, b + step))


@njit(cache=True, nogil=True)
def over_working_set(K, F, b, low, high, accuracy):  # type: ignore[no-untyped-def]
    """Return b at the minimum over all the variables given, their sum fixed, by steps along the most violating pair.

    Joachims 1998 leaves the method open. For 30 variables any exact method gives the same iterates.
    """
    moved, gradient = b.copy(), F.copy()
    for _ in range(PAIR_STEPS):
        rise = fall = -1
        for i in range(len(b)):
            if moved[i] < high[i] and (rise < 0 or gradient[i] < gradient[rise]):
                rise = i
            if moved[i] > low[i] and (fall < 0 or gradient[i] > gradient[fall]):
                fall = i
        if rise < 0 or fall < 0 or gradient[fall] - gradient[rise] <= accuracy:
            break
        up, down = high[rise] - moved[rise], moved[fall] - low[fall]
        curvature = max(K[rise, rise] + K[fall, fall] - 2.0 * K[rise, fall], RIDGE)
        t = min((gradient[fall] - gradient[rise]) / curvature, up, down)
        moved[rise] = high[rise] if t == up else moved[rise] + t
        moved[fall] = low[fall] if t == down else moved[fall] - t
        gradient += t * (K[rise] - K[fall])
    return moved


def minimise_in_box(H: Float, c: Float, low: Float, high: Float, accuracy: float) -> Float:
    """Minimise 1/2 t'Ht + c't, low <= t <= high, low <= 0 <= high, by Newton steps on the faces of the box.

    Variables that a bound holds back (they stand on it and the gradient pushes outward) stay. The others follow Newton
    directions from bound to bound, staying at each bound met, to the minimum of a face; then held variables are chosen
    anew. H is positive semidefinite. Ends when no free variable has a gradient above `accuracy`.
    """
    t, gradient = np.zeros(len(c)), c
    for _ in range(NEWTON_STEPS):
        free = np.flatnonzero(~((t <= low) & (gradient >= 0) | (t >= high) & (gradient <= 0)))
        if np.max(np.abs(gradient[free]), initial=0.0) <= accuracy:
            break
        while len(free):
            G = H[np.ix_(free, free)]
            ridge = max(RIDGE * G.trace() / len(free), RIDGE)
            direction = np.linalg.solve(G + ridge * np.eye(len(free)), -gradient[free])
            bound = np.where(direction < 0, low[free], high[free])
            room = bound - t[free]
            share = np.ones(len(free))
            blocked = np.abs(room) < np.abs(direction)
            share[blocked] = room[blocked] / direction[blocked]
            first = share.argmin()
            t[free] = np.clip(t[free] + share[first] * direction, low[free], high[free])
            if share[first] < 1:
                t[free[first]] = bound[first]
            gradient = c + H @ t
            if share[first] == 1:
                break
            free = np.delete(free, first)
    return t
