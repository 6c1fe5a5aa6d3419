"""`streamsvm compile`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.on_demand import TRAINER_SECTIONS, with_settings

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings(*TRAINER_SECTIONS)
def compile_command(
    settings: Settings,
    check: Annotated[
        bool, typer.Option("--check", help="End with status 1 if anything had to be compiled: nothing was prepared.")
    ] = False,
) -> None:
    """Compile what `train` with the same options runs, so that its first start does not wait; asks no broker."""
    from consumers.host.runtime import configure_logging
    from consumers.trainer import kernels
    from streamsvm.build import build
    from streamsvm.compiling import CACHE

    configure_logging(settings.log)
    config, began = settings.models(), time.perf_counter()
    with kernels.counting() as compiled:
        kernels.prepare(
            config,
            lambda part: typer.echo(f"{compiled.functions:>4} functions compiled; {part}", err=True),
            registry=bool(settings.registry.url),
        )
    place = CACHE or "__pycache__ beside the sources"
    typer.echo(
        f"{compiled.functions} functions compiled into {place} for the CPU {build()['cpu']} "
        f"in {time.perf_counter() - began:,.1f} s; all others were there"
    )
    if check and compiled.functions:
        raise typer.Exit(1)
