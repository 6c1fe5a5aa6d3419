"""Configurations of trainers that learn events."""

from __future__ import annotations

from typing import Any, Final

from streamsvm.branches.events.options import points_of, recipe_from

FEATURES: Final = {"amount": "number", "paid": {"as": "time", "parts": ["hour"], "zone": "Europe/Berlin"}}
LABEL: Final = {"label": {"field": "fraud", "negative": [False], "positive": [True]}}


def sections_of(features: dict[str, Any]) -> dict[str, Any]:
    """Return the sections of `ModelConfig` that say what events become."""
    recipe = recipe_from(features, LABEL)
    return {"features": recipe, "points": points_of(recipe)}


KINDS: Final[dict[str, dict[str, Any]]] = {"events": sections_of(FEATURES)}
