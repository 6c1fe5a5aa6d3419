"""The lengths of the memories that forget: options of `[coreset]`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from streamsvm import memory
from streamsvm.sections import MemoryLength, SectionOptions
from streamsvm.supports import HALF_LIFE_LENGTH, WINDOW_LENGTH


class ForgettingOptions(MemoryLength):
    """Of `[coreset]`: how long a window is, or after which time a row counts half."""

    window_points: Annotated[int, Field(ge=8, le=1 << 40)] | None = Field(
        default=None,
        description="Rows of the window of each partition, with `memory = window`; at least eight leaves of "
        "`leaf_rows`. With a memory budget, leaves follow from both.",
    )
    window_s: Annotated[float, Field(gt=0, le=1e10)] | None = Field(
        default=None,
        description="Seconds of the window, with `memory = window`, by the timestamps of the records: a leaf is as old "
        "as the median of its rows.",
    )
    half_life_points: Annotated[int, Field(ge=8, le=1 << 40)] | None = Field(
        default=None,
        description="Rows of a partition after which a row counts half, with `memory = decay`; at least eight leaves "
        "of `leaf_rows`, or weights are those of leaves, not of rows.",
    )
    half_life_s: Annotated[float, Field(gt=0, le=1e10)] | None = Field(
        default=None,
        description="Seconds after which a row counts half, with `memory = decay`, by the timestamps of the records.",
    )

    TIMED_BUCKETS: ClassVar[int] = 40
    """Most buckets of a window of time, where the rows that come in it are not known before."""

    def length_axes(self) -> dict[str, object]:
        """See `MemoryLength`."""
        lengths = ("window_points", "window_s", "half_life_points", "half_life_s")
        return {
            **{f"coreset.{option}": getattr(self, option) for option in lengths},
            WINDOW_LENGTH: self.window_points or self.window_s,
            HALF_LIFE_LENGTH: self.half_life_points or self.half_life_s,
        }

    @property
    def length_option(self) -> str:
        """See `MemoryLength`."""
        return "window_points" if self.window_points is not None else "half_life_points"

    @property
    def length_rows(self) -> int | None:
        """See `MemoryLength`."""
        return self.window_points or self.half_life_points

    def most_spans(self, span: int) -> int | None:
        """See `MemoryLength`."""
        if self.window_points is not None:
            return memory.windowed_buckets(self.window_points, span)
        if self.half_life_points is not None:
            return memory.doubling_buckets(memory.MOST_HALF_LIVES * self.half_life_points, span)
        return self.TIMED_BUCKETS if self.window_s is not None else None


OPTIONS: Final = SectionOptions(section="coreset", mixin=ForgettingOptions, after="memory")
