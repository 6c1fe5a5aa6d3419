"""Every option, once: its type, default, unit and consequence.

The command line, the environment, the TOML file, the configuration reference and the configuration hash are all made
from these classes. Sections under `ModelConfig` decide what a model is and are hashed into its lineage; the others
decide only when and where things happen, and may change between two starts.
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
"""Bytes of memory for each byte of the largest record that decoding may take: plain points take 10 to 70 for each."""

SectionType = TypeVar("SectionType", bound=Section)


class PointsConfig(Section):
    """What a valid point is; decides which rows are rejected."""

    dimension: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Number of features of every point; a row of another length is a dead letter."
    )
    labels: Annotated[tuple[Label, Label], BeforeValidator(_split)] = Field(
        default=(-1, 1),
        description="Negative and positive label, as they stand in the records; a score above 0 means the second.",
    )
    feature_names: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(),
        description="Names of the features in their order, for people who read the model; empty: none.",
    )
    dtype: Literal["float32", "float64"] = Field(
        default="float32", description="How features are stored; float64 doubles the memory a point takes."
    )
    format: Literal["auto", "json", "arrow", "avro"] = Field(
        default="auto",
        description="How records are written: JSON, Arrow IPC streams, or Avro with a schema registry; `auto` goes by "
        "each record's header `content-type`, and takes one without it for JSON.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="A record whose value is larger, in bytes, is a dead letter and is not decoded.",
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=10_000, description="A record that holds more rows is a dead letter as a whole."
    )
    max_decoded_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] | None = Field(
        default=None,
        description="Memory, in bytes, that decoding one record may take, told from its framing before anything is "
        "made of it; a record that could take more is a dead letter. If left out, 256 times `max_record_bytes`.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if fault := label_fault(*self.labels):
            raise ValueError(f"points.labels {fault}")
        if self.feature_names and len(self.feature_names) != self.dimension:
            raise ValueError(
                f"points.feature_names has {len(self.feature_names)} names, points.dimension is {self.dimension}"
            )
        return self

    @property
    def numpy_dtype(self) -> np.dtype[np.floating]:
        """Storage dtype of the features."""
        return np.dtype(self.dtype)

    @property
    def decoded_bytes(self) -> int:
        """Memory that decoding one record may take."""
        return self.max_decoded_bytes or LARGEST_EXPANSION * self.max_record_bytes

    @property
    def point_bytes(self) -> int:
        """Bytes of a point that is held: features, label and weight."""
        return self.dimension * self.numpy_dtype.itemsize + 9


ClassWeight = Annotated[float, Field(ge=1e-12, le=1e12)]
Alpha = Annotated[float, Field(ge=1e-30, le=1)]
Gamma = Annotated[float, Field(gt=0)]
ReducerName = Literal["uniform", "sensitivity", "calibrated"]


class CoresetConfig(Section):
    """How a partition's stream is summarised."""

    reducer: ReducerName = Field(
        default="calibrated",
        description="How many points become few: `sensitivity` is the paper's Alg. 1, `uniform` samples in proportion "
        "to weight, `calibrated` follows the margin of a pilot model and keeps exact totals.",
    )
    clusters: Literal["log", "elbow", "silhouette"] | Annotated[int, Field(ge=1, le=1_000)] = Field(
        default="log",
        description="Clusters a label within which `sensitivity` measures distances: a number, `log` = ln n, or chosen "
        "among 1 to 2 ln n by `elbow` or `silhouette`; more of them take more time.",
    )
    structure: Literal["tree", "chain"] | None = Field(
        default=None,
        description="How buckets merge: `tree` carries like a counter of base `fan_in`; `chain` has one bucket, which "
        "is reduced anew with every leaf: it makes the most of little memory. Not given, it is `tree` for a linear "
        "kernel and `chain` for `rbf`, whose pilot is misled by the small buckets of a tree.",
    )
    memory_points: Annotated[int, Field(ge=16, le=1 << 30)] | None = Field(
        default=None,
        description="Most points that all partitions hold at once, buckets, leaves and audit samples together (one "
        "takes 4 bytes a feature, 8 for float64, and 9 more). `leaf_rows`, `bucket_points` and `audit_points` that are "
        "not given follow from it, an equal part for each of `max_partitions`: so a new partition changes no other, "
        "and unused ones hold nothing.",
    )
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 50)] | None = Field(
        default=None,
        description="Instead of memory_points: most bytes that learning and the making of a training set take, from "
        "which the points follow by the number and type of the features. Counted are the points held, the moments of "
        "every bucket, one training set with its audit sample, and the arrays of the largest reduction, a few hundred "
        "bytes for each of its points (they come one after another; a union above train_points is one). Training and "
        "the Kafka client come on top.",
    )
    fan_in: Annotated[int, Field(ge=2, le=64)] = Field(
        default=2, description="Buckets of one level that make one of the next; 2 is the paper's Alg. 2."
    )
    leaf_rows: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000,
        description="Rows seen, accepted or not, after which a leaf is sealed, unless it is screened; the most points "
        "that a leaf holds.",
    )
    screening: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.25,
        description="Most rows of a leaf, as a share of all rows before it, with `calibrated` and a linear kernel. "
        "Rows beyond `leaf_rows` are screened: kept, or added to exact totals only, by the margin of a model of the "
        "partition's own buckets. The larger, the fewer reductions; a stream that changes is followed less well. "
        "0: no screening.",
    )
    bucket_points: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000, description="Most points a bucket holds; memory grows with it, the error falls."
    )
    audit_points: Annotated[int, Field(ge=0, le=1 << 24)] = Field(
        default=1_000,
        description="Points of each partition's audit sample, which is drawn beside the coreset; from it every version "
        "estimates its objective over the whole stream, with a 95 % interval (at 1000 a quarter to the whole of the "
        "loss wide, wider where few points have one; four times the points halve it). 0: no estimate. With a budget at "
        "most a twentieth of it.",
    )
    train_points: Annotated[int, Field(ge=2, le=1 << 24)] = Field(
        default=20_000, description="Most points a model is trained on; a larger union is reduced to so many."
    )
    clip_sd: Annotated[float, Field(ge=3, le=1e6)] | None = Field(
        default=None,
        description="Clip each feature of a row to its mean plus or minus so many standard deviations, both of the "
        "leaves that its partition sealed before; a first leaf by its own, if outliers are fewer than 1 / clip_sd^2 of "
        "it. A true change of scale is followed over some leaves. Not for rare indicators, whose every 1 is an "
        "outlier. Default: no clipping.",
    )
    max_leverage: Annotated[Annotated[float, Field(gt=0, le=1)] | None, BeforeValidator(_none_in_words)] = Field(
        default=0.1,
        description="Most that one row may add to the variance of a feature, as a share of what its partition sealed "
        "before it, and, a tenth of that share, to the weight: its features and its weight are drawn in that far, but "
        "never below ten standard deviations, or ten times the mean weight; of a first leaf by its own points. At 0.1 "
        "whatever ten points of the past had is never changed, and a true change of scale is followed over some "
        "leaves. The log names the farthest row. none: no bound; one point at 1e30 then stays in the scaler for ever. "
        "A checkpoint or version from before there was this option has none, and goes on so unless it is given.",
    )
    max_partitions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=64,
        description="Most partitions the input may have; more is refused, so that memory stays bounded.",
    )

    CHAIN_BUCKET_SHARE: ClassVar[float] = 0.7
    """Of a partition's memory in a chain; the rest is its leaf. Measured from 0.3 to 0.85: a larger bucket comes nearer
    the optimum and loses less on sorted streams, a larger leaf is reduced less often, so that it takes less time."""
    AUDIT_SHARE: ClassVar[float] = 0.05
    """Of a partition's memory, for the audit sample: gaps fall about as m^-1.3, so that the coreset loses some 7 %."""
    LONGEST_STREAM: ClassVar[int] = 1 << 40
    """Rows of a partition for which a tree's buckets must have room."""
    WORKING_COPIES: ClassVar[int] = 3
    """Arrays of float64 features, as many rows as a reduction has points, that it and its pilot hold at their most."""
    WORKING_NUMBERS: ClassVar[int] = 24
    """Further numbers of 8 bytes a point of a reduction: margins, dual variables, slacks, steps, shares, orders."""
    WORKING_SQUARES: ClassVar[int] = 4
    """Matrices of features by features that a reduction and its pilot hold at their most."""
    LEAST_BUCKET: ClassVar[int] = 16
    """Points of a bucket that a budget in bytes must pay for: fewer summarise nothing, and the unit is likely wrong."""
    AUDIT_BYTES: ClassVar[int] = 16
    """Of a point of the audit sample besides the point: its priority and its place in a heap."""
    BUCKET_BYTES: ClassVar[int] = 2_048
    """Of a bucket's objects besides points and moments."""

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.memory_points is not None and self.memory_bytes is not None:
            raise ValueError("coreset.memory_points and coreset.memory_bytes are both given; keep one")
        return self

    @model_validator(mode="after")
    def _settled_by_the_memory(self) -> Self:
        return self._sizes_of_the_memory()

    def _sizes_of_the_memory(self) -> Self:
        """Settle `leaf_rows`, `bucket_points` and `audit_points`, where one is not given, by `memory_points`.

        They wait for a `structure` that is not given: see `settled`.
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
                f"coreset.memory_points = {self.memory_points} gives each of coreset.max_partitions = "
                f"{self.max_partitions} {own} points, too few for a {self.structure} of these options; raise it, or "
                "lower max_partitions, leaf_rows, bucket_points or audit_points"
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
        """The most points that one reduction or pilot takes: of a node, of all partitions, or of one for its screen."""
        if self.structure == "chain":
            node = self.leaf_rows + self.bucket_points
        else:
            node = max(self.leaf_rows, self.fan_in * self.bucket_points)
            if self.screens:  # the pilot of a screen is solved on all buckets of a partition
                node = max(node, self.partition_points - self.audit_points - self.leaf_rows)
        return max(node, self.coreset_points if self.coreset_points > self.train_points else 0)

    def largest_bytes(self, points: PointsConfig) -> int:
        """Return the most bytes that all partitions, a reduction at work and a training set take at once."""
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

        What is given stays as it is.

        Raises
        ------
        ValueError
            If the budget is too small; of `memory_bytes`, with the least that is enough.
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
                f"{self.max_partitions} and points of {points.dimension} features: the smallest {self.structure} takes "
                f"{_least_bytes(of, points)}. Raise it, or lower max_partitions, leaf_rows, bucket_points or "
                "audit_points"
            )
        sizes = {name: getattr(made, name) for name in ("leaf_rows", "bucket_points", "audit_points")}
        return made.model_copy(update={"memory_points": made.max_partitions * made.partition_points, **sizes})


def _least_bytes(of: Callable[[int], CoresetConfig | None], points: PointsConfig) -> int:
    """Return the bytes of the smallest sizes that there are."""
    enough = bisect_left(range(1 << 30), True, lo=16, key=lambda memory_points: of(memory_points) is not None)
    made = of(enough)
    return made.largest_bytes(points) if made else 0


class SvmConfig(Section):
    """What is trained on a coreset."""

    solver: Literal["stda", "stda-paper", "libsvm", "liblinear", "pegasos"] = Field(
        default="stda",
        description="Which solver trains: `stda` is ours, `stda-paper` the same method to its paper's letter and far "
        "slower, `libsvm` scikit-learn's SVC; `liblinear` (LinearSVC) and "
        "`pegasos` (SGDClassifier) know the linear kernel only and give no bound on how far the optimum is.",
    )
    kernel: Literal["linear", "rbf"] = Field(
        default="linear",
        description="Kernel of the machine. It decides what coreset.structure is where that is not given; the model of "
        "an `rbf` machine in a `tree` can be worse than that of a plain sample.",
    )
    gamma: Literal["scale", "auto"] | Gamma = Field(
        default="scale",
        description="RBF width: a number, `scale` = 1 / (d variance of the scaled points), `auto` = 1 / d.",
    )
    alpha: Alpha | None = Field(
        default=None,
        description="Trade-off of margin against average loss, C = 1 / (alpha U); right for a stream without end. "
        "Default 1e-4 unless C is given.",
    )
    C: Annotated[float, Field(ge=1e-100, le=1e100)] | None = Field(
        default=None, description="Fixed C of the papers: the boxes grow with the stream, instead of alpha."
    )
    class_weight: Literal["none", "balanced"] | Annotated[tuple[ClassWeight, ClassWeight], BeforeValidator(_split)] = (
        Field(
            default="none",
            description="By what to multiply the weights of the negative and of the positive points, where one class "
            "is rare or its errors cost more: two numbers, as 1,10; `balanced`: each class gets half of the total "
            "weight, as counted up to the cut.",
        )
    )
    standardize: bool = Field(
        default=True,
        description="Scale features to zero mean and unit variance of the whole stream up to the cut.",
    )
    probability: Literal["sigmoid", "isotonic"] | None = Field(
        default=None,
        description="Give every version a function from decision values to probabilities, fitted to the audit sample: "
        "`sigmoid` (Platt), two numbers; `isotonic` follows any shape and wants some thousand points of "
        "coreset.audit_points. They are of the stream as it comes: class_weight does not enter. Default: none.",
    )
    tolerance: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1e-3, description="KKT gap at which the solver stops."
    )
    max_iterations: Annotated[int, Field(ge=1)] = Field(
        default=10_000_000, description="Bound on the solver's iterations; a model that met it says so."
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="Threads of linear algebra in training; part of the bits of a model."
    )
    tune: Literal["auto"] | None = Field(
        default=None,
        description="`auto`: choose the trade-off, and gamma of `rbf`, by five-fold cross-validation on the training "
        "set of a cut: among a hundredth, a tenth, 1, 10 and 100 times `alpha` (or `C`) and a sixteenth to 16 times "
        "`gamma`, if no other values are given. The share of the weight that is classified right decides, under "
        "class_weight. Pilots use the configured values. Default: what is configured.",
    )
    tune_every_leaves: Annotated[int, Field(ge=1)] = Field(
        default=50,
        description="With `tune`: the first model is tuned, then the first at or past each multiple of so many leaves "
        "of `coreset.leaf_rows` rows, over all partitions; those between keep what was chosen.",
    )
    tune_points: Annotated[int, Field(ge=16, le=1 << 24)] = Field(
        default=5_000,
        description="Most points that tuning goes by; a larger training set is reduced to so many for it. Its time "
        "grows faster than they.",
    )
    tune_alphas: Annotated[tuple[Alpha, ...], BeforeValidator(_split)] = Field(
        default=(), description="Values of alpha to choose among instead; not with a fixed C. Empty: see `tune`."
    )
    tune_gammas: Annotated[tuple[Gamma, ...], BeforeValidator(_split)] = Field(
        default=(), description="Values of gamma to choose among instead. Empty: see `tune`."
    )

    DEFAULT_ALPHA: ClassVar[float] = 1e-4

    @model_validator(mode="after")
    def _one_regulariser(self) -> Self:
        if self.alpha is not None and self.C is not None:
            raise ValueError("svm.alpha and svm.C are both given; they are two ways to say one thing: keep one")
        return self

    @model_validator(mode="after")
    def _kernel_of_the_solver(self) -> Self:
        if self.kernel != "linear" and self.solver in ("liblinear", "pegasos"):
            raise ValueError(
                f"svm.solver = {self.solver} knows the linear kernel only, svm.kernel is {self.kernel}; "
                "take stda or libsvm for it"
            )
        return self

    @model_validator(mode="after")
    def _values_to_choose_among(self) -> Self:
        if self.tune_alphas and self.C is not None:
            raise ValueError("svm.tune_alphas are values of alpha, but svm.C is given; keep one")
        if self.tune_gammas and self.kernel == "linear":
            raise ValueError("svm.tune_gammas are given, but the linear kernel has no gamma; leave them out")
        return self

    def penalty(self, weight: float) -> float:
        """Return C for a training set of total weight U."""
        if self.C is not None:
            return self.C
        return 1.0 / ((self.DEFAULT_ALPHA if self.alpha is None else self.alpha) * weight)

    def class_weights(self, class_weight: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
        """Return what the weights of negative and positive points are multiplied by.

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
    """Refuse probabilities without the points that they are fitted to."""
    if svm.probability is not None and not coreset.audit_points:
        raise ValueError(
            f"svm.probability = {svm.probability} is fitted to the audit sample, but coreset.audit_points is 0: raise "
            "it, or coreset.memory_points, of which it is a twentieth, or leave svm.probability out"
        )


