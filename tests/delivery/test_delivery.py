"""What publishing admits, and what a look at a log finds; `tests/contract` has the table of a start."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest

from streamsvm.checkpoint import Snapshot
from streamsvm.delivery.decision import Begin, Candidate, Present, Resume, decide as decide_among, places, reads_on
from streamsvm.delivery.input_survey import LogSurvey, Look, survey
from streamsvm.delivery.machine import TRANSITIONS, Continued, Delivery, Event, State
from streamsvm.errors import Fenced, StateError
from streamsvm.learning.naming import in_force
from streamsvm.learning.tuning import Tuning
from streamsvm.model import Head, Owner, PartitionCut
from streamsvm.points import Position
from tests.checkpoint.test_checkpoint import snapshot
from tests.streams import head_of

CONFIG = {"seed": 1, "coreset": {"points": 2}}


def head(number: int = 3, offset: int = 40, incarnation: int = 1) -> Head:
    return head_of(number, [PartitionCut(0, offset, 0, 0)], incarnation=incarnation)


def saved(**changes: object) -> Snapshot:
    return replace(snapshot(), configuration=CONFIG, configuration_sha256="same", **changes)  # type: ignore[arg-type]


def present(**changes: object) -> Present:
    plain = Present(
        name="m",
        topic="t",
        topic_id="id",
        configuration=CONFIG,
        configuration_sha256="same",
        log={0: (0, 100), 2: (0, 100)},
        head=None,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def decide(snapshot: Snapshot | None, present: Present) -> Begin | Resume:
    return decide_among([] if snapshot is None else [Candidate(snapshot)], present)


def test_what_held_nothing_to_learn_may_be_removed() -> None:
    """Markers of transactions and aborted records past the position, known to be no more than that: no gap."""
    kept = saved(read_to={0: 60})
    within = head_of(1, [PartitionCut(0, 40, 3, 0)])
    assert places(kept, within) == [(0, 40), (0, 49)], "read last, also within a record"
    assert [reads_on(kept, 0, first, 100) for first in (0, 50, 51, 60)] == [50, 50, 60, 60]
    for first, end in ((61, 100), (55, 59)):
        with pytest.raises(StateError, match="unread"):
            decide(kept, present(log={0: (first, end), 2: (0, 100)}))


ALONE = Continued()
OWNER = Owner("me", "2026-01-01T00:00:00+00:00")


def ready(incarnation: int = 1, at: Head | None = None, trained: str = "", continued: Continued = ALONE) -> Delivery:
    """Return the delivery of a process that has started."""
    delivery = Delivery("m", OWNER.session, trained)
    delivery.fits()
    delivery.taken()
    delivery.settled()
    delivery.owned()
    delivery.begins(OWNER, incarnation, at, at, continued)
    return delivery


def doubting(delivery: Delivery) -> Delivery:
    """Return it after a transaction that ended in doubt, with a new producer."""
    delivery.sends()
    delivery.doubts()
    delivery.taken()
    delivery.settled()
    return delivery


def test_numbers_go_on_and_parents_chain() -> None:
    """The next version follows the head in number and names it as parent."""
    delivery = ready()
    assert (delivery.next_number, delivery.parent) == (1, None)
    delivery.sends()
    delivery.published(head(1))
    assert (delivery.next_number, delivery.parent) == (2, "ab" * 32)


def test_only_a_later_cut_is_admitted() -> None:
    """Componentwise at or past the head's, and different; a partition the head does not know counts as ahead."""
    delivery = ready(at=head(offset=40))
    assert not delivery.admits({0: Position(39)})
    assert not delivery.admits({0: Position(40)})
    assert delivery.admits({0: Position(40, 1)})
    assert delivery.admits({0: Position(40), 1: Position(0)})
    assert not delivery.admits({0: Position(39), 1: Position(5)})
    assert not delivery.admits({1: Position(5)})


