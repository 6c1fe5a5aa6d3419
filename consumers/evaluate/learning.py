"""Learn a file's rows as a trainer learns a topic of them: dealt to partitions, by the same configuration and recipe.

Invariant: the same rows, in the same partitions and order, one a record from offset 0 on, give what a trainer publishes
when it has learned them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from consumers.evaluate.plan import Step
from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Made, Origin, make, version_of
from streamsvm.learning.training import Task, task_of
from streamsvm.model.message import content_sha256
from streamsvm.points import LookedUp, Points, Position, Rows

PORTION: Final = 1_000
"""Rows that a learner is given at once."""
NO_CUT: Final = 1 << 30
"""Leaves after which a cut falls due by itself: never."""
REJECTED: Final = -1


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What was made of rows.

    Attributes
    ----------
    config : ModelConfig
    made : Made
    clipped : int
        Rows that were drawn in: outliers by a feature or by their weight.
    """

    config: ModelConfig
    made: Made
    clipped: int

    @property
    def task(self) -> Task:
        """What the labels are for."""
        return task_of(self.config)

    @property
    def svm(self) -> SvmConfig:
        """The options of training, those that were tuned included."""
        return self.config.svm if self.made.tuning is None else self.made.tuning.applied(self.config.svm)

    @property
    def content_sha256(self) -> str:
        """Of the version that a trainer publishes; see `streamsvm.model.message.content_sha256`."""
        origin = Origin(
            name="",
            number=1,
            parent=None,
            links=(),
            topic="",
            topic_id="",
            base=dict.fromkeys(self.made.cut.positions, Position(0)),
            build={},
        )
        return content_sha256(version_of(self.made, self.config, origin))


def learn(
    config: ModelConfig,
    points: Points,
    what: str,
    step: Step,
    *,
    partitions: int = 1,
    at: NDArray[np.int64] | None = None,
    rows: int = 0,
    every_leaves: int = NO_CUT,
) -> TrainingResult:
    """Learn points, and make what a trainer would publish of them.

    Parameters
    ----------
    config : ModelConfig
    points : Points
    what : str
        What `step` is told.
    step : callable
    partitions : int
        Rows are dealt to them in turn, as `streamsvm replay` does.
    at : ndarray of shape (n,), int64, optional
        Row of each point, where there are others: rows that a trainer reads and rejects. Default: there are none.
    rows : int
        Of the file, with `at`.
    every_leaves : int
        Leaves after which a trainer cuts; what is made is of the last such cut. Only of one partition is it known where
        cuts fall. Default: of all points.
    """
    found = np.arange(len(points), dtype=np.int64)
    if at is not None:
        found = np.full(rows, REJECTED, np.int64)
        found[at] = np.arange(len(points))
    learner = Learner(config, dict.fromkeys(range(partitions), Position(0)), every_leaves)
    learned, taken = 0, None
    for part in _dealt(points, found, partitions):
        done = 0
        while done < len(part):
            done += learner.learn(part.slice(done, len(part)))
            if learner.cut_due:
                taken = learner.take()
        learned += len(part)
        step(what, learned, len(found))
    cut = (taken or learner.take()).make()
    learner.note(cut)
    outliers = learner.outliers()
    return TrainingResult(config, make(cut, config), outliers.rows + outliers.weights)


def _dealt(points: Points, found: NDArray[np.int64], partitions: int) -> Iterator[Rows]:
    """Yield the rows of one partition after the other; `found` has the point of each row."""
    for partition in range(partitions):
        own = found[partition::partitions]
        for start in range(0, len(own), PORTION):
            some = own[start : start + PORTION]
            yield Rows(
                partition=partition,
                offset=np.arange(start, start + len(some)),
                row=np.zeros(len(some), np.int64),
                last=np.ones(len(some), np.bool_),
                times=LookedUp.of(np.full(len(some), -1, np.int64)),
                accepted=some != REJECTED,
                points=points.take(np.maximum(some, 0)),
                leader_epoch=np.full(len(some), -1, np.int64),
            )
