"""Commit whose answer is lost, applied or not."""

from __future__ import annotations

import pytest

from tests.faults.faulty import FaultyBroker, Trainee
from tests.live.proxy import Loss

SKIPPED = 6
FENCED = {47, 48, 49, 90}
"""Error codes of Kafka: invalid producer epoch, invalid transaction state, unknown producer id, producer fenced."""


def lose_a_commit(faulty: FaultyBroker, trainee: Trainee, *, applied: bool, repeats: bool = True) -> Loss:
    """Lose one commit in the midst of publishing; let the trainer finish."""
    writer = trainee.settings.output.models_topic.encode()
    faulty.proxy.loss = loss = Loss(writer, SKIPPED, applied=applied, repeats=repeats)
    trainee.begin()
    trainee.finish()
    assert loss.happened.is_set(), "no commit was lost: this shows nothing"
    faulty.counts["commits_unanswered"] += 1
    return loss


@pytest.mark.long(keep=("True",))
@pytest.mark.parametrize("applied", [True, False])
def test_an_unanswered_commit_is_looked_up(faulty: FaultyBroker, applied: bool) -> None:
    """However often the client asks, no answer: the topic is read, the version is there once."""
    lose_a_commit(faulty, faulty.trainee("impatient"), applied=applied)


@pytest.mark.long
@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_answered_at_the_second_time_is_done(faulty: FaultyBroker, applied: bool) -> None:
    """The connection breaks on the answer and the client asks again by itself: nothing else happens."""
    lose_a_commit(faulty, faulty.trainee("impatient"), applied=applied, repeats=False)


@pytest.mark.long
def test_a_late_commit_does_nothing(faulty: FaultyBroker) -> None:
    """A request that arrives after its writer was renewed is refused, and commits nothing of the next."""
    trainee = faulty.trainee("impatient")
    writer = trainee.settings.output.models_topic.encode()
    faulty.proxy.loss = loss = Loss(writer, SKIPPED, applied=False)
    trainee.begin().wait_for("producer_renewed")
    assert faulty.proxy.deliver_late(loss.frame) in FENCED
    faulty.counts["late_commits_refused"] += 1
    trainee.finish()


@pytest.mark.long
@pytest.mark.parametrize(("defect", "applied"), [("resends", True), ("assumes-success", False)])
def test_an_unanswered_commit_shows_a_defect(faulty: FaultyBroker, defect: str, applied: bool) -> None:
    """Planted: a trainer that publishes again unseen doubles a version, one that assumes success loses one."""
    with pytest.raises(AssertionError, match="a gap, or a number twice"):
        lose_a_commit(faulty, faulty.trainee("impatient", defect), applied=applied)
