"""How a partition's stream is summarised."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, PrivateAttr, model_validator

from streamsvm.choices import MemoryName, ReducerName, StructureName
from streamsvm.config import sizes
from streamsvm.config.point_options import PointsConfig
from streamsvm.config.sizes import LANDMARKS, Sizes
from streamsvm.option_texts import MemoryLength, seconds_of
from streamsvm.sections import Section, with_defaults
from streamsvm.supports import LABELS, require

POINTS: Final = {"tree": 11_000, "chain": 5_500, "counter": 66_000}
"""Of a partition by default. A counter keeps a bucket for each of some thirty levels, as the others keep a few."""
LANDMARK_POINTS: Final = 20_000
"""The same with landmarks, which screen every row of an RBF machine."""
SPAN_POINTS: Final = 48_000
"""The same where rows are forgotten: a dozen to forty buckets of some 2,000."""
LANDMARK_TRAIN_POINTS: Final = 100_000
"""Of an RBF machine with landmarks by default: what its solver can train in seconds."""
TREE_POINTS: Final = 700
"""Fewest points of a partition with which a tree is nearly as near to the optimum as a chain. With a quarter of them it
is 1.5 to 6 times as far from it, and can be farther than a reservoir sample (tests/benchmarks/results/coreset.txt)."""


class CoresetConfig(Section):
    """How a partition's stream is summarised."""

    reducer: ReducerName = Field(
        default="calibrated",
        description="How points are reduced: `uniform` by weight, `calibrated` by the margin of a pilot model, with "
        "exact totals.",
    )
    structure: StructureName | None = Field(
        default=None,
        description="How buckets merge: `tree` keeps up to four, of `calibrated` only; `chain` one, which is reduced "
        "again with every leaf; `counter`, of the paper on coresets, one for each binary digit. Default: `tree`; "
        "`chain` for `rbf`, and with fewer than 700 `points`; `counter` for `uniform`.",
    )
    points: Annotated[int, Field(ge=16, le=1 << 30)] | None = Field(
        default=None,
        description="Most points kept for each partition: of a leaf, of the buckets, and of the audit sample by which "
        "versions estimate their objective, at most an eleventh and 1,000. A point takes 4 bytes a feature (8 for "
        "float64) and 33 more. Default: 11,000; 20,000 for `rbf` of two labels, 5,500 of more; 48,000 if `memory` is "
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
    train_points: Annotated[int, Field(ge=2, le=1 << 24)] = Field(
        default=20_000,
        description="Most points a model is trained on; more are reduced. Default: 20,000; 100,000 for `rbf` of two "
        "labels.",
    )

    SCREENING: ClassVar[float] = 0.25
    """Largest screened leaf, as a share of the rows before it. With 0.5 and 1.0 gaps were 2 to 7 times as large, on
    shuffled and drifting Cod-RNA, ijcnn1 and Skin."""
    _sizes: Sizes | None = PrivateAttr(default=None)
    _landmarks: int | None = PrivateAttr(default=None)
    _kernel: str = PrivateAttr(default="linear")

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        options = ("structure", "reducer", "memory", "window", "half_life")
        require({f"coreset.{option}": getattr(self, option) for option in options})
        return self

    def settled(self, points: PointsConfig, kernel: str) -> Self:
        """Return this section with what suits a kernel and so many labels where it is not given, and with its sizes.

        Raises
        ------
        ValueError
            If options do not go together, or `points` are too few.
        """
        # Settled for another kernel before, perhaps: what is not given begins anew.
        fields = type(self).model_fields.items()
        bare = with_defaults(self, {name: one.default for name, one in fields if name not in self.model_fields_set})
        landmarks = bare.landmarks_of(points, kernel)
        chosen = with_defaults(bare, bare._defaults(kernel, landmarks))
        chosen._landmarks, chosen._kernel = landmarks, kernel
        required = ("memory", "reducer", "structure")
        own = {f"coreset.{option}": getattr(chosen, option) for option in required}
        require({**own, LABELS: points.classes, "svm.kernel": kernel})
        chosen._sizes = chosen.sizes_of(points, kernel)
        return chosen

    def landmarks_of(self, points: PointsConfig, kernel: str) -> int | None:
        """Return how many landmarks a pilot has; None where no chain of an RBF machine of two labels is screened."""
        suits = kernel == "rbf" and points.classes == 2 and self.structure in (None, "chain")
        return LANDMARKS if suits and self.screens and not self.forgets else None

    def _defaults(self, kernel: str, landmarks: int | None) -> dict[str, Any]:
        """Return what is not given."""
        found: dict[str, Any] = {}
        structure = self.structure if self._is_given("structure") else None
        if landmarks is not None and "train_points" not in self.model_fields_set:
            found["train_points"] = LANDMARK_TRAIN_POINTS
        if structure is None and not self.forgets:
            few = self._is_given("points") and self.kept_points < TREE_POINTS
            structure = "chain"
            if kernel != "rbf" and not few:
                structure = "tree" if self.reducer == "calibrated" else "counter"
            found["structure"] = structure
        if not self._is_given("points"):
            kept = SPAN_POINTS if structure is None else POINTS[structure]
            found["points"] = kept if landmarks is None else LANDMARK_POINTS
        return found

    def _is_given(self, option: str) -> bool:
        return option in self.model_fields_set and getattr(self, option) is not None

    def sizes_of(self, points: PointsConfig, kernel: str) -> Sizes:
        """Return the sizes that follow, of a section that has its defaults.

        Raises
        ------
        ValueError
        """
        if self.structure is None:
            screened = self.screened_numbers(points, kernel)
            made = sizes.of_spans(self.kept_points, self.memory, self.length_rows, screened=screened)
        else:
            made = sizes.of_structure(self.structure, self.kept_points, by_landmarks=self.landmarks is not None)
        if made.bucket < 1:
            kind = f"coreset.memory = {self.memory}" if self.structure is None else f"a {self.structure}"
            raise ValueError(
                f"coreset.points = {self.points} is too little for the {made.buckets} buckets of {kind}: give "
                f"{16 * made.buckets} or more"
            )
        return made

    def screened_numbers(self, points: PointsConfig, kernel: str) -> int:
        """Return the numbers of the pilot by which leaves are screened; 0 if they are not."""
        if not self.screens or kernel == "rbf":
            return 0
        return points.dimension * (1 if points.classes == 2 else points.classes)  # a pilot a label asks more of a leaf

    @property
    def forgets(self) -> bool:
        """Whether rows may lose weight."""
        return self.memory != "all"

    @property
    def screens(self) -> bool:
        """Whether leaves may be screened."""
        return self.reducer == "calibrated"

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
    def landmarks(self) -> int | None:
        """Points over which a pilot of RBF machines is written down, so that it can screen leaves; `settled` first."""
        return self._landmarks

    @property
    def kept_points(self) -> int:
        """`points`; `settled` first, unless they are given."""
        assert self.points is not None
        return self.points

    @property
    def sizes(self) -> Sizes:
        """The sizes of one partition; `settled` first."""
        assert self._sizes is not None
        return self._sizes

    @property
    def leaf_rows(self) -> int:
        """Rows, accepted or not, after which an unscreened leaf is sealed; most points of a leaf."""
        return self.sizes.leaf

    @property
    def bucket_points(self) -> int:
        """Most points of a bucket."""
        return self.sizes.bucket

    @property
    def audit_points(self) -> int:
        """Most points of the audit sample."""
        return self.sizes.audit

    @property
    def bucket_audit_points(self) -> int:
        """Points of the audit sample of each bucket where rows are forgotten."""
        return self.sizes.bucket_audit

    @property
    def span_rows(self) -> int:
        """Rows of a span where rows are forgotten."""
        return self.sizes.span

    def largest_bytes(self, points: PointsConfig, partitions: int) -> int:
        """Return the most bytes that so many partitions, a running reduction and a training set take together."""
        most = LANDMARKS if self._kernel == "rbf" and self.screens else None
        return sizes.largest_bytes(
            self.sizes,
            points,
            partitions,
            self.train_points,
            forgets=self.forgets,
            class_screens=points.classes > 2 and self.screens,
            landmarks=self.landmarks or most,
            curves=self._draws_curves(points),
        )

    def checkpoint_bytes(self, points: PointsConfig, partitions: int) -> int:
        """Return the most bytes of a checkpoint: what partitions hold, and what they held when a cut was taken."""
        class_screens = points.classes > 2 and self.screens
        curves = self._draws_curves(points)
        one = sizes.held_bytes(self.sizes, points, forgets=self.forgets, class_screens=class_screens, curves=curves)
        return 2 * partitions * one

    def _draws_curves(self, points: PointsConfig) -> bool:
        """Whether pilots are additive (`streamsvm.coreset.curves`)."""
        return self._kernel == "additive" and points.classes == 2 and self.screens and not self.forgets
