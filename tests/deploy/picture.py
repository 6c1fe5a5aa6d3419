"""Draws the overview from its own queries: `python -m tests.deploy.picture --out deploy/grafana/overview.png`.

Grafana has no part in it: a real Prometheus watches a trainer and a scorer at work on the HTRU2 survey, and what it
answers to the panels' queries is drawn in the panels' places.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from streamsvm.kafka import Connection
from tests.brokers.choice import start_real_broker
from tests.deploy.files import Query, dashboards
from tests.deploy.live import Live, Series

UID: Final = "streamsvm-overview"
CAPTION: Final = "Drawn from the panels' queries, not a Grafana screenshot: HTRU2 replayed over and over, {minutes}."
BACK, PANEL, INK, FAINT = "#f4f5f5", "#ffffff", "#24292e", "#8e8e8e"
COLOURS: Final = ("#1f60c4", "#e0752d", "#7d7d7d", "#37872d", "#8f3bb8", "#c4162a", "#0a7c8c", "#b58900")
COLUMNS: Final = 24
MOST_NAMES: Final = 4
"""Below a panel there is room for so many; of more, those are told that were ever above 0."""
STEP_S: Final = 1.0
TICK_S: Final = 0.25
Drawn = dict[str, list[tuple[str, Series]]]


def watched(seconds: float, rows_a_second: int, stack: Path) -> tuple[Drawn, float]:
    """Run the stack for a while, and return each panel's series by its title, and when the last sample was taken."""
    broker = start_real_broker()
    try:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        with Live(connection, stack, f"picture-{int(time.time())}") as live:
            pause, begun = threading.Event(), time.monotonic()
            while (ago := time.monotonic() - begun) < seconds:
                live.feed(int(rows_a_second * ago) - live.sent)
                pause.wait(TICK_S)
            end = time.time()
            return {panel["title"]: _answers(live, panel, end, seconds) for panel in _panels()}, end
    finally:
        broker.stop()


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboards()[UID]["panels"] if panel["type"] != "row"]


def _answers(live: Live, panel: dict[str, Any], end: float, seconds: float) -> list[tuple[str, Series]]:
    queries = [Query(UID, panel["title"], target["legendFormat"], target["expr"]) for target in panel["targets"]]
    trainer, scorer = (urlsplit(url).netloc for url in (live.trainer_url, live.scorer_url))
    return [
        (query.legend, live.history(query.filled(trainer, scorer), end - seconds, end, STEP_S)) for query in queries
    ]


def draw(drawn: Drawn, end: float, seconds: float) -> Figure:
    """Return the overview as a picture, each panel in its place."""
    panels = _panels()
    tallest = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = plt.figure(figsize=(12, 7.6), facecolor=BACK)
    for panel in panels:
        axes = figure.add_axes(_box(panel, tallest))
        if panel["type"] == "stat":
            _stat(axes, panel, drawn[panel["title"]])
        else:
            _graph(axes, panel, drawn[panel["title"]], end)
    for row in (panel for panel in dashboards()[UID]["panels"] if panel["type"] == "row" and panel["gridPos"]["y"]):
        left, bottom, _, _ = _box({**row, "type": "stat"}, tallest)
        figure.text(left + 0.006, bottom, row["title"], fontsize=11, color=INK, weight="bold")
    minutes = f"{seconds / 60:.0f} minutes"
    figure.text(0.012, 0.972, _title(), fontsize=13, color=INK, weight="bold")
    figure.text(0.012, 0.012, CAPTION.format(minutes=minutes), fontsize=8.5, color=FAINT)
    return figure


def _title() -> str:
    overview = dashboards()[UID]
    return f"{overview['title']}: {overview['panels'][0]['title']}"


def _box(panel: dict[str, Any], tallest: int) -> tuple[float, float, float, float]:
    """Return where a panel's axes stand: left, bottom, width and height as shares of the figure."""
    place, top, bottom = panel["gridPos"], 0.96, 0.035
    unit = (top - bottom) / (tallest - 1)
    stat = panel["type"] == "stat"
    left, right, under, over = (0.006, 0.006, 0.008, 0.008) if stat else (0.045, 0.014, 0.062, 0.032)
    x, width = place["x"] / COLUMNS, place["w"] / COLUMNS
    y = top - unit * (place["y"] - 1 + place["h"])
    return x + left, y + under, width - left - right, unit * place["h"] - under - over


