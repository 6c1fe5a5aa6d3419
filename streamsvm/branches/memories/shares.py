"""Which horizons count: shares that follow what was right of late, and can come back.

A *horizon* is a suffix of the stream that begins at a border. Something was learned of each (an expert); how often it
is wrong on rows that it has not learned is all that is known here. Two mixtures follow that:

- *Slots* are lengths: slot i is the shortest horizon of 2^i spans or more, the last one everything. They stay while
  borders go, so that "what is 4 spans long was good so far" is remembered. v_i becomes v_i exp(-rate (e_i - min e)),
  then (1 - share) v_i + share / K: fixed share, by which a slot that was bad for long is back within a few spans.
- *Starts* are borders: "all since the change". w_s likewise; a border that is merged away drops out, and a new one gets
  `NEW`.

The two mixtures are mixed by the same rule. What comes out is a share for each border, which sum to 1.

Invariant: pure arithmetic in the order of the borders; the same errors give the same bits.

Sources: Herbster and Warmuth 1998 (fixed share). Two mixtures over dyadic lengths and over starts are our own, as are
the rates, which were chosen on made streams (SEA, a turning hyperplane, AGRAWAL) and turned labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SLOT_RATE: Final = 0.2
"""Of an error of 200 rows. Higher: a slot that was lucky takes all."""
START_RATE: Final = 0.5
MIX_RATE: Final = 0.5
SHARED: Final = 0.05
"""Share that is dealt out anew each time. 0: what was once bad never comes back."""
NEW: Final = 0.05
"""Share of a border that is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Both mixtures.

    Attributes
    ----------
    slots : tuple of float
        v, of each length, the shortest first; they sum to 1, or there is none.
    borders : tuple of int
        Rows learned where each horizon begins, ascending.
    starts : tuple of float
        w, of each border.
    mix : tuple of (float, float)
        Shares of slots and of starts.
    """

    slots: tuple[float, ...] = ()
    borders: tuple[int, ...] = ()
    starts: tuple[float, ...] = ()
    mix: tuple[float, float] = (0.5, 0.5)

    def by_slots(self, end: int, span: int) -> list[float]:
        """Return the share of each border by lengths alone, where the stream ends after so many rows."""
        found = [0.0] * len(self.borders)
        for share, at in zip(self.slots, self._places(end, span), strict=True):
            found[at] += share
        return found

    def by_border(self, end: int, span: int) -> list[float]:
        """Return the share of each border."""
        pairs = zip(self.by_slots(end, span), self.starts, strict=True)
        return [self.mix[0] * slot + self.mix[1] * start for slot, start in pairs]

    def judged(self, errors: Sequence[float], mixed: tuple[float, float], end: int, span: int) -> Shares:
        """Return what the shares become.

        Parameters
        ----------
        errors : sequence of float
            How many rows each border's expert got wrong.
        mixed : two floats
            The same of the mixture by slots and of that by starts.
        end, span : int
            Rows learned before these, and rows of a span.
        """
        if not self.borders:
            return self
        of_slots = [errors[at] for at in self._places(end, span)]
        first, second = _shared(self.mix, mixed, MIX_RATE)
        return Shares(
            slots=_shared(self.slots, of_slots, SLOT_RATE),
            borders=self.borders,
            starts=_shared(self.starts, errors, START_RATE),
            mix=(first, second),
        )

    def moved(self, borders: Sequence[int], end: int, span: int) -> Shares:
        """Return the shares over other borders, ascending: of those that are gone, and of those that are new."""
        known = dict(zip(self.borders, self.starts, strict=True))
        kept = [known.get(border, 0.0) for border in borders]
        fresh = [border not in known for border in borders]
        total, new = sum(kept), NEW * sum(fresh)
        if total <= 0.0 or new >= 1.0:
            starts = [1.0 / len(borders)] * len(borders)
        else:
            starts = [NEW if is_new else (1.0 - new) * own / total for own, is_new in zip(kept, fresh, strict=True)]
        slots, count = list(self.slots), _slots_of((end - borders[0]) / span)
        while len(slots) < count:
            slots.append(1.0 / (len(slots) + 1))
        whole = sum(slots[:count])
        return Shares(
            slots=tuple(one / whole for one in slots[:count]),
            borders=tuple(borders),
            starts=tuple(starts),
            mix=self.mix,
        )

    def _places(self, end: int, span: int) -> list[int]:
        """Return the place of each slot's border."""
        places = []
        for slot in range(len(self.slots)):
            long_enough = [at for at, border in enumerate(self.borders) if end - border >= span << slot]
            places.append(long_enough[-1] if long_enough else 0)
        return places


def _slots_of(spans: float) -> int:
    return 1 + max(0, math.ceil(math.log2(spans))) if spans > 0.0 else 1


def _shared(shares: Sequence[float], errors: Sequence[float], rate: float) -> tuple[float, ...]:
    least = min(errors)
    grown = [share * math.exp(-rate * (one - least)) for share, one in zip(shares, errors, strict=True)]
    total = sum(grown)
    return tuple((1.0 - SHARED) * one / total + SHARED / len(grown) for one in grown)
