"""What was measured, as a table for people, and a bar while they wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from consumers.evaluate.plan import REMARK, EvaluationReport, EvaluationRow, Step
from consumers.evaluate.predict_then_train import PrequentialReport

LINE_EVERY_S: Final = 10.0
"""Seconds between two lines of one phase where there is no terminal."""


def headline(report: EvaluationReport) -> str:
    """Return what was measured."""
    gamma = "" if report.gamma is None else f", gamma {report.gamma:.4g}"
    return (
        f"{report.source}: one pass over {report.training_points:,} points, {report.test_points:,} held out; "
        f"{report.dimension} features, C {report.C:.4g}{gamma}"
    )


def describe(report: EvaluationReport) -> Table:
    """Return the table; without an optimum it has objectives in the place of gaps."""
    judged = any(row.probabilities is not None for row in report.rows)
    table = Table(padding=0)  # and without `held` where two more columns have to fit into 80 characters
    measure = "objective" if report.uncertainty is None else "gap"
    headings = ("", measure, "accuracy", "balanced", "AUC", "AP", *(("Brier", "log loss") if judged else ()))
    for heading in (*headings, "points/s", *(() if judged else ("held",))):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=bool(heading), overflow="fold")
    for row in report.rows:
        found, said = row.scores, row.probabilities
        dead = found is not None and found.skill is False
        table.add_row(
            row.name + (" (no skill)" if dead else ""),
            _gap(row, report.uncertainty),
            *(
                ("-",) * 4
                if found is None
                else map(_share, (found.accuracy, found.balanced_accuracy, found.auc, found.average_precision))
            ),
            *(map(_share, (None, None) if said is None else (said.brier, said.log_loss)) if judged else ()),
            "-" if row.points_per_s is None else f"{row.points_per_s:,.0f}",
            *(() if judged else ("-" if row.points_held is None else f"{row.points_held:,}",)),
        )
    return table


def describe_prequential(report: PrequentialReport) -> Table:
    """Return how every contender did, in the order in which they ran."""
    apart = "" if report.version_rows == report.leaf_rows else f", a model every {report.version_rows:,}"
    title = f"{report.source}: {report.rows_judged:,} rows, each predicted before it was learned; labels "
    title += "at once" if report.lag == 1 else f"{report.lag:,} rows at a time"
    table = Table(title=title + apart, title_justify="left", padding=0)
    table.add_column("", overflow="fold")
    for heading in ("accuracy", "balanced", "AUC", "AP", "log loss", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.rows:
        figures = (row.accuracy, row.balanced_accuracy, row.auc, row.average_precision, row.log_loss)
        table.add_row(row.title, *map(_share, figures), f"{row.seconds:.1f}")
    return table


def prequential_notes(report: PrequentialReport) -> list[str]:
    """Return what each contender is made of, one line each."""
    return [*report.said, *(f"{row.title}: {row.note}" for row in report.rows if row.note)]


def describe_thresholds(report: EvaluationReport) -> Table | None:
    """Return what thresholds come to on what was set aside, the chosen one marked; None if none is configured."""
    chosen = next((row.at for row in report.rows if row.at is not None), None)
    if chosen is None:
        return None
    costs = chosen.cost is not None
    table = Table(title=f"answers {report.labels[1]!r} above a threshold", title_justify="left")
    for heading in ("threshold", "precision", "recall", "alarms", *(("cost",) if costs else ()), ""):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for one in report.thresholds:
        table.add_row(
            f"{one.threshold:.4g}",
            _share(one.precision),
            _share(one.recall),
            _share(one.alarm_rate),
            *((_share(one.cost),) if costs else ()),
            "chosen" if one == chosen else "",
        )
    return table


def notes(report: EvaluationReport) -> list[str]:
    """Return what the table has no room for, one line each."""
    said = [*report.said, *(f"{row.name}: {row.note}" for row in report.rows if row.note)]
    said.append(f"memory: coresets, a reduction and a training set take at most {report.most_bytes:,} bytes")
    if (version := report.version) is not None:
        over = f"{version.partitions} partition{'' if version.partitions == 1 else 's'}"
        part = "all" if version.rows == version.of_rows else f"the first {version.rows:,} of"
        said.append(
            f"sent by replay to {over}, a trainer's last version covers {part} {version.of_rows:,} rows: training set "
            f"{version.training_set_sha256}, content {version.content_sha256}, as streamsvm model show prints them"
        )
    return said


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _gap(row: EvaluationRow, uncertainty: float | None) -> str:
    if uncertainty is None:
        return "-" if row.objective is None else f"{row.objective:.6g}"
    if row.gap is None:
        return "-"
    if row.name == "optimum":
        return "0"
    return f"< {uncertainty:.1e}" if row.gap < uncertainty else f"{row.gap:.2e}"


def line_progress(clock: Callable[[], float] = time.monotonic) -> Step:
    """Return what prints a line a phase to standard error, and one each `LINE_EVERY_S` seconds while a phase lasts."""
    said, due = "", 0.0

    def step(what: str, done: int, total: int | None) -> None:
        nonlocal said, due
        now = clock()
        if what == said and now < due:
            return
        far = f": {done:,}{f' of {total:,}' if total else ''}" if what == said else ""
        said, due = what, now + LINE_EVERY_S
        print(what + far, file=sys.stderr, flush=True)  # noqa: T201

    return step


@contextmanager
def progress_bar() -> Iterator[Step]:
    """Show on standard error how far the block is: a bar on a terminal, with remarks above it; else lines."""
    if not sys.stderr.isatty():
        yield line_progress()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def step(what: str, done: int, total: int | None) -> None:
            if total == REMARK:
                bar.console.print(what, highlight=False, markup=False)
            else:
                bar.update(task, description=what, completed=done, total=total)

        yield step
