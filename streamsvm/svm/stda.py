r"""STDA-SVM by blocks: the decomposition of the paper, with blocks that are solved inside.

This is the solver. `streamsvm.learning.training` poses the problem and calls `solve`. To read: `Descent.advance` (the
loop), `_solve_one` (one block), `_confirm` (when it ends); the compiled loops are in `streamsvm.svm.working_set`.

Problem (the dual of `streamsvm.svm.problem`), where each point has its own upper bound C_i:

    min f(a) = 1/2 sum_ij a_i a_j y_i y_j k_ij - sum_i a_i,   0 <= a_i <= C_i,   sum_i y_i a_i = 0.

Of a squared hinge k_ii is greater by 1 / (2 C_i), and the upper bounds are beyond the optimum: they keep a run finite.

Source: Liuzzi, Lucidi, Manno and Rinaldi 2015; this is not their method to the letter. The variables are b_i = y_i a_i
and F_i = grad f_i / y_i; the points of R are those whose b may rise, the points of S those whose b may fall. At the
optimum no F of a point in S is greater than an F of a point in R. The KKT gap is the greatest F in S less the least F
in R, and the solver ends when it is below the tolerance.

The first level of caching in the paper prefers pairs whose columns are cached, as long as their violation exceeds a
share eta of the largest one. Here the cache is a block W of a few hundred points with all kernel values among them:

1. points of S with the greatest F and of R with the least F join half of the previous block (`working_set.choose`);
2. pairs inside W are moved until the violation inside W is at most the share `SHARE` of its first value
   (`working_set.solve_block`);
3. F is brought up to date once, by the columns of the points that moved (`RbfBlocks.add`; for the linear kernel by the
   change of w).

Steps along pairs alone can take millions of steps where boxes are large and few features make the problem
ill-conditioned. Two other methods help then:

- Linear kernel, squared hinge: Newton's method on the primal problem (`streamsvm.svm.newton`) comes first.
- Linear kernel, hinge: when the pairs have cost `PATIENCE` of what an interior-point method would cost, that method
  runs once, and the blocks continue from its result (`streamsvm.svm.interior_point`).
- RBF kernel: whenever the pairs of one block have cost twice what Newton's method over the block's free points would
  cost, one Newton descent runs (`streamsvm.svm.face`). Where more points are free than a block holds, and
  blocks have cost enough, Newton's method runs over all free points at once, and is repeated as long as it makes
  progress.

A kernel column is computed about as often as a point becomes a support vector, and is not kept: computing it again is
cheaper than storing it.

Precision: kernel values are float32 if the tolerance allows it; sums and variables are always float64. When the running
F meets the tolerance, F is recomputed from scratch in float64, and the gap of that F is the one that decides and is
reported. If that gap is too large, the run continues from the recomputed F, which removes the errors of float32. If
this no longer reduces the gap, the run continues with float64 kernel values; if that does not help either, the run
ends, and `converged` is false.

A *rough* run, for a pilot or to judge a cell of a grid, ends at its running gap, as long as that is beyond the errors
of float32: to recompute F takes a fifth of so short a run.

Points are centred first: no kernel machine needs the offset, and it costs digits. There is no randomness, no clock and
no reordering of sums: the same problem gives the same bits on the same build, CPU target and number of BLAS threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from streamsvm.choices import Loss
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm import face, interior_point as interior, newton
from streamsvm.svm.problem import Problem, Solution, answered, optimality_of
from streamsvm.svm.rbf import CsrRbfBlocks, KernelRows, RbfBlocks, Values
from streamsvm.svm.rows import FEW, LinearBlocks, score
from streamsvm.svm.working_set import amount, choose, extremes, solve_block

BLOCK: Final = 256
"""Initial number of points in a block, for problems of fewer than `MANY` points."""
LINEAR_BLOCK: Final = 192
"""Points in a block of the linear kernel. Its columns cost nothing, so a larger block gains less than its steps
cost."""
NARROW_BLOCK: Final = 48
"""Points in a block of the linear kernel with up to `NARROW` features, where few points are free at once."""
NARROW: Final = 16
LARGE_BLOCK: Final = 512
"""Initial number of points in a block, for the RBF kernel and at least `MANY` points."""
MANY: Final = 10_000
LARGEST_BLOCK: Final = 2048
CROWDED: Final = 0.8
"""If more than this share of a block's points are free, the next block is twice as large, so that they fit into one."""
WHOLE: Final = 384
"""Problems of up to this many points are solved as one block."""
SHARE: Final = 0.1
"""A block is solved until its violation is this share of its first value: the paper's eta."""
FLOOR: Final = 0.5
"""No block is solved to a smaller violation than this share of the tolerance: the run ends at the tolerance anyway."""
SINGLE: Final = 1e-5
"""For tolerances below this, kernel values are float64 from the start."""
STEEP: Final = 5e4
"""Of a squared hinge also where some C_i is above this: what is then added to k_ii is below 1e-5, and float32 would
round it away. The problem of rounded values has no optimum."""
BLOCK_STEPS: Final = 200_000
"""Most steps inside a block before F of all points is updated."""
CROWD_PATIENCE: Final = 2.0
"""Newton's method over all free points starts when the blocks have cost this many times as much as it would. The factor
is multiplied by four each time that the method did not help."""
FEW_LEAVE: Final = 0.12
"""It does not start while more points than this share of the free ones would leave their bounds: the set still
changes."""
STEP_NS, POINT_NS, ENTRY_NS = 1.2, 12.0, 0.7
"""Estimated nanoseconds: of a step along a pair, per point of its block; and of a block, per point and per entry. Only
their ratio to those of `_begin_patience` matters. Measured time must not decide, or results would depend on the
machine's load."""
PATIENCE: Final = 0.5
"""The interior-point method starts when the pairs have cost this share of its estimated cost."""
EXACT_GAP: Final = 1e-10
"""Relative duality gap to which Newton's method solves the primal problem of a squared hinge."""
PROGRESS: Final = 0.5
"""Each recomputed gap must be below this share of the one before, else the precision of the kernel values is too
low."""