BEFORE_THERE_WAS: Final[Mapping[str, Mapping[str, None]]] = {"coreset": {"max_leverage": None}}
"""Options that came after versions had been published, with the value under which models are as they were without: by
section. At it an option is left out of the canonical configuration."""


def _with_defaults(section: SectionType, values: Mapping[str, object]) -> SectionType:
    """Return a section with other values of options that are not given, and that still count as not given."""
    changed = section.model_copy(update=values)
    object.__setattr__(changed, "__pydantic_fields_set__", set(section.model_fields_set))
    return changed


class ModelConfig(Section):
    """All that decides what a model is, given the log and a cut; hashed into every lineage."""

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
        """Return the plain JSON value that is hashed: sizes, not the budget that they came from."""
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
        """Return the configuration of a canonical value; options that are younger than it have their old values.

        Raises
        ------
        pydantic.ValidationError
            If it is none that this build knows.
        """
        completed = dict(plain)
        for section, options in BEFORE_THERE_WAS.items():
            if isinstance(found := plain.get(section, {}), Mapping):
                completed[section] = {**options, **found}
        return cls.model_validate(completed)

    def continuing(self, canonical: Mapping[str, Any]) -> Self:
        """Return this configuration as it goes on from what was begun under a canonical one.

        An option that is not given, and that the canonical value leaves out, has its old value: a default that was
        changed holds for what begins anew.
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
        """Return it as the part of a configuration file under which a trainer makes the same models.

        What is not in it, such as the topics, does not change a model of the same rows. Further top-level options go
        before it, further tables after it.

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
        description="Where a first start begins: earliest, latest, or a time such as 2026-01-31T12:00:00Z. Ignored "
        "once there is a checkpoint.",
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records; empty: the input's name + `.dlq`."
    )
    group: str = Field(
        default="",
        description="Consumer group whose offsets show progress to observers; empty: `streamsvm-` + the name.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=4_000,
        description="Most records taken from the client at once, fewer if they are large; does not affect the models.",
    )
    on_gap: Literal["fail", "reset"] = Field(
        default="fail",
        description="When the log no longer holds what was read or is to be read next (retention, truncation, a topic "
        "made anew): `fail` stops and says so; `reset` begins a new incarnation from the configured start.",
    )
    watch_interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two looks at the input topic for such gaps and for new partitions.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Stop when more than this share of the last 1000 records was rejected, or, once the input is "
        "proven (`proven_after_points`), be not ready; 0: neither.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Stop when so many records after each other were rejected, or, once the input is proven "
        "(`proven_after_points`), be not ready; 0: neither.",
    )
    proven_after_points: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Valid points that an incarnation must have learned for its input to be proven the right one. "
        "Before that the two limits above stop the trainer, with status 78; from then on, restarts included, it goes "
        "on with a warning and /readyz answers 503 until records are accepted again: so nobody who may write bad "
        "records can stop it. 0: they never stop it.",
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
        description="Base address of the registry's API as Confluent's has it, such as http://registry:8081; several, "
        "separated by commas, are tried in turn. Without it every Avro record is a dead letter.",
    )
    username: str = Field(default="", description="Name for basic authentication; empty: none.")
    password: str = Field(
        default="", repr=False, description="Password to it; only from a file in --secrets or the environment."
    )
    token: str = Field(
        default="", repr=False, description="Bearer token instead; only from a file in --secrets or the environment."
    )
    ca_file: Path | None = Field(
        default=None, description="PEM file of who signed the registry's certificate; else the well-known ones."
    )
    timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        default=2.0, description="Seconds to wait for an answer; the input waits, and asks again, if there is none."
    )

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        if "@" in self.url:
            raise ValueError("registry.url holds a name or password; give registry.username and registry.password")
        if self.token and self.username:
            raise ValueError("registry.username and registry.token are both given; keep one")
        return self


