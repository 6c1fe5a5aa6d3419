"""Writes METRICS.md: `python deploy/metrics.py` after a change in `consumers.metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from consumers.metrics import PROCESS, SCORER, TRAINER, Definition, other_daemons

FILE: Final = Path(__file__).parent / "METRICS.md"
HEAD: Final = """# Metrics

Made by `python deploy/metrics.py` from `consumers/metrics/` and `consumers/branches/*/metrics.py`: change those, not
this file. Metrics of late labels, workers, challenges and the archive are there only where these are on. Units are base
units: seconds, bytes, points, rows, records. A histogram `x` has the series `x_bucket`, `x_sum` and `x_count`. Alerts
and what to do about them: [RUNBOOK.md](RUNBOOK.md).
"""


def table(title: str, definitions: Iterable[Definition]) -> str:
    """Return a section: every metric with its kind, labels, meaning, and what to do when it moves."""
    lines = [f"## {title}", "", "| metric | kind | labels | meaning | when it moves |", "|---|---|---|---|---|"]
    for one in definitions:
        name = f"{one.name}_total" if one.kind == "counter" else one.name
        labels = ", ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{name}` | {one.kind} | {labels} | {one.meaning} | {one.advice} |")
    return "\n".join(lines) + "\n"


def rendered() -> str:
    """Return the text of the file."""
    sections = (
        ("Trainer", TRAINER),
        *((daemon.title, daemon.definitions) for daemon in other_daemons()),
        ("Scorer", SCORER),
        ("Any of them: the process", PROCESS),
    )
    return "\n".join((HEAD, *(table(title, definitions) for title, definitions in sections)))


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