MOST_DECISIVE: Final = 0.9
"""If F must be recomputed at more than this share of the points, it is recomputed at all of them."""
LOOK: Final = 100
"""Number of blocks between two checks that the objective f still falls."""
EPSILON: Final = float(np.finfo(np.float64).eps)
PROGRESS_OF_F: Final = 1e-12
"""Least relative decrease of f between two checks that counts as progress."""

DEVIATIONS: Final = 8.0
"""A rough run counts on float32 errors of F of up to this many standard deviations."""

_ready: set[str] = set()
"""Parts that this process has compiled or loaded."""

Source = RbfBlocks | LinearBlocks | CsrRbfBlocks | KernelRows
"""The source of kernel values of a run: `gram` among the points of a block, `add` to F."""


def solve(problem: Problem, near: Float | None = None) -> Solution:
    """Solve within the tolerance in float64; raises as `streamsvm.svm.problem.answered` does.

    The GIL is released in all that takes time. A squared hinge's linear machine is sought from `near`, shape (d + 1,),
    coefficients and intercept; all else from a cold start.
    """
    return answered(problem, partial(_solve, near=near))


def _solve(problem: Problem, near: Float | None) -> Solution:
    run = Descent(problem.Z, problem.y, problem.upper, problem.kernel, problem.tolerance, loss=problem.loss, near=near)
    run.advance(problem.max_iterations)
    run.refresh()
    alpha, intercept, w = run.alpha, run.centred_intercept, run.coefficients
    scored = run.F - run.soft * run.b
    primal, dual, gap = optimality_of(scored, problem.y, problem.upper, alpha, intercept, problem.loss)
    norm = float(w @ w) if w is not None else max(0.0, float(run.b @ (scored + problem.y)))
    if w is not None and isinstance(run.source, LinearBlocks):
        intercept -= float(w @ run.source.rows.origin)
    return Solution(
        alpha=alpha,
        intercept=intercept,
        iterations=run.iterations,
        converged=run.converged,
        coefficients=w,
        primal=primal,
        dual=dual,
        kkt_gap=gap,
        squared_norm=norm,
        columns=run.columns,
    )


