"""Numbers that an event holds as text for people, and not in JSON's notation.

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

Readers in other languages implement these rules from the message's schema; `notations.json` in `tests/golden/0.1.0` has
cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

MOST_CHARACTERS: Final = 64
DECIMAL_SEPARATORS: Final = (".", ",")
THOUSANDS_SEPARATORS: Final = ("", ",", ".", " ", "'", "_")
LONGEST_CURRENCY: Final = 8

_SPACE: Final = "[ \t\u00a0\u2009\u202f]*"
_SIGN: Final = "[+\\-\u2212]"
_CLASSES: Final[Mapping[str, str]] = {" ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}


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
