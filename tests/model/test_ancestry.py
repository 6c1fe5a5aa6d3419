"""Which earlier versions a version names: few, and enough to reach any in few steps; a writer remembers few, too."""

from __future__ import annotations

import math

import pytest

from streamsvm.model import message as codec
from streamsvm.model.ancestry import chosen, linked
from streamsvm.model.pointers import (
    Alias,
    Head,
    Retired,
    decode_head,
    decode_retired,
    encode_head,
    encode_retired,
    links_after,
)
from tests.golden import every_model, model as golden
from tests.streams import head_of


def hash_of(number: int) -> str:
    return f"{number:064x}"


def head_with(number: int, links: tuple[Alias, ...] = ()) -> Head:
    return head_of(number, sha256=hash_of(number), offset=2 * number, links=links)


def steps(newest: int, target: int) -> int:
    """Count the versions that are read to reach one from the newest, the newest and the target among them."""
    at, count = newest, 1
    while at != target:
        at = min(one for one in (at - 1, *linked(at)) if one >= target)
        count += 1
    return count


def test_a_version_links_to_the_greatest_multiples_of_powers_of_two_below_it() -> None:
    """But not to its predecessor, which it names as its parent."""
    assert linked(100) == (98, 96, 64)
    assert linked(42) == (40, 32)
    assert [linked(number) for number in (1, 2, 3, 1025)] == [(), (), (), ()]
    assert all(len(linked(number)) <= math.log2(number) for number in range(1, 5_000))


def test_any_version_is_reached_in_few_steps() -> None:
    """At most log2(n) + 2 of them are read, from every one to every earlier one."""
    for newest in (*range(1, 70), 1_000, 1_023, 1_024, 1_025):
        assert max(steps(newest, target) for target in range(1, newest + 1)) <= math.log2(newest) + 2


def test_a_writer_remembers_just_what_the_next_version_needs() -> None:
    """A head that follows a head knows every link of the next version, with offsets; and no more than these."""
    head: Head | None = None
    for number in range(1, 600):
        links = head.links if head else ()
        assert [link.number for link in links] == list(linked(number))
        assert all((link.sha256, link.offset) == (hash_of(link.number), 2 * link.number) for link in links)
        head = head_with(number, links_after(head, number))


def test_a_chain_that_begins_late_links_as_far_as_it_knows() -> None:
    """After a head that knows no links, what was before stays reachable by parents only."""
    head = head_with(99)
    found = {}
    for number in range(100, 200):
        found[number] = [link.number for link in head.links]
        head = head_with(number, links_after(head, number))
    assert (found[100], found[102], found[106]) == ([], [100], [104])
    assert found[199] == [one for one in linked(199) if one >= 99]


def test_links_survive_the_head_record() -> None:
    """With their offsets."""
    head = head_with(3, (Alias(2, hash_of(2), 4),))
    assert decode_head(encode_head(head)) == head


@pytest.mark.parametrize("kind", every_model.KINDS)
def test_a_place_is_read_from_every_kind_of_version(kind: str) -> None:
    """Parent first, then the links."""
    place = codec.place_of(golden.path_of(kind).read_bytes())
    assert (place.name, place.version) == ("pulsar", 42)
    assert [one.number for one in place.ancestors] == [41, 40, 32]


def test_retired_versions_are_those_below_and_those_that_people_name() -> None:
    """Whoever keeps only the newest carries people's on until they are below, too."""
    retired = Retired(10, (3, 5), ()).with_others([12, 3])
    assert [number for number in range(1, 14) if number not in retired] == [5, 10, 11, 13]
    assert decode_retired(encode_retired(retired)) == retired


def test_only_what_is_known_is_chosen() -> None:
    """In the order of the links."""
    assert chosen(100, [(64, "b"), (98, "a"), (99, "parent")]) == ("a", "b")
