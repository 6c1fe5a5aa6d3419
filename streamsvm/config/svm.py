"""What is trained on a coreset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from streamsvm.choices import KernelName, Loss, Multiclass, TuneScoring
from streamsvm.config.coreset import CoresetConfig
from streamsvm.model.threshold import Figure
from streamsvm.option_texts import none_in_words, one_target, split_at_commas, target_in_words, two_costs
from streamsvm.sections import Section, with_defaults
from streamsvm.supports import LABELS, require

ClassWeight = Annotated[float, Field(ge=1e-12, le=1e12)]
Alpha = Annotated[float, Field(ge=1e-30, le=1)]
Gamma = Annotated[float, Field(gt=0)]


def support_vector_bytes(dimension: int, machines: int = 1, *, packed: bool = False) -> int:
    """Return the bytes of a support vector, with its coefficient in each machine, in a message, in base64."""
    features, coefficients = (2, 4) if packed else (8, 8)
    return -(-(dimension * features + machines * coefficients) * 4 // 3) + 8


class SvmConfig(Section):
    """What is trained on a coreset."""

    kernel: KernelName = Field(
        default="linear",
        description="Machine: `linear`, `rbf`, or `additive`: a curve for each feature, and surfaces of pairs, add up.",
    )
    loss: Loss | None = Field(
        default=None,
        description="Loss of a margin m: `hinge` max(0, 1 - m), or its square. Default: `hinge` of `linear`; "
        "`squared_hinge` of the others, by which they rank better.",
    )
    gamma: Literal["scale", "auto"] | Gamma = Field(
        default="scale",
        description="RBF width: a number, `scale` = 1 / (d variance of the scaled points), `auto` = 1 / d.",
    )
    alpha: Alpha | None = Field(
        default=None,
        description="Trade-off between margin and average loss: C = 1 / (alpha U), U the total weight. Default: 1e-4; "
        "`additive` takes 1e-4, of two labels 1e-3 or 1e-2 where left out points say so.",
    )
    C: Annotated[float, Field(ge=1e-100, le=1e100)] | None = Field(
        default=None,
        description="Fixed C, instead of alpha: the total penalty then grows with the stream.",
    )
    class_weight: Literal["none", "balanced"] | Annotated[tuple[ClassWeight, ...], BeforeValidator(split_at_commas)] = (
        Field(
            default="none",
            description="Factors for the weights of each label, in the order of `points.labels`, such as 1,10; "
            "`balanced`: equal total weights.",
        )
    )
    multiclass: Annotated[Multiclass | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="Machines of more than two labels: for each pair, which vote, or for each label. Default: pairs up "
        "to 32 labels.",
    )
    standardize: bool = Field(
        default=True,
        description="Scale features to zero mean and unit variance. false: take away the mean only, which changes no "
        "machine.",
    )
    probability: Literal["sigmoid"] | None = Field(
        default=None,
        description="Probabilities, fitted to the audit sample.",
    )
    cost: Annotated[
        tuple[float, float] | None,
        BeforeValidator(two_costs),
        BeforeValidator(split_at_commas),
        BeforeValidator(none_in_words),
    ] = Field(
        default=None,
        description="The cost of a missed positive and that of a false alarm: 50,1. Versions get the threshold of the "
        "least mean cost over the audit sample, whatever class_weight.",
    )
    target: Annotated[
        dict[Literal["precision", "recall", "alarm_rate"], float] | None,
        BeforeValidator(one_target),
        BeforeValidator(target_in_words),
    ] = Field(
        default=None,
        description="Instead of `cost`, one of `precision=0.9` (of the alarms, so many are right), `recall=0.9` (of "
        "the positives, so many are found) and `alarm_rate=0.01` (at most so many of all points). In TOML: target = "
        "{recall = 0.9}. The audit sample needs ten points of each label.",
    )
    tolerance: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1e-3, description="KKT gap at which the solver stops."
    )
    landmarks: Annotated[Annotated[int, Field(ge=2, le=1 << 20)] | None, BeforeValidator(none_in_words)] = Field(
        default=None,
        description="Most support vectors of a published `rbf` machine; a larger one is approximated, and the duality "
        "gap says what that costs. Default: of two labels as many as 900,000 bytes hold, else all.",
    )
    tune: Literal["auto"] | None = Field(
        default=None,
        description="`auto`: choose alpha (or C), and gamma for `rbf`, by five-fold cross-validation on at most 5,000 "
        "points, among 1/100 to 100 times `alpha` (or `C`), and 1/16 to 16 times `gamma`, again every 50 leaves; for "
        "`rbf` of two labels by machines of up to an eighth of the model's points, again after a fivefold growth. "
        "Default: the configured values.",
    )
    tune_scoring: TuneScoring = Field(
        default="accuracy",
        description="By what `tune` chooses; `log_loss` of the sigmoid that fits best, the mean `cost` at its best "
        "threshold. With more than two labels one of the accuracies.",
    )

    _packed: bool = PrivateAttr(default=False)
    DEFAULT_ALPHA: ClassVar[float] = 1e-4
    MOST_CLASSES_IN_PAIRS: ClassVar[int] = 32
    """Labels up to which there is a machine for each pair by default: 496 machines."""
    FEATURE_BYTES: ClassVar[int] = 250
    """Of a message for each feature: its mean, its scale, and its part of the probes."""
    MESSAGE_BYTES: ClassVar[int] = 900_000
    """Of a published machine's support vectors by default: brokers accept records of 1,000,000 bytes by default."""

    @classmethod
    def packed_bytes(cls, dimension: int) -> int:
        """Return how many bytes a message has for support vectors of so many features, in base64."""
        return cls.MESSAGE_BYTES - cls.FEATURE_BYTES * dimension

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        trained = ("kernel", "tune", "alpha", "C", "cost", "target", "landmarks", "tune_scoring")
        require({f"svm.{option}": getattr(self, option) for option in trained})
        return self

    def settled(self, classes: int, *, packed: bool = False) -> SvmConfig:
        """Return this section with its loss, and the machines that so many labels get by default, packed or not."""
        missing: dict[str, object] = {"loss": self.margin_loss}
        if classes > 2 and not self.multiclass:
            missing["multiclass"] = "one_vs_one" if classes <= self.MOST_CLASSES_IN_PAIRS else "one_vs_rest"
        chosen = with_defaults(self, missing)
        chosen._packed = packed
        return chosen

    @property
    def margin_loss(self) -> Loss:
        """The `loss`; where it is not given, that of the kernel."""
        if self.loss and "loss" in self.model_fields_set:
            return self.loss
        return "hinge" if self.kernel == "linear" else "squared_hinge"

    @property
    def packed(self) -> bool:
        """Whether an RBF machine has as many bits as each feature needs; `settled` first."""
        return self._packed

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

    def class_weights(self, class_weight: Sequence[float] | NDArray[np.float64]) -> tuple[float, ...]:
        """Return the factor of each label's weights.

        Parameters
        ----------
        class_weight : one number a label
            Exact total weights. Balanced weights keep their sum; a label of which nothing came has the factor 1.
        """
        if isinstance(self.class_weight, tuple):
            return self.class_weight
        seen = [float(weight) for weight in class_weight]
        present = sum(weight > 0.0 for weight in seen)
        if self.class_weight == "none":
            return (1.0,) * len(seen)
        return tuple(sum(seen) / present / weight if weight > 0.0 else 1.0 for weight in seen)


def require_trainable(classes: int, svm: SvmConfig, coreset: CoresetConfig) -> None:
    """Refuse options of the machine that do not go with the labels or the coreset, and sizes too small for the labels.

    Raises
    ------
    ValueError
    """
    options = ("kernel", "C", "multiclass", "cost", "target", "probability", "tune_scoring")
    own = {f"svm.{option}": getattr(svm, option) for option in options}
    require({LABELS: classes, **own, "coreset.memory": coreset.memory})
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
    for what, size in (("coreset.points", coreset.bucket_points), ("coreset.train_points", coreset.train_points)):
        if size < classes:
            of = " a bucket" if what == "coreset.points" else ""
            raise ValueError(
                f"{what} gives{of} {size} points, too few for the {classes} labels of points.labels, of which it must "
                "hold a point each: raise it"
            )
