"""Lines through time and histograms of a scorer, as SVG; see `drawings`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from consumers.page.drawings import FOOT, SPARK_WIDTH, described, time_axis
from consumers.page.markup import MINUS, Markup, element

HEIGHT: Final = 64.0

Bucket = tuple[float | None, int]


def line(
    name: str, title: str, times: Sequence[datetime], values: Sequence[float | None], shown: Callable[[float], str]
) -> Markup | None:
    """Return a value through time, from 0 up, with its times below; None while there is nothing to draw.

    The axis begins and ends where the value is known.

    Parameters
    ----------
    name, title : str
    times, values : sequences of one length
        A value of None breaks the line.
    shown : callable
        A value for people.
    """
    places = [place for place, value in enumerate(values) if value is not None]
    if len(places) < 2:
        return None
    between = slice(places[0], places[-1] + 1)
    times, values = times[between], values[between]
    known = [value for value in values if value is not None]
    high = max(*known, 1e-9) * 1.05
    seconds = [time.timestamp() for time in times]
    length = seconds[-1] - seconds[0] or 1.0
    pieces, down = [], False
    for at, value in zip(seconds, values, strict=True):
        if value is not None:
            x, y = SPARK_WIDTH * (at - seconds[0]) / length, 2.0 + (HEIGHT - 4.0) * (1.0 - value / high)
            pieces.append(f"{'L' if down else 'M'}{x:.1f} {y:.1f}")
        down = value is not None
    return described(
        name,
        title,
        f"Between {shown(min(known))} and {shown(max(known))}; the newest is {shown(known[-1])}.",
        (0.0, 0.0, SPARK_WIDTH, HEIGHT + FOOT),
        element("path", d="".join(pieces), class_="series model"),
        element("path", d=f"M0 {HEIGHT - 2:g}H{SPARK_WIDTH:g}", class_="axis"),
        time_axis(times, HEIGHT + FOOT - 4.0),
        class_="spark small",
    )


def histogram(name: str, title: str, buckets: Sequence[Bucket], unit: str) -> Markup | None:
    """Return the share of the observations in each bucket as bars of one width; None without an observation.

    Parameters
    ----------
    name, title : str
    buckets : sequence of (float or None, int)
        Upper bounds, and how many are in each; the last has no bound.
    unit : str
        After each bound, for people.
    """
    total = sum(count for _, count in buckets)
    if not total:
        return None
    wide, most = SPARK_WIDTH / len(buckets), max(count for _, count in buckets)
    marks = []
    for place, (bound, count) in enumerate(buckets):
        tall = (HEIGHT - 2.0) * count / most
        if count:
            x, y = round(place * wide + 1.0, 1), round(HEIGHT - tall, 1)
            marks.append(element("rect", class_="leaf", x=x, y=y, width=round(wide - 2.0, 1), height=round(tall, 1)))
        if bound is not None:
            at = round((place + 1) * wide, 1)
            marks.append(element("text", _bound(bound), class_="tick", x=at, y=HEIGHT + 14, text_anchor="middle"))
    where = [
        f"{count / total:.1%} {_between(buckets, place, unit)}" for place, (_, count) in enumerate(buckets) if count
    ]
    return described(
        name,
        title,
        "; ".join(where) + ".",
        (0.0, 0.0, SPARK_WIDTH, HEIGHT + FOOT),
        *marks,
        element("path", d=f"M0 {HEIGHT:g}H{SPARK_WIDTH:g}", class_="axis"),
        class_="spark small",
    )


def _between(buckets: Sequence[Bucket], place: int, unit: str) -> str:
    upper, lower = buckets[place][0], buckets[place - 1][0] if place else None
    if upper is None:
        return f"above {_bound(lower or 0.0)}{unit}"
    return f"up to {_bound(upper)}{unit}" if lower is None else f"from {_bound(lower)} to {_bound(upper)}{unit}"


def _bound(value: float) -> str:
    return f"{value:g}".replace("-", MINUS)
