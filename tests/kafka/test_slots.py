"""Slots of a group on a real broker: who gets which, who may take whose, and what the loser of one sees."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import pytest

from streamsvm.errors import ConfigurationError, Fenced, TransientError
from streamsvm.kafka import Connection, GroupSlots, Message, Process, Publisher, Slot, Subscription
from tests.brokers.fixtures import TestBroker
from tests.kafka import foreign
from tests.kafka.steps import as_the_group_says, drain, eventually, numbers, send_values, values_of

pytestmark = pytest.mark.real_broker

HERE, ELSEWHERE = Process("here", os.getpid()), Process("elsewhere", os.getpid())


def dead_pid() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    return ended.pid


class Member:
    """A group's member in a slot, on a host of a name of its choice; kept alive by polling it."""

    def __init__(
        self, connection: Connection, topic: str, group: str, process: Process, *, slots: GroupSlots | None = None
    ) -> None:
        self._slots = slots or GroupSlots(connection, group, process=process)
        self.slot = _claimed(self._slots)
        self.subscription = Subscription(
            connection, topic, group=group, slot=self.slot, client_id=self._slots.client_id, place=as_the_group_says
        )

    def poll(self) -> None:
        """Serve the member; what it reads is of no interest."""
        assert self.subscription.poll(10, 0.1) == []

    def join(self) -> Member:
        """Wait until the group has let it in."""
        eventually(lambda: (self.poll(), self.subscription.joined)[1], "it joins")
        return self

    def forget(self) -> None:
        """Let this process know no more of the slot than another process would."""
        self._slots.release(self.slot)

    def close(self) -> None:
        """Stop; the broker is told nothing."""
        self.subscription.close()
        self.forget()


def _claimed(slots: GroupSlots) -> Slot:
    """Claim a slot, as often as the broker needs to load what it knows of groups."""
    found: list[Slot] = []

    def claims() -> bool:
        with suppress(TransientError):
            found.append(slots.claim())
        return bool(found)

    eventually(claims, "the group's coordinator answers")
    return found[0]


class _Claimed(GroupSlots):
    """Looks once before its member exists, and gives that answer at the first claim."""

    _seen: Slot | None = None

    def look(self) -> None:
        """Ask now who is there, and let this process know no more of the slot than another process would."""
        self._seen = super().claim()
        self.release(self._seen)

    def claim(self) -> Slot:
        """Return what was seen, and from the second time on what is there."""
        seen, self._seen = self._seen, None
        return seen or super().claim()


def partitions(member: Member) -> set[int]:
    member.poll()
    return {tp.partition for tp in member.subscription._consumer.assignment()}


def test_two_members_on_one_host_get_two_slots(broker: TestBroker) -> None:
    """The second sees the first in the group, alive, and takes the next; the partitions are shared."""
    topic, group = broker.topic(partitions=4), broker.name("group")
    with ExitStack() as stack:
        first = stack.enter_context(closing(Member(broker.connection, topic, group, HERE).join()))
        first.forget()  # a process of another id, which is there, all the same
        second_process = Process("here", os.getppid())
        second = stack.enter_context(closing(Member(broker.connection, topic, group, second_process).join()))
        assert [first.slot.number, second.slot.number] == [0, 1]
        eventually(lambda: len(partitions(first)) == len(partitions(second)) == 2, "they share the partitions")
        assert foreign.members(broker.connection, group) == 2


def test_a_foreign_member_takes_no_slot(broker: TestBroker) -> None:
    """A member without an instance id, of whatever make, has a share of the partitions and no number.

    A slot's names depend on the group and the number only, and the group lists its member by them.
    """
    topic, group = broker.topic(partitions=2), broker.name("group")
    quick = broker.connect(heartbeat_interval_ms=100)
    with closing(Subscription(quick, topic, group=group, place=as_the_group_says)) as dynamic:
        eventually(lambda: dynamic.poll(1, 0.1) == [] and dynamic.joined, "it joins")
        with closing(Member(quick, topic, group, HERE)) as member:
            assert member.slot == Slot(group, 0)
            assert member.slot.transactional_id == f"{group}-0"
            eventually(lambda: dynamic.poll(1, 0.1) == [] and len(partitions(member)) == 1, "the partitions are shared")
            assert foreign.instances(broker.connection, group)["streamsvm-0"] == f"streamsvm-here-{os.getpid()}"


@pytest.mark.parametrize("pid", ["gone", "our own"])
def test_the_slot_of_a_dead_member_is_free_at_once(broker: TestBroker, pid: str) -> None:
    """A predecessor on this host whose process is gone, or had our own id: replaced without waiting or a rebalance."""
    topic, group = broker.topic(partitions=4), broker.name("group")
    patient = broker.connect(session_timeout_ms=300_000)
    dead = Process("here", dead_pid() if pid == "gone" else os.getpid())
    Member(patient, topic, group, dead).join().close()
    with closing(Member(patient, topic, group, HERE).join()) as successor:
        assert successor.slot.number == 0
        eventually(lambda: len(partitions(successor)) == 4, "it has what the dead one had")


