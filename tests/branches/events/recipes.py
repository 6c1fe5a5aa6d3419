"""Recipes and events that several tests take."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

from streamsvm.branches.events.features.columns import Evaluated, columns_of
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import recipe_from

TABLES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("payments.toml").read_text())
PAYMENTS, EVENTS = TABLES["features"], TABLES["events"]


def payments() -> Recipe:
    """Return a recipe with every kind of feature."""
    return recipe_from(PAYMENTS, EVENTS)


def payment(index: int) -> dict[str, Any]:
    """Return a made-up event; the same number makes the same event."""
    chance = random.Random(index)
    fraud = chance.random() < 0.3
    event: dict[str, Any] = {
        "id": f"p{index}",
        "ts": f"2026-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}T{chance.randint(10, 23)}:15:30Z",
        "amount": round(chance.expovariate(0.01) * (3 if fraud else 1), 2),
        "risk": chance.choice([None, chance.random()]),
        "customer": {"since": "2025-06-01", "age": chance.choice([None, chance.randint(18, 99)])},
        "items": [{"price": chance.randint(1, 90)} for _ in range(chance.randint(0, 2))],
        "card": {"country": chance.choice(["DE", "FR", "US", "BR", None])},
        "channel": "app" if fraud and chance.random() < 0.8 else chance.choice(["web", "app", "till"]),
        "merchant": f"shop-{chance.randint(0, 300)}",
        "vip": chance.random() < 0.1,
        "is_fraud": fraud,
    }
    if event["risk"] is None and chance.random() < 0.5:
        del event["risk"]
    return event


def evaluated(features: dict[str, Any], *events: dict[str, Any]) -> Evaluated:
    """Evaluate events by the features of a configuration."""
    return columns_of(recipe_from(features, {})).of_events(events)


def row(features: dict[str, Any], event: dict[str, Any]) -> dict[str, float]:
    """Return the columns of one event by their names; the event is a valid one."""
    columns = columns_of(recipe_from(features, {}))
    made = columns.of_events([event])
    assert not made.faults
    return dict(zip(columns.names, made.X[0].tolist(), strict=True))
