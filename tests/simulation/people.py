"""What happens to a world from outside of the trainer: producers, people, retention, other programs, the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from streamsvm.kafka import Stamp
from streamsvm.model import Alias, encode_alias, message as model_codec, pointers
from tests.simulation.broker import EndTxn, Entry, Log, Refused
from tests.simulation.stream import ALIASES, INPUT, MODELS, NAME, TRANSACTIONAL_ID, value

if TYPE_CHECKING:
    from tests.simulation.world import World

FOREIGN_ID = "somebody else"
COMPACTED = "compacted before it was settled"
BY_PEOPLE = (("by", b"people"),)


class Outside:
    """What happens to a world from outside of its daemons.

    `events`: Every event by name: what it does, and when it is possible; both are given this object.
    """

    def __init__(self, world: World, events: Mapping[str, Any]) -> None:
        self._world = world
        self._broker = world.broker
        self._events = events
        self._kinds = [kind for kind in events if world.left[kind] > 0]
        self._produced = 0

    def possible(self) -> list[str]:
        """Return what could happen now."""
        left = self._world.left
        return [kind for kind in self._kinds if left[kind] > 0 and self._events[kind][1](self)]

    def act(self, kind: str) -> None:
        """Let it happen."""
        self._events[kind][0](self)

    def calm(self) -> None:
        """Let everything arrive that is on its way; nothing unusual happens from now on."""
        while self._broker.late:
            self.deliver()
        self.deliver_markers()
        while self.append():
            pass

    def append(self) -> bool:
        """Produce the next record that daemons read, if there are any left."""
        raise NotImplementedError

    def deliver(self) -> None:
        """Let the oldest request arrive that was late."""
        request = self._broker.late.pop(0)
        self._world.note(f"late {request} arrives")
        try:
            self._broker.end(request)
        except Refused as refusal:
            self._world.note(f"and is refused: {refusal}")

    def late_ids(self) -> list[str]:
        """Return the transactional ids whose markers are late."""
        return [name for name in self._world.ids if self._broker.late_markers(name)]

    def deliver_markers(self) -> None:
        """Let the markers arrive that are late."""
        for name in self.late_ids():
            self._broker.deliver_markers(name)

    def orphans(self) -> list[tuple[str, int]]:
        """Return what people may abort: as daemons ask them to, they make sure that its writer is gone."""
        return [
            (topic, producer_id)
            for topic, producer_id in self._broker.orphans()
            if not self._world.writes(self._broker.first_of(topic, producer_id))
        ]

    def abort_orphans(self) -> None:
        """Abort what hangs of producers that no id has any more, as a daemon asks a person to."""
        for topic, producer_id in self.orphans():
            self._world.note(f"people abort what producer {producer_id} left open in {topic}")
            self._broker.abort_by_hand(topic, producer_id)


class People(Outside):
    """The outside of a world of trainers.

    `pin_key`: Where people pin.
    """

    pin_key = pointers.pin_key(NAME)

    def __init__(self, world: World) -> None:
        super().__init__(world, EVENTS)
        self._numbers: Counter[int] = Counter()
        self._edition = 0
        self._versions = False
        self._foreign: tuple[int, int] | None = None
        made = (one.producers(world) for one in world.variants)
        self._producers = next((one for one in made if one is not None), None)

    # -------------------------------------------------------------- producers

    def append(self) -> bool:
        """Produce the next record of the input, if there are any left."""
        if self._producers is not None:
            return self._producers.append()
        if self._produced >= self._world.profile.records:
            return False
        logs = self._broker.topics[INPUT].logs
        partition = self._produced % len(logs)
        number, log = self._numbers[partition], logs[partition]
        self._numbers[partition] += 1
        log.append(
            Entry(value(partition, number, self._edition, self._world.profile.classes), leader_epoch=log.leader_epoch)
        )
        if number == 2:
            log.append(Entry(None, control=True, leader_epoch=log.leader_epoch))
        self._produced += 1
        return True

    def add_partition(self) -> None:
        """Give the input another partition, with a record in it."""
        logs = self._broker.topics[INPUT].logs
        logs.append(Log())
        self._numbers[len(logs) - 1] = 1
        logs[-1].append(Entry(value(len(logs) - 1, 0, self._edition, self._world.profile.classes)))

    def trim(self) -> None:
        """Let retention take a record that may be unread."""
        for partition, log in enumerate(self._broker.topics[INPUT].logs):
            if log.end - log.first > 1:
                log.first += 1
                self._world.excuses.append(f"trim {partition}")

    def truncate(self) -> None:
        """Lose the newest record of the input, which others then take the place of."""
        self._edition += 1
        for log in self._broker.topics[INPUT].logs:
            log.truncate(max(log.first, log.end - 1))
        self._world.excuses.append("truncate")

    def recreate(self) -> None:
        """Make the input anew."""
        self._edition += 1
        logs = self._broker.topics[INPUT].logs
        self._broker.create(INPUT, len(logs))
        for old, new in zip(logs, self._broker.topics[INPUT].logs, strict=True):
            new.editions = [*old.editions, list(old.entries)]
        self._numbers.clear()
        self._produced = min(self._produced, self._world.profile.records - len(logs))
        for _ in logs:
            self.append()
        self._world.excuses.append("recreate")

    # ---------------------------------------------------------------- aliases

    def pin(self) -> None:
        """Pin the newest version."""
        self._alias(self.pin_key, self._newest())

    def unpin(self) -> None:
        """Take the pin away."""
        self._alias(self.pin_key, None)

    def alias(self) -> None:
        """Set an alias of one's own."""
        self._alias(f"{NAME}@stable", self._newest())

    def retire(self) -> None:
        """Retire the newest version: a tombstone under its key."""
        _, entry = self._newest()
        self._broker.produce(MODELS, Entry(None, entry.key, BY_PEOPLE))

    def compact(self) -> None:
        """Let the log cleaner run over the aliases, longer after they were written than their smallest lag."""
        aborted = {Stamp.of(entry.headers) for entry in self._broker.log(ALIASES).compact()} - {None}
        seen = {Stamp.of(entry.headers) for _, _, entry in self._broker.shown} - {None}
        attempts = {stamp.attempt for stamp in seen}
        if any(stamp.attempt in attempts and stamp not in seen for stamp in aborted):
            self._world.excuses.append(COMPACTED)  # the rest of what readers see a part of

    def _newest(self) -> tuple[int, Entry]:
        return [one for one in self._broker.log(MODELS).committed() if one[1].value is not None][-1]

    def _any_version(self) -> bool:
        if not self._versions:  # once one can be read, it stays
            self._versions = any(entry.value is not None for _, entry in self._broker.log(MODELS).committed())
        return self._versions

    def _alias(self, key: str, version: tuple[int, Entry] | None) -> None:
        content = None
        if version is not None:
            offset, entry = version
            number = msgspec.json.decode(entry.value)["version"]
            content = encode_alias(Alias(number, model_codec.sha256(entry.value), offset))
        self._broker.produce(ALIASES, Entry(content, key.encode(), BY_PEOPLE))

    # ------------------------------------------------------------ transactions

    def foreign(self) -> None:
        """Let another program write to the aliases topic in a transaction of its own, and leave it open."""
        producer = self._broker.initialise(FOREIGN_ID)
        self._broker.send(FOREIGN_ID, producer, ALIASES, Entry(b"{}", b"other@stable", BY_PEOPLE))
        self._foreign = producer

    def end_foreign(self) -> None:
        """Let it end that, or time out."""
        if self._broker.open(FOREIGN_ID):
            self._broker.end(EndTxn(FOREIGN_ID, *self._foreign, commit=True))

    def expire(self) -> None:
        """Let the transactional id expire."""
        self._broker.expire(TRANSACTIONAL_ID)

    def time_out(self) -> None:
        """Let the transaction time out that the trainer, or what is left of one, has open."""
        self._broker.time_out(TRANSACTIONAL_ID)


