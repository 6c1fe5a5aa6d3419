"""Numbers that an event holds in another notation than JSON's: as text for people, or as a connector's decimal.

**Text** (`parse = "text"`). A JSON number counts as it is. A text of at most 64 characters counts if it is, in this
order, with any number of spaces around 1, 5 and the whole:

1. a sign, ``+``, ``-`` or U+2212, and the feature's `currency`, each at most once, in any order;
2. figures 0 to 9; or, with `thousands`, one to three figures and then groups of three, the separator before each group;
3. the separator `decimal` and figures; with it part 2 may be left out;
4. ``e`` or ``E``, a sign or none, and one to three figures;
5. ``%``, not beside 4: the number is divided by 100; or the `currency`, unless it came in 1.

A space is U+0020, U+0009, U+00A0, U+2009 or U+202F. `thousands = " "` means any of them but the tab, and ``"'"`` also
U+2019. The value is the float64 nearest to the decimal number written. Nothing is guessed: a text that needs a
separator, or a currency, that the feature does not declare is refused.

**Decimal** (`parse = "decimal"`). A JSON number counts as it is. A text is base64 (RFC 4648, padded) of a two's
complement integer of 1 to 64 bytes, big endian; the value is the integer divided by 10^`scale`, rounded once. An object
with `value`, such a text, and `scale`, an integer, has its own scale. So Kafka Connect writes `Decimal`, and Debezium
`VariableScaleDecimal`, in JSON without their schemas.

Readers in other languages implement these rules from the message's schema; `notations.json` in `tests/golden/0.1.0` has
cells.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

MOST_CHARACTERS: Final = 64
MOST_BYTES: Final = 64
MOST_SCALE: Final = 100
"""With it and `MOST_BYTES` no decimal is beyond float64."""
DECIMAL_SEPARATORS: Final = (".", ",")
THOUSANDS_SEPARATORS: Final = ("", ",", ".", " ", "'", "_")
LONGEST_CURRENCY: Final = 8

_SPACE: Final = "[ \t\u00a0\u2009\u202f]*"
_SIGN: Final = "[+\\-\u2212]"
_CLASSES: Final[Mapping[str, str]] = {" ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)


def is_currency(text: str) -> bool:
    """Return whether a text can stand beside a number and be no part of it, in every language alike."""
    no_part = re.search("[\u0000-\u0020\u00a0\u2009\u202f0-9+\\-\u2212%.,'\u2019_\U00010000-\U0010ffff]", text) is None
    return 1 <= len(text) <= LONGEST_CURRENCY and text.isprintable() and no_part and text not in ("e", "E")


Parse = Callable[[Any], float | None]
"""Returns the number that a value writes; None if it writes none."""


def number_of_text(decimal: str, thousands: str, currency: str) -> Parse:
    """Return what reads texts of a notation."""
    figures = "[0-9]+"
    if thousands:
        figures += f"|[0-9]{{1,3}}(?:{_CLASSES.get(thousands, re.escape(thousands))}[0-9]{{3}})+"
    mark = re.escape(currency) if currency else "(?!)"
    form = re.compile(
        f"{_SPACE}(?:({_SIGN}){_SPACE})?(?:({mark}){_SPACE})?(?:({_SIGN}){_SPACE})?"
        f"({figures})?(?:{re.escape(decimal)}([0-9]+))?(?:[eE]([+-]?[0-9]{{1,3}}))?"
        f"(?:{_SPACE}(%))?(?:{_SPACE}({mark}))?{_SPACE}"
    )

    def parse(value: Any) -> float | None:
        if type(value) is not str or len(value) > MOST_CHARACTERS:
            return None
        found = form.fullmatch(value)
        if found is None:
            return None
        before, first, behind, whole, fraction, exponent, percent, last = found.groups()
        if (
            not (whole or fraction)
            or (before and behind)
            or (first and last)
            or (percent and (exponent or first or last))
        ):
            return None
        whole = re.sub("[^0-9]", "", whole or "0")
        sign = "-" if (before or behind or "+") != "+" else ""
        return float(f"{sign}{whole}.{fraction or '0'}e{-2 if percent else exponent or 0}")

    return parse


def number_of_decimal(scale: int | None) -> Parse:
    """Return what reads the decimals of connectors; without a scale only those that have their own."""

    def parse(value: Any) -> float | None:
        own = scale
        if isinstance(value, Mapping):
            own, value = scale_of(value.get("scale")), value.get("value")
        if own is None:
            return None
        raw = value if isinstance(value, bytes) else bytes_of(value)
        return None if raw is None else decimal_of(raw, own)

    return parse


def scale_of(value: Any) -> int | None:
    """Return a value as a scale; None if it is not an integer in range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_SCALE:
        return None
    return int(value) if value == int(value) else None


def bytes_of(text: Any) -> bytes | None:
    """Return the bytes that a text is the base64 of, as an encoder writes them; None if it is not."""
    if type(text) is not str or len(text) > 2 * MOST_BYTES or _BASE64.fullmatch(text) is None:
        return None
    try:
        raw = base64.b64decode(text)
    except binascii.Error:
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def decimal_of(raw: bytes, scale: int) -> float | None:
    """Return an integer, in two's complement and big endian, divided by a power of ten; None if it has no size."""
    if not 1 <= len(raw) <= MOST_BYTES or abs(scale) > MOST_SCALE:
        return None
    unscaled = int.from_bytes(raw, "big", signed=True)
    return unscaled / 10**scale if scale >= 0 else float(unscaled * 10**-scale)
