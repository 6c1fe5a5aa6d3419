"""How far a version can be from the best possible model over all rows of its stream; and the header that says it.

The header is not hashed: readers that do not know it go on reading. Whoever makes the version again from the log makes
these bounds again, and can compare every byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, Literal

import msgspec

HEADER: Final = "streamsvm.certificate"
LARGEST_BYTES: Final = 512
Kind = Literal["proven", "estimated"]


class Certified(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Bounds of the optimum over all rows as they came, and of the version's objective there.

    Attributes
    ----------
    lower : float
        No model over the same scaler, C and class weights has a smaller objective 1/2 |w|^2 + C sum u k(y) hinge;
        proven. 0 says nothing.
    upper : float
        The version's objective over all rows is at most this.
    kind : str
        `proven`: `upper` holds for certain; `estimated`: it is the end of the audit's 95 % interval.
    rows : int
        Valid rows that this is of.
    held : int
        Rows that were still held as they are; of all others there were totals.
    strata : int
        Sets of rows of which there were totals.
    bounded : int
        Rows that were learned with other values than they came with: outliers within their bounds. They count as they
        came.
    """

    lower: float
    upper: float
    kind: Kind
    rows: int
    held: int
    strata: int
    bounded: int = 0

    @property
    def gap(self) -> float | None:
        """(upper - lower) / lower, not rounded down; None where that says nothing."""
        return gap_of(self.upper, self.lower)

    @property
    def makes_sense(self) -> bool:
        """Whether the numbers can be what they say."""
        counts = self.held, self.strata, self.bounded
        return (
            0.0 <= self.lower <= self.upper < math.inf
            and min(counts) >= 0
            and self.rows >= max(self.held, self.bounded)
        )

    def __str__(self) -> str:
        rows, gap = rows_text(self.rows, self.bounded), self.gap
        if gap is None:
            return f"nothing is proven over {rows}: the lower bound is 0"
        if self.kind == "proven":
            return f"proven within {percent(gap)} of the best possible model over {rows}"
        return (
            f"within {percent(gap)} of the best possible model over {rows}, by an audit that is right 95 times in 100"
        )


def gap_of(objective: float, bound: float) -> float | None:
    """Return (objective - bound) / bound, not rounded down; None where the bound is 0 or the objective infinite."""
    if not (bound > 0.0 and math.isfinite(objective)):
        return None
    exact = (Fraction(objective) - Fraction(bound)) / Fraction(bound)
    try:
        nearest = float(exact)
    except OverflowError:
        return None
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def rows_text(rows: int, bounded: int) -> str:
    """Return for people what bounds are of."""
    every = "the one row" if rows == 1 else f"all {rows:,} rows"
    if not bounded:
        return every
    return f"{every} as they came (of these {bounded:,} {'was' if bounded == 1 else 'were'} bounded when learned)"


def learned_text(rows: int, bounded: int) -> str:
    """Return for people what bounds of rows as they were learned are of."""
    every = f"all {rows:,} rows"
    if not bounded:
        return every
    return f"{every} as they were learned (of these {bounded:,} {'was' if bounded == 1 else 'were'} bounded)"


def percent(gap: float) -> str:
    """Return a gap for people: two digits, never rounded down."""
    shown = rounded(100 * Fraction(gap), 2, ROUND_CEILING)
    return f"{shown:.1e} %" if gap < 1e-5 else f"{shown:.2g} %"


def rounded(value: Fraction, digits: int, rounding: str) -> float:
    """Return what, shown with so many significant digits, is a number rounded in one direction."""
    return float(Context(prec=digits, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator)))


def bounds_text(certified: Certified) -> str:
    """Return both bounds for people, neither rounded to the side that says too much."""
    upper = rounded(Fraction(certified.upper), 9, ROUND_CEILING)
    lower = rounded(Fraction(certified.lower), 9, ROUND_FLOOR)
    return f"its objective is at most {upper:.9g}, and that of no model is below {lower:.9g}"


def encode(certified: Certified) -> str:
    """Return the header's content: the same bounds give the same bytes."""
    return msgspec.json.encode(certified, order="deterministic").decode()


def decode(headers: Iterable[tuple[str, bytes]]) -> Certified | None:
    """Return what the headers of a version's record say; None if that is nothing, or nothing that makes sense."""
    found = dict(headers).get(HEADER)
    if found is None or len(found) > LARGEST_BYTES:
        return None
    try:
        read = msgspec.json.decode(found, type=Certified)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return read if read.makes_sense else None
