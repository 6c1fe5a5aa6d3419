"""What a whole run of the stack's test saw, as a text that a reader understands; only a run that passed writes it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.deploy.files import Query, queries

RESULTS: Final = Path(__file__).parent / "RESULTS.md"
LONGEST: Final = 120
"""Of a cell; what is left out is counted."""

Answers = Mapping[Query, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Held:
    """What the topics held at one moment."""

    versions: int
    """Published, numbered from 1 without a gap, each recomputed from the log to the same bytes."""
    candidates: int
    rejected: int
    """Records of `candidates` that have a dead letter."""
    points: int
    scores: int
    letters: int


@dataclass(frozen=True)
class Kill:
    """A container that was killed, the seconds from then on, and what the topics held afterwards."""

    service: str
    restarted_s: float
    healthy_s: float
    works_s: float
    held: Held


@dataclass
class Results:
    """What a run has seen so far."""

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    up_s: float = 0.0
    started: str = ""
    killed: str = ""
    kills: list[Kill] = field(default_factory=list)
    panels: Answers = field(default_factory=dict)
    held: Held | None = None

    def complete(self, services: Sequence[str]) -> bool:
        """Tell whether every test that adds something has passed."""
        seen = self.started and self.killed and self.panels and self.held
        return bool(seen) and [kill.service for kill in self.kills] == list(services)

    def write(self, unasked: Mapping[str, str]) -> None:
        """Write it down.

        Parameters
        ----------
        unasked : mapping
            Beginnings of metrics that were not asked for, and why.
        """
        RESULTS.write_text(self.rendered(unasked))

    def rendered(self, unasked: Mapping[str, str]) -> str:
        """Return the whole text, in Markdown."""
        assert self.held is not None
        sections = [
            f"# The stack in containers, as last run whole\n\n{self._circumstances()}",
            f"## `docker compose ps --all`, before anything was killed\n\n```\n{self.started.strip()}\n```",
            f"## Each container killed once\n\n{EXPLAINED}\n\n{_kills(self.kills)}",
            f"## `docker compose ps --all`, after the last kill\n\n```\n{self.killed.strip()}\n```",
            f"## At the end, with nothing more coming in\n\n{_end(self.held)}",
            "## Every panel's query, asked in the stack's Prometheus after the kills\n\n"
            + _panels(self.panels, unasked),
        ]
        return "\n\n".join(sections) + "\n"

    def _circumstances(self) -> str:
        engine = ["docker", "version", "--format", "{{.Server.Version}}"]
        version = subprocess.run(engine, capture_output=True, text=True, check=True).stdout.strip()
        minutes = (datetime.now(UTC) - self.began).total_seconds() / 60
        return (
            f"Written by `make test-deploy` (`tests/deploy/test_stack.py`), which passed on {self.began:%Y-%m-%d} and "
            f"took {minutes:.0f} minutes.\nDocker {version}, {platform.system()} on {os.cpu_count()} processors; load "
            f"average {self.load:.1f} at its beginning and {os.getloadavg()[0]:.1f} at its end, other work\nincluded. "
            f"From `up --build`, the image's layers of packages being there, to the third version {self.up_s:.0f} s.\n"
            "All services of `deploy/compose.yaml` but Grafana ran."
        )


EXPLAINED: Final = """\
SIGKILL to the container's first process, from outside, while all of it ran. Seconds count from then: until the engine
had started it again, until all containers were healthy, and until there were a new version, new scores, and a scrape
by Prometheus that knew the version. What the topics held was then counted while the stack worked on; the count fails
if the versions are not numbered from 1 without a gap or a repetition, if `streamsvm verify` does not recompute every
one of them from the log to the same bytes, if a record of `points` has no score and no dead letter or more than one
of them, or if the dead letters of `candidates` are not those of the three malformed records that were sent."""


def _kills(kills: Sequence[Kill]) -> str:
    head = (
        "| killed | started again, s | all healthy, s | all works, s | versions, all verified "
        "| records in `points` | scores of them | letters of them | records in `candidates` | letters of them |"
    )
    rows = [
        f"| `{kill.service}` | {kill.restarted_s:.0f} | {kill.healthy_s:.0f} | {kill.works_s:.0f} "
        f"| {kill.held.versions:,} | {kill.held.points:,} | {kill.held.scores:,} | {kill.held.letters:,} "
        f"| {kill.held.candidates:,} | {kill.held.rejected:,} |"
        for kill in kills
    ]
    return "\n".join([head, "|---" * 10 + "|", *rows])


def _end(held: Held) -> str:
    return (
        f"- `models`: versions 1 to {held.versions:,}, each once, and the head is {held.versions:,}; "
        "all recomputed from the log to the same bytes\n"
        f"- `points`: {held.points:,} records; `scores` and `points.dlq`: {held.scores:,} scores and {held.letters:,} "
        "dead letters, one to each record and none of anything else\n"
        f"- `candidates`: {held.candidates:,} records; `candidates.dlq`: dead letters of {held.rejected:,} records, "
        "the malformed ones"
    )


def _panels(answers: Answers, unasked: Mapping[str, str]) -> str:
    left_out = [(metric, why) for query in queries() for metric, why in unasked.items() if metric in query.promql]
    counted = f"{len(answers)} queries of both dashboards, none empty."
    reasons = "".join(
        f" Not asked: {left_out.count((metric, why))} for `{metric}*`, because {why}."
        for metric, why in dict.fromkeys(left_out)
    )
    rows = [
        f"| {query.dashboard} | {query.panel} | {query.legend or 'value'} | {_values(series)} |"
        for query, series in answers.items()
    ]
    return "\n".join([counted + reasons, "", "| dashboard | panel | legend | answer |", "|---|---|---|---|", *rows])


def _values(series: Sequence[Mapping[str, Any]]) -> str:
    """Return the series that are not zero, if any is, each with its labels; as many as fit."""
    named = [(_name(one["metric"]), float(one["value"][1])) for one in series]
    shown = [one for one in named if one[1]] or named[:1]
    text = ", ".join(f"{name} {value:.6g}".strip() for name, value in shown)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST].rsplit(',', 1)[0]}, ..."
    zeros = len(named) - len(shown)
    return text + (f"; 0 for {zeros} more" if zeros else "")


def _name(labels: Mapping[str, str]) -> str:
    return " ".join(value for label, value in labels.items() if label not in {"__name__", "job"})
