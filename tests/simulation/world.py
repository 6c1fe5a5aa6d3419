"""The scheduler: lives of trainers on a broker and disks, and at every point of them a choice of what happens next.

A world is in turmoil until its steps are used up or there is nothing left to do; then it is calm: nothing fails any
more, one instance goes on, and must reach the end of the log by itself, or refuse with a reason and go on as a person
is told. Two instances are two threads of which exactly one holds the baton, so a run stays a function of its choices;
a thread that touches the world without the baton ends the run.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from consumers.host import Clock, Health
from consumers.settings import Settings
from consumers.trainer import STUCK_S
from streamsvm.errors import StateError, StreamsvmError
from streamsvm.kafka import TRANSACTION_TIMEOUT_S, Stamp
from streamsvm.model import owner_key
from tests.simulation import people
from tests.simulation.broker import Broker, Entry, Fate
from tests.simulation.choices import Chooser
from tests.simulation.disk import Disk
from tests.simulation.stream import ALIASES, AUDIT, INPUT, LETTERS, MODELS, NAME, TRANSACTIONAL_ID, settings_for
from tests.simulation.variants import variants_of

MOST_LIVES = 60
IDLE_TURNS = 3
LOOKING_TURNS = 7
"""Turns without a record after which nothing more comes: in so many the trainer has looked for new partitions."""
LONGEST_DOUBT_S = 2 * STUCK_S
"""How long a trainer with nothing to read is let find its way out of a doubt: at most `STUCK_S` until it notices that
readers are held up, and as long again until it settles that, or ends."""

LONGEST_END_S = 60.0
"""Real seconds within which the thread of a dead instance ends; it has nothing to wait for."""

DEATHS = ("kill", "power loss", "newest lost", "oldest kept", "all lost")
RECONFIGURED = "other settings"
"""The process is killed, and the next one starts with other options of training."""
COMMIT_FAULTS = ("unanswered", "unsent", "late", "asked twice")
MARKER_FAULTS = ("markers lost", "markers late")
OUTPUTS = (MODELS, ALIASES, AUDIT)
"""What a trainer writes in transactions."""


class Violation(AssertionError):
    """The promise is broken."""


class Killed(BaseException):
    """A process is gone: whatever it still does has no effect."""


@dataclass(frozen=True)
class Profile:
    """How large a world is and what may happen in it.

    `policy`: `every` or `latest`. `partitions, records`: Of the input. `steps`: Points until it becomes calm. `faults`:
    How often each kind of event may happen; 0 for one that is not named. `two`: Whether a second instance may start on
    a copy of the first one's directory. `every_leaves`: Leaves that make a version. `on_gap`: `fail` or `reset`.
    `classes`: Labels of the records; more than two only in a world of no variant. `variants`: What branches change of
    it, by name. `scorer`: Whether scorers run in it; else trainers do.
    """

    policy: str = "every"
    partitions: int = 1
    records: int = 6
    steps: int = 200
    faults: Mapping[str, int] = field(default_factory=dict)
    two: bool = False
    every_leaves: int = 1
    on_gap: str = "fail"
    classes: int = 2
    variants: tuple[str, ...] = ()
    scorer: bool = False


@dataclass
class Life:
    """One process, from its start to its end.

    `events`: How much had happened in the world when it started. `fences, reads, hidden`: Whether it took the
    transactional id over, read from the input, and could not see all that was decided before it took the id: it had to
    wait in vain for a transaction's end, or to complete one that was half visible. `fenced_at`: When the broker last
    told it that it was fenced; None since it took the id again. `health`: What it says of itself, once it has begun.
    `tolerance`: What it trains to. `writers`: How its newest producer of each transactional id names itself in the
    stamps of what it writes.
    """

    instance: Instance
    name: str
    events: int = 0
    dead: bool = False
    fences: bool = False
    reads: bool = False
    hidden: bool = False
    fenced_at: float | None = None
    health: Health | None = None
    tolerance: float = 0.0
    writers: dict[str, str] = field(default_factory=dict)

    @property
    def trouble(self) -> str:
        """Why it cannot publish now, as it says itself; empty if it can."""
        waits_for: dict[str, str] = self.health.ready()[1]["waiting_for"] if self.health is not None else {}
        return waits_for.get("publish", "")


class Instance:
    """A supervised trainer with a directory of its own."""

    def __init__(self, name: str, disk: Disk) -> None:
        self.name, self.disk = name, disk
        self.lives = 0
        self.life: Life | None = None
        self.reset = ""
        self.down = self.retired = False
        self.refusal = ""
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None


class World:
    """One run.

    `ports`: What makes the trainer's ports: `tests.simulation.ports.Ports`, or a defective one.
    """

    outputs: tuple[str, ...] = OUTPUTS
    ids: tuple[str, ...] = (TRANSACTIONAL_ID,)
    """The transactional ids of its daemons."""
    keeps_checkpoints = True

    def __init__(self, profile: Profile, chooser: Chooser, ports: Any) -> None:
        self.profile, self.chooser, self.ports = profile, chooser, ports
        self.settings: Settings = settings_for(
            profile.policy,
            profile.every_leaves,
            profile.on_gap,
            classes=profile.classes,
            variants=profile.variants,
        )
        svm = self.settings.svm
        self.others: Settings = self.settings.model_copy(
            update={"svm": svm.model_copy(update={"tolerance": 10.0 * svm.tolerance})}
        )
        """What people give with "other settings", in place of those before."""
        self.variants = variants_of(profile.variants)
        self.logs: tuple[str, ...] = (INPUT, *(topic for one in self.variants for topic in one.logs))
        self.broker = Broker()
        for topic in self.logs:
            self.broker.create(topic, profile.partitions)
        for topic in (MODELS, ALIASES, AUDIT, LETTERS, *(topic for one in self.variants for topic in one.letters)):
            self.broker.create(topic, 1)
        self.time = 0.0
        self.calm = self.finished = self.stopping = False
        self.steps = 0
        self.idle = 0
        self.idle_since = 0.0
        self.trouble = ""
        self.left = Counter(profile.faults)
        self.happened: Counter[str] = Counter()
        self.excuses: list[str] = []
        self.last: Life | None = None
        self.trace: list[str] = []
        self.refused_versions: list[bytes] = []
        self.saved: list[tuple[str, bytes]] = []
        self.people = self.outside()
        self.broker.fates = self._fates
        self.first = Instance("A", Disk())
        self.second: Instance | None = None
        self._failure: BaseException | None = None
        self._over = threading.Semaphore(0)
        self._holder = threading.current_thread()

    def outside(self) -> Any:
        """Return what happens from outside of the daemons."""
        return people.People(self)

    # -------------------------------------------------------------------- run

    def run(self) -> None:
        """Run until calm and at rest; `Violation` if it does not come to rest, or refuses without a reason."""
        for _ in range((self.profile.records + 1) // 2):
            self.people.append()
        if not self.profile.two:
            self._supervise(self.first)
        else:
            self._run_both()
        if self._failure is not None:
            raise self._failure

    def _run_both(self) -> None:
        self._spawn(self.first)
        self.first.turn.release()
        self._await(self._over)
        for instance in self._instances():
            instance.retired = True
            if instance.life is not None:
                instance.life.dead = True
        # One after the other: what a dead process still does on its way out is part of the run.
        for instance in self._instances():
            assert instance.thread is not None
            instance.turn.release()
            instance.thread.join(LONGEST_END_S)
            if instance.thread.is_alive():
                raise RuntimeError(f"the thread of {instance.name} did not end within {LONGEST_END_S:g} s")
        self._holder = threading.current_thread()

    def _await(self, baton: threading.Semaphore) -> None:
        """Wait for the baton."""
        baton.acquire()
        self._holder = threading.current_thread()

    def check_thread(self) -> None:
        """Check that whoever touches the world holds the baton: with another thread, real time would decide."""
        if threading.current_thread() is not self._holder:
            stranger = threading.current_thread().name
            failure = RuntimeError(f"thread {stranger} touches the world while {self._holder.name} holds the baton")
            self._failure = self._failure or failure
            raise failure

    def _instances(self) -> list[Instance]:
        return [instance for instance in (self.first, self.second) if instance is not None]

    def _spawn(self, instance: Instance) -> None:
        instance.thread = threading.Thread(target=self._body, args=(instance,), name=instance.name, daemon=True)
        instance.thread.start()

    def _body(self, instance: Instance) -> None:
        self._await(instance.turn)
        try:
            self._supervise(instance)
        except Killed:
            pass
        except BaseException as failure:  # noqa: BLE001 - raised again by `run`
            self._failure = self._failure or failure
            self.finished = True
        other = self._other(instance)
        instance.retired = True
        if other is None or self.finished or other.retired:
            self._over.release()
        else:
            other.turn.release()

    def _supervise(self, instance: Instance) -> None:
        """Start the trainer again whenever it ends, as a supervisor does, until all is done."""
        while not self.finished and not instance.retired:
            if instance.down and not self.calm:
                self._leave_down(instance)
                continue
            instance.down = False
            self._live(instance)
            if not self.finished and not instance.retired:
                self.point(None, f"{instance.name} ended", instance)

    def _live(self, instance: Instance) -> None:
        instance.lives += 1
        if instance.lives > MOST_LIVES:
            raise Violation(f"{instance.name} started {MOST_LIVES} times and did not come to rest: {instance.refusal}")
        life = instance.life = Life(instance, f"{instance.name}{instance.lives}", self.happened.total())
        reset, instance.reset = instance.reset, ""
        ports = self.ports(self, life)
        self.note(f"{life.name} starts" + (f" with --reset {reset}" if reset else ""))
        try:
            self.make_daemon(ports, reset).run()
        except Killed:
            pass
        except StateError as refusal:
            self._refused(instance, refusal)
        except StreamsvmError as error:
            instance.refusal = str(error)
            self.note(f"{life.name} ends: {type(error).__name__}: {error}")
        else:
            self.note(f"{life.name} stops")
            self.finished, self.last = True, life
        finally:
            life.dead = True
            if instance.disk.holder is life:
                instance.disk.holder = None

    def make_daemon(self, ports: Any, reset: str) -> Any:
        """Return the shipped trainer on the simulated ports."""
        ports.life.health = Health(stuck_after_s=60.0, clock=ports.clock.monotonic)
        ports.life.tolerance = self.settings.svm.tolerance
        return ports.trainer(self.settings, ports.life.health, reset)

    def takes(self, life: Life) -> None:
        """Check that who was fenced just now does not take the id from a successor that is saying whose the model is.

        A broker that came back may have fenced it for a timeout; only the owner record tells that from a successor, so
        it must wait for that record, for as long as a living process may take over it.
        """
        log, recently = self.broker.log(ALIASES), self.time - TRANSACTION_TIMEOUT_S
        if life.fenced_at is None or life.fenced_at < recently or TRANSACTIONAL_ID not in self.broker.open_ids():
            return
        for offsets in log.pending.values():
            entry = log.entries[offsets[-1]]
            stamp = None if entry is None else Stamp.of(entry.headers)
            if entry is None or stamp is None or entry.key != owner_key(NAME).encode():
                continue
            living = [one.life for one in self._instances() if one.life is not None and not one.life.dead]
            if any(one is not life and stamp.attempt.startswith(f"{one.name}/") for one in living):
                raise Violation(f"{life.name} was fenced, and took the id back from {stamp.attempt}, which owns it")

    def writes(self, entry: Entry | None) -> bool:
        """Tell whether the producer that wrote a record is still in use."""
        stamp = None if entry is None else Stamp.of(entry.headers)
        living = [one.life for one in self._instances() if one.life is not None and not one.life.dead]
        writers = {writer for life in living for writer in life.writers.values()}
        return stamp is not None and stamp.attempt.rsplit(".", 1)[0] in writers

    def loads(self, life: Life, content: bytes) -> None:
        """Check that a start reads no older checkpoint first than the last one that it, or its original, saved."""
        saved = life.instance.disk.saved
        written = [number for number, (_, other) in enumerate(self.saved) if other == content]
        if not self.excuses and saved >= 0 and (not written or written[-1] < saved):
            raise Violation(f"{life.name} reads an older checkpoint than the last one that was saved")

    # ----------------------------------------------------------------- choice

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.steps:4d} {what}")

    def decide(self, what: str, usual: str, kinds: Sequence[str]) -> str:
        """Return what happens: `usual`, or one of those kinds of events of which some are left."""
        self.check_thread()
        if self.calm:
            return usual
        enabled = [kind for kind in kinds if self.left[kind] > 0]
        if not enabled:
            return usual
        chosen = self.chooser.choose(what, [usual, *enabled])
        if not chosen:
            return usual
        kind = enabled[chosen - 1]
        self.left[kind] -= 1
        self.happened[kind] += 1
        self.note(f"* {kind}")
        return kind

    def point(self, life: Life | None, label: str, instance: Instance | None = None) -> None:
        """Let something else happen between two steps of a process; it may end that process."""
        self.check_thread()
        if life is not None:
            if life.dead:
                raise Killed
            instance = life.instance
        assert instance is not None
        self.steps += 1
        self.note(f"{life.name if life else instance.name}: {label}")
        if self.calm:
            return
        if self.steps > self.profile.steps:
            self.become_calm(instance)
            if life is not None and life.dead:
                raise Killed
            return
        kinds = [
            *((*DEATHS, RECONFIGURED) if life is not None else ()),
            *self.people.possible(),
            *self._switches(instance),
        ]
        kind = self.decide("event", "", kinds)
        if kind == RECONFIGURED:
            self.settings, self.others = self.others, self.settings
            self._die(instance, "kill")
        elif kind in DEATHS:
            self._die(instance, kind)
        elif kind in ("switch", "copy"):
            self._switch(instance)
            if life is not None and life.dead:
                raise Killed
        elif kind:
            self.people.act(kind)

    def become_calm(self, instance: Instance) -> None:
        """End the turmoil: only one instance stays, and what is on its way arrives."""
        self.note("calm")
        other = self._other(instance)
        alive = other is not None and not other.retired
        survivor = instance
        if alive and self.decide("survivor", "", ["survivor"]):
            survivor = other
        self.calm = True
        self.idle = 0
        self.people.calm()
        for lost in self._instances():
            if lost is not survivor:
                lost.retired = True
                if lost.life is not None:
                    lost.life.dead = True
                    if lost.disk.holder is lost.life:
                        lost.disk.holder = None

    def rest(self, life: Life) -> bool:
        """Tell a process that found nothing to read; true if it shall stop.

        One that is in doubt, or whose readers are held up, has something to wait for that only time brings.
        """
        self.idle += 1
        if self.idle == 1:
            self.idle_since = self.time
        turns = LOOKING_TURNS if self.happened["add partition"] else IDLE_TURNS
        if self.idle < turns * len(self.logs):  # all of them are polled in a turn
            return False
        if not self.calm:
            self.steps = self.profile.steps
            return False
        self.trouble = life.trouble
        waits = bool(self.trouble) or any(map(self.holds_up, self.outputs))
        return not waits or self.time - self.idle_since > LONGEST_DOUBT_S

    def holds_up(self, topic: str) -> bool:
        """Whether readers of committed records are held up, other than by people."""
        log = self.broker.log(topic)
        held_by = [log.entries[offsets[0]] for offsets in log.pending.values()]
        return any(entry is not None and entry.headers != people.BY_PEOPLE for entry in held_by)

    def _fates(self, transactional_id: str, topics: Sequence[str]) -> dict[str, Fate]:
        """Choose what becomes of the markers of a transaction that is decided: of all, or of some partitions."""
        written = dict[str, Fate].fromkeys(topics, "written")
        if transactional_id == people.FOREIGN_ID:
            return written
        fault = self.decide("markers", "", MARKER_FAULTS)
        if not fault:
            return written
        fate: Fate = "lost" if fault == "markers lost" else "late"
        some = [subset for size in range(1, len(topics)) for subset in combinations(topics, size)]
        chosen = self.chooser.choose("which markers", ["all", *map(", ".join, some)])
        concerned = some[chosen - 1] if chosen else tuple(topics)
        self.note(f"  in {', '.join(concerned)}")
        return {**written, **dict.fromkeys(concerned, fate)}

    def end_what_can_end(self) -> None:
        """Once calm: let transactions time out, markers arrive, and a person run the command that a daemon printed."""
        if not self.calm:
            return
        for transactional_id in self.broker.open_ids():
            self.broker.time_out(transactional_id)
        self.people.abort_orphans()

    # -------------------------------------------------------------- instances

    def _die(self, instance: Instance, kind: str) -> None:
        assert instance.life is not None
        instance.life.dead = True
        if kind == "power loss":
            instance.disk.lose_power(lambda what, options: self.chooser.choose(what, options))
        elif kind != "kill":
            self._lose(instance.disk, kind)
        raise Killed

    def _lose(self, disk: Disk, kind: str) -> None:
        generations = disk.generations()
        lost = {"newest lost": generations[-1:], "oldest kept": generations[1:], "all lost": generations}[kind]
        if set(lost) == set(generations) and lost:
            self.excuses.append(kind)
        disk.saved = -1
        for name in lost:
            disk.remove(name)
        disk.sync_names()

    def _switches(self, instance: Instance) -> list[str]:
        if not self.profile.two:
            return []
        other = self._other(instance)
        if other is None:
            return ["copy"]
        return ["switch"] if not other.retired and not (other.down and not self.calm) else []

    def _other(self, instance: Instance) -> Instance | None:
        return self.second if instance is self.first else self.first

    def _switch(self, instance: Instance) -> None:
        """Stop this process where it is (SIGSTOP) and let the other one go on."""
        if self.second is None:
            self.second = Instance("B", self.first.disk.copy())
            if self.keeps_checkpoints and not self.first.disk.generations():
                self.excuses.append("copied before the first checkpoint")
            self._spawn(self.second)
        other = self._other(instance)
        assert other is not None
        self.note(f"{other.name} goes on")
        other.turn.release()
        self._await(instance.turn)

    def _leave_down(self, instance: Instance) -> None:
        """Stay down after a refusal while the other instance works."""
        other = self._other(instance)
        if other is None or other.retired or other.down:
            self.become_calm(instance)
            return
        self._switch(instance)

    def _refused(self, instance: Instance, refusal: StateError) -> None:
        self.note(f"{instance.name} refuses: {refusal}")
        instance.refusal = str(refusal)
        life = instance.life
        assert life is not None
        alone = life.events == self.happened.total() and people.COMPACTED not in self.excuses
        if life.fences and not (life.reads or life.hidden) and alone:
            raise Violation(f"{life.name} fenced whoever ran, and then refused to start: {refusal}")
        if not self.excuses:
            raise Violation(f"a start was refused without a reason: {refusal}")
        told = re.search(r"--reset (\S+)", str(refusal))
        if people.COMPACTED in self.excuses and self.broker.log(ALIASES).restore():
            return
        if self.profile.two and not self.calm and self.decide("person", "", ["reset"]) != "reset":
            instance.down = True
        elif told:
            instance.reset = told[1].rstrip(".,;")
            self.excuses.append("reset")
        else:
            self._lose(instance.disk, "all lost")


def clock_of(world: World) -> Clock:
    """Return the world's clock as the trainer reads it."""
    from datetime import UTC, datetime, timedelta

    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def seconds() -> float:
        world.check_thread()
        return world.time

    return Clock(seconds, lambda: begin + timedelta(seconds=seconds()))
