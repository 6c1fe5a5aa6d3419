"""Tables by what `features infer` proposes and a person changes, beside scikit-learn's encoders on the same choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.tables import TABLES, compared, inferred, orders, written

CLOSE = 0.002
"""Between two areas under the curve."""


@pytest.mark.parametrize("name", ["orders", "tumours"])
def test_a_table_is_told_apart_as_by_scikit_learns_pipeline(name: str, tmp_path: Path) -> None:
    """Texts, nulls, times, flags; on rows that neither has seen."""
    table = next(one for one in TABLES if one.name == name)
    found = compared(table, table.rows(tmp_path)[:3_000], tmp_path)
    assert found["auc"] == pytest.approx(found["auc_of_scikit_learn"], abs=CLOSE)
    assert found["auc"] > 0.75


def test_infer_says_of_each_field_why(tmp_path: Path) -> None:
    """An identifier, a constant and a leak are left out; many values are hashed; nulls are made up for."""
    written(orders(2_000), tmp_path / "orders.csv")
    made = {str(one.path[0]): one for one in inferred(tmp_path / "orders.csv", "y").fields}
    whys = {name: one.why for name, one in made.items() if one.options is None}
    assert whys.keys() == {"order", "schema", "refunded"}
    assert whys["order"].startswith("identifier")
    assert whys["schema"].startswith("constant")
    assert whys["refunded"].startswith("leak suspected")
    kinds = {name: one.options["as"] for name, one in made.items() if one.options is not None}
    assert kinds == {
        "ts": "time",
        "amount": "number",
        "country": "category",
        "channel": "category",
        "merchant": "hash",
        "vip": "flag",
        "age": "number",
    }
    assert "too many for a vocabulary" in made["merchant"].why
    assert made["country"].options is not None
    assert made["country"].options["missing"] == "indicator"
    assert made["age"].options is not None
    assert made["age"].options["missing"].keys() == {"constant"}
    assert made["amount"].options is not None
    assert made["amount"].options["log1p"]
