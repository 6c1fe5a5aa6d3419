"""How a partition's stream is summarised."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from streamsvm.config import capacity, sizing, span_sizes
from streamsvm.config.coreset_options import CoresetOptions
from streamsvm.config.point_options import PointsConfig
from streamsvm.sections import open_to_branches


@open_to_branches("coreset")
class CoresetConfig(CoresetOptions):
    """How a partition's stream is summarised."""

    @model_validator(mode="after")
    def _settled_by_the_memory(self) -> Self:
        return sizing.sized_by_points(self)

    def settled(self, points: PointsConfig, kernel: str) -> Self:
        """Return this section with the structure that suits a kernel, and the sizes that follow from a budget.

        Options that are given do not change.

        Raises
        ------
        ValueError
            If the budget is too small. For `memory_bytes` the message names the smallest sufficient budget.
        """
        return sizing.settled(self, points, kernel)

    @property
    def dyadic_buckets(self) -> int:
        """The most buckets of a structure that forgets; its span must be settled."""
        return span_sizes.dyadic_buckets(self)

    @property
    def bucket_audit_points(self) -> int:
        """Points of the audit sample of each bucket of a structure that forgets."""
        return span_sizes.bucket_audit_points(self)

    @property
    def partition_points(self) -> int:
        """The most points that a partition holds at once, its audit sample included."""
        return capacity.partition_points(self)

    @property
    def coreset_points(self) -> int:
        """The most points that the buckets and open leaves of all partitions hold at once."""
        return capacity.coreset_points(self)

    def largest_bytes(self, points: PointsConfig) -> int:
        """Return the most bytes that all partitions, a running reduction and a training set take together."""
        return capacity.largest_bytes(self, points)
