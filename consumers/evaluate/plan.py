"""What to evaluate, and what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from streamsvm.choices import KernelName, Loss, ReducerName, StructureName
from streamsvm.config import Label, ModelConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.estimators import CoresetSVC
from streamsvm.estimators.evaluation import ProbabilityScores, Scores
from streamsvm.ingest.files.source import PointSource
from streamsvm.model.recipes import recipes_of
from streamsvm.points import Points, label_codes
from streamsvm.supports import require

DEFAULT_TRAIN_POINTS: Final = 20_000
FLAGS: Final = {"svm.alpha": "--alpha", "svm.C": "--C", "svm.cost": "--cost", "svm.target": "--target"}
"""Options of the configuration that `streamsvm evaluate` has, too."""
LEAST_POINTS: Final = 16

Step = Callable[[str, int, int | None], None]
"""Told what is going on, how many points of it are done, and of how many; None where that is not known. Of nothing
(`REMARK`): a remark, which stays for the person to read."""
REMARK: Final = 0


def silent(what: str, done: int, total: int | None) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to evaluate.

    Attributes
    ----------
    points : int
        Of the coreset in each partition, and, of all partitions, of the reservoir.
    alpha, C : float, optional
        At most one of them; alpha = 1e-4 without.
    kernel, loss, gamma, structure, reducer, probability
        As `CoresetSVC`'s.
    class_weight : "balanced", two numbers, or None
        Factors for the weights of the first and the second label, in every method.
    cost, target
        As `CoresetSVC`'s: what a threshold is chosen for.
    positive : str, optional
        Of two labels, the positive one as it is written.
    seed : int
        Of the split, the order, the coreset, the reservoir and SGD.
    test_share : float
        Share of the points that is set aside, in (0, 1).
    find_optimum : bool, optional
        Whether to train on all points, without which there are no gaps. Default: unless they are too many.
    config : ModelConfig, optional
        By which a trainer learns; `of_config` makes the other options agree with it. Without it, `CoresetSVC`'s.
    partitions : int
        Rows are dealt to them in turn.
    every_leaves : int or None
        Leaves after which the trainer cuts.
    """

    points: int = 11_000
    alpha: float | None = None
    C: float | None = None
    kernel: KernelName = "linear"
    loss: Loss | None = None
    gamma: Literal["scale", "auto"] | float = "scale"
    structure: StructureName = "chain"
    reducer: ReducerName = "calibrated"
    probability: Literal["sigmoid"] | None = None
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    cost: tuple[float, float] | None = None
    target: dict[Literal["precision", "recall", "alarm_rate"], float] | None = None
    positive: str | None = None
    seed: int = 0
    test_share: float = 0.2
    find_optimum: bool | None = None
    config: ModelConfig | None = None
    partitions: int = 1
    every_leaves: int | None = None

    def of_config(self, config: ModelConfig, partitions: int, every_leaves: int | None = None) -> Plan:
        """Return this plan for what a trainer of a configuration learns from a topic of so many partitions."""
        svm, coreset = config.svm, config.coreset
        return replace(
            self,
            config=config,
            partitions=partitions,
            every_leaves=every_leaves,
            points=config.coreset.kept_points,
            alpha=svm.alpha,
            C=svm.C,
            kernel=svm.kernel,
            loss=svm.loss,
            gamma=svm.gamma,
            structure=coreset.structure or self.structure,
            reducer=coreset.reducer,
            probability=svm.probability,
            class_weight=None if svm.class_weight == "none" else svm.class_weight,
            cost=svm.cost,
            target=svm.target,
            seed=config.seed,
        )

    def configuration(self, points: Points) -> ModelConfig:
        """Return the configuration of a trainer that learns such points as this plan says.

        Raises
        ------
        ConfigurationError
            If an option makes no sense with these points.
        """
        if self.config is not None:
            return self.config
        _, first = np.unique(points.y, return_index=True)
        try:
            return self.machine().partial_fit(points.X[first], points.y[first]).model_config
        except ValueError as error:
            reason = str(error).removeprefix(": Value error, ")
            raise ConfigurationError(reason, "See streamsvm evaluate --help.") from None

    def fields(self, source: PointSource) -> dict[str, slice]:
        """Return the columns of each feature: several by a recipe, else one."""
        recipe = None if self.config is None else self.config.recipe
        if recipe is not None:
            return dict(recipes_of(recipe).places(recipe))
        names = source.feature_names or [f"x[{column}]" for column in range(source.dimension)]
        return {name: slice(column, column + 1) for column, name in enumerate(names)}

    def machine(self) -> CoresetSVC:
        """Return a new classifier of this plan."""
        return CoresetSVC(
            points=self.points,
            alpha=self.alpha,
            C=self.C,
            kernel=self.kernel,
            loss=self.loss,
            gamma=self.gamma,
            structure=self.structure,
            reducer=self.reducer,
            probability=self.probability,
            cost=self.cost,
            target=self.target,
            class_weight=self.weights_of_labels,
            train_points=max(DEFAULT_TRAIN_POINTS, self.points),
            seed=self.seed,
        )

    @property
    def svm(self) -> SvmConfig:
        """The options of training, for versions of a stream; `check` comes first."""
        return SvmConfig(
            kernel=self.kernel,
            loss=self.loss,
            gamma=self.gamma,
            alpha=self.alpha,
            C=self.C,
            probability=self.probability,
            class_weight="none" if self.class_weight is None else self.class_weight,
        )

    @property
    def weights_of_labels(self) -> Literal["balanced"] | dict[Any, float] | None:
        """The class weights as scikit-learn takes them, by what `Points.y` holds."""
        weights = self.class_weight
        return dict(zip(label_codes(len(weights)), weights, strict=True)) if isinstance(weights, tuple) else weights

    def check(self) -> None:
        """Refuse what does not make sense.

        Raises
        ------
        ConfigurationError
        """
        require({"svm.alpha": self.alpha, "svm.C": self.C}, FLAGS)
        if not 0.0 < self.test_share < 1.0:
            raise ConfigurationError(f"--test-share is {self.test_share}", "Give a share above 0 and below 1.")
        for name, value in (("--alpha", self.alpha), ("--C", self.C), ("--gamma", self.gamma)):
            if isinstance(value, float) and not 0.0 < value < np.inf:
                raise ConfigurationError(f"{name} is {value}", "Give a number above 0.")
        if isinstance(self.class_weight, tuple) and not all(0.0 < factor < np.inf for factor in self.class_weight):
            raise ConfigurationError(
                f"--class-weight is {','.join(map(str, self.class_weight))}", "Give two numbers above 0, or balanced."
            )
        if self.points < LEAST_POINTS:
            raise ConfigurationError(f"--points is {self.points}", f"Give {LEAST_POINTS} or more.")
        if self.seed < 0:
            raise ConfigurationError(f"--seed is {self.seed}", "Give 0 or more.")
        if self.partitions < 1:
            raise ConfigurationError(f"--partitions is {self.partitions}", "Give 1 or more.")

    @property
    def points_of_all(self) -> int:
        """Most points held at once, in all partitions."""
        return self.points * self.partitions


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """What answers above a threshold come to on what was set aside, by weight.

    Attributes
    ----------
    threshold : float
    precision, recall : float or None
        None where nothing is answered with the second label, or nothing has it.
    alarm_rate : float
        Share that is answered with the second label.
    cost : float or None
        Mean per weight; None unless costs were given.
    """

    threshold: float
    precision: float | None
    recall: float | None
    alarm_rate: float
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """What one method made of the training part.

    Attributes
    ----------
    name : str
    objective : float or None
        F on the training part, of more than two labels the sum over the machines that a trainer has; None of a machine
        of another kind.
    gap : float or None
        Of F to the optimum's; None without one of both.
    scores : Scores or None
        On what was set aside; None of a method that failed.
    points_per_s : float or None
        Training points over the wall time of reading them and of training.
    seconds : float or None
        That time.
    points_held : int or None
        At most.
    note : str
    probabilities : ProbabilityScores or None
        On what was set aside, if they were asked for; of streamsvm and the optimum.
    at : AtThreshold or None
        Of streamsvm, at the threshold that it chose, if that was asked for.
    """

    name: str
    objective: float | None = None
    gap: float | None = None
    scores: Scores | None = None
    points_per_s: float | None = None
    seconds: float | None = None
    points_held: int | None = None
    note: str = ""
    probabilities: ProbabilityScores | None = None
    at: AtThreshold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedVersion:
    """The last version that a trainer publishes of the file's rows, in their order, held out ones included.

    Of one partition it ends where the last cut falls; of several, where that depends on the order in which they are
    read, it is that of all rows.

    Attributes
    ----------
    rows : int
        That it covers.
    of_rows : int
        That the file has.
    partitions : int
    training_set_sha256, content_sha256 : str
        As `streamsvm model show` shows them.
    """

    rows: int
    of_rows: int
    partitions: int
    training_set_sha256: str
    content_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """The outcome.

    Attributes
    ----------
    source : str
    labels : tuple
        Negative, positive; or all of more than two.
    training_points, test_points, dimension : int
    C : float
    gamma : float or None
    uncertainty : float or None
        Relative distance from the true optimum within which the optimum lies; None if it was not sought.
    rows : tuple of EvaluationRow
    thresholds : tuple of AtThreshold
        Of streamsvm, the chosen one and others beside it, ascending; empty unless a threshold was asked for.
    most_bytes : int
        That the coresets of all partitions can take, with a reduction and a training set.
    said : tuple of str
        What figures are of, and what they lack.
    version : EvaluatedVersion or None
        None without a configuration, and with `svm.tune`: what is in force then depends on which cuts were trained.
    """

    source: str
    labels: tuple[Label, ...]
    training_points: int
    test_points: int
    dimension: int
    C: float
    gamma: float | None
    uncertainty: float | None
    most_bytes: int
    rows: tuple[EvaluationRow, ...]
    thresholds: tuple[AtThreshold, ...] = ()
    said: tuple[str, ...] = ()
    version: EvaluatedVersion | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold; each row flat, its name as `contender`."""
        return asdict(self) | {"rows": [_flat(row, self.labels) for row in self.rows]}


def label_of(answer: int, labels: tuple[Label, ...]) -> Label:
    """Return the label for which `Points.y` has a number."""
    return labels[(answer + 1) // 2 if len(labels) == 2 else answer]


def _flat(row: EvaluationRow, labels: tuple[Label, ...]) -> dict[str, Any]:
    nested = asdict(row)
    scores, probabilities = nested.pop("scores") or {}, nested.pop("probabilities") or {}
    at = nested.pop("at") or {}
    figures = {
        name: scores.get(name) for name in ("accuracy", "balanced_accuracy", "auc", "average_precision", "skill")
    }
    return {
        "contender": nested.pop("name"),
        **figures,
        "only_answer": None if (one := scores.get("only_answer")) is None else label_of(one, labels),
        "log_loss": probabilities.get("log_loss"),
        "brier": probabilities.get("brier"),
        **nested,
        **at,
    }
