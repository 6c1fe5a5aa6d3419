"""Long outages, counted over days: `python -m tests.faults.outages trainer|scorer|both --results FILE --kills 50 ...`.

The broker is killed in mid-transaction, stays away for longer than a transaction may be open, and comes back: it may
then finish a transaction without marking its partitions. Each *site* is a broker of its own with fresh topics, on which
some kills are played; what it came to is added to the results file, so that a run that was interrupted goes on where
it was. Not part of `make faults`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich import box
from rich.console import Console
from rich.table import Table

from streamsvm.kafka import Connection
from tests.brokers.cluster import Cluster
from tests.brokers.jvm import JvmBroker, die_with_parent
from tests.faults.subjects import SUBJECTS, TIMEOUTS_S, Subject
from tests.live.offsets import Offsets, Offsetter, look

KAFKAS_DEFAULTS = {
    "transaction.state.log.num.partitions": "50",
    "offsets.topic.num.partitions": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "log.initial.task.delay.ms": "30000",
    "num.io.threads": "8",
    "num.network.threads": "3",
}
"""Kafka's own values of what a test broker has otherwise."""

SETTINGS = {"defaults": KAFKAS_DEFAULTS, "frequent": {}}
"""`frequent`: the settings of every test broker, under which the fault is frequent."""

COORDINATOR = "__transaction_state"
NEWS = 4
"""So many offsets beyond what was there before, and it moves."""
AT_WORK = 10
LATEST_KILL_S = 1.5
PATIENCE_S = 90.0
AMID_S = 10.0
"""How long a kill waits for a transaction to be open; a starved machine leaves long pauses between them."""
LOOK_S = 0.3
SETTLE_S = 180.0
START_AGAIN = 75
MOST_FAILED = 5
"""So many sites that could not be played end the program; what was played is kept."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is played at each site.

    Attributes
    ----------
    what : str
        The daemons under the outage.
    settings : str
        Of the broker.
    away_s : float
        From the broker's kill to its start.
    double : bool
        Whether the daemons are killed with the broker, as by a power loss.
    timeout_s : float or None
        Of every transaction, instead of the daemons' own.
    brokers : str
        One of `BROKERS`: what is killed.
    """

    what: str
    settings: str
    away_s: float
    double: bool = False
    timeout_s: float | None = None
    brokers: str = "one"

    def timeout_of(self, subject: str) -> float:
        """Return how long a transaction of a daemon may be open."""
        return self.timeout_s or TIMEOUTS_S[subject]


class Power(Protocol):
    """Brokers whose power goes and comes back."""

    bootstrap_servers: str

    def start(self) -> None:
        """Start them for the first time."""

    def fail(self) -> None:
        """Kill what is to be killed."""

    def come_back(self) -> None:
        """Start what was killed."""

    def discard(self) -> None:
        """End everything, and delete the data."""


class OneBroker:
    """A broker alone."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._broker = JvmBroker(settings)
        self.bootstrap_servers = self._broker.bootstrap_servers
        self.start = self.come_back = self._broker.start
        self.fail, self.discard = self._broker.kill, self._broker.discard


class ThreeBrokers:
    """A cluster that loses all its nodes at once."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._cluster = Cluster(settings)
        self.bootstrap_servers = self._cluster.bootstrap_servers
        self.start, self.discard = self._cluster.start, self._cluster.stop

    def victims(self) -> list[JvmBroker]:
        """Return the nodes to kill."""
        return list(self._cluster.nodes.values())

    def fail(self) -> None:
        self._killed = self.victims()
        for node in self._killed:
            node.kill()

    def come_back(self) -> None:
        for node in self._killed:
            node.launch()
        for node in self._killed:
            node.wait_until_up()


