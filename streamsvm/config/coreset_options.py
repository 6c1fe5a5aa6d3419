"""The options of a coreset, with the rules that hold among them; the sizes that follow are in `sizing`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

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
        description="How many points are reduced to few: `uniform` samples in proportion to weight, `calibrated` "
        "samples by the margin of a pilot model and keeps totals exact." + described("coreset.reducer"),
    )
    clusters: Literal["log", "elbow", "silhouette"] | Annotated[int, Field(ge=1, le=1_000)] = Field(
        default="log",
        description="Number of clusters per label, of a reducer that measures distances within clusters: a number, "
        "`log` = ln n, or chosen among 1 to 2 ln n by `elbow` or `silhouette`. More clusters take more time."
        + described("coreset.clusters"),
    )
    structure: StructureName | None = Field(
        default=None,
        description="How buckets merge: `tree` keeps up to `buckets`, and merges the two neighbours that stand for the "
        "least weight (with `fan_in`, it carries like a counter of that base instead); `chain` keeps one bucket, "
        "which is reduced again with every leaf, and so makes the most of little memory. Default: `tree` for a "
        "linear kernel, unless a memory budget leaves a partition fewer than 700 points; `chain` there, and for "
        "`rbf`, because the small buckets of a tree mislead the pilot of an `rbf` model."
        + described("coreset.structure"),
    )
    memory_points: Annotated[int, Field(ge=16, le=1 << 30)] | None = Field(
        default=None,
        description="Most points that all partitions hold at once: buckets, leaves and audit samples together. A "
        "point takes 4 bytes per feature (8 for float64) and 9 more. `leaf_rows`, `bucket_points` and "
        "`audit_points` follow from this option unless they are given. Each of `max_partitions` gets an equal part, "
        "so that a new partition does not change the others; the parts of missing partitions stay unused.",
    )
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 50)] | None = Field(
        default=None,
        description="Instead of memory_points: most bytes that learning and building a training set may take. The "
        "number of points follows from it and from the number and type of the features. Counted are the points "
        "held, the moments of every bucket, one training set with its audit sample, and the arrays of the largest "
        "reduction, a few hundred bytes per point (those of the partitions run one after another; a union above "
        "train_points is one, too). On top come training, the Kafka client, points that a cut still holds although "
        "its partitions have merged them, and a cut's own reduction, which may run beside one of a partition.",
    )
    buckets: Annotated[Annotated[int, Field(ge=2, le=64)] | None, BeforeValidator(none_in_words)] = Field(
        default=4,
        description="Most buckets of a `tree` with the reducer `calibrated`. Under the same memory budget, more "
        "buckets hold fewer points each. none: a counter of base `fan_in`, which has room for a bucket on every level "
        "of a stream of 2^40 rows, and therefore uses a fifth of its budget. That is also the rule if `fan_in` is "
        "given, and with other reducers.",
    )
    fan_in: Annotated[int, Field(ge=2, le=64)] = Field(
        default=2,
        description="Number of buckets of one level that merge into a bucket of the next level. Used only without "
        "`buckets`. The value 2 gives Alg. 2 of the paper.",
    )
    memory: MemoryName = Field(
        default="all",
        description="Which rows a model is of. `all`: of everything since the beginning, all rows alike. `window`: of "
        "the newest rows, `window_points` or `window_s`. `decay`: a row counts half as much after each half-life, "
        "`half_life_points` or `half_life_s`. `adaptive`: of several horizons, by how models of each did on rows that "
        "they had not learned; for a stream that changes, nobody knows how fast. Each partition forgets by its own "
        "rows. An idle stream forgets nothing.",
    )
    span_rows: Annotated[int, Field(ge=1, le=1 << 40)] | None = Field(
        default=None,
        description="Rows after which a bucket is made, unless `memory` is `all`. The first `leaf_rows` of them are "
        "held whole, and a model of these screens the others. A multiple of `leaf_rows`. Fewer rows follow a change "
        "sooner and take more time. Default: eight leaves of 100 points a feature or more, fewer of smaller leaves "
        "(of 50 points a feature four), at most an eighth of the window or half-life; one leaf where leaves cannot be "
        "screened.",
    )
    leaf_rows: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000,
        description="Number of rows, accepted or not, after which a leaf is sealed, unless the leaf is screened. "
        "Also the most points that a leaf holds.",
    )
    screening: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.25,
        description="Largest size of a leaf, as a share of all rows before it, with `calibrated` and a linear "
        "kernel. Rows beyond `leaf_rows` are screened by the margin of a model of the partition's own buckets: a "
        "row is either kept or only added to exact totals. A larger share means fewer reductions, but follows a "
        "changing stream less closely. 0: no screening.",
    )
    band: Annotated[float, Field(ge=0, le=0.9)] = Field(
        default=0.5,
        description="Largest share of a bucket, and of a screened leaf, that holds the rows nearest the margin as they "
        "are; with `calibrated`, a linear kernel, two labels, `memory = all` and buckets of 300 points or more. There "
        "is a band where all rows whose side of the margin is in doubt fit in it, and the newest leaf is like those "
        "before it; then models are often as good as those of all rows. A training set that is reduced to "
        "`train_points` has one, too, where it fits. 0: none.",
    )
    class_screening: bool = Field(
        default=True,
        description="Screen the rows of more than two labels too, all labels at once: a row is kept by the greatest of "
        "what it is worth to each label against the rest. With `calibrated`, a linear kernel and leaves of four rows a "
        "label or more. No effect with two labels.",
    )
    totals: bool = Field(
        default=True,
        description="Keep totals of all rows that are not held any more, by label, side of the margin and distance "
        "from it, beside the points. With them every version says how far it can be from the best possible model over "
        "all rows: bounds that are proven, without reading the log again. With a linear kernel, two labels and "
        "`memory = all`; without effect elsewhere. Takes some tenths of a microsecond a row, up to 24 sets of sums a "
        "bucket, and a second, smaller training a version; what is learned does not depend on it.",
    )
    bucket_points: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000, description="Most points in a bucket. More points take more memory and reduce the error."
    )
    audit_points: Annotated[int, Field(ge=0, le=1 << 24)] = Field(
        default=1_000,
        description="Number of points in each partition's audit sample, which is drawn independently of the "
        "coreset. Every version estimates its objective over the whole stream from this sample, with a 95 % "
        "interval. At 1000 points the interval is a quarter of the loss to the whole loss wide, wider where few "
        "points have a loss; four times the points halve the interval. With a memory budget the sample takes at "
        "most a twentieth of the budget. 0: no estimate.",
    )
    audit_by_label: bool = Field(
        default=True,
        description="Draw half of the audit sample from the rows of each label. Where one row in a thousand is "
        "positive, a sample of 1000 rows otherwise holds one positive, too few for skill, thresholds, probabilities "
        "and the gate. In return the interval of the objective is wider where the frequent label has most of the "
        "loss, by a half at two positives in a thousand. With more than two labels there is always one sample of all "
        "rows.",
    )
    train_points: Annotated[int, Field(ge=2, le=1 << 24)] = Field(
        default=20_000,
        description="Most points a model is trained on. A larger union of buckets is reduced to this many.",
    )
    clip_sd: Annotated[float, Field(ge=3, le=1e6)] | None = Field(
        default=None,
        description="Clip each feature of a row to its mean plus or minus this many standard deviations. Mean and "
        "deviation come from the leaves that the partition sealed before; the first leaf is clipped by its own, "
        "which works if outliers are fewer than 1 / clip_sd^2 of its rows. A real change of scale is followed over "
        "some leaves. Do not use the option with rare indicator features, where every 1 is an outlier. Default: no "
        "clipping.",
    )
    max_leverage: Annotated[Annotated[float, Field(gt=0, le=1)] | None, BeforeValidator(none_in_words)] = Field(
        default=0.1,
        description="Largest share by which one row may increase the variance of a feature over what its partition "
        "sealed before; and, at a tenth of this share, the total weight. The features and the weight of a row "
        "beyond these bounds are clipped, but never below ten standard deviations or ten times the mean weight. The "
        "first leaf is bounded by its own points. At 0.1 a value that ten earlier points had is never changed, and "
        "a real change of scale is followed over some leaves. The log names the farthest row. none: no bound, and "
        "one point at 1e30 then stays in the scaler for ever.",
    )
    max_partitions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=64,
        description="Most partitions the input may have. An input with more partitions is refused, so that memory "
        "stays bounded.",
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