def test_a_new_incarnation_is_not_bound_by_the_old_ones_cut() -> None:
    """After a reset the stream is learned from its base again: its first cuts may lie before the old head."""
    delivery = ready(2, head(number=9, offset=40, incarnation=1))
    assert delivery.admits({0: Position(8)})
    assert delivery.next_number == 10
    assert not delivery.replaying({0: Position(0)})


def test_other_options_of_training_are_those_of_the_next_version() -> None:
    """It may have the head's cut, once, and tunes anew; so does one that goes on without erased rows."""
    tuning = Tuning(alpha=1e-3, C=None, gamma=None, cut=head().cut, rows=40)
    tuned = msgspec.structs.replace(head(offset=40), tuning=in_force(tuning), trained_sha256="a")
    same, other = ready(at=tuned, trained="a"), ready(at=tuned, trained="b")
    assert (same.retrains, same.tuning, same.admits({0: Position(40)})) == (False, tuning, False)
    assert (other.retrains, other.tuning, other.admits({0: Position(40)})) == (True, None, True)
    assert not other.admits({0: Position(39)})
    other.sends()
    other.published(msgspec.structs.replace(head(4, offset=40), trained_sha256="b"))
    assert (other.retrains, other.admits({0: Position(40)})) == (False, False)
    for trained in "ab":
        erased = ready(2, tuned, trained, Continued(1, "rows were erased"))
        assert (erased.published_cut, erased.tuning) == (same.published_cut, None)
    assert not ready(2, tuned, "b").retrains  # nothing of this incarnation is out
    named_none = ready(at=head(offset=40), trained="b")  # of an older build
    assert (named_none.retrains, named_none.admits({0: Position(40)})) == (False, False)


def test_replaying_ends_where_every_partition_reached_the_head() -> None:
    """One partition behind is enough to go on replaying."""
    delivery = ready(at=head_of(1, [PartitionCut(0, 40, 0, 0), PartitionCut(1, 10, 2, 0)]))
    assert delivery.replaying({0: Position(40), 1: Position(10, 1)})
    assert not delivery.replaying({0: Position(41), 1: Position(10, 2)})


def test_a_doubt_ends_in_what_the_topic_says() -> None:
    """Committed after all: the next number follows it. Not committed: the number is still free."""
    committed = doubting(ready(at=head(3, offset=40)))
    committed.renews(OWNER, head(4, offset=60))
    assert committed.ready
    assert (committed.next_number, committed.admits({0: Position(60)})) == (5, False)
    lost = doubting(ready(at=head(3, offset=40)))
    lost.renews(OWNER, head(3, offset=40))
    assert (lost.next_number, lost.admits({0: Position(60)})) == (4, True)


@pytest.mark.parametrize("owner", [None, Owner("another", "2026-01-01T00:00:00+00:00")])
def test_a_replaced_process_writes_nothing_more(owner: Owner | None) -> None:
    """It finds the model in another's hands when it wakes, and is over whatever happens next."""
    delivery = doubting(ready(at=head(3)))
    with pytest.raises(Fenced, match=r"not to this process \(me\)"):
        delivery.renews(owner, head(4))
    assert delivery.state is State.OVER
    with pytest.raises(AssertionError):
        delivery.sends()


@pytest.mark.parametrize("number", [0, 2, 5, 9])
def test_a_topic_that_lost_or_won_versions_is_refused_on_renewal(number: int) -> None:
    """With one transaction in doubt the topic ends at its number or the one before, and nowhere else."""
    delivery = doubting(ready(at=head(3)))
    with pytest.raises(StateError, match=f"m@3, but now ends at m@{number}"):
        delivery.renews(OWNER, head(number) if number else None)
    assert delivery.state is State.OVER


def test_after_a_reset_over_a_lost_topic_a_renewal_goes_on() -> None:
    """Numbers go on from the checkpoint's head although the topic has none."""
    delivery = ready(2, head(9))
    delivery._on_topic = 0
    doubting(delivery).renews(OWNER, None)
    assert delivery.next_number == 10


