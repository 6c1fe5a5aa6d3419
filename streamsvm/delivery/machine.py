"""The state machine of publishing: which events are possible in which state, and what is published next.

Read this page before you change `TRANSITIONS`. The table is short, and most of its lines exist for one reason: a commit
of Kafka can succeed without anybody learning that it did.

What it is for
--------------
A model has one transactional id, and a version becomes visible by one transaction of that id. On nearly every day the
machine only goes READY, SENDING, READY. All the rest is about the moments in which that is not enough: the answer to a
commit is lost; a broker is killed after it decided a transaction and before it marked all partitions; two processes
run with the same name; a process is suspended for an hour and then goes on where it was.

`Delivery` does no I/O and reads no clock. `consumers.trainer.session.Session` does the work on a broker, and calls one
method here after each step: `taken` after the id was taken, `settled` after the partitions were settled, and so on. A
method whose event is not in the table for the current state is a bug in the caller, and fails an assertion. Because
nothing here waits for anything, `tests/simulation` can run a hundred thousand orders of events.

The states
----------
LOOKING. Every start begins here. The process has read the topics and has written no record. It has no producer, and so
it has not fenced anybody: a start that is refused now (`streamsvm.delivery.decision`) leaves a running trainer alone.
The event FIT ends this state.

TAKING. The next thing to do is to create a producer and to take the transactional id over with it. The broker then
refuses every older producer of the id, and aborts what such a producer left open, as far as the broker still knows of
it. A failure here changes nothing: the state stays TAKING, and the session tries again later.

SETTLING. The id is ours, but the partitions may still contain remains of earlier transactions: the broker may have lost
the marker that ends a transaction in some of them. Until each partition is settled (`streamsvm.delivery.settlement`)
nothing may be committed, because the marker of our next transaction would also end the remains, and would make half a
version visible. After settling there are two ways on. A process that has not written its owner record goes to OWNING. A
process that has written it, and came back here after a doubt, goes to READING.

OWNING. The next thing to do is to commit the owner record. It names this process. It is committed before the topic is
read, so that no other process can change what is then found there.

READING. The next thing to do is to read head and owner record, up to the read-uncommitted high watermark. A start then
calls `begins`. After a doubt `renews` is called, and the head shows what became of the transaction: it has the next
number if the transaction was committed, and the old number if it was not. Any other number means that another program
wrote to the topic or deleted records, and ends the process.

READY. No transaction is in flight. This is the only state in which the next version may be sent. If readers are blocked
by an open transaction, or the broker could not confirm that the input is still the same topic, the machine leaves READY
for TAKING without having sent anything.

SENDING. One transaction is in flight. It can end in three ways. COMMITTED: it was answered, and readers have passed it;
the next number is one higher. REFUSED: the broker rejected it for good (too large, for example) and it was aborted; the
number is still free. IN_DOUBT: nobody knows; back to TAKING.

OVER. Final. The process may write nothing more, whatever the broker would allow. Reached by the event ENDED, from any
state.

Why every doubt leads back to TAKING
------------------------------------
A producer whose transaction has an unknown outcome is never used again. What it sent may still be applied by the
broker, even much later, and would then become part of the next transaction of the same producer. A new producer has
another epoch, so the broker refuses the late request. The steps after a doubt are therefore always the same three, in
this order: a new producer takes the id over; every partition that the id writes to is settled; the topic is read to its
end. Only then is it known which number is next.

Why being fenced is only a doubt
--------------------------------
A broker fences in two cases that look the same to a client: another process took the id over, or a transaction of our
own took longer than its timeout. The first must end this process, the second must not. The owner record distinguishes
them. It also keeps a process that was suspended, while another one replaced it, from taking the id back: `check_owner`
ends publishing as soon as the record names another session.

What always holds
-----------------
- Version numbers rise by one.
- Within an incarnation the cut of each version is at or past the cut of the one before it in every partition, and
  differs from it in one, or its options of training do (`Delivery.admits`).
- A cut at or behind the head's is never published again, but for one version at the head's own: it takes the place of
  that one, of an incarnation that is continued (`Continued`), or is trained with other options. After a restart from an
  older checkpoint the trainer passes such cuts while it reads the log again.
- `State.OVER` is final.

To read next: `consumers.trainer.session` (the driver), `streamsvm.delivery.settlement` (what SETTLING does, case by
case), `streamsvm.delivery.decision` (what a start concludes from what it found).
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

    Where rows were erased, a version at the same cut takes the place of that one before anything new is learned.

    Attributes
    ----------
    incarnation : int
        0: there is none.
    why : str
        Why that version is replaced, for people, whatever the gate says; empty where it is not.
    """

    incarnation: int = 0
    why: str = ""