def _numbers(one: dict[str, Any]) -> tuple[list[float], list[float]]:
    pairs = [(float(at), float(value)) for at, value in one["values"]]
    known = [(at, value) for at, value in pairs if not math.isnan(value)]
    return [at for at, _ in known], [value for _, value in known]


def _stat(axes: Axes, panel: dict[str, Any], answers: list[tuple[str, Series]]) -> None:
    axes.set_facecolor(PANEL)
    axes.set_xticks([])
    axes.set_yticks([])
    _frame(axes)
    values = [value for _, series in answers for one in series for value in _numbers(one)[1]]
    axes.text(0.5, 0.8, panel["title"], transform=axes.transAxes, ha="center", fontsize=9, color=INK)
    text = shown(values[-1], panel["fieldConfig"]["defaults"]["unit"]) if values else "no data"
    axes.text(0.5, 0.3, text, transform=axes.transAxes, ha="center", fontsize=19, color=COLOURS[0], weight="bold")


def _graph(axes: Axes, panel: dict[str, Any], answers: list[tuple[str, Series]], end: float) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_facecolor(PANEL)
    named = [(label(legend, one["metric"]), *_numbers(one)) for legend, series in answers for one in series]
    if defaults["custom"]["stacking"]["mode"] == "normal":
        times = sorted({at for _, ats, _ in named for at in ats})
        stacked = [[dict(zip(ats, values, strict=True)).get(at, 0.0) for at in times] for _, ats, values in named]
        ago = [at - end for at in times]
        axes.stackplot(ago, stacked, labels=[name for name, *_ in named], colors=COLOURS, alpha=0.75, step="post")
    else:
        steps = defaults["custom"]["lineInterpolation"] == "stepAfter"
        for colour, (name, ats, values) in zip(cycle(COLOURS), named, strict=False):
            ago = [at - end for at in ats]
            axes.plot(ago, values, color=colour, lw=1.4, label=name, drawstyle="steps-post" if steps else "default")
    if "min" in defaults:
        axes.set_ylim(bottom=defaults["min"])
    axes.set_title(panel["title"], fontsize=9, color=INK, loc="left", pad=3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ago, _: f"{ago:.0f} s" if ago else "now"))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, defaults["unit"])))
    axes.tick_params(labelsize=7.5, colors=INK, length=2)
    axes.grid(color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    _frame(axes)
    if len(named) > 1:
        handles, names = axes.get_legend_handles_labels()
        if len(named) > MOST_NAMES:
            told = [place for place, (_, _, values) in enumerate(named) if any(values)][:MOST_NAMES]
            handles, names = [handles[place] for place in told], [names[place] for place in told]
        axes.legend(
            handles,
            names,
            fontsize=7,
            frameon=False,
            ncols=max(1, len(names)),
            loc="upper center",
            bbox_to_anchor=(0.5, -0.11),
            handlelength=1.0,
            handletextpad=0.4,
            columnspacing=0.9,
        )


def _frame(axes: Axes) -> None:
    for spine in axes.spines.values():
        spine.set_color("#d8d9da")


def label(legend: str, metric: dict[str, str]) -> str:
    """Return a legend with its labels filled in, as Grafana does."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: metric.get(found[1], ""), legend)


def shown(value: float, unit: str) -> str:
    """Return a number in Grafana's unit, for people."""
    if unit == "percentunit":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return f"{1000 * value:.0f} ms" if 0 < value < 1 else f"{value:.3g} s"
    return f"{value / 1000:.4g} K" if abs(value) >= 10_000 else f"{value:.4g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, draw and write; `--series` keeps, or takes again, what Prometheus answered."""
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.picture", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="PNG file to write")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long to watch (default %(default)s)")
    parser.add_argument("--rate", type=int, default=1_000, help="rows a second (default %(default)s)")
    parser.add_argument("--series", type=Path, help="JSON file of the answers: read if it is there, else written")
    options = parser.parse_args(arguments)
    if options.series and options.series.exists():
        drawn, end = json.loads(options.series.read_text())
    else:
        with tempfile.TemporaryDirectory() as directory:
            drawn, end = watched(options.seconds, options.rate, Path(directory))
        if options.series:
            options.series.write_text(json.dumps([drawn, end]))
    draw(drawn, end, options.seconds).savefig(options.out, dpi=100, facecolor=BACK)


if __name__ == "__main__":
    main()
