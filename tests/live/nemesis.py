"""What goes wrong: a closed list of faults, alone or mixed, each recorded with its beginning and its end."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tests.live.proxy import Late, Loss, Proxy
from tests.live.supervised import Supervised
from tests.live.workload import WRONG

if TYPE_CHECKING:
    from tests.live.world import World

Strike = Callable[["World", random.Random, threading.Event], None]

LOOK_S: Final = 0.1
AT_WORK_S: Final = 60.0
LATE_S: Final = 20.0
"""How long a late end of a transaction waits for the transaction after it."""


def _wait(stop: threading.Event, seconds: float) -> None:
    """Let time pass: the length of a fault, no synchronisation."""
    stop.wait(seconds)


@contextlib.contextmanager
def fault(world: World, nemesis: str, what: str) -> Iterator[None]:
    """Tell the history from when to when something is wrong."""
    world.recorder.tell("nemesis", "info", "fault", nemesis=nemesis, what=what, phase="begin")
    try:
        yield
    finally:
        world.recorder.tell("nemesis", "info", "fault", nemesis=nemesis, what=what, phase="end")


def kill_trainer(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL a trainer that has published something since it was started."""
    _kill(world, "kill-trainer", _at_work(world.trainers, chance, stop))


def kill_scorer(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL a scorer that has scored something since it was started."""
    _kill(world, "kill-scorer", _at_work(world.scorers, chance, stop))


def kill_worker(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL a worker that has taken up partitions since it was started."""
    _kill(world, "kill-worker", _learning(world, chance, stop))


def stop_worker(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGSTOP a worker, and SIGCONT when its session has run out and the other one has its partitions, or before."""
    _freeze(world, "stop-worker", _learning(world, chance, stop), chance.uniform(2.0, 15.0), stop)


def _learning(world: World, chance: random.Random, stop: threading.Event) -> Supervised:
    """Wait until a worker has partitions, and return one that has; any of them if none does."""
    for _ in range(int(AT_WORK_S / LOOK_S)):
        learning = [worker for worker in world.workers if worker.runs and worker.learns]
        if learning or stop.is_set():
            return chance.choice(learning or world.workers)
        _wait(stop, LOOK_S)
    return chance.choice(world.workers)


def kill_operator(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL an operator's call, if one is under way."""
    with fault(world, "kill-operator", "operator"):
        for operator in world.operators:
            operator.kill()


def _at_work(daemons: Sequence[Supervised], chance: random.Random, stop: threading.Event) -> Supervised:
    """Wait until one of them has committed something from now on, and return one that has; any of them if none does.

    One that survived the last fault has worked before it. A fault after which nobody has come back to work only lasts
    longer; on a slow machine a broker would be killed each time before anybody has found it again.
    """
    before = [daemon.committed for daemon in daemons]
    for _ in range(int(AT_WORK_S / LOOK_S)):
        working = [
            daemon for daemon, once in zip(daemons, before, strict=True) if daemon.runs and daemon.committed > once
        ]
        if working or stop.is_set():
            return chance.choice(working or list(daemons))
        _wait(stop, LOOK_S)
    return chance.choice(list(daemons))


def _kill(world: World, nemesis: str, daemon: Supervised) -> None:
    with fault(world, nemesis, daemon.unit.name):
        daemon.kill()


def kill_broker(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL a broker, which is back after some seconds."""
    _away(world, "kill-broker", chance, stop, (0.0, 3.0))


def outage(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL a broker, which stays away for longer than any transaction may last."""
    _away(world, "outage", chance, stop, (22.0, 35.0))


def _away(
    world: World, nemesis: str, chance: random.Random, stop: threading.Event, seconds: tuple[float, float]
) -> None:
    node = chance.choice(world.brokers.nodes)
    _at_work(world.daemons, chance, stop)
    with fault(world, nemesis, f"broker {node.node}"):
        node.kill()
        _wait(stop, chance.uniform(*seconds))
        node.restart()


def kill_both(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL a broker and, at the same moment, every daemon; the broker is away for longer than a scorer's timeout."""
    node = chance.choice(world.brokers.nodes)
    _at_work(world.scorers or world.trainers, chance, stop)
    with fault(world, "kill-both", f"broker {node.node}"):
        for daemon in world.daemons:
            daemon.kill()
        node.kill()
        _wait(stop, chance.uniform(12.0, 25.0))
        node.restart()


def power_loss(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGKILL every broker and every daemon at the same moment; all are back when every timeout is over."""
    _at_work(world.scorers or world.trainers, chance, stop)
    with fault(world, "power-loss", "everything"):
        for node in world.brokers.nodes:
            node.kill()
        for daemon in world.daemons:
            daemon.kill()
        _wait(stop, chance.uniform(12.0, 35.0))
        world.brokers.revive()


def stop_trainer(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGSTOP a trainer, and SIGCONT after up to half a minute."""
    _freeze(world, "stop-trainer", _at_work(world.trainers, chance, stop), chance.uniform(2.0, 30.0), stop)


def stop_scorer(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGSTOP a scorer, and SIGCONT when its session and its transaction have run out, or before."""
    _freeze(world, "stop-scorer", _at_work(world.scorers, chance, stop), chance.uniform(2.0, 15.0), stop)


def _freeze(world: World, nemesis: str, daemon: Supervised, seconds: float, stop: threading.Event) -> None:
    with fault(world, nemesis, daemon.unit.name):
        daemon.freeze()
        _wait(stop, seconds)
        daemon.thaw()


def stop_broker(world: World, chance: random.Random, stop: threading.Event) -> None:
    """SIGSTOP a broker, and SIGCONT."""
    node = chance.choice(world.brokers.nodes)
    with fault(world, "stop-broker", f"broker {node.node}"):
        node.pause()
        _wait(stop, chance.uniform(2.0, 25.0))
        node.resume()


def cut(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Cut every connection to a broker, and refuse new ones."""
    _network(world, "cut", chance, stop, Proxy.cut, (1.0, 25.0))


def silent(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Let nothing pass to a broker or back; no end is told of it."""
    _network(world, "silent", chance, stop, Proxy.go_silent, (2.0, 30.0))


def slow(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Make a network slow and narrow."""
    latency_s, bytes_per_s = chance.uniform(0.01, 0.1), chance.uniform(40e3, 400e3)
    _network(world, "slow", chance, stop, lambda network: network.slow(latency_s, bytes_per_s), (5.0, 15.0))


def _network(
    world: World,
    nemesis: str,
    chance: random.Random,
    stop: threading.Event,
    treat: Callable[[Proxy], None],
    seconds: tuple[float, float],
) -> None:
    network = chance.choice(world.brokers.networks)
    with fault(world, nemesis, f"network {network.address}"):
        treat(network)
        _wait(stop, chance.uniform(*seconds))
        network.mend()


def late_end(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Keep the end of a transaction back, cut its connection, and deliver it within the writer's next transaction."""
    _late(world, "late-end", chance, stop, drops=True)


def doubled_end(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Deliver the end of a transaction, and once more within the writer's next transaction."""
    _late(world, "doubled-end", chance, stop, drops=False)


def late_end_and_kill(world: World, chance: random.Random, stop: threading.Event) -> None:
    """As `late_end`; the writer is killed at the moment of the delivery."""
    _late(world, "late-end-and-kill", chance, stop, drops=True, kills=True)


def _late(
    world: World, nemesis: str, chance: random.Random, stop: threading.Event, *, drops: bool, kills: bool = False
) -> None:
    daemon = _at_work(world.daemons, chance, stop)
    writer = world.writer(daemon)
    with fault(world, nemesis, f"ends of {writer.decode()}"):
        lates = []
        for network in world.brokers.networks:
            network.late = Late(writer, skip=chance.randint(0, 2), produces=chance.randint(1, 2), drops=drops)
            lates.append(network.late)
        waited_s = 0.0
        while waited_s < LATE_S and not stop.is_set() and not any(late.delivered.is_set() for late in lates):
            _wait(stop, 0.005)
            waited_s += 0.005
        delivered = [late for late in lates if late.delivered.is_set()]
        if delivered and kills:
            daemon.kill()
        for late in delivered:
            world.counts[f"late ends answered by {late.answer}"] += 1
        for network in world.brokers.networks:
            network.late = None


def lost_answer(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Lose the end of a transaction, or the answer to it, for as long as its writer asks."""
    _lose(world, "lost-answer", chance, stop, applied=chance.random() < 0.5)


def _lose(world: World, nemesis: str, chance: random.Random, stop: threading.Event, *, applied: bool) -> None:
    writer = world.writer(_at_work(world.daemons, chance, stop))
    with fault(world, nemesis, f"ends of {writer.decode()}"):
        for network in world.brokers.networks:
            network.loss = Loss(writer, applied=applied, repeats=True)
        _wait(stop, chance.uniform(25.0, 35.0))
        for network in world.brokers.networks:
            network.loss = None


def rebalance(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Have one more scorer join the group, and leave it, in good order or killed."""
    with fault(world, "rebalance", "one more scorer"):
        guest = world.guest()
        _wait(stop, chance.uniform(5.0, 10.0))
        if chance.random() < 0.5:
            guest.kill()
        guest.stop()


def recreated(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Delete an input, a topic of labels or the one that is scored, and make it again, longer than it was.

    Every other time its readers are frozen meanwhile, so that they find it longer than where they are; else they see it
    while it is empty. Whoever is told how goes on: with `--reset`, or `--scoring-on-gap`.
    """
    topic = chance.choice(world.recreatable())
    frozen = [] if world.counts.total() % 2 else world.readers_of(topic)
    with fault(world, "recreated", topic):
        for daemon in frozen:
            daemon.freeze()
        world.recreate(topic)
        for daemon in frozen:
            daemon.thaw()
        world.counts[f"made again: {topic}"] += 1


def wrong_clock(world: World, chance: random.Random, stop: threading.Event) -> None:
    """Let a producer write timestamps an hour ahead, a day behind or in microseconds, or its machine's clock jump."""
    clocks = [*WRONG, "a jump"]
    clock = clocks[sum(world.counts[f"wrong clocks: {one}"] for one in clocks) % len(clocks)]
    topic = chance.choice(world.inputs())
    with fault(world, "wrong-clock", f"{clock}: {topic}"):
        if clock == "a jump":
            world.jump(chance)
        else:
            world.mistake(clock, topic)
        _wait(stop, chance.uniform(5.0, 15.0))
        world.mend_clocks()
    world.counts[f"wrong clocks: {clock}"] += 1


NEMESES: Final = MappingProxyType(
    {
        strike.__name__.replace("_", "-"): strike
        for strike in (
            kill_trainer,
            kill_scorer,
            kill_worker,
            kill_operator,
            kill_broker,
            outage,
            kill_both,
            power_loss,
            stop_trainer,
            stop_scorer,
            stop_worker,
            stop_broker,
            cut,
            silent,
            slow,
            late_end,
            doubled_end,
            late_end_and_kill,
            lost_answer,
            rebalance,
            recreated,
            wrong_clock,
        )
    }
)

CALM_S: Final = (1.5, 5.0)
LONG_CALM_S: Final = (8.0, 15.0)
"""Seconds between two faults; the longer ones after a fault in which nothing could be done."""
LONG: Final = frozenset({"outage", "kill-both", "power-loss", "lost-answer", "recreated"})


class Conductor:
    """Brings faults about, one after the other, or two at once where several are given.

    Parameters
    ----------
    world : World
    names : sequence of str
    chance : random.Random
    """

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
            _wait(self._stopping, self._chance.uniform(*calm_s))
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
            NEMESES[name](self._world, random.Random(self._chance.random()), self._stopping)
        except Exception as error:  # noqa: BLE001 - told at the end: a fault that could not be brought about
            self.failures.append(f"{name}: {error!r}")

    def stop(self) -> None:
        """Bring no more about; what is under way ends."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
