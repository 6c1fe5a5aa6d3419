"""Whether leaves of a kernel machine are screened by landmarks, and the sizes that follow: options of `[coreset]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, cast

from pydantic import BeforeValidator, Field

from streamsvm.option_texts import none_in_words
from streamsvm.sections import KernelSizes, SectionOptions

if TYPE_CHECKING:
    from streamsvm.config import CoresetConfig


class LandmarkOptions(KernelSizes):
    """Of `[coreset]`: by how many landmarks rows are screened, and how large a leaf then is."""

    landmarks: Annotated[Annotated[int, Field(ge=8, le=1_024)] | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="For `rbf`: landmark points that approximate a pilot, so that leaves can be screened. Default: "
        "256. They change defaults: `max_partitions` to 8, `train_points` to 100,000, `memory_bytes` to 64 MB unless "
        "sizes are given. none: no screening.",
    )

    LANDMARKS: ClassVar[int] = 256
    """Of a pilot by default. 64 to 512 were measured: below 128 margins of ijcnn1 are too rough."""
    LANDMARK_DEFAULTS: ClassVar[Mapping[str, int]] = {
        "max_partitions": 8,
        "train_points": 100_000,
    }
    """Of an RBF machine with landmarks: what its solver can train in seconds, and what memory then fits."""
    LANDMARK_MEMORY_BYTES: ClassVar[int] = 64_000_000
    """Its budget where none is given."""
    LANDMARK_LEAF_PARTS: ClassVar[int] = 32
    """Parts of a partition's memory of which one is the leaf. Screened leaves hold points as heavy as the bucket's, so
    that a small leaf wastes nothing; each time one is full, all of the memory is read."""
    LANDMARK_MANY: ClassVar[int] = 50_000
    """Points of a partition above which the leaf is twice that part: reading all of the memory takes longer there, and
    a few per cent of the points are worth less."""
    LANDMARK_SMALLEST_LEAF: ClassVar[int] = 32
    """Points of a leaf, but at most a quarter of the memory: the first leaf bounds the values of later ones."""
    PILOT_POINTS: ClassVar[int] = 8_192
    """Most points on which such a pilot is solved."""
    PILOT_ROWS_AT_ONCE: ClassVar[int] = 1_024
    """Of them, those whose kernel values with the landmarks are in memory at once."""

    @property
    def _whole(self) -> CoresetConfig:
        """The section that this is a part of."""
        return cast("CoresetConfig", self)

    def kernel_choice(self) -> dict[str, object]:
        """See `KernelSizes`."""
        return {"landmarks": self.landmarks}

    def kernel_axes(self) -> dict[str, object]:
        """See `KernelSizes`."""
        return {"coreset.landmarks": self.landmarks}

    @property
    def kernel_option(self) -> str:
        """See `KernelSizes`."""
        return "" if self.landmarks is None else "landmarks"

    def kernel_defaults(self, kernel: str) -> dict[str, object]:
        """See `KernelSizes`."""
        given = self.model_fields_set
        if "landmarks" in given or self.landmarks is not None or not self._suits(kernel):
            return {}
        more: dict[str, object] = {name: size for name, size in self.LANDMARK_DEFAULTS.items() if name not in given}
        more |= {"landmarks": self.LANDMARKS, "structure": "chain"}
        if given.isdisjoint({"memory_points", "memory_bytes", "leaf_rows", "bucket_points"}):
            more["memory_bytes"] = self.LANDMARK_MEMORY_BYTES
        return more

    def _suits(self, kernel: str) -> bool:
        """Return whether leaves can be screened by landmarks, and are screened."""
        whole = self._whole
        suits = kernel == "rbf" and whole.reducer == "calibrated" and whole.structure in (None, "chain")
        return suits and not whole.forgets and whole.screening > 0.0

    def kernel_rules(self) -> dict[str, object]:
        """See `KernelSizes`."""
        if self.landmarks is None:
            return {}
        return {name: getattr(self, name) for name in ("landmarks", *self.LANDMARK_DEFAULTS)}

    def kernel_leaf(self, points: int) -> int | None:
        """See `KernelSizes`."""
        if self.landmarks is None:
            return None
        parts = self.LANDMARK_LEAF_PARTS // (2 if points > self.LANDMARK_MANY else 1)
        return max(points // parts, min(points // 4, self.LANDMARK_SMALLEST_LEAF))

    def kernel_bytes(self, reduced: int, dimension: int, point_bytes: int) -> int | None:
        """See `KernelSizes`: all points are copied once, and few of them are scaled."""
        if self.landmarks is None:
            return None
        whole, few, width = self._whole, min(reduced, self.PILOT_POINTS), dimension + 1
        pilot = 8 * few * (whole.WORKING_COPIES * width + whole.WORKING_NUMBERS)
        pilot += 8 * self.landmarks * (2 * self.PILOT_ROWS_AT_ONCE + whole.WORKING_SQUARES * self.landmarks)
        return reduced * (point_bytes + 8 * whole.WORKING_NUMBERS) + pilot


OPTIONS: Final = SectionOptions(section="coreset", mixin=LandmarkOptions, after="span_rows")
