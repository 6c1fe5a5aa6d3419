"""What a `CoresetSVC` learned as plain values: bytes, numbers and arrays, for skops, copies and processes.

Invariant: an estimator that was restored learns and predicts on to the last bit; nothing here is code, so that skops
can read it under trust in the estimator alone. The learner's state is a checkpoint, as `streamsvm.checkpoint.format`
writes it, checksum included.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from streamsvm.checkpoint import format as checkpoint
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.learner import LearnerState
from streamsvm.learning.training import Trained
from streamsvm.learning.tuning import Score
from streamsvm.model.fit import Fit
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Packing, Scaler
from streamsvm.model.packing import Grid
from streamsvm.model.probability import Sigmoid
from streamsvm.model.threshold import Threshold
from streamsvm.points import Position

Plain = dict[str, Any]
"""Names to bytes, numbers, arrays and such dictionaries."""


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of everything learned so far.

    Attributes
    ----------
    training_set_sha256 : str
    machines : tuple of Trained
        The one that tells two classes apart; of more classes, those of their task.
    weight : float
        Of all that was learned.
    scores : tuple of Score
        What C and gamma were chosen by; empty if they were not.
    """

    training_set_sha256: str
    machines: tuple[Trained, ...]
    weight: float
    scores: tuple[Score, ...] = ()


def to_plain(config: ModelConfig, learned: LearnerState, made: Machines | None) -> Plain:
    """Return all that a stream is. Beside the sizes the configuration names the budget that they follow from."""
    snapshot = Snapshot(
        name="CoresetSVC",
        incarnation=1,
        sequence=1,
        topic="",
        topic_id="",
        base={partition: Position(0, 0) for partition in learned.partitions},
        configuration=config.model_dump(mode="json"),
        configuration_sha256=config.sha256(),
        build={},
        head=None,
        learner=learned,
        pending=None,
    )
    return {
        "learned": checkpoint.encode(snapshot),
        "made": None if made is None else _plain_made(made),
    }


def from_plain(plain: Plain) -> tuple[ModelConfig, LearnerState, Machines | None]:
    """Return what `to_plain` was given.

    Raises
    ------
    ValueError
        If bytes or parts were lost or changed, or another build wrote them in a format that this one does not read.
    """
    remedy = "Load it with the build that saved it, or fit it again."
    try:
        snapshot = checkpoint.decode(plain["learned"])
        made = None if plain["made"] is None else _made(plain["made"])
    except CorruptCheckpoint as error:
        raise ValueError(f"the saved state of this CoresetSVC cannot be read: {error.what}. {remedy}") from None
    except KeyError as error:
        raise ValueError(f"the saved state of this CoresetSVC lacks {error}. {remedy}") from None
    return ModelConfig.model_validate(snapshot.configuration), snapshot.learner, made


def _plain_made(made: Machines) -> Plain:
    return {
        "training_set_sha256": made.training_set_sha256,
        "machines": {str(rank): _plain_trained(trained) for rank, trained in enumerate(made.machines)},
        "weight": made.weight,
        "scores": {str(rank): asdict(score) for rank, score in enumerate(made.scores)},
    }


def _plain_trained(trained: Trained) -> Plain:
    model = trained.model
    return {
        "mean": model.scaler.mean,
        "scale": model.scaler.scale,
        "machine": _plain_machine(model.machine),
        "probability": None if model.probability is None else asdict(model.probability),
        "threshold": None if model.threshold is None else msgspec.json.encode(model.threshold),
        "fit": asdict(trained.fit),
        "squared_norm": trained.squared_norm,
        "no_probability": trained.no_probability,
    }


def _plain_machine(machine: Machine) -> Plain:
    if isinstance(machine, LinearMachine):
        return {"coefficients": machine.coefficients, "intercept": machine.intercept}
    return {
        "gamma": machine.kernel.gamma,
        "support": machine.support,
        "dual": machine.dual,
        "intercept": machine.intercept,
        "packing": None if machine.packing is None else asdict(machine.packing),
    }


def _made(plain: Plain) -> Machines:
    machines = tuple(_trained(trained) for trained in plain["machines"].values())
    scores = tuple(Score(**score) for score in plain["scores"].values())
    return Machines(plain["training_set_sha256"], machines, plain["weight"], scores)


def _trained(plain: Plain) -> Trained:
    scaler = Scaler(plain["mean"], plain["scale"])
    saved = plain["threshold"]
    threshold = None if saved is None else msgspec.json.decode(saved, type=Threshold)
    model = Model(
        scaler,
        _machine(plain["machine"]),
        None if plain["probability"] is None else Sigmoid(**plain["probability"]),
        threshold=threshold,
    )
    return Trained(model, Fit(**plain["fit"]), plain["squared_norm"], plain["no_probability"])


def _machine(plain: Plain) -> Machine:
    if "coefficients" in plain:
        return LinearMachine(plain["coefficients"], plain["intercept"])
    kernel = RbfKernel(plain["gamma"])
    packing = plain["packing"]
    if packing is not None:
        packing = Packing(**{**packing, "grid": Grid(**packing["grid"])})
    return KernelMachine(kernel, plain["support"], plain["dual"], plain["intercept"], packing)
