"""Text that others wrote, on its way to a terminal: names, labels, reasons, times.

Invariant: no byte of it steers the terminal, and none of it is taken for markup.
"""

from __future__ import annotations

import sys

from rich.text import Text


def printable(text: str) -> str:
    """Return a text whose control characters are escaped: what others write must not steer a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def moment(time_ms: int) -> str:
    """Return a record's time, which may be any number, in UTC."""
    if time_ms < 0:
        return "unknown"
    from streamsvm.places import time_of  # the list of commands needs no library

    time = time_of(time_ms / 1_000)
    return f"{time_ms} ms, which is not a valid time" if time is None else time.isoformat(timespec="seconds")


def cell(text: str, style: str = "") -> Text:
    """Return a text for a table: as it is written, but for control characters, and never as markup."""
    return Text(printable(text), style=style)


def json_for(text: str, *, terminal: bool | None = None) -> str:
    """Return JSON as it is, or, for a terminal, the same value with everything escaped that is not printable.

    Parameters
    ----------
    text : str
    terminal : bool, optional
        Whether a terminal shows it; if left out, whether standard output is one.
    """
    if not (sys.stdout.isatty() if terminal is None else terminal):
        return text
    return "".join(one if one.isprintable() or one == "\n" else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
