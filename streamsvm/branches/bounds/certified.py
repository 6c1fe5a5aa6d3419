"""How far a version can be from the best possible model over all rows of its stream; and the header that says it.

The header is not hashed: readers that do not know it go on reading. Whoever makes the version again from the log makes
these bounds again, and can compare every byte.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from typing import Final, Literal

import msgspec

from streamsvm.model.gap import gap_of, percent, rounded, rows_text
from streamsvm.model.version_bounds import Header

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
    def proven(self) -> bool:
        """Whether `upper` holds for certain."""
        return self.kind == "proven"

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
        if self.proven:
            return f"proven within {percent(gap)} of the best possible model over {rows}"
        return (
            f"within {percent(gap)} of the best possible model over {rows}, by an audit that is right 95 times in 100"
        )

    def header(self) -> tuple[str, str]:
        """Return name and content of the header: the same bounds give the same bytes."""
        return HEADER, msgspec.json.encode(self, order="deterministic").decode()

    def plain(self) -> dict[str, object]:
        """Return everything as a plain JSON value."""
        return {**msgspec.to_builtins(self), "gap": self.gap}

    def figures(self) -> str:
        """Return both bounds for people, neither rounded to the side that says too much."""
        upper = rounded(Fraction(self.upper), 9, ROUND_CEILING)
        lower = rounded(Fraction(self.lower), 9, ROUND_FLOOR)
        return f"its objective is at most {upper:.9g}, and that of no model is below {lower:.9g}"


def decode(content: bytes) -> Certified | None:
    """Return what a header says; None if that is nothing that makes sense."""
    if len(content) > LARGEST_BYTES:
        return None
    try:
        read = msgspec.json.decode(content, type=Certified)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return read if read.makes_sense else None


PLUGGED: Final = Header(HEADER, decode)