class OutputConfig(Section):
    """Where model versions go."""

    models_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="models", description="Topic of model versions, one immutable record each, in partition 0."
    )
    model_format: Literal["json", "onnx"] = Field(
        default="json",
        description="`onnx` adds a copy of every version as an ONNX model, in the same transaction and under the same "
        "key, in a topic of the name of models_topic + `.onnx`; the versions themselves are JSON either way. It needs "
        "the extra: pip install 'streamsvm[onnx]'.",
    )
    gate_margin: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, BeforeValidator(_none_in_words)] = Field(
        default=0.1,
        description="By how much balanced accuracy a new version may be worse than the current one, on the same "
        "points read after its cut, or on the audit sample or the training set where those are too few, and still "
        "become current; a worse one is published, can be pinned, and stands in the audit topic as refused. While the "
        "current version cannot be read nothing passes. none: every version becomes current.",
    )
    gate_versions: Annotated[int, Field(ge=1, le=32)] = Field(
        default=5,
        description="A new version is compared with the best of so many versions that were current last, so that a "
        "series of them cannot lose the margin again and again; each is held in memory and scored for every new "
        "version. 1: with the current one alone.",
    )
    keep_versions: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="How many of the newest versions are kept; older ones that no alias or pin names are retired by "
        "tombstones, a tenth of this number at a time, at least 10. With cleanup.policy=compact, which a models topic "
        "gets that is created under this option, their bytes go, too. Default: all.",
    )
    signing_key_file: Path | None = Field(
        default=None,
        description="PEM file of the Ed25519 private key that the trainer signs every version with; only its owner "
        "may have access to it. It needs the extra: pip install 'streamsvm[sign]'. Default: versions are not signed.",
    )
    trusted_keys_file: Path | None = Field(
        default=None,
        description="PEM file of one or more Ed25519 public keys: readers (the scorer, `streamsvm model ...`) take "
        "only versions that one of them signed. It needs the extra: pip install 'streamsvm[sign]'.",
    )
    trusted_keys: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(),
        description="The same as texts, beside those of the file: each is what stands between the first and the last "
        "line of a public key's PEM file.",
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
        description="Leaves of `coreset.leaf_rows` rows, over all partitions, after which a new model is due; a "
        "screened leaf counts as several.",
    )
    policy: Literal["latest", "every"] = Field(
        default="latest",
        description="While a model trains: `latest` keeps reading and trains the newest due set next; `every` skips "
        "none and pauses the input instead.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=3_600.0, description="Seconds of training one model after which /healthz answers 503."
    )


