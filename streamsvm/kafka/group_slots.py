"""Slots: the numbers by which the members of one group are known, whatever process each of them is.

A slot gives its owner two names that depend on the group and the number alone. The first is the instance id: with it
the owner is a static member of the group, and a successor in the same slot replaces it without a rebalance. The second
is the transactional id: a successor in the same slot takes it over and ends what the predecessor left open. If each
process made up its own names, nobody would end what a dead one left open.

No server hands slots out. A process that needs one reads the list of members from the group's coordinator, and takes
the lowest number that no living member has. If two take the same number at once, the broker decides: the later to join
replaces the earlier, which is fenced and claims another number. A slot only determines names. What keeps a member that
was replaced from committing is the group's generation, as always (`streamsvm.kafka.membership`).

A member that was killed stays listed until its session has run out. Its slot can be taken at once by a process that
knows the member to be dead, because the member's client id names the host and the process id: the process is gone from
this very host, or the process id is the claimant's own, as in a container that was started again. Neither is proof
where hosts share a name or containers a host's name. So a process replaces the dead at its first claim only: two living
processes that take each other for dead come to rest in two slots.

Source: KIP-345, for static members.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka.admin import AdminClient, MemberDescription  # type: ignore[attr-defined]

from streamsvm.errors import ConfigurationError, TransientError
from streamsvm.kafka.client import Admin
from streamsvm.kafka.connection import Connection

_INSTANCE: Final = "streamsvm-"
OTHERS_LEFT_AFTER_S: Final = 10.0
"""How long members of another program may be listed once they have gone: until their session has run out."""

_lock = threading.Lock()
_slots_here: set[tuple[str, Slot]] = set()
"""The slots that this process holds, by the broker's address: members with our own process id that are alive."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A member's number in its group.

    Parameters
    ----------
    group : str
        The group.
    number : int
        From 0.
    """

    group: str
    number: int

    @property
    def instance_id(self) -> str:
        """The ``group.instance.id``; it has no group in it, whose name may hold characters that are not allowed."""
        return f"{_INSTANCE}{self.number}"

    @property
    def transactional_id(self) -> str:
        """The ``transactional.id``."""
        return f"{self.group}-{self.number}"


@dataclass(frozen=True, slots=True)
class Process:
    """Where a member runs, as its client id says it.

    Parameters
    ----------
    host : str
        The host's own name.
    pid : int
        The process id.
    """

    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    def client_id(self, connection: Connection) -> str:
        """Return the client id of a member that runs here."""
        return f"{self._prefix(connection)}{self.pid}"

    def pid_of(self, client_id: str, connection: Connection) -> int | None:
        """Return the process id of a member that runs on this host; None if it runs on another, or does not say."""
        prefix = self._prefix(connection)
        rest = client_id[len(prefix) :]
        return int(rest) if client_id.startswith(prefix) and rest.isdecimal() else None

    def _prefix(self, connection: Connection) -> str:
        return f"{connection.client_id}-{self.host}-"


class GroupSlots:
    """The slots of a group, as one process claims them. Not thread-safe.

    On the embedded broker, which has no static members, the slots are this process's own business.

    Parameters
    ----------
    connection : Connection
        The broker.
    group : str
        The group.
    process : Process, optional
        Where the claimant runs; by default this process.
    """

    def __init__(self, connection: Connection, group: str, *, process: Process | None = None) -> None:
        self._connection = connection
        self._group = group
        self._process = process or Process()
        self._replaces_the_dead = True
        self._others_since: float | None = None

    @property
    def client_id(self) -> str:
        """The client id with which the owner of a slot must join the group."""
        return self._process.client_id(self._connection)

    def claim(self) -> Slot:
        """Return the lowest slot that no living member of the group holds; blocks at most the request's timeout.

        The slot belongs to the claimant once it has joined the group under its names, and until the group fences it.
        Release it then.

        Raises
        ------
        BrokerUnavailable
            If the group's coordinator does not answer in time.
        TransientError
            If another of our programs has members in the group, which may have gone.
        ConfigurationError
            If they stay, or the broker forbids the question.
        """
        members = [] if self._connection.embedded else members_of(self._connection, self._group)
        self._refuse_others(members)
        with _lock:
            slot = self._lowest_free(members)
            _slots_here.add((self._connection.servers, slot))
        # Only at the first claim: two living processes that take each other for dead then come to rest in two slots.
        self._replaces_the_dead = False
        return slot

    def _refuse_others(self, members: Sequence[MemberDescription]) -> None:
        """Refuse a group that serves another model: each would get a part of the partitions."""
        own = f"{self._connection.client_id}-"
        named = {one.client_id for one in members if not one.client_id.startswith(own) and not self._is_dead(one)}
        others = sorted(name for name in named if name.startswith(_INSTANCE))
        if not others:
            self._others_since = None
            return
        now = time.monotonic()
        self._others_since = now if self._others_since is None else self._others_since
        stay = now - self._others_since >= OTHERS_LEFT_AFTER_S
        raise (ConfigurationError if stay else TransientError)(
            f"group {self._group} has members of another model: {', '.join(others)}",
            "Each would get a part of the partitions: give each model a group of its own (--scoring-group).",
        )

    def release(self, slot: Slot) -> None:
        """Give a slot up, whose membership was closed or lost."""
        with _lock:
            _slots_here.discard((self._connection.servers, slot))

    def _lowest_free(self, members: Sequence[MemberDescription]) -> Slot:
        # A dead member keeps its partitions until its session expires; by its own slot they are taken over at once.
        taken = {member.group_instance_id for member in members if not self._is_dead(member)}
        number, servers = 0, self._connection.servers
        while (slot := Slot(self._group, number)).instance_id in taken or (servers, slot) in _slots_here:
            number += 1
        return slot

    def _is_dead(self, member: MemberDescription) -> bool:
        """Return whether a member is one that this process knows to be dead, and may replace."""
        if not self._replaces_the_dead:
            return False
        pid = self._process.pid_of(member.client_id, self._connection)
        # Our own number among the members is that of an earlier process: containers give the same one at every start.
        return pid is not None and (pid == self._process.pid or _is_gone(pid))


def members_of(connection: Connection, group: str) -> list[MemberDescription]:
    """Return the members of a group that its coordinator lists, the dead of the last session among them.

    Blocks at most the connection's request timeout.

    Raises
    ------
    BrokerUnavailable
        If the coordinator does not answer in time.
    ConfigurationError
        If the broker forbids it: who may read as the group may ask.
    """
    found = Admin(connection).ask("ask who is in group", AdminClient.describe_consumer_groups, [group])
    return list(found[group].members)


def _is_gone(pid: int) -> bool:
    try:
        # Signal 0 sends nothing, and only asks whether there is such a process.
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it is another user's
        return False
    return False
