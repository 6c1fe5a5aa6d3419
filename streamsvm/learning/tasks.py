"""What is asked of the labels: to tell two apart, or each of several from the rest, over one structure.

Invariant: a task is a pure choice of reducer and pilot; partitions, leaves, cuts and checkpoints are the same for all.
The daemon's task is `TwoClasses`, which its configuration describes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.coreset.audit_sample import Sampled
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Pilot, Reducer, SensitivityReducer, UniformReducer
from streamsvm.coreset.reducers.calibrated import CalibratedReducer
from streamsvm.coreset.reducers.multiclass import SharedPilot, SharedReducer, SharedSensitivityReducer
from streamsvm.learning.pilots import pilot_for
from streamsvm.points import Points

REDUCERS: dict[str, Callable[[CoresetConfig], Reducer[Pilot]]] = {
    "uniform": lambda config: UniformReducer(),  # noqa: ARG005
    "sensitivity": lambda config: SensitivityReducer(config.clusters),
    "calibrated": lambda config: CalibratedReducer(),  # noqa: ARG005
}
"""What makes every reducer, by the name it has in the configuration."""
SHARED_REDUCERS: dict[str, Callable[[CoresetConfig], Reducer[SharedPilot]]] = {
    "uniform": lambda config: UniformReducer(),  # noqa: ARG005
    "sensitivity": lambda config: SharedSensitivityReducer(config.clusters),
    "calibrated": lambda config: SharedReducer(),  # noqa: ARG005
}
"""The same where several classes share a structure."""
MOST_CLASSES: Final = 128
"""A point keeps the index of its class in a byte."""


class Task(Protocol):
    """What a learner's points are labeled for.

    Attributes
    ----------
    classes : int
        Whose totals moments have: 2 for signs, else the number of indices that `Points.y` holds.
    """

    @property
    def classes(self) -> int:
        """See the class."""
        ...

    def reducer(self, config: CoresetConfig) -> Reducer[Any]:
        """Return a new reducer of the configured kind."""
        ...

    def pilot(self, points: Points, weight: float, seen: Moments, config: ModelConfig) -> Any:
        """Solve the pilot that the reducer can use; parameters are those of `streamsvm.learning.pilots.pilot_for`."""
        ...

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return the problems of signs that these are, one a machine."""
        ...

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return the audit sample of each problem."""
        ...


class TwoClasses:
    """Tell +1 from -1."""

    classes: ClassVar[int] = 2

    def reducer(self, config: CoresetConfig) -> Reducer[Pilot]:
        """Return a new reducer of the configured kind."""
        return REDUCERS[config.reducer](config)

    def pilot(self, points: Points, weight: float, seen: Moments, config: ModelConfig) -> Pilot:
        """Solve the node's own problem roughly."""
        return pilot_for(points, weight, seen, config)

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return the one problem that these are."""
        return ((points, seen),)

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return the one audit sample."""
        return (audit,)


@dataclass(frozen=True, slots=True)
class OneVsRest:
    """Tell each of several classes, more than two, from all others.

    Attributes
    ----------
    classes : int
        3 to `MOST_CLASSES`.
    class_weight : "balanced", tuple of float, or None
        By what the weights of each class are multiplied, in every problem, as in scikit-learn's SVC; "balanced": each
        class gets an equal part of the total weight, as counted up to the node or the cut. The configuration's own
        class weights, of two classes, must be none.
    """

    classes: int
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None

    def reducer(self, config: CoresetConfig) -> Reducer[SharedPilot]:
        """Return a new reducer of the configured kind."""
        return SHARED_REDUCERS[config.reducer](config)

    def pilot(self, points: Points, weight: float, seen: Moments, config: ModelConfig) -> SharedPilot:
        """Solve each class's problem roughly."""
        pilots = (pilot_for(own, weight, moments, config) for own, moments in self.problems(points, seen))
        return SharedPilot(tuple(pilots), self.class_weights(seen.class_weight))

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return each class's problem, in the order of the classes, points weighed as the classes are."""
        weighed = points.class_weighted(self.class_weights(seen.class_weight))
        return tuple((weighed.against_the_rest(label), seen.against_the_rest(label)) for label in range(self.classes))

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return each class's view of the audit sample, points as they came."""
        return tuple([part.against_the_rest(label) for part in audit] for label in range(self.classes))

    def class_weights(self, seen: NDArray[np.float64]) -> tuple[float, ...]:
        """Return by what the weights of each class are multiplied.

        Parameters
        ----------
        seen : ndarray of shape (n_classes,)
            Exact total weight of each class. Balanced weights keep their sum; a class of which nothing came has 1.
        """
        if self.class_weight is None:
            return (1.0,) * self.classes
        if self.class_weight != "balanced":
            return self.class_weight
        part = float(seen.sum()) / np.count_nonzero(seen) if seen.any() else 0.0
        return tuple(part / float(own) if own > 0.0 else 1.0 for own in seen)
