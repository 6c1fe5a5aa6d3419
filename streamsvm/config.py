"""All options, each declared once with type, default, unit and consequence.

The command line, the environment, the TOML file, the configuration reference and the configuration hash are all made
from these classes. Sections under `ModelConfig` decide what a model is, and are hashed into its lineage. The others
only decide when and where things happen, and may change between two starts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from streamsvm import memory
from streamsvm.algorithms import COUNTER, ReducerName, SolverName, StructureName, names
from streamsvm.choices import MemoryName, Multiclass, Precision, TuneScoring
from streamsvm.features.columns import columns_of
from streamsvm.features.declaring import declared, tables
from streamsvm.features.recipe import Envelope, Recipe, recipe_of
from streamsvm.features.zones import Transitions, transitions_of
from streamsvm.model.comparison import configuration_differences
from streamsvm.model.described import label_fault
from streamsvm.model.threshold import Figure
from streamsvm.plugs import Table, said
from streamsvm.supports import (
    FEATURES,
    FOLLOWING,
    HALF_LIFE_LENGTH,
    LABELS,
    WINDOW_LENGTH,
    require,
    without_effect,
)
from streamsvm.toml_text import toml_key, toml_value

Label = StrictBool | StrictInt | StrictStr


def split_at_commas(value: object) -> object:
    """Let `a,b` stand for a list where only text can be given (environment, command line)."""
    if not isinstance(value, str):
        return value
    whole = _literal(value)
    return whole if isinstance(whole, list) else [_literal(part.strip()) for part in value.split(",")]


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def table_in_words(value: object) -> object:
    """Let JSON stand for a table where only text can be given."""
    return _literal(value) if isinstance(value, str) else value


def none_in_words(value: object) -> object:
    """Let `none` stand for no value where a TOML file or a command line can say nothing else."""
    return None if value == "none" else value


def target_in_words(value: object) -> object:
    """Let `recall=0.9` stand for a table of one entry where only text can be given."""
    if not isinstance(value, str) or "=" not in value:
        return none_in_words(_literal(value) if isinstance(value, str) else value)
    figure, _, share = value.partition("=")
    return {figure.strip(): _literal(share.strip())}


def one_target(value: object) -> object:
    """Refuse a target that is not one figure with a share."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a target: give one of {_TARGETS_SHOWN}")
    if len(value) != 1:
        raise ValueError(f"{len(value)} figures are given, {', '.join(map(str, value))}: give only one")
    ((figure, share),) = value.items()
    if figure not in TARGETS:
        raise ValueError(f"{figure!r} is unknown: give one of {_TARGETS_SHOWN}")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 < share < 1.0:
        raise ValueError(f"{figure} is {share!r}: give a share above 0 and below 1")
    return {str(figure): float(share)}


def two_costs(value: object) -> object:
    """Refuse costs that are not two numbers above 0."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"{value!r} is not two costs: give that of a missed positive and that of a false alarm: 50,1")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, int | float) or not LEAST_COST <= one <= 1.0 / LEAST_COST:
            raise ValueError(f"{one!r} is not a cost: give a number from {LEAST_COST:g} to {1.0 / LEAST_COST:g}")
    return tuple(float(one) for one in value)


TARGETS: Final = ("precision", "recall", "alarm_rate")
_TARGETS_SHOWN: Final = "precision=0.9, recall=0.9, alarm_rate=0.01, with your own share"
LEAST_COST: Final = 1e-12
"""Costs far smaller or larger would vanish in sums with others."""


class Section(BaseModel):
    """A frozen section that refuses unknown options."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


LARGEST_EXPANSION: Final = 256
"""Default of `max_decoded_bytes`, per byte of `max_record_bytes`. Plain points take 10 to 70 bytes for each byte."""
SectionType = TypeVar("SectionType", bound=Section)


def _with_defaults(section: SectionType, values: Mapping[str, object]) -> SectionType:
    """Return a section with other values for options that are not given; they still count as not given."""
    copy = section.model_copy(update=values)
    object.__setattr__(copy, "__pydantic_fields_set__", set(section.model_fields_set))
    return copy


PointsFormat = Literal["auto", "json", "arrow", "avro", "json-schema", "protobuf"]


