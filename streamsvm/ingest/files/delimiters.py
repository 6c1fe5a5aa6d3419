"""Which character stands between the cells of a CSV, where nobody says it: the one by which its first rows agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.faults import reading
from streamsvm.ingest.files.reading import lines_of, open_bytes

DELIMITERS: Final = (",", ";", "\t", "|")
"""Those that are found."""
MOST_LINES: Final = 100
"""Lines that are looked at."""
MOST_BYTES: Final = 1 << 20
"""After so many no other line is looked at, once there are two."""

_QUOTED: Final = re.compile(r'(?:^|(?<=[,;\t|]))"(?:[^"]|"")*"', re.MULTILINE)


def usual_delimiter(path: Path) -> str:
    """Return what a CSV's name says: a tab for .tsv, else a comma."""
    return "\t" if ".tsv" in (ending.lower() for ending in path.suffixes) else ","


def delimiter_of(path: Path, given: str | None = None) -> str:
    """Return the character between the cells of a CSV: the one that is given, or the one that splits its first rows.

    That is the usual one if it is the only one of `DELIMITERS` in the first line, and else the only one that splits
    each of the first rows into as many cells as the first line.

    Raises
    ------
    ConfigurationError
        If the one given is not one character, the first rows leave a choice, or the file cannot be read.
    """
    if given is not None:
        if len(given) != 1:
            raise ConfigurationError(
                f"the delimiter {given!r} is not one character", "Give a single character, such as ; or a tab."
            )
        return given
    usual, lines = usual_delimiter(path), _first_lines(path)
    widths = {one: [line.count(one) + 1 for line in lines] for one in DELIMITERS}
    in_header = [one for one in DELIMITERS if widths[one][:1] > [1]]
    if in_header == [usual]:
        return usual
    agreeing = [one for one in in_header if len(set(widths[one])) == 1]
    if len(agreeing) == 1:
        return agreeing[0]
    if len(agreeing) > 1:
        raise _unclear(path, f"the first rows can be split at {_named(agreeing)}")
    is_in_rows = any(max(widths[one][1:], default=1) > 1 for one in in_header)
    if usual not in in_header and is_in_rows:
        raise _unclear(path, f"the first line has {_named(in_header)}, by which the first rows do not agree")
    if not in_header and _are_split_by_blanks(lines):
        raise _unclear(path, "the first rows have one cell each, with blanks inside")
    return usual


def _unclear(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: what stands between its cells is unclear: {what}", "Say it: --delimiter, or the option delimiter."
    )


def _named(delimiters: Sequence[str]) -> str:
    return " and ".join(map(repr, delimiters))


def _first_lines(path: Path) -> list[str]:
    """Return the first rows, each in a line, with something else in place of what is quoted."""
    lines: list[str] = []
    size, is_cut = 0, False
    with reading(path), open_bytes(path) as file:
        for line in lines_of(path, file):
            is_cut = len(lines) == MOST_LINES or (size > MOST_BYTES and len(lines) > 1)
            if is_cut:
                break
            lines.append(line.decode())
            size += len(line)
    rows = [row for row in _QUOTED.sub("q", "".join(lines)).split("\n") if row]
    return rows[:-1] if is_cut and len(rows) > 1 else rows


def _are_split_by_blanks(lines: Sequence[str]) -> bool:
    words = {len(line.split()) for line in lines}
    return len(lines) > 1 and len(words) == 1 and words != {1}
