"""Screens of leaves for several labels, as a partition asks for them."""

from __future__ import annotations

from collections.abc import Callable

from streamsvm.branches.classes import class_screening
from streamsvm.branches.classes.class_screening import ClassScreener, least_capacity, make_class_screen, span_share
from streamsvm.config import ModelConfig
from streamsvm.coreset.reducers.base import Purpose, generator
from streamsvm.learning.leaf_screens import LeafScreens, Sealed
from streamsvm.learning.tasks import Task


class ClassScreens(LeafScreens):
    """One decision a row, by the greatest of its importances; parameters as of `LeafScreens`."""

    @classmethod
    def wanted(cls, config: ModelConfig, task: Task) -> bool:
        """Return whether several labels share a leaf that has room for them."""
        coreset = config.coreset
        fits = coreset.leaf_rows >= least_capacity(task.classes)
        return task.classes > 2 and config.svm.kernel == "linear" and fits

    @classmethod
    def warm_up(cls, config: ModelConfig, say: Callable[[str], None]) -> None:
        """See `LeafScreens`."""
        if config.points.classes > 2:
            say("preparing the screening of several labels")
            class_screening.warm_up(config.points.numpy_dtype)

    def share(self, points: int) -> float:  # noqa: ARG002
        """Return less where the points of a leaf are few for so many totals."""
        coreset = self._config.coreset
        return coreset.SCREENING * span_share(self._task.classes, self._config.points.dimension, coreset.leaf_rows)

    def begun(self, sealed: Sealed) -> ClassScreener | None:
        """See `LeafScreens`."""
        moments, (seed, partition, leaf) = sealed.extent.moments, sealed.leaf
        random = generator(seed, Purpose.SKETCH, (partition, leaf, 0))
        pilot = sealed.pilot or self._task.pilot(sealed.points, moments.weight, moments, self._config)
        capacity = self._config.coreset.leaf_rows
        screen = make_class_screen(sealed.points, pilot, moments, sealed.span, sealed.accepted, capacity, random)
        return None if screen is None else ClassScreener.begin(screen, *sealed.leaf)
