"""Recognises texts that are numbers to people: formatted for them, or encoded by a connector."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Collection
from typing import Final

MOSTLY: Final = 0.95
"""Share of the distinct values that must be numbers."""
_CURRENCY: Final = "[$€£¥]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD"
_FORMATTED: Final = re.compile(
    rf"[+-]?\s?(?P<before>{_CURRENCY})?\s?[+-]?(?P<figures>[\d.,'\u2019\s]*\d)\s?(?:(?P<percent>%)|(?P<after>{_CURRENCY}))?"
)
_PLAIN: Final = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_GROUPED: Final = re.compile(r"\d{1,3}(?P<mark>[.,'\u2019\s])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d+)?", re.ASCII)
_COMMA: Final = re.compile(r"\d+,\d+", re.ASCII)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
_LONGEST_DECIMAL: Final = 16
"""Bytes of the largest decimals of databases."""
_PADDED: Final = 0.1
"""Share of values with padding without which texts are words rather than base64."""


def written_as(values: Collection[str], *, coded: bool) -> str | None:
    """Say how texts write numbers, and what to do; None if they are not numbers.

    Parameters
    ----------
    values : collection of str
        Distinct, at least one.
    coded : bool
        Also recognise figures without any format, and base64, which few values could be by chance.
    """
    found = Counter(notation for value in values if (notation := _notation(value)) is not None)
    if found.total() >= MOSTLY * len(values):
        marked = [notation for notation in ("currency", "percent", "thousands", "comma") if found[notation]]
        if marked or coded:
            what = " and ".join(_SHOWN[notation] for notation in marked)
            return f"numbers as text{f' with {what}' if what else ''}: {_REMEDY}"
    if coded and _is_base64(values):
        return f"base64 decimals, as connectors write them: let the connector send numbers (Debezium: {_DEBEZIUM})"
    return None


_DEBEZIUM: Final = "decimal.handling.mode = double"
_REMEDY: Final = 'send JSON numbers, such as 1234.5, and declare as = "number"'
_SHOWN: Final = {
    "currency": "a currency",
    "percent": "a percent sign",
    "thousands": "thousands separators",
    "comma": "a decimal comma",
}


def _notation(text: str) -> str | None:
    """Return what is unusual about a number: one of `_SHOWN`, or "plain"; None if the text is not a number."""
    found = _FORMATTED.fullmatch(text.strip())
    if found is None:
        return None
    figures = found["figures"].strip()
    shape = next((name for name, form in _SHAPES.items() if form.fullmatch(figures)), None)
    if shape is None:
        return None
    if found["before"] or found["after"]:
        return "currency"
    return "percent" if found["percent"] else shape


_SHAPES: Final = {"plain": _PLAIN, "thousands": _GROUPED, "comma": _COMMA}


def _is_base64(values: Collection[str]) -> bool:
    """Return whether all values are base64 of a decimal's bytes, and enough of them are padded, as words are not."""
    for value in values:
        try:
            size = len(base64.b64decode(value, validate=True)) if _BASE64.fullmatch(value) else 0
        except binascii.Error:
            return False
        if not 0 < size <= _LONGEST_DECIMAL:
            return False
    return sum(value.endswith("=") for value in values) >= _PADDED * len(values)
