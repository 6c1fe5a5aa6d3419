"""What earlier rows are in the columns of another recipe, and what a partition holds of them then."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.options import recipe_from
from streamsvm.branches.events.recipe_changes import columns_between
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset import carried_over, check_partition
from streamsvm.learning import Learner
from streamsvm.points import Points, Position
from tests.branches.events.recipes import EVENTS, PAYMENTS, payment, payments
from tests.streams import rows_of


def changed(**others: Any) -> dict[str, Any]:
    """Return the tables of the payments with other features; None removes one."""
    made = {**copy.deepcopy(PAYMENTS), **others}
    return {name: table for name, table in made.items() if table is not None}


NEW = {"as": "number", "field": "tip", "missing": "indicator"}
ALLOWED: dict[str, dict[str, Any]] = {
    "nothing": changed(),
    "a number comes": changed(tip=NEW),
    "a constant comes": changed(tip={**NEW, "missing": {"constant": 2.5}, "log1p": True}),
    "buckets come": changed(tip={**NEW, "buckets": [1, 2]}),
    "a category, a hash and a time come": changed(
        kind={"as": "category", "values": ["a"], "missing": {"constant": "b"}},
        code={"as": "hash", "bits": 2, "missing": "indicator"},
        paid={"as": "time", "parts": ["hour", "month"], "zone": "Asia/Tokyo", "missing": "indicator"},
    ),
    "one goes": changed(vip=None, risk=None),
    "more values": changed(channel={"as": "category", "values": ["kiosk", "app", "web"]}),
    "another order": dict(reversed([one for one in PAYMENTS.items() if one[0] != "where"])),
    "a cross with a new one": {
        **changed(tip={**NEW, "missing": {"constant": 2}}),
        "both": {"as": "cross", "of": ["amount", "tip"]},
        "some": {"as": "cross", "of": ["country", "tip"]},
    },
}


@pytest.mark.parametrize("name", ALLOWED)
def test_earlier_rows_are_what_they_are_in_events_that_lack_the_new_fields(name: str) -> None:
    """Evaluated from the events themselves, by the new recipe; a value that a category gets did not come before."""
    recipe, events = recipe_from(ALLOWED[name], EVENTS), [payment(index) for index in range(300)]
    old, new = (columns_of(one).of_events(events) for one in (payments(), recipe))
    assert not new.faults
    columns = columns_between(payments(), recipe)
    np.testing.assert_array_equal(columns.of(old.X), new.X)


@pytest.mark.parametrize(
    ("features", "events", "said"),
    [
        (changed(amount="number"), EVENTS, "features.amount.log1p was True, and is now False"),
        (changed(amount={"as": "number", "log1p": True, "unit": 10}), EVENTS, "features.amount.unit was 1.0"),
        (changed(merchant={"as": "hash", "bits": 5, "seed": 7}), EVENTS, "features.merchant.bits was 4, and is now 5"),
        (changed(vip={"as": "category", "values": ["x"]}), EVENTS, 'features.vip was as = "flag"'),
        (
            changed(channel={"as": "category", "values": ["web"]}),
            EVENTS,
            "features.channel has no value 'app' any more",
        ),
        (changed(amount={"as": "number", "log1p": True, "field": "sum"}), EVENTS, "features.amount.field was"),
        (changed(tip={"as": "number"}), EVENTS, "features.tip is new, and earlier rows lack its field tip"),
        (
            {**changed(), "both": {"as": "cross", "of": ["amount", "vip"]}},
            EVENTS,
            "features.both crosses two features that were there before",
        ),
        (
            changed(),
            {**EVENTS, "label": {"field": "late", "negative": [0], "positive": [1]}},
            "events.label is another",
        ),
    ],
)
def test_what_earlier_rows_cannot_be_is_refused(features: Any, events: Any, said: str) -> None:
    """Another encoding, unit, width, field or label; a new field that must be there; sums that nobody has."""
    with pytest.raises(ValueError, match=said):
        columns_between(payments(), recipe_from(features, events))


def stream(n: int, seed: int) -> Points:
    """Return rows of three columns, of which the first decides."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) * [1.0, 5.0, 100.0]
    y = np.where(X[:, 0] + 0.3 * random.normal(size=n) > 0.0, 1, -1).astype(np.int8)
    return Points(X, y, random.uniform(0.5, 2.0, n))


