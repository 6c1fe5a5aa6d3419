"""Defects of who publishes versions: transactions, ids, owners, pointers; the settling of what the dead left open."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

import consumers.trainer.observer
import streamsvm.delivery.machine
import streamsvm.kafka.client
import streamsvm.kafka.outbox
import streamsvm.kafka.producing
import streamsvm.kafka.reading
from consumers.streams.score_settlement import ScoreSettlement
from consumers.streams.settling import Settlement
from consumers.streams.topics import READ_TIMEOUT_S, KnownPointers, read_pointers
from consumers.streams.version_settlement import VersionSettlement
from consumers.trainer.gatekeeping import MarginGate
from consumers.trainer.session import Session
from consumers.trainer.startup import Startup
from streamsvm.delivery import publication
from streamsvm.delivery.machine import Delivery
from streamsvm.errors import FatalError, TransientError
from streamsvm.kafka import Cluster, Message, OutcomeUnknown, Publisher, PublishRefused
from streamsvm.kafka.log import _questions, _watermarks
from streamsvm.kafka.producing import _Purged
from streamsvm.learning.naming import tuning_of
from streamsvm.model.pointers import (
    Alias,
    Gate,
    Head,
    Owner,
    current_key,
    encode_alias,
    encode_owner,
    owner_key,
    pin_key,
)
from streamsvm.model.version import Version
from streamsvm.points import Positions
from tests.defects.planting import TABLE, Live, Simulated, replace_part, wrap

WINDOW_S: Final = 0.02
"""How much longer a defect leaves open the moment at which it can be hit; without that it takes more kills."""

DOUBTS: Final = {"unanswered": 2, "unsent": 1, "late": 2, "deliver": 2}
HANGS: Final = {"markers lost": 2, "kill": 2, "unanswered": 1, "time out": 1}
NUMBERS: Final = "(doubled|missing)-version"
TORN: Final = f"{NUMBERS}|torn-version|ends at"
LOST: Final = {"markers lost": 2, "markers late": 1, "markers arrive": 2, "kill": 1}
"""Of a scorer's transactions."""


# ------------------------------------------------------------ outcomes unknown


class _Careless:
    """A publisher that takes an unknown outcome lightly; a new client carries on."""

    def __init__(self, make: Callable[[], Publisher], *, resends: bool) -> None:
        self._make, self._resends = make, resends
        self._publisher = make()

    def start(self) -> None:
        self._publisher.start()

    def publish(self, messages: Sequence[Message], last: Callable[..., Any] | None = None) -> list[int]:
        try:
            return self._publisher.publish(messages, last)
        except OutcomeUnknown:
            self._publisher.close()
            self._publisher = self._make()
            self._publisher.start()
            return self._publisher.publish(messages, last) if self._resends else [0] * len(messages)

    def confirm(self) -> None:
        with suppress(OutcomeUnknown):
            self._publisher.confirm()

    def sweep(self, messages: Sequence[Message]) -> None:
        self._publisher.sweep(messages)

    def close(self) -> None:
        self._publisher.close()


def _careless(*, resends: bool) -> None:
    def publisher(original: Any, cluster: Cluster, name: str, writer: str = "", **named: Any) -> Any:
        return _Careless(lambda: original(cluster, name, writer, **named), resends=resends)

    wrap(Cluster, "publisher", publisher)


@TABLE.defect(
    Simulated(breach=NUMBERS, faults=DOUBTS, world=True),
    Simulated(breach="doubled-score", faults={"unanswered": 2}, scorer=True, world=True),
    live=Live(part="train", nemeses=("lost-answer",), shows=("doubled-version",), faults=3),
)
def resends() -> None:
    """After a commit of unknown outcome the same is sent again, and the topic is not read first."""
    _careless(resends=True)


@TABLE.defect(
    live=Live(part="train", nemeses=("lost-answer",), shows=("lost-version", "missing-version", "forged"), faults=3)
)
def assumes_success() -> None:
    """A commit of unknown outcome is taken for done."""
    _careless(resends=False)


@TABLE.defect(Simulated(breach=f"{NUMBERS}|torn-version", faults={"late": 2, "deliver": 2}, world=True), patches=False)
def keeps_its_producer() -> None:
    """After a commit of unknown outcome the same producer goes on."""


@TABLE.defect()
def renews_unread() -> None:
    """When the broker has forgotten the producer id, a new one is taken, and the next version is sent unread."""
    replace_part(Publisher, "_dropped", lambda self, topic: _Purged(topic, "Try again."))


@TABLE.defect()
def gives_up() -> None:
    """A publish that fails for want of a broker ends the process."""

    def publish(original: Any, publisher: Publisher, *arguments: Any) -> list[int]:
        try:
            offsets: list[int] = original(publisher, *arguments)
        except TransientError as error:
            raise FatalError(error.what, error.remedy) from error
        return offsets

    wrap(Publisher, "publish", publish)


