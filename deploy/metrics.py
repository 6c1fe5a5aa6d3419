"""Writes METRICS.md: `python deploy/metrics.py` after a change in `consumers.metrics`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from consumers.metrics import PROCESS, SCORER, TRAINER, Definition, other_daemons

FILE: Final = Path(__file__).parent / "METRICS.md"
HEAD: Final = """# Metrics

Made by `python deploy/metrics.py` from `consumers/metrics/` and `consumers/branches/*/metrics.py`.

First what a metric counts, then, *in italics*, what to do when it moves. A name in `_total` is a counter; a histogram
says so; the others are gauges. Labels stand in braces; timestamps are seconds since the epoch. Metrics of late
labels, workers, challenges and the archive are there only where these are on. Alerts (`Streamsvm...`):
[RUNBOOK.md](RUNBOOK.md).
"""
PROCESS_HEAD: Final = """## Every process

Prometheus's Python client adds these:
"""


def sections() -> dict[str, list[Definition]]:
    """Return the metrics by the daemons that have them; each metric is in one section."""
    daemons = {
        "Trainer": tuple(TRAINER),
        **{one.title: one.definitions for one in other_daemons()},
        "Scorer": tuple(SCORER),
    }
    found: dict[str, list[Definition]] = {name: [] for name in daemons}
    for one in dict.fromkeys(one for definitions in daemons.values() for one in definitions):
        having = [name for name, definitions in daemons.items() if one in definitions]
        title = ", ".join(name if name == having[0] else name.lower() for name in having)
        found.setdefault(title, []).append(one)
    ordered = sorted(found.items(), key=lambda entry: -entry[0].count(","))
    return {title: definitions for title, definitions in ordered if definitions}


def line(one: Definition) -> str:
    """Return a metric's line: what it is called, what it counts, and the advice."""
    return f"- {head(one)}: {one.meaning} *{one.advice}*"


def head(one: Definition) -> str:
    """Return a metric's name with its labels, and its kind if the name does not show it."""
    name = f"{one.name}_total" if one.kind == "counter" else one.name
    labels = f"{{{','.join(one.labels)}}}" if one.labels else ""
    kind = " (histogram)" if one.kind == "histogram" else ""
    return f"`{name}{labels}`{kind}"


def rendered() -> str:
    """Return the text of the file."""
    parts = ["\n".join((f"## {title}", "", *map(line, of), "")) for title, of in sections().items()]
    process = "\n".join((PROCESS_HEAD, *(f"- {head(one)}: {one.advice}" for one in PROCESS), ""))
    return "\n".join((HEAD, *parts, process))


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
