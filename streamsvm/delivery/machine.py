"""The state machine of publishing: which events are possible in which state, and what is published next.

A producer whose transaction has an unknown outcome is never used again. What it sent may still be applied by the
broker, even late, and would then become part of its successor's transaction. So every doubt leads back to
`State.TAKING`:

1. A new producer takes the transactional id over. The broker then ends what the predecessor left open, as far as the
   broker knows about it.
2. Every partition that the id writes to is settled (`streamsvm.delivery.settlement`), because a broker may have lost
   the end of a transaction in some of them.
3. The topic is read to its end before anything is published.

The owner record says which process the id belongs to: a process that was suspended while another one replaced it must
not take the id back. Being fenced is only a doubt, too, because a broker fences in two cases: another process took the
id over, or a transaction of our own timed out. The owner record distinguishes the two.

Invariants: version numbers rise by one. Within an incarnation each version's cut is at or past the previous one in
every partition, and differs from it. A cut at or behind the head's is never published again, but for one version at the
cut of an incarnation that is continued: it takes the place of that one's newest. `State.OVER` is final.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamsvm.errors import Fenced, StateError
from streamsvm.learning.naming import tuning_of
from streamsvm.learning.tuning import Tuning
from streamsvm.model.pointers import Alias, Head, Owner
from streamsvm.model.version import positions
from streamsvm.points import Position, Positions, precedes


@dataclass(frozen=True, slots=True)
class Continued:
    """An earlier incarnation whose newest version counts as one of this one's.

    A version at the same cut takes the place of that one before anything new is learned.

    Attributes
    ----------
    incarnation : int
        0: there is none.
    why : str
        Why that version is replaced, for people.
    """

    incarnation: int = 0
    why: str = ""


class State(StrEnum):
    """The state of a process's publishing."""

    LOOKING = "looking"
    """The process only reads and fences nobody, so that a start that must be refused does no harm."""
    TAKING = "taking"
    """Next: a new producer takes the transactional id over."""
    SETTLING = "settling"
    """Next: remains of dead transactions in the partitions are ended, and completed where readers saw a part."""
    OWNING = "owning"
    """Next: a new process commits its owner record."""
    READING = "reading"
    """Next: head and owner are read, up to the read-uncommitted high watermark."""
    READY = "ready"
    """No transaction is in flight: the process may publish."""
    SENDING = "sending"
    """One transaction is in flight."""
    OVER = "over"
    """Refused or fenced: the process may write nothing more."""


class Event(StrEnum):
    """What happened."""

    FIT = "what was found allows going on"
    TAKEN = "the transactional id is taken"
    SETTLED = "nothing is open, for a process that has not owned the id"
    SETTLED_AGAIN = "nothing is open, for the process that owns the id"
    OWNED = "the owner record is committed"
    FOUND = "head and owner are read, and allow going on"
    SENT = "a transaction begins"
    COMMITTED = "it is committed"
    REFUSED = "the broker refuses it, it is aborted"
    IN_DOUBT = "a step failed, or its outcome is unknown, or readers are held up"
    ENDED = "another process took over, or going on could be silently wrong"


TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    State.LOOKING: {Event.FIT: State.TAKING},
    State.TAKING: {Event.TAKEN: State.SETTLING, Event.IN_DOUBT: State.TAKING},
    State.SETTLING: {
        Event.SETTLED: State.OWNING,
        Event.SETTLED_AGAIN: State.READING,
        Event.IN_DOUBT: State.TAKING,
    },
    State.OWNING: {Event.OWNED: State.READING, Event.IN_DOUBT: State.TAKING},
    State.READING: {Event.FOUND: State.READY, Event.IN_DOUBT: State.TAKING},
    State.READY: {Event.SENT: State.SENDING, Event.IN_DOUBT: State.TAKING},
    State.SENDING: {Event.COMMITTED: State.READY, Event.REFUSED: State.READY, Event.IN_DOUBT: State.TAKING},
    State.OVER: {},
}
"""The next state by event. `Event.ENDED` leads to `State.OVER` from every state; any other event is a broken
invariant."""


