"""What goes wrong: a closed list of faults, alone or mixed, each recorded with its beginning and its end."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tests.live.proxy import Late, Loss, Proxy
from tests.live.supervised import Supervised
from tests.live.workload import WRONG

if TYPE_CHECKING:
    from tests.live.world import World

LOOK_S: Final = 0.1
AT_WORK_S: Final = 60.0
LATE_S: Final = 20.0
"""How long a late end of a transaction waits for the transaction after it."""


@dataclass
class Strike:
    """A fault that is about to be brought about: upon which world, under which name, and how chance has it."""

    world: World
    nemesis: str
    chance: random.Random
    stop: threading.Event

    def wait(self, least_s: float, most_s: float) -> None:
        """Let time pass: the length of a fault, no synchronisation."""
        self.stop.wait(self.chance.uniform(least_s, most_s))

    @contextlib.contextmanager
    def fault(self, what: str) -> Iterator[None]:
        """Tell the history from when to when something is wrong."""
        told = {"nemesis": self.nemesis, "what": what}
        self.world.recorder.tell("nemesis", "info", "fault", **told, phase="begin")
        try:
            yield
        finally:
            self.world.recorder.tell("nemesis", "info", "fault", **told, phase="end")

    def at_work(self, daemons: Sequence[Supervised]) -> Supervised:
        """Wait until one of them has committed something from now on, and return one that has; any if none does.

        One that survived the last fault has worked before it. A fault after which nobody has come back to work only
        lasts longer; on a slow machine a broker would be killed each time before anybody has found it again.
        """
        before = {id(daemon): daemon.committed for daemon in daemons}
        return self._one_of(daemons, lambda daemon: daemon.committed > before[id(daemon)])

    def learning(self) -> Supervised:
        """Wait until a worker has partitions, and return one that has; any of them if none does."""
        return self._one_of(self.world.workers, lambda worker: worker.learns)

    def _one_of(self, daemons: Sequence[Supervised], works: Callable[[Supervised], bool]) -> Supervised:
        for _ in range(int(AT_WORK_S / LOOK_S)):
            working = [daemon for daemon in daemons if daemon.runs and works(daemon)]
            if working or self.stop.is_set():
                return self.chance.choice(working or list(daemons))
            self.stop.wait(LOOK_S)
        return self.chance.choice(list(daemons))

    # ---------------------------------------------------- what is done to daemons

    def kill(self, daemon: Supervised) -> None:
        """SIGKILL a daemon, which is started again."""
        with self.fault(daemon.unit.name):
            daemon.kill()

    def freeze(self, daemon: Supervised, most_s: float) -> None:
        """SIGSTOP a daemon, and SIGCONT."""
        with self.fault(daemon.unit.name):
            daemon.freeze()
            self.wait(2.0, most_s)
            daemon.thaw()

    # --------------------------------------------------- to brokers and the network

    def take_away(self, least_s: float, most_s: float, *, daemons: bool = False) -> None:
        """SIGKILL a broker, and maybe at the same moment every daemon; start the broker again after a while."""
        node = self.chance.choice(self.world.brokers.nodes)
        self.at_work(self.world.scorers or self.world.trainers if daemons else self.world.daemons)
        with self.fault(f"broker {node.node}"):
            for daemon in self.world.daemons if daemons else ():
                daemon.kill()
            node.kill()
            self.wait(least_s, most_s)
            node.restart()

    def ill_treat(self, treat: Callable[[Proxy], None], least_s: float, most_s: float) -> None:
        """Make a network bad for a while."""
        network = self.chance.choice(self.world.brokers.networks)
        with self.fault(f"network {network.address}"):
            treat(network)
            self.wait(least_s, most_s)
            network.mend()

    def deliver_late(self, *, drops: bool, kills: bool = False) -> None:
        """Deliver the end of a transaction within the writer's next one: for the first or for the second time."""
        daemon = self.at_work(self.world.daemons)
        writer = self.world.writer(daemon)
        with self.fault(f"ends of {writer.decode()}"):
            lates = []
            for network in self.world.brokers.networks:
                skip, produces = self.chance.randint(0, 2), self.chance.randint(1, 2)
                network.late = Late(writer, skip=skip, produces=produces, drops=drops)
                lates.append(network.late)
            waited_s = 0.0
            while waited_s < LATE_S and not self.stop.is_set() and not any(late.delivered.is_set() for late in lates):
                self.stop.wait(0.005)
                waited_s += 0.005
            delivered = [late for late in lates if late.delivered.is_set()]
            if delivered and kills:
                daemon.kill()
            for late in delivered:
                self.world.counts[f"late ends answered by {late.answer}"] += 1
            for network in self.world.brokers.networks:
                network.late = None


def kill_operator(at: Strike) -> None:
    """SIGKILL an operator's call, if one is under way."""
    with at.fault("operator"):
        for operator in at.world.operators:
            operator.kill()


def power_loss(at: Strike) -> None:
    """SIGKILL every broker and every daemon at the same moment; all are back when every timeout is over."""
    at.at_work(at.world.scorers or at.world.trainers)
    with at.fault("everything"):
        for node in at.world.brokers.nodes:
            node.kill()
        for daemon in at.world.daemons:
            daemon.kill()
        at.wait(12.0, 35.0)
        at.world.brokers.revive()


def stop_broker(at: Strike) -> None:
    """SIGSTOP a broker, and SIGCONT."""
    node = at.chance.choice(at.world.brokers.nodes)
    with at.fault(f"broker {node.node}"):
        node.pause()
        at.wait(2.0, 25.0)
        node.resume()


