"""Producer faster than the trainer, policy `every`: the input is paused and resumed."""

from __future__ import annotations

import pytest

from tests.faults.stage import FaultyBroker, Trainee


def pause_and_resume(trainee: Trainee) -> None:
    """Let a trainer, some of whose trainings take long, do all its work."""
    trainee.begin()
    trainee.finish()
    assert trainee.daemon.events("paused"), "the input was never paused: this shows nothing"


def test_pausing_loses_nothing(stage: FaultyBroker) -> None:
    """What the client drops when the input is paused is fetched again: each point is counted once, no cut skipped."""
    pause_and_resume(stage.trainee("trains_slowly"))


def test_pausing_shows_a_trainer_that_loses(stage: FaultyBroker) -> None:
    """Planted: a trainer that does not go back for what was dropped is found out."""
    with pytest.raises(AssertionError, match=r"counts|took too long"):
        pause_and_resume(stage.trainee("trains_slowly", "drops_when_pausing"))
