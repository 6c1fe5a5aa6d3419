"""What stands for a value where only text can be given: in the environment and on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field


def split_at_commas(value: object) -> object:
    """Let `a,b` stand for a list where only text can be given (environment, command line)."""
    if not isinstance(value, str):
        return value
    whole = _literal(value)
    return whole if isinstance(whole, list) else [_literal(part.strip()) for part in value.split(",")]


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def table_in_words(value: object) -> object:
    """Let JSON stand for a table where only text can be given."""
    return _literal(value) if isinstance(value, str) else value


def none_in_words(value: object) -> object:
    """Let `none` stand for no value where a TOML file or a command line can say nothing else."""
    return None if value == "none" else value


def target_in_words(value: object) -> object:
    """Let `recall=0.9` stand for a table of one entry where only text can be given."""
    if not isinstance(value, str) or "=" not in value:
        return none_in_words(_literal(value) if isinstance(value, str) else value)
    figure, _, share = value.partition("=")
    return {figure.strip(): _literal(share.strip())}


def one_target(value: object) -> object:
    """Refuse a target that is not one figure with a share."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a target: give one of {_TARGETS_SHOWN}")
    if len(value) != 1:
        raise ValueError(f"{len(value)} figures are given, {', '.join(map(str, value))}: give only one")
    ((figure, share),) = value.items()
    if figure not in TARGETS:
        raise ValueError(f"{figure!r} is unknown: give one of {_TARGETS_SHOWN}")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 < share < 1.0:
        raise ValueError(f"{figure} is {share!r}: give a share above 0 and below 1")
    return {str(figure): float(share)}


def two_costs(value: object) -> object:
    """Refuse costs that are not two numbers above 0."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"{value!r} is not two costs: give that of a missed positive and that of a false alarm: 50,1")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, int | float) or not LEAST_COST <= one <= 1.0 / LEAST_COST:
            raise ValueError(f"{one!r} is not a cost: give a number from {LEAST_COST:g} to {1.0 / LEAST_COST:g}")
    return tuple(float(one) for one in value)


def duration_in_words(value: object) -> object:
    """Let `36h` stand for so many seconds: a number with s, m, h or d."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value!r} is not a duration: give seconds, or a number with s, m, h or d, such as 36h")
    return float(found[1]) * _SECONDS[found[2] or "s"]


_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
LONGEST_S: Final = 1e10


def memory_length(value: object) -> object:
    """Return a number of rows as it is, and a duration in its largest whole unit: `36h` of `1.5d`.

    Raises
    ------
    ValueError
        If it is neither.
    """
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isdecimal():
        text = int(text)
    if isinstance(text, int) and not isinstance(text, bool) and 8 <= text <= 1 << 40:
        return text
    if isinstance(text, str) and _DURATION.fullmatch(text):
        seconds = seconds_of(text)
        if 0.0 < seconds <= LONGEST_S:
            whole = (f"{seconds / size:.0f}{unit}" for unit, size in _UNITS if not seconds % size)
            return next(whole, f"{seconds!r}s")
    raise ValueError(f"{value!r} is not a length: give 8 rows or more, such as 100000, or a time, such as 14d or 36h")


def seconds_of(duration: str) -> float:
    """Return the seconds of a duration such as `36h`."""
    found = _DURATION.fullmatch(duration)
    assert found is not None
    return float(found[1]) * _SECONDS[found[2] or "s"]


MemoryLength = Annotated[int | str, BeforeValidator(memory_length)]
Duration = Annotated[float, Field(ge=0, le=10 * 366 * 86_400.0), BeforeValidator(duration_in_words)]
TARGETS: Final = ("precision", "recall", "alarm_rate")
_TARGETS_SHOWN: Final = "precision=0.9, recall=0.9, alarm_rate=0.01, with your own share"
LEAST_COST: Final = 1e-12
"""Costs far smaller or larger would vanish in sums with others."""


def split_names(value: object) -> object:
    """Let `a,b` stand for a list of names, of which none is taken for a number."""
    return [name for part in value.split(",") if (name := part.strip())] if isinstance(value, str) else value


def named_directory(directory: Path, name: str) -> Path:
    """Return a directory with a model's name instead of `{name}`."""
    return Path(str(directory).replace("{name}", name))
