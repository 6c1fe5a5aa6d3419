"""Worlds whose records are raw events: the same records as those of points, through declared features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamsvm.branches.events.options import points_of, recipe_from
from tests.simulation.variants import RECORDS, Variant
from tests.simulation.world import Profile

RECIPE: Final = recipe_from(
    {"x": {"as": "number", "field": "x[0]"}, "mark": {"as": "hash", "field": "x[0]", "bits": 1}},
    {"label": {"field": "y", "negative": [-1], "positive": [1]}},
)


class RawEvents(Variant):
    """Features are declared."""

    def settle(self, sections: dict[str, Any]) -> None:
        """Declare them."""
        sections |= {"features": RECIPE, "points": points_of(RECIPE)}


EVENTS: Final = RawEvents("raw events", RECORDS, share=0.3)
VARIANTS: Final = (EVENTS,)
SMALLEST: Final[Mapping[str, Profile]] = {
    "raw events": Profile(
        "every", 1, 3, 400, {"kill": 3, "power loss": 1, "unanswered": 1, "deliver": 1}, variants=(EVENTS.name,)
    )
}
