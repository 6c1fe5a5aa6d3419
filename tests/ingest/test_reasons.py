"""Reasons of a score: what each field adds, and that nothing is lost between them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.scored import BatchScorer
from streamsvm.kafka import Record
from streamsvm.model import Float, LinearMachine, Model, Reasons, Scaler, Version
from streamsvm.registry import Loaded
from tests.golden import model as golden


def scorer(version: Version, reasons: int = 0) -> BatchScorer:
    return BatchScorer(
        version,
        "",
        max_record_bytes=100_000,
        max_message_bytes=100_000,
        reasons=reasons,
    )


def loaded(version: Version) -> Loaded:
    return Loaded(version=version, sha256="", offset=0, loaded_at=0.0)


def of_points(d: int, names: tuple[str, ...] = ()) -> Version:
    """Return a linear version of d features."""
    chance = np.random.default_rng(d)
    scaler = Scaler(chance.normal(size=d) * 1e3, chance.uniform(1e-3, 1e3, d))
    model = Model(scaler, LinearMachine(chance.normal(size=d), 0.25), feature_names=names)
    return replace(golden.handmade("linear"), model=model, feature_names=names)


def terms(version: Version, x: Any) -> Float:
    """Return what each column adds to a decision value."""
    model = version.model
    assert isinstance(model, Model)
    assert isinstance(model.machine, LinearMachine)
    return np.asarray((x - model.scaler.mean) / model.scaler.scale * model.machine.coefficients)


def summed(version: Version, x: Any) -> float:
    """Return the sum of the magnitudes of what a decision value is summed of."""
    return float(np.abs(terms(version, x)).sum()) + 0.25


def total(why: Reasons) -> float:
    return why.baseline + sum(one.adds for one in why.fields) + why.rest


@pytest.mark.parametrize("d", [1, 2, 3, 8, 50, 400, 2_000])
@pytest.mark.parametrize("most", [1, 3, 2_000])
def test_reasons_sum_to_the_decision_value(d: int, most: int) -> None:
    """Within 1e-12 of what is summed, whatever share of the fields is named; the largest are."""
    version = of_points(d)
    X = np.random.default_rng(99).normal(size=(20, d)) * 1e3
    found = loaded(version).explain(X, most)
    for x, value, why in zip(X, loaded(version).decision_function(X), found, strict=True):
        assert total(why) == pytest.approx(value, rel=0, abs=1e-12 * summed(version, x))
        sizes = [abs(one.adds) for one in why.fields]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) == min(most, d)
        np.testing.assert_allclose(sizes, np.sort(np.abs(terms(version, x)))[::-1][:most])
    assert why.fields[0].field.startswith("x[")


def test_the_mean_row_is_the_baseline_and_has_no_reasons() -> None:
    """What adds nothing is not named."""
    version = of_points(4, ("a", "b", "c", "d"))
    (why,) = loaded(version).explain([version.model.scaler.mean], 3)
    assert why == Reasons(baseline=0.25, fields=(), rest=0.0)
    x = version.model.scaler.mean + np.array([0.0, 0.0, 1.0, 0.0])
    (why,) = loaded(version).explain([dict(zip("abcd", x, strict=True))], 3)
    assert [one.field for one in why.fields] == ["c"]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("rbf", "a kernel's decision value does not split"),
        ("linear-classes", "of two labels"),
        ("additive-rest", "of two labels"),
    ],
)
def test_what_has_no_reasons_is_refused(kind: str, what: str) -> None:
    """By reader and scorer, with what to do instead."""
    version = golden.handmade(kind)
    with pytest.raises(ConfigurationError, match=rf"reasons of the scores of {version.key}.*{what}.*Train a"):
        loaded(version).explain(np.zeros((1, version.model.dimension)), 3)
    with pytest.raises(ConfigurationError, match=r"set scoring\.reasons = 0"):
        scorer(version, 3)
    scorer(version)


def test_a_score_says_its_reasons() -> None:
    """In an array, those of its own row, bad rows between them left out; without the option none."""
    version = of_points(2)
    rows = [[1.0, 2.0], [float(10**300), 1.0], [-3.0, 0.5]]
    value = json.dumps([{"x": row} for row in rows] + [{"x": [1]}, {"x": [4.0, 4.0]}]).encode()
    record = Record("points", 0, 0, None, value, (), None, None)
    (told,) = scorer(version, 1).score([record]).records
    scores = json.loads(told.value)
    assert [score["row"] for score in scores] == [0, 2, 4]
    expected = loaded(version).explain([rows[0], rows[2], [4.0, 4.0]], 1)
    for score, why in zip(scores, expected, strict=True):
        (field,) = score["reasons"]["fields"]
        assert field == {"field": why.fields[0].field, "adds": why.fields[0].adds}
        assert score["reasons"]["baseline"] + field["adds"] + score["reasons"]["rest"] == pytest.approx(score["score"])
    (plain,) = scorer(version).score([record]).records
    assert all("reasons" not in score for score in json.loads(plain.value))