class PointsConfig(Section):
    """What a valid point is. Other rows are rejected."""

    dimension: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Number of features of every point. A row of another length becomes a dead letter."
    )
    labels: Annotated[tuple[Label, ...], BeforeValidator(split_at_commas)] = Field(
        default=(-1, 1),
        description="The labels as written in the records, 2 to 128 of one type. Of two, the first is the negative and "
        "the second the positive label: a decision value above 0, or above the version's threshold, means the positive "
        "one. Of more, a version holds a machine for each label in this order, which tells it from all others; the "
        "label with the greatest decision value is the answer.",
    )
    feature_names: Annotated[tuple[str, ...], BeforeValidator(split_at_commas)] = Field(
        default=(),
        description="Names of the features, in order, for people who read the model. Default: no names.",
    )
    dtype: Literal["float32", "float64"] = Field(
        default="float32", description="Type in which features are stored; float64 doubles the memory per point."
    )
    format: PointsFormat = Field(
        default="auto",
        description="Format of the records: JSON; Arrow IPC streams; Avro with a schema registry; and, of events only "
        "(`[features]`), json-schema and protobuf as a registry's clients write them. `auto` follows each record's "
        "header `content-type`, and reads a record without that header as JSON.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="Largest size of a record's value, in bytes. A larger record becomes a dead letter and is not "
        "decoded.",
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=10_000, description="Most rows in one record. A record with more rows becomes a dead letter as a whole."
    )
    max_decoded_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] | None = Field(
        default=None,
        description="Most memory, in bytes, that decoding one record may take. The need is estimated from the "
        "record's framing before anything is allocated; a record that could take more becomes a dead letter. "
        "Default: 256 times `max_record_bytes`.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if fault := label_fault(self.labels):
            raise ValueError(f"points.labels {fault}")
        if self.feature_names and len(self.feature_names) != self.dimension:
            raise ValueError(
                f"points.feature_names has {len(self.feature_names)} names, but points.dimension is {self.dimension}"
            )
        return self

    @property
    def classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def numpy_dtype(self) -> np.dtype[np.floating]:
        """Storage dtype of the features."""
        return np.dtype(self.dtype)

    @property
    def decoded_bytes(self) -> int:
        """Bytes of memory that decoding one record may take."""
        return self.max_decoded_bytes or LARGEST_EXPANSION * self.max_record_bytes

    @property
    def point_bytes(self) -> int:
        """Bytes of memory per point held: features, label and weight."""
        return self.dimension * self.numpy_dtype.itemsize + 9


class EventsConfig(Section):
    """Fields of raw events beside their features. Only with `[features]`."""

    label: Annotated[Mapping[str, Any] | None, BeforeValidator(table_in_words)] = Field(
        default=None,
        description="The field of the label and the values that mean the negative and the positive label: "
        'label = {field = "is_fraud", negative = [false], positive = [true]}. Of several values the first is the one '
        "that scores carry. An event with another value becomes a dead letter. A trainer needs it.",
    )
    weight: str | tuple[str | int, ...] | None = Field(
        default=None, description="Field of the weight. Default, and where the field is missing: weight 1."
    )
    id: str | tuple[str | int, ...] | None = Field(
        default=None, description="Field of the id that a score carries, text or an integer. Default: no id."
    )
    time: Annotated[str | Mapping[str, Any] | None, BeforeValidator(table_in_words)] = Field(
        default=None,
        description="The field that says when an event happened, for the times that a version covers: time = "
        '{field = "created_at", format = "ms", zone = "Europe/Berlin"}, with the formats iso8601 (the default), s, ms '
        "and us. Another type, or a time before 1970, makes the event a dead letter. Default, and where the field is "
        "missing: the record's timestamp.",
    )
    envelope: Envelope = Field(
        default="none",
        description="What stands around an event in its record: `none`; `connect`, Kafka Connect's schema and payload; "
        "`debezium`, of which the state after a change is learned, and deletions are passed over; `cloudevents`, "
        "structured or binary. A record without its envelope becomes a dead letter.",
    )


def duration_in_words(value: object) -> object:
    """Let `36h` stand for so many seconds: a number with s, m, h or d."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value!r} is not a duration: give seconds, or a number with s, m, h or d, such as 36h")
    return float(found[1]) * _SECONDS[found[2] or "s"]


_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
Duration = Annotated[float, Field(ge=0, le=10 * 366 * 86_400.0), BeforeValidator(duration_in_words)]
LabelKey = Literal["id", "record"]
AbsentLabel = Literal["negative", "drop", "dead_letter"]


class JoinConfig(Section):
    """How labels of another log are joined: the rule, which decides what is learned."""

    key: LabelKey = Field(
        default="id",
        description="What a row and its label have in common: `id`, the field of both records; or `record`, the key of "
        "both records. Either way both topics are partitioned alike.",
    )
    horizon: Duration = Field(
        default=0.0,
        description="How long a row waits for its label, in the time of the two logs: seconds, or 90m, 36h, 14d. "
        "Everything read within it is held in memory. Required with `topic`.",
    )
    early: Duration = Field(
        default=60.0,
        description="How long a label waits for its row, in the time of the two logs. A label that no row took by then "
        "becomes a dead letter, as one beyond the horizon does.",
    )
    absent: AbsentLabel = Field(
        default="negative",
        description="What becomes of a row without a label at the end of the horizon: it is learned under the first "
        "label, dropped (`drop`), or becomes a dead letter (`dead_letter`).",
    )


@cache
def rules_of_zone(name: str) -> Transitions:
    """Return the rules of a time zone as this machine knows them.

    Raises
    ------
    ValueError
        If it knows no such zone.
    """
    try:
        return transitions_of(ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"the time zone {name!r} is unknown here: give a name such as Europe/Berlin, or install the package tzdata"
        ) from None


def _a_recipe(given: object) -> object:
    return recipe_of(given) if isinstance(given, Mapping) else given


CanonicalRecipe = Annotated[InstanceOf[Recipe], BeforeValidator(_a_recipe), PlainSerializer(Recipe.plain)]


def recipe_from(features: Mapping[str, Any], events: Mapping[str, Any]) -> Recipe:
    """Return the recipe of the tables `[features]` and `[events]`.

    Raises
    ------
    ValueError
        Naming the option, and saying what to do.
    """
    plain = {name: value for name, value in events.items() if value is not None}
    tables_of = {option: table_in_words(plain.get(option)) for option in ("label", "time")}
    return declared(features, {**plain, **tables_of}, rules_of_zone)


def points_of(recipe: Recipe) -> dict[str, Any]:
    """Return the options of `[points]` that follow from a recipe."""
    names = columns_of(recipe).names
    label = recipe.label
    labels = {} if label is None else {"labels": (label.negative[0], label.positive[0])}
    return {"dimension": len(names), "feature_names": names, **labels}


ClassWeight = Annotated[float, Field(ge=1e-12, le=1e12)]
Alpha = Annotated[float, Field(ge=1e-30, le=1)]
Gamma = Annotated[float, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]


SIZES: Final[Table[memory.Sizes]] = Table("sizes of coreset.structure", {})
"""Of the structures that rooms add; the trunk's own are in `streamsvm.memory`."""


class _Screens(NamedTuple):
    """Whether leaves can be screened, and points of how many features; of 1 while that is not known."""

    rows: bool
    dimension: int = 1


class CoresetConfig(Section):
    """How a partition's stream is summarised."""

    reducer: ReducerName = Field(
        default="calibrated",
        description="How many points are reduced to few: `uniform` samples in proportion to weight, `calibrated` "
        "samples by the margin of a pilot model and keeps totals exact." + said("coreset.reducer"),
    )
    clusters: Literal["log", "elbow", "silhouette"] | Annotated[int, Field(ge=1, le=1_000)] = Field(
        default="log",
        description="Number of clusters per label, of a reducer that measures distances within clusters: a number, "
        "`log` = ln n, or chosen among 1 to 2 ln n by `elbow` or `silhouette`. More clusters take more time."
        + said("coreset.clusters"),
    )
    structure: StructureName | None = Field(
        default=None,
        description="How buckets merge: `tree` keeps up to `buckets`, and merges the two neighbours that stand for the "
        "least weight (with `fan_in`, it carries like a counter of that base instead); `chain` keeps one bucket, "
        "which is reduced again with every leaf, and so makes the most of little memory. Default: `tree` for a "
        "linear kernel, unless a memory budget leaves a partition fewer than 700 points; `chain` there, and for "
        "`rbf`, because the small buckets of a tree mislead the pilot of an `rbf` model." + said("coreset.structure"),
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
    span_rows: Annotated[int, Field(ge=1, le=1 << 40)] | None = Field(
        default=None,
        description="Rows after which a bucket is made, unless `memory` is `all`. The first `leaf_rows` of them are "
        "held whole, and a model of these screens the others. A multiple of `leaf_rows`. Fewer rows follow a change "
        "sooner and take more time. Default: eight leaves of 100 points a feature or more, fewer of smaller leaves "
        "(of 50 points a feature four), at most an eighth of the window or half-life; one leaf where leaves cannot be "
        "screened.",
    )
    landmarks: Annotated[Annotated[int, Field(ge=8, le=1_024)] | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="Of `rbf` machines in a `chain` with the reducer `calibrated`: most points by which a pilot is "
        "written down, so that every row can be asked about. Leaves are then screened as a linear machine's are; where "
        " more than a third of the weight is active (label noise, hard tables), points are a plain sample of the "
        "stream. More landmarks screen better and take more time, 1.7 ns a row each. Default for `rbf`: 256; and then "
        "`memory_bytes` is 64 MB unless a budget, `leaf_rows` or `bucket_points` is given, `max_partitions` 8 and "
        "`train_points` 100,000 unless they are given. none: pilots of all support vectors, no screening, and the "
        "defaults of a linear machine.",
    )
    leaf_parts: Annotated[Annotated[int, Field(ge=4, le=1_024)] | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="With landmarks, and sizes that follow from a memory budget: of how many parts of a partition's "
        "memory its leaf is one; of half as many with more than 50,000 points. An open leaf is empty by half on "
        "average, so a larger one leaves fewer points to learn from; a smaller one is sealed more often, which takes "
        "time. A pilot then serves until the stream has grown by a half. Default with landmarks: 32. none: 16, "
        "but 500 points at least, or a quarter of the memory, and a pilot for every four leaves.",
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
    TIMED_BUCKETS: ClassVar[int] = 40
    """Most buckets of a window of time, where the rows that come in it are not known before."""
    HORIZON_POINTS: ClassVar[int] = 500
    """Points of a bucket with `adaptive` by default, but 15 for each feature: what is gained with more is nearness to
    the optimum of rows of which nobody knows whether they still hold."""
    AUDITED_A_BUCKET: ClassVar[float] = 0.1
    """Share of `audit_points` that a bucket has, where each has its own audit sample."""
    CHAIN_BUCKET_SHARE: ClassVar[float] = 0.7
    """The bucket's share of a partition's memory in a chain; the rest is the leaf. Measured from 0.3 to 0.85: a larger
    bucket comes nearer to the optimum and loses less on sorted streams; a larger leaf is reduced less often, which
    takes less time."""
    LANDMARKS: ClassVar[int] = 256
    """Of a pilot by default. 64 to 512 were measured: below 128 margins of ijcnn1 are too rough."""
    LANDMARK_DEFAULTS: ClassVar[Mapping[str, int]] = {
        "max_partitions": 8,
        "train_points": 100_000,
        "leaf_parts": 32,
    }
    """Of an RBF machine with landmarks: what its solver can train in seconds, and what memory then fits."""
    LANDMARK_TUNE_POINTS: ClassVar[int] = 10_000
    """Of `svm.tune_points`, there: nested sizes make so many as cheap as a third of them."""
    LANDMARK_MEMORY_BYTES: ClassVar[int] = 64_000_000
    """Its budget where none is given."""
    LANDMARK_LEAF_PARTS: ClassVar[int] = 16
    """Parts of its memory of which one is the leaf without `leaf_parts`. Screened leaves hold points as heavy
    as the bucket's, so that a small leaf wastes nothing; each time one is full, all of the memory is read."""
    LANDMARK_MANY: ClassVar[int] = 50_000
    """Points of a partition above which the leaf is twice that part: reading all of the memory takes longer there, and
    a few per cent of the points are worth less."""
    LANDMARK_LEAST_LEAF: ClassVar[int] = 500
    """Points of a leaf, but at most a quarter of the memory: the first leaf bounds the values of later ones. Without
    `leaf_parts`. Of 1,400 points a quarter was wasted: htru2 with 30 % of the labels flipped lost 0.9 points."""
    LANDMARK_SMALLEST_LEAF: ClassVar[int] = 32
    """The same with `leaf_parts`."""
    PILOT_POINTS: ClassVar[int] = 8_192
    """Most points on which such a pilot is solved."""
    PILOT_ROWS_AT_ONCE: ClassVar[int] = 1_024
    """Of them, those whose kernel values with the landmarks are in memory at once."""
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
        return self._rule_of_merging()

    def _rule_of_merging(self) -> Self:
        """Let `buckets` be none wherever another rule holds. If `structure` is not given, `settled` does this again."""
        asked = self.buckets if "buckets" in self.model_fields_set else None
        changed = {f"coreset.{option}": self._unless_default(option) for option in ("fan_in", "screening", "clip_sd")}
        rule = {"coreset.structure": self.structure, "coreset.reducer": self.reducer, "coreset.buckets": asked}
        require({**rule, **changed, "coreset.memory": self.memory})
        is_tree = self.structure in (None, "tree") and self.reducer == "calibrated"
        if self.forgets or (asked is None and ("fan_in" in self.model_fields_set or not is_tree)):
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
    def _lengths_of_the_memory(self) -> Self:
        lengths = ("window_points", "window_s", "half_life_points", "half_life_s", "span_rows")
        require(
            {
                "coreset.memory": self.memory,
                **{f"coreset.{option}": getattr(self, option) for option in lengths},
                WINDOW_LENGTH: self.window_points or self.window_s,
                HALF_LIFE_LENGTH: self.half_life_points or self.half_life_s,
            }
        )
        return self

    @property
    def forgets(self) -> bool:
        """Whether rows may lose weight."""
        return self.memory != "all"

    @property
    def length_rows(self) -> int | None:
        """Rows of the window or half-life; None if it is one of time, or there is none."""
        return self.window_points or self.half_life_points

    def _span_of(self, leaf: int, screens: _Screens) -> int:
        """Return the rows of a span by default."""
        leaves = 1
        if screens.rows:
            leaves = max(1, min(self.SPAN_LEAVES, self.SPAN_LEAVES * leaf // (self.SPAN_POINTS * screens.dimension)))
        if self.length_rows is not None:
            leaves = max(1, min(leaves, self.length_rows // (memory.GRAIN * leaf)))
        return leaves * leaf

    def _buckets_of(self, leaf: int, screens: _Screens) -> int:
        """Return the most buckets of a structure that forgets, with leaves of so many rows."""
        span = self.span_rows or self._span_of(leaf, screens)
        if self.window_points is not None:
            return memory.windowed_buckets(self.window_points, span)
        if self.half_life_points is not None:
            return memory.doubling_buckets(memory.MOST_HALF_LIVES * self.half_life_points, span)
        return self.TIMED_BUCKETS if self.window_s is not None else self.HORIZON_BUCKETS

    @property
    def dyadic_buckets(self) -> int:
        """The most buckets of a structure that forgets; its span must be settled."""
        return self._buckets_of(self.leaf_rows, _Screens(self.screens))

    @property
    def bucket_audit_points(self) -> int:
        """Points of the audit sample of each bucket of a structure that forgets."""
        return min(self.audit_points, max(2, int(self.audit_points * self.AUDITED_A_BUCKET)))

    def _settled_to_forget(self, points: PointsConfig, kernel: str) -> CoresetConfig:
        """Return this section with span and bucket that follow where something is forgotten."""
        rows = self.screens and kernel == "linear" and (points.classes == 2 or self.class_screening)
        # A pilot a label asks as many times more of a leaf.
        numbers = points.dimension * (1 if points.classes == 2 else points.classes)
        screens, chosen = _Screens(rows, numbers), self
        budget = self.memory_points is not None or self.memory_bytes is not None
        if self.memory == "adaptive" and not budget and "bucket_points" not in self.model_fields_set:
            size = max(self.HORIZON_POINTS, 15 * points.dimension)
            chosen = _with_defaults(chosen, {"bucket_points": min(size, self.bucket_points)})
        chosen = chosen._sizes_of_the_memory(screens)._sizes_of_the_bytes(points, screens)
        leaf = chosen.leaf_rows
        span = chosen.span_rows or chosen._span_of(leaf, screens)
        if span % leaf:
            raise ValueError(
                f"coreset.span_rows = {span} is not a multiple of coreset.leaf_rows = {leaf}: give "
                f"{-(-span // leaf) * leaf}"
            )
        if chosen.length_rows is not None and chosen.length_rows < memory.GRAIN * span:
            option = "window_points" if chosen.window_points is not None else "half_life_points"
            raise ValueError(
                f"coreset.{option} = {chosen.length_rows} is less than eight times the {span} rows of a span: give "
                f"{memory.GRAIN * span} or more, or lower coreset.leaf_rows, or coreset.span_rows"
            )
        return _with_defaults(chosen, {"span_rows": span})

    @model_validator(mode="after")
    def _settled_by_the_memory(self) -> Self:
        return self._sizes_of_the_memory()

    def _sizes_of_the_memory(self, screens: _Screens | None = None) -> Self:
        """Compute those of `leaf_rows`, `bucket_points` and `audit_points` that are not given from `memory_points`.

        If `structure` is not given either, `settled` does this later; where something is forgotten, again, when it is
        known what can be screened.
        """
        if self.memory_points is None or (self.structure is None and not self.forgets):
            return self
        own = self.memory_points // self.max_partitions
        if "audit_points" not in self.model_fields_set:
            object.__setattr__(self, "audit_points", min(self.audit_points, int(own * self.AUDIT_SHARE)))
        points = own if self.forgets else own - self.audit_points
        screens = screens or _Screens(self.screens)
        sizes = self._sizes_of(points, screens)
        for name, size in zip(("leaf_rows", "bucket_points"), sizes, strict=True):
            object.__setattr__(self, name, size)
        if min(self.leaf_rows, self.bucket_points) < 1 or self.partition_points > own:
            raise ValueError(
                f"coreset.memory_points = {self.memory_points} is too little: each of coreset.max_partitions = "
                f"{self.max_partitions} gets {own} points, too few for {self._of_these_sizes(screens)}. Raise it, "
                "or lower max_partitions, leaf_rows, bucket_points or audit_points"
            )
        return self

    def _of_these_sizes(self, screens: _Screens) -> str:
        if not self.forgets:
            return f"a {self.structure} of these sizes"
        least = memory.smallest_budget(lambda points: min(self._sizes_of(points, screens)) >= 1)
        return f"coreset.memory = {self.memory}, which takes {least} a partition, {least * self.max_partitions} in all"

    def _leaf_beside(self, bucket: int) -> int:
        """Return the rows of a leaf beside buckets of so many points, where something is forgotten."""
        leaf = bucket if self.memory == "adaptive" else self.LEAF_BUCKETS * bucket
        return leaf if self.length_rows is None else max(1, min(leaf, self.length_rows // memory.GRAIN))

    def _sizes_of(self, points: int, screens: _Screens) -> tuple[int, int]:
        """Return leaf and bucket of a structure that holds so many points."""
        leaf, bucket = (
            getattr(self, name) if name in self.model_fields_set else None for name in ("leaf_rows", "bucket_points")
        )
        if self.forgets:
            audit = self.bucket_audit_points
            return memory.dyadic_sizes(
                points, lambda rows: self._buckets_of(rows, screens), self._leaf_beside, leaf, bucket, audit
            )
        if self.structure == "chain" and self.landmarks is not None and leaf is None and bucket is None:
            parts = (self.leaf_parts or self.LANDMARK_LEAF_PARTS) // (2 if points > self.LANDMARK_MANY else 1)
            least = self.LANDMARK_LEAST_LEAF if self.leaf_parts is None else self.LANDMARK_SMALLEST_LEAF
            leaf = max(points // parts, min(points // 4, least))
        if self.structure == "chain":
            return memory.chain_sizes(points, self.CHAIN_BUCKET_SHARE, leaf, bucket)
        if self.buckets is not None:
            return memory.tree_sizes(points, self.buckets, leaf, bucket)
        return SIZES[self.merges].of_budget(points, self.fan_in, leaf, bucket)

    @property
    def screens(self) -> bool:
        """Whether leaves may be screened."""
        return self.reducer == "calibrated" and self.screening > 0

    def band_of(self, points: int) -> float:
        """Return the largest share of the band of so many kept points."""
        return self.band if points >= self.BAND_POINTS and not self.forgets else 0.0

    @property
    def partition_points(self) -> int:
        """The most points that a partition holds at once, its audit sample included."""
        if self.forgets:
            audit = self.bucket_audit_points
            return memory.dyadic_points(self.dyadic_buckets, self.leaf_rows, self.bucket_points, audit)
        if self.structure == "chain":
            return memory.chain_points(self.leaf_rows, self.bucket_points) + self.audit_points
        if self.buckets is not None:
            return memory.tree_points(self.buckets, self.leaf_rows, self.bucket_points) + self.audit_points
        return SIZES[self.merges].points(self.fan_in, self.leaf_rows, self.bucket_points) + self.audit_points

    @property
    def audit_held(self) -> int:
        """The most points of a partition's audit samples."""
        if not self.forgets:
            return self.audit_points
        return (self.dyadic_buckets + 1) * self.bucket_audit_points

    @property
    def coreset_points(self) -> int:
        """The most points that the buckets and open leaves of all partitions hold at once."""
        return self.max_partitions * (self.partition_points - self.audit_held)

    @property
    def reduced_points(self) -> int:
        """The most points of one reduction or pilot: of a node, of all partitions, or of one partition's screen."""
        if self.structure == "chain" or self.buckets is not None or self.memory == "adaptive":
            node = self.partition_points - self.audit_held  # a pilot, or an expert, is of everything that is held
        elif self.forgets:
            node = max(self.leaf_rows + max(self.leaf_rows, self.bucket_points), 2 * self.bucket_points)
        else:
            node = SIZES[self.merges].reduced(self.fan_in, self.leaf_rows, self.bucket_points)
            if self.screens:  # the pilot of a screen is solved on all buckets of a partition
                node = max(node, self.partition_points - self.audit_points - self.leaf_rows)
        return max(node, self.coreset_points if self.coreset_points > self.train_points else 0)

    def largest_bytes(self, points: PointsConfig) -> int:
        """Return the most bytes that all partitions, a running reduction and a training set take together."""
        audited = self.max_partitions * self.audit_held
        buckets = self.max_partitions + self.coreset_points // self.bucket_points
        held = (self.coreset_points + audited) * points.point_bytes + audited * self.AUDIT_BYTES
        held += buckets * (16 * points.dimension + self.BUCKET_BYTES)
        held += self._class_screen_bytes(points)
        width = points.dimension + 1
        if self.landmarks is not None:
            return held + self._landmark_bytes(points) + self._cut_bytes(points, audited)
        numbers = self.WORKING_NUMBERS + (0 if points.classes == 2 else self.WORKING_NUMBERS_A_CLASS * points.classes)
        working = 8 * self.reduced_points * (self.WORKING_COPIES * width + numbers)
        working += 8 * self.WORKING_SQUARES * width**2
        return held + working + self._cut_bytes(points, audited)

    def _class_screen_bytes(self, points: PointsConfig) -> int:
        """Return the bytes of the screens for more than two labels, with their totals: one for each partition."""
        if points.classes == 2 or not (self.class_screening and self.screens):
            return 0
        width = points.dimension + 4
        one = 4 * width * min(width, self.PROJECTIONS) + 8 * (4 * width + self.CLASS_NUMBERS)
        return self.max_partitions * points.classes * one

    def _cut_bytes(self, points: PointsConfig, audited: int) -> int:
        return (self.coreset_points + min(self.coreset_points, self.train_points) + audited) * points.point_bytes

    def _landmark_bytes(self, points: PointsConfig) -> int:
        """Return the bytes of a reduction and its pilot: all points are copied once, and few of them are scaled."""
        few, width = min(self.reduced_points, self.PILOT_POINTS), points.dimension + 1
        pilot = 8 * few * (self.WORKING_COPIES * width + self.WORKING_NUMBERS)
        pilot += (
            8 * (self.landmarks or 0) * (2 * self.PILOT_ROWS_AT_ONCE + self.WORKING_SQUARES * (self.landmarks or 0))
        )
        return self.reduced_points * (points.point_bytes + 8 * self.WORKING_NUMBERS) + pilot

    def settled(self, points: PointsConfig, kernel: str) -> CoresetConfig:
        """Return this section with the structure that suits a kernel, and the sizes that follow from a budget.

        Options that are given do not change.

        Raises
        ------
        ValueError
            If the budget is too small. For `memory_bytes` the message names the smallest sufficient budget.
        """
        if points.classes == 2 and self.class_screening:
            return _with_defaults(self, {"class_screening": False}).settled(points, kernel)
        if self.landmarks is None and points.classes == 2 and self._takes_landmarks(kernel):
            return self._with_landmarks()._settled(points, kernel)
        own = {f"coreset.{option}": getattr(self, option) for option in ("landmarks", "leaf_parts", "memory")}
        made_by = {"coreset.reducer": self.reducer, "coreset.structure": self.structure}
        require({**own, **made_by, LABELS: points.classes, "svm.kernel": kernel})
        return self._settled(points, kernel)

    def may_have_landmarks(self, kernel: str) -> bool:
        """Tell whether this section can have landmarks with a kernel."""
        return (
            kernel == "rbf" and self.reducer == "calibrated" and self.structure in (None, "chain") and not self.forgets
        )

    def _takes_landmarks(self, kernel: str) -> bool:
        """Tell whether landmarks are the default here."""
        return "landmarks" not in self.model_fields_set and self.may_have_landmarks(kernel) and self.screening > 0.0

    def _with_landmarks(self) -> CoresetConfig:
        """Return this section with landmarks, and what follows from them where it is not given."""
        defaults = self.LANDMARK_DEFAULTS.items()
        more: dict[str, object] = {name: size for name, size in defaults if name not in self.model_fields_set}
        more |= {"landmarks": self.LANDMARKS, "structure": "chain"}
        if self.model_fields_set.isdisjoint({"memory_points", "memory_bytes", "leaf_rows", "bucket_points"}):
            more["memory_bytes"] = self.LANDMARK_MEMORY_BYTES
        return _with_defaults(self, more)._rule_of_merging()._sizes_of_the_memory()

    def _settled(self, points: PointsConfig, kernel: str) -> CoresetConfig:
        if self.forgets:
            return self._settled_to_forget(points, kernel)
        if self.structure is not None:
            return self._sizes_of_the_bytes(points)
        has_budget = self.memory_points is not None or self.memory_bytes is not None
        is_tree_asked = not self.model_fields_set.isdisjoint({"buckets", "fan_in"})
        if kernel == "linear" and (is_tree_asked or not has_budget):
            return self._settled_as("tree", points)
        chain = self._settled_as("chain", points)
        if kernel == "linear" and chain.partition_points >= self.TREE_POINTS:
            return self._settled_as("tree", points)
        return chain

    def _settled_as(self, structure: Literal["tree", "chain"], points: PointsConfig) -> CoresetConfig:
        chosen = _with_defaults(self, {"structure": structure})
        return chosen._rule_of_merging()._sizes_of_the_memory()._sizes_of_the_bytes(points)

    def _sizes_of_the_bytes(self, points: PointsConfig, screens: _Screens | None = None) -> CoresetConfig:
        if self.memory_bytes is None:
            return self
        rules = {"structure": self.structure, "buckets": self.buckets, "class_screening": self.class_screening}
        if self.landmarks is not None:
            rules |= {name: getattr(self, name) for name in ("landmarks", *self.LANDMARK_DEFAULTS)}
        given = self.model_dump(include=self.model_fields_set - {"memory_bytes", "memory_points"}) | rules

        def of(memory_points: int) -> CoresetConfig | None:
            try:
                made = CoresetConfig(**given, memory_points=memory_points)
                if made.forgets and screens is not None:
                    made = made._sizes_of_the_memory(screens)
                    span = made.span_rows or made._span_of(made.leaf_rows, screens)
                    made = _with_defaults(made, {"span_rows": span})
            except ValueError:  # a ValidationError is one, too
                return None
            return made if made.bucket_points >= self.LEAST_BUCKET or "bucket_points" in given else None

        def fits(memory_points: int) -> bool:
            made = of(memory_points)
            return made is None or made.largest_bytes(points) <= (self.memory_bytes or 0)

        most = memory.largest_budget(fits)
        made = of(most) if most is not None else None
        if made is None:
            more = "" if self.landmarks is None else ", landmarks"
            raise ValueError(
                f"coreset.memory_bytes = {self.memory_bytes} is too little for coreset.max_partitions = "
                f"{self.max_partitions} and points of {points.dimension} features: the smallest "
                f"{self.structure or 'structure'} takes {_least_bytes(of, points)} bytes. Raise it, or lower "
                f"max_partitions, leaf_rows, bucket_points{more} or audit_points"
            )
        sizes = {name: getattr(made, name) for name in ("leaf_rows", "bucket_points", "audit_points")}
        return _with_defaults(self, sizes)


def _least_bytes(of: Callable[[int], CoresetConfig | None], points: PointsConfig) -> int:
    """Return the bytes that the smallest possible sizes take."""
    enough = memory.smallest_budget(lambda memory_points: of(memory_points) is not None)
    made = of(enough)
    return made.largest_bytes(points) if made else 0


def support_vector_bytes(dimension: int, machines: int = 1, precision: Precision = "double") -> int:
    """Return the bytes of a support vector, with its coefficient in each machine, in a message, in base64."""
    features, coefficients = (2, 4) if precision == "half" else (8, 8)
    return -(-(dimension * features + machines * coefficients) * 4 // 3) + 8


class SvmConfig(Section):
    """What is trained on a coreset."""

    solver: SolverName = Field(
        default="stda",
        description="The solver: `stda` is streamsvm's own, the decomposition of STDA-SVM with blocks that are solved "
        "inside." + said("svm.solver"),
    )
    kernel: Literal["linear", "rbf"] = Field(
        default="linear",
        description="Kernel of the machine. The default of coreset.structure depends on it. An `rbf` model in a "
        "`tree` can be worse than one trained on a plain sample.",
    )
    gamma: Literal["scale", "auto"] | Gamma = Field(
        default="scale",
        description="RBF width: a number, `scale` = 1 / (d variance of the scaled points), `auto` = 1 / d.",
    )
    alpha: Alpha | None = Field(
        default=None,
        description="Trade-off between margin and average loss: C = 1 / (alpha U), U the total weight. Right for an "
        "unbounded stream. Default: 1e-4, unless C is given.",
    )
    C: Annotated[float, Field(ge=1e-100, le=1e100)] | None = Field(
        default=None,
        description="Fixed C as in the papers, instead of alpha: the total penalty then grows with the stream.",
    )
    class_weight: Literal["none", "balanced"] | Annotated[tuple[ClassWeight, ...], BeforeValidator(split_at_commas)] = (
        Field(
            default="none",
            description="Factors for the weights of the points of each label, where one class is rare or its errors "
            "cost more: as many numbers as `points.labels` has labels, in their order, such as 1,10; or `balanced`: "
            "each class gets an equal part of the total weight counted up to the cut.",
        )
    )
    multiclass: Annotated[Multiclass | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="How more than two labels are distinguished. `one_vs_one`: a machine for each pair of labels, "
        "K (K - 1) / 2 of them; the label that wins most pairs is the answer. `one_vs_rest`: a machine for each label "
        "against all others; these are less right where labels lie between others, but make a smaller message. "
        "Default: `one_vs_one` up to 32 labels, `one_vs_rest` beyond; none of two labels.",
    )
    standardize: bool = Field(
        default=True,
        description="Scale features to zero mean and unit variance over the whole stream up to the cut. false: they "
        "lose their mean only, which changes no machine, and keeps the digits of features far from 0.",
    )
    probability: Literal["sigmoid", "isotonic"] | None = Field(
        default=None,
        description="Give every version a function that maps decision values to probabilities, fitted to the audit "
        "sample. `sigmoid` (Platt) has two parameters; `isotonic` follows any shape and needs some thousand "
        "coreset.audit_points. Probabilities refer to the stream as it is: class_weight does not affect them. "
        "Default: none.",
    )
    cost: Annotated[
        tuple[float, float] | None,
        BeforeValidator(two_costs),
        BeforeValidator(split_at_commas),
        BeforeValidator(none_in_words),
    ] = Field(
        default=None,
        description="The cost of a missed positive point and that of a false alarm, in any unit: 50,1. Every version "
        "gets the threshold that makes the mean cost least, chosen by the audit sample and judged by points of it "
        "that the threshold was not chosen by. Points count by their weight; class_weight does not affect them. Not "
        "with `target`. Default: answer the positive label above the decision value 0.",
    )
    target: Annotated[
        dict[Literal["precision", "recall", "alarm_rate"], float] | None,
        BeforeValidator(one_target),
        BeforeValidator(target_in_words),
    ] = Field(
        default=None,
        description="Instead of `cost`: what the answers are to reach, exactly one of `precision=0.9` (of the alarms, "
        "so many are right; the most of the positives that go with it), `recall=0.9` (of the positives, so many are "
        "found; the fewest alarms that go with it) and `alarm_rate=0.01` (at most so many of all points raise an "
        "alarm). In a TOML file: target = {recall = 0.9}. Every version gets the threshold for it, and says with a "
        "95 % interval what is expected of it, or that it is not met. The audit sample must hold ten points "
        "of each label. Default: no target.",
    )
    tolerance: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1e-3, description="KKT gap at which the solver stops."
    )
    max_iterations: Annotated[int, Field(ge=1)] = Field(
        default=10_000_000,
        description="Most iterations of the solver. A model that reached this limit is marked as not converged.",
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="Number of threads of linear algebra in training. The last bits of a model depend on it."
    )
    landmarks: Annotated[Annotated[int, Field(ge=2, le=1 << 20)] | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="Most support vectors of a published `rbf` machine. One that has more is written down over so many "
        "of them, 4,096 at most, with coefficients fitted to its decisions; the version's duality gap then says what "
        "that costs on the training set, and its audit what it costs on the stream. Scoring takes time in proportion. "
        "Default with coreset.landmarks: as many as fit into a message of 900,000 bytes, 12,423 of 22 features in half "
        "precision; none otherwise: all support vectors. The time of fitting grows with the square of this number.",
    )
    precision: Precision = Field(
        default="double",
        description="Of the numbers of a published `rbf` machine. `half`: support vectors in 16 bits and dual "
        "coefficients in 32, a quarter of the bytes; a machine is rounded before anything is "
        "measured of it. Where that moves its objective by more than `tolerance` times it, the intercept is fitted "
        "again, and a machine that this does not repair keeps 64 bits, over as many landmarks as fit so. `double`: 64 "
        "bits. Default with coreset.landmarks: `half`; else `double`.",
    )
    round_first: bool = Field(
        default=False,
        description="With `precision = half`: round the scaled points to 16 bits before the machine is trained on "
        "them, instead of its support vectors afterwards. Where gamma and the box of a point are large, as with label "
        "noise in few features, a machine of thousands of support vectors that is rounded afterwards would be another "
        "one (a checkerboard with 15 % of the labels turned: 74.3 instead of 80.3 % right), and keeps 64 bits; one of "
        "rounded points is published as it was trained. Default with coreset.landmarks and half precision: true.",
    )
    tune: Literal["auto"] | None = Field(
        default=None,
        description="`auto`: choose alpha (or C), and gamma for `rbf`, by five-fold cross-validation on the "
        "training set of a cut. The candidates are 1/100, 1/10, 1, 10 and 100 times `alpha` (or `C`), and 1/16 to "
        "16 times `gamma`, unless other values are given. With coreset.landmarks they are 48: boxes of 0.1 to 100 for "
        "a point of mean weight, and 1/16 to 64 times `gamma`, searched on a sixteenth, a quarter and all of the "
        "points, and there only the best of them; gamma is continued to the number of points that are trained on. The "
        "share of the weight that is classified correctly decides, under class_weight, unless `tune_scoring` says "
        "otherwise. Pilots use the configured values. Default: use the configured values.",
    )
    tune_every_leaves: Annotated[int, Field(ge=1)] = Field(
        default=50,
        description="With `tune`: the first model is tuned, and then the first model at or after each multiple of "
        "this many leaves of `coreset.leaf_rows` rows, over all partitions. The models in between keep the chosen "
        "values.",
    )
    tune_points: Annotated[int, Field(ge=16, le=1 << 24)] = Field(
        default=5_000,
        description="Most points that tuning uses; a larger training set is reduced to this many. Tuning time grows "
        "faster than linearly in this number. With coreset.landmarks 10,000 by default.",
    )
    tune_alphas: Annotated[tuple[Alpha, ...], BeforeValidator(split_at_commas)] = Field(
        default=(), description="Values of alpha to choose among; not with a fixed C. Default: see `tune`."
    )
    tune_gammas: Annotated[tuple[Gamma, ...], BeforeValidator(split_at_commas)] = Field(
        default=(), description="Values of gamma to choose among. Default: see `tune`."
    )

    tune_scoring: TuneScoring = Field(
        default="accuracy",
        description="By what `tune` chooses: the share of the weight that is classified right, under class_weight; "
        "`balanced_accuracy`, of each label alike; `auc`; `log_loss` of the sigmoid that fits best; or `cost`, the "
        "mean of `cost`, which must be given, at the threshold that makes it least. With more than two labels "
        "`accuracy` or `balanced_accuracy`, of what all machines answer together.",
    )

    DEFAULT_ALPHA: ClassVar[float] = 1e-4
    TUNE_FOLDS: ClassVar[int] = 5
    MOST_CLASSES_IN_PAIRS: ClassVar[int] = 32
    """Labels up to which there is a machine for each pair by default: 496 machines."""
    FEATURE_BYTES: ClassVar[int] = 250
    """Of a message for each feature: its mean, its scale, and its part of the probes."""
    MESSAGE_BYTES: ClassVar[int] = 900_000
    """Of a published machine's support vectors by default: brokers accept records of 1,000,000 bytes by default."""

    @classmethod
    def landmarks_by_default(cls, dimension: int, precision: Precision) -> int:
        """Return how many support vectors of so many features a message has room for."""
        room = cls.MESSAGE_BYTES - cls.FEATURE_BYTES * dimension
        return max(2, room // support_vector_bytes(dimension, precision=precision))

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        trained = ("solver", "kernel", "alpha", "C", "cost", "target", "landmarks", "precision")
        tuned = ("tune_scoring", "tune_alphas", "tune_gammas")
        require({f"svm.{option}": getattr(self, option) for option in (*trained, *tuned)})
        # Apart from the precision, whose default depends on the coreset.
        require({"svm.kernel": self.kernel, "svm.round_first": self.round_first})
        return self

    def settled(self, classes: int) -> SvmConfig:
        """Return this section with the machines that so many labels get by default."""
        if self.multiclass is not None or classes == 2:
            return self
        few = classes <= self.MOST_CLASSES_IN_PAIRS
        return _with_defaults(self, {"multiclass": "one_vs_one" if few else "one_vs_rest"})

    @property
    def goal(self) -> tuple[Figure, float | tuple[float, float]] | None:
        """What a threshold is chosen for: a figure and its share, or the cost and the two; None without."""
        if self.cost is not None:
            return "cost", self.cost
        return None if self.target is None else next(iter(self.target.items()))

    def penalty(self, weight: float) -> float:
        """Return C for a training set of total weight U."""
        if self.C is not None:
            return self.C
        return 1.0 / ((self.DEFAULT_ALPHA if self.alpha is None else self.alpha) * weight)

    def class_weights(self, class_weight: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
        """Return the factors for the weights of negative and positive points.

        Parameters
        ----------
        class_weight : two numbers
            Exact total weights of the classes. Balanced weights keep their sum; with one class only they are 1.
        """
        if isinstance(self.class_weight, tuple):
            of_negative, of_positive = self.class_weight
            return of_negative, of_positive
        negative, positive = float(class_weight[0]), float(class_weight[1])
        if self.class_weight == "none" or not (negative > 0.0 and positive > 0.0):
            return 1.0, 1.0
        half = 0.5 * (negative + positive)
        return half / negative, half / positive


def require_trainable(classes: int, svm: SvmConfig, coreset: CoresetConfig) -> None:
    """Refuse options of the machine that do not go with the labels or the coreset, and sizes too small for the labels.

    Raises
    ------
    ValueError
    """
    options = ("kernel", "C", "multiclass", "cost", "target", "probability", "precision", "tune_scoring")
    own = {f"svm.{option}": getattr(svm, option) for option in options}
    held = {"coreset.memory": coreset.memory, "coreset.audit_points": coreset.audit_points}
    require({LABELS: classes, **own, **held})
    _require_room_for(classes, svm, coreset)


def _require_room_for(classes: int, svm: SvmConfig, coreset: CoresetConfig) -> None:
    """Refuse sizes that cannot hold a point of each label."""
    if isinstance(svm.class_weight, tuple) and len(svm.class_weight) != classes:
        raise ValueError(
            f"svm.class_weight has {len(svm.class_weight)} factors, but points.labels has {classes} labels: give a "
            "factor for each label, in their order"
        )
    if classes == 2:
        return
    for option in ("bucket_points", "train_points"):
        if (size := getattr(coreset, option)) < classes:
            raise ValueError(
                f"coreset.{option} = {size} is too little for the {classes} labels of points.labels, of which it must "
                f"hold a point each: raise the memory budget, or {option}"
            )
    if svm.tune is not None and svm.tune_points < SvmConfig.TUNE_FOLDS * classes:
        raise ValueError(
            f"svm.tune_points = {svm.tune_points} is too little for the {classes} labels of points.labels, of each of "
            f"which it must hold a point for each of {SvmConfig.TUNE_FOLDS} folds: raise it to "
            f"{SvmConfig.TUNE_FOLDS * classes} or more"
        )


_BUDGET: Final = {"coreset": {"memory_points", "memory_bytes"}}


def _without_value(section: Section) -> list[str]:
    """Return the options that have no value and take the word `none` for it."""
    return [
        name
        for name, field in type(section).model_fields.items()
        if getattr(section, name) is None
        and any(isinstance(one, BeforeValidator) and one.func is none_in_words for one in field.metadata)
    ]


class ModelConfig(Section):
    """Everything that, with the log and a cut, decides what a model is; hashed into every lineage."""

    points: PointsConfig
    coreset: CoresetConfig = CoresetConfig()
    svm: SvmConfig = SvmConfig()
    seed: Seed = 0
    features: CanonicalRecipe | None = None
    labels: JoinConfig | None = None

    @property
    def totals(self) -> bool:
        """Whether totals of all rows are kept, and so every version has bounds."""
        return self.coreset.totals and not self.no_totals

    @property
    def no_totals(self) -> str:
        """Why there can be no totals whatever the option says; empty where there can."""
        own = {LABELS: self.points.classes, "svm.kernel": self.svm.kernel, "coreset.memory": self.coreset.memory}
        return without_effect({**own, "coreset.totals": True})

    @model_validator(mode="after")
    def _joined_points(self) -> Self:
        if self.labels is not None:
            require_joinable(True, self.labels, self.features, self.coreset, self.points)
        return self

    @model_validator(mode="after")
    def _points_of_the_recipe(self) -> Self:
        for option, value in {} if self.features is None else points_of(self.features).items():
            if getattr(self.points, option) != value:
                require({FOLLOWING: option, FEATURES: self.features})
        require({"points.format": self.points.format, FEATURES: self.features})
        return self

    @model_validator(mode="after")
    def _settled(self) -> Self:
        object.__setattr__(self, "coreset", self.coreset.settled(self.points, self.svm.kernel))
        object.__setattr__(self, "svm", self.svm.settled(self.points.classes))
        if self.coreset.landmarks is not None:
            precision = self.svm.precision if "precision" in self.svm.model_fields_set else "half"
            defaults = {
                "tune_points": CoresetConfig.LANDMARK_TUNE_POINTS,
                "landmarks": SvmConfig.landmarks_by_default(self.points.dimension, precision),
                "precision": precision,
                "round_first": precision == "half",
            }
            missing = {name: size for name, size in defaults.items() if name not in self.svm.model_fields_set}
            object.__setattr__(self, "svm", _with_defaults(self.svm, missing))
        require({"svm.round_first": self.svm.round_first, "svm.precision": self.svm.precision})
        require_trainable(self.points.classes, self.svm, self.coreset)
        return self

    def canonical(self) -> dict[str, Any]:
        """Return the plain JSON value that is hashed: every option, and the sizes instead of the memory budget."""
        return self.model_dump(mode="json", exclude=_BUDGET)

    @classmethod
    def of_canonical(cls, plain: Mapping[str, Any]) -> Self:
        """Return the configuration of a canonical value, every option of which counts as given.

        Raises
        ------
        ValueError
            If it is not what `canonical` returns for a configuration: an option is unknown, missing or not settled.
        """
        made = cls.model_validate(plain)
        if different := configuration_differences(plain, made.canonical()):
            raise ValueError(f"not the canonical configuration of this build: {'; '.join(different)}")
        return made

    def with_zone_rules_of(self, canonical: Mapping[str, Any]) -> Self:
        """Return this configuration with the rules of time zones that an incarnation began with.

        They come from the machine's data, which changes. Nothing changes if the canonical configuration that the
        incarnation began with names other zones.
        """
        recipe, begun = self.features, canonical.get("features")
        if recipe is None or begun is None:
            return self
        zones = begun.get("zones", {})
        if zones.keys() != recipe.zones.keys():
            return self
        kept = recipe_of({**recipe.plain(), "zones": zones})
        return self if kept == recipe else self.model_copy(update={"features": kept})

    def sha256(self) -> str:
        """Hash the canonical value (keys sorted, no spaces; lower-case hexadecimal)."""
        return hashlib.sha256(json.dumps(self.canonical(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def toml(self) -> str:
        """Return the part of a configuration file with which a trainer makes the same models.

        Options that are not in it, such as the topics, do not change a model of the same rows. Put further top-level
        options before it, and further tables after it.

        Examples
        --------
        >>> ModelConfig(points=PointsConfig(dimension=8), seed=7).toml().splitlines()[:4]
        ['seed = 7', '', '[points]', 'dimension = 8']
        """
        plain = self.model_dump(mode="json", exclude=_BUDGET, exclude_none=True)
        for section in ("coreset", "svm"):
            plain[section] |= dict.fromkeys(_without_value(getattr(self, section)), "none")
        if self.features is not None:
            for option in points_of(self.features):
                del plain["points"][option]
            plain |= tables(self.features)
        lines = [f"seed = {plain.pop('seed')}"]
        for table, options in plain.items():
            lines += ["", f"[{table}]", *(f"{toml_key(name)} = {toml_value(value)}" for name, value in options.items())]
        return "\n".join(lines) + "\n"


def require_joinable(
    topic: object, labels: JoinConfig, features: Recipe | None, coreset: CoresetConfig, points: PointsConfig | None
) -> None:
    """Refuse what labels of a log of their own do not go with, as far as it decides what a model is.

    Parameters
    ----------
    topic : str or True
        `labels.topic`; True where only the rule of the join is known.

    Raises
    ------
    ValueError
    """
    require(
        {
            "labels.topic": topic,
            "labels.horizon": labels.horizon or None,
            "events.label": None if features is None else features.label,
            "coreset.memory": coreset.memory,
            "points.format": None if points is None else points.format,
        }
    )
