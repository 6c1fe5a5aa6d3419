"""Curves and surfaces of additive machines, drawn in text and in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import typer

from consumers.host.untrusted_text import json_for, printable
from consumers.page.markup import Markup, element, join, raw
from streamsvm.errors import ConfigurationError
from streamsvm.model.shapes import Shape, plot, reach_of, shapes_of
from streamsvm.model.version import Version

BARS: Final = "▁▂▃▄▅▆▇█"
SHADES: Final = " ░▒▓█"
SURFACES_SHOWN: Final = 5
"""In a terminal."""
MOST_PLOTTED: Final = 60
"""In a PNG file."""
HALF: Final = 20
"""Characters of the longest bar."""
WIDTH, HEIGHT, MARGIN = 320, 180, 24
"""Pixels of a drawing."""
STYLE: Final = raw(
    "body{font:14px sans-serif;margin:2em}main{display:flex;flex-wrap:wrap;gap:1.5em}figure{margin:0;width:320px}"
    "svg{width:100%;background:#fafafa}text{font-size:10px;fill:#555}"
)


def shapes_of_version(version: Version) -> tuple[Shape, ...]:
    """Return the shapes of a version.

    Raises
    ------
    ConfigurationError
        If its machine is not additive.
    """
    found = shapes_of(version.model, version.feature_names, version.labels)
    if isinstance(found, tuple):
        return found
    raise ConfigurationError(
        f"{version.key} has no curves: its machine is not additive", 'Train with svm.kernel = "additive".'
    )


def show_shapes(version: Version, *, shapes: bool, as_json: bool, html: Path | None, png: Path | None) -> None:
    """Print the shapes of a version, as text or JSON, and draw them into files.

    Raises
    ------
    ConfigurationError
        If its machine is not additive, a file cannot be written, or matplotlib is not installed.
    """
    found = shapes_of_version(version)
    try:
        if html is not None:
            html.write_text(html_of(printable(version.key), found), "utf-8")
        if png is not None:
            figure, _ = plot(found[:MOST_PLOTTED], shown=False)
            figure.savefig(png, format="png")
    except OSError as error:
        raise ConfigurationError(f"{error.filename or 'the file'} cannot be written: {error.strerror}") from None
    if shapes and as_json:
        typer.echo(json_for(msgspec.json.format(msgspec.json.encode(found)).decode()))
    elif shapes:
        for line in text_of(found):
            typer.echo(line)


def title_of(shape: Shape) -> str:
    """Return the names of a shape and between which values it adds."""
    return f"{printable(shape.title)}: adds {np.min(shape.values):+.3g} to {np.max(shape.values):+.3g}"


def bars(values: Sequence[float], low: float, high: float) -> str:
    """Return a character for each value, between the lowest and the highest of a scale."""
    return "".join(BARS[round(7 * (one - low) / ((high - low) or 1.0))] for one in values)


def heat(shape: Shape, reach: float) -> list[str]:
    """Return a surface as lines of shaded numbers; `reach` has the darkest shade."""
    shown = [[f"{one:>+10.3g}{SHADES[round(4 * abs(one) / reach)]}" for one in row] for row in shape.values]
    first = [f"{knot:.5g}" for knot in shape.knots[0]]
    head = "".join(f"{knot:>10.4g} " for knot in shape.knots[1])
    return [f"{'':>12}{head}".rstrip(), *(f"{knot:>12}{''.join(row)}" for knot, row in zip(first, shown, strict=True))]


def text_of(shapes: Sequence[Shape]) -> Iterator[str]:
    """Yield lines for a terminal: a bar for each knot of each curve, then the strongest surfaces; one scale for all."""
    reach = reach_of(shapes)
    for one in shapes:
        if len(one.names) == 1:
            yield title_of(one)
            for knot, value in zip(one.knots[0], one.values, strict=True):
                bar = "█" * round(HALF * abs(value) / reach)
                left, right = (bar, "") if value < 0.0 else ("", bar)
                yield f"{knot:>12.6g} {value:>+10.4g}  {left:>{HALF}}│{right}"
    surfaces = [one for one in shapes if len(one.names) == 2]
    for one in surfaces[:SURFACES_SHOWN]:
        yield f"{title_of(one)}; rows are {printable(one.names[0])}, columns {printable(one.names[1])}"
        yield from heat(one, reach)
    if len(surfaces) > SURFACES_SHOWN:
        yield f"{len(surfaces) - SURFACES_SHOWN:,} weaker surfaces are not shown: --html and --shapes --json have all"


def html_of(title: str, shapes: Sequence[Shape]) -> str:
    """Return a page that needs nothing else: a drawing for each shape, all to one scale."""
    reach = reach_of(shapes)
    figures = [
        element(
            "figure",
            element("figcaption", element("bdi", title_of(one))),
            element(
                "svg",
                _curve(one, reach) if len(one.names) == 1 else _surface(one, reach),
                view_box=f"0 0 {WIDTH} {HEIGHT}",
                xmlns="http://www.w3.org/2000/svg",
            ),
        )
        for one in shapes
    ]
    note = (
        "What each feature, and each pair of features, adds to a score, the strongest first. All drawings have the "
        "same scale; blue is negative and red is positive. Beyond the first and the last knot nothing changes. Of a "
        "pair the first feature goes up, the second one to the right."
    )
    head = element("head", element("meta", charset="utf-8"), element("title", title), element("style", STYLE))
    body = element("body", element("h1", title), element("p", note), element("main", *figures))
    return join(raw("<!doctype html>"), element("html", head, body, lang="en"), "\n")


def _curve(one: Shape, reach: float) -> Markup:
    knots, middle = np.array(one.knots[0]), HEIGHT / 2
    span = float(np.ptp(knots)) or 1.0
    x = MARGIN + (WIDTH - 2 * MARGIN) * (knots - knots[0]) / span
    y = middle - (middle - MARGIN) * np.array(one.values) / reach
    dots = [
        element("circle", element("title", f"{knot:.6g}: {value:+.4g}"), cx=float(at), cy=float(up), r=3, fill="#27c")
        for knot, value, at, up in zip(knots, one.values, x, y, strict=True)
    ]
    path = " ".join(f"{at:.1f},{up:.1f}" for at, up in zip(x, y, strict=True))
    return join(
        element("line", x1=MARGIN, x2=WIDTH - MARGIN, y1=middle, y2=middle, stroke="#999"),
        element("polyline", points=path, fill="none", stroke="#27c", stroke_width=2),
        *dots,
        element("text", f"{knots[0]:.5g}", x=MARGIN, y=HEIGHT - 6),
        element("text", f"{knots[-1]:.5g}", x=WIDTH - MARGIN, y=HEIGHT - 6, text_anchor="end"),
        element("text", f"{reach:+.3g}", x=2, y=MARGIN - 6),
        element("text", f"{-reach:+.3g}", x=2, y=HEIGHT - MARGIN),
    )


def _surface(one: Shape, reach: float) -> Markup:
    """Return a cell for each pair of knots; the first feature goes up, the second one to the right."""
    rows, columns = (len(knots) for knots in one.knots)
    wide, high = (WIDTH - 3 * MARGIN) / columns, (HEIGHT - 2 * MARGIN) / rows
    parts = []
    for i, (knot, values) in enumerate(zip(one.knots[0], one.values, strict=True)):
        top = HEIGHT - MARGIN - (i + 1) * high
        parts.append(element("text", f"{knot:.4g}", x=2 * MARGIN - 4, y=top + high / 2 + 3, text_anchor="end"))
        for j, (other, value) in enumerate(zip(one.knots[1], values, strict=True)):
            said = element("title", f"{knot:.6g}, {other:.6g}: {value:+.4g}")
            cell = {"x": 2 * MARGIN + j * wide, "y": top, "width": wide, "height": high}
            fill = "#d33" if value > 0.0 else "#27c"
            parts.append(element("rect", said, **cell, fill=fill, fill_opacity=abs(value) / reach))
    parts += [
        element("text", f"{knot:.4g}", x=2 * MARGIN + (j + 0.5) * wide, y=HEIGHT - 8, text_anchor="middle")
        for j, knot in enumerate(one.knots[1])
    ]
    return join(*parts)
