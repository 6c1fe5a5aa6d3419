"""Worlds of scorers: one or two of a group, what happens to their group from outside, and what they promise.

What a scorer does not promise stands in `NOT_PROMISED`. What its group says is lost, and moved by somebody else, in any
world: scores come once nevertheless.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from consumers.host import Health
from streamsvm.errors import StateError
from streamsvm.model import message as model_codec
from tests.promise import answers
from tests.promise.anomalies import each
from tests.simulation.broker import Entry
from tests.simulation.choices import Chooser
from tests.simulation.disk import Disk
from tests.simulation.invariants import hold, records_of
from tests.simulation.people import Outside, always
from tests.simulation.scorer_ports import (
    POINT_LETTERS,
    POINTS,
    POSITIONS,
    PROGRESS,
    REPAIR_FAILED,
    SCORES,
    Group,
    ScorerPorts,
    hint,
    progress,
    settings_of,
    version,
    wired,
)
from tests.simulation.stream import MODELS, NAME
from tests.simulation.world import COMMIT_FAULTS, MARKER_FAULTS, Instance, Life, Profile, Violation, World

NOT_PROMISED: Final = ("expire hanging",)
"""What a scorer cannot make good: an id that expires while a marker of its last transaction is missing, which only
people can write then, before anybody has looked at it."""
CHOSEN: Final = "a person said where to begin"
EXCUSES: Final = frozenset({*NOT_PROMISED, CHOSEN})
"""Of two slots also `REPAIR_FAILED`: where progress hangs of a batch of which readers see scores, and the transaction
that completes it is aborted, that progress is aborted as well. Until the slot's successor has looked, whoever is in the
other may read on from the progress before."""
GAPS: Final = ("points trimmed", "points recreated", "points truncated")
MOVED: Final = ("positions lost", "positions set back", "positions set ahead")
OTHERS: Final = ("new version", "session expires", "expire", "time out", "dead unknown", *MOVED)
BAD: Final = b"bad"
MOST_STEPS: Final = 20_000


class ScorerPeople(Outside):
    """The outside of a world of scorers."""

    def __init__(self, world: ScorerWorld) -> None:
        super().__init__(world, EVENTS)
        self._ids = 0

    def append(self) -> bool:
        """Produce the next point, if there are any left; every fifth is bad, but for the first."""
        if self._produced >= self._world.profile.records:
            return False
        logs = self._broker.topics[POINTS].logs
        bad = self._ids % 5 == 3
        content = BAD if bad else json.dumps({"id": self._ids, "x": [float(self._ids)]}).encode()
        partition = self._produced % len(logs)
        offset = logs[partition].append(Entry(content, leader_epoch=logs[partition].leader_epoch))
        self._world.fed[f"{POINTS}/{partition}/{offset}", self._ids] = bad
        self._produced += 1
        self._ids += 1
        return True

    def trim(self) -> None:
        """Let retention take a point that may be unread."""
        for log in self._broker.topics[POINTS].logs:
            if log.end - log.first > 1:
                log.first += 1
        self._world.excuses.append("points trimmed")

    def recreate(self) -> None:
        """Make the topic of points anew; the old points are not to be answered any more."""
        count = len(self._broker.topics[POINTS].logs)
        self._broker.create(POINTS, count)
        self._world.gone |= self._world.fed
        self._world.fed.clear()
        self._produced = min(self._produced, self._world.profile.records - count)
        for _ in range(count):
            self.append()
        self._world.excuses.append("points recreated")

    def truncate(self) -> None:
        """Lose the newest points by an unclean election; what is produced from now on takes their offsets."""
        for partition, log in enumerate(self._broker.topics[POINTS].logs):
            if log.end > log.first:
                log.truncate(log.end - 1)
                lost = [point for point in self._world.fed if point[0] == f"{POINTS}/{partition}/{log.end}"]
                self._world.gone |= {point: self._world.fed.pop(point) for point in lost}
                self._produced -= 1
        self._world.excuses.append("points truncated")

    def new_version(self) -> None:
        """Publish another version."""
        self._world.publish()

    def expire_sessions(self) -> None:
        """Let the sessions of members run out that are dead, or stand still."""
        self._world.group.expire([one for one in self._world.group.members.values() if one is not self._world.living()])

    def move(self, by: int | None) -> None:
        """Have somebody else commit positions of the group; None: they are lost."""
        for partition, log in enumerate(self._broker.topics[POINTS].logs):
            known = hint(self._world, partition)
            if known.offset is not None:
                to = None if by is None else json.dumps([max(log.first, min(log.end, known.offset + by)), ""]).encode()
                self._broker.produce(POSITIONS, Entry(to, str(partition).encode()))
                if by and progress(self._world, partition) is None:
                    self._world.excuses.append(CHOSEN)

    def expire(self) -> None:
        """Let transactional ids expire that have nothing open."""
        for name in self.closed_ids():
            self._broker.expire(name)

    def expire_hanging(self) -> None:
        """Let transactional ids expire whose last transaction lacks a marker."""
        for name in self.closed_ids(hanging=True):
            self._broker.expire(name)
            self._world.excuses.append("expire hanging")

    def closed_ids(self, *, hanging: bool = False) -> list[str]:
        """Return the ids that have nothing open, and whose markers are all there; or are not."""
        hang = {one for topic in ScorerWorld.outputs for one in self._broker.log(topic).pending}
        closed = [name for name in self._world.ids if self._broker.open(name) is False]
        return [name for name in closed if (self._broker.identity_of(name).producer_id in hang) is hanging]

    def time_out(self) -> None:
        """Let transactions time out."""
        for name in self._broker.open_ids():
            self._broker.time_out(name)


EVENTS: Final[Mapping[str, Any]] = {
    "append": (ScorerPeople.append, always),
    "new version": (ScorerPeople.new_version, lambda people: people._world.versions < 2),
    "session expires": (ScorerPeople.expire_sessions, always),
    "points trimmed": (ScorerPeople.trim, always),
    "points recreated": (ScorerPeople.recreate, always),
    "points truncated": (ScorerPeople.truncate, always),
    "positions lost": (lambda people: people.move(None), always),
    "positions set back": (lambda people: people.move(-1), always),
    "positions set ahead": (lambda people: people.move(1), always),
    "deliver": (ScorerPeople.deliver, lambda people: bool(people._broker.late)),
    "markers arrive": (ScorerPeople.deliver_markers, lambda people: bool(people.late_ids())),
    "expire": (ScorerPeople.expire, lambda people: bool(people.closed_ids())),
    "expire hanging": (ScorerPeople.expire_hanging, lambda people: bool(people.closed_ids(hanging=True))),
    "time out": (ScorerPeople.time_out, lambda people: bool(people._broker.open_ids())),
}
"""Every event by name: what it does, and when it is possible."""


class ScorerWorld(World):
    """One run of scorers.

    `fed, gone`: The points of the topic of now, and of topics that had its name; of each, whether it is bad.
    """

    outputs = (SCORES, POINT_LETTERS, PROGRESS)
    keeps_checkpoints = False

    def __init__(self, profile: Profile, chooser: Chooser, ports: Any = ScorerPorts) -> None:
        super().__init__(profile, chooser, ports)
        self.fed: dict[answers.Point, bool] = {}
        self.gone: dict[answers.Point, bool] = {}
        self.group = Group()
        self.versions = self.publishers = 0
        self.wanted_slot: int | None = None
        self.ids = tuple(f"{NAME}-scorer-{slot}" for slot in range(4))
        self.logs = (POINTS,)
        self.broker.create(POINTS, profile.partitions)
        for topic in (*self.outputs, POSITIONS):
            self.broker.create(topic, 1)
        self.publish()

    def outside(self) -> ScorerPeople:
        """Return what happens from outside of the scorers."""
        return ScorerPeople(self)

    def publish(self) -> None:
        """Publish the next version."""
        self.versions += 1
        _, content = version(self.versions)
        headers = ((model_codec.SHA256_HEADER, model_codec.sha256(content).encode()),)
        self.broker.produce(MODELS, Entry(content, f"{NAME}@{self.versions}".encode(), headers))

    def living(self) -> Life:
        """Return the process that has the baton."""
        running = next((one for one in self._instances() if one.thread is self._holder), self.first)
        assert running.life is not None
        return running.life

    def run(self) -> None:
        """Run until calm and at rest; then somebody takes each slot once more, and settles what it left."""
        with wired(self):
            super().run()
            for slot in sorted(self.group.used):
                self.group.expire(list(self.group.members.values()))
                self.wanted_slot, self.idle, self.stopping, self.finished = slot, 0, False, False
                self.first = Instance(f"S{slot}.", Disk())
                self._supervise(self.first)

    def make_daemon(self, ports: Any, reset: str) -> Any:
        """Return the shipped scorer on the simulated ports; `reset` is how it goes on at a gap."""
        ports.life.health = Health(stuck_after_s=60.0, clock=ports.clock.monotonic)
        return ports.scorer(settings_of("beginning" if reset or self.profile.on_gap == "reset" else "fail"))

    def point(self, life: Life | None, label: str, instance: Instance | None = None) -> None:
        """See `World.point`; who never comes to rest is found out."""
        if self.steps > MOST_STEPS:
            raise Violation(f"after {MOST_STEPS} steps there is no rest: {self.trace[-1]}")
        super().point(life, label, instance)

    def rest(self, life: Life) -> bool:
        """See `World.rest`; a scorer that cannot commit has something to wait for."""
        waiting = life.health.ready()[1]["waiting_for"] if life.health is not None else {}
        self.doubt = waiting.get("broker", "") or waiting.get("readers", "")
        return super().rest(life)

    def _refused(self, instance: Instance, refusal: StateError) -> None:
        self.note(f"{instance.name} refuses: {refusal}")
        instance.refusal = str(refusal)
        if not self.excuses:
            raise Violation(f"a scorer ended without a reason: {refusal}")
        instance.reset = "beginning"
        self.excuses.append("beginning")


# ------------------------------------------------------------------ the promise


def check(world: ScorerWorld) -> None:
    """Raise `Violation` if any part of the promise is broken."""
    scores, letters, models = (records_of(world, topic) for topic in (SCORES, POINT_LETTERS, MODELS))
    given = [*scores, *letters]
    hold(answers.fed(given, {**world.gone, **world.fed}))
    hold(answers.by_versions(scores, models))
    refused = [answers.row_of(source) for (source, _), bad in {**world.gone, **world.fed}.items() if bad]
    hold(answers.letters_of(letters, refused))
    logs = world.broker.topics[POINTS].logs
    for topic in filter(world.holds_up, world.outputs):
        raise Violation(f"at rest readers of {topic} are held up")
    known = {partition: progress(world, partition) for partition in range(len(logs))}
    topic_id = world.broker.topics[POINTS].topic_id
    positions = {p: one.offset if one and one.topic_id == topic_id else 0 for p, one in known.items()}
    said = CHOSEN in world.excuses
    for partition, log in enumerate(logs):
        waits = log.committed(positions[partition]) if known[partition] or not said else []
        if waits and (scores or any(entry.value != BAD for one in logs for _, entry in one.committed())):
            raise Violation(f"at rest points of partition {partition} wait from {positions[partition]} on")
    of_two = {REPAIR_FAILED} if len(world.group.used) > 1 else set()
    if not (EXCUSES | of_two) & set(world.excuses):
        rows = {point: answers.row_of(point[0]) for point in world.fed}
        points = {point: row[1] for point, row in rows.items() if row[2] >= logs[row[1]].first}
        bad_twice = _bad_twice({**world.gone, **world.fed})
        hold(answers.once([one for one in given if one in scores or answers.source_of(one) not in bad_twice]))
        hold(answers.all_below(given, points, positions, "the model"))
    if not world.excuses:
        hold(_moves(world))


def _bad_twice(points: Mapping[answers.Point, bool]) -> set[str]:
    """Return where bad points were in several topics of the name: a letter says of which place it is, not of which."""
    counts = Counter(source for (source, _), bad in points.items() if bad)
    return {source for source, count in counts.items() if count > 1}


def _moves(world: ScorerWorld) -> list[Any]:
    """How far the input is scored never goes back."""
    at: dict[str, int] = {}
    back = []
    for one in records_of(world, PROGRESS):
        of = " ".join((one.key or "").split(" ")[:3])
        if one.value["offset"] < at.get(of, 0):
            back.append(one.at)
        at[of] = one.value["offset"]
    return each("reordered", "how far the input is scored goes back", back)


def drawn(chance: random.Random) -> Profile:
    """Draw a world."""
    rare = (*GAPS, *NOT_PROMISED) if chance.random() < 0.25 else ()
    pool = ["kill", *COMMIT_FAULTS, *MARKER_FAULTS, "failed", "unavailable", "init unanswered", *OTHERS, *rare]
    faults = {kind: chance.choice((1, 1, 2, 3)) for kind in pool if chance.random() < 0.4} or {"kill": 2}
    faults |= dict.fromkeys(("append", "small batch", "other partition"), 5)
    if "late" in faults or "asked twice" in faults:
        faults["deliver"] = 3
    if "markers late" in faults:
        faults["markers arrive"] = 3
    two = chance.random() < 0.4
    if two:
        faults |= {"switch": chance.randrange(1, 9), "copy": 1, "survivor": 1}
    return Profile(
        partitions=chance.choice((1, 1, 2)),
        records=chance.randrange(2, 9),
        steps=chance.randrange(20, 200),
        faults=faults,
        two=two,
        on_gap=chance.choice(("fail", "fail", "reset")),
        scorer=True,
    )
