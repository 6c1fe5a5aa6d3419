"""`streamsvm simulate-scale`: what a rate takes, from constants measured on the spot."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer


def simulate_scale_command(
    rate: Annotated[float, typer.Option(min=1.0, max=1e12, help="Points a second, over all partitions.")],
    partitions: Annotated[int, typer.Option(min=1, max=4_096, help="Partitions of the input.")] = 8,
    dimension: Annotated[int, typer.Option(min=1, max=2_000, help="Features of a point.")] = 8,
    format_: Annotated[
        Literal["json", "json-array", "arrow"],
        typer.Option("--format", help="Records of one JSON point, of a JSON array of 256, or of Arrow with 4,096."),
    ] = "json",
    memory_points: Annotated[
        int, typer.Option(min=64, max=10_000_000, help="Points that all partitions hold together.")
    ] = 10_000,
    network_gbit: Annotated[float, typer.Option(min=0.001, max=10_000.0, help="Gigabits a second to the workers.")] = (
        10.0
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say what a rate takes: cores, partitions, network, and what becomes too small first; asks no broker.

    Decodes, learns and trains made points for some seconds, with the defaults of a linear model, and counts from there.
    The constants are of this machine at this moment.
    """
    from consumers.sizing.demand import BUSY, Demand, sizing_of
    from consumers.sizing.measuring import measure
    from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
    from streamsvm.errors import ConfigurationError

    try:
        coreset = CoresetConfig(memory_points=memory_points, max_partitions=partitions)
        config = ModelConfig(points=PointsConfig(dimension=dimension), coreset=coreset)
    except ValueError as error:
        raise ConfigurationError(
            f"--memory-points {memory_points} does not suit --partitions {partitions} and --dimension {dimension}: "
            f"{_reason(error)}",
            "Give more points, or fewer partitions.",
        ) from None
    constants = measure(config, partitions, format_, say=lambda what: typer.echo(f"{what} ...", err=True))
    found = sizing_of(Demand(rate=rate, partitions=partitions, network_gbit=network_gbit), constants)
    if as_json:
        typer.echo(json.dumps({"constants": asdict(constants), **found.plain()}, indent=2))
        return
    least = f"at least {found.least_partitions:,} are needed"
    what = {
        "partitions": f"one core for each of the {partitions} partitions: {least}",
        "network": f"the network of {network_gbit:g} Gbit/s: {found.network_mb_s:,.0f} MB/s are needed",
    }[found.bottleneck]
    typer.echo(
        f"measured here, now: {constants.decode_us:.3f} us to decode a point, {constants.learn_us:.3f} us to learn it "
        f"late in a stream, {constants.point_bytes:,.0f} bytes, {constants.training_s:.2f} s to train a version of "
        f"{constants.training_points:,} points\n"
        f"{rate:,.0f} points a second keep {found.cores:,.2f} cores busy: {found.workers:,} workers of which each uses "
        f"{BUSY:.0%} of a core (streamsvm train --workers, or streamsvm worker)\n"
        f"network to the workers {found.network_mb_s:,.1f} MB/s; state of all partitions {found.state_mb:,.1f} MB\n"
        f"{'it fits' if found.fits else 'it does not fit'}; what becomes too small first, at "
        f"{found.most[found.bottleneck]:,.0f} points a second: {what}"
    )


def _reason(error: ValueError) -> str:
    """Return what a validation says, without what the library adds."""
    from pydantic import ValidationError

    return str(error.errors()[0]["msg"]) if isinstance(error, ValidationError) else str(error)