class CheckpointConfig(Section):
    """Where and how often state is saved."""

    directory: Path = Field(
        default=Path("checkpoint/{name}"),
        description="Directory of the checkpoints, one of its own for each trainer; `{name}` stands for the model's "
        "name. While the default one holds no checkpoint, the trainer goes on from one of this model in its parent, "
        "where earlier versions put it.",
    )
    interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checkpoints; a crash costs at most this much reading again.",
    )
    generations: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="How many checkpoint files are kept."
    )
    max_age_s: Annotated[float, Field(gt=0)] = Field(
        default=600.0,
        description="Seconds without a good checkpoint, while writing fails, after which /readyz answers 503; models "
        "are published all the same.",
    )
    trust_directory: bool = Field(
        default=False,
        description="Use a directory that other users may write or own; only for a volume that no other process can "
        "reach. Otherwise such a directory is refused.",
    )


def default_directory(name: str) -> Path:
    """Return where the checkpoints of a model are by default."""
    return _named(CheckpointConfig.model_fields["directory"].default, name)


def _named(directory: Path, name: str) -> Path:
    return Path(str(directory).replace("{name}", name))


class SecurityConfig(Section):
    """What protects the way to the broker, besides the options of librdkafka."""

    allow_insecure_tls: bool = Field(
        default=False,
        description="Let an option switch off the check of the broker's certificate or host name; for tests only.",
    )


