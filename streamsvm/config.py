"""All options, each declared once with type, default, unit and consequence.

The command line, the environment, the TOML file, the configuration reference and the configuration hash are all made
from these classes. Sections under `ModelConfig` decide what a model is, and are hashed into its lineage. The others
only decide when and where things happen, and may change between two starts.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NestedSecretsSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from streamsvm.errors import ConfigurationError
from streamsvm.model.described import label_fault
from streamsvm.secrecy import MASK, is_secret

Label = StrictBool | StrictInt | StrictStr

ENVIRONMENT_PREFIX = "STREAMSVM_"


def _split(value: object) -> object:
    """Let `a,b` stand for a list where only text can be given (environment, command line)."""
    if not isinstance(value, str):
        return value
    whole = _literal(value)
    return whole if isinstance(whole, list) else [_literal(part.strip()) for part in value.split(",")]


def _split_names(value: object) -> object:
    """Let `a,b` stand for a list of names, of which none is taken for a number."""
    return [name for part in value.split(",") if (name := part.strip())] if isinstance(value, str) else value


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _none_in_words(value: object) -> object:
    """Let `none` stand for no value where a TOML file or a command line can say nothing else."""
    return None if value == "none" else value


class Section(BaseModel):
    """A frozen section that refuses unknown options."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


LARGEST_EXPANSION: Final = 256
"""Default of `max_decoded_bytes`, per byte of `max_record_bytes`. Plain points take 10 to 70 bytes for each byte."""

SectionType = TypeVar("SectionType", bound=Section)


