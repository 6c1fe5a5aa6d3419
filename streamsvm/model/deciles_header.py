"""How a version's scores lay on its audit sample, in a header of its record: what drift of scores is measured against.

The header ``streamsvm.audit.scores`` holds a `streamsvm.model.deciles.Deciles`, such as ``{"n": 4096.0,
"cuts": [-1.2, 0.3], "shares": [0.4, 0.4, 0.2]}``. It is not part of the version's hash, and proves nothing: whoever may
write to the models topic can write any. A header that is damaged, or makes no sense, is passed over, and there is no
drift to show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

from streamsvm.model.deciles import LEAST_REFERENCE, TENTHS, Deciles

HEADER: Final = "streamsvm.audit.scores"
LARGEST_BYTES: Final = 2_048
"""Nine cuts and ten shares of at most 25 characters each take a quarter of it."""
DIGITS: Final = 9
"""Significant digits of a cut and of a share: the sample knows three."""


def encode(deciles: Deciles) -> str:
    """Return the header's content."""
    plain = {
        "n": _short(deciles.n),
        "cuts": [_short(cut) for cut in deciles.cuts],
        "shares": [_short(share) for share in deciles.shares],
    }
    return msgspec.json.encode(plain).decode()


def decode(headers: Iterable[tuple[str, bytes]]) -> Deciles | None:
    """Return what the headers of a version's record say; None if that is nothing, or nothing that makes sense."""
    found = dict(headers).get(HEADER)
    if found is None or len(found) > LARGEST_BYTES:
        return None
    try:
        deciles = msgspec.json.decode(found, type=Deciles)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return deciles if _plausible(deciles) else None


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _plausible(deciles: Deciles) -> bool:
    cuts, shares = deciles.cuts, deciles.shares
    if not 1 <= len(cuts) < TENTHS or len(shares) != len(cuts) + 1:
        return False
    if not all(map(math.isfinite, (*cuts, *shares, deciles.n))):
        return False
    ascending = all(one < other for one, other in pairwise(cuts))
    return ascending and min(shares) >= 0.0 and abs(sum(shares) - 1.0) < 1e-6 and deciles.n >= LEAST_REFERENCE
