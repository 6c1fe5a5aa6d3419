"""What a `CoresetSVC` learned: the stream of rows that it was given, and the machines made of it at their first use.

Invariant: the stream is one partition, learned as a trainer learns it; portions change nothing. With more than two
classes one structure is shared by several machines.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from streamsvm.config import ModelConfig
from streamsvm.coreset.outliers import TELLING
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.estimators.persistence import Machines, Plain, from_plain, to_plain
from streamsvm.learning.conditions import DRIFTS, MEANINGS, Seldom, moved
from streamsvm.learning.learner import Horizon, Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.tasks import task_of
from streamsvm.learning.training import with_rough_probability
from streamsvm.model.classes import AnyModel
from streamsvm.model.recipes import compiled
from streamsvm.points import LookedUp, Points, Position, Rows

NO_CUT: Final = 1 << 30
"""Leaves after which a cut falls due by itself: never, predictions ask for theirs."""
AGAIN_AT: Final = 10
"""Growth of the number of outliers after which they are worth another warning."""


REMEDIES: Final = {
    "by_weight": "shuffle the rows if possible, or raise points; structure='chain' suffers less",
    "crowded": "raise points: every point more helps here",
    "uncalibrated": "raise points",
    "strained": "raise points",
}
"""What to do about each condition of the coreset."""
OF_AGE: Final = {
    **REMEDIES,
    "by_weight": "shuffle the rows if possible, or raise points",
}
"""The same where rows are forgotten by their age."""


class NoProbabilities(UserWarning):
    """Too few points came for the probabilities that `probability` asks for; the message says which are missing."""


class CoresetWarning(UserWarning):
    """The coreset may be no better than a plain sample; the message says why, and what to do.

    What a trainer logs as `coreset_degraded`: with the first count of a condition, then each time it has grown tenfold.
    And what it logs as `stream_drifts`: once, when the stream begins to drift.
    """


class Stream:
    """What was learned, and the machines of it, made at their first use.

    Parameters
    ----------
    config : ModelConfig

    Attributes
    ----------
    columns : Compiled or None
        The recipe of raw events, compiled; None where points are learned.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config, self.task = config, task_of(config)
        self.columns = compiled(config.recipe)
        self.learner = Learner(config, {0: Position(0, 0)}, NO_CUT)
        self._made: Machines | None = None
        self._model: AnyModel | None = None
        self._warned = 0
        self._conditions = Seldom()

    @property
    def rows(self) -> int:
        """Rows learned."""
        return self.learner.positions[0].offset

    def learn(self, points: Points, names: Sequence[str] = ()) -> None:
        """Learn the next rows; `names` are those of features, where a recipe does not name them."""
        n = len(points)
        rows = Rows(
            partition=0,
            offset=np.arange(self.rows, self.rows + n),
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            times=LookedUp.of(np.full(n, -1, np.int64)),
            accepted=np.ones(n, np.bool_),
            points=points,
            leader_epoch=np.full(n, -1, np.int64),
        )
        done = 0
        with one_blas_thread():
            while done < n:
                done += self.learner.learn(rows.slice(done, n))
                if self.learner.cut_due:
                    self.learner.decline_cut()
        self._made = self._model = None
        self._warn_of_outliers(stacklevel=4)
        self._warn_of_the_coreset(stacklevel=4)
        given = self.config.points
        remedy = "" if self.config.coreset.memory == "adaptive" else "take memory='adaptive', or "
        for found in self._conditions.begun(self.learner.drift()).values():
            warnings.warn(
                f"{DRIFTS}: {moved(found, given.feature_names or names, given.labels)} had the mean {found.before:g} "
                f"before and has {found.now:g} now, {found.deviations:.2g} standard deviations away. What to do: "
                f"{remedy}find out what changed",
                CoresetWarning,
                stacklevel=4,
            )

    def horizons(self) -> tuple[Horizon, ...]:
        """Return what a model of everything learned so far is of, the longest first; empty if of all of it."""
        return self.learner.horizons()[0]

    def made(self) -> Machines:
        """Return the machines of everything learned so far."""
        if self._made is None:
            with one_blas_thread():
                self._made = self._make()
        return self._made

    def model(self) -> AnyModel:
        """Return the machines as one model."""
        if self._model is None:
            self._model = self.task.model([machine.model for machine in self.made().machines])
        return self._model

    def _make(self) -> Machines:
        cut = self.learner.cut()
        self._warn_of_outliers(stacklevel=5)
        made = make(cut, self.config)
        self._warn_of_the_coreset(stacklevel=5)
        gaps = [machine.fit.kkt_gap or 0.0 for machine in made.machines if not machine.fit.converged]
        if gaps:
            warnings.warn(
                f"the solver ended before the KKT gap met tol = {self.config.svm.tolerance:g}, at {max(gaps):.2g} in "
                f"{len(gaps)} of {len(made.machines)} machines: raise tol, or scale the features",
                ConvergenceWarning,
                stacklevel=5,
            )
        reason = next((machine.no_probability for machine in made.machines if machine.no_probability), "")
        machines = made.machines
        if reason:
            warnings.warn(
                f"a trainer would publish no probabilities: {reason}. Here they are a sigmoid of the few points there "
                "are, and rough; they are missing where a class has none",
                NoProbabilities,
                stacklevel=5,
            )
            samples = self.task.samples(made.cut.audit)
            pairs = zip(machines, samples, strict=True)
            machines = tuple(with_rough_probability(machine, sample) for machine, sample in pairs)
        return Machines(made.training_set_sha256, machines, cut.moments.weight, made.scores)

    def _warn_of_the_coreset(self, stacklevel: int) -> None:
        remedies = OF_AGE if self.config.coreset.memory in {"window", "decay"} else REMEDIES
        for condition, count in self._conditions.due(self.learner.observed().counts()):
            warnings.warn(
                f"{MEANINGS[condition]} (count so far: {count}). What to do: {remedies[condition]}",
                CoresetWarning,
                stacklevel=stacklevel + 1,
            )

    def _warn_of_outliers(self, stacklevel: int) -> None:
        """Name the farthest value beyond its bound, with the first one, then each time they are ten times as many."""
        found = self.learner.outliers()
        count, worst = found.rows + found.weights, found.worst
        if worst is None or worst.excess < TELLING or count < max(1, AGAIN_AT * self._warned):
            return
        self._warned = count
        what = "weight" if worst.feature is None else f"feature {worst.feature}"
        warnings.warn(
            f"{found.rows} rows and {found.weights} weights are outliers, and were drawn in; the farthest is row "
            f"{worst.place.offset} of all rows learned: {what} is {worst.value:g}, and counts as {worst.bound:g}",
            UserWarning,
            stacklevel=stacklevel,
        )

    def state(self) -> Plain:
        """Return everything as plain values."""
        return to_plain(self.config, self.learner.state(), self._made)

    @classmethod
    def of(cls, state: Plain) -> Self:
        """Return the stream whose state it was; errors are those of `from_plain`."""
        config, learned, made = from_plain(state)
        stream = cls(config)
        stream.learner.restore(learned)
        stream._made = made
        return stream
