"""The shapes of an additive machine, in the units of raw features: what each curve and each surface adds to a score.

Values are those of the machine, so that a score is their sum and the intercept. A curve is 0 at the knot nearest the
mean of the feature; the values of a surface sum to 0 at the optimum. The level of a curve is therefore
arbitrary: the intercept makes up for it. Where two machines are compared, levels are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import AdditiveMachines, AnyModel, ClassModel, pairs_of
from streamsvm.model.kernels import Float
from streamsvm.model.machine import Scaler
from streamsvm.points import Points

ROUNDING: Final = 1e-9
"""Share of a shape's range; a smaller change may come from another scaler's rounding, and is not reported."""
COLUMNS: Final = 3
"""Plots side by side."""


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """A curve or a surface.

    Attributes
    ----------
    machine : str
        Of more than two labels: the label that the machine tells from the rest, or the two that it tells apart, of
        which the second is above 0.
    names : tuple of str
        The feature of a curve, the two features of a surface.
    knots : tuple of tuple of float
        The knots of each feature, ascending. Between them a shape is linear or bilinear, beyond them it is flat.
    values : tuple of float, or tuple of tuple of float
        What it adds at each knot; of a surface a row for each knot of the first feature.
    range : float
        The largest value minus the smallest: by how much it can move a score.
    shares : tuple of float
        Of a curve: the share of points between each two knots, by weight; empty where no points are at hand.
    """

    machine: str
    names: tuple[str, ...]
    knots: tuple[tuple[float, ...], ...]
    values: Any
    range: float
    shares: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """The names of its features, after those of its machine."""
        return (self.machine and f"{self.machine}: ") + " & ".join(self.names)

    def on(self, axes: Sequence[Float]) -> Float:
        """Return its values on the grid of some points of each feature."""
        found = np.asarray(self.values)
        for axis, (knots, points) in enumerate(zip(self.knots, axes, strict=True)):
            found = np.apply_along_axis(partial(np.interp, points, knots), axis, found)
        return found


class ShapeChange(msgspec.Struct, frozen=True):
    """How a shape differs between two machines.

    Attributes
    ----------
    title : str
    change : float
        What is added later minus what was added before, where they differ most. The mean of the difference over all
        knots is subtracted first: it is the change of a level, which the intercept makes up for.
    where : tuple of (float, float)
        Of each feature the range around that place in which the change is at least half as large. A range that ends at
        the first or the last knot goes on beyond it.
    before, after : Shape or None
        None where a machine does not have it: then it adds nothing.
    """

    title: str
    change: float
    where: tuple[tuple[float, float], ...]
    before: Shape | None
    after: Shape | None


def shapes_of(
    model: AnyModel, names: Sequence[str] = (), labels: Sequence[object] = (), points: Points | None = None
) -> tuple[Shape, ...] | None:
    """Return all curves and surfaces, those with the largest range first; None of a model that is not additive.

    Parameters
    ----------
    model : Model or ClassModel
    names : sequence of str
        Of the features; x[0], x[1], ... if there are none.
    labels : sequence
        Of a model of more than two labels.
    points : Points, optional
        Of which curves say where they are.
    """
    found = list[Shape]()
    if isinstance(model.machine, AdditiveMachine):
        found += _shapes_of(model.machine, model.scaler, names, "", points)
    elif isinstance(model, ClassModel) and isinstance(model.machine, AdditiveMachines):
        of = [f"{labels[i]} or {labels[j]}" for i, j in pairs_of(model.classes)]
        for place, machine in enumerate(of if model.scheme == "one_vs_one" else map(str, labels)):
            found += _shapes_of(model.machine.machine(place), model.scaler, names, machine, points)
    else:
        return None
    return tuple(sorted(found, key=lambda one: -one.range))


def _shapes_of(
    machine: AdditiveMachine, scaler: Scaler, names: Sequence[str], of: str, points: Points | None
) -> list[Shape]:
    shares: dict[tuple[int, ...], tuple[float, ...]] = {}
    if points:
        for at, (column, knots) in enumerate(zip(scaler.transform(points.X).T, machine.knots, strict=True)):
            if len(knots):  # in the units of training, where no rounding moves a value over a knot
                within, _ = np.histogram(np.clip(column, knots[0], knots[-1]), knots, weights=points.weight)
                shares[(at,)] = tuple((within / within.sum()).tolist())
    parts: list[tuple[tuple[int, ...], tuple[Float, ...], Float]] = []
    for feature, (knots, values) in enumerate(zip(machine.knots, machine.values, strict=True)):
        parts.append(((feature,), (knots,), values))
    parts += [((one.first, one.second), (one.rows, one.columns), one.values) for one in machine.surfaces]
    return [
        Shape(
            of,
            tuple(names[feature] if names else f"x[{feature}]" for feature in features),
            tuple(
                tuple((scaler.mean[feature] + scaler.scale[feature] * knots).tolist())
                for feature, knots in zip(features, axes, strict=True)
            ),
            values.tolist(),
            float(np.ptp(values)),
            shares.get(features, ()),
        )
        for features, axes, values in parts
        if values.size
    ]


def reach_of(shapes: Iterable[Shape]) -> float:
    """Return the largest absolute value of all shapes, or 1 if every value is 0 or there are no shapes."""
    return max((float(np.abs(one.values).max()) for one in shapes), default=0.0) or 1.0


def changes_of(before: Iterable[Shape], after: Iterable[Shape]) -> tuple[ShapeChange, ...]:
    """Return how each shape differs, the largest change first; features are the same if they have the same name.

    The change is exact: the difference of two shapes is largest at a knot of one of them.
    """
    old, new = {one.title: one for one in before}, {one.title: one for one in after}
    found = []
    for title in {**new, **old}:
        was, now = old.get(title), new.get(title)
        there = [one for one in (was, now) if one is not None]
        axes = [np.unique(np.concatenate(knots)) for knots in zip(*(one.knots for one in there), strict=True)]
        difference = np.zeros([len(axis) for axis in axes])
        if now is not None:
            difference += now.on(axes)
        if was is not None:
            difference -= was.on(axes)
        difference -= difference.mean()
        at = [int(place) for place in np.unravel_index(int(np.abs(difference).argmax()), difference.shape)]
        change = float(difference[tuple(at)])
        if len(there) == 2 and abs(change) <= ROUNDING * max(one.range for one in there):
            continue
        where = []
        for axis, points in enumerate(axes):
            line = np.moveaxis(difference, axis, -1)[tuple(at[:axis] + at[axis + 1 :])]
            # At least 1 where the change is at least half as large.
            halves = np.divide(2.0 * line, change, out=np.ones(len(points)), where=change != 0.0)
            ends = []
            for step, last in ((-1, 0), (1, len(points) - 1)):
                place = at[axis]
                while place != last and halves[place + step] >= 1.0:
                    place += step
                end = float(points[place])
                if place != last:
                    share = (halves[place] - 1.0) / (halves[place] - halves[place + step])
                    end += float(share * (points[place + step] - points[place]))
                ends.append(end)
            where.append((ends[0], ends[1]))
        found.append(ShapeChange(title, change, tuple(where), was, now))
    return tuple(sorted(found, key=lambda one: -abs(one.change)))


def plot(shapes: Sequence[Shape], *, shown: bool) -> tuple[Any, NDArray[Any]]:
    """Draw shapes with matplotlib: curves to one scale, surfaces as heat maps.

    Parameters
    ----------
    shapes : sequence of Shape
    shown : bool
        Whether pyplot makes the figure, so that a notebook or a window shows it.

    Returns
    -------
    matplotlib.figure.Figure, ndarray of matplotlib.axes.Axes
        One for each shape.

    Raises
    ------
    ConfigurationError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure

        if shown:
            from matplotlib import pyplot
    except ImportError as error:
        raise ConfigurationError(
            f"the package matplotlib cannot be imported ({error})",
            "Install the extra: pip install '.[plot]' in the folder of the sources.",
        ) from None
    rows = max(1, -(-len(shapes) // COLUMNS))
    made = pyplot.figure if shown else Figure
    figure = made(figsize=(4.0 * COLUMNS, 3.0 * rows), layout="constrained")
    reach, found = reach_of(shapes), []
    for place, one in enumerate(shapes):
        axes = figure.add_subplot(rows, COLUMNS, place + 1)
        axes.set_xlabel(one.names[-1], parse_math=False)
        axes.set_title(one.machine, parse_math=False)
        if len(one.knots) == 1:
            axes.plot(one.knots[0], one.values, marker=".")
            axes.axhline(0.0, color="grey", linewidth=0.5)
            axes.set_ylim(-1.05 * reach, 1.05 * reach)
            axes.set_ylabel("adds")
        else:
            axes.set_ylabel(one.names[0], parse_math=False)
            drawn = axes.imshow(one.values, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", origin="lower")
            axes.set_xticks(range(len(one.knots[1])), [f"{knot:.4g}" for knot in one.knots[1]])
            axes.set_yticks(range(len(one.knots[0])), [f"{knot:.4g}" for knot in one.knots[0]])
            figure.colorbar(drawn, ax=axes)
        found.append(axes)
    return figure, np.array(found, dtype=object)
