"""Readers in Python, Node.js and Java score the same points, and refuse the same ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.brokers.jvm import CannotRun
from tests.interop.inputs import POINTS, answers

SCORED = {"in order", "integers", "by name", "by name, another order"}
OTHERWISE = {"true"}
"""Python counts booleans as numbers, as numpy does."""


def test_every_language_scores_and_refuses_alike(tmp_path: Path) -> None:
    """Shapes, names in another order, missing and unknown ones, null, infinity and text."""
    try:
        found = answers(tmp_path)
    except CannotRun as missing:
        pytest.skip(f"no readers in other languages: {missing}")
    decision = found["Python"][0]["decision"]
    for language, told in found.items():
        assert len(told) == len(POINTS), language
        for name, one in zip(POINTS, told, strict=True):
            if name in SCORED:
                assert one["decision"] == pytest.approx(decision, rel=1e-12), (language, name)
            elif language != "Python" or name not in OTHERWISE:
                assert re.search(r"3 features|\(n, 3\)|not the version's|finite number|not a number", one["error"]), one
