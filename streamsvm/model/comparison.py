"""What changed from one version to another: figures, lineage, configuration, and the machine itself.

Coefficients are compared as they act on raw features: each version has a scaler of its own, in whose units they differ
even where the machine is the same. Two kernel machines have no coefficients; they are compared by what they answer at
their own support vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from streamsvm.model.classes import AnyModel, KernelMachines
from streamsvm.model.kernels import Float
from streamsvm.model.machine import KernelMachine, LinearMachine, Model
from streamsvm.model.probes import probes_of
from streamsvm.model.shapes import ShapeChange, changes_of, shapes_of
from streamsvm.model.version import Version, positions
from streamsvm.toml_text import toml_value

CHANGES_SHOWN: Final = 10
MOST_SHOWN: Final = 200
"""Characters of an option's value in a message."""
ANSWERS_COMPARED: Final = 1_000
"""Support vectors of each machine at which two are compared."""


class Change(msgspec.Struct, frozen=True):
    """A number before and after; None where a version does not have it."""

    before: float | None
    after: float | None


class Coefficients(msgspec.Struct, frozen=True):
    """How two linear machines differ, as they act on raw features.

    Attributes
    ----------
    cosine : float or None
        Of the angle between the two; None where one is zero.
    norm_ratio : float or None
        Norm of the later one, in norms of the earlier one.
    largest : mapping of str to Change
        The features whose coefficients changed most, the most changed first.
    intercept : Change
    """

    cosine: float | None
    norm_ratio: float | None
    largest: dict[str, Change]
    intercept: Change