def config_of(names: Sequence[str], **coreset: Any) -> ModelConfig:
    features = {name: {"as": "number", "missing": "indicator"} for name in names}
    recipe = recipe_from(features, EVENTS)
    columns = columns_of(recipe).names
    points = PointsConfig(dimension=len(columns), feature_names=columns, labels=(False, True), dtype="float64")
    return ModelConfig(points=points, features=recipe, coreset=CoresetConfig(points=600, **coreset))


@pytest.mark.parametrize("rows", [0, 1, 57, 300, 3_000])
@pytest.mark.parametrize("memory", ["all", "window", "decay", "adaptive"])
def test_sums_are_those_of_the_rows_in_the_new_columns(rows: int, memory: str) -> None:
    """Whatever was open: exact to rounding, and what comes later is learned on top, the same after a restart."""
    own = {"memory": memory, **{"window": {"window": 2_000}, "decay": {"half_life": 2_000}}.get(memory, {})}
    before, config = config_of("abc", **own), config_of("cda", **own)
    columns = columns_between(before.recipe, config.recipe)
    points = stream(rows, 1)
    wide = np.zeros((rows, 6))
    wide[:, ::2] = points.X
    learner = Learner(before, {0: Position(0)}, 1 << 30)
    if rows:
        learner.learn(rows_of(replace(points, X=wide)))
    state = learner.state()
    made = carried_over(state.partitions[0], columns, 0, before, config)
    assert (made.learned.rows, made.position) == (rows, state.partitions[0].position)
    check_partition(made, config)  # a checkpoint of it can be read
    if memory == "all" and rows:
        seen, weight = made.whole.moments, points.weight
        mapped = np.column_stack(
            [points.X[:, 2], 0.0 * weight, 0.0 * weight, 1.0 + 0.0 * weight, points.X[:, 0], 0.0 * weight]
        )
        if rows < 100:  # none is far enough away to be drawn in
            mean = np.average(mapped, axis=0, weights=weight)
            np.testing.assert_allclose(seen.mean, mean, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(seen.square, weight @ np.square(mapped - mean), rtol=1e-9, atol=1e-9)
        old = state.partitions[0].whole.moments
        np.testing.assert_allclose(seen.class_weight, old.class_weight, rtol=1e-12)
        np.testing.assert_allclose(seen.mean[[0, 4]], old.mean[[4, 0]], rtol=1e-12)
        assert (seen.mean[[1, 2, 3, 5]] == [0.0, 0.0, 1.0, 0.0]).all()
    more = stream(5_000, 2)
    wide = np.zeros((5_000, 6))
    wide[:, ::2] = more.X[:, [2, 1, 0]] * [1.0, 1e6, 1.0]  # the new column is of another size
    later = rows_of(replace(more, X=wide), first_offset=rows)
    one, other = (Learner(config, {0: Position(0)}, 1 << 30) for _ in range(2))
    one.restore(replace(state, partitions={0: made}))
    one.learn(later.slice(0, 1_234))
    other.restore(one.state())
    for learner in (one, other):
        learner.learn(later)
    first, second = one.cut(), other.cut()
    assert first.points.sha256() == second.points.sha256()
    if memory == "all":
        moments = first.moments
        weight = float(points.weight.sum() + more.weight.sum())
        assert moments.weight == pytest.approx(weight, rel=1e-3)
        spread = np.sqrt(np.square(5e6) * more.weight.sum() / weight)
        assert moments.scale[2] == pytest.approx(spread, rel=0.2)  # not drawn in to the columns of before


def test_a_configuration_names_the_recipes_of_before() -> None:
    """As plain JSON, which gives the same configuration and hash."""
    before, config = config_of("abc"), config_of("cda")
    earlier = {"features": before.recipe.plain(), "dimension": 6, "incarnation": 1, "weight": 7.5, "until": [[0, 7, 0]]}
    now = config.having(earlier=(earlier,))
    again = ModelConfig.of_canonical(json.loads(json.dumps(now.canonical())))
    assert (again, again.sha256()) == (now, now.sha256())
    assert now.learned_sha256() != config.learned_sha256()
    assert "earlier" not in config.canonical()