class PointsConfig(Section):
    """What a valid point is. Other rows are rejected."""

    dimension: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Number of features of every point. A row of another length becomes a dead letter."
    )
    labels: Annotated[tuple[Label, Label], BeforeValidator(_split)] = Field(
        default=(-1, 1),
        description="The negative and the positive label, as written in the records. A decision value above 0 means "
        "the positive label.",
    )
    feature_names: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(),
        description="Names of the features, in order, for people who read the model. Default: no names.",
    )
    dtype: Literal["float32", "float64"] = Field(
        default="float32", description="Type in which features are stored; float64 doubles the memory per point."
    )
    format: Literal["auto", "json", "arrow", "avro"] = Field(
        default="auto",
        description="Format of the records: JSON, Arrow IPC streams, or Avro with a schema registry. `auto` follows "
        "each record's header `content-type`, and reads a record without that header as JSON.",
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
        if fault := label_fault(*self.labels):
            raise ValueError(f"points.labels {fault}")
        if self.feature_names and len(self.feature_names) != self.dimension:
            raise ValueError(
                f"points.feature_names has {len(self.feature_names)} names, but points.dimension is {self.dimension}"
            )
        return self

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


ClassWeight = Annotated[float, Field(ge=1e-12, le=1e12)]
Alpha = Annotated[float, Field(ge=1e-30, le=1)]
Gamma = Annotated[float, Field(gt=0)]
ReducerName = Literal["uniform", "sensitivity", "calibrated"]


class CoresetConfig(Section):
    """How a partition's stream is summarised."""

    reducer: ReducerName = Field(
        default="calibrated",
        description="How many points are reduced to few: `sensitivity` is Alg. 1 of the paper, `uniform` samples in "
        "proportion to weight, `calibrated` samples by the margin of a pilot model and keeps totals exact.",
    )
    clusters: Literal["log", "elbow", "silhouette"] | Annotated[int, Field(ge=1, le=1_000)] = Field(
        default="log",
        description="Number of clusters per label within which `sensitivity` measures distances: a number, `log` = "
        "ln n, or chosen among 1 to 2 ln n by `elbow` or `silhouette`. More clusters take more time.",
    )
    structure: Literal["tree", "chain"] | None = Field(
        default=None,
        description="How buckets merge: `tree` carries like a counter of base `fan_in`; `chain` keeps one bucket, "
        "which is reduced again with every leaf, and so makes the most of little memory. Default: `tree` for a "
        "linear kernel and `chain` for `rbf`, because the small buckets of a tree mislead the pilot of an `rbf` "
        "model.",
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
        "reduction, a few hundred bytes per point (reductions run one after another; a union above train_points is "
        "one, too). Training and the Kafka client need memory on top.",
    )
    fan_in: Annotated[int, Field(ge=2, le=64)] = Field(
        default=2,
        description="Number of buckets of one level that merge into one of the next level; 2 is Alg. 2 of the paper.",
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
    max_leverage: Annotated[Annotated[float, Field(gt=0, le=1)] | None, BeforeValidator(_none_in_words)] = Field(
        default=0.1,
        description="Largest share by which one row may increase the variance of a feature over what its partition "
        "sealed before; and, at a tenth of this share, the total weight. The features and the weight of a row "
        "beyond these bounds are clipped, but never below ten standard deviations or ten times the mean weight. The "
        "first leaf is bounded by its own points. At 0.1 a value that ten earlier points had is never changed, and "
        "a real change of scale is followed over some leaves. The log names the farthest row. none: no bound, and "
        "one point at 1e30 then stays in the scaler for ever. Checkpoints and versions older than this option have "
        "no bound, and continue without one unless the option is given.",
    )
    max_partitions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=64,
        description="Most partitions the input may have. An input with more partitions is refused, so that memory "
        "stays bounded.",
    )

    CHAIN_BUCKET_SHARE: ClassVar[float] = 0.7
    """The bucket's share of a partition's memory in a chain; the rest is the leaf. Measured from 0.3 to 0.85: a larger
    bucket comes nearer to the optimum and loses less on sorted streams; a larger leaf is reduced less often, which
    takes less time."""
    AUDIT_SHARE: ClassVar[float] = 0.05
    """The audit sample's share of a partition's memory. Gaps fall about as m^-1.3, so this costs the coreset some 7
    %."""
    LONGEST_STREAM: ClassVar[int] = 1 << 40
    """Number of rows of a partition for which a tree must have enough levels."""
    WORKING_COPIES: ClassVar[int] = 3
    """Most arrays of float64 features, one row per point, that a reduction and its pilot hold at the same time."""
    WORKING_NUMBERS: ClassVar[int] = 24
    """Further numbers of 8 bytes per point of a reduction: margins, dual variables, slacks, steps, shares, orders."""
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
        if self.memory_points is not None and self.memory_bytes is not None:
            raise ValueError("coreset.memory_points and coreset.memory_bytes are both given; give only one")
        return self

    @model_validator(mode="after")
    def _settled_by_the_memory(self) -> Self:
        return self._sizes_of_the_memory()

    def _sizes_of_the_memory(self) -> Self:
        """Compute those of `leaf_rows`, `bucket_points` and `audit_points` that are not given from `memory_points`.

        If `structure` is not given either, `settled` does this later.
        """
        if self.memory_points is None or self.structure is None:
            return self
        own = self.memory_points // self.max_partitions
        if "audit_points" not in self.model_fields_set:
            object.__setattr__(self, "audit_points", min(self.audit_points, int(own * self.AUDIT_SHARE)))
        settle = self._chain_sizes if self.structure == "chain" else self._tree_sizes
        for name, size in zip(("leaf_rows", "bucket_points"), settle(own - self.audit_points), strict=True):
            object.__setattr__(self, name, size)
        if min(self.leaf_rows, self.bucket_points) < 1 or self.partition_points > own:
            raise ValueError(
                f"coreset.memory_points = {self.memory_points} is too little: each of coreset.max_partitions = "
                f"{self.max_partitions} gets {own} points, too few for a {self.structure} of these sizes. Raise it, "
                "or lower max_partitions, leaf_rows, bucket_points or audit_points"
            )
        return self

    def _chain_sizes(self, memory: int) -> tuple[int, int]:
        """Return leaf and bucket of a chain that holds `memory` points."""
        given = {"leaf_rows", "bucket_points"} & self.model_fields_set
        leaf = memory - (self.bucket_points if given == {"bucket_points"} else int(memory * self.CHAIN_BUCKET_SHARE))
        leaf = self.leaf_rows if "leaf_rows" in given else leaf
        return leaf, self.bucket_points if "bucket_points" in given else memory - leaf

    def _tree_sizes(self, memory: int) -> tuple[int, int]:
        """Return leaf and bucket of a tree that holds `memory` points at the end of the longest stream."""

        def leaf_of(bucket: int) -> int:
            return self.leaf_rows if "leaf_rows" in self.model_fields_set else 2 * bucket

        if "bucket_points" in self.model_fields_set:
            return leaf_of(self.bucket_points), self.bucket_points
        bucket = memory // 2
        while bucket and self._tree_points(leaf_of(bucket), bucket) > memory:
            bucket -= max(1, bucket // 100)
        return leaf_of(bucket), bucket

    def _tree_points(self, leaf: int, bucket: int) -> int:
        """Return the most points that a tree holds over the longest stream, its open leaf included."""
        levels = 1
        while leaf * self.fan_in**levels < self.LONGEST_STREAM:
            levels += 1
        return levels * (self.fan_in - 1) * bucket + leaf

    @property
    def screens(self) -> bool:
        """Whether leaves may be screened."""
        return self.reducer == "calibrated" and self.screening > 0

    @property
    def partition_points(self) -> int:
        """The most points that a partition holds at once, its audit sample included."""
        if self.structure == "chain":
            return self.leaf_rows + self.bucket_points + self.audit_points
        return self._tree_points(self.leaf_rows, self.bucket_points) + self.audit_points

    @property
    def coreset_points(self) -> int:
        """The most points that the buckets and open leaves of all partitions hold at once."""
        return self.max_partitions * (self.partition_points - self.audit_points)

    @property
    def reduced_points(self) -> int:
        """The most points of one reduction or pilot: of a node, of all partitions, or of one partition's screen."""
        if self.structure == "chain":
            node = self.leaf_rows + self.bucket_points
        else:
            node = max(self.leaf_rows, self.fan_in * self.bucket_points)
            if self.screens:  # the pilot of a screen is solved on all buckets of a partition
                node = max(node, self.partition_points - self.audit_points - self.leaf_rows)
        return max(node, self.coreset_points if self.coreset_points > self.train_points else 0)

    def largest_bytes(self, points: PointsConfig) -> int:
        """Return the most bytes that all partitions, a running reduction and a training set take together."""
        audited = self.max_partitions * self.audit_points
        buckets = self.max_partitions + self.coreset_points // self.bucket_points
        held = (self.coreset_points + audited) * points.point_bytes + audited * self.AUDIT_BYTES
        held += buckets * (16 * points.dimension + self.BUCKET_BYTES)
        width = points.dimension + 1
        working = 8 * self.reduced_points * (self.WORKING_COPIES * width + self.WORKING_NUMBERS)
        working += 8 * self.WORKING_SQUARES * width**2
        cut = (self.coreset_points + min(self.coreset_points, self.train_points) + audited) * points.point_bytes
        return held + working + cut

    def settled(self, points: PointsConfig, kernel: str) -> CoresetConfig:
        """Return this section with the structure that suits a kernel, and the sizes that follow from a budget.

        Options that are given do not change.

        Raises
        ------
        ValueError
            If the budget is too small. For `memory_bytes` the message names the smallest sufficient budget.
        """
        if self.structure is None:
            chosen = self.model_copy(update={"structure": "tree" if kernel == "linear" else "chain"})
            return chosen._sizes_of_the_memory()._sizes_of_the_bytes(points)
        return self._sizes_of_the_bytes(points)

    def _sizes_of_the_bytes(self, points: PointsConfig) -> CoresetConfig:
        if self.memory_bytes is None:
            return self
        given = self.model_dump(include=self.model_fields_set - {"memory_bytes"})

        def of(memory_points: int) -> CoresetConfig | None:
            try:
                made = CoresetConfig(**given, memory_points=memory_points)
            except ValidationError:
                return None
            return made if made.bucket_points >= self.LEAST_BUCKET or "bucket_points" in given else None

        def fits(memory_points: int) -> bool:
            made = of(memory_points)
            return made is None or made.largest_bytes(points) <= (self.memory_bytes or 0)

        most = bisect_left(range(1 << 30), True, lo=16, key=lambda memory_points: not fits(memory_points)) - 1
        made = of(most) if most >= 16 else None
        if made is None:
            raise ValueError(
                f"coreset.memory_bytes = {self.memory_bytes} is too little for coreset.max_partitions = "
                f"{self.max_partitions} and points of {points.dimension} features: the smallest {self.structure} "
                f"takes {_least_bytes(of, points)} bytes. Raise it, or lower max_partitions, leaf_rows, "
                "bucket_points or audit_points"
            )
        sizes = {name: getattr(made, name) for name in ("leaf_rows", "bucket_points", "audit_points")}
        return made.model_copy(update={"memory_points": made.max_partitions * made.partition_points, **sizes})


def _least_bytes(of: Callable[[int], CoresetConfig | None], points: PointsConfig) -> int:
    """Return the bytes that the smallest possible sizes take."""
    enough = bisect_left(range(1 << 30), True, lo=16, key=lambda memory_points: of(memory_points) is not None)
    made = of(enough)
    return made.largest_bytes(points) if made else 0


class SvmConfig(Section):
    """What is trained on a coreset."""

    solver: Literal["stda", "stda-paper", "libsvm", "liblinear", "pegasos"] = Field(
        default="stda",
        description="The solver: `stda` is streamsvm's own; `stda-paper` follows the paper to the letter and is far "
        "slower; `libsvm` is scikit-learn's SVC. `liblinear` (LinearSVC) and `pegasos` (SGDClassifier) support the "
        "linear kernel only, and give no bound on the distance to the optimum.",
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
    class_weight: Literal["none", "balanced"] | Annotated[tuple[ClassWeight, ClassWeight], BeforeValidator(_split)] = (
        Field(
            default="none",
            description="Factors for the weights of the negative and the positive points, where one class is rare "
            "or its errors cost more: two numbers, such as 1,10; or `balanced`: each class gets half of the total "
            "weight counted up to the cut.",
        )
    )
    standardize: bool = Field(
        default=True,
        description="Scale features to zero mean and unit variance over the whole stream up to the cut.",
    )
    probability: Literal["sigmoid", "isotonic"] | None = Field(
        default=None,
        description="Give every version a function that maps decision values to probabilities, fitted to the audit "
        "sample. `sigmoid` (Platt) has two parameters; `isotonic` follows any shape and needs some thousand "
        "coreset.audit_points. Probabilities refer to the stream as it is: class_weight does not affect them. "
        "Default: none.",
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
    tune: Literal["auto"] | None = Field(
        default=None,
        description="`auto`: choose alpha (or C), and gamma for `rbf`, by five-fold cross-validation on the "
        "training set of a cut. The candidates are 1/100, 1/10, 1, 10 and 100 times `alpha` (or `C`), and 1/16 to "
        "16 times `gamma`, unless other values are given. The share of the weight that is classified correctly "
        "decides, under class_weight. Pilots use the configured values. Default: use the configured values.",
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
        "faster than linearly in this number.",
    )
    tune_alphas: Annotated[tuple[Alpha, ...], BeforeValidator(_split)] = Field(
        default=(), description="Values of alpha to choose among; not with a fixed C. Default: see `tune`."
    )
    tune_gammas: Annotated[tuple[Gamma, ...], BeforeValidator(_split)] = Field(
        default=(), description="Values of gamma to choose among. Default: see `tune`."
    )

    DEFAULT_ALPHA: ClassVar[float] = 1e-4

    @model_validator(mode="after")
    def _one_regulariser(self) -> Self:
        if self.alpha is not None and self.C is not None:
            raise ValueError("svm.alpha and svm.C are both given, but they set the same trade-off; give only one")
        return self

    @model_validator(mode="after")
    def _kernel_of_the_solver(self) -> Self:
        if self.kernel != "linear" and self.solver in ("liblinear", "pegasos"):
            raise ValueError(
                f"svm.solver = {self.solver} supports the linear kernel only, but svm.kernel is {self.kernel}; use "
                "stda or libsvm"
            )
        return self

    @model_validator(mode="after")
    def _values_to_choose_among(self) -> Self:
        if self.tune_alphas and self.C is not None:
            raise ValueError("svm.tune_alphas and svm.C are both given; give only one")
        if self.tune_gammas and self.kernel == "linear":
            raise ValueError("svm.tune_gammas are given, but the linear kernel has no gamma; remove them")
        return self

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
            return self.class_weight
        negative, positive = float(class_weight[0]), float(class_weight[1])
        if self.class_weight == "none" or not (negative > 0.0 and positive > 0.0):
            return 1.0, 1.0
        half = 0.5 * (negative + positive)
        return half / negative, half / positive


def _require_audit(svm: SvmConfig, coreset: CoresetConfig) -> None:
    """Refuse probabilities without an audit sample, to which they are fitted."""
    if svm.probability is not None and not coreset.audit_points:
        raise ValueError(
            f"svm.probability = {svm.probability} needs an audit sample, but coreset.audit_points is 0: raise it, or "
            "raise coreset.memory_points, a twentieth of which is the audit sample, or remove svm.probability"
        )


BEFORE_THERE_WAS: Final[Mapping[str, Mapping[str, None]]] = {"coreset": {"max_leverage": None}}
"""Options added after versions had been published, each with the value that leaves models as they were before it, by
section. An option with this value is left out of the canonical configuration, so that old hashes stay the same."""


def _with_defaults(section: SectionType, values: Mapping[str, object]) -> SectionType:
    """Return a section with other values for options that are not given; they still count as not given."""
    changed = section.model_copy(update=values)
    object.__setattr__(changed, "__pydantic_fields_set__", set(section.model_fields_set))
    return changed


class ModelConfig(Section):
    """Everything that, with the log and a cut, decides what a model is; hashed into every lineage."""

    points: PointsConfig
    coreset: CoresetConfig = CoresetConfig()
    svm: SvmConfig = SvmConfig()
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0

    @model_validator(mode="after")
    def _settled(self) -> Self:
        object.__setattr__(self, "coreset", self.coreset.settled(self.points, self.svm.kernel))
        _require_audit(self.svm, self.coreset)
        return self

    def canonical(self) -> dict[str, Any]:
        """Return the plain JSON value that is hashed: the sizes, not the budget from which they were computed."""
        plain = self.model_dump(mode="json", exclude={"coreset": {"memory_points", "memory_bytes"}})
        if self.points.format == "auto":  # as what was published before there was a choice
            del plain["points"]["format"]
        if self.points.max_decoded_bytes is None:
            del plain["points"]["max_decoded_bytes"]
        for section, options in BEFORE_THERE_WAS.items():
            for option, old in options.items():
                if plain[section][option] == old:
                    del plain[section][option]
        return plain

    @classmethod
    def of_canonical(cls, plain: Mapping[str, Any]) -> Self:
        """Return the configuration of a canonical value; options that are newer than it have their old values.

        Raises
        ------
        pydantic.ValidationError
            If this build does not know such a configuration.
        """
        completed = dict(plain)
        for section, options in BEFORE_THERE_WAS.items():
            if isinstance(found := plain.get(section, {}), Mapping):
                completed[section] = {**options, **found}
        return cls.model_validate(completed)

    def continuing(self, canonical: Mapping[str, Any]) -> Self:
        """Return this configuration as it continues an incarnation that began under a canonical one.

        An option that is not given, and that the canonical value leaves out, has its old value: a changed default
        applies to new incarnations only.
        """
        sections = {}
        for section, options in BEFORE_THERE_WAS.items():
            own, begun = getattr(self, section), canonical.get(section, {})
            left = {option: old for option, old in options.items() if option not in own.model_fields_set | begun.keys()}
            if left:
                sections[section] = _with_defaults(own, left)
        return self.model_copy(update=sections) if sections else self

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
        tables = self.model_dump(mode="json", exclude={"coreset": {"memory_points", "memory_bytes"}}, exclude_none=True)
        for section, options in BEFORE_THERE_WAS.items():
            tables[section] |= {option: "none" for option in options if getattr(getattr(self, section), option) is None}
        lines = [f"seed = {tables.pop('seed')}"]
        for table, options in tables.items():
            lines += ["", f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in options.items())]
        return "\n".join(lines) + "\n"


Start = Literal["earliest", "latest"] | datetime


class InputConfig(Section):
    """Where labeled points come from."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="labeled", description="Topic of labeled points."
    )
    start: Start = Field(
        default="earliest",
        description="Where a first start begins reading: earliest, latest, or a time such as 2026-01-31T12:00:00Z. "
        "Ignored once a checkpoint exists.",
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records. Default: the input topic's name + `.dlq`."
    )
    group: str = Field(
        default="",
        description="Consumer group whose offsets show progress to observers. Default: `streamsvm-` + the model's "
        "name.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=4_000,
        description="Most records taken from the client at once; fewer if they are large. Does not affect the models.",
    )
    on_gap: Literal["fail", "reset"] = Field(
        default="fail",
        description="What to do when the log no longer holds records that were read or are to be read next (retention, "
        "truncation, a recreated topic): `fail` stops with a message; `reset` begins a new incarnation at the "
        "configured start.",
    )
    watch_interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checks of the input topic for such gaps and for new partitions.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Largest share of rejected records among the last 1000. Beyond it the trainer stops, or, once "
        "the input is proven (`proven_after_points`), is not ready. 0: no limit.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of rejected records in a row at which the trainer stops, or, once the input is proven "
        "(`proven_after_points`), is not ready. 0: no limit.",
    )
    proven_after_points: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of valid points that an incarnation must have learned before its input counts as proven "
        "to be the right one. Before that, the two limits above stop the trainer with status 78. Afterwards, also "
        "after restarts, the trainer continues with a warning, and /readyz answers 503 until records are accepted "
        "again; so nobody can stop the trainer by writing bad records. 0: the limits never stop the trainer.",
    )

    @field_validator("start", mode="after")
    @classmethod
    def _with_zone(cls, start: Start) -> Start:
        if isinstance(start, datetime) and start.tzinfo is None:
            raise ValueError(f"start = {start.isoformat()} has no time zone; add Z for UTC")
        return start

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.dead_letter_topic or f"{self.topic}.dlq"


class RegistryConfig(Section):
    """The schema registry, for points that come as Avro."""

    url: str = Field(
        default="",
        description="Base address of the registry's API (as Confluent's), such as http://registry:8081. Several "
        "addresses, separated by commas, are tried in turn. Without it every Avro record becomes a dead letter.",
    )
    username: str = Field(default="", description="User name for basic authentication. Default: none.")
    password: str = Field(
        default="",
        repr=False,
        description="Password for basic authentication; only from a file in --secrets or the environment.",
    )
    token: str = Field(
        default="",
        repr=False,
        description="Bearer token, instead of user name and password; only from a file in --secrets or the "
        "environment.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authority that signed the registry's certificate. Default: the well-known "
        "authorities.",
    )
    timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        default=2.0,
        description="Seconds to wait for an answer of the registry. Without an answer the input waits, and the "
        "registry is asked again.",
    )

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        if "@" in self.url:
            raise ValueError(
                "registry.url contains a user name or password; set registry.username and registry.password instead"
            )
        if self.token and self.username:
            raise ValueError("registry.username and registry.token are both given; give only one")
        return self


class OutputConfig(Section):
    """Where model versions go."""

    models_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="models", description="Topic of model versions, one immutable record per version, in partition 0."
    )
    model_format: Literal["json", "onnx"] = Field(
        default="json",
        description="`onnx` adds a copy of every version as an ONNX model, in the same transaction and under the "
        "same key, in the topic models_topic + `.onnx`. The versions themselves are always JSON. Needs the extra: "
        "pip install 'streamsvm[onnx]'.",
    )
    gate_margin: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, BeforeValidator(_none_in_words)] = Field(
        default=0.1,
        description="A new version becomes current only if its balanced accuracy is at most this much below the "
        "current version's. Both are scored on the same points read after the new version's cut, or, where those "
        "are too few, on the audit sample or the training set. A worse version is published, can be pinned, and is "
        "listed in the audit topic as refused. While the current version cannot be read, no new version becomes "
        "current. none: every version becomes current.",
    )
    gate_versions: Annotated[int, Field(ge=1, le=32)] = Field(
        default=5,
        description="A new version is compared with the best of this many versions that were current most recently, "
        "so that a series of versions cannot lose the margin again and again. Each of them is held in memory and "
        "scored for every new version. 1: compare with the current version only.",
    )
    keep_versions: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Number of newest versions to keep. Older versions that no alias or pin names are retired by "
        "tombstones, a tenth of this number at a time, at least 10. If the models topic has cleanup.policy=compact, "
        "as it has when it is created under this option, their bytes are removed, too. Default: keep all.",
    )
    signing_key_file: Path | None = Field(
        default=None,
        description="PEM file of the Ed25519 private key that the trainer signs every version with. Only its owner "
        "may have access to the file. Needs the extra: pip install 'streamsvm[sign]'. Default: versions are not "
        "signed.",
    )
    trusted_keys_file: Path | None = Field(
        default=None,
        description="PEM file of one or more Ed25519 public keys. Readers (the scorer, `streamsvm model ...`) "
        "accept only versions that one of these keys signed. Needs the extra: pip install 'streamsvm[sign]'.",
    )
    trusted_keys: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(),
        description="Further public keys, given as text: each is what stands between the first and the last line of "
        "a public key's PEM file.",
    )

    @property
    def onnx_topic(self) -> str:
        """Topic of the versions' copies as ONNX models, if there are such."""
        return f"{self.models_topic}.onnx"

    @property
    def version_topics(self) -> tuple[str, ...]:
        """Every topic in which a version has a record, the models topic first."""
        return (self.models_topic, self.onnx_topic) if self.model_format == "onnx" else (self.models_topic,)

    @property
    def aliases_topic(self) -> str:
        """Compacted topic that says which version is current."""
        return f"{self.models_topic}.aliases"

    @property
    def audit_topic(self) -> str:
        """Topic of every alias change and refused version, never compacted."""
        return f"{self.models_topic}.audit"


class TrainingConfig(Section):
    """When models are trained."""

    every_leaves: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="Number of leaves of `coreset.leaf_rows` rows, over all partitions, after which a new model is "
        "due. A screened leaf counts as several.",
    )
    policy: Literal["latest", "every"] = Field(
        default="latest",
        description="What happens when a training set falls due while a model trains: `latest` keeps reading and "
        "trains the newest due set next; `every` trains each one, and pauses the input meanwhile.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=3_600.0, description="Seconds of training one model after which /healthz answers 503."
    )


class CheckpointConfig(Section):
    """Where and how often state is saved."""

    directory: Path = Field(
        default=Path("checkpoint/{name}"),
        description="Directory of the checkpoints; each trainer needs its own. `{name}` stands for the model's "
        "name. While the default directory holds no checkpoint, the trainer continues from a checkpoint of this "
        "model in the parent directory, where earlier versions of streamsvm put it.",
    )
    interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checkpoints. After a crash at most this much input is read again.",
    )
    generations: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Number of checkpoint files to keep."
    )
    max_age_s: Annotated[float, Field(gt=0)] = Field(
        default=600.0,
        description="Seconds without a good checkpoint, while writing fails, after which /readyz answers 503. "
        "Models are still published.",
    )
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that other users may write to or own, which is refused otherwise. Only for "
        "a volume that no other process can reach.",
    )


