"""How a partition's stream is summarised."""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import PrivateAttr

from streamsvm.config.coreset_options import CoresetOptions
from streamsvm.config.point_options import PointsConfig
from streamsvm.config.sizes import Sizes, kept_sizes, largest_bytes, span_sizes
from streamsvm.sections import with_defaults
from streamsvm.supports import LABELS, require

POINTS: Final = {"tree": 11_000, "chain": 5_500, "counter": 66_000}
"""Of a partition by default. A counter keeps a bucket for each of some thirty levels, as the others keep a few."""
LANDMARK_POINTS: Final = 20_000
"""The same with landmarks, which screen every row of an RBF machine."""
SPAN_POINTS: Final = 48_000
"""The same where rows are forgotten: a dozen to forty buckets of some 2,000."""


class CoresetConfig(CoresetOptions):
    """How a partition's stream is summarised."""

    _sizes: Sizes | None = PrivateAttr(default=None)

    def settled(self, points: PointsConfig, kernel: str) -> Self:
        """Return this section with what suits a kernel and so many labels where it is not given, and with its sizes.

        Raises
        ------
        ValueError
            If options do not go together, or `points` are too few.
        """
        chosen = with_defaults(self, self._defaults(points, kernel))
        required = ("landmarks", "memory", "reducer", "structure")
        own = {f"coreset.{option}": getattr(chosen, option) for option in required}
        require({**own, LABELS: points.classes, "svm.kernel": kernel})
        chosen._sizes = chosen.sizes_of(points, kernel)
        return chosen

    def _defaults(self, points: PointsConfig, kernel: str) -> dict[str, Any]:
        """Return what is not given."""
        found: dict[str, Any] = {}
        if points.classes == 2 and self.class_screening:
            found["class_screening"] = False
        landmarks = self.landmarks
        if "landmarks" not in self.model_fields_set:
            suits = (
                kernel == "rbf"
                and points.classes == 2
                and (self.structure == "chain" or not self._is_given("structure"))
            )
            landmarks = self.LANDMARKS if suits and self.screens and not self.forgets else None
            found["landmarks"] = landmarks
        if landmarks is not None and "train_points" not in self.model_fields_set:
            found["train_points"] = self.LANDMARK_TRAIN_POINTS
        structure = self.structure if self._is_given("structure") else None
        if structure is None and not self.forgets:
            few = self._is_given("points") and self.points is not None and self.points < self.TREE_POINTS
            structure = "chain"
            if kernel == "linear" and not few:
                structure = "tree" if self.reducer == "calibrated" else "counter"
            found["structure"] = structure
        if not self._is_given("points"):
            kept = SPAN_POINTS if structure is None else POINTS[structure]
            found["points"] = kept if landmarks is None else LANDMARK_POINTS
        return found

    def _is_given(self, option: str) -> bool:
        return option in self.model_fields_set and getattr(self, option) is not None

    def sizes_of(self, points: PointsConfig, kernel: str) -> Sizes:
        """Return the sizes that follow, of a section that has its defaults.

        Raises
        ------
        ValueError
        """
        assert self.points is not None
        if self.structure is None:
            made = span_sizes(self, self.points, screened=self.screened_numbers(points, kernel))
        else:
            made = kept_sizes(self.structure, self.points, by_landmarks=self.landmarks is not None)
        if made.bucket < 1:
            kind = f"coreset.memory = {self.memory}" if self.structure is None else f"a {self.structure}"
            raise ValueError(
                f"coreset.points = {self.points} is too little for the {made.buckets} buckets of {kind}: give "
                f"{16 * made.buckets} or more"
            )
        return made

    def screened_numbers(self, points: PointsConfig, kernel: str) -> int:
        """Return the numbers of the pilot by which leaves are screened; 0 if they are not."""
        if not self.screens or kernel != "linear" or (points.classes > 2 and not self.class_screening):
            return 0
        return points.dimension * (1 if points.classes == 2 else points.classes)  # a pilot a label asks more of a leaf

    @property
    def kept_points(self) -> int:
        """`points`; `settled` first."""
        assert self.points is not None
        return self.points

    @property
    def sizes(self) -> Sizes:
        """The sizes of one partition; `settled` first."""
        assert self._sizes is not None
        return self._sizes

    @property
    def leaf_rows(self) -> int:
        """Rows, accepted or not, after which an unscreened leaf is sealed; most points of a leaf."""
        return self.sizes.leaf

    @property
    def bucket_points(self) -> int:
        """Most points of a bucket."""
        return self.sizes.bucket

    @property
    def audit_points(self) -> int:
        """Most points of the audit sample."""
        return self.sizes.audit

    @property
    def bucket_audit_points(self) -> int:
        """Points of the audit sample of each bucket where rows are forgotten."""
        return self.sizes.bucket_audit

    @property
    def span_rows(self) -> int:
        """Rows of a span where rows are forgotten."""
        return self.sizes.span

    def largest_bytes(self, points: PointsConfig, partitions: int) -> int:
        """Return the most bytes that so many partitions, a running reduction and a training set take together."""
        return largest_bytes(self, self.sizes, points, partitions)
