"""Values of one field, a batch at a time, as numbers, texts, truths or times; and what is wrong with the others.

Every function takes a list of what stood in the events, without missing ones, and gives an array or a list of the same
length. Where a value has the wrong type or range, it notes an `EventFault` and gives something harmless. Batches
in which all is well, the usual ones, are converted without a look at each value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.fields import Instants
from streamsvm.branches.events.features.notations import Parse
from streamsvm.branches.events.features.recipe import LARGEST_NUMBER
from streamsvm.branches.events.features.zones import ZoneTable
from streamsvm.field_paths import Path, Unreachable, shown

LARGEST_EXACT: Final = (1 << 53) - 1
"""Largest integer that every language reads the same."""
_SHOWN: Final = 60
_MOST_BITS: Final = 4_096


class EventFault(NamedTuple):
    """Why an event is rejected: a reason of `streamsvm.ingest.decoder.REASONS`, and the particulars."""

    reason: str
    what: str


@dataclass(slots=True)
class Faults:
    """The first fault of each event, by its index in the batch."""

    by_row: dict[int, EventFault] = field(default_factory=dict)

    def missing(self, rows: Iterable[int], path: Path) -> None:
        """Note that a field is absent or null."""
        fault = EventFault("missing_field", f"{shown(path)} is missing")
        for row in rows:
            self.by_row.setdefault(row, fault)

    def wrong(self, row: int, path: Path, value: object, wanted: str) -> None:
        """Note a value that is not what it has to be."""
        if isinstance(value, Unreachable):
            what = f"{shown(path)} cannot be read: {value.why}"
        else:
            what = f"{shown(path)} is {value_text(value)}, not {wanted}"
        self.by_row.setdefault(row, EventFault("wrong_type", what))

    def not_finite(self, row: int, path: Path, value: object) -> None:
        """Note a number that is too large, infinite, or not a number."""
        self.by_row.setdefault(
            row, EventFault("not_finite", f"{shown(path)} is {value_text(value)}, beyond what can be learned")
        )


def value_text(value: object) -> str:
    """Show a value as it stands in JSON, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # Python may refuse to write more digits
        return "an integer of thousands of digits"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def parsed(
    values: Sequence[Any] | NDArray[Any], parse: Parse, path: Path, faults: Faults, wanted: str
) -> Sequence[Any] | NDArray[Any]:
    """Return values of which those in another notation than JSON's are numbers; infinite beyond float64."""
    if isinstance(values, np.ndarray):
        return values
    made = list(values)
    for row, value in enumerate(made):
        if type(value) is float or type(value) is int:
            continue
        number = parse(value)
        if number is None:
            faults.wrong(row, path, value, wanted)
        made[row] = 0.0 if number is None else number
    return made


def numbers(values: Sequence[Any] | NDArray[Any], path: Path, faults: Faults) -> NDArray[np.float64]:
    """Return numbers, a sequence or an array of them, as float64, shape (n,)."""
    if isinstance(values, np.ndarray):
        made = values.astype(np.float64, copy=False)
        if not len(made) or (made.max() <= LARGEST_NUMBER and made.min() >= -LARGEST_NUMBER):
            return made
        values = values.tolist()
    if set(map(type, values)) <= {float, int}:
        try:
            made = np.array(values, np.float64)
        except OverflowError:
            pass
        else:
            if not len(made) or (made.max() <= LARGEST_NUMBER and made.min() >= -LARGEST_NUMBER):
                return made
    return np.array([_number(row, value, path, faults) for row, value in enumerate(values)], np.float64)


def _number(row: int, value: Any, path: Path, faults: Faults) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.wrong(row, path, value, "a number")
    elif not abs(value) <= LARGEST_NUMBER:
        faults.not_finite(row, path, value)
    else:
        return float(value)
    return 0.0


def texts(values: Sequence[Any], path: Path, faults: Faults) -> Sequence[str]:
    """Return texts; integers and truths as JSON writes them, whether they came as 1 or as 1.0."""
    if set(map(type, values)) <= {str}:
        return values
    return [value if type(value) is str else _text(row, value, path, faults) for row, value in enumerate(values)]


def _text(row: int, value: Any, path: Path, faults: Faults) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        if abs(value) <= LARGEST_EXACT:
            return str(int(value))
        faults.wrong(row, path, value, "an integer of at most 53 bits: send such an identifier as text")
    else:
        faults.wrong(row, path, value, "text, an integer or a boolean")
    return ""


def truths(values: Sequence[Any], path: Path, faults: Faults) -> NDArray[np.float64]:
    """Return 1 for true and 0 for false, shape (n,)."""
    if set(map(type, values)) <= {bool}:
        return np.array(values, np.float64)
    return np.array([_truth(row, value, path, faults) for row, value in enumerate(values)], np.float64)


def _truth(row: int, value: Any, path: Path, faults: Faults) -> float:
    if isinstance(value, bool | int | float) and value in (0, 1):
        return float(value)
    faults.wrong(row, path, value, "true or false")
    return 0.0


# ----------------------------------------------------------------------- times