def default_directory(name: str) -> Path:
    """Return where the checkpoints of a model are by default."""
    return _named(CheckpointConfig.model_fields["directory"].default, name)


def _named(directory: Path, name: str) -> Path:
    return Path(str(directory).replace("{name}", name))


class SecurityConfig(Section):
    """Protection of the connection to the broker, besides the options of librdkafka."""

    allow_insecure_tls: bool = Field(
        default=False,
        description="Allow options that switch off the check of the broker's certificate or host name; for tests only.",
    )


class QualityConfig(Section):
    """How the current version is evaluated on points that it has not learned."""

    enabled: bool = Field(
        default=True,
        description="Score every point with the current version before learning it, next to a baseline and the "
        "majority class: prequential accuracy and hinge loss, as metrics only. A kernel machine with many support "
        "vectors scores only every k-th point, with k chosen from their number.",
    )
    window: Annotated[int, Field(ge=100, le=1 << 22)] = Field(
        default=10_000, description="Number of newest scored points that the figures cover."
    )
    baseline_every: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=64,
        description="The baseline, plain SGD on standardised features at the best of several rates, learns every "
        "k-th point, k being this number, and is scored on the others. 0: no baseline.",
    )


class HttpConfig(Section):
    """Metrics, health and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on. Default: loopback only.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=9464,
        description="Port of metrics, health and the live page. 0: a free port, which the log names.",
    )
    page: bool = Field(
        default=True,
        description="Serve the live page at / and its figures at /status.json. Both show names of topics and "
        "features, and a projection of points, to whoever reaches the port.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=120.0,
        description="Seconds without a turn of the poll loop after which /healthz answers 503. One publish to a "
        "slow but living broker may take 80 s.",
    )
    tls_certificate: Path | None = Field(
        default=None,
        description="PEM file of the certificate and its chain; with `tls_key`, answers are served over HTTPS.",
    )
    tls_key: Path | None = Field(default=None, description="PEM file of the certificate's private key.")
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_split_names)] = Field(
        default=(),
        description="Host names that this daemon answers to, besides `localhost`, `http.host` and every IP address: "
        "those in the addresses that Prometheus, a proxy or a browser uses. A request to another name gets 421, so "
        "that no web page can read the answers through a name of its own (DNS rebinding). `*`: any name.",
    )
    bearer_file: Path | None = Field(
        default=None,
        description="File with a bearer token of at least 16 characters, which every request except probes must send "
        "(`Authorization: Bearer ...`). The file is read again when it changes. Use a certificate, too: without "
        "HTTPS the token is sent in the clear.",
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="PEM file of the authority whose client certificates are accepted. Every request except probes "
        "then needs one. Needs `tls_certificate`.",
    )
    open_probes: bool = Field(
        default=True,
        description="Let /healthz and /readyz answer without token and client certificate, because the probes of "
        "Kubernetes cannot present them.",
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("http.tls_certificate and http.tls_key must be given together, but one of them is missing")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError(
                "http.tls_client_ca needs http.tls_certificate and http.tls_key: without HTTPS clients cannot "
                "present a certificate"
            )
        return self


class LogConfig(Section):
    """What is logged, and in which format."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="json: one object per line; console: for people; auto: console on a terminal, else json.",
    )