class Descent:
    """One run of the method.

    Parameters
    ----------
    Z : ndarray or CSR array of shape (n, d), float64
        Finite.
    y : ndarray of shape (n,), -1 or +1, both present
    upper : ndarray of shape (n,), float64, positive
    kernel : Kernel
    tolerance : float
        KKT gap below which the point counts as optimal.
    source : KernelRows, optional
        Kernel values that are at hand.
    rough : bool
        Whether the run ends at its running gap, where that is beyond the errors of float32.
    loss : Loss
    near : ndarray of shape (d + 1,), optional
        A machine from which Newton's method begins.

    Attributes
    ----------
    b, F : ndarray of shape (n,), float64
        y_i a_i, and sum_j b_j k_ij - y_i.
    soft : ndarray of shape (n,), float64
        What a squared hinge adds to k_ii; 0 of a hinge.
    iterations : int
        Steps along pairs.
    blocks : int
        Blocks solved.
    converged : bool
        Whether the true gap, from scratch, is below the tolerance.
    exact : bool
        Whether F was recomputed from scratch at all points that determine the gap, the objectives or the bias.
    """

    def __init__(
        self,
        Z: Any,
        y: Signs,
        upper: Float,
        kernel: Kernel,
        tolerance: float,
        *,
        source: KernelRows | None = None,
        rough: bool = False,
        loss: Loss = "hinge",
        near: Float | None = None,
    ) -> None:
        n, self._rough, self._near = len(y), rough, near
        # numba compiles a function again for an array of another layout, and for one that may not be written.
        self.Z = np.require(Z, np.float64, ["C", "W"]) if isinstance(Z, np.ndarray) else Z
        self.kernel, self.tolerance = kernel, tolerance
        self._y = y.astype(np.float64)
        self.upper, self.loss, self.soft, bound = upper, loss, np.zeros(n), self._y * upper
        self._single = tolerance >= SINGLE
        if loss == "squared_hinge":
            self.soft = 0.5 / upper
            # Twice what a_i = 2 C_i slack_i may be at the optimum: C_i slack_i^2 is at most the objective of w = 0.
            bound = 8.0 * self._y * np.sqrt(upper) * np.sqrt(min(upper[y < 0].sum(), upper[y > 0].sum()))
            self._single &= source is not None or bool(upper.max() <= STEEP)
        self.low, self.high = np.minimum(bound, 0.0), np.maximum(bound, 0.0)
        self.source, size = (source, BLOCK) if source is not None else self._begin()
        # In b = y a the equality is sum b = 0 for both labels: a step raises one b and lowers another by the same
        # amount, and does not have to look at labels. The price is bounds of both signs.
        self.b, self.F = np.zeros(n), -self._y
        self._single &= isinstance(self.source, (RbfBlocks, KernelRows))
        self._whole: Values | None = None
        # A small problem is one block. It is solved completely at once, and its kernel values are computed once.
        self._size = n if n <= WHOLE else size
        self._members = np.arange(self._size)
        self._previous: Index = np.empty(0, np.int64)
        self._mark, self._places = np.zeros(n, np.bool_), np.empty((2, n), np.int32)
        self._last_true_gap = np.inf
        self._columns_before = 0
        self._next_look, self._last_f = LOOK, np.inf
        self.moved = np.zeros(n)
        # Three estimates of time: what blocks have cost so far (`_spent_ns`, towards the interior-point method), what
        # one block costs besides its steps, and what crowded blocks have cost (`_crowded_ns`, towards Newton's method).
        self._spent_ns = self._block_ns = self._crowded_ns = 0.0
        self._crowd_patience = CROWD_PATIENCE
        self._precise: RbfBlocks | CsrRbfBlocks | None = None
        self.patience_ns = np.inf
        if isinstance(self.source, LinearBlocks):
            self._block_ns = n * (POINT_NS + ENTRY_NS * self.source.rows.entries)
            self._begin_patience(self.source.rows.entries)
        self.iterations = self.blocks = 0
        self.converged, self.exact = False, True

    def _begin(self) -> tuple[Source, int]:
        """Return the source of kernel values, and the first number of points in a block."""
        many = LARGE_BLOCK if len(self._y) >= MANY else BLOCK
        if isinstance(self.kernel, LinearKernel):
            # With few features a linear kernel matrix has a small rank: few points are free, and a larger block only
            # makes every step dearer.
            return LinearBlocks(self.Z), NARROW_BLOCK if self.Z.shape[1] <= NARROW else LINEAR_BLOCK
        if isinstance(self.Z, np.ndarray):
            # float32 values are cheaper, and a running gap of `SINGLE` or more is beyond their errors; a smaller one is
            # not.
            precision = np.float32 if self._single else np.float64
            return RbfBlocks(self.Z, self.kernel.gamma, precision), many
        return CsrRbfBlocks(self.Z, self.kernel.gamma), many

    def _begin_patience(self, entries: float) -> None:
        """Let the interior-point method fall due by its estimated time; `entries` as of `Rows`."""
        (n, d), self._spent_ns, self.patience_ns = self.Z.shape, 0.0, np.inf
        if self.loss == "squared_hinge":
            self.patience_ns = -1.0 if d < interior.MOST_FEATURES or self._near is not None else np.inf
        elif min(n, d) < interior.MOST_FEATURES:  # each step factorises a matrix of this order
            width = min(entries, n)
            step = n * (20.0 + 2.0 * width + 0.1 * width * width) + 0.05 * min(n, d) ** 3
            self.patience_ns = PATIENCE * 25.0 * step

    @property
    def alpha(self) -> Float:
        """Dual variables, shape (n,)."""
        return np.asarray(self._y * self.b, dtype=np.float64)

    @property
    def columns(self) -> int:
        """Columns of the kernel matrix that were computed."""
        return self._columns_before + self.source.computed

    @property
    def coefficients(self) -> Float | None:
        """Coefficients of the linear kernel, shape (d,); None for other kernels."""
        if not isinstance(self.source, LinearBlocks):
            return None
        return self.source.coefficients(np.arange(len(self.b)), self.b)

    @property
    def intercept(self) -> float:
        """Bias of the machine."""
        if not isinstance(self.source, LinearBlocks):
            return self.centred_intercept
        w = self.source.coefficients(np.arange(len(self.b)), self.b)
        return self.centred_intercept - float(w @ self.source.rows.origin)

    @property
    def gap(self) -> float:
        """KKT gap computed from the current F; 0 if no pair can move."""
        top, bottom = extremes(self.F, self.b, self.low, self.high)
        return max(0.0, float(top - bottom)) if np.isfinite(top - bottom) else 0.0

    @property
    def centred_intercept(self) -> float:
        """Bias of the machine over centred points.

        The mean of -F over the free support vectors. If there are none, the middle of the interval that the optimality
        conditions allow.
        """
        free = (self.b > self.low) & (self.b < self.high)
        if free.any():
            # At the optimum F is the same for all free points; the mean spreads what is left of the gap evenly.
            return -float(self.F[free].mean())
        top, bottom = extremes(self.F, self.b, self.low, self.high)
        return -0.5 * float(top + bottom)

    def advance(self, limit: int) -> None:
        """Move until the true gap is below the tolerance, nothing moves any more, or `limit` steps are done.

        Afterwards F has been recomputed from scratch, but for a rough run.
        """
        stop = self.iterations + limit
        while self.iterations < stop:
            # Estimated time, not measured: by a clock the solver would take another path on a slower machine, and
            # `verify` could not compute the same bits again.
            if self._spent_ns > self.patience_ns:
                self.jump(stop - self.iterations)
            top, bottom = extremes(self.F, self.b, self.low, self.high)
            # Below the rounding errors of F, of the size of the terms that it sums, a gap has no meaning: more blocks
            # would move points back and forth. Written with `not`, so that a NaN gap ends the loop and is judged by
            # `_confirm`.
            rounding = EPSILON * self.source.largest * amount(self.b)
            is_over = not top - bottom >= max(self.tolerance, rounding)
            if not is_over and self.blocks >= self._next_look:
                # If the last `LOOK` blocks did not lower f, steps are lost in rounding, and the true gap must decide.
                # By f, since a violation may rise while f falls; it costs a pass over all points.
                f = self.f
                is_over = f > self._last_f - PROGRESS_OF_F * abs(f)
                self._next_look, self._last_f = self.blocks + LOOK, f
            # The running gap never decides: `_confirm` recomputes F, and the run continues if the true gap is larger.
            left = stop - self.iterations
            if not is_over:
                if self._crowded_ns > 0.0 and self._due() and self._leap(left):
                    continue
                if self._solve_one(top, bottom, rounding, left):
                    continue
            if not self._confirm():
                return
        # The limit on steps was reached: what is reported then comes from an exact F, too.
        if not self.exact:
            self._confirm()

    def scale_boxes(self, factor: float) -> None:
        """Multiply all boxes and all variables by `factor`, to follow a path over C with a warm start.

        Variables on a bound stay on it, the equality constraint still holds, and F is scaled without computing any
        kernel value.
        """
        self.upper, bounds = factor * self.upper, factor
        if self.loss == "squared_hinge":
            change = self.soft / factor - self.soft
            self.F += change * self.b
            self.soft += change
            bounds, factor, self._whole = max(1.0, factor), 1.0, None
        self.b *= factor
        self.low, self.high = bounds * self.low, bounds * self.high
        # Rounding in the product may leave a variable a bit outside of the bound that it stood on.
        self.b = np.clip(self.b, self.low, self.high)
        # F + y is the linear part, which scales with b; the labels do not.
        if self.loss == "hinge":
            self.F = factor * (self.F + self._y) - self._y
        self.moved *= factor
        self._last_true_gap = self._last_f = np.inf
        self.exact = False
        self._next_look = self.blocks + LOOK
        self.converged, self._crowded_ns = False, 0.0
        if isinstance(self.source, LinearBlocks):
            self._begin_patience(self.source.rows.entries)

    def refresh(self) -> None:
        """Recompute F from scratch, in float64."""
        if not self.exact:
            self._recompute(np.arange(len(self.b)))
            self.exact = True
            self.moved[:] = 0.0

    def _recompute(self, targets: Index) -> None:
        support = np.flatnonzero(self.b)
        assert not isinstance(self.source, KernelRows)
        self.F[targets] = self.source.scores(support, self.b[support], targets) - self._y[targets]
        self.F[targets] += self.soft[targets] * self.b[targets]

    def decisive(self, source: RbfBlocks) -> Index:
        """Return the points whose F matters: support vectors, and others that may be extremes or have a loss.

        Skipped are points with b = 0 whose F is further from the violating side than the extreme, by more than the
        errors of both and twice the tolerance: such a point can be neither an extreme nor have a loss.
        """
        # Each float32 kernel value has an error of its own, and F takes it times how far b moved. So the bound of the
        # error grows with the distances in `moved`, and points that did not move add nothing.
        changed = np.flatnonzero(self.moved)
        wrong = source.uncertainty(changed, self.moved[changed])
        falls, rises = self.b > self.low, self.b < self.high
        top = np.max(self.F - wrong, where=falls, initial=-np.inf)
        bottom = np.min(self.F + wrong, where=rises, initial=np.inf)
        room = np.where(self._y > 0, self.F - bottom, top - self.F) - wrong
        return np.flatnonzero((self.b != 0) | ~(room > 2.0 * self.tolerance))

    @property
    def f(self) -> float:
        """The dual objective to be minimised, at the running F."""
        # f = b'Kb / 2 - y'b, and F = Kb - y, so no product with K is needed.
        return 0.5 * float(self.b @ (self.F - self._y))

    def _due(self) -> bool:
        """Whether blocks have cost enough to try Newton's method over all free points, and it can run."""
        # Newton's method costs the cube of the number of free points. Above `MOST_FREE` blocks are always cheaper.
        free = int(np.count_nonzero((self.b > self.low) & (self.b < self.high)))
        if not 1 < free <= face.MOST_FREE or self._crowded_ns < self._crowd_patience * face.newton_ns(free):
            return False
        leave = np.count_nonzero(face.leaving(self.F, self.b, self.low, self.high, self.tolerance))
        # While many points still leave their bounds, Newton's method would solve for another set than the optimum's.
        return bool(leave <= FEW_LEAVE * free)

    def _leap(self, limit: int) -> bool:
        """Move all free points at once by Newton's method; return whether any variable changed.

        If so, the next turn of the loop does it again.
        """
        if self._precise is None:
            assert isinstance(self.source, (RbfBlocks, CsrRbfBlocks))
            self._precise = self._in_double() if self._single else self.source
        # F is the right-hand side of Newton's equations: its errors of float32 would be solved for, too.
        if self.moved.any():
            self.refresh()
        before = self._precise.computed
        bounds = self.low, self.high
        steps = face.move_all(self._precise, self.soft, self.F, self.b, *bounds, self.tolerance, limit)
        self._columns_before += self._precise.computed - before if self._precise is not self.source else 0
        # Infinity makes the next attempt due at once; after a failure it is due when blocks have cost enough again.
        self._crowded_ns = np.inf if steps else 0.0
        # After a failed leap the next is tried four times later: failures stay cheap.
        self._crowd_patience *= 1.0 if steps else 4.0
        self.iterations += steps
        self.blocks += 1
        self.exact = self.exact and not steps
        return steps > 0

    def _solve_one(self, top: float, bottom: float, rounding: float, limit: int) -> bool:
        """Choose and solve one block; return whether anything moved."""
        K, members = self._block(top, bottom)
        change = np.empty(len(members))
        # If all points are in the block, there is no other block to balance against: solve it completely.
        share = 0.0 if self._whole is not None else SHARE
        # Solving a block beyond the rounding errors of F would only move points back and forth.
        floor = max(FLOOR * self.tolerance, rounding)
        step_ns = STEP_NS * len(members)
        # The block ends where the interior-point method falls due (never, where `patience_ns` is infinite).
        most_steps = int(min(limit, BLOCK_STEPS, 1.0 + max(0.0, self.patience_ns - self._spent_ns) / step_ns))
        inside = solve_block if isinstance(self.source, LinearBlocks) else face.solve_block
        steps = inside(K, members, self.F, self.b, self.low, self.high, share, floor, most_steps, change)
        moved = np.flatnonzero(change)
        self.iterations += steps
        self.blocks += 1
        if not len(moved):
            return False
        self.source.add(members[moved], change[moved], self.F)
        self.F[members] += self.soft[members] * change
        self._spent_ns += step_ns * steps + self._block_ns
        self.exact = False
        # A linear kernel matrix has a small rank, so that few points are free at the optimum.
        if not isinstance(self.source, LinearBlocks):
            self.moved[members] += np.abs(change)
            b = self.b[members]
            free = np.count_nonzero((b > self.low[members]) & (b < self.high[members]))
            if free > CROWDED * self._size and self._size < min(LARGEST_BLOCK, len(self.b)):
                self._size = min(2 * self._size, LARGEST_BLOCK, len(self.b))
                self._members = np.arange(self._size)
            # Only where blocks cannot grow any more: a larger block is the cheaper remedy for many free points.
            if self._size >= LARGEST_BLOCK and self._whole is None:
                self._crowded_ns += face.PAIR_NS * len(members) * steps
        return True

    def jump(self, limit: int) -> None:
        """Run a second-order method once; discard its result if the limit on steps left it at a larger f.

        Called when the blocks have cost `patience_ns`. It sets that to infinity, or it would be called again.
        """
        self.patience_ns = np.inf
        assert isinstance(self.source, LinearBlocks)
        b, F, f = self.b, self.F.copy(), self.f
        rows, signs = self.source.rows, self._y.astype(np.int8)
        if self.loss == "squared_hinge":
            if limit < newton.MOST_STEPS:
                return
            v, _, steps, _ = newton.rough_machine(rows, signs, self.upper, EXACT_GAP, self._near, self.loss)
            v[-1] += (rows.origin * v[:-1]).sum()
            a = np.empty(len(signs))
            score(rows, v, a)
            a = 2.0 * self.upper * np.maximum(0.0, 1.0 - self._y * a)
            own = np.array([a[signs < 0].sum(), a[signs > 0].sum()])
            if not own.min() > 0.0:
                return
            a *= (own.min() / own)[(signs + 1) >> 1]
        else:
            # Rounded steps leave a in the boxes but not exactly balanced; the snapped point is: blocks go on from it.
            _, a, steps, _ = interior.follow_path(rows, signs, self.upper, tolerance=self.tolerance, limit=limit)
        self.b = self._y * a
        self.iterations += steps
        self._last_true_gap = np.inf
        self.exact = False
        self.refresh()
        # Cut short by `limit`, the method may be further from the optimum than the blocks were.
        if self.f > f:
            self.b, self.F, self.exact = b, F, False

    def _block(self, top: float, bottom: float) -> tuple[Values, Index]:
        """Return the next block and the kernel values inside it."""
        if self._size == len(self.b):
            if self._whole is None:
                self._whole = self._gram(self._members)
            return self._whole, self._members
        # A quarter of the block from each side, the rest from the previous block: its free points would otherwise be
        # dropped before they have reached their values.
        fresh = self._size // (4 if len(self._previous) else 2)
        room = self._places, self._mark, self._members
        count = choose(self.F, self.b, self.low, self.high, top, bottom, self._previous, fresh, *room)
        self._previous = self._members[:count].copy()
        return self._gram(self._previous), self._previous

    def _gram(self, members: Index) -> Values:
        K: Values = self.source.gram(members)
        if self.loss == "squared_hinge":
            K[np.diag_indices(len(members))] += self.soft[members]
        return K

    def _confirm(self) -> bool:
        """Decide by the true gap; return whether to continue."""
        if self._rough:
            # Rounding errors of different columns are independent: their sum grows as the root of a sum of squares.
            error = DEVIATIONS * float(np.finfo(np.float32).eps) * float(np.sqrt(self.moved @ self.moved))
            if error < self.tolerance:
                self.converged = self.gap < self.tolerance
                return False
        self._settle()
        gap = self.gap
        self.converged = gap < self.tolerance
        if self.converged:
            return False
        # F is exact now. If the gap has halved since it was last exact, the running F is good enough to go on with. If
        # not, float32 is the likely reason, and float64 the remedy; with float64 there is no remedy left.
        enough = gap < PROGRESS * self._last_true_gap
        self._last_true_gap = gap
        if enough:
            return True
        if not self._single:
            return False
        self._columns_before = self.columns
        self.source = self._in_double()
        self._single, self._whole = False, None
        return True

    def _settle(self) -> None:
        """Recompute F from scratch at the points where it matters."""
        if self.exact:
            return
        if isinstance(self.source, KernelRows):  # from here on kernel values are computed
            self.source = RbfBlocks(self.Z, self.source.gamma, np.float32)
        decisive = self.decisive(self.source) if isinstance(self.source, RbfBlocks) else None
        if decisive is not None and len(decisive) < MOST_DECISIVE * len(self.b):
            self._recompute(decisive)
            self.exact = True
        else:
            self.refresh()

    def _in_double(self) -> RbfBlocks:
        """Return the RBF kernel of the same points in float64."""
        assert isinstance(self.kernel, RbfKernel)
        return RbfBlocks(self.Z, self.kernel.gamma, np.float64)


def warm_up(kernel: Kernel, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, every function that a run with this kind of kernel may call.

    Parameters
    ----------
    kernel : Kernel
        Its parameters do not matter.
    say : callable
        Called with a sentence before each part that this process has not compiled or loaded yet.
    """
    is_linear = isinstance(kernel, LinearKernel)
    parts = {"linear kernel": 1e-3} if is_linear else {"float32 kernel values": 1e-3, "float64 kernel values": 1e-7}
    for part, tolerance in parts.items():
        if part in _ready:
            continue
        _ready.add(part)
        say(f"preparing the solver's {part}; the first start on a machine compiles it, which takes seconds")
        for n, d in ((2 * WHOLE, 2), (8, 2), (8, 2 * FEW)):  # more points than one block, one block, sparse points
            place = np.arange(n * d, dtype=np.float64).reshape(n, d)
            Z = np.cos(place * place) * (d == 2 or place % d == 0)
            run = Descent(Z, np.where(np.arange(n) % 2 > 0, 1, -1).astype(np.int8), np.ones(n), kernel, tolerance)
            run.advance(1_000)
            if is_linear:
                run.jump(3)
        if not is_linear:
            face.warm_up(np.float32 if tolerance >= SINGLE else np.float64)
