"""The first version to become current under `output.gate = shadow`."""

from __future__ import annotations

from typing import cast

from consumers.branches.challenges.shadow_gate import ShadowGate
from consumers.metrics import TRAINER, Metrics
from consumers.trainer.gatekeeping import MarginGate
from streamsvm.learning.cutting import Cut
from tests.codec.test_model import version_of


def test_the_first_promotion_needs_no_challenge() -> None:
    """Under output.gate = shadow there is no current version that it could be compared with."""
    gate = ShadowGate(MarginGate(0.1, None, lambda: (), Metrics(TRAINER)), None, Metrics(TRAINER))
    said = gate.judge(version_of(), cast(Cut, None))  # of a version without a rival no point is looked at
    assert said is not None
    assert (said.outcome, said.holds_back) == ("unscored", False)