class ScoringConfig(Section):
    """Where unlabeled points come from, and where scores go."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="points", description="Topic of unlabeled points."
    )
    output_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="scores", description="Topic of scores."
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records. Default: the input topic's name + `.dlq`."
    )
    group: str = Field(default="", description="Consumer group of the scorers. Default: the model's name + `-scorer`.")
    slot: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this scorer in its group. Default: the lowest number that no running scorer has. If "
        "set, give each scorer a different number: a scorer whose slot another one takes ends with status 70.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000,
        description="Most records scored at once, in one transaction. Larger transactions cost less per record, but "
        "are scored again as a whole when they fail.",
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
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Largest share of rejected records among the last 1000. Beyond it the scorer stops, or, once "
        "the input is proven (`proven_after_records`), is not ready. 0: no limit.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of rejected records in a row at which the scorer stops, or, once the input is proven "
        "(`proven_after_records`), is not ready. 0: no limit.",
    )
    proven_after_records: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1,
        description="Number of input records that this model must have scored, now or before this start, before the "
        "input counts as proven to be the right one. Earlier scores are looked up among the newest records of the "
        "output topic; if the output topic was written to, but it is no longer known what was scored, the input "
        "counts as proven. Before that, the two limits above stop the scorer with status 78, and the batch that "
        "passes a limit is not committed. Afterwards the scorer continues with a warning, and /readyz answers 503 "
        "until records are scored again. 0: the limits never stop the scorer.",
    )
    drift_window: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=10_000,
        description="Number of newest scores that are compared with the scores of the version's own audit sample; "
        "takes a byte per score. Fewer than 200 scores are not compared. A larger window detects smaller changes, "
        "but later. 0: no comparison, and no drift is shown.",
    )

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.dead_letter_topic or f"{self.topic}.dlq"


KafkaValue = str | int | bool
DEFAULT_KAFKA: dict[str, KafkaValue] = {"bootstrap.servers": "localhost:9092"}


def _dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's options under its own names, which the environment cannot spell."""
    return {str(name).lower().replace("_", "."): value for name, value in options.items()}