def always(_: Outside) -> bool:
    """Tell that an event is possible at any time."""
    return True


EVENTS = {
    "append": (People.append, always),
    "add partition": (People.add_partition, lambda people: len(people._broker.topics[INPUT].logs) < 3),
    "trim": (People.trim, always),
    "truncate": (People.truncate, always),
    "recreate": (People.recreate, always),
    "pin": (People.pin, People._any_version),
    "unpin": (People.unpin, always),
    "alias": (People.alias, People._any_version),
    "retire": (People.retire, People._any_version),
    "compact": (People.compact, always),
    "foreign": (People.foreign, lambda people: not people._broker.open(FOREIGN_ID)),
    "end foreign": (People.end_foreign, lambda people: bool(people._broker.open(FOREIGN_ID))),
    "deliver": (People.deliver, lambda people: bool(people._broker.late)),
    "markers arrive": (People.deliver_markers, lambda people: bool(people.late_ids())),
    "abort by hand": (People.abort_orphans, lambda people: bool(people.orphans())),
    "expire": (People.expire, lambda people: people._broker.open(TRANSACTIONAL_ID) is False),
    "time out": (People.time_out, lambda people: bool(people._broker.open(TRANSACTIONAL_ID))),
}
"""Every event by name: what it does, and when it is possible."""
