"""`streamsvm config`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from streamsvm.secrecy import is_secret


def config(
    file: Annotated[Path | None, typer.Option("--config", help="Show the values in force with this TOML file.")] = None,
    effective: Annotated[
        bool, typer.Option("--effective", help="Show the values in force, secrets masked, as JSON.")
    ] = False,
) -> None:
    """List every option: its flag, environment variable, type, default and meaning."""
    from consumers.options import fields, flag, sections, shown_default, shown_type, variable

    if effective or file:
        from consumers.loader import load

        typer.echo(json.dumps(load(file=file).masked(), indent=2))
        return
    for section in sections():
        typer.echo(f"\n[{section}]" if section else "# options, by TOML section")
        for name, info in fields(section).items():
            typer.echo(f"{name} = {shown_default(info) or '-'}   ({shown_type(info)})")
            typer.echo(f"    {info.description}")
            shown = "--secrets" if is_secret(name) else flag(section, name)
            typer.echo(f"    {shown}   {variable(section, name)}")