@TABLE.defect()
def takes_a_refusal_for_success() -> None:
    """A version that the broker refuses counts as published."""

    def publish(original: Any, *given: Any) -> list[int]:
        try:
            offsets: list[int] = original(*given)
        except PublishRefused:
            return [0]
        return offsets

    wrap(Publisher, "publish", publish)


@TABLE.defect(live=Live(part="train", nemeses=("kill-broker",), shows=("stuck-trainer",), faults=2))
def never_renews() -> None:
    """After a doubt nothing is ever published again; the process lives on."""

    def renew(original: Any, session: Session, **given: Any) -> bool:
        return bool(session._delivery.ready)

    wrap(Session, "renew", renew)


# --------------------------------------------------------------- transactions


@TABLE.defect(live=Live(part="train", nemeses=("kill-trainer",), shows=("torn-version",)))
def publishes_pointers_apart() -> None:
    """A version is committed first, and what points at it in a transaction of its own."""

    def publish(original: Any, publisher: Publisher, messages: Sequence[Message], last: Any = None, *more: Any) -> Any:
        offsets = original(publisher, messages)
        if last is not None:
            time.sleep(WINDOW_S)
            original(publisher, last(offsets))
        return offsets

    wrap(Publisher, "publish", publish)


@TABLE.defect(live=Live(part="train", nemeses=("kill-trainer",), shows=("torn-version", "doubled-version")))
def uses_no_transactions() -> None:
    """Records are written plainly: each is there as soon as it is stored."""
    sound = streamsvm.kafka.client.make_producer

    def make_producer(connection: Any, link: Any, **options: Any) -> Any:
        fixed = {name: value for name, value in options.pop("fixed").items() if not name.startswith("transact")}
        return sound(connection, link, fixed=fixed, **options)

    for module in (streamsvm.kafka.producing, streamsvm.kafka.outbox):
        replace_part(module, "make_producer", make_producer)
    replace_part(Publisher, "start", lambda self: None)
    replace_part(Publisher, "_begin", lambda self: None)
    replace_part(Publisher, "_commit", lambda self: time.sleep(WINDOW_S))
    replace_part(Publisher, "_abort", lambda self, cause: None)
    wrap(Publisher, "_store", _and_wait)


def _and_wait(original: Any, *given: Any) -> Any:
    made = original(*given)
    time.sleep(WINDOW_S)
    return made


@TABLE.defect(live=Live(part="train", nemeses=("kill-trainer",), shows=("lost-version",)))
def tells_too_early() -> None:
    """A version is told of when its records are sent, and not when they are committed."""

    def publish(original: Any, session: Session, messages: Any, last: Any = None, committed: Any = None) -> None:
        if last is not None:
            key = messages[0].key.decode()
            consumers.trainer.observer.log.info("model_published", version=key)
        time.sleep(WINDOW_S)
        original(session, messages, last, *([committed] if committed else []))

    wrap(Session, "publish", publish)


@TABLE.defect(
    live=Live(
        part="train",
        nemeses=("kill-trainer",),
        shows=("lost-version", "missing-version", "torn-version", "forged"),
    )
)
def reads_uncommitted() -> None:
    """What a dead writer left open is taken for published."""

    def lent_consumer(original: Any, connection: Any, topic: str, fixed: Any) -> Any:
        return original(connection, topic, {**fixed, "isolation.level": "read_uncommitted"})

    wrap(streamsvm.kafka.reading, "lent_consumer", lent_consumer)
    wrap(Publisher, "_commit", _late)


def _late(original: Any, *given: Any) -> Any:
    time.sleep(WINDOW_S)
    return original(*given)


@TABLE.defect(live=Live(part="read", nemeses=("kill-trainer",), shows=("aborted-read",)))
def serves_what_is_uncommitted() -> None:
    """A subscriber reads uncommitted records."""
    TABLE.plant("reads-uncommitted")


@TABLE.defect(
    Simulated(
        breach=f"{NUMBERS}|ends at|the aliases topic holds no",
        faults={"foreign": 2, "end foreign": 2, "kill": 2},
        world=True,
        alone=True,
    )
)
def reads_to_the_stable_offset() -> None:
    """The end of what is committed is taken for the end of the topic: an open transaction hides what follows it."""

    def stable_range(_: Any, connection: Any, topic: str, partition: int) -> tuple[int, int]:
        with _questions(connection, topic, [partition], "read_committed") as (consumer, link):
            return _watermarks(consumer, link, connection, topic, partition)

    wrap(streamsvm.kafka.reading, "log_range", stable_range)


