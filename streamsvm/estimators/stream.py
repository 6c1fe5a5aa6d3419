"""What a `CoresetSVC` learned: the stream of rows that it was given, and the machines made of it at their first use.

Invariant: the stream is one partition, learned as a trainer learns it; portions change nothing. With more than two
classes one structure is shared by several machines.

A stream is also plain values (`Stream.state`, `Stream.of`): bytes, numbers and arrays, for skops, copies and processes.
A stream that was restored learns and predicts on to the last bit; nothing in its state is code, so that skops can read
it under trust in the estimator alone. The learner's state is a checkpoint, as `streamsvm.checkpoint.format` writes it,
checksum included.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

import msgspec
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from streamsvm.checkpoint import format as checkpoint
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.coreset.outliers import TELLING
from streamsvm.errors import CorruptCheckpoint
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.learning.conditions import AGAIN_AT, DRIFTS, MEANINGS, Seldom, moved
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.training import Trained, task_of, with_rough_probability
from streamsvm.learning.tuning import Score
from streamsvm.model.additive import AdditiveMachine, Surface
from streamsvm.model.classes import AnyModel
from streamsvm.model.fit import Fit
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Packing, Scaler
from streamsvm.model.packing import Grid
from streamsvm.model.probability import Sigmoid
from streamsvm.model.recipes import compiled
from streamsvm.model.threshold import Threshold
from streamsvm.points import LookedUp, Points, Position, Rows

Plain = dict[str, Any]
"""Names to bytes, numbers, arrays and such dictionaries."""
NO_CUT: Final = 1 << 30
"""Leaves after which a cut falls due by itself: never, predictions ask for theirs."""
REMEDIES: Final = {
    "by_weight": "shuffle the rows if possible, or raise points",
    "crowded": "raise points: every point more helps here",
    "uncalibrated": "raise points",
    "strained": "raise points",
}
"""What to do about each condition of the coreset."""


class NoProbabilities(UserWarning):
    """Too few points came for the probabilities that `probability` asks for; the message says which are missing."""


class CoresetWarning(UserWarning):
    """The coreset may be no better than a plain sample; the message says why, and what to do.

    What a trainer logs as `coreset_degraded`: with the first count of a condition, then each time it has grown tenfold.
    And what it logs as `stream_drifts`: once, when the stream begins to drift.
    """


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of everything learned so far."""

    training_set_sha256: str
    machines: tuple[Trained, ...]  # one that tells two classes apart; of more classes, those of their task
    model: AnyModel
    weight: float  # of all that was learned
    scores: tuple[Score, ...]  # what C and gamma were chosen by; empty if they were not