class Settings(BaseSettings):
    """All options. Sources by precedence: command line, environment, secrets directory, TOML file, defaults."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        enable_decoding=False,
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] = Field(
        default="model", description="Name of the model: versions are published as name@1, name@2, ..."
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = Field(
        default=0, description="Seed of all random numbers. The same stream and seed give the same models."
    )
    kafka: dict[str, KafkaValue] = Field(
        default=DEFAULT_KAFKA,
        repr=False,
        description="Options that are passed on to librdkafka, under librdkafka's names (in the environment with _ "
        "for the dots).",
    )
    input: InputConfig = Field(default=InputConfig(), description="Where labeled points come from.")
    points: PointsConfig | None = Field(default=None, description="What a valid point is.")
    registry: RegistryConfig = Field(default=RegistryConfig(), description="Where the schemas of Avro points are.")
    coreset: CoresetConfig = Field(default=CoresetConfig(), description="How a stream is summarised.")
    svm: SvmConfig = Field(default=SvmConfig(), description="What is trained on the summary.")
    training: TrainingConfig = Field(default=TrainingConfig(), description="When models are trained.")
    output: OutputConfig = Field(default=OutputConfig(), description="Where model versions go.")
    checkpoint: CheckpointConfig = Field(default=CheckpointConfig(), description="Where state is saved.")
    scoring: ScoringConfig = Field(default=ScoringConfig(), description="What the scorer reads and writes.")
    security: SecurityConfig = Field(default=SecurityConfig(), description="What protects the way to the broker.")
    quality: QualityConfig = Field(default=QualityConfig(), description="How quality is watched.")
    http: HttpConfig = Field(default=HttpConfig(), description="Metrics and health.")
    log: LogConfig = Field(default=LogConfig(), description="Logs.")

    @field_validator("kafka", mode="before")
    @classmethod
    def _named_as_librdkafka(cls, options: object) -> object:
        return DEFAULT_KAFKA | _dotted(options) if isinstance(options, dict) else options

    @model_validator(mode="after")
    def _settled(self) -> Self:
        """Fill in directory, structure and sizes, so that the logged configuration shows them."""
        directory = _named(self.checkpoint.directory, self.name)
        object.__setattr__(self, "checkpoint", self.checkpoint.model_copy(update={"directory": directory}))
        if self.points is not None:
            object.__setattr__(self, "coreset", self.coreset.settled(self.points, self.svm.kernel))
            _require_audit(self.svm, self.coreset)
        return self

    def models(self) -> ModelConfig:
        """Return the part that decides what a model is.

        Raises
        ------
        ConfigurationError
            If `points.dimension` is not given.
        """
        if self.points is None:
            raise ConfigurationError(
                "points.dimension is not given",
                "Give the number of features of a point: dimension = N under [points] in the TOML file, "
                "STREAMSVM_POINTS__DIMENSION=N, or --points-dimension N.",
            )
        return ModelConfig(points=self.points, coreset=self.coreset, svm=self.svm, seed=self.seed)

    def continuing(self, canonical: Mapping[str, Any]) -> Self:
        """Return these options as they continue an incarnation that began under a canonical configuration."""
        models = self.models()
        continued = models.continuing(canonical)
        return self if continued is models else self.model_copy(update={"coreset": continued.coreset})

    def masked(self) -> dict[str, Any]:
        """Return the effective configuration as a plain JSON value, secrets masked."""
        plain = self.model_dump(mode="json")
        plain["kafka"] = {key: MASK if is_secret(key) else value for key, value in self.kafka.items()}
        plain["registry"] |= {key: MASK for key in ("password", "token") if plain["registry"][key]}
        return plain

    def differing(self) -> dict[str, Any]:
        """Return the options whose effective value is not the default, by their dotted names, secrets masked."""
        found: dict[str, Any] = {}
        for section, value in self.masked().items():
            if isinstance(value, dict):
                default = DEFAULT_KAFKA if section == "kafka" else _defaults(section)
                found |= {f"{section}.{name}": one for name, one in value.items() if one != default.get(name)}
            elif value != Settings.model_fields[section].default:
                found[section] = value
        if self.checkpoint.directory == default_directory(self.name):
            found.pop("checkpoint.directory", None)
        return found


class _LibrdkafkaNames(PydanticBaseSettingsSource):
    """A source that spells Kafka options as librdkafka does, because merging sources compares spellings."""

    def __init__(self, source: PydanticBaseSettingsSource) -> None:
        super().__init__(source.settings_cls)
        self._source = source

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the source's value of one field."""
        return self._source.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        """Return all values of the source."""
        values = self._source()
        kafka = values.get("kafka")
        return values | {"kafka": _dotted(kafka)} if isinstance(kafka, dict) else values