@TABLE.defect(
    Simulated(
        breach=f"{TORN}|disobeyed-gate",
        faults={"markers lost": 2, "kill": 1, "failed": 2, "refused": 1},
        world=True,
    ),
    Simulated(
        breach="doubled-score|lost-score|are held up",
        faults={**LOST, "failed": 2},
        scorer=True,
        world=True,
    ),
)
def believes_every_answer() -> None:
    """A commit that was answered counts as one that readers have passed: the next transaction waits for no markers."""
    replace_part(Publisher, "confirm", lambda self: None)


# ------------------------------------------------------------------- settling


@TABLE.defect(
    Simulated(
        breach=f"{NUMBERS}|readers of|torn-version|did not come to rest|at rest no version",
        faults=HANGS,
    ),
    Simulated(
        breach="doubled-score|lost-score|are held up|points of partition|there is no rest",
        faults=LOST,
        scorer=True,
    ),
)
def settles_nothing() -> None:
    """An id is taken, and what its partitions hold of a dead transaction stays open."""
    replace_part(Settlement, "settle", lambda self, publisher: None)


@TABLE.defect(
    Simulated(breach=TORN, faults=HANGS),
    Simulated(breach="lost-score|doubled-score", faults=LOST, scorer=True),
)
def completes_nothing_half_visible() -> None:
    """Of a commit whose markers are partly lost, the missing records are not published again."""
    wrap(VersionSettlement, "_complete", lambda original, settlement, publisher, left_open: None)
    wrap(ScoreSettlement, "_publish_again", lambda original, *given: None)


@TABLE.defect(
    Simulated(
        breach=f"{TORN}|disobeyed-gate",
        faults={"markers lost": 2, "kill": 3, "expire": 2, "abort by hand": 2},
    )
)
def completes_nothing_aborted() -> None:
    """Where nothing hangs the newest attempt is not looked at: what somebody else aborted stays incomplete."""
    wrap(VersionSettlement, "_lacks_parts", lambda original, settlement, mine, others: False)


@TABLE.defect(
    Simulated(breach=f"{NUMBERS}|torn-version|zombie|is not a version|see only a part of", faults=HANGS, world=True),
    Simulated(
        breach="doubled-score|phantom|points of partition|ended without a reason",
        faults={**LOST, "failed": 2},
        scorer=True,
        world=True,
    ),
    patches=False,
)
def settles_by_commit() -> None:
    """A dead transaction is committed, not aborted."""


@TABLE.defect(Simulated(breach=f"{NUMBERS}|torn-version|zombie", faults=HANGS))
def owns_before_it_settles() -> None:
    """The owner record comes before the settling."""

    def take_over(original: Any, session: Session, now: datetime) -> KnownPointers:
        session._delivery.fits()
        session._take()
        owner = encode_owner(Owner(session._delivery.session, now.isoformat()))
        key = owner_key(session._settings.name).encode()
        session._transaction([Message(session._settings.output.aliases_topic, owner, key, partition=0)], None)
        session._settle()
        session._delivery.owned()
        return read_pointers(session._cluster, session._settings, READ_TIMEOUT_S)

    wrap(Session, "take_over", take_over)


# -------------------------------------------------------------- ids and owners


@TABLE.defect(
    live=Live(part="train", nemeses=("stop-trainer",), shows=("doubled-version", "zombie"), faults=2),
)
def takes_an_id_of_its_own() -> None:
    """Each process has another transactional id, so that nobody is ever fenced."""

    def publisher(original: Any, cluster: Cluster, name: str, writer: str = "", **named: Any) -> Publisher:
        made: Publisher = original(cluster, f"{name}/{uuid.uuid4().hex}", writer, **named)
        return made

    wrap(Cluster, "publisher", publisher)


@TABLE.defect(
    Simulated(
        breach=f"{NUMBERS}|reordered|zombie|torn-version", faults={"all lost": 1, "reset": 1}, two=True, world=True
    ),
    patches=False,
)
def names_its_id_by_incarnation() -> None:
    """Each incarnation has another transactional id, so that it does not fence the one before it."""


@TABLE.defect(
    Simulated(breach=f"zombie|now ends at|{NUMBERS}", faults={**DOUBTS, "failed": 2, "unavailable": 1}, two=True)
)
def asks_for_no_owner() -> None:
    """Nobody asks whose the model is."""
    wrap(Delivery, "check_owner", lambda original, delivery, owner: None)


@TABLE.defect(
    Simulated(breach="took the id back", faults={"time out": 1, "failed": 1}, two=True),
)
def takes_its_id_back() -> None:
    """Who was fenced does not wait for the owner record of who fenced it."""
    wrap(Session, "_may_be_taken_over", lambda original, session: False)


@TABLE.defect(Simulated(breach=f"{NUMBERS}|ends at|reordered", faults={"kill": 1}, two=True, world=True), patches=False)
def reads_before_it_takes_the_id() -> None:
    """The head is read once, before the transactional id is taken, and believed ever after."""


