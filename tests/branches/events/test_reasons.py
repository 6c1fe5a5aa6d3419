"""Reasons of a score name fields of raw events."""

from __future__ import annotations

import pytest

from tests.branches.events.recipes import payment
from tests.branches.events.test_interop import version as of_payments
from tests.ingest.test_reasons import loaded, summed, terms, total


def test_columns_of_a_field_count_together() -> None:
    """A category, a hash, a time and an indicator are one fact each; a cross is of two fields."""
    version = of_payments()
    event = payment(3)
    (why,) = loaded(version).explain([event], 100)
    names = {one.field for one in why.fields}
    whole = {"amount", "risk", "customer.age", "items[0].price", "card.country", "channel", "merchant", "vip", "ts"}
    assert names == whole | {"card.country x channel"}
    assert why.rest == 0.0
    (x,) = loaded(version).features([event])
    assert total(why) == pytest.approx(loaded(version).score(event).score, rel=0, abs=1e-12 * summed(version, x))
    country = next(one.adds for one in why.fields if one.field == "card.country")
    columns = loaded(version).columns
    assert columns is not None
    assert country == pytest.approx(terms(version, x)[columns.places["country"]].sum(), rel=1e-12)