class State(StrEnum):
    """The state of a process's publishing."""

    LOOKING = "looking"
    """The process only reads. It fences nobody, so a start that must be refused does no harm."""
    TAKING = "taking"
    """Next: a new producer takes the transactional id over."""
    SETTLING = "settling"
    """Next: end what dead transactions left in the partitions, and complete it where readers saw a part."""
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

    FIT = "what was found allows the start"
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
    trained : str
        SHA-256 of the options that versions are trained with; empty where none are published.
    """

    def __init__(self, name: str, session: str, trained: str = "") -> None:
        self._name = name
        self._session = session
        self.trained = trained
        self._state = State.LOOKING
        # Whether the owner record of this process was committed once. It stays true through every later doubt: a
        # process that was replaced is recognised by the record on the topic (`check_owner`), not by this flag.
        self._owns = False
        self._incarnation = 0
        self._head: Head | None = None
        # The newest number that was seen on the topic. It can be less than the number of `_head`, because a checkpoint
        # may name a version that the topic lost; numbers go on from `_head`, comparisons of the topic use this one.
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
        # The cut of an earlier incarnation may name positions of another log: a reset often follows a recreated topic.
        # The exception is an incarnation that began because rows were erased: its log is the same, so that the cut
        # before the erasure still counts (`Continued`).
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
        """The tuning in force; None before this incarnation published with its options, and where nothing is tuned."""
        # One that is continued does not count: rows were erased since, or have other columns.
        head = self._head
        return tuning_of(head) if head and head.incarnation == self._incarnation and not self.retrains else None

    @property
    def retrains(self) -> bool:
        """Whether this incarnation's newest version was trained with other options."""
        head = self._head
        if head is None or head.incarnation != self._incarnation:
            return False
        return head.trained_sha256 not in {"", self.trained}  # an older build named none

    def admits(self, cut: Positions) -> bool:
        """Return whether a cut may become a version: at or past the head's cut in every partition, and not equal.

        Equal it may be where the newest version is to be replaced, or was trained with other options.
        """
        published = self.published_cut
        # A trainer that reads the log again reaches cuts behind the head, and the head's own. Those versions exist.
        return precedes(published, cut) and (dict(cut) != published or bool(self.replaces) or self.retrains)

    def replaying(self, reached: Positions) -> bool:
        """Return whether some partition is still behind the head's cut."""
        return any(reached[partition] < position for partition, position in self.published_cut.items())

    # ----------------------------------------------------------------- events

    def fits(self) -> None:
        """Note that the records on the topics allow a start."""
        self._move(Event.FIT)

    def taken(self) -> None:
        """Note that a new producer has the transactional id."""
        self._move(Event.TAKEN)

    def settled(self) -> None:
        """Note that no partition contains an open or half visible transaction of a dead producer any more."""
        # One method for both events, so that the caller need not know whether this is a start or a renewal.
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
        # Not the number of `head`: a checkpoint may name a later version than a topic that was lost and recreated. What
        # `renews` needs later is what the topic itself showed at this moment.
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
        # Two numbers are possible. The same as before: the transaction in doubt was not committed. One more: it was.
        # This process owns the id, so nobody else can have published; a smaller or a larger number means that somebody
        # deleted records, or wrote without the id. Going on could then publish a number twice.
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
        # A head with another number would mean that the version was assembled before a doubt, and sent after it.
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
        # Not in the table, because it is possible in every state, OVER included: two steps may both find a reason to
        # end.
        if event is Event.ENDED:
            self._state = State.OVER
            return
        allowed = TRANSITIONS[self._state]
        assert event in allowed, f"{event.name} in state {self._state.name}"
        self._state = allowed[event]