@TABLE.defect(Simulated(breach="and then refused to start", faults={"all lost": 1}))
def fences_before_it_looks() -> None:
    """A start takes the id, and fences who is at work, before it looks whether it can start at all."""
    wrap(Startup, "_look", lambda original, startup: None)


# ------------------------------------------------------ numbers, cuts, pointers


@TABLE.defect(Simulated(breach="reordered", faults={"kill": 2, "newest lost": 1}))
def admits_every_cut() -> None:
    """A pending cut is published, however far the versions have come beyond the checkpoint."""
    wrap(Delivery, "admits", lambda original, delivery, cut: True)


@TABLE.defect(Simulated(breach="reordered", faults={"kill": 2, "refused": 1, "newest lost": 1}))
def knows_a_cut_by_its_identity() -> None:
    """An unfinished publish is known by being the head's cut, not by ending where the head does."""

    def admits(original: Any, delivery: Delivery, cut: Positions) -> bool:
        return dict(cut) != delivery.published_cut

    wrap(Delivery, "admits", admits)


@TABLE.defect(Simulated(breach=NUMBERS, faults={"all lost": 1, "kill": 1}))
def begins_the_numbers_again() -> None:
    """A reset begins the numbers of versions again."""

    def next_number(self: Delivery) -> int:
        return self.head.number + 1 if self.head and self.head.incarnation == self.incarnation else 1

    replace_part(Delivery, "next_number", property(next_number))


@TABLE.defect(
    Simulated(breach=f"{NUMBERS}|ends at", faults={"retire": 2, "kill": 2, "newest lost": 2}, world=True), patches=False
)
def takes_what_is_left_for_the_head() -> None:
    """The newest version that is not retired is taken for the head."""


@TABLE.defect(Simulated(breach="people pinned|disobeyed-gate", faults={"pin": 2}, world=True), patches=False)
def shares_the_key_of_current() -> None:
    """People pin under the key of `current`, and a version moves it if it knew of no pin when it began."""


@TABLE.defect(live=Live(part="train", nemeses=("kill-trainer",), shows=("forged",), faults=2))
def forgets_its_parent() -> None:
    """The first version of a process names no parent."""
    sound: Any = Delivery.parent
    own: list[bool] = []

    def parent(self: Any) -> str | None:
        own.append(True)
        found: str | None = sound.fget(self) if len(own) > 1 else None
        return found

    replace_part(Delivery, "parent", property(parent))


@TABLE.defect()
def takes_pins_back() -> None:
    """Every published version takes the pin of its model back."""

    def publish(
        original: Any, publisher: Publisher, messages: Sequence[Message], last: Any = None, progress: Any = None
    ) -> list[int]:
        def and_unpin(offsets: Sequence[int]) -> list[Message]:
            pointers = list(last(offsets))
            name = (pointers[0].key or b"").decode().split("@")[0]
            return [*pointers, replace(pointers[0], key=pin_key(name).encode(), value=None)]

        offsets: list[int] = original(publisher, messages, last and and_unpin, progress)
        return offsets

    wrap(Publisher, "publish", publish)


@TABLE.defect(Simulated(breach="disobeyed-gate", faults={"gate refuses": 2, "kill": 1}))
def moves_current_past_the_gate() -> None:
    """A version becomes current whatever the gate says."""

    def pointers(original: Any, sent: publication.Publication, topics: Any, offsets: Any, *more: Any) -> list[Message]:
        messages: list[Message] = original(sent, topics, offsets, *more)
        key = current_key(sent.version.name).encode()
        if not any(message.key == key for message in messages):
            alias = encode_alias(sent.head_at(offsets[0]).alias)
            messages.append(Message(topics.aliases, alias, key, partition=0))
        return messages

    wrap(publication, "pointers", pointers)


@TABLE.defect(Simulated(breach="disobeyed-gate", faults={"gate refuses": 2, "kill": 1}))
def compares_with_what_it_refused() -> None:
    """The gate compares with the newest version, also where that one is not current."""

    def published(original: Any, gate: MarginGate, version: Version, found: Gate | None, alias: Alias) -> None:
        assert found is not None
        original(gate, version, msgspec.structs.replace(found, outcome="passed"), alias)

    wrap(MarginGate, "published", published)


@TABLE.defect(Simulated(breach="is not tuned at the cut", faults={"kill": 2}))
def remembers_its_tuning() -> None:
    """The tuning in force is kept in memory, not by the head, and ends with the process."""
    kept: dict[int, Any] = {}

    def published(original: Any, delivery: Delivery, head: Head) -> None:
        original(delivery, head)
        kept[id(delivery)] = delivery, tuning_of(head)

    wrap(Delivery, "published", published)
    replace_part(Delivery, "tuning", property(lambda self: kept.get(id(self), (self, None))[1]))
