"""Those parts of a model message that are of several machines: format 7, of more than two labels.

Invariant: every list has as many entries as there are machines, in their order; probabilities of probes as there are
labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model import probability_part
from streamsvm.model.arrays import bounded, from_base64, to_base64, vector
from streamsvm.model.audit_part import AuditPart, decode_audit, encode_audit
from streamsvm.model.classes import KernelMachines, LinearMachines, Machines
from streamsvm.model.fit import MachineFit
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.probability import Probability
from streamsvm.model.probability_part import ProbabilityPart
from streamsvm.model.probes import Probes, count_of


class LinearMachinesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="linear"):
    """Coefficients, a list for each machine, and intercepts."""

    coefficients: list[list[float]]
    intercepts: list[float]


class RbfMachinesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="rbf"):
    """Support vectors of any of the machines, s of them, and base64 of n_machines rows of s dual coefficients."""

    gamma: float
    support_vectors: str
    dual_coefficients: str
    intercepts: list[float]


class MachineFitPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How one machine was fitted."""

    support_vectors: int
    objective: float
    dual_objective: float | None
    kkt_gap: float | None
    iterations: int
    converged: bool
    audit: AuditPart | None


class ProbesOfClassesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points, and for each a decision value and a tolerance of every machine, perhaps a probability of every label."""

    x: list[list[float]]
    decision: list[list[float]]
    tolerance: list[list[float]]
    probability: list[list[float]] | None


def encode_machines(machines: Machines) -> LinearMachinesPart | RbfMachinesPart:
    """Return machines as a part of a message."""
    intercepts = machines.intercepts.tolist()
    if isinstance(machines, LinearMachines):
        return LinearMachinesPart(machines.coefficients.tolist(), intercepts)
    return RbfMachinesPart(machines.kernel.gamma, to_base64(machines.support), to_base64(machines.dual), intercepts)


def decode_machines(part: LinearMachinesPart | RbfMachinesPart, dimension: int, machines: int) -> Machines:
    """Return the machines of a part.

    Raises
    ------
    InvalidMessage
        If they are not of so many features and machines, or a number in them is not valid.
    """
    intercepts = bounded(vector(part.intercepts, machines, "model.intercepts", "machines"), "model.intercepts")
    if isinstance(part, LinearMachinesPart):
        if len(part.coefficients) != machines:
            raise InvalidMessage(f"model.coefficients has {len(part.coefficients)} lists for {machines} machines")
        rows = [vector(row, dimension, "coefficients") for row in part.coefficients]
        return LinearMachines(bounded(np.array(rows), "coefficients"), intercepts)
    if not 0 < part.gamma < math.inf:
        raise InvalidMessage(f"gamma is {part.gamma}, which is not valid")
    support = bounded(from_base64(part.support_vectors, "support_vectors"), "support_vectors")
    dual = bounded(from_base64(part.dual_coefficients, "dual_coefficients"), "dual_coefficients")
    count = len(support) // dimension
    if len(support) != count * dimension or len(dual) != count * machines:
        raise InvalidMessage(
            f"{len(support)} support vector entries do not fit {len(dual)} dual coefficients, {dimension} features and "
            f"{machines} machines"
        )
    return KernelMachines(
        RbfKernel(part.gamma), support.reshape(count, dimension), dual.reshape(machines, count), intercepts
    )


def encode_machine_fits(fits: Sequence[MachineFit]) -> tuple[MachineFitPart, ...]:
    """Return how each machine was fitted as a part of a message."""
    return tuple(
        MachineFitPart(
            support_vectors=fit.support_vectors,
            objective=fit.objective,
            dual_objective=fit.dual_objective,
            kkt_gap=fit.kkt_gap,
            iterations=fit.iterations,
            converged=fit.converged,
            audit=encode_audit(fit.audit),
        )
        for fit in fits
    )


def decode_machine_fits(parts: Sequence[MachineFitPart], machines: int) -> tuple[MachineFit, ...]:
    """Return how each machine was fitted; raises `InvalidMessage`."""
    if len(parts) != machines:
        raise InvalidMessage(f"machines has {len(parts)} entries, but the labels have {machines} machines")
    return tuple(
        MachineFit(
            support_vectors=part.support_vectors,
            objective=part.objective,
            dual_objective=part.dual_objective,
            kkt_gap=part.kkt_gap,
            iterations=part.iterations,
            converged=part.converged,
            audit=decode_audit(part.audit),
        )
        for part in parts
    )


def encode_probabilities(functions: Sequence[Probability] | None) -> tuple[ProbabilityPart, ...] | None:
    """Return the functions as parts of a message; null stands for none."""
    if functions is None:
        return None
    parts = [probability_part.encode(function) for function in functions]
    return tuple(part for part in parts if part is not None)


def decode_probabilities(parts: Sequence[ProbabilityPart] | None, machines: int) -> tuple[Probability, ...] | None:
    """Return the functions of parts; raises `InvalidMessage`."""
    if parts is None:
        return None
    if len(parts) != machines:
        raise InvalidMessage(f"probability has {len(parts)} entries for {machines} machines")
    functions = [probability_part.decode(part) for part in parts]
    return tuple(function for function in functions if function is not None)


def encode_probes(probes: Probes) -> ProbesOfClassesPart:
    """Return probes as a part of a message."""
    probability = None if probes.probability is None else probes.probability.tolist()
    return ProbesOfClassesPart(probes.X.tolist(), probes.decision.tolist(), probes.tolerance.tolist(), probability)


def decode_probes(part: ProbesOfClassesPart, dimension: int, classes: int, machines: int) -> Probes:
    """Return the probes of a part; raises `InvalidMessage`."""
    count, most = len(part.x), count_of(dimension)
    if not 1 <= count <= most:  # each is evaluated against every support vector, twice
        raise InvalidMessage(f"there are {count} probes, but a model of {dimension} features has 1 to {most}")
    X = np.array([vector(x, dimension, "a probe") for x in part.x])
    probability = None if part.probability is None else _table(part.probability, count, classes, "probability")
    return Probes(
        X,
        _table(part.decision, count, machines, "decision"),
        _table(part.tolerance, count, machines, "tolerance"),
        probability,
    )


def _table(rows: list[list[float]], count: int, entries: int, name: str) -> Float:
    if len(rows) != count:
        raise InvalidMessage(f"probes.{name} has {len(rows)} entries for {count} probes")
    return np.array([vector(row, entries, f"an entry of probes.{name}", "machines or labels") for row in rows])
