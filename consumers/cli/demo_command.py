"""`streamsvm demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from streamsvm.choices import ReducerName


def demo(
    reducer: Annotated[
        ReducerName,
        typer.Option(
            metavar="NAME",
            help=f"How many points are reduced to few, coreset.reducer: {', '.join(get_args(ReducerName))}.",
        ),
    ] = "calibrated",
    keep_open: Annotated[
        bool, typer.Option("--keep-open", help="Keep running after the table, so that the live page stays available.")
    ] = False,
    write_csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Run no demo: write 6,000 rows of the survey, labeled noise or pulsar, to a CSV file for replay.",
        ),
    ] = None,
) -> None:
    """Replay the HTRU2 pulsar survey through an embedded broker, train, subscribe, and compare with the full data."""
    if write_csv is not None:
        from streamsvm import datasets

        datasets.write_csv(write_csv, rows=6_000, words=("noise", "pulsar"), shuffle_seed=0)
        typer.echo(f"6,000 rows of the survey written to {write_csv}")
        return
    from consumers.demo.demo import run

    if not run(reducer, keep_open=keep_open):
        raise typer.Exit(1)
