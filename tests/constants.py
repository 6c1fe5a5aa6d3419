"""Constants of the daemons under another value: in this process by monkeypatch, in a forked one by its command line."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from consumers import constants
from streamsvm.config import PointsConfig

HOLDERS: Final[tuple[Any, ...]] = (constants, PointsConfig)
FLAG: Final = "--constant="


def flags(values: Mapping[str, Any]) -> list[str]:
    """Return what stands on the command line of a forked process that is to have these values."""
    return [f"{FLAG}{name}={value!r}" for name, value in values.items()]


def set_from(arguments: Sequence[str]) -> list[str]:
    """Set the constants that a command line names, and return the rest of it."""
    for argument in arguments:
        if argument.startswith(FLAG):
            name, _, value = argument.removeprefix(FLAG).partition("=")
            holders = [one for one in HOLDERS if hasattr(one, name)]
            assert holders, f"there is no constant {name}"
            setattr(holders[0], name, ast.literal_eval(value))
    return [argument for argument in arguments if not argument.startswith(FLAG)]


def main() -> None:
    """Run the command line under other values: `python -m tests.constants --constant=NAME=VALUE train ...`."""
    from consumers.cli import main as command_line

    sys.argv = ["streamsvm", *set_from(sys.argv[1:])]
    command_line()


if __name__ == "__main__":
    main()
