"""The part `additive`: the curves and the surfaces of each additive machine, over scaled features."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.additive import AdditiveMachine, Surface
from streamsvm.model.arrays import bounded
from streamsvm.model.classes import AdditiveMachines
from streamsvm.model.kernels import Float
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class CurveEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Knots of a feature, ascending, and the curve's values there; both empty where nothing is read of it."""

    knots: list[float]
    values: list[float]


class SurfaceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two features by their index, knots of each, and a list of values for each knot of the first."""

    features: tuple[int, int]
    rows: list[float]
    columns: list[float]
    values: list[list[float]]


class MachineEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each feature's curve, then the surfaces: a score is the intercept and what they read, added in this order."""

    curves: list[CurveEntry]
    surfaces: list[SurfaceEntry]


class AdditivePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="additive"):
    """An entry for each machine."""

    machines: list[MachineEntry]


def encode(version: Version) -> AdditivePart | None:
    """Return the part; None of other machines."""
    machine = version.model.machine
    if isinstance(machine, AdditiveMachines):
        return AdditivePart([_entry(one) for one in machine.machines])
    return AdditivePart([_entry(machine)]) if isinstance(machine, AdditiveMachine) else None


def _entry(machine: AdditiveMachine) -> MachineEntry:
    pairs = zip(machine.knots, machine.values, strict=True)
    return MachineEntry(
        [CurveEntry(knots.tolist(), values.tolist()) for knots, values in pairs],
        [
            SurfaceEntry((one.first, one.second), one.rows.tolist(), one.columns.tolist(), one.values.tolist())
            for one in machine.surfaces
        ],
    )


def decode(part: AdditivePart, draft: Draft) -> None:
    """Add machines without their intercepts.

    Raises
    ------
    InvalidMessage
        If there are more or fewer than the labels have, or curves and surfaces do not fit together.
    """
    if len(part.machines) != draft.machines:
        raise InvalidMessage(f"the part 'additive' has {len(part.machines)} machines, not {draft.machines}")
    draft.additive = tuple(map(_machine, part.machines))


def _machine(entry: MachineEntry) -> AdditiveMachine:
    knots = tuple(_ascending(one.knots, least=0) for one in entry.curves)
    curves = tuple(_values(one.values, len(one.knots)) for one in entry.curves)
    surfaces = []
    for one in entry.surfaces:
        rows, columns = _ascending(one.rows), _ascending(one.columns)
        if not all(0 <= feature < len(curves) for feature in one.features) or len(one.values) != len(rows):
            raise InvalidMessage("a surface of the part 'additive' does not fit its features or its knots")
        values = np.array([_values(line, len(columns)) for line in one.values])
        surfaces.append(Surface(*one.features, rows, columns, values))
    return AdditiveMachine(knots, curves, tuple(surfaces), 0.0)


def _ascending(knots: list[float], least: int = 2) -> Float:
    found = bounded(np.array(knots, np.float64), "knots")
    if len(found) < least or len(found) == 1 or (np.diff(found) <= 0.0).any():
        raise InvalidMessage("knots of the part 'additive' are not two or more in ascending order")
    return found


def _values(values: list[float], count: int) -> Float:
    if len(values) != count:
        raise InvalidMessage(f"a curve of the part 'additive' has {len(values)} values for {count} knots")
    return bounded(np.array(values, np.float64), "values")


PART: Final = MessagePart(AdditivePart, encode, decode)
