"""The command line: one program, a subcommand for each thing that a person does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.cli import app as app, evaluate as evaluate
    from consumers.cli.app import main as main
    from consumers.cli.file_options import SkippedRowCounter as SkippedRowCounter, rows_by_recipe as rows_by_recipe

__getattr__ = on_first_use(__name__, __file__)