def test_the_slot_of_a_member_elsewhere_is_free_when_its_session_has_run_out(broker: TestBroker) -> None:
    """Nobody can know whether a process of another host is dead: the next slot is taken, and later this one again."""
    topic, group = broker.topic(partitions=4), broker.name("group")
    quick = broker.connect(session_timeout_ms=1500, heartbeat_interval_ms=300)
    Member(quick, topic, group, ELSEWHERE).join().close()
    with closing(Member(quick, topic, group, HERE).join()) as second:
        assert second.slot.number == 1
        eventually(lambda: len(partitions(second)) == 4, "the group gives the dead one up")
        with closing(Member(quick, topic, group, ELSEWHERE)) as third:
            assert third.slot.number == 0


def test_two_newcomers_at_once_end_in_two_slots(broker: TestBroker) -> None:
    """Both see the same slot free and join in it: one finds itself fenced, claims again, and both share the work."""
    topic, group = broker.topic(partitions=4), broker.name("group")
    quick = broker.connect(heartbeat_interval_ms=100)
    slots = {process: _Claimed(quick, group, process=process) for process in (HERE, ELSEWHERE)}
    for process in slots:  # both look before either has joined, and know as little of each other as two processes
        slots[process].look()
    members = {process: Member(quick, topic, group, process, slots=slots[process]) for process in slots}
    assert {member.slot.number for member in members.values()} == {0}
    losses = 0
    with ExitStack() as stack:

        def settled() -> bool:
            nonlocal losses
            for process, member in members.items():
                try:
                    member.poll()
                except Fenced:
                    losses += 1
                    member.close()
                    members[process] = Member(quick, topic, group, process, slots=slots[process])
            return sorted(member.slot.number for member in members.values()) == [0, 1] and all(
                len(partitions(member)) == 2 for member in members.values()
            )

        eventually(settled, "each has a slot and its share")
        for member in members.values():
            stack.enter_context(closing(member))
        assert losses == 1


def test_a_member_that_is_fenced_claims_another_slot_and_reads_on(broker: TestBroker) -> None:
    """A living member whose slot is taken commits nothing more; in its next slot it reads from the group's position."""
    topic, group = broker.topic(), broker.name("group")
    quick = broker.connect(heartbeat_interval_ms=100)
    send_values(broker.connection, topic, numbers(6))
    loser = Member(quick, topic, group, ELSEWHERE)
    assert values_of(drain(loser.subscription, 6)) == numbers(6)
    loser.subscription.commit({0: 4})
    late = loser.subscription.progress({0: 6})
    with closing(Subscription(quick, topic, group=group, slot=Slot(group, 0), place=as_the_group_says)) as taken:
        assert values_of(drain(taken, 2)) == numbers(2, 4)
        with pytest.raises(Fenced, match="another instance took over"):
            eventually(lambda: bool(loser.subscription.poll(10, 0.1)), "it is fenced")
        with closing(Publisher(broker.connection, broker.name("late"))) as publisher:
            publisher.start()
            with pytest.raises(Fenced):
                publisher.publish([Message(topic, b"late", partition=0)], progress=late)
        loser.subscription.close()
        again = Member(quick, topic, group, ELSEWHERE, slots=loser._slots)
        assert again.slot.number == 1
        taken.close()
        with closing(again):
            assert values_of(drain(again.subscription, 2)) == numbers(2, 4)
    assert foreign.committed(broker.connection, group, topic, 0) == 4


def test_those_who_take_each_other_for_dead_come_to_rest(broker: TestBroker) -> None:
    """Two hosts of one name and one process id: each replaces the other once at most, then both have a slot."""
    topic, group = broker.topic(partitions=2), broker.name("group")
    quick = broker.connect(heartbeat_interval_ms=100)
    first = Member(quick, topic, group, HERE).join()
    first.forget()  # it is on another machine of this name
    second = Member(quick, topic, group, HERE).join()
    second.forget()
    assert [first.slot.number, second.slot.number] == [0, 0]
    with pytest.raises(Fenced):
        eventually(lambda: bool(first.subscription.poll(1, 0.1)), "the first is fenced")
    first.subscription.close()
    with closing(second), closing(Member(quick, topic, group, HERE, slots=first._slots).join()) as moved:
        assert moved.slot.number == 1
        eventually(lambda: len(partitions(second)) == len(partitions(moved)) == 1, "they share the partitions")


def test_one_process_can_hold_two_slots(broker: TestBroker) -> None:
    """What it holds itself is not free; in a group that the coordinator does not know all others are."""
    group = broker.name("group")
    one, other = GroupSlots(broker.connection, group), GroupSlots(broker.connection, group)
    assert (one.claim().number, other.claim().number) == (0, 1)
    for slots, number in ((one, 0), (other, 1)):
        slots.release(Slot(group, number))


def test_a_session_that_the_broker_does_not_allow_is_an_error(broker: TestBroker) -> None:
    """It says so, rather than to wait for ever for a membership."""
    topic = broker.topic()
    hasty = broker.connect(session_timeout_ms=200, heartbeat_interval_ms=100)
    with (
        closing(Subscription(hasty, topic, group=broker.name("group"), place=as_the_group_says)) as member,
        pytest.raises(ConfigurationError, match="session"),
    ):
        eventually(lambda: bool(member.poll(1, 0.1)), "it is refused")
