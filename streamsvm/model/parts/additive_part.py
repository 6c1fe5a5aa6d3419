"""The part `additive`: the curves and the surfaces of an additive machine, over scaled features."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.additive import AdditiveMachine, Surface
from streamsvm.model.arrays import bounded
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


class AdditivePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="additive"):
    """Each feature's curve, then the surfaces: a score is the intercept and what they read, added in this order."""

    curves: list[CurveEntry]
    surfaces: list[SurfaceEntry]


def encode(version: Version) -> AdditivePart | None:
    """Return the part; None of another machine."""
    machine = version.model.machine
    if not isinstance(machine, AdditiveMachine):
        return None
    pairs = zip(machine.knots, machine.values, strict=True)
    return AdditivePart(
        [CurveEntry(knots.tolist(), values.tolist()) for knots, values in pairs],
        [
            SurfaceEntry((one.first, one.second), one.rows.tolist(), one.columns.tolist(), one.values.tolist())
            for one in machine.surfaces
        ],
    )


def decode(part: AdditivePart, draft: Draft) -> None:
    """Add curves and surfaces.

    Raises
    ------
    InvalidMessage
        If there are more than two labels, or they do not fit together.
    """
    if draft.scheme is not None:
        raise InvalidMessage("the part 'additive' is for two labels")
    knots = tuple(_ascending(one.knots, least=0) for one in part.curves)
    curves = tuple(_values(one.values, len(one.knots)) for one in part.curves)
    surfaces = []
    for one in part.surfaces:
        rows, columns = _ascending(one.rows), _ascending(one.columns)
        if not all(0 <= feature < len(curves) for feature in one.features) or len(one.values) != len(rows):
            raise InvalidMessage("a surface of the part 'additive' does not fit its features or its knots")
        values = np.array([_values(line, len(columns)) for line in one.values])
        surfaces.append(Surface(*one.features, rows, columns, values))
    draft.additive = AdditiveMachine(knots, curves, tuple(surfaces), 0.0)


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