class QualityConfig(Section):
    """How the current version is watched on points that it has not learned."""

    enabled: bool = Field(
        default=True,
        description="Score every point by the current version before it is learned, beside a baseline and the commoner "
        "label: prequential accuracy and hinge loss, as metrics only. A kernel machine of many support vectors scores "
        "every so manieth point.",
    )
    window: Annotated[int, Field(ge=100, le=1 << 22)] = Field(
        default=10_000, description="Newest scored points that the figures are of."
    )
    baseline_every: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=64,
        description="The baseline, plain SGD on standardised features at the best of several rates, learns one point "
        "in so many and is scored on the others. 0: no baseline.",
    )


class HttpConfig(Section):
    """Metrics, health and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; loopback unless you say otherwise.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=9464,
        description="Port of metrics, health and the live page; 0: a free one, said in the log.",
    )
    page: bool = Field(
        default=True,
        description="Whether the live page answers at / and its figures at /status.json; both show names of topics and "
        "features, and a projection of points, to whoever reaches the port.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=120.0,
        description="Seconds without a turn of the poll loop after which /healthz answers 503; one publish to a broker "
        "that is slow but alive may take 80.",
    )
    tls_certificate: Path | None = Field(
        default=None, description="PEM file of the certificate and its chain; with `tls_key` the answers go over HTTPS."
    )
    tls_key: Path | None = Field(default=None, description="PEM file of the certificate's private key.")
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_split_names)] = Field(
        default=(),
        description="Names by which this daemon may be asked, besides `localhost`, `http.host` and every IP address: "
        "those in the addresses that Prometheus, a proxy or a browser uses. A request by another name gets 421, so "
        "that no web page can read the answers by a name of its own (DNS rebinding). `*`: any name.",
    )
    bearer_file: Path | None = Field(
        default=None,
        description="File that holds a bearer token of at least 16 letters, which every request but a probe then has "
        "to bear (`Authorization: Bearer ...`); read again when it changes. Give a certificate, too: without HTTPS "
        "the token goes in the clear.",
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="PEM file of the authority whose client certificates are taken; every request but a probe then "
        "needs one. It needs `tls_certificate`.",
    )
    open_probes: bool = Field(
        default=True,
        description="Whether /healthz and /readyz answer without token and client certificate, which the probes of "
        "Kubernetes cannot show.",
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("http.tls_certificate and http.tls_key belong together: one of them is missing")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError(
                "http.tls_client_ca needs http.tls_certificate and http.tls_key: without HTTPS no client "
                "shows a certificate"
            )
        return self


class LogConfig(Section):
    """Logs."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="json: one object a line; console: for people; auto: console on a terminal.",
    )