def slow(at: Strike) -> None:
    """Make a network slow and narrow."""
    latency_s, bytes_per_s = at.chance.uniform(0.01, 0.1), at.chance.uniform(40e3, 400e3)
    at.ill_treat(lambda network: network.slow(latency_s, bytes_per_s), 5.0, 15.0)


def lost_answer(at: Strike) -> None:
    """Lose the end of a transaction, or the answer to it, for as long as its writer asks."""
    applied = at.chance.random() < 0.5
    writer = at.world.writer(at.at_work(at.world.daemons))
    with at.fault(f"ends of {writer.decode()}"):
        for network in at.world.brokers.networks:
            network.loss = Loss(writer, applied=applied, repeats=True)
        at.wait(25.0, 35.0)
        for network in at.world.brokers.networks:
            network.loss = None


def rebalance(at: Strike) -> None:
    """Have one more scorer join the group, and leave it, in good order or killed."""
    with at.fault("one more scorer"):
        guest = at.world.guest()
        at.wait(5.0, 10.0)
        if at.chance.random() < 0.5:
            guest.kill()
        guest.stop()


def recreated(at: Strike) -> None:
    """Delete an input, a topic of labels or the one that is scored, and make it again, longer than it was.

    Every other time its readers are frozen meanwhile, so that they find it longer than where they are; else they see it
    while it is empty. Whoever is told how goes on: with `--reset`, or `--scoring-on-gap`.
    """
    world, topic = at.world, at.chance.choice(at.world.recreatable())
    frozen = [] if world.counts.total() % 2 else world.readers_of(topic)
    with at.fault(topic):
        for daemon in frozen:
            daemon.freeze()
        world.recreate(topic)
        for daemon in frozen:
            daemon.thaw()
        world.counts[f"made again: {topic}"] += 1


def wrong_clock(at: Strike) -> None:
    """Let a producer write timestamps an hour ahead, a day behind or in microseconds, or its machine's clock jump."""
    world, clocks = at.world, [*WRONG, "a jump"]
    clock = clocks[sum(world.counts[f"wrong clocks: {one}"] for one in clocks) % len(clocks)]
    topic = at.chance.choice(world.inputs())
    with at.fault(f"{clock}: {topic}"):
        if clock == "a jump":
            world.jump(at.chance)
        else:
            world.mistake(clock, topic)
        at.wait(5.0, 15.0)
        world.mend_clocks()
    world.counts[f"wrong clocks: {clock}"] += 1


NEMESES: Final[Mapping[str, Callable[[Strike], None]]] = MappingProxyType(
    {
        "kill-trainer": lambda at: at.kill(at.at_work(at.world.trainers)),
        "kill-scorer": lambda at: at.kill(at.at_work(at.world.scorers)),
        "kill-worker": lambda at: at.kill(at.learning()),
        "kill-operator": kill_operator,
        "kill-broker": lambda at: at.take_away(0.0, 3.0),
        "outage": lambda at: at.take_away(22.0, 35.0),  # longer than any transaction may last
        "kill-both": lambda at: at.take_away(12.0, 25.0, daemons=True),  # longer than a scorer's timeout
        "power-loss": power_loss,
        "stop-trainer": lambda at: at.freeze(at.at_work(at.world.trainers), 30.0),
        "stop-scorer": lambda at: at.freeze(at.at_work(at.world.scorers), 15.0),  # its transaction runs out, or not
        "stop-worker": lambda at: at.freeze(at.learning(), 15.0),  # its session runs out, or not
        "stop-broker": stop_broker,
        "cut": lambda at: at.ill_treat(Proxy.cut, 1.0, 25.0),
        "silent": lambda at: at.ill_treat(Proxy.go_silent, 2.0, 30.0),
        "slow": slow,
        "late-end": lambda at: at.deliver_late(drops=True),
        "doubled-end": lambda at: at.deliver_late(drops=False),
        "late-end-and-kill": lambda at: at.deliver_late(drops=True, kills=True),
        "lost-answer": lost_answer,
        "rebalance": rebalance,
        "recreated": recreated,
        "wrong-clock": wrong_clock,
    }
)

CALM_S: Final = (1.5, 5.0)
LONG_CALM_S: Final = (8.0, 15.0)
"""Seconds between two faults; the longer ones after a fault in which nothing could be done."""
LONG: Final = frozenset({"outage", "kill-both", "power-loss", "lost-answer", "recreated"})


class Conductor:
    """Brings faults about, one after the other, or two at once where several are given."""

    def __init__(self, world: World, names: Sequence[str], chance: random.Random) -> None:
        self._world, self._names, self._chance = world, names, chance
        self.struck: Counter[str] = Counter()
        self.failures: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        if self._names:
            self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            count = 2 if len(self._names) > 1 and self._chance.random() < 0.3 else 1
            chosen = self._chance.sample(self._names, count)
            calm_s = LONG_CALM_S if LONG & set(chosen) else CALM_S
            self._stopping.wait(self._chance.uniform(*calm_s))
            if self._stopping.is_set():
                return
            threads = [threading.Thread(target=self._strike, args=(name,), daemon=True) for name in chosen]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _strike(self, name: str) -> None:
        self.struck[name] += 1
        try:
            NEMESES[name](Strike(self._world, name, random.Random(self._chance.random()), self._stopping))
        except Exception as error:  # noqa: BLE001 - told at the end: a fault that could not be brought about
            self.failures.append(f"{name}: {error!r}")

    def stop(self) -> None:
        """Bring no more about; what is under way ends."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