MICROSECONDS: Final = 1_000_000
_ISO: Final = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?",
    re.ASCII,
)
"""The part of ISO 8601 that is read: a calendar date, with or without a time of day and an offset."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EARLIEST: Final = -62_135_596_800 * MICROSECONDS
_LATEST: Final = 253_402_300_800 * MICROSECONDS - 1
_PER_UNIT: Final = {"s": 1e6, "ms": 1e3, "us": 1.0}


def times(
    values: Sequence[Any] | Instants, path: Path, faults: Faults, format_: str, zone: ZoneTable
) -> NDArray[np.int64]:
    """Return times in microseconds since the epoch, shape (n,), from the year 1 to the year 9999.

    Parameters
    ----------
    values : sequence or Instants
        Of other formats than iso8601 a sequence.
    path : Path
    faults : Faults
    format_ : {"iso8601", "s", "ms", "us"}
    zone : ZoneTable
        The zone of texts that have no offset.
    """
    if isinstance(values, Instants):
        made = values.micros
        if values.local.any():
            made = made.copy()
            made[values.local] = _of_zone(made[values.local], zone)
        return made
    if format_ != "iso8601":
        return _counted(values, path, faults, _PER_UNIT[format_])
    if (alike := _alike(values)) is not None:
        return alike if values[0].endswith("Z") else _of_zone(alike, zone)
    read = [_iso(row, value, path, faults) for row, value in enumerate(values)]
    made = np.array([time for time, _ in read], np.int64)
    local = np.array([is_local for _, is_local in read], np.bool_)
    if local.any():
        made[local] = _of_zone(made[local], zone)
    return made


def _of_zone(local: NDArray[np.int64], zone: ZoneTable) -> NDArray[np.int64]:
    seconds, rest = np.divmod(local, MICROSECONDS)
    return zone.utc_of_local(seconds) * MICROSECONDS + rest


_SHAPES: Final[dict[int, str]] = {
    len(shape): shape
    for ending in ("", ".ddd", ".dddddd")
    for utc in ("", "Z")
    for shape in (f"dddd-dd-ddTdd:dd:dd{ending}{utc}",)
}
"""Texts that most streams have, a `d` for each digit, by their length."""


def _alike(values: Sequence[Any]) -> NDArray[np.int64] | None:
    """Return times that are all written in the same of `_SHAPES`, in microseconds; None where one is not, or is wrong.

    This only saves time: a tenth of that of a look at each.
    """
    if not len(values) or set(map(type, values)) != {str}:
        return None
    shape = _SHAPES.get(len(values[0]))
    text = "".join(values)
    if shape is None or set(map(len, values)) != {len(shape)} or not text.isascii():
        return None
    letters = np.frombuffer(text.encode(), np.uint8).reshape(len(values), len(shape))
    least = np.array([ord("0" if letter == "d" else letter) for letter in shape], np.uint8)
    digits = letters - least  # of what is less it is far more
    if (digits > np.array([9 if letter == "d" else 0 for letter in shape], np.uint8)).any():
        return None
    digits = np.ascontiguousarray(digits.T)
    year = _figure(digits, 0, 4)
    month, day, hour, minute, second = (_figure(digits, at, 2) for at in (5, 8, 11, 14, 17))
    fraction = [at for at, letter in enumerate(shape) if at > 19 and letter == "d"]
    micros = _figure(digits, 20, len(fraction)) * 10 ** (6 - len(fraction)) if fraction else 0
    months = (year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    last = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last - first)
    if not (valid & (hour <= 23) & (minute <= 59) & (second <= 59)).all():
        return None
    seconds = ((first + day - 1) * 24 + hour) * 3_600 + minute * 60 + second
    return np.asarray(seconds * MICROSECONDS + micros, np.int64)


def _figure(digits: NDArray[np.uint8], at: int, count: int) -> NDArray[np.int64]:
    """Return the number that some digits in a row write, shape (n,); `digits` has a row for each place."""
    made: NDArray[np.int64] = digits[at].astype(np.int64)
    for place in digits[at + 1 : at + count]:
        made *= 10
        made += place
    return made


def _counted(values: Sequence[Any], path: Path, faults: Faults, factor: float) -> NDArray[np.int64]:
    micros = np.floor(numbers(values, path, faults) * factor)
    beyond = ~((micros >= _EARLIEST) & (micros <= _LATEST))
    for row in np.flatnonzero(beyond).tolist():
        faults.not_finite(row, path, values[row])
    micros[beyond] = 0.0
    return micros.astype(np.int64)


def time_of_text(text: str) -> tuple[int, bool] | None:
    """Return a text's microseconds, and whether they are those of a zone's clocks; None if it is not a time."""
    faults = Faults()
    found = _iso(0, text, ("",), faults)
    return None if faults.by_row else found


def _iso(row: int, value: Any, path: Path, faults: Faults) -> tuple[int, bool]:
    """Return microseconds since the epoch, and whether they are those of a zone's clocks."""
    if isinstance(value, str) and (found := _ISO.fullmatch(value)) is not None:
        try:
            time = datetime.fromisoformat(value)
            if found.group(1) is None:
                return (time - _NAIVE_EPOCH) // _MICROSECOND, True
            micros = (time - _EPOCH) // _MICROSECOND
        except (ValueError, OverflowError):
            pass
        else:
            if _EARLIEST <= micros <= _LATEST:
                return micros, False
    faults.wrong(row, path, value, "a time such as 2026-01-31T12:00:00Z")
    return 0, False