EVENTS = {
    Event.FIT: lambda d: d.fits(),
    Event.TAKEN: lambda d: d.taken(),
    Event.SETTLED: lambda d: d.settled(),
    Event.OWNED: lambda d: d.owned(),
    Event.FOUND: lambda d: d.begins(OWNER, 1, None, None),
    Event.SENT: lambda d: d.sends(),
    Event.COMMITTED: lambda d: d.records_committed(),
    Event.REFUSED: lambda d: d.refused(),
    Event.IN_DOUBT: lambda d: d.doubts(),
}
START = (Event.FIT, Event.TAKEN, Event.SETTLED, Event.OWNED, Event.FOUND, Event.SENT)
"""How a process gets to its first transaction, step by step."""


@pytest.mark.parametrize("steps", range(len(START) + 1))
@pytest.mark.parametrize("event", EVENTS)
def test_nothing_happens_out_of_turn(steps: int, event: Event) -> None:
    """In each state the events of the table lead where it says, and every other one is a broken invariant."""
    delivery = Delivery("m", "me")
    for step in START[:steps]:
        EVENTS[step](delivery)
    state = delivery.state
    assert state is list(State)[steps]
    if event in TRANSITIONS[state]:
        EVENTS[event](delivery)
        assert delivery.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(AssertionError):
            EVENTS[event](delivery)


def test_a_process_owns_once() -> None:
    """After a doubt it takes the id again, and does not commit a second owner record: it checks the one there is."""
    assert doubting(ready()).state is State.READING


REACHED = {0: Position(50), 1: Position(20, 3)}


def looked(
    asked: dict[int, int] | None = None, missing: str = "", topic_id: str = "id", **log: tuple[int, int]
) -> Look:
    ranges = {0: (0, 100), 1: (0, 40)} | {int(name.removeprefix("p")): found for name, found in log.items()}
    return Look(topic_id, ranges, asked or {0: 50, 1: 20}, missing)


SURVEYS = [
    ("deleted", looked(missing="topic t does not exist"), "does not exist"),
    ("recreated", looked(topic_id="new"), "id was id and is now new"),
    ("removed unread", looked(p0=(51, 100)), r"t\[0\] begins at offset 51: 1 unread records from offset 50"),
    ("truncated", looked(p1=(0, 19)), r"t\[1\] ends at offset 19, but was read up to offset 20"),
    ("partition gone", Look("id", {0: (0, 100)}, {}), r"t\[1\] no longer exists"),
]


@pytest.mark.parametrize(("look", "named"), [row[1:] for row in SURVEYS], ids=[row[0] for row in SURVEYS])
def test_a_look_that_shows_a_gap_names_it(look: Look, named: str) -> None:
    """While running: each way in which the log stops holding what is to be read."""
    assert re.search(named, survey("t", "id", REACHED, look, None).gap)


def test_a_look_at_a_log_that_goes_on_finds_nothing() -> None:
    """Also where reading went past the end that an older answer tells, and at the very first record."""
    assert survey("t", "id", REACHED, looked(p0=(50, 100)), None) == LogSurvey("", {}, {})
    assert survey("t", "id", {0: Position(900), 1: Position(20)}, looked(), None).gap == ""


def test_a_look_shows_new_partitions_and_where_they_begin() -> None:
    """Each is learned from its first record."""
    assert survey("t", "id", REACHED, looked(p2=(7, 9)), None).added == {2: 7}


def test_retention_that_will_overtake_is_said_before_it_does() -> None:
    """At the pace since the look before, it reaches unread records by the next one."""
    before = looked(p0=(10, 100))
    assert survey("t", "id", REACHED, looked(p0=(30, 100)), before).overtaking == {0: 20}
    assert survey("t", "id", REACHED, looked(p0=(29, 100)), before).overtaking == {}
    assert survey("t", "id", REACHED, looked(p0=(30, 50)), before).overtaking == {}
