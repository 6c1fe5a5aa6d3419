"""Recovery: every row of the table, and what publishing admits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsvm.codec.checkpoint import Snapshot
from streamsvm.codec.model import Head, PartitionCut
from streamsvm.delivery import Begin, Delivery, Present, Resume, decide
from streamsvm.errors import StateError
from streamsvm.points import Position
from tests.test_checkpoint import snapshot

CONFIG = {"seed": 1, "coreset": {"fan_in": 2}}


def head(number: int = 3, offset: int = 40, incarnation: int = 1, row: int = 0) -> Head:
    return Head(number, incarnation, (PartitionCut(0, offset, row, 0),), "ab", number, "cd", {})


def saved(**changes: object) -> Snapshot:
    return replace(snapshot(), configuration=CONFIG, configuration_sha256="same", **changes)  # type: ignore[arg-type]


def present(**changes: object) -> Present:
    plain = Present("m", "t", "id", CONFIG, "same", {0: (0, 100), 2: (0, 100)}, None)
    return replace(plain, **changes)  # type: ignore[arg-type]


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
    ("lost checkpoint", None, {"head": head()}, "no checkpoint"),
    ("other model", {"name": "other"}, {}, "'other'"),
    ("configuration", {}, {"configuration_sha256": "x", "configuration": {**CONFIG, "seed": 2}}, "seed was 1, is 2"),
    (
        "nested configuration",
        {},
        {"configuration_sha256": "x", "configuration": {**CONFIG, "coreset": {"fan_in": 4}}},
        "coreset.fan_in was 2, is 4",
    ),
    ("other topic", {}, {"topic": "u"}, "'u'"),
    ("recreated topic", {}, {"topic_id": "new"}, "id new"),
    ("newer incarnation", {}, {"head": head(incarnation=2)}, "incarnation 2"),
    ("models topic lost", {"head": head(9)}, {}, "m@9"),
    ("models topic recreated", {"head": head(9)}, {"head": head(2)}, "m@2"),
    ("retention", {}, {"log": {0: (60, 100), 2: (0, 100)}}, "removed 10 records unread"),
    ("truncated", {}, {"log": {0: (0, 49), 2: (0, 100)}}, "ends at 49"),
    ("truncated inside a record", {}, {"log": {0: (0, 100), 2: (0, 7)}}, r"t\[2\]"),
    ("head beyond the log", {}, {"head": head(offset=101)}, "m@3 stands at offset 101"),
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


def test_a_reset_left_behind_does_nothing() -> None:
    """In every other row, and for any other id, it only warns."""
    for token in ("m/1", "m/2", "else"):
        found = decide(saved(), present(reset=token))
        assert isinstance(found, Resume)
        assert found.reset_ignored
    assert decide(None, present(reset="m/1")) == Begin(1, None)


def test_numbers_go_on_and_parents_chain() -> None:
    """The next version follows the head in number and names it as parent."""
    delivery = Delivery(1, None)
    assert (delivery.next_number, delivery.parent) == (1, None)
    delivery.published(head(1))
    assert (delivery.next_number, delivery.parent) == (2, "ab")


def test_only_a_later_cut_is_admitted() -> None:
    """Componentwise at or past the head's, and different; a partition the head does not know counts as ahead."""
    delivery = Delivery(1, head(offset=40))
    assert not delivery.admits({0: Position(39)})
    assert not delivery.admits({0: Position(40)})
    assert delivery.admits({0: Position(40, 1)})
    assert delivery.admits({0: Position(40), 1: Position(0)})
    assert not delivery.admits({0: Position(39), 1: Position(5)})
    assert not delivery.admits({1: Position(5)})


def test_a_new_incarnation_is_not_bound_by_the_old_ones_cut() -> None:
    """After a reset the stream is learned from its base again: its first cuts may lie before the old head."""
    delivery = Delivery(2, head(number=9, offset=40, incarnation=1))
    assert delivery.admits({0: Position(8)})
    assert delivery.next_number == 10
    assert not delivery.replaying({0: Position(0)})


def test_replaying_ends_where_every_partition_reached_the_head() -> None:
    """One partition behind is enough to go on replaying."""
    both = Head(1, 1, (PartitionCut(0, 40, 0, 0), PartitionCut(1, 10, 2, 0)), "ab", 0, "cd", {})
    delivery = Delivery(1, both)
    assert delivery.replaying({0: Position(40), 1: Position(10, 1)})
    assert not delivery.replaying({0: Position(41), 1: Position(10, 2)})
