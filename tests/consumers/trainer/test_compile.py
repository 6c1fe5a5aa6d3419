"""`streamsvm compile`: what it compiles is what a trainer runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numba import njit
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.trainer import kernels
from tests.compiled import compile_kernels

OPTIONS = ("--name", "compiled", "--points-dimension", "2", "--bootstrap-servers", "nowhere:1")


def test_what_was_compiled_is_loaded_by_the_next_start() -> None:
    """With the tests' kernels in the file cache nothing is left to compile, for Avro's reader neither."""
    compile_kernels()
    told = CliRunner().invoke(app, ["compile", *OPTIONS, "--registry-url", "http://nowhere:1", "--check"])
    assert told.exit_code == 0, told.output
    assert "\n0 functions compiled into " in told.output
    assert "preparing the parsers of records" in told.output


def test_a_function_that_is_missing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an image in which nothing was prepared does not pass for one that is ready."""

    def compile_one(config: Any, say: Callable[[str], None], **named: Any) -> None:
        say("preparing one")
        njit(lambda number: number + 1)(1)
        say("preparing nothing")

    monkeypatch.setattr(kernels, "prepare", compile_one)
    told = CliRunner().invoke(app, ["compile", *OPTIONS, "--check"])
    assert told.exit_code == 1
    assert "   0 functions compiled; preparing one" in told.output
    assert "   1 functions compiled; preparing nothing" in told.output
    assert CliRunner().invoke(app, ["compile", *OPTIONS]).exit_code == 0
