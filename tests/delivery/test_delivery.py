"""Recovery: every row of the table, and what publishing admits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.coreset.moments import Moments
from streamsvm.delivery.decision import Begin, Candidate, Present, Resume, places, reads_on
from streamsvm.delivery.decision import decide as decide_among
from streamsvm.delivery.input_survey import LogSurvey, Look, survey
from streamsvm.delivery.machine import TRANSITIONS, Delivery, Event, State
from streamsvm.errors import Fenced, StateError
from streamsvm.learning.cutting import LearnerState
from streamsvm.model.pointers import Head, Owner
from streamsvm.model.version import PartitionCut
from streamsvm.points import Position
from tests.checkpoint.test_checkpoint import snapshot

CONFIG = {"seed": 1, "coreset": {"points": 2}}


def head(number: int = 3, offset: int = 40, incarnation: int = 1, row: int = 0) -> Head:
    return Head(
        number=number,
        incarnation=incarnation,
        cut=(PartitionCut(0, offset, row, 0),),
        sha256="ab",
        offset=number,
        training_set_sha256="cd",
        build={},
        links=(),
    )


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


def test_first_start() -> None:
    """No checkpoint, no head: incarnation 1, version 1."""
    assert decide(None, present()) == Begin(1, None)


def test_resume() -> None:
    """A fitting checkpoint is gone on from, with the topic's head."""
    found = decide(saved(), present(head=head()))
    assert isinstance(found, Resume)
    assert found.head == head()
    assert not found.reset_ignored


REFUSALS = [
    ("lost checkpoint", None, {"head": head()}, r"no checkpoint to continue from\."),
    ("another directory", None, {"head": head(), "checkpoints": "/tmp/c"}, "no checkpoint in /tmp/c to continue from"),
    (
        "configuration",
        {},
        {"configuration_sha256": "x", "configuration": {**CONFIG, "seed": 2}},
        "seed was 1, is now 2",
    ),
    (
        "nested configuration",
        {},
        {"configuration_sha256": "x", "configuration": {**CONFIG, "coreset": {"points": 4}}},
        "coreset.points was 2, is now 4",
    ),
    ("other topic", {}, {"topic": "u"}, "'u'"),
    ("recreated topic", {}, {"topic_id": "new"}, "id new"),
    ("newer incarnation", {}, {"head": head(incarnation=2)}, "incarnation 2"),
    ("models topic lost", {"head": head(9)}, {}, "m@9"),
    ("models topic recreated", {"head": head(9)}, {"head": head(2)}, "m@2"),
    ("retention", {}, {"log": {0: (60, 100), 2: (0, 100)}}, "removed 10 unread records"),
    ("truncated", {}, {"log": {0: (0, 49), 2: (0, 100)}}, "ends at 49"),
    ("truncated inside a record", {}, {"log": {0: (0, 100), 2: (0, 7)}}, r"t\[2\]"),
    ("head beyond the log", {}, {"head": head(offset=101)}, "m@3 is at offset 101"),
    ("partition gone", {}, {"log": {0: (0, 100)}}, "partition 2"),
]


