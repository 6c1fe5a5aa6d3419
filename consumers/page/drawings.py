"""SVG made on the server: the coreset on a plane, structures as counters, lines through time.

Colours, widths and fonts are classes of `style.css`, so that one drawing serves light and dark; a class is told by its
shape as well as by its colour. Every drawing has a title and a description for those who do not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from consumers.page.board import Drawing
from consumers.page.boundary import Projection, Segments, border
from consumers.page.markup import MINUS, Markup, element, join, raw
from consumers.page.status import Moment, PartitionPart, StructureStatus

WIDTH: Final = 720.0
HEIGHT: Final = 460.0
RADII: Final = np.array([1.6, 2.2, 3.0, 4.1, 5.6, 7.6, 10.4])
"""Radii of the symbols: a symbol's area goes with its point's weight, in steps, so that a step is one path."""
BAR_WIDTH: Final = 100.0
BOX: Final = 26.0
GAP: Final = 5.0
SPARK_WIDTH: Final = 560.0
GUTTER: Final = 46.0
"""Left of the lines of quality, for the numbers of their levels."""
SPARK_HEIGHT: Final = 190.0
LAG_HEIGHT: Final = 60.0
FOOT: Final = 20.0
"""Below a chart, for the numbers of its axis."""


def described(
    name: str, title: str, description: str, view_box: tuple[float, float, float, float], *children: Markup, class_: str
) -> Markup:
    """Return an SVG image with a title and a description; `name` makes their ids unique on the page."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *children,
        class_=class_,
        role="img",
        preserveAspectRatio="xMinYMid meet",
        view_box=" ".join(f"{number:g}" for number in view_box),
        aria_labelledby=f"{name}-title {name}-desc",
    )


# ---------------------------------------------------------------------- coreset


def coreset(drawing: Drawing) -> Markup:
    """Return the newest training set over its two principal components, with the model's border and margins."""
    projection = drawing.projection
    place = _placed(projection.frame)
    inside = projection.inside
    radius = _radii(projection.weight)
    kinds = (("negative", -1, _circles), ("positive", 1, _diamonds))
    symbols = [
        element("path", d=paths(place(projection.xy[chosen]), float(RADII[step])), class_=f"points {name}")
        for name, sign, paths in kinds
        for step in range(len(RADII))
        if (chosen := inside & (projection.sign == sign) & (radius == step)).any()
    ]
    lines = [
        element("path", d=_lines(place, border(projection, drawing.machine, level)), class_=name)
        for level, name in ((-1.0, "margin"), (1.0, "margin"), (drawing.border, "border"))
    ]
    shown, drawn = int(inside.sum()), len(projection.xy)
    return described(
        "coreset",
        f"The training set of version {drawing.number} on the plane of its two principal components",
        f"{shown} of {projection.total} points: {_of_class(drawing, -1)} as circles, {_of_class(drawing, 1)} as "
        "diamonds; areas show weights. A solid line is the model's decision boundary on this plane, dashed lines are "
        "its margins." + (f" {drawn - shown} points lie outside the frame." if drawn > shown else ""),
        (0.0, 0.0, WIDTH, HEIGHT),
        element("rect", class_="plane", x=0.5, y=0.5, width=WIDTH - 1, height=HEIGHT - 1, rx=6),
        *symbols,
        *lines,
        class_="coreset",
    )


def _of_class(drawing: Drawing, sign: int) -> str:
    label = drawing.labels[1 if sign > 0 else 0]
    return f"{int((drawing.projection.sign == sign).sum())} labeled {label}"