class ScoringConfig(Section):
    """Where unlabeled points come from and scores go."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="points", description="Topic of unlabeled points."
    )
    output_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="scores", description="Topic of scores."
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records; empty: the input's name + `.dlq`."
    )
    group: str = Field(default="", description="Consumer group of the scorers; empty: the model's name + `-scorer`.")
    slot: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this scorer in its group; unset: the lowest that no living one has. If set, it must be "
        "another for each scorer: one whose slot is then taken by another ends with status 70.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000,
        description="Most records scored at once, in one transaction: more of them cost less each, and are all scored "
        "again when it fails.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="A record whose value is larger, in bytes, is a dead letter and is not decoded.",
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=10_000, description="A record that holds more rows is a dead letter as a whole."
    )
    max_decoded_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] | None = Field(
        default=None,
        description="Memory, in bytes, that decoding one record may take, told from its framing before anything is "
        "made of it; a record that could take more is a dead letter. If left out, 256 times `max_record_bytes`.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Stop when more than this share of the last 1000 records was rejected, or, once the input is "
        "proven (`proven_after_records`), be not ready; 0: neither.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Stop when so many records after each other were rejected, or, once the input is proven "
        "(`proven_after_records`), be not ready; 0: neither.",
    )
    proven_after_records: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1,
        description="Records of the input that this model must have scored, now or before this start, for the input to "
        "be proven the right one; what was scored before is looked up among the newest records of the output topic. If "
        "that was written to, and nobody can tell any more what was scored, the input counts as proven. "
        "Before that the two limits above stop the scorer, with status 78, and the batch that passes them is not "
        "committed; from then on it goes on with a warning and /readyz answers 503 until records are scored again. 0: "
        "they never stop it.",
    )
    drift_window: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=10_000,
        description="How many of the newest scores are compared with those of the version's own audit sample, a byte "
        "each; fewer than 200 are not. More of them see a smaller change, later. 0: none, and no drift is shown.",
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
    """All options; the strongest source first: options, environment, secrets directory, TOML file, defaults."""

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
        default=0, description="Seed of every random number; the same stream and seed give the same models."
    )
    kafka: dict[str, KafkaValue] = Field(
        default=DEFAULT_KAFKA,
        repr=False,
        description="Options passed through to librdkafka by their own names (environment: _ for the dots).",
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
        """Let the effective configuration, as it is logged, show the directory, the structure and the sizes."""
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
            If the points are not described.
        """
        if self.points is None:
            raise ConfigurationError(
                "points.dimension is not given",
                "Say how many features a point has: dimension = N under [points] in the TOML file, "
                "STREAMSVM_POINTS__DIMENSION=N, or --points-dimension N.",
            )
        return ModelConfig(points=self.points, coreset=self.coreset, svm=self.svm, seed=self.seed)

    def continuing(self, canonical: Mapping[str, Any]) -> Self:
        """Return these options as they go on from what was begun under a canonical configuration of models."""
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
    """A source whose Kafka options have librdkafka's names: to a merge of sources, two spellings are two options."""

    def __init__(self, source: PydanticBaseSettingsSource) -> None:
        super().__init__(source.settings_cls)
        self._source = source

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return what the source says of one field."""
        return self._source.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        """Return all that the source says."""
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
        Nested values that win over every other source, as from the command line.
    file : Path, optional
        A TOML file.
    secrets : Path, optional
        A directory with a file for each secret, named as the environment variable without its prefix, for example
        `kafka__sasl_password`.

    Raises
    ------
    ConfigurationError
        One line that names every option at fault, and where it was looked for.
    """
    for path, kind in ((file, "configuration file"), (secrets, "secrets directory")):
        if path is not None and not path.exists():
            raise ConfigurationError(f"the {kind} {path} does not exist", "Correct the path, or leave the option out.")
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
        raise ConfigurationError(f"unreadable configuration: {error}", _sources(file)) from None
    return Settings.model_construct(**{field: getattr(bound, field) for field in Settings.model_fields})