@pytest.mark.parametrize(
    ("checkpoint", "found", "named"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refusals_name_both_sides_and_the_way_out(
    checkpoint: dict[str, object] | None, found: dict[str, object], named: str
) -> None:
    """Each refusal says what differs and prints the exact reset; that reset, and no other, begins anew."""
    kept = None if checkpoint is None else saved(**checkpoint)
    with pytest.raises(StateError, match=named) as refusal:
        decide(kept, present(**found))
    token = refusal.value.remedy.split("--reset ")[1]
    begun = decide(kept, present(**found, reset=token))
    assert isinstance(begun, Begin)
    newest = max(h.number for h in (present(**found).head, kept.head if kept else None, head(0)) if h)
    assert (begun.head.number if begun.head else 0) == newest
    assert begun.incarnation == int(token.split("/")[1]) + 1
    with pytest.raises(StateError):
        decide(kept, present(**found, reset="m/77"))


@pytest.mark.parametrize("reset", ["", "m/1", "other/1"])
def test_no_reset_touches_another_models_checkpoint(reset: str) -> None:
    """The refusal names a directory of one's own, and no reset: what one would begin there would remove the other's."""
    found = present(reset=reset, on_gap="reset", checkpoints="/tmp/c")
    with pytest.raises(StateError, match="in /tmp/c belongs to the model 'other', but this model is 'm'") as refusal:
        decide(saved(name="other"), found)
    assert "--checkpoint-directory checkpoint/m" in refusal.value.remedy
    assert "--reset" not in refusal.value.remedy


CHANGES: dict[str, dict[str, object]] = {
    "configuration": {"configuration_sha256": "x", "configuration": {**CONFIG, "seed": 2}},
    "topic": {"topic": "u"},
}


def nothing_learned(**changes: object) -> Snapshot:
    """Return a checkpoint of an incarnation that has rejected every row it saw, if it saw any."""
    learner, moments = saved().learner, Moments.zero(2)
    partitions = {
        partition: replace(
            state, sealed=0, buckets=(), leaf_extent=replace(state.leaf_extent, moments=moments), screened=None
        )
        for partition, state in learner.partitions.items()
    }
    return saved(**{"learner": replace(learner, partitions=partitions), "pending": None, "head": None, **changes})


@pytest.mark.parametrize("change", CHANGES)
def test_what_learned_and_published_nothing_may_change_without_a_reset(change: str) -> None:
    """Wrong labels, then right ones: the next incarnation begins by itself, and says what was different."""
    begun = decide(nothing_learned(), present(**CHANGES[change]))
    assert isinstance(begun, Begin)
    assert (begun.incarnation, begun.head, begun.gap) == (2, None, "")
    assert "seed was 1, is now 2" in begun.changed or "'u'" in begun.changed
    after_a_reset = decide(nothing_learned(incarnation=2), present(**CHANGES[change], head=head()))
    assert isinstance(after_a_reset, Begin)
    assert (after_a_reset.incarnation, after_a_reset.head) == (3, head())


@pytest.mark.parametrize("change", CHANGES)
def test_what_learned_or_published_anything_needs_its_reset(change: str) -> None:
    """A row that was learned, or a version on the topic, is never given up unasked."""
    published = (nothing_learned(), {"head": head()})
    superseded = (nothing_learned(), {"head": head(incarnation=2)})
    for kept, found in ((saved(), {}), published, superseded):
        with pytest.raises(StateError, match="--reset m/"):
            decide(kept, present(**CHANGES[change], **found))


def test_a_gap_is_never_passed_over_for_having_learned_nothing() -> None:
    """Records that retention removed unread are told of, whatever was learned before."""
    with pytest.raises(StateError, match="removed 10 unread records"):
        decide(nothing_learned(), present(log={0: (60, 100), 2: (0, 100)}))


def test_what_held_nothing_to_learn_may_be_removed() -> None:
    """Markers of transactions and aborted records past the position, known to be no more than that: no gap."""
    kept = saved(read_to={0: 60})
    assert isinstance(decide(kept, present(log={0: (60, 100), 2: (0, 100)})), Resume)
    assert [reads_on(kept, 0, first, 100) for first in (0, 50, 51, 60)] == [50, 50, 60, 60]
    for first, end in ((61, 100), (55, 59)):
        with pytest.raises(StateError, match="unread"):
            decide(kept, present(log={0: (first, end), 2: (0, 100)}))


def test_the_rest_of_a_record_is_never_passed_over() -> None:
    """A position inside a record waits for that record's rows, whatever was read to."""
    inside = saved(read_to={2: 60})
    assert inside.positions[2] == Position(7, 1)
    with pytest.raises(StateError, match="unread"):
        decide(inside, present(log={0: (0, 100), 2: (8, 100)}))


def test_a_reset_left_behind_does_nothing() -> None:
    """In every other row, and for any other id, it only warns."""
    for token in ("m/1", "m/2", "else"):
        found = decide(saved(), present(reset=token))
        assert isinstance(found, Resume)
        assert found.reset_ignored
    assert decide(None, present(reset="m/1")) == Begin(1, None)


OWNER = Owner("me", "2026-01-01T00:00:00+00:00")


def ready(incarnation: int = 1, at: Head | None = None, on_topic: Head | None = None) -> Delivery:
    """Return the delivery of a process that has started."""
    delivery = Delivery("m", "me")
    delivery.fits()
    delivery.taken()
    delivery.settled()
    delivery.owned()
    delivery.begins(OWNER, incarnation, at, on_topic or at)
    return delivery


def doubting(at: Head | None = None) -> Delivery:
    """Return one whose transaction ended in doubt, and that has a new producer."""
    delivery = ready(at=at)
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
    assert (delivery.next_number, delivery.parent) == (2, "ab")


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


def test_replaying_ends_where_every_partition_reached_the_head() -> None:
    """One partition behind is enough to go on replaying."""
    both = Head(
        number=1,
        incarnation=1,
        cut=(PartitionCut(0, 40, 0, 0), PartitionCut(1, 10, 2, 0)),
        sha256="ab",
        offset=0,
        training_set_sha256="cd",
        build={},
        links=(),
    )
    delivery = ready(at=both)
    assert delivery.replaying({0: Position(40), 1: Position(10, 1)})
    assert not delivery.replaying({0: Position(41), 1: Position(10, 2)})


def test_a_doubt_ends_in_what_the_topic_says() -> None:
    """Committed after all: the next number follows it. Not committed: the number is still free."""
    committed = doubting(head(3, offset=40))
    committed.renews(OWNER, head(4, offset=60))
    assert committed.ready
    assert (committed.next_number, committed.admits({0: Position(60)})) == (5, False)
    lost = doubting(head(3, offset=40))
    lost.renews(OWNER, head(3, offset=40))
    assert (lost.next_number, lost.admits({0: Position(60)})) == (4, True)


@pytest.mark.parametrize("owner", [None, Owner("another", "2026-01-01T00:00:00+00:00")])
def test_a_replaced_process_writes_nothing_more(owner: Owner | None) -> None:
    """It finds the model in another's hands when it wakes, and is over whatever happens next."""
    delivery = doubting(head(3))
    with pytest.raises(Fenced, match=r"not to this process \(me\)"):
        delivery.renews(owner, head(4))
    assert delivery.state is State.OVER
    with pytest.raises(AssertionError):
        delivery.sends()


@pytest.mark.parametrize("number", [0, 2, 5, 9])
def test_a_topic_that_lost_or_won_versions_is_refused_on_renewal(number: int) -> None:
    """With one transaction in doubt the topic ends at its number or the one before, and nowhere else."""
    delivery = doubting(head(3))
    with pytest.raises(StateError, match=f"m@3, but now ends at m@{number}"):
        delivery.renews(OWNER, head(number) if number else None)
    assert delivery.state is State.OVER


def test_after_a_reset_over_a_lost_topic_a_renewal_goes_on() -> None:
    """Numbers go on from the checkpoint's head although the topic has none."""
    delivery = ready(2, head(9))
    delivery._on_topic = 0
    delivery.sends()
    delivery.doubts()
    delivery.taken()
    delivery.settled()
    delivery.renews(OWNER, None)
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
PATHS = {
    State.LOOKING: [],
    State.TAKING: [Event.FIT],
    State.SETTLING: [Event.FIT, Event.TAKEN],
    State.OWNING: [Event.FIT, Event.TAKEN, Event.SETTLED],
    State.READING: [Event.FIT, Event.TAKEN, Event.SETTLED, Event.OWNED],
    State.READY: [Event.FIT, Event.TAKEN, Event.SETTLED, Event.OWNED, Event.FOUND],
    State.SENDING: [Event.FIT, Event.TAKEN, Event.SETTLED, Event.OWNED, Event.FOUND, Event.SENT],
}


@pytest.mark.parametrize("state", PATHS)
@pytest.mark.parametrize("event", EVENTS)
def test_nothing_happens_out_of_turn(state: State, event: Event) -> None:
    """In each state the events of the table lead where it says, and every other one is a broken invariant."""
    delivery = Delivery("m", "me")
    for step in PATHS[state]:
        EVENTS[step](delivery)
    assert delivery.state is state
    if event in TRANSITIONS[state]:
        EVENTS[event](delivery)
        assert delivery.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(AssertionError):
            EVENTS[event](delivery)


def test_a_process_owns_once() -> None:
    """After a doubt it takes the id again, and does not commit a second owner record: it checks the one there is."""
    delivery = ready()
    delivery.sends()
    delivery.doubts()
    delivery.taken()
    delivery.settled()
    assert delivery.state is State.READING


def older(**changes: object) -> Snapshot:
    """Return an older generation: nothing learned in the partitions of the newest."""
    return replace(saved(**changes), sequence=1, learner=LearnerState({}, 0))


GAPS = {
    "truncated": {"log": {0: (0, 49), 2: (0, 100)}},
    "retention": {"log": {0: (60, 100), 2: (0, 100)}},
    "partition gone": {"log": {0: (0, 100)}},
    "recreated": {"topic_id": "new"},
}


@pytest.mark.parametrize("name", GAPS)
def test_on_gap_reset_begins_anew_by_itself(name: str) -> None:
    """Told so, a gap in the log begins a new incarnation, numbers going on, and says why."""
    begun = decide(saved(head=head(3)), present(**GAPS[name], head=head(3), on_gap="reset"))
    assert isinstance(begun, Begin)
    assert (begun.incarnation, begun.head) == (2, head(3))
    assert begun.gap


@pytest.mark.parametrize(
    "found",
    [{"head": head(incarnation=2)}, {"head": head(2)}, {"configuration_sha256": "x"}, {"topic": "u"}],
)
def test_on_gap_reset_helps_against_nothing_else(found: dict[str, object]) -> None:
    """A foreign checkpoint or a lost models topic is refused all the same."""
    with pytest.raises(StateError, match="--reset"):
        decide(saved(head=head(3)), present(**found, on_gap="reset"))


def test_an_older_generation_serves_where_the_newest_stands_outside_the_log() -> None:
    """The older one fits a truncated log; it is gone on from, and what was passed over is said."""
    among = [Candidate(saved()), Candidate(older())]
    found = decide_among(among, present(log={0: (0, 49), 2: (0, 100)}))
    assert isinstance(found, Resume)
    assert found.snapshot.sequence == 1
    assert "ends at 49" in found.passed_over


def test_no_older_generation_is_tried_for_what_is_not_a_gap() -> None:
    """One that knows no head would go on from a models topic that was lost, and use its numbers again."""
    with pytest.raises(StateError, match="m@9"):
        decide_among([Candidate(saved(head=head(9))), Candidate(older(head=None))], present())


def test_no_generation_of_an_earlier_incarnation_is_gone_back_to() -> None:
    """A reset ended it."""
    among = [Candidate(saved(incarnation=2)), Candidate(older(incarnation=1))]
    with pytest.raises(StateError, match="ends at 49"):
        decide_among(among, present(log={0: (0, 49), 2: (0, 100)}))


def test_another_leader_epoch_under_the_last_record_is_a_gap() -> None:
    """The same offsets, written by another leader: an unclean leader election replaced what was learned."""
    snapshot = saved()
    wanted = places(snapshot, None)
    assert wanted
    same = {place: stored_epoch(snapshot, place[0]) for place in wanted}
    assert isinstance(decide_among([Candidate(snapshot, same)], present()), Resume)
    other = {place: epoch + 1 for place, epoch in same.items()}
    with pytest.raises(StateError, match="unclean leader election"):
        decide_among([Candidate(snapshot, other)], present())


def stored_epoch(snapshot: Snapshot, partition: int) -> int:
    return snapshot.learner.partitions[partition].leader_epoch


def test_a_reset_over_a_lost_topic_need_not_be_said_again() -> None:
    """The new incarnation's checkpoint knows a head of the old one that the topic does not have."""
    found = decide(saved(incarnation=2, head=head(9, incarnation=1)), present())
    assert isinstance(found, Resume)
    assert found.head == head(9, incarnation=1)


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