class CoordinatorMoves(ThreeBrokers):
    """A cluster that loses the coordinator of all transactions, while two nodes live and another takes over."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__({**settings, "transaction.state.log.num.partitions": "1"})

    def victims(self) -> list[JvmBroker]:
        return [self._cluster.leader(COORDINATOR)]


BROKERS: dict[str, Callable[[Mapping[str, str]], Power]] = {
    "one": OneBroker,
    "three": ThreeBrokers,
    "coordinator": CoordinatorMoves,
}
"""What is killed: the only broker, all three at once, or the coordinator among three."""


@dataclass
class Site:
    """What the kills at one site came to.

    Attributes
    ----------
    kills, amid : int
        How many, and how many of them while each daemon was seen to have a transaction open.
    moved_s, stable_s : dict of daemon to list of float
        Seconds from each return of the broker until readers had something new; until they had passed everything that
        was there at that moment. Where it hung they count the restart by hand in.
    never_stable, hung, green : int
        How often the second did not come in time, the first did not, and /healthz was green all the same.
    ended_75, ended_otherwise : int
        How often a daemon ended by itself.
    notes : list of str
    found : dict
        What the topics hold at the end.
    """

    kills: int = 0
    amid: int = 0
    moved_s: dict[str, list[float]] = field(default_factory=dict)
    stable_s: dict[str, list[float]] = field(default_factory=dict)
    never_stable: int = 0
    hung: int = 0
    green: int = 0
    ended_75: int = 0
    ended_otherwise: int = 0
    notes: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)


class Play:
    """One site.

    Parameters
    ----------
    plan : Plan
    seed : int
        Of the moments of the kills.
    patience_s : float
        How long nothing may move before it counts as hung, and again after a restart.
    planted : str
        What of `tests.defects` is done to the daemons.
    """

    def __init__(self, plan: Plan, seed: int, patience_s: float = PATIENCE_S, planted: str = "") -> None:
        self._plan, self._patience_s, self._planted = plan, patience_s, planted
        self._random = random.Random(seed)
        self._power = BROKERS[plan.brokers](SETTINGS[plan.settings])
        self._subjects: list[Subject] = []
        self.site = Site()

    def run(self, kills: int) -> Site:
        """Play some kills, stop early where a daemon hangs for good, and count what readers have."""
        with tempfile.TemporaryDirectory() as directory, running(self._power) as connection:
            try:
                self._set_up(connection, Path(directory))
                for _ in range(kills):
                    if not self._kill():
                        break
                for subject in self._subjects:
                    self.site.found |= subject.finish()
            finally:
                for subject in self._subjects:
                    subject.end()
        return self.site

    def _set_up(self, connection: Connection, directory: Path) -> None:
        for kind in SUBJECTS[self._plan.what]:
            timeout_s = self._plan.timeout_of(kind.name)
            shortened = self._plan.timeout_s is not None
            self._subjects.append(kind(connection, directory, timeout_s, shortened, planted=self._planted))
        for subject in self._subjects:
            subject.begin()

    def _kill(self) -> bool:
        """Kill the broker while everybody is at work; tell whether all moved on, if need be after a restart by hand."""
        for subject in self._subjects:
            subject.feed()
        for subject in self._subjects:
            await_work(subject)
        time.sleep(self._random.uniform(0.0, LATEST_KILL_S))  # the moment is the fault
        self.site.amid += self._await_transactions()
        if self._plan.double:
            for subject in self._subjects:
                subject.daemon.strike()
        self._power.fail()
        self.site.kills += 1
        time.sleep(self._plan.away_s)
        self._power.come_back()
        begun = time.monotonic()
        if self._plan.double:
            for subject in self._subjects:
                subject.daemon.kill()
                subject.begin()
        returns = [Return(self.site, subject, begun) for subject in self._subjects]
        if all_move(returns, self._patience_s):
            return True
        hanging = [each for each in returns if not each.moves]
        for each in hanging:
            each.give_up()
        moved = all_move(hanging, self._patience_s)
        for each in hanging:
            each.end(self._patience_s)
        return moved

    def _await_transactions(self) -> bool:
        """Wait a while until all daemons have a transaction open; tell whether they have."""
        admins = [Offsetter(subject.connection) for subject in self._subjects]
        until = time.monotonic() + AMID_S
        while time.monotonic() < until:
            found = [admin.look(s.partitions) for admin, s in zip(admins, self._subjects, strict=True)]
            if all(offsets is not None and offsets.apart for offsets in found):
                return True
        return False


@contextmanager
def running(power: Power) -> Iterator[Connection]:
    """Start brokers, return how to reach them, and delete them in the end."""
    try:
        power.start()
        yield Connection(options={"bootstrap.servers": power.bootstrap_servers}, request_timeout_s=10.0)
    finally:
        power.discard()


def await_work(subject: Subject) -> None:
    """Wait until a daemon writes."""
    before: Offsets | None = None
    until = time.monotonic() + SETTLE_S
    while True:
        offsets = look(subject.connection, subject.partitions)
        before = before or offsets
        if offsets and before and offsets.visible > before.visible + AT_WORK:
            return
        subject.daemon.catch_up()
        assert time.monotonic() < until, f"the {subject.name} does not begin: {subject.daemon.said[-2000:]}"
        time.sleep(LOOK_S)


class Return:
    """How one daemon goes on after its broker is back."""

    def __init__(self, site: Site, subject: Subject, begun: float) -> None:
        self._site, self._subject, self._begun = site, subject, begun
        self._before: Offsets | None = None
        self._stable = False
        self.moves = False

    def turn(self) -> None:
        """Look whether its readers have something new, and start it again where it ended."""
        if self.moves:
            return
        self._subject.daemon.catch_up()
        offsets = look(self._subject.connection, self._subject.partitions)
        if offsets is not None:
            self._before = self._before or offsets
            self._judge(offsets, self._before)
        if not self.moves:
            self._supervise()

    def give_up(self) -> None:
        """Note that it hangs, and start it again as a person would."""
        green = self._subject.green()
        self._site.hung += 1
        self._site.green += green
        self._site.never_stable += not self._stable
        self._note(f"hangs, {'green' if green else 'red'}: {self._subject.says()}")
        self._subject.daemon.kill()
        self._subject.begin()

    def end(self, patience_s: float) -> None:
        """Tell what the restart by hand came to."""
        self._note("moves after a restart" if self.moves else f"hangs for {patience_s:g} s after a restart, too")

    def _judge(self, offsets: Offsets, before: Offsets) -> None:
        settled = offsets.passed(before)
        if settled and not self._stable:
            self._stable = True
            self._add(self._site.stable_s)
        if settled and offsets.visible > sum(before.end.values()) + NEWS:
            self.moves = True
            self._add(self._site.moved_s)

    def _supervise(self) -> None:
        status = self._subject.daemon.ended()
        if status is None:
            return
        if status == START_AGAIN:
            self._site.ended_75 += 1
        else:
            self._site.ended_otherwise += 1
            self._note(f"ended with {status}: {self._subject.daemon.said[-500:]}")
        self._subject.begin()

    def _add(self, seconds: dict[str, list[float]]) -> None:
        seconds.setdefault(self._subject.name, []).append(round(time.monotonic() - self._begun, 1))

    def _note(self, what: str) -> None:
        self._site.notes.append(f"kill {self._site.kills}: {self._subject.name} {what}")


def all_move(returns: Sequence[Return], patience_s: float) -> bool:
    """Watch daemons until each moves, or for so long."""
    until = time.monotonic() + patience_s
    while not all(each.moves for each in returns):
        if time.monotonic() > until:
            return False
        for each in returns:
            each.turn()
        time.sleep(LOOK_S)
    return True


def play(plan: Plan, kills: int, seed: int, patience_s: float) -> dict[str, Any]:
    """Play one site in this process, and return what it came to."""
    return {"plan": asdict(plan), "seed": seed, **asdict(Play(plan, seed, patience_s).run(kills))}


class Results:
    """A file of sites played, each added as soon as it is over."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.sites: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []

    def add(self, site: dict[str, Any]) -> None:
        """Keep a site; the file is replaced as a whole."""
        self.sites.append(site)
        fresh = self._file.with_name(f"{self._file.name}.new")
        fresh.write_text(json.dumps(self.sites, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self._file)

    def of(self, plan: Plan) -> list[dict[str, Any]]:
        """Return the sites of a plan."""
        return [site for site in self.sites if Plan(**site["plan"]) == plan]

    def kills(self, plan: Plan) -> int:
        """Return how many kills of a plan were played."""
        return sum(site["kills"] for site in self.of(plan))

    def plans(self) -> list[Plan]:
        """Return the plans that were played, each once."""
        found: dict[Plan, None] = {}
        for site in self.sites:
            found[Plan(**site["plan"])] = None
        return list(found)


def collect(plan: Plan, results: Results, wanted: int, per_site: int, side_by_side: int, patience_s: float) -> None:
    """Play sites until there are so many kills, some of them side by side."""
    chance, failed = random.SystemRandom(), 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(side_by_side, context, initializer=die_with_parent, max_tasks_per_child=1) as pool:
        running: dict[Future[dict[str, Any]], int] = {}
        while True:
            left = wanted - results.kills(plan) - sum(running.values())
            while left > 0 and len(running) < side_by_side:
                kills = min(per_site, left)
                running[pool.submit(play, plan, kills, chance.randrange(1 << 32), patience_s)] = kills
                left -= kills
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                del running[future]
                try:
                    site = future.result()
                except Exception as error:  # the machine's fault as a rule: it is so busy that nothing starts in time
                    failed += 1
                    print(f"a site that could not be played: {error!r}"[:600], flush=True)
                    if failed == MOST_FAILED:
                        raise
                    continue
                results.add(site)
                print(line(site), flush=True)


def line(site: dict[str, Any]) -> str:
    """Return a site as one line."""
    shown = {name: site[name] for name in ("kills", "moved_s", "stable_s", "hung", "green", "never_stable", "ended_75")}
    return json.dumps({**shown, **site["found"], "notes": site["notes"]})


def _seconds(sites: Sequence[dict[str, Any]], name: str) -> str:
    taken = [each for site in sites for listed in site[name].values() for each in listed]
    return f"{statistics.median(taken):.1f} / {max(taken):.1f}" if taken else "-"


def _sum(name: str) -> Callable[[Sequence[dict[str, Any]]], str]:
    def column(sites: Sequence[dict[str, Any]]) -> str:
        return str(sum(site.get(name, site["found"].get(name, 0)) for site in sites))

    return column


def _statuses(sites: Sequence[dict[str, Any]]) -> str:
    found = sorted({site["found"]["verify"] for site in sites if "verify" in site["found"]})
    return ", ".join(map(str, found)) or "-"


def _late(sites: Sequence[dict[str, Any]]) -> str:
    """Count the returns that took longer than three transaction timeouts."""
    late = 0
    for site in sites:
        plan = Plan(**site["plan"])
        late += sum(each > 3 * plan.timeout_of(name) for name, taken in site["moved_s"].items() for each in taken)
    return str(late)


COLUMNS: dict[str, Callable[[Sequence[dict[str, Any]]], str]] = {
    "kills": _sum("kills"),
    "amid transactions": _sum("amid"),
    "versions": _sum("versions"),
    "doubled": _sum("doubled"),
    "missing": _sum("missing"),
    "verify": _statuses,
    "hung": _sum("hung"),
    "of them green": _sum("green"),
    "late": _late,
    "moved on, s": lambda sites: _seconds(sites, "moved_s"),
    "ended 75": _sum("ended_75"),
    "ended otherwise": _sum("ended_otherwise"),
    "scores": _sum("scores"),
    "scores missing": _sum("scores_missing"),
    "scores doubled": _sum("scores_doubled"),
    "partitions apart": _sum("apart"),
    "never stable": _sum("never_stable"),
    "stable past the kill, s": lambda sites: _seconds(sites, "stable_s"),
}


def table_of(results: Results) -> Table:
    """Return everything in the file, a column for each plan."""
    table = Table(title="Long outages; seconds are median / worst, from the broker's return", box=box.SIMPLE_HEAD)
    table.add_column("")
    plans = results.plans()
    for plan in plans:
        killed = "killed too" if plan.double else "alive"
        shortened = f", timeout {plan.timeout_s:g} s" if plan.timeout_s else ""
        away = f"{plan.settings}, {plan.brokers}, {plan.away_s:g} s away{shortened}"
        table.add_column(f"{plan.what}, {killed}\n{away}", justify="right")
    for name, column in COLUMNS.items():
        table.add_row(name, *(column(results.of(plan)) for plan in plans))
    return table


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(prog="python -m tests.faults.outages", description=(__doc__ or "").splitlines()[0])
    made.add_argument("what", choices=[*SUBJECTS, "table"], help="whose broker goes; `table` only prints the results")
    made.add_argument("--settings", choices=list(SETTINGS), default="frequent", help="of the broker (%(default)s)")
    made.add_argument("--kills", type=int, default=50, help="in the results file at the end (%(default)s)")
    made.add_argument("--kills-per-site", type=int, default=3, help="on one broker (%(default)s)")
    made.add_argument("--away", type=float, default=21.0, help="seconds from kill to start (%(default)s)")
    made.add_argument("--double", action="store_true", help="kill the daemons with the broker, as a power loss does")
    made.add_argument("--brokers", choices=list(BROKERS), default="one", help="what is killed (%(default)s)")
    made.add_argument("--timeout", type=float, help="seconds of every transaction, instead of the daemons' own")
    made.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds until one hangs (%(default)s)")
    made.add_argument("--side-by-side", type=int, default=1, help="brokers at once (%(default)s)")
    made.add_argument("--results", type=Path, required=True, metavar="FILE", help="JSON that is added to")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Play what is missing, and print the table of all that the file holds."""
    options = parser().parse_args(arguments)
    results = Results(options.results)
    if options.what != "table":
        plan = Plan(
            what=options.what,
            settings=options.settings,
            away_s=options.away,
            double=options.double,
            timeout_s=options.timeout,
            brokers=options.brokers,
        )
        collect(plan, results, options.kills, options.kills_per_site, options.side_by_side, options.patience)
    Console(width=160).print(table_of(results))


if __name__ == "__main__":
    main()