class Answers(msgspec.Struct, frozen=True):
    """How two machines differ in what they answer.

    Attributes
    ----------
    points : int
        Support vectors of both at which they were asked.
    same_label : float
        Share of them with the same answer.
    largest : float
        Largest difference of decision values.
    """

    points: int
    same_label: float
    largest: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed between two versions.

    Attributes
    ----------
    before, after : str
        Their keys.
    figures : mapping of str to Change
    lineage : mapping of str to object
        Whether the later one follows the earlier directly, whether input and build are the same, rows learned between.
    configuration : list of str
        Every option that differs, with both values.
    coefficients : Coefficients or None
        Of two linear machines of the same features.
    answers : Answers or None
        Of machines that are not both linear.
    shapes : tuple of ShapeChange, or None
        Of two additive machines: the curves and surfaces that differ, the most changed first.
    """

    before: str
    after: str
    figures: dict[str, Change]
    lineage: dict[str, Any]
    configuration: list[str]
    coefficients: Coefficients | None
    answers: Answers | None
    shapes: tuple[ShapeChange, ...] | None = None


@dataclass(frozen=True, slots=True)
class Hashed:
    """A version and the SHA-256 of its value."""

    version: Version
    sha256: str


def compare(before: Hashed, after: Hashed) -> Comparison:
    """Compare two versions.

    Parameters
    ----------
    before, after : Hashed
        Of any names, features and kernels: what cannot be compared is left out.
    """
    old, new = before.version, after.version
    comparable = old.model.dimension == new.model.dimension
    of_two = isinstance(old.model, Model) and isinstance(new.model, Model)
    linear = isinstance(old.model.machine, LinearMachine) and isinstance(new.model.machine, LinearMachine)
    comparable &= of_two or old.labels == new.labels
    return Comparison(
        before=old.key,
        after=new.key,
        figures=_figures(old, new),
        lineage=_lineage(before, after),
        configuration=configuration_differences(old.lineage.configuration, new.lineage.configuration),
        coefficients=_coefficients(old, new) if comparable and linear else None,
        answers=_answers(old.model, new.model) if comparable and not linear else None,
        shapes=_shapes(old, new) if comparable else None,
    )


def _figures(old: Version, new: Version) -> dict[str, Change]:
    changes = {
        "points covered": (old.stream.points, new.stream.points),
        "weight": (old.stream.weight, new.stream.weight),
        "points trained on": (old.fit.points, new.fit.points),
        "support vectors": (old.fit.support_vectors, new.fit.support_vectors),
        "C": (old.fit.C, new.fit.C),
        "gamma": (old.fit.gamma, new.fit.gamma),
        "objective": (old.fit.objective, new.fit.objective),
        "duality gap": (relative_gap(old), relative_gap(new)),
        "KKT gap": (old.fit.kkt_gap, new.fit.kkt_gap),
        "objective over the stream": (_audited(old), _audited(new)),
    }
    return {name: Change(*both) for name, both in changes.items() if both != (None, None)}


def _audited(version: Version) -> float | None:
    return None if version.audit is None else version.audit.objective


def relative_gap(version: Version) -> float | None:
    """Return the duality gap as a share of the objective; None from a solver that gives no bound."""
    fit = version.fit
    if fit.dual_objective is None:
        return None
    return (fit.objective - fit.dual_objective) / fit.objective if fit.objective else 0.0


def _lineage(before: Hashed, after: Hashed) -> dict[str, Any]:
    old, new = before.version.lineage, after.version.lineage
    cut, later = positions(old.cut), positions(new.cut)
    return {
        "follows directly": new.parent == before.sha256,
        "same input": (old.topic, old.topic_id) == (new.topic, new.topic_id),
        "same base": positions(old.base) == positions(new.base),
        "same build": old.build == new.build,
        "offsets between": {
            str(partition): at.offset - (cut[partition].offset if partition in cut else 0)
            for partition, at in sorted(later.items())
        },
    }


def _raw(model: AnyModel) -> tuple[Float, float]:
    """Return coefficients and intercept of a linear machine as they act on raw features."""
    machine, scaler = model.machine, model.scaler
    assert isinstance(machine, LinearMachine)
    coefficients = machine.coefficients / scaler.scale
    return coefficients, machine.intercept - float(coefficients @ scaler.mean)


def _coefficients(old: Version, new: Version) -> Coefficients:
    (w, b), (v, c) = _raw(old.model), _raw(new.model)
    norms = float(np.linalg.norm(w)), float(np.linalg.norm(v))
    names = new.feature_names or tuple(f"x[{index}]" for index in range(len(v)))
    order = np.argsort(-np.abs(v - w), kind="stable")[:CHANGES_SHOWN]
    return Coefficients(
        float(w @ v) / (norms[0] * norms[1]) if all(norms) else None,
        norms[1] / norms[0] if norms[0] else None,
        {names[index]: Change(float(w[index]), float(v[index])) for index in order},
        Change(b, c),
    )


def _shapes(old: Version, new: Version) -> tuple[ShapeChange, ...] | None:
    before, after = (shapes_of(one.model, one.feature_names, one.labels) for one in (old, new))
    return None if before is None or after is None else changes_of(before, after)


def _answers(old: AnyModel, new: AnyModel) -> Answers | None:
    samples = [part for model in (old, new) if len(part := _support(model))]
    if not samples:
        return None
    X = np.concatenate(samples)
    first, second = old.decision_function(X), new.decision_function(X)
    same = old.predict_codes(X) == new.predict_codes(X)
    return Answers(len(X), float(np.mean(same)), float(np.abs(first - second).max()))


def _support(model: AnyModel) -> Float:
    """Return points to ask a model about, as raw features: some of a kernel machine's support vectors, or probes."""
    machine = model.machine
    if isinstance(machine, LinearMachine):
        return np.empty((0, model.dimension))
    if not isinstance(machine, KernelMachine | KernelMachines):
        return probes_of(model).X
    every = -(-max(1, len(machine.support)) // ANSWERS_COMPARED)
    return machine.support[::every] * model.scaler.scale + model.scaler.mean


def configuration_differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """Name every option in which two configurations differ, with both values."""
    found = []
    for key in sorted((before.keys() | now.keys()) - {"pilots", "earlier"}):  # what was another one before
        # What is declared of a feature stands in [features] itself.
        name = key if not path else path if (path, key) == ("features", "features") else f"{path}.{key}"
        old, new = _by_name(before.get(key)), _by_name(now.get(key))
        if isinstance(old, dict) and isinstance(new, dict):
            found += configuration_differences(old, new, name)
        elif old != new or (key in before) != (key in now):
            was, is_now = (_shown(one[key]) if key in one else "not set" for one in (before, now))
            found.append(f"{name} was {was}, is now {is_now}")
    return found


def _by_name(value: object) -> object:
    """Return a list of named options, such as those of features, as a mapping; anything else unchanged."""
    if isinstance(value, list) and value and all(isinstance(one, dict) and "name" in one for one in value):
        return {one["name"]: one for one in value}
    return value


def _shown(value: object) -> str:
    text = "not set" if value is None else toml_value(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
