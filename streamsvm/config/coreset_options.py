"""The options of a coreset, with the rules that hold among them; the sizes that follow are in `sizing`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from streamsvm.algorithms import COUNTER, ReducerName, StructureName, described, names
from streamsvm.choices import MemoryName
from streamsvm.option_texts import none_in_words
from streamsvm.sections import KernelSizes, MemoryLength
from streamsvm.supports import require


class CoresetOptions(MemoryLength, KernelSizes):
    """How a partition's stream is summarised."""

    reducer: ReducerName = Field(
        default="calibrated",
        description="How points are reduced: `uniform` by weight, `calibrated` by the margin of a pilot model, with "
        "exact totals." + described("coreset.reducer"),
    )
    structure: StructureName | None = Field(
        default=None,
        description="How buckets merge: `tree` keeps up to `buckets`; `chain` one, which is reduced again with every "
        "leaf. Default: `tree` for a linear kernel; `chain` for `rbf`, and where a "
        "budget gives a partition fewer than 700 points." + described("coreset.structure"),
    )
    memory_points: Annotated[int, Field(ge=16, le=1 << 30)] | None = Field(
        default=None,
        description="Most points in all partitions: buckets, leaves and audit samples, of 4 bytes a feature (8 for "
        "float64) and 9 more. Each of `max_partitions` gets an equal part, from which `leaf_rows`, `bucket_points` "
        "and `audit_points` follow; rows that wait (`max_leverage`) come on top, at most a fiftieth of a leaf, 20 or "
        "more. Default: at most 11,000 points a partition (four buckets and a leaf of 2,000, 1,000 of audit), more if "
        "`memory` is not `all`; for `rbf` see `memory_bytes`.",
    )
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 50)] | None = Field(
        default=None,
        description="Instead of memory_points: most bytes of points, moments, a training set, and the largest "
        "reduction; training and the Kafka client come on top. Default: for `rbf` with landmarks 64 MB (20,600 points "
        "of 8 features for each of 8 partitions); else none.",
    )
    buckets: Annotated[Annotated[int, Field(ge=2, le=64)] | None, BeforeValidator(none_in_words)] = Field(
        default=4,
        description="Most buckets of a `tree`. none, `fan_in` given or another reducer than `calibrated`: `fan_in` "
        "buckets of a level merge into one of the next.",
    )
    fan_in: Annotated[int, Field(ge=2, le=64)] = Field(
        default=2,
        description="Without `buckets`: how many of a level merge into one of the next.",
    )
    memory: MemoryName = Field(
        default="all",
        description="Which rows a model is of: `all` alike; a `window` of the newest; with weights that halve after a "
        "half-life (`decay`); or several horizons, by how each did on new rows (`adaptive`). Each partition forgets "
        "by its own rows.",
    )
    span_rows: Annotated[int, Field(ge=1, le=1 << 40)] | None = Field(
        default=None,
        description="Unless `memory` is `all`: rows of a bucket, a multiple of `leaf_rows`. Fewer follow a change "
        "sooner and take more time. Default: eight leaves of 100 points a feature, at most an eighth of the window or "
        "half-life.",
    )
    leaf_rows: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000,
        description="Rows, accepted or not, after which an unscreened leaf is sealed; most points of a leaf.",
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
    bucket_points: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000, description="Most points in a bucket. More reduce the error."
    )
    audit_points: Annotated[int, Field(ge=0, le=1 << 24)] = Field(
        default=1_000,
        description="Points of each partition's audit sample, by which versions estimate their objective. Of a memory "
        "budget at most a twentieth. 0: none.",
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
    max_partitions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=64,
        description="Most partitions of the input; with more a start is refused.",
    )

    SPAN_LEAVES: ClassVar[int] = 8
    """Most leaves of a span by default."""
    SPAN_POINTS: ClassVar[int] = 100
    """Points of a leaf for each feature with which a span has so many leaves; with fewer, in proportion fewer leaves. A
    pilot of few points screens badly: windows of ijcnn1 came three to five times as near with 2 leaves a span as with 8
    where a leaf had 18 to 45 points a feature, and nearest of all with 4 where it had 90."""
    LEAF_BUCKETS: ClassVar[int] = 3
    """Buckets' points of a leaf with window and decay under a memory budget: a dozen buckets share the rest, and each
    of them is made with the pilot of a leaf."""
    HORIZON_BUCKETS: ClassVar[int] = 24
    """Most buckets of a partition that never drops one: of 2,000 spans, every one that doubling makes. In a longer
    stream the oldest two become one again and again."""
    HORIZON_POINTS: ClassVar[int] = 500
    """Points of a bucket with `adaptive` by default, but 15 for each feature: what is gained with more is nearness to
    the optimum of rows of which nobody knows whether they still hold."""
    AUDITED_A_BUCKET: ClassVar[float] = 0.1
    """Share of `audit_points` that a bucket has, where each has its own audit sample."""
    CHAIN_BUCKET_SHARE: ClassVar[float] = 0.7
    """The bucket's share of a partition's memory in a chain; the rest is the leaf. Measured from 0.3 to 0.85: a larger
    bucket comes nearer to the optimum and loses less on sorted streams; a larger leaf is reduced less often, which
    takes less time."""
    TREE_POINTS: ClassVar[int] = 700
    """Fewest points of a partition with which a tree is as near to the optimum as a chain; with a quarter of them it is
    3 to 4 times as far from it, and can be farther than a reservoir sample (tests/benchmarks/results/coreset.txt)."""
    BAND_POINTS: ClassVar[int] = 300
    """Fewest points of a bucket with a band: of fewer, the sample beside the band is too small. Buckets of 100 points
    lost by it on one set of three, by a factor of three; those of a tree, of 200, by a quarter on two."""
    LEAST_POINTS_A_FEATURE: ClassVar[int] = 14
    """Fewest points of a partition for each feature with which a chain was at least twice as near as a reservoir."""
    AUDIT_SHARE: ClassVar[float] = 0.05
    """The audit sample's share of a partition's memory. Gaps fall about as m^-1.3, so this costs the coreset some 7
    %."""
    WORKING_COPIES: ClassVar[int] = 3
    """Most arrays of float64 features, one row per point, that a reduction and its pilot hold at the same time."""
    WORKING_NUMBERS: ClassVar[int] = 24
    """Further numbers of 8 bytes per point of a reduction: margins, dual variables, slacks, steps, shares, orders."""
    WORKING_NUMBERS_A_CLASS: ClassVar[int] = 4
    """The same for each of more than two classes: sign, margin, importance and the row of a total."""
    PROJECTIONS: ClassVar[int] = 36
    """Most columns, and numbers of a padded row, of the projection that a screen has of each of several labels."""
    CLASS_NUMBERS: ClassVar[int] = 56
    """Further numbers of 8 bytes that it has of each: bins, terms, totals."""
    WORKING_SQUARES: ClassVar[int] = 4
    """Most matrices of features by features that a reduction and its pilot hold at the same time."""
    LEAST_BUCKET: ClassVar[int] = 16
    """Fewest points per bucket that a budget in bytes must allow. A smaller budget is probably given in the wrong
    unit."""
    AUDIT_BYTES: ClassVar[int] = 16
    """Bytes per point of the audit sample besides the point itself: its priority and its place in a heap."""
    BUCKET_BYTES: ClassVar[int] = 2_048
    """Bytes of a bucket's Python objects besides points and moments."""

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        require({"coreset.memory_points": self.memory_points, "coreset.memory_bytes": self.memory_bytes})
        return self

    @model_validator(mode="after")
    def _merges_by_one_rule(self) -> Self:
        return self.merged_by_one_rule()

    def merged_by_one_rule(self) -> Self:
        """Let `buckets` be none wherever another rule holds. If `structure` is not given, `settled` does this again."""
        buckets = self.buckets if "buckets" in self.model_fields_set else None
        changed = {f"coreset.{option}": self._unless_default(option) for option in ("fan_in", "screening", "clip_sd")}
        rule = {"coreset.structure": self.structure, "coreset.reducer": self.reducer, "coreset.buckets": buckets}
        require({**rule, **changed, "coreset.memory": self.memory})
        is_tree = self.structure in (None, "tree") and self.reducer == "calibrated"
        if self.forgets or (buckets is None and ("fan_in" in self.model_fields_set or not is_tree)):
            object.__setattr__(self, "buckets", None)
        if self.structure is not None and not self.forgets:
            self._require_known(self.merges)
        return self

    def _require_known(self, structure: str) -> None:
        """Refuse a structure of a room that is not there; what an option means never depends on which rooms are."""
        if structure not in (known := names("coreset.structure")):
            raise ValueError(
                f"the structure of these options is `{structure}`, which is not part of this installation: give "
                f"coreset.structure = chain (installed: {', '.join(known)})"
            )

    @property
    def merges(self) -> str:
        """Name of the structure in which nothing is forgotten: a `tree` without `buckets` is a counter."""
        if self.structure not in (None, "tree"):
            return self.structure
        return "tree" if self.buckets is not None else COUNTER

    def _unless_default(self, option: str) -> object:
        """Return the value of an option; None if it is the default."""
        value = getattr(self, option)
        return None if value == type(self).model_fields[option].default else value

    @model_validator(mode="after")
    def _length_of_the_memory(self) -> Self:
        require({"coreset.memory": self.memory, "coreset.span_rows": self.span_rows, **self.length_axes()})
        return self

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
