"""Challenges of equals, and two scorers, killed again and again: decisions follow from the logs, nobody is promoted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.brokers.fixtures import TestBroker
from tests.faults.challenges import run

Note = Callable[[str, object], None]


@pytest.mark.long
@pytest.mark.parametrize(
    ("challenges", "kills"), [(3, 2), pytest.param(50, 30, marks=pytest.mark.faults_long)], ids=["3", "50"]
)
def test_equals_challenge_each_other_under_kills(
    real_broker: TestBroker, tmp_path: Path, challenges: int, kills: int, record_property: Note
) -> None:
    """`verify` comes to each decision again, and whoever was promoted is the better one."""
    found = run(real_broker.connection, challenges, kills, tmp_path, real_broker.name("equals"), seed=3)
    assert found["promoted_and_not_better"] == 0
    assert found["challenges"] >= challenges
    record_property("random_kills", kills)
