"""Producer faster than the trainer, policy `every`: the input is paused and resumed."""

from __future__ import annotations

import pytest

from tests.faults.faulty import VERSIONS, FaultyBroker, Trainee
from tests.promise.topics import check_counts, check_promise


def pause_and_resume(faulty: FaultyBroker, trainee: Trainee) -> None:
    """Let a trainer, some of whose trainings take long, publish all versions but one; check them."""
    trainee.begin()
    trainee.wait_until(lambda: trainee.version() >= VERSIONS - 1, "all versions but one are out")
    assert trainee.daemon.stop() == 0
    pauses = len(trainee.daemon.events("paused"))
    assert pauses, "the input was never paused: this shows nothing"
    faulty.counts["pauses"] += pauses
    found = check_promise(trainee.direct, trainee.settings)
    check_counts(found)
    faulty.counts["versions"] += len(found)


@pytest.mark.long
def test_pausing_loses_nothing(faulty: FaultyBroker) -> None:
    """What the client drops when the input is paused is fetched again: each point is counted once, no cut skipped."""
    pause_and_resume(faulty, faulty.trainee("trains-slowly"))


@pytest.mark.faults_long
def test_pausing_shows_a_trainer_that_loses(faulty: FaultyBroker) -> None:
    """Planted: a trainer that does not go back for what was dropped is found out."""
    with pytest.raises(AssertionError, match=r"counts|recomputed"):
        pause_and_resume(faulty, faulty.trainee("trains-slowly", "drops-when-pausing"))
