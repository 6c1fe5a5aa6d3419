"""Copies of the tree without a branch, and programs that run in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.forked import ROOT

PACKAGES: Final = ("streamsvm", "consumers")
STREAM: Final = Path(__file__).parent / "small_stream.py"
TIMEOUT_S: Final = 500.0
IMPORTS: Final = """
import importlib, pkgutil, sys, streamsvm, consumers
from pathlib import Path
failed = {}
for package in (streamsvm, consumers):
    assert Path(package.__file__).is_relative_to(sys.argv[1]), package.__file__
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda name: None):
        if not found.name.endswith(".__main__"):
            try:
                importlib.import_module(found.name)
            except Exception as error:
                failed[found.name] = f"{type(error).__name__}: {error}"
print(*(f"{name}: {what}" for name, what in failed.items()), sep="\\n")
"""


def copy_without(branch: str, into: Path) -> Path:
    """Copy the product without the two folders of a branch. Compiled code is copied with it, and stays valid."""
    for package in PACKAGES:
        unwanted = str(ROOT / package / "branches" / branch)
        shutil.copytree(
            ROOT / package,
            into / package,
            ignore=lambda folder, names: [name for name in names if f"{folder}/{name}" == unwanted],  # noqa: B023
        )
    return into


def run_in(tree: Path, *arguments: str) -> str:
    """Run Python in a copy of the tree, and return what it prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**inherited, "PYTHONPATH": str(tree), "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    return ran.stdout


def stream_in(tree: Path, *arguments: str) -> dict[str, Any]:
    """Let a small stream run through a copy of the tree, and return what came of it."""
    # `-c`, since Python would put the folder of a script before the copy.
    program = f"import runpy; runpy.run_path({str(STREAM)!r}, run_name='__main__')"
    printed = run_in(tree, "-c", program, *arguments)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found
