"""How far an objective can be above a lower bound, and how that is said to people: never rounded to say too much."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction


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


def percent(gap: float) -> str:
    """Return a gap for people: two digits, never rounded down."""
    shown = rounded(100 * Fraction(gap), 2, ROUND_CEILING)
    return f"{shown:.1e} %" if gap < 1e-5 else f"{shown:.2g} %"


def rounded(value: Fraction, digits: int, rounding: str) -> float:
    """Return what, shown with so many significant digits, is a number rounded in one direction."""
    return float(Context(prec=digits, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator)))


def rows_text(rows: int, bounded: int) -> str:
    """Return for people what is said of rows as they came, so many of which were bounded when learned."""
    every = "the one row" if rows == 1 else f"all {rows:,} rows"
    if not bounded:
        return every
    return f"{every} as they came (of these {bounded:,} {'was' if bounded == 1 else 'were'} bounded when learned)"
