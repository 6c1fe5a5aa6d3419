"""A history in an order that questions can be asked in: who read what, what was told, what the logs hold in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.live.history import Entry
from tests.promise.records import Record

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Fed:
    """A record that was fed.

    `time_ms`: Its timestamp, right or wrong. `id`: Of its point, or of the point that it labels; None of a record that
    only tells the time. `y`: Its label; None of a point without, and of what is no point.
    """

    offset: int
    time_ms: int
    id: str | int | None
    y: int | None
    weight: float = 1.0


@dataclass
class Generation:
    """A topic under a name that several had one after the other.

    `topic_id`: Empty where the history does not tell. `deleted_t`: Infinite of the last one.
    """

    topic_id: str = ""
    made_t: float = 0.0
    deleted_t: float = float("inf")
    records: dict[int, dict[int, Fed]] = field(default_factory=lambda: defaultdict(dict))

    def end(self, partition: int) -> int:
        """Return the offset after the last record of a partition."""
        return max(self.records[partition], default=-1) + 1


@dataclass(frozen=True, slots=True)
class Join:
    """A model whose labels come later: their topic, and the rule."""

    labels: str
    letters: tuple[str, ...]
    horizon_ms: int
    early_ms: int
    absent: str


@dataclass(frozen=True, slots=True)
class Site:
    """The topics that share one models topic, and the models in it.

    `models, aliases, audit`: Topics. `inputs`: Of each model, the topic it learns from. `rows_per_version`: How many
    rows, at most, may wait before a version must cover them. `joins`: Of models whose labels come later. `coresets`: Of
    models that workers learn, the topic in which they leave it.
    """

    models: str
    aliases: str
    audit: str
    inputs: Mapping[str, str]
    rows_per_version: int
    joins: Mapping[str, Join] = field(default_factory=dict)
    coresets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scoring:
    """The topics of a group of scorers, the model by which they score, and what their configuration says of gaps."""

    group: str
    points: str
    scores: str
    letters: str
    model: str
    on_gap: str = "fail"


class Evidence:
    """Everything that a history says, indexed."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.facts: Mapping[str, Any] = {}
        self.sites: list[Site] = []
        self.scorings: list[Scoring] = []
        self.committed: dict[Place, dict[int, Record]] = defaultdict(dict)
        self.uncommitted: dict[Place, dict[int, Record]] = defaultdict(dict)
        self.live: dict[tuple[str, Place], list[Record]] = defaultdict(list)
        self.told: dict[str, list[Entry]] = defaultdict(list)
        self._generations: dict[str, list[Generation]] = defaultdict(list)
        self._views: dict[str, tuple[str, str]] = {}
        for entry in entries:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        if entry.f == "run":
            self._take_facts(entry)
        elif entry.f == "reader":
            self._views[entry.client] = entry["isolation"], entry["view"]
        elif entry.f == "read":
            self._take_read(entry)
        else:
            self.told[entry.f].append(entry)
            if entry.f == "topic":
                self._take_topic(entry)
            elif entry.f == "feed":
                self._take_fed(entry)

    def _take_facts(self, entry: Entry) -> None:
        self.facts = entry.told
        for site in entry.get("sites", []):
            joins = {name: Join(**join) for name, join in site.get("joins", {}).items()}
            self.sites.append(Site(**{**site, "joins": joins}))
        for scoring in entry.get("scorings", []):
            self.scorings.append(Scoring(**scoring))

    def _take_topic(self, entry: Entry) -> None:
        generations = self._generations[entry["topic"]]
        if entry.get("topic_id"):
            generations.append(Generation(entry["topic_id"], entry.t))
        else:
            generations[-1].deleted_t = entry.t

    def _take_fed(self, entry: Entry) -> None:
        records = self.generations(entry["topic"])[-1].records[entry["partition"]]
        for offset, record in zip(range(entry["first"], entry["last"] + 1), entry["records"], strict=True):
            records[offset] = Fed(offset, *record)

    def generations(self, topic: str) -> list[Generation]:
        """Return the topics that had a name one after the other, at least one."""
        found = self._generations[topic]
        if not found:
            found.append(Generation())
        return found

    def topics(self) -> list[list[Generation]]:
        """Return the generations of each topic that was fed."""
        return list(self._generations.values())

    def _take_read(self, entry: Entry) -> None:
        read = Record(
            topic=entry["topic"],
            partition=entry["partition"],
            offset=entry["offset"],
            key=entry["key"],
            value=entry.get("value"),
            sha256=entry["sha256"],
            headers=entry.get("headers", {}),
            t=entry.t,
        )
        isolation, view = self._views[entry.client]
        if view == "live":
            self.live[entry.client, read.place].append(read)
        elif isolation == "read_committed":
            self.committed[read.place][read.offset] = read
        else:
            self.uncommitted[read.place][read.offset] = read

    def log(self, topic: str) -> list[Record]:
        """Return what is committed in a topic in the end, each partition in its order."""
        places = sorted(place for place in self.committed if place[0] == topic)
        return [self.committed[place][offset] for place in places for offset in sorted(self.committed[place])]

    def aborted(self, topic: str) -> list[Record]:
        """Return what is in a topic in the end, and is not committed."""
        return [
            read
            for place, reads in self.uncommitted.items()
            if place[0] == topic
            for offset, read in reads.items()
            if offset not in self.committed[place]
        ]

    def live_committed(self) -> Iterator[tuple[str, Place, list[Record]]]:
        """Return what each reader of committed records saw in each partition, in the order in which it saw it."""
        for (client, place), reads in self.live.items():
            if self._views[client][0] == "read_committed":
                yield client, place, reads

    @property
    def bound_s(self) -> float:
        """Seconds for which something may stand still where nothing is wrong."""
        return float(self.facts.get("bound_s", 60.0))

    def faults(self) -> list[tuple[float, float]]:
        """Return from when to when something was wrong; a fault that never ended ends with the history."""
        begun: dict[str, float] = {}
        spans = []
        for entry in self.told["fault"]:
            if entry["phase"] == "begin":
                begun.setdefault(entry["what"], entry.t)
            elif entry["what"] in begun:
                spans.append((begun.pop(entry["what"]), entry.t))
        return sorted([*spans, *((t, float("inf")) for t in begun.values())])

    def calm_since(self, t: float) -> float:
        """Return the moment since when, at `t`, nothing has been wrong; `t` itself where something is."""
        since = 0.0
        for begin, end in self.faults():
            if begin <= t:
                since = max(since, min(end, t))
        return since
