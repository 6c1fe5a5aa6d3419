"""Coresets with sizes that no number of points gives: small ones, and those of which a test counts what becomes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PrivateAttr

from streamsvm.config import CoresetConfig, PointsConfig
from streamsvm.config.sizes import Sizes, most_spans, span_of


class SizedCoreset(CoresetConfig):
    """A coreset whose sizes are given. A configuration that is read back from its canonical form has lost them."""

    _given: dict[str, int] = PrivateAttr(default_factory=dict)
    _of_pilots: list[int | None] = PrivateAttr(default_factory=list)

    def landmarks_of(self, points: PointsConfig, kernel: str) -> int | None:
        """Return the given number of landmarks, or None; without it those that follow."""
        return self._of_pilots[0] if self._of_pilots and kernel == "rbf" else super().landmarks_of(points, kernel)

    def sizes_of(self, points: PointsConfig, kernel: str) -> Sizes:
        """Return the given sizes; of a span those that follow."""
        own = {"leaf": 2_000, "bucket": 2_000, "audit": 1_000, **self._given}
        if not self.forgets:
            return super().sizes_of(points, kernel)._replace(**own)
        span = own.pop("span", None) or span_of(own["leaf"], self.length_rows, self.screened_numbers(points, kernel))
        return Sizes(**own, span=span, buckets=most_spans(self.memory, self.length_rows, span))


def sized(
    *,
    leaf_rows: int | None = None,
    bucket_points: int | None = None,
    audit_points: int | None = None,
    span_rows: int | None = None,
    landmarks: int | Literal["default"] | None = "default",
    **options: Any,
) -> CoresetConfig:
    """Return a coreset of these sizes, else of leaves and buckets of 2,000 and an audit sample of 1,000."""
    made = SizedCoreset(**options)
    sizes = {"leaf": leaf_rows, "bucket": bucket_points, "audit": audit_points, "span": span_rows}
    made._given.update({name: size for name, size in sizes.items() if size is not None})
    if landmarks != "default":
        made._of_pilots.append(landmarks)
    return made