class Stream:
    """What was learned, and the machines of it, made at their first use.

    Attributes
    ----------
    columns : Compiled or None
        The recipe of raw events, compiled; None where points are learned.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config, self.task = config, task_of(config)
        self.columns = compiled(config.recipe)
        self.learner = Learner(config, {0: Position(0, 0)}, NO_CUT)
        self._made: Machines | None = None
        self._warned = 0
        self._conditions = Seldom()

    @property
    def rows(self) -> int:
        """Rows learned."""
        return self.learner.positions[0].offset

    def learn(self, points: Points, names: Sequence[str] = ()) -> None:
        """Learn the next rows; warnings call features by `names` unless a recipe names them."""
        n = len(points)
        rows = Rows(
            partition=0,
            offset=np.arange(self.rows, self.rows + n),
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            times=LookedUp.of(np.full(n, -1, np.int64)),
            accepted=np.ones(n, np.bool_),
            points=points,
            leader_epoch=np.full(n, -1, np.int64),
        )
        done = 0
        with one_blas_thread():
            while done < n:
                done += self.learner.learn(rows.slice(done, n))
                if self.learner.cut_due:
                    self.learner.decline_cut()
        self._made = None
        self._warn_of_the_coreset(stacklevel=5)
        names, labels = self.config.points.feature_names or names, self.config.points.labels
        remedy = "" if self.config.coreset.memory == "adaptive" else "take memory='adaptive', or "
        for drift in self._conditions.begun(self.learner.drift()).values():
            warnings.warn(
                f"{DRIFTS}: {moved(drift, names, labels)} had the mean {drift.before:g} before and has {drift.now:g} "
                f"now, {drift.deviations:.2g} standard deviations away. What to do: {remedy}find out what changed",
                CoresetWarning,
                stacklevel=4,
            )

    def train_with(self, config: ModelConfig) -> None:
        """Train with other options from now on; they differ in nothing by which rows are learned."""
        if config.canonical() != self.config.canonical():
            self.config, self.task, self._made = config, task_of(config), None

    def made(self) -> Machines:
        """Return the machines of everything learned so far; they are trained if rows came since."""
        if self._made is not None:
            return self._made
        with one_blas_thread():
            cut = self.learner.cut()
            made = make(cut, self.config)
            machines, model = made.machines, made.model
            if made.no_probability:
                samples = self.task.samples(made.cut.audit)
                machines = tuple(map(with_rough_probability, machines, samples))
                model = self.task.model([machine.model for machine in machines])
        self._warn_of_the_coreset(stacklevel=4)
        gaps = [machine.fit.kkt_gap or 0.0 for machine in machines if not machine.fit.converged]
        if gaps:
            warnings.warn(
                f"the solver ended before the KKT gap met tol = {self.config.svm.tolerance:g}, at {max(gaps):.2g} in "
                f"{len(gaps)} of {len(machines)} machines: raise tol, or scale the features",
                ConvergenceWarning,
                stacklevel=3,
            )
        if made.no_probability:
            warnings.warn(
                f"a trainer would publish no probabilities: {made.no_probability[0][1]}. Here they are a sigmoid of "
                "the few points there are, and rough; they are missing where a class has none",
                NoProbabilities,
                stacklevel=3,
            )
        self._made = Machines(made.training_set_sha256, machines, model, cut.moments.weight, made.scores)
        return self._made

    def _warn_of_the_coreset(self, stacklevel: int) -> None:
        """Warn of outliers and of conditions, with the first count, then each time it has grown tenfold."""
        found = self.learner.outliers()
        count, worst = found.rows + found.weights, found.worst
        if worst is not None and worst.excess >= TELLING and count >= max(1, AGAIN_AT * self._warned):
            self._warned = count
            what = "weight" if worst.feature is None else f"feature {worst.feature}"
            warnings.warn(
                f"{found.rows} rows and {found.weights} weights are outliers, and were drawn in; the farthest is row "
                f"{worst.place.offset} of all rows learned: {what} is {worst.value:g}, and counts as {worst.bound:g}",
                UserWarning,
                stacklevel=stacklevel,
            )
        by_age = self.config.coreset.memory in {"window", "decay"}
        for condition, count in self._conditions.due(self.learner.observed().counts()):
            remedy = REMEDIES[condition]
            if condition == "by_weight" and not by_age:
                remedy += "; structure='chain' suffers less"
            warnings.warn(
                f"{MEANINGS[condition]} (count so far: {count}). What to do: {remedy}",
                CoresetWarning,
                stacklevel=stacklevel,
            )

    def state(self) -> Plain:
        """Return everything as plain values. Beside the sizes the configuration names the budget they follow from."""
        learned = self.learner.state()
        snapshot = Snapshot(
            name="CoresetSVC",
            incarnation=1,
            sequence=1,
            topic="",
            topic_id="",
            base={partition: Position(0, 0) for partition in learned.partitions},
            configuration=self.config.canonical(),
            configuration_sha256=self.config.learned_sha256(),
            build={},
            head=None,
            learner=learned,
            pending=None,
        )
        made: Plain | None = None
        if self._made is not None:
            made = {
                "training_set_sha256": self._made.training_set_sha256,
                "machines": {str(rank): _plain(trained) for rank, trained in enumerate(self._made.machines)},
                "weight": self._made.weight,
                "scores": {str(rank): asdict(score) for rank, score in enumerate(self._made.scores)},
            }
        return {"learned": checkpoint.encode(snapshot), "made": made}

    @classmethod
    def of(cls, state: Plain) -> Self:
        """Return the stream whose `state` these plain values are.

        Raises
        ------
        ValueError
            If bytes or parts were lost or changed, or another build wrote them in a format that this one does not read.
        """
        remedy = "Load it with the build that saved it, or fit it again."
        try:
            snapshot, made = checkpoint.decode(state["learned"]), state["made"]
            stream = cls(ModelConfig.model_validate(snapshot.configuration))
            stream.learner.restore(snapshot.learner)
            if made is not None:
                machines = tuple(_trained(trained) for trained in made["machines"].values())
                stream._made = Machines(
                    made["training_set_sha256"],
                    machines,
                    stream.task.model([machine.model for machine in machines]),
                    made["weight"],
                    tuple(Score(**score) for score in made["scores"].values()),
                )
        except CorruptCheckpoint as error:
            raise ValueError(f"the saved state of this CoresetSVC cannot be read: {error.what}. {remedy}") from None
        except KeyError as error:
            raise ValueError(f"the saved state of this CoresetSVC lacks {error}. {remedy}") from None
        return stream


def _plain(trained: Trained) -> Plain:
    """Return a machine as plain values."""
    model, machine = trained.model, trained.model.machine
    if isinstance(machine, LinearMachine):
        terms: Plain = {"coefficients": machine.coefficients, "intercept": machine.intercept}
    elif isinstance(machine, AdditiveMachine):
        terms = {
            "knots": dict(enumerate(machine.knots)),
            "values": dict(enumerate(machine.values)),
            "surfaces": {at: dict(zip(Surface._fields, one, strict=True)) for at, one in enumerate(machine.surfaces)},
            "intercept": machine.intercept,
        }
    else:
        terms = {
            "gamma": machine.kernel.gamma,
            "support": machine.support,
            "dual": machine.dual,
            "intercept": machine.intercept,
            "packing": machine.packing and asdict(machine.packing),
        }
    return {
        "mean": model.scaler.mean,
        "scale": model.scaler.scale,
        "machine": terms,
        "probability": model.probability and asdict(model.probability),
        "threshold": model.threshold and msgspec.json.encode(model.threshold),
        "fit": asdict(trained.fit),
        "squared_norm": trained.squared_norm,
        "no_probability": trained.no_probability,
    }


def _trained(plain: Plain) -> Trained:
    """Return the machine whose plain values `_plain` made."""
    terms, probability, threshold = plain["machine"], plain["probability"], plain["threshold"]
    machine: Machine
    if "coefficients" in terms:
        machine = LinearMachine(**terms)
    elif "knots" in terms:
        knots, values = (tuple(terms[name].values()) for name in ("knots", "values"))
        surfaces = tuple(Surface(**one) for one in terms["surfaces"].values())
        machine = AdditiveMachine(knots, values, surfaces, terms["intercept"])
    else:
        packing = terms["packing"]
        if packing is not None:
            packing = Packing(**{**packing, "grid": Grid(**packing["grid"])})
        machine = KernelMachine(RbfKernel(terms["gamma"]), terms["support"], terms["dual"], terms["intercept"], packing)
    model = Model(Scaler(plain["mean"], plain["scale"]), machine)
    if probability is not None:
        model = replace(model, probability=Sigmoid(**probability))
    if threshold is not None:
        model = replace(model, threshold=msgspec.json.decode(threshold, type=Threshold))
    return Trained(model, Fit(**plain["fit"]), plain["squared_norm"], plain["no_probability"])
