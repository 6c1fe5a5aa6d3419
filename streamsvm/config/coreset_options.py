"""The options of a coreset, with the rules that hold among them; the sizes that follow are in `sizing`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from streamsvm.algorithms import ReducerName, StructureName, described
from streamsvm.choices import MemoryName
from streamsvm.option_texts import MemoryLength, none_in_words, seconds_of
from streamsvm.sections import Section
from streamsvm.supports import require


class CoresetOptions(Section):
    """How a partition's stream is summarised."""

    reducer: ReducerName = Field(
        default="calibrated",
        description="How points are reduced: `uniform` by weight, `calibrated` by the margin of a pilot model, with "
        "exact totals." + described("coreset.reducer"),
    )
    structure: StructureName | None = Field(
        default=None,
        description="How buckets merge: `tree` keeps up to four, of `calibrated` only; `chain` one, which is reduced "
        "again with every leaf. Default: `tree`; `chain` for `rbf`, and with fewer than 700 `points`."
        + described("coreset.structure"),
    )
    points: Annotated[int, Field(ge=16, le=1 << 30)] | None = Field(
        default=None,
        description="Most points kept for each partition: of a leaf, of the buckets, and of the audit sample by which "
        "versions estimate their objective, at most an eleventh and 1,000. A point takes 4 bytes a feature (8 for "
        "float64) and 9 more. Default: 11,000; 20,000 for `rbf` of two labels, 5,500 of more; 48,000 if `memory` is "
        "not `all`, 66,000 for a `counter`.",
    )
    memory: MemoryName = Field(
        default="all",
        description="Which rows a model is of: `all` alike; a `window` of the newest; with weights that halve after a "
        "half-life (`decay`); or several horizons, by how each did on new rows (`adaptive`). Each partition forgets "
        "by its own rows.",
    )
    window: MemoryLength | None = Field(
        default=None,
        description="With `memory = window`: how many of the newest rows count, such as 100000; or which time by the "
        "records' timestamps, such as 14d or 36h. A leaf is as old as its median row.",
    )
    half_life: MemoryLength | None = Field(
        default=None,
        description="With `memory = decay`: after how many rows, such as 100000, or which time, such as 14d, a row "
        "counts half.",
    )
    landmarks: Annotated[Annotated[int, Field(ge=8, le=1_024)] | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="For `rbf` of two labels: landmark points that approximate a pilot, so that leaves can be "
        "screened. Default: 256, and then `train_points` is 100,000 by default. none: no screening.",
    )
    screening: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.25,
        description="Linear kernel: largest leaf, as a share of the rows before it. Rows beyond `leaf_rows` are kept "
        "by their margin, or added to exact totals. 0: no screening.",
    )
    band: Annotated[float, Field(ge=0, le=0.9)] = Field(
        default=0.5,
        description="Largest share of a bucket for the rows nearest the margin, as they are. Linear kernel, two "
        "labels, `memory = all` and buckets of 300 points or more only. 0: none.",
    )
    class_screening: bool = Field(
        default=True,
        description="Screen the rows of more than two labels, with a linear kernel and leaves of four rows a label "
        "or more.",
    )
    audit_by_label: bool = Field(
        default=True,
        description="Draw half of the audit sample from each of two labels, so that a rare one has enough points.",
    )
    train_points: Annotated[int, Field(ge=2, le=1 << 24)] = Field(
        default=20_000,
        description="Most points a model is trained on; more are reduced.",
    )
    clip_sd: Annotated[float, Field(ge=3, le=1e6)] | None = Field(
        default=None,
        description="Clip features at this many standard deviations of the leaves before; the first leaf at its own. "
        "Not for features that are rarely set.",
    )
    max_leverage: Annotated[Annotated[float, Field(gt=0, le=1)] | None, BeforeValidator(none_in_words)] = Field(
        default=0.1,
        description="Largest share by which one row may increase the variance of a feature and, at a tenth of it, the "
        "total weight; ten standard deviations and ten mean weights always may. A row beyond is left out of versions "
        "until ten others are like it; then all are learned as they came. none: one point at 1e30 ends learning.",
    )
    BUCKETS: ClassVar[int] = 4
    """Of a tree."""
    TREE_POINTS: ClassVar[int] = 700
    """Fewest points of a partition with which a tree is as near to the optimum as a chain; with a quarter of them it is
    3 to 4 times as far from it, and can be farther than a reservoir sample (tests/benchmarks/results/coreset.txt)."""
    BAND_POINTS: ClassVar[int] = 300
    """Fewest points of a bucket with a band: of fewer, the sample beside the band is too small. Buckets of 100 points
    lost by it on one set of three, by a factor of three; those of a tree, of 200, by a quarter on two."""
    LANDMARKS: ClassVar[int] = 256
    """Of a pilot by default. 64 to 512 were measured: below 128 margins of ijcnn1 are too rough."""
    LANDMARK_TRAIN_POINTS: ClassVar[int] = 100_000
    """Of an RBF machine with landmarks: what its solver can train in seconds."""

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        changed = {f"coreset.{option}": self._unless_default(option) for option in ("screening", "clip_sd")}
        own = {f"coreset.{option}": getattr(self, option) for option in ("structure", "reducer", "memory")}
        require({**own, **changed, "coreset.window": self.window, "coreset.half_life": self.half_life})
        return self

    def _unless_default(self, option: str) -> object:
        """Return the value of an option; None if it is the default."""
        value = getattr(self, option)
        return None if value == type(self).model_fields[option].default else value

    @property
    def length_rows(self) -> int | None:
        """Rows of the window, or of the half-life; None if it is a time, or there is none."""
        length = self.window or self.half_life
        return length if isinstance(length, int) else None

    @property
    def length_s(self) -> float | None:
        """Seconds of the window, or of the half-life; None if it is one of rows, or there is none."""
        length = self.window or self.half_life
        return seconds_of(length) if isinstance(length, str) else None

    @property
    def forgets(self) -> bool:
        """Whether rows may lose weight."""
        return self.memory != "all"

    @property
    def screens(self) -> bool:
        """Whether leaves may be screened."""
        return self.reducer == "calibrated" and self.screening > 0

    def band_of(self, points: int) -> float:
        """Return the largest share of the band of so many kept points."""
        return self.band if points >= self.BAND_POINTS and not self.forgets else 0.0
