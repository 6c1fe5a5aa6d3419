"""Whether a start goes on with a join: the table's rows about the log of labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamsvm.branches.late_labels.joining import joining_of, with_joining
from streamsvm.branches.late_labels.present import LabelsPresent
from streamsvm.checkpoint import Snapshot
from streamsvm.delivery import Resume, reads_on
from streamsvm.errors import StateError
from streamsvm.points import Position
from tests.branches.late_labels.golden import with_join
from tests.delivery.test_delivery import decide, present, saved

LABELS = LabelsPresent("labels", "of labels", {0: (0, 50)})


def joined(**changes: object) -> Snapshot:
    """Return a checkpoint of a join that stands at offset 9 of the features and 6 of the labels."""
    held = with_join(saved(head=None))
    own = joining_of(held)
    assert own is not None
    state = own.partitions[0]
    at = replace(
        state,
        features=replace(state.features, next=Position(9), leader_epoch=-1),
        labels=replace(state.labels, next=Position(6)),
    )
    joining = replace(own, topic_id="of labels", partitions={0: at}, **changes)  # type: ignore[arg-type]
    learner = replace(held.learner, partitions={0: held.learner.partitions[0]})
    return with_joining(replace(held, base={0: Position(0)}, learner=learner, pending=None), joining)


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"topic": "others"}, "'labels', but labels.topic is 'others'"),
        ({"topic_id": "new"}, "the topic has the id new: it was recreated"),
        ({"log": {0: (0, 5)}}, r"at offset 6 of labels\[0\], but labels\[0\] ends at 5"),
        ({"log": {0: (8, 50)}}, r"labels\[0\] begins at 8: retention removed 2 unread records"),
        ({"log": {0: (0, 50), 1: (0, 3)}}, "where partitions are added, keys move"),
    ],
)
def test_other_labels_than_a_checkpoint_was_made_with_are_refused(found: dict[str, Any], named: str) -> None:
    """Another topic, a recreated or truncated one, one whose records are gone: named, with the way out."""
    log = {0: (0, 100)}
    assert isinstance(decide(joined(), present(log=log, beside=(LABELS,))), Resume)
    with pytest.raises(StateError, match=named) as refused:
        decide(joined(), present(log=log, beside=(replace(LABELS, **found),)))
    assert "--reset m/1" in str(refused.value)


def test_a_join_goes_on_where_both_logs_are_merged_not_where_learning_stands() -> None:
    """Rows that wait for labels are in the checkpoint: the features log may have lost what was merged, and no more."""
    held = joined()
    assert reads_on(held, 0, 9, 100) == 9
    assert isinstance(decide(held, present(log={0: (9, 100)}, beside=(LABELS,))), Resume)
    with pytest.raises(StateError, match="retention removed 1 unread records"):
        decide(held, present(log={0: (10, 100)}, beside=(LABELS,)))


def test_what_the_first_checkpoint_of_a_life_is_to_read_must_still_be_in_both_logs() -> None:
    """It is written before anything is joined: where both logs begin to count is what comes next."""
    held = joined()
    joining, at = joining_of(held), held.learner.partitions[0].position.offset
    assert joining is not None
    first = with_joining(held, replace(joining, partitions={}, base={0: Position(3)}))
    kept = {0: (at, 100)}, replace(LABELS, log={0: (3, 50)})
    assert isinstance(decide(first, present(log=kept[0], beside=(kept[1],))), Resume)
    with pytest.raises(StateError, match=rf"at offset {at} of t\[0\].*removed 1 unread records.*--reset m/1"):
        decide(first, present(log={0: (at + 1, 100)}, beside=(kept[1],)))
    with pytest.raises(StateError, match=r"at offset 3 of labels\[0\].*removed 2 unread records.*--reset m/1"):
        decide(first, present(log=kept[0], beside=(replace(LABELS, log={0: (5, 50)}),)))
