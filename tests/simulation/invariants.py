"""The promise, checked on what a finished world left behind.

Readers are read_committed. Everything is judged by the logs and the files alone, and against `Reference`, which never
saw a start, a stop or a checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, cast

import msgspec
import numpy as np

from streamsvm.build import build
from streamsvm.checkpoint import Snapshot, decode
from streamsvm.config import ModelConfig
from streamsvm.config.model import learned_part
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning import is_due, naming
from streamsvm.model import Version, message as model_codec, partition_cuts, pin_key, pointers, positions
from streamsvm.points import Position, Positions
from tests.promise import answers, versions as promised
from tests.promise.anomalies import Anomaly
from tests.promise.records import Record, incarnation_of, of_bytes, published as committed
from tests.simulation.stream import INPUT, LETTERS, NAME, Editions, Expected, Reference, is_rejected
from tests.simulation.variants import Reading
from tests.simulation.world import DEATHS, OUTPUTS, RECONFIGURED, Violation, World

DEAD_LETTERS = ".dlq"
decode_once = lru_cache(maxsize=1 << 12)(decode)
"""Several invariants ask the same checkpoints, and worlds that begin alike write the same ones."""


@dataclass(frozen=True)
class Published:
    """A version as readers find it."""

    offset: int
    value: bytes
    version: Version
    incarnation: int

    @property
    def cut(self) -> dict[int, Position]:
        """Up to where it learned."""
        return positions(self.version.lineage.cut)

    @property
    def svm(self) -> dict[str, Any]:
        """What it was trained with."""
        return cast("dict[str, Any]", self.version.lineage.configuration["svm"])

    @property
    def base(self) -> dict[int, Position]:
        """From where its incarnation learned."""
        return positions(self.version.lineage.base)


class Judge:
    """Judges worlds; what it recomputed for one it remembers for the next."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._judged: set[object] = set()

    def check(self, world: World) -> None:
        """Raise `Violation` if any part of the promise is broken."""
        models, aliases, audit = (records_of(world, topic) for topic in OUTPUTS)
        hold(promised.check(models, aliases, audit, NAME, gated=True))
        versions = published(models)
        tuning_is_where_it_is_due(versions, self._reference.config)
        pins_hold(world, aliases)
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
            refusals_are_audited(world, audit)
            what_is_learned_never_changes(versions)
            self._reaches_the_end(world, versions)

    def _values_are_pure(self, world: World, versions: list[Published]) -> None:
        """Every version is, byte for byte, what a clean run gives for its cut."""
        parent = None
        for found in versions:
            choices = editions(world, found.cut)
            tolerance = found.svm["tolerance"]
            if tolerance not in {one.svm.tolerance for one in (world.settings, world.others)}:
                raise Violation(f"{found.version.key} is trained with options that nobody gave")
            key = (found.value, parent, *(_identity(choice) for choice in choices))
            if key not in self._judged and not any(
                expected_value(
                    found.version, parent, self._reference.expected(found.base, found.cut, choice, tolerance)
                )
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
        told = world.last is not None and versions and not refused
        if told and versions[-1].svm["tolerance"] != world.last.tolerance:
            raise Violation(f"at rest {versions[-1].version.key} is not trained with the options of the last start")
        # Other options make a version where the trainer stood, and count leaves anew.
        if len(_partitions(world)) == 1 and not world.happened[RECONFIGURED]:
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
        due: dict[str, list[answers.Row]] = {}
        for partition in _partitions(world):
            clean = reading.letters(partition, tuple(world.broker.log(INPUT, partition).entries))
            for topic, offsets in clean.items():
                of = topic.removesuffix(DEAD_LETTERS)
                due.setdefault(topic, []).extend((of, partition, offset) for offset in offsets)
        ends = dict.fromkeys(_partitions(world), sys.maxsize)
        for topic, rows in due.items():
            letters = records_of(world, topic)
            hold([*answers.letters_below(letters, rows, ends), *answers.letters_of(letters, rows)])

    def _sealed(self, world: World, partition: int, at: Position | None) -> int:
        log = world.broker.log(INPUT, partition)
        choice = {partition: tuple(log.entries)}
        stop = at or Position(log.end)
        return self._reference.state(partition, Position(0), stop, choice).sealed


# -------------------------------------------------------------------- reading


def records_of(world: World, topic: str) -> list[Record]:
    """Return every record of a topic of one partition that readers could ever get, in its order."""
    shown = sorted((offset, entry) for of, offset, entry in world.broker.shown if of == topic)
    return [of_bytes(topic, 0, offset, entry.key, entry.value, entry.headers) for offset, entry in shown]


def hold(anomalies: Iterable[Anomaly]) -> None:
    """Raise the first anomaly as a `Violation`."""
    for anomaly in anomalies:
        raise Violation(anomaly.line())


def published(models: Iterable[Record]) -> list[Published]:
    """Return the versions in the order of the log."""
    return [_published(one) for one in committed(models, NAME)]


def _published(one: Record) -> Published:
    assert one.content is not None
    version = decode_version(one.content, one.headers[model_codec.SHA256_HEADER])
    return Published(one.offset, one.content, version, incarnation_of(one))


decode_version = lru_cache(maxsize=1 << 12)(model_codec.decode)


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
            stream=naming.summary(cut.learned),
            lineage=lineage,
            audit=expected.audit,
            machines=expected.machines,
        )
    )