class Delivery:
    """The state of publishing within one process.

    Parameters
    ----------
    name : str
        Name of the model.
    session : str
        Names this process in the owner record.
    """

    def __init__(self, name: str, session: str) -> None:
        self._name = name
        self._session = session
        self._state = State.LOOKING
        self._owns = False
        self._incarnation = 0
        self._head: Head | None = None
        self._on_topic = 0
        self._continued = Continued()

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @property
    def ready(self) -> bool:
        """Whether the process may publish now."""
        return self._state is State.READY

    @property
    def session(self) -> str:
        """The name of this process in the owner record."""
        return self._session

    @property
    def incarnation(self) -> int:
        """Number of the incarnation that publishes."""
        return self._incarnation

    @property
    def head(self) -> Head | None:
        """The newest head."""
        return self._head

    @property
    def next_number(self) -> int:
        """Number of the next version."""
        return self._head.number + 1 if self._head else 1

    @property
    def parent(self) -> str | None:
        """SHA-256 of the newest version."""
        return self._head.sha256 if self._head else None

    @property
    def links(self) -> tuple[Alias, ...]:
        """The earlier versions that the next version links to, besides its parent."""
        return self._head.links if self._head else ()

    @property
    def published_cut(self) -> dict[int, Position]:
        """The newest cut that this incarnation published; empty if none."""
        # A cut of an earlier incarnation names positions of a log that may be another by now; not where this one began
        # only because rows of the same log were erased.
        if self._head is None or self._head.incarnation not in {self._incarnation, self._continued.incarnation}:
            return {}
        return positions(self._head.cut)

    @property
    def replaces(self) -> str:
        """Why the newest version, of the incarnation that is continued, is to be replaced; empty if it is not."""
        head, continued = self._head, self._continued
        if head is None or head.incarnation == self._incarnation or head.incarnation != continued.incarnation:
            return ""
        return continued.why

    @property
    def tuning(self) -> Tuning | None:
        """The tuning in force; None before this incarnation published, and where nothing is tuned."""
        return tuning_of(self._head) if self.published_cut else None

    def admits(self, cut: Positions) -> bool:
        """Return whether a cut may become a version: at or past the head's cut in every partition, and not equal.

        Equal it may be where the newest version is to be replaced.
        """
        published = self.published_cut
        # Behind or equal is what reading again passes through: those versions exist already.
        return precedes(published, cut) and (dict(cut) != published or bool(self.replaces))

    def replaying(self, reached: Positions) -> bool:
        """Return whether some partition is still behind the head's cut."""
        return any(reached[partition] < position for partition, position in self.published_cut.items())

    # ----------------------------------------------------------------- events

    def fits(self) -> None:
        """Note that what the topics hold allows a start."""
        self._move(Event.FIT)

    def taken(self) -> None:
        """Note that a new producer has the transactional id."""
        self._move(Event.TAKEN)

    def settled(self) -> None:
        """Note that no partition holds an open or half visible transaction of a dead producer any more."""
        self._move(Event.SETTLED_AGAIN if self._owns else Event.SETTLED)

    def owned(self) -> None:
        """Note that the owner record of this process is committed."""
        self._owns = True
        self._move(Event.OWNED)

    def begins(
        self,
        owner: Owner | None,
        incarnation: int,
        head: Head | None,
        on_topic: Head | None,
        continued: Continued = Continued(),
    ) -> None:
        """Become ready after a start.

        Parameters
        ----------
        owner : Owner or None
            The owner record, read after this process committed its own.
        incarnation, head
            The result of `decide`: the incarnation, and the head that its first version follows.
        on_topic : Head or None
            The head on the topic; it is older than `head` if the models topic was lost.
        continued : Continued
            The earlier incarnation whose newest version counts as one of this one's, if there is one.

        Raises
        ------
        Fenced
            If another process owns the model by now.
        """
        self.check_owner(owner)
        self._incarnation, self._head, self._continued = incarnation, head, continued
        # Not `head`, which a checkpoint may know although the topic was lost: the topic is compared with itself later.
        self._on_topic = on_topic.number if on_topic else 0
        self._move(Event.FOUND)

    def renews(self, owner: Owner | None, on_topic: Head | None) -> None:
        """Become ready again with a new producer.

        Raises
        ------
        Fenced
            If another process owns the model by now.
        StateError
            If the models topic lost versions, or holds a version that this process did not send.
        """
        self.check_owner(owner)
        number = on_topic.number if on_topic else 0
        # One number more is the version whose outcome was in doubt: its transaction was committed after all.
        # We own the id, so nobody else may have published, and nothing may have gone: either way somebody touched the
        # topic.
        if number < self._on_topic or (number > self._on_topic and number != self.next_number):
            self._move(Event.ENDED)
            raise StateError(
                f"the models topic held {self._name}@{self._on_topic}, but now ends at {self._name}@{number}",
                "Another program deleted the topic or wrote to it. Find out which before you start again.",
            )
        if on_topic is not None and number > self._on_topic:
            self._head, self._on_topic = on_topic, number
        self._move(Event.FOUND)

    def sends(self) -> None:
        """Note that a transaction begins."""
        self._move(Event.SENT)

    def published(self, head: Head) -> None:
        """Note that a version is committed."""
        assert head.number == self.next_number
        self._move(Event.COMMITTED)
        self._head, self._on_topic = head, head.number

    def records_committed(self) -> None:
        """Note that a transaction without a version (audit entries, tombstones) is committed."""
        self._move(Event.COMMITTED)

    def refused(self) -> None:
        """Note that the broker refused a transaction: the next version takes its number."""
        self._move(Event.REFUSED)

    def doubts(self) -> None:
        """Note that a step failed, or that its outcome is known to the topic only."""
        self._move(Event.IN_DOUBT)

    def ends(self) -> None:
        """Note that nothing more may be written."""
        self._move(Event.ENDED)

    def check_owner(self, owner: Owner | None) -> None:
        """Raise `Fenced`, and end publishing, unless the model still belongs to this process."""
        if owner is not None and owner.session == self._session:
            return
        self._move(Event.ENDED)
        whose = f"the process {owner.session} since {owner.since}" if owner else "nobody"
        raise Fenced(
            f"{self._name} belongs to {whose}, not to this process ({self._session})",
            "Leave the other process running. Two supervised copies would fence each other for ever: stop one of them.",
        )

    def _move(self, event: Event) -> None:
        if event is Event.ENDED:
            self._state = State.OVER
            return
        allowed = TRANSITIONS[self._state]
        assert event in allowed, f"{event.name} in state {self._state.name}"
        self._state = allowed[event]
