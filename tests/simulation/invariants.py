"""The promise, checked on what a finished world left behind.

Readers are read_committed. Everything is judged by the logs and the files alone, and against `Reference`, which never
saw a start, a stop or a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import msgspec
import numpy as np

from streamsvm.build import build
from streamsvm.checkpoint.format import decode
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.structure import Bucket, Extent, Learned
from streamsvm.errors import CorruptCheckpoint
from streamsvm.kafka import Stamp
from streamsvm.learning import naming
from streamsvm.learning.memories import MemoryState
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.span_memory import SpansState
from streamsvm.learning.tuning import is_due
from streamsvm.model import message as model_codec
from streamsvm.model import pointers
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.pointers import decode_alias, decode_head, pin_key
from streamsvm.model.version import Version, partition_cuts, positions
from streamsvm.points import Points, Position, Positions, precedes
from tests.simulation.broker import Entry
from tests.simulation.people import BY_PEOPLE
from tests.simulation.stream import (
    ALIASES,
    AUDIT,
    INPUT,
    LETTERS,
    MODELS,
    NAME,
    Editions,
    Expected,
    Reference,
    is_rejected,
)
from tests.simulation.variants import Reading
from tests.simulation.world import DEATHS, OUTPUTS, Violation, World

decode_once = lru_cache(maxsize=1 << 12)(decode)
"""Several invariants ask the same checkpoints, and worlds that begin alike write the same ones."""


@dataclass(frozen=True)
class Published:
    """A version as readers find it."""

    offset: int
    value: bytes
    version: Version
    incarnation: int
    session: str

    @property
    def cut(self) -> dict[int, Position]:
        """Up to where it learned."""
        return positions(self.version.lineage.cut)

    @property
    def base(self) -> dict[int, Position]:
        """From where its incarnation learned."""
        return positions(self.version.lineage.base)


class Judge:
    """Judges worlds; what it recomputed for one it remembers for the next.

    Parameters
    ----------
    reference : Reference
    """

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._judged: set[object] = set()

    def check(self, world: World) -> None:
        """Raise `Violation` if any part of the promise is broken."""
        versions = published(world)
        numbers_rise_by_one(versions)
        cuts_advance(versions)
        tuning_is_where_it_is_due(versions, self._reference.config)
        nobody_publishes_after_being_fenced(world)
        pointers_agree(world, versions)
        the_gate_is_obeyed(world)
        pins_hold(world)
        nothing_hangs(world)
        nobody_is_in_doubt(world)
        ended_incarnations_stay_ended(world)
        self._values_are_pure(world, versions)
        self._checkpoints_are_pure(world)
        if self._reference.reading is None:
            letters_are_complete(world)
        elif not world.excuses:
            self._letters_are_those_of_a_clean_run(world, self._reference.reading)
        if not world.excuses:
            refusals_are_audited(world)
            self._reaches_the_end(world, versions)

    def _values_are_pure(self, world: World, versions: list[Published]) -> None:
        """Every version is, byte for byte, what a clean run gives for its cut."""
        parent = None
        for found in versions:
            choices = editions(world, found.cut)
            key = (found.value, parent, *(_identity(choice) for choice in choices))
            if key not in self._judged and not any(
                expected_value(found.version, parent, self._reference.expected(found.base, found.cut, choice))
                == found.value
                for choice in choices
            ):
                raise Violation(f"{found.version.key} is not what a clean run gives for {found.cut}")
            self._judged.add(key)
            parent = model_codec.sha256(found.value)

    def _checkpoints_are_pure(self, world: World) -> None:
        """Every checkpoint ever written holds, in each partition, what a clean run holds at its position."""
        for who, content in world.saved:
            histories = editions(world, {partition: Position(0) for partition in _partitions(world)})
            key = (content, *(_identity(history) for history in histories))
            if key not in self._judged:
                self._check_snapshot(world, who, decode_once(content))
                self._judged.add(key)

    def _check_snapshot(self, world: World, who: str, snapshot: Snapshot) -> None:
        for partition, state in snapshot.learner.partitions.items():
            found, base, at = fingerprint(state), snapshot.base[partition], state.position
            if not any(
                found == fingerprint(self._reference.state(partition, base, at, choice))
                for choice in editions(world, {partition: at})
            ):
                raise Violation(f"{who} saved partition {partition} at {at} as no clean run holds it")

    def _reaches_the_end(self, world: World, versions: list[Published]) -> None:
        """At rest nothing is due; with policy `every` and one partition every cut of a clean run was published."""
        refused = {tuple(positions(model_codec.decode(value).lineage.cut).items()) for value in world.refused_versions}
        cuts = [tuple(found.cut.items()) for found in versions]
        if len(_partitions(world)) == 1:
            entries = tuple(world.broker.log(INPUT).entries)
            every = world.settings.training.every_leaves
            clean = [((0, at),) for at in self._reference.cuts({0: Position(0)}, 0, entries, every)]
            due = clean if world.profile.policy == "every" else clean[-1:]
            missing = [cut for cut in due if cut not in cuts and cut not in refused]
            if missing:
                raise Violation(f"at rest no version was made of {missing[0]}")
            foreign = [cut for cut in cuts if cut not in clean]
            if foreign:
                raise Violation(f"a version was made of {foreign[0]}, where a clean run makes none")
            return
        newest = dict(cuts[-1]) if cuts else {}
        behind = sum(
            self._sealed(world, partition, None) - self._sealed(world, partition, newest.get(partition, Position(0)))
            for partition in _partitions(world)
        )
        if behind >= world.settings.training.every_leaves and not refused:
            raise Violation(f"at rest {behind} leaves were sealed after the newest version")

    def _letters_are_those_of_a_clean_run(self, world: World, reading: Reading) -> None:
        """At rest the dead letters of all logs are of what a clean run rejects, and of nothing else."""
        for partition in _partitions(world):
            clean = reading.letters(partition, tuple(world.broker.log(INPUT, partition).entries))
            for topic, due in clean.items():
                sent = {offset for of, offset in _letters(world, topic) if of == partition}
                if missing := due - sent:
                    raise Violation(
                        f"at rest there is no dead letter in {topic} of partition {partition}@{min(missing)}"
                    )
                if more := sent - due:
                    raise Violation(f"a dead letter in {topic} is of partition {partition}@{min(more)}, which is sound")

    def _sealed(self, world: World, partition: int, at: Position | None) -> int:
        log = world.broker.log(INPUT, partition)
        choice = {partition: tuple(log.entries)}
        stop = at or Position(log.end)
        return self._reference.state(partition, Position(0), stop, choice).sealed


# -------------------------------------------------------------------- reading


def transactions(world: World) -> list[list[tuple[str, int, Entry]]]:
    """Return every committed record with its topic and offset, by attempt, in the order in which readers could get it.

    A record that is published again to complete an attempt belongs to that attempt; one without a stamp stands alone.
    """
    attempts: dict[object, list[tuple[str, int, Entry]]] = {}
    for place, (topic, offset, entry) in enumerate(world.broker.shown):
        stamp = Stamp.of(entry.headers)
        attempts.setdefault(place if stamp is None else stamp.attempt, []).append((topic, offset, entry))
    return list(attempts.values())


def published(world: World) -> list[Published]:
    """Return the versions in the order of the log, each checked against the hash in its header."""
    found = []
    for offset, entry in world.broker.log(MODELS).committed():
        if entry.value is None:
            continue
        headers = dict(entry.headers)
        if model_codec.SHA256_HEADER not in headers:
            raise Violation(f"readers of versions get a record under {entry.key!r}, which is not a version")
        version = model_codec.decode(entry.value, headers[model_codec.SHA256_HEADER].decode())
        if entry.key != version.key.encode():
            raise Violation(f"the record under {entry.key!r} holds {version.key}")
        incarnation, session = headers["streamsvm.incarnation"], headers["streamsvm.session"]
        found.append(Published(offset, entry.value, version, int(incarnation), session.decode()))
    return found


def editions(world: World, cut: Positions) -> list[Editions]:
    """Return every history that the partitions of a cut have or had and that reaches so far."""
    histories = []
    for partition, at in cut.items():
        log = world.broker.log(INPUT, partition)
        known = [tuple(entries) for entries in (log.entries, *log.editions) if len(entries) >= at.offset]
        histories.append([(partition, entries) for entries in known])
    return [dict(choice) for choice in product(*histories)]


def _partitions(world: World) -> range:
    return range(len(world.broker.topics[INPUT].logs))


def _identity(choice: Editions) -> object:
    return tuple(tuple(entry and (entry.value, entry.leader_epoch) for entry in entries) for entries in choice.values())


def expected_value(version: Version, parent: str | None, expected: Expected) -> bytes:
    """Return the bytes of a version as a clean run would have published it under the same number."""
    cut = expected.cut
    lineage = msgspec.structs.replace(
        version.lineage,
        parent=parent,
        cut=partition_cuts(cut.positions, cut.leader_epochs),
        training_set_sha256=expected.training_set_sha256,
        memory=expected.memory,
        build=build(),
    )
    return model_codec.encode(
        replace(
            version,
            model=expected.model,
            fit=expected.fit,
            stream=naming.summary(cut),
            lineage=lineage,
            audit=expected.audit,
            machines=expected.machines,
        )
    )


def fingerprint(state: PartitionState) -> object:
    """Return something equal for equal states, bit by bit."""
    return (
        state.sealed,
        state.leader_epoch,
        tuple(map(_bucket, state.buckets)),
        _points(state.leaf_points),
        _extent(state.leaf_extent),
        tuple(map(_held, state.audit)),
        None if state.memory is None else _spans(state.memory),
    )


def _bucket(bucket: Bucket) -> object:
    own = None if bucket.before is None else (tuple(map(_held, bucket.audit)), bucket.times, _learned(bucket.before))
    return bucket.level, bucket.index, _points(bucket.points), _extent(bucket.extent), own


def _held(held: Held) -> object:
    return _points(held.points), held.priority.tobytes(), held.threshold


def _learned(learned: Learned) -> object:
    times = learned.first_time_ms, learned.last_time_ms
    return learned.rows, learned.count, learned.class_weight.tobytes(), times


def _spans(state: MemoryState) -> object:
    assert isinstance(state, SpansState)
    voting: Any = state.voting
    experts = (
        []
        if voting is None
        else [
            (one.border, one.trained_at, one.coefficients.tobytes(), one.intercepts.tobytes()) for one in voting.experts
        ]
    )
    return _learned(state.learned), state.times.tobytes(), experts, voting and (voting.shares, voting.end)


def _points(points: Points) -> object:
    return points.X.tobytes(), points.y.tobytes(), points.weight.tobytes()


def _extent(extent: Extent) -> object:
    times = extent.first_time_ms, extent.last_time_ms
    return tuple(extent.start), tuple(extent.end), extent.rows, times, _moments(extent.moments)


def _moments(moments: Moments) -> object:
    arrays = (moments.class_weight, moments.mean, moments.square)
    return moments.count, *(np.asarray(array).tobytes() for array in arrays)


# ----------------------------------------------------------------- invariants


def numbers_rise_by_one(versions: list[Published]) -> None:
    """Readers see 1, 2, 3, ... with no gap and none twice, each naming the one before it and those it links to."""
    hashes: list[str] = []
    for number, found in enumerate(versions, 1):
        lineage = found.version.lineage
        if found.version.number != number:
            raise Violation(f"the {number}th version is {found.version.key}")
        if lineage.parent != (hashes[-1] if hashes else None):
            raise Violation(f"{found.version.key} names another parent than the version before it")
        if lineage.links != tuple(Ancestor(one, hashes[one - 1]) for one in linked(number)):
            raise Violation(f"{found.version.key} links to {lineage.links}, which is not what it has to link to")
        hashes.append(model_codec.sha256(found.value))


def tuning_is_where_it_is_due(versions: list[Published], config: ModelConfig) -> None:
    """Each version is tuned at its own cut if that is due after the one in force, else by that of those before it."""
    tuned: Published | None = None
    if config.svm.tune is None:
        if wrong := [found.version.key for found in versions if found.version.lineage.tuned_at is not None]:
            raise Violation(f"{wrong[0]} is tuned, though nothing is to be")
        return
    for found in versions:
        in_force = tuned if tuned is not None and tuned.incarnation == found.incarnation else None
        due = is_due(found.version.stream.rows, in_force.version.stream.rows if in_force else None, config)
        tuned = found if due or in_force is None else in_force
        if found.version.lineage.tuned_at != tuned.version.lineage.cut:
            raise Violation(f"{found.version.key} is not tuned at the cut of {tuned.version.key}")


def cuts_advance(versions: list[Published]) -> None:
    """Within an incarnation each cut is past the one before it; incarnations do not come back."""
    for earlier, later in pairwise(versions):
        if later.incarnation < earlier.incarnation:
            raise Violation(f"{later.version.key} is of incarnation {later.incarnation} after {earlier.incarnation}")
        same = later.incarnation == earlier.incarnation
        if same and not (precedes(earlier.cut, later.cut) and earlier.cut != later.cut):
            raise Violation(f"{later.version.key} has the cut {later.cut} after {earlier.cut}")


def nobody_publishes_after_being_fenced(world: World) -> None:
    """Once another process has published or owned, no earlier one commits anything more."""
    gone: set[str] = set()
    newest = ""
    for transaction in transactions(world):
        session = _session(transaction)
        if session is None or session == newest:
            continue
        if session in gone:
            raise Violation(f"{session} committed after {newest} had taken over")
        gone.add(newest)
        newest = session


def _session(transaction: list[tuple[str, int, Entry]]) -> str | None:
    """Return which process committed this, as far as its records tell."""
    for topic, _, entry in transaction:
        headers = dict(entry.headers)
        if topic == MODELS and "streamsvm.session" in headers:
            return headers["streamsvm.session"].decode()
        if topic == ALIASES and entry.key == f"{NAME}@owner".encode() and entry.value:
            return str(msgspec.json.decode(entry.value)["session"])
    return None


def pointers_agree(world: World, versions: list[Published]) -> None:
    """Every head names the version of its own transaction, and so does `current`; no other record moves them."""
    by_number = {found.version.number: found for found in versions}
    head_key, current_key = pointers.head_key(NAME).encode(), pointers.current_key(NAME).encode()
    for transaction in transactions(world):
        keys = {entry.key: entry for topic, _, entry in transaction if topic == ALIASES}
        numbers = [
            msgspec.json.decode(entry.value)["version"]
            for topic, _, entry in transaction
            if topic == MODELS and entry.value is not None
        ]
        if bool(numbers) != (head_key in keys):
            raise Violation("a transaction has a version without a head, or a head without a version")
        if not numbers:
            continue
        found = by_number.get(numbers[0])
        if found is None:
            raise Violation(f"{NAME}@{numbers[0]} is committed, and readers do not get to see it")
        head = decode_head(keys[head_key].value or b"")
        told = (head.number, head.sha256, head.offset, positions(head.cut), head.incarnation)
        digest = model_codec.sha256(found.value)
        if told != (found.version.number, digest, found.offset, found.cut, found.incarnation):
            raise Violation(f"the head beside {found.version.key} says {told}")
        if current_key in keys:
            alias = decode_alias(keys[current_key].value or b"")
            if (alias.number, alias.sha256, alias.offset) != told[:3]:
                raise Violation(f"current beside {found.version.key} says {alias}")


def the_gate_is_obeyed(world: World) -> None:
    """Exactly what the gate refuses does not become current; it compares with what is, and every refusal is audited."""
    head_key, current_key = pointers.head_key(NAME).encode(), pointers.current_key(NAME).encode()
    current = None
    for transaction in transactions(world):
        keys = {entry.key: entry for topic, _, entry in transaction if topic == ALIASES}
        if head_key not in keys:
            continue
        head = decode_head(keys[head_key].value or b"")
        if head.gate is None or head.gate.against != current:
            raise Violation(f"the gate compared {NAME}@{head.number} with another version than {current}: {head.gate}")
        refused = head.gate.outcome == "refused"
        if refused == (current_key in keys):
            raise Violation(f"the gate says {head.gate.outcome} of {NAME}@{head.number}, and current does not follow")
        told = [msgspec.json.decode(entry.value)["event"] for topic, _, entry in transaction if topic == AUDIT]
        if told != ["gate_refused" if refused else "alias_moved"]:
            raise Violation(f"the audit trail says {told} of {NAME}@{head.number}, the gate {head.gate.outcome}")
        current = current if refused else head.number


def nothing_hangs(world: World) -> None:
    """At rest no reader of committed records is held up."""
    for topic in filter(world.holds_up, OUTPUTS):
        log = world.broker.log(topic)
        raise Violation(f"at rest readers of {topic} stand at {log.stable}, and it ends at {log.end}")


def nobody_is_in_doubt(world: World) -> None:
    """At rest the trainer can publish."""
    if world.trouble:
        raise Violation(f"at rest it cannot publish: {world.trouble}")


def ended_incarnations_stay_ended(world: World) -> None:
    """A directory that loses nothing never goes back to an incarnation that a later one ended."""
    if any(world.happened[kind] for kind in DEATHS if kind != "kill"):
        return
    newest: dict[str, int] = {}
    for who, content in world.saved:
        incarnation = decode_once(content).incarnation
        if incarnation < newest.get(who, 0):
            raise Violation(f"{who} went back to incarnation {incarnation} after it had begun {newest[who]}")
        newest[who] = incarnation


def pins_hold(world: World) -> None:
    """What people pinned is what readers resolve until people unpin it."""
    key, pin, current = world.people.pin_key, pin_key(NAME), pointers.current_key(NAME)
    written = [
        (offset, entry)
        for transaction in transactions(world)
        for topic, offset, entry in transaction
        if topic == ALIASES
    ]
    values: dict[bytes | None, bytes | None] = {}
    held: bytes | None = None
    for _, entry in sorted(written, key=lambda one: one[0]):
        values[entry.key] = entry.value
        if entry.key == key.encode() and entry.headers == BY_PEOPLE:
            held = entry.value
        resolved = values.get(pin.encode()) or values.get(current.encode())
        if held is not None and resolved != held:
            raise Violation("people pinned a version, and readers resolve another")


def _letters(world: World, topic: str) -> set[tuple[int, int]]:
    """Return partition and offset of every record that a topic of dead letters holds."""
    return {
        (int(headers["__streams.errors.partition"]), int(headers["__streams.errors.offset"]))
        for _, entry in world.broker.log(topic).committed()
        if (headers := dict(entry.headers))
    }


def letters_are_complete(world: World) -> None:
    """No checkpoint that can be loaded stands past a rejected record that is not in the dead letters."""
    sent = _letters(world, LETTERS)
    for instance in (world.first, world.second):
        if instance is None or world.excuses:
            continue
        for name in instance.disk.generations():
            try:
                snapshot = decode_once(instance.disk.read(name))
            except CorruptCheckpoint as fault:
                raise Violation(f"{name} is damaged: {fault}") from None
            _check_letters(world, snapshot, sent)


def _check_letters(world: World, snapshot: Snapshot, sent: set[tuple[int, int]]) -> None:
    for partition, at in snapshot.positions.items():
        for offset, entry in world.broker.log(INPUT, partition).committed(stop=at.offset):
            if is_rejected(entry.value or b"") and (partition, offset) not in sent:
                raise Violation(f"a checkpoint passed {INPUT}[{partition}]@{offset}, which has no dead letter")


def refusals_are_audited(world: World) -> None:
    """Every version that the broker refused is in the audit trail at rest, if its process lived to say so."""
    if world.first.lives > 1 or world.second is not None:
        return
    told = [
        msgspec.json.decode(entry.value)
        for transaction in transactions(world)
        for topic, _, entry in transaction
        if topic == AUDIT and entry.value
    ]
    audited = [(entry["version"], entry["cut"]) for entry in told if entry["event"] == "version_refused"]
    for value in world.refused_versions:
        version = msgspec.json.decode(value)
        if (version["version"], version["lineage"]["cut"]) not in audited:
            raise Violation(f"the refusal of {NAME}@{version['version']} is not in the audit trail")