def fingerprint(value: Any) -> object:
    """Return something equal for states that are equal bit by bit, field by field."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if is_dataclass(value):
        return tuple(fingerprint(getattr(value, one.name)) for one in fields(value) if one.compare)
    return tuple(map(fingerprint, value)) if isinstance(value, tuple | list) else value


# ----------------------------------------------------------------- invariants


def tuning_is_where_it_is_due(versions: list[Published], config: ModelConfig) -> None:
    """Each version is tuned at its own cut if that is due after the one in force, else by that of those before it."""
    tuned: Published | None = None
    before: Published | None = None
    if config.svm.tune is None:
        if wrong := [found.version.key for found in versions if found.version.lineage.tuned_at is not None]:
            raise Violation(f"{wrong[0]} is tuned, though nothing is to be")
        return
    for found in versions:
        in_force = tuned if tuned is not None and tuned.incarnation == found.incarnation else None
        if before is not None and before.svm != found.svm:
            in_force = None
        before = found
        due = is_due(found.version.stream.rows, in_force.version.stream.rows if in_force else None, config)
        tuned = found if due or in_force is None else in_force
        if found.version.lineage.tuned_at != tuned.version.lineage.cut:
            raise Violation(f"{found.version.key} is not tuned at the cut of {tuned.version.key}")


def what_is_learned_never_changes(versions: list[Published]) -> None:
    """Within an incarnation only options of training differ, and a cut comes twice only where they do."""
    for before, found in pairwise(versions):
        if before.incarnation != found.incarnation:
            continue
        old, new = (one.version.lineage.configuration for one in (before, found))
        if learned_part(old) != learned_part(new):
            raise Violation(f"{found.version.key} is learned with other options than {before.version.key}")
        if before.cut == found.cut and old == new:
            raise Violation(f"{found.version.key} is {before.version.key} again")


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


def pins_hold(world: World, aliases: Iterable[Record]) -> None:
    """What people pinned is what readers resolve until people unpin it."""
    key, pin, current = world.people.pin_key, pin_key(NAME), pointers.current_key(NAME)
    values: dict[str | None, bytes | None] = {}
    held: bytes | None = None
    for one in aliases:
        values[one.key] = one.content
        if one.key == key and "by" in one.headers:
            held = one.content
        if held is not None and (values.get(pin) or values.get(current)) != held:
            raise Violation("people pinned a version, and readers resolve another")


def letters_are_complete(world: World) -> None:
    """No checkpoint that can be loaded stands past a rejected record that is not in the dead letters."""
    letters = records_of(world, LETTERS)
    for instance in (world.first, world.second):
        if instance is None or world.excuses:
            continue
        for name in instance.disk.generations():
            try:
                snapshot = decode_once(instance.disk.read(name))
            except CorruptCheckpoint as fault:
                raise Violation(f"{name} is damaged: {fault}") from None
            for partition, at in snapshot.positions.items():
                committed = world.broker.log(INPUT, partition).committed(stop=at.offset)
                due = [(INPUT, partition, offset) for offset, entry in committed if is_rejected(entry.value or b"")]
                hold(answers.letters_below(letters, due, {partition: at.offset}))


def refusals_are_audited(world: World, audit: Iterable[Record]) -> None:
    """Every version that the broker refused is in the audit trail at rest, if its process lived to say so."""
    if world.first.lives > 1 or world.second is not None:
        return
    told = [one.value for one in audit if one.value and one.value["event"] == "version_refused"]
    audited = [(entry["version"], entry["cut"]) for entry in told]
    for value in world.refused_versions:
        version = msgspec.json.decode(value)
        if (version["version"], version["lineage"]["cut"]) not in audited:
            raise Violation(f"the refusal of {NAME}@{version['version']} is not in the audit trail")
