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
        description="Rows of a window, at least eight leaves of `leaf_rows`.",
    )
    window_s: Annotated[float, Field(gt=0, le=1e10)] | None = Field(
        default=None,
        description="Seconds of a window, by the records' timestamps; a leaf is as old as its median row.",
    )
    half_life_points: Annotated[int, Field(ge=8, le=1 << 40)] | None = Field(
        default=None,
        description="Half-life in rows, at least eight leaves of `leaf_rows`.",
    )
    half_life_s: Annotated[float, Field(gt=0, le=1e10)] | None = Field(
        default=None,
        description="Half-life in seconds, by the records' timestamps.",
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