def load(
    options: Mapping[str, Any] | None = None, *, file: Path | None = None, secrets: Path | None = None
) -> Settings:
    """Read the configuration.

    Parameters
    ----------
    options : mapping, optional
        Nested values that take precedence over every other source, as from the command line.
    file : Path, optional
        A TOML file.
    secrets : Path, optional
        A directory with a file for each secret, named as the environment variable without its prefix, for example
        `kafka__sasl_password`.

    Raises
    ------
    ConfigurationError
        One line that names every wrong option, and the sources that were read.
    """
    for path, kind in ((file, "configuration file"), (secrets, "secrets directory")):
        if path is not None and not path.exists():
            raise ConfigurationError(f"the {kind} {path} does not exist", "Correct the path, or remove the option.")
    _refuse_unknown_environment(os.environ)

    class Bound(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            held = NestedSecretsSettingsSource(
                file_secret_settings, secrets_dir=secrets, secrets_prefix="", secrets_nested_delimiter="__"
            )
            strongest_first = (init_settings, env_settings, held, TomlConfigSettingsSource(settings_cls, file))
            return tuple(map(_LibrdkafkaNames, strongest_first))

    try:
        bound = Bound(**(options or {}))
    except ValidationError as error:
        raise ConfigurationError(f"invalid configuration: {_one_line(error)}", _sources(file)) from None
    except (SettingsError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the configuration cannot be read: {error}", _sources(file)) from None
    return Settings.model_construct(**{field: getattr(bound, field) for field in Settings.model_fields})


def _sources(file: Path | None) -> str:
    where = f"{file}, " if file else ""
    return (
        f"Sources read: the command line, {ENVIRONMENT_PREFIX}* variables, {where}and the defaults; `streamsvm "
        "config` lists every option."
    )


def _refuse_unknown_environment(environment: Mapping[str, str]) -> None:
    known = {field.upper() for field in Settings.model_fields} | {"CONFIG", "SECRETS", "TEST"}
    for variable in environment:
        if variable.startswith(ENVIRONMENT_PREFIX):
            first = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")[0]
            if first.upper() not in known and not first.upper().startswith("TEST_"):
                raise ConfigurationError(
                    f"the environment variable {variable} does not name an option",
                    f"The sections are {', '.join(sorted(Settings.model_fields))}; an example is "
                    "STREAMSVM_INPUT__TOPIC.",
                )


def section_class(section: str) -> type[BaseModel] | None:
    """Return the class of a section; None for an option outside of sections."""
    annotation = Settings.model_fields[section].annotation
    kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, BaseModel)), None)