def _radii(weight: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the step of each weight: the lightest is drawn smallest, and areas are to each other as weights."""
    wanted = RADII[0] * np.sqrt(weight / max(float(np.quantile(weight, 0.1)), float(weight.max()) / 42.0))
    apart = np.abs(np.log(RADII)[None, :] - np.log(np.maximum(wanted, RADII[0]))[:, None])
    return np.asarray(apart.argmin(axis=1))


Place = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def _placed(frame: tuple[float, float, float, float]) -> Place:
    """Return what takes coordinates of the plane, shape (..., 2), to those of the drawing."""
    left, right, bottom, top = frame
    origin = np.array([left, top])
    scale = np.array([WIDTH / (right - left), -HEIGHT / (top - bottom)])
    return lambda xy: (xy - origin) * scale


def _circles(at: NDArray[np.float64], radius: float) -> str:
    r, across = f"{radius:g}", f"{2 * radius:g}"
    return "".join(f"M{x - radius:.1f} {y:.1f}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0-{across} 0" for x, y in at)


def _diamonds(at: NDArray[np.float64], radius: float) -> str:
    reach = 1.2533 * radius  # of the circle's area
    r = f"{reach:.1f}"
    return "".join(f"M{x:.1f} {y - reach:.1f}l{r} {r}-{r} {r}-{r}-{r}z" for x, y in at)


def _lines(place: Place, segments: Segments) -> str:
    return "".join(f"M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}" for a, b in place(segments))


def component(projection: Projection, index: int, names: Sequence[str]) -> str:
    """Return what a principal component is: its share of the variance, and the two features that weigh most in it."""
    axis = projection.axes[index]
    largest = [feature for feature in np.argsort(-np.abs(axis))[:2] if axis[feature]]
    mostly = ", ".join(
        f"{'+' if axis[i] > 0 else MINUS}\N{NO-BREAK SPACE}{names[i] if names else f'x[{i}]'}" for i in largest
    )
    return f"{projection.share[index]:.0%} of the variance" + (f", mostly {mostly}" if mostly else "")


# -------------------------------------------------------------------- structure


def counter(structure: StructureStatus, part: PartitionPart) -> Markup:
    """Return a partition's buckets, then the open leaf."""
    cells = _cells(structure, part)
    wide = 2 * BOX if structure.kind == "chain" else BOX
    boxes = []
    x = 0.0
    for label, filled, slots in cells:
        for slot in range(slots):
            mark = "filled" if slot < filled else "empty"
            boxes.append(element("rect", class_=f"slot {mark}", x=x + 1, y=1, width=wide - 2, height=BOX - 2, rx=4))
            x += wide
        boxes.append(element("text", label, class_="level", x=x - slots * wide / 2, y=BOX + 15, text_anchor="middle"))
        x += GAP
    x += GAP
    leaf, width = part.leaf, 3 * BOX
    share = leaf.rows / leaf.span if leaf.span else 0.0
    boxes += [
        element("rect", class_="slot empty", x=x + 1, y=1, width=width - 2, height=BOX - 2, rx=4),
        element("rect", class_="leaf", x=x + 3, y=3, width=max(0.0, (width - 6) * share), height=BOX - 6, rx=2),
        element("text", "leaf", class_="level", x=x + width / 2, y=BOX + 15, text_anchor="middle"),
    ]
    level = "" if structure.buckets is not None else "level "
    counts = ", ".join(f"{level}{label}: {filled} of {slots}" for label, filled, slots in cells) or "no bucket yet"
    return described(
        f"counter-{part.partition}",
        f"The structure of partition {part.partition}",
        f"Buckets held: {counts}. The open leaf holds {leaf.rows} of {leaf.span} rows.",
        (0.0, 0.0, max(x + width, 1.0), BOX + 20),
        *boxes,
        class_="counter",
    )


def _cells(structure: StructureStatus, part: PartitionPart) -> list[tuple[str, int, int]]:
    """Return label, buckets and places."""
    if structure.kind == "chain":
        return [("chain", min(1, len(part.buckets)), 1)]
    return [("buckets", len(part.buckets), structure.buckets)]


# ------------------------------------------------------------------ through time


Series = Sequence[float | None]


def lines(name: str, title: str, moments: Sequence[Moment], series: Mapping[str, Series]) -> Markup | None:
    """Return shares through time, each with its class of lines; None while there is nothing to draw.

    The axis begins where something is known, and ends where the newest rows were learned: a stream that rests does not
    press what there is into a corner.

    Parameters
    ----------
    name, title : str
    moments : sequence of Moment
        Whose times are the axis.
    series : mapping of str to sequence
        By the class of its line, the first one first told of; None breaks the line.
    """
    shown = _lively(moments, series)
    moments, series = moments[shown], {kind: values[shown] for kind, values in series.items()}
    known = [value for values in series.values() for value in values if value is not None]
    first = next(iter(series.values()))
    if len(known) < 2 or len(moments) < 2:
        return None
    low, high = min(known), max(known)
    pad = max(0.1 * (high - low), 0.005)
    low, high = low - pad, high + pad
    times = [moment.time for moment in moments]
    along = _along([time.timestamp() for time in times], GUTTER)
    paths = [
        element("path", d=_through(along, values, low, high), class_=f"series {kind}")
        for kind, values in series.items()
    ]
    newest = next((value for value in reversed(first) if value is not None), None)
    return described(
        name,
        title,
        f"Between {min(known):.3f} and {max(known):.3f}; the newest is {_shown(newest)}.",
        (0.0, 0.0, SPARK_WIDTH, SPARK_HEIGHT + FOOT),
        _grid(low, high),
        *paths,
        time_axis(times, SPARK_HEIGHT + FOOT - 4.0, GUTTER),
        class_="spark",
    )


def _lively(moments: Sequence[Moment], series: Mapping[str, Series]) -> slice:
    """Return the moments from the first with a known value to the first with all rows learned, two at least."""
    begin = min(
        (place for values in series.values() for place, value in enumerate(values) if value is not None), default=0
    )
    end = len(moments) - 1
    while end > begin + 1 and moments[end - 1].rows == moments[end].rows:
        end -= 1
    return slice(begin, end + 1)


def time_axis(times: Sequence[datetime], y: float, begin: float = 0.0) -> Markup:
    """Return when a chart begins and ends, in UTC: the time of day, and the day where it spans more than one."""
    form = "%H:%M:%S" if times[-1] - times[0] < timedelta(hours=20) else "%d %b %H:%M"
    return join(
        element("text", f"{times[0]:{form}}", class_="tick", x=begin, y=y),
        element("text", f"{times[-1]:{form}} UTC", class_="tick", x=SPARK_WIDTH, y=y, text_anchor="end"),
    )


def line_of_lag(moments: Sequence[Moment]) -> Markup | None:
    """Return the records that waited through time; None while there is nothing to draw."""
    shown = [moment for moment in moments if moment.lag is not None]
    lags = [float(moment.lag) for moment in shown if moment.lag is not None]
    if len(lags) < 2:
        return None
    times = [moment.time for moment in shown]
    along = _along([time.timestamp() for time in times])
    return described(
        "lag",
        "Records behind the end of the input",
        f"At most {max(lags):,.0f}; the newest is {lags[-1]:,.0f}.",
        (0.0, 0.0, SPARK_WIDTH, LAG_HEIGHT + FOOT),
        element("path", d=_through(along, lags, 0.0, max(*lags, 1.0) * 1.05, LAG_HEIGHT), class_="series model"),
        element("path", d=f"M0 {LAG_HEIGHT - 2:g}H{SPARK_WIDTH:g}", class_="axis"),
        time_axis(times, LAG_HEIGHT + FOOT - 4.0),
        class_="spark small",
    )


def _shown(value: float | None) -> str:
    return "not available" if value is None else f"{value:.3f}"


def _along(times: Sequence[float], begin: float = 0.0) -> list[float]:
    first, last = times[0], times[-1]
    return [begin + (SPARK_WIDTH - begin) * (time - first) / (last - first or 1.0) for time in times]


def _through(
    x: Sequence[float], values: Sequence[float | None], low: float, high: float, height: float = SPARK_HEIGHT
) -> str:
    """Return the path through the values; it is broken where one is not known."""
    pieces, pen_down = [], False
    for at, value in zip(x, values, strict=True):
        if value is None:
            pen_down = False
            continue
        y = (height - 4) * (1.0 - (value - low) / (high - low)) + 2
        pieces.append(f"{'L' if pen_down else 'M'}{at:.1f} {y:.1f}")
        pen_down = True
    return "".join(pieces)


def _grid(low: float, high: float) -> Markup:
    """Return a few levels with their numbers: tenths, or finer where the range is small."""
    step = next((step for step in (0.2, 0.1, 0.05, 0.02, 0.01, 0.005) if (high - low) / step >= 2), 0.005)
    levels = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step + 0.0  # no -0
    marks = []
    for level in levels[:6]:
        y = (SPARK_HEIGHT - 4) * (1.0 - (float(level) - low) / (high - low)) + 2
        marks.append(element("path", d=f"M{GUTTER:g} {y:.1f}H{SPARK_WIDTH:g}", class_="axis"))
        marks.append(element("text", f"{level:.3f}".rstrip("0").rstrip("."), class_="tick", x=0, y=round(y + 4.5, 1)))
    return join(*marks)


def bar(share: float, side: str) -> Markup:
    """Return a share as a bar of a table's cell; `side` is the class of the label that it speaks for."""
    width = round(max(1.5, BAR_WIDTH * min(1.0, share)), 1)
    return element(
        "svg",
        element("rect", class_=f"bar {side}", x=0, y=0, width=width, height=10, rx=2),
        class_="bars",
        aria_hidden="true",
        preserveAspectRatio="none",
        view_box=f"0 0 {BAR_WIDTH:g} 10",
    )


ICON: Final = raw(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#14213d"/>'
    '<path d="M6 25 26 7" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/><circle cx="10" cy="10" r="3.5" '
    'fill="#56b4e9"/><path d="m22 17 5 5-5 5-5-5z" fill="#e69f00"/></svg>'
)