def _sources(file: Path | None) -> str:
    where = f"{file}, " if file else ""
    return (
        f"Looked in the options, {ENVIRONMENT_PREFIX}* variables, {where}and the defaults; "
        "`streamsvm config` lists every option."
    )


def _refuse_unknown_environment(environment: Mapping[str, str]) -> None:
    known = {field.upper() for field in Settings.model_fields} | {"CONFIG", "SECRETS", "TEST"}
    for variable in environment:
        if variable.startswith(ENVIRONMENT_PREFIX):
            first = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")[0]
            if first.upper() not in known and not first.upper().startswith("TEST_"):
                raise ConfigurationError(
                    f"the environment variable {variable} names no option",
                    f"Sections are {', '.join(sorted(Settings.model_fields))}: for example STREAMSVM_INPUT__TOPIC.",
                )


def section_class(section: str) -> type[BaseModel] | None:
    """Return the class of a section; None of an option that stands outside of one."""
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
    """Say which option a name that is none was probably meant to be: one of that name, or one spelled nearly so."""
    names = _known_names()
    namesakes = [name for name in names if name.rpartition(".")[2] == where.rpartition(".")[2]]
    likely = namesakes or difflib.get_close_matches(where, names, 1)
    return f" (is it {' or '.join(likely)}?)" if likely else ""


def _one_line(error: ValidationError) -> str:
    """Return what is wrong with each option; what several types of one option have to say is one demand."""
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
    """Return the place of a fault without the types that were tried there."""
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
    "too_long": "must have at most {max_length} entries, {actual_length} are given",
    "too_short": "must have at least {min_length} entries, {actual_length} are given",
    "string_pattern_mismatch": "must begin with a letter or a digit and hold only letters, digits, dots, "
    "underscores and hyphens, 100 of them at most",
    "missing": "is not given",
}
"""What people are told in place of pydantic's words, by the kind of its error."""