def _defaults(section: str) -> dict[str, Any]:
    """Return a section's defaults as plain JSON values."""
    kind = section_class(section)
    return {} if kind is None else kind.model_construct().model_dump(mode="json")


def _known_names() -> list[str]:
    """Return every section and option, dotted."""
    sections = {section: section_class(section) for section in Settings.model_fields}
    options = ((section, name) for section, kind in sections.items() if kind for name in kind.model_fields)
    return [*sections, *map(".".join, options)]


def _meant(where: str) -> str:
    """Suggest an option for an unknown name: an option of that name in another section, or one spelled similarly."""
    names = _known_names()
    namesakes = [name for name in names if name.rpartition(".")[2] == where.rpartition(".")[2]]
    likely = namesakes or difflib.get_close_matches(where, names, 1)
    return f" (did you mean {' or '.join(likely)}?)" if likely else ""


def _one_line(error: ValidationError) -> str:
    """Return what is wrong with each option, in one line; alternatives of one option are joined by `or`."""
    faults: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for fault in error.errors(include_url=False):
        where = ".".join(str(part) for part in _option_of(fault["loc"]))
        faults.setdefault(where, []).append(_in_words(fault, where))
        hidden = fault["type"] in ("missing", "value_error", "extra_forbidden") or is_secret(where) or where == "kafka"
        shown[where] = "" if hidden else f" (got {fault['input']!r})"
    said = {
        where: " or ".join([one, *(other.removeprefix("must be ") for other in others)]) + shown[where]
        for where, (one, *others) in faults.items()
    }
    return "; ".join(f"{where}: {what}" if where else what for where, what in said.items())


def _option_of(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the option of a fault, without the types that pydantic tried there."""
    section, *rest = place or ("",)
    kind = section_class(section) if section in Settings.model_fields else None
    if kind is None or not rest or rest[0] not in kind.model_fields:
        return place
    return (section, rest[0], *(part for part in rest[1:] if isinstance(part, int)))


def _in_words(fault: ErrorDetails, where: str) -> str:
    kind = fault["type"]
    if kind == "extra_forbidden":
        return "there is no such option" + _meant(where)
    demand = _DEMANDS.get(kind)
    return fault["msg"].removeprefix("Value error, ") if demand is None else demand.format_map(fault.get("ctx", {}))


_DEMANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be an integer"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(
        ("datetime_parsing", "datetime_from_date_parsing", "datetime_type"),
        "must be a time such as 2026-01-31T12:00:00Z",
    ),
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be above {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be below {lt:g}",
    "too_long": "must have at most {max_length} entries, but has {actual_length}",
    "too_short": "must have at least {min_length} entries, but has {actual_length}",
    "string_pattern_mismatch": "must begin with a letter or a digit and contain only letters, digits, dots, "
    "underscores and hyphens, at most 100 characters",
    "missing": "is not given",
}
"""Messages for people instead of pydantic's, by type of error."""
