"""A flood of hostile records: `python -m tests.faults.hostile_records --records 10000000 [--json FILE]`.

A trainer and a scorer, each a process, read one topic of a real broker, into which the fuzzers' cases go as fast as a
process can write them: JSON, arrays of it, Arrow and Avro in equal shares, in runs of 1 to 256, and among them one good
record in a hundred.
After each chunk everything is accounted for, from what both daemons wrote and from what they say of themselves:

- each offset is scored, or a dead letter of the scorer, or in part each; and a dead letter only once;
- both daemons reject the same rows for the same reasons, but for labels, which a point to be scored need not have;
- the rows that the trainer learned are as many as the scorer scored, less those of wrong labels;
- each good record has one score under its own id, and no dead letter;
- the rows that both count as accepted and rejected are those.

Besides: restarts, probes of /healthz, resident sets, rates, and how long a good record takes to its score with nothing
beside it and amid hostile ones. A file that is named is written after every chunk; a run that finds it goes on there.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsvm.config import PointsConfig
from streamsvm.ingest import arrow, avro
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Record, TopicSpec
from tests.brokers.jvm import JvmBroker
from tests.constants import flags
from tests.consumers.trainers import settings_for
from tests.forked import PROGRAM
from tests.fuzz.mutation import LARGEST, Mutator
from tests.fuzz.records import RECORDS, SHELF
from tests.ingest.rows import ARROW, AVRO, POINT
from tests.kafka.hostile_registry import Answer, hostile_registry, plain, text
from tests.live.admin import delete_records
from tests.live.observed import ask, metrics
from tests.live.process import DEADLINE_S, Daemon
from tests.live.stage import NO_LIMITS, Stage

CHUNK: Final = 100_000
GOOD_ONE_IN: Final = 100
FIRST: Final = 4_000
"""Good records before the flood: the scorer needs a version."""
MOST_ROWS: Final = 20
"""`ROWS_PER_RECORD` of both daemons: a dead letter then lists every row that it is about."""
MOST_GROWTH_MB: Final = 200
"""By how much the resident set of a daemon may exceed that after its first good records."""
MOST_RESTARTS: Final = 3
MOST_KEPT: Final = 50
PROBE_EVERY_S: Final = 0.25
WAIT_S: Final = 0.1
BESIDE_S: Final = 10.0
"""Seconds for which good records are timed alone, and amid hostile ones."""
BESIDE_GOOD_PER_S: Final = 50
BESIDE_HOSTILE_PER_S: Final = 500
TRAINER, SCORER = "trainer", "scorer"
LABEL_REASONS: Final = frozenset({"unknown_label", "missing_field: y is missing"})
OPTIONS: Final = {
    "points_dtype": "float64",  # as a scorer reads
    "ROWS_PER_RECORD": MOST_ROWS,
    "svm_c": None,
    "coreset_train_points": 4_000,
    "training_every_leaves": 2,
    "training_policy": "latest",
    "BATCH_RECORDS": 4_000,
    "checkpoint_interval_s": 5.0,
    **NO_LIMITS,
}
SCORER_CONSTANTS: Final = {"ROWS_PER_RECORD": MOST_ROWS, "MOST_REJECTED_SHARE": 0.0, "SCORED_AT_ONCE": 2_000}
SMALL_SEGMENTS: Final = {"segment.bytes": str(16 << 20)}
"""So that what is deleted leaves the disk."""

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Made:
    """A record to send; `mark` is the id of a good one."""

    value: bytes
    headers: Headers = ()
    mark: str = ""


class Flood:
    """Makes records: each a pure function of the seed and its number."""

    KINDS: Final = ("json", "array", "arrow", "avro")
    RUNS: Final = (1, 4, 16, 64, 256)
    """How many records of one kind follow each other, in turn: decoders take a run at once, and alone each."""
    RUNS_EVERY: Final = 1_024

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._mutators: dict[str, Mutator] = {target.name: target.mutator() for target in RECORDS}
        self._avro = avro.AvroWriter(POINT, 1)

    def record(self, number: int) -> Made:
        """Return a record: one in a hundred is good, the others are of each kind in turn."""
        if number % GOOD_ONE_IN == GOOD_ONE_IN - 1:
            return self.good(number)
        return self.hostile(number)

    def kind(self, number: int) -> str:
        """Return of which kind a hostile record is."""
        run = self.RUNS[number // self.RUNS_EVERY % len(self.RUNS)]
        return self.KINDS[number // run % len(self.KINDS)]

    def hostile(self, number: int) -> Made:
        """Return a case of the fuzzers, or an array of some."""
        kind = self.kind(number)
        if kind == "array":
            first = number * 4
            cases = [self._mutators["json"].case(self._seed + 1, first + index) for index in range(1 + number // 4 % 4)]
            return Made(b"[" + b",".join(cases)[: LARGEST - 2] + b"]")
        headers = {"json": (), "arrow": ARROW, "avro": AVRO}[kind]
        return Made(self._mutators[kind].case(self._seed, number), headers)

    def good(self, number: int) -> Made:
        """Return a good record of one row, of each format in turn; labels follow the first feature."""
        chance = random.Random(self._seed << 40 | number)
        label = chance.choice((-1, 1))
        x, mark = [chance.gauss(label, 1.0), chance.gauss(0.0, 1.0)], f"good-{number}"
        kind = self.KINDS[number // GOOD_ONE_IN % len(self.KINDS)]
        if kind == "arrow":
            return Made(arrow.encode(np.array([x]), [label], None, [mark]), ARROW, mark)
        if kind == "avro":
            return Made(self._avro.encode({"x": x, "y": label, "w": None, "id": mark}), AVRO, mark)
        one = encode(x, label, id=mark)
        return Made(b"[" + one + b"]" if kind == "array" else one, (), mark)


@dataclass
class Count:
    """What a run came to, so far; it can be gone on with.

    Attributes
    ----------
    records, good : int
        Sent, and how many of them were good.
    rows : mapping
        Of each daemon, the rows that it accepted and rejected, by its metrics.
    letters : mapping
        Of each daemon, its rejected rows by reason, by its dead letters.
    only_labels : int
        Rows that only the trainer rejected, for their labels.
    escapes : list of str
        What did not add up, or ended; at most `MOST_KEPT` are written down of `escaped`.
    good_scored, good_learned : int
        Good records with their one score; good records that are no dead letter of the trainer.
    rss_mb_at_start, rss_mb_most : mapping
    seconds : float
        From the first record of each chunk to the end of its accounts' waiting, all chunks together.
    latency_alone_s, latency_beside_s : list of float
        From sending a good record to its score: median, 99th percentile, greatest; of the run that was first.
    """

    seed: int = 0
    records: int = 0
    good: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    rows: dict[str, dict[str, int]] = field(default_factory=lambda: {TRAINER: {}, SCORER: {}})
    letters: dict[str, dict[str, int]] = field(default_factory=lambda: {TRAINER: {}, SCORER: {}})
    only_labels: int = 0
    good_scored: int = 0
    good_learned: int = 0
    escaped: int = 0
    escapes: list[str] = field(default_factory=list)
    restarts: int = 0
    probes: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    slowest_probe_s: float = 0.0
    rss_mb_at_start: dict[str, float] = field(default_factory=dict)
    rss_mb_most: dict[str, float] = field(default_factory=dict)
    version: int = 0
    seconds: float = 0.0
    feeding_seconds: float = 0.0
    records_per_s: float = 0.0
    good_alone_per_s: float = 0.0
    latency_alone_s: list[float] = field(default_factory=list)
    latency_beside_s: list[float] = field(default_factory=list)

    def escape(self, what: str) -> None:
        """Note what should not have happened."""
        self.escaped += 1
        if len(self.escapes) < MOST_KEPT:
            self.escapes.append(what[:1_000])

    @property
    def growth_mb(self) -> float:
        """By how much the daemon that grew most did."""
        return max((self.rss_mb_most[name] - self.rss_mb_at_start[name] for name in self.rss_mb_at_start), default=0.0)

    @property
    def clean(self) -> bool:
        """Whether nothing happened that should not have."""
        return not (self.escaped or self.restarts or self.failed) and self.growth_mb <= MOST_GROWTH_MB


class Ended(Exception):
    """A daemon ended too often to go on."""


def schemas() -> Answer:
    """Return a registry's answers: the schemas of the fuzzers, and that there is no other."""

    def give(request: Any) -> None:
        number = request.path.partition("/ids/")[2].partition("?")[0]
        known = SHELF.schemas.get(int(number)) if number.isdecimal() else None
        if known is None:
            plain(b'{"error_code": 40403, "message": "Schema not found"}', 404)(request)
        else:
            text(known)(request)

    return give


class Site:
    """A trainer and a scorer, each of a topic with the same records, and what they write."""

    def __init__(self, stage: Stage, registry_url: str, count: Count, planted: str) -> None:
        self._stage, self._registry_url, self._count, self._planted = stage, registry_url, count, planted
        self._cluster = Cluster(stage.connection)
        settings = stage.settings
        self.points = {TRAINER: settings.input.topic, SCORER: f"{settings.input.topic}.scored"}
        self.letters = {name: f"{topic}.dlq" for name, topic in self.points.items()}
        self.scores = f"{settings.input.topic}.scores"
        self._read = dict.fromkeys((*self.letters.values(), self.scores), 0)
        self.daemons: dict[str, Daemon] = {}
        topics = [*self.points.values(), self.scores, *self.letters.values()]
        self._cluster.create([TopicSpec(name, config=SMALL_SEGMENTS) for name in topics])

    def start(self, name: str) -> None:
        """Start a daemon, and wait until it works."""
        self.daemons[name] = self._trainer() if name == TRAINER else self._scorer()
        self.daemons[name].wait_for("started" if name == TRAINER else "serving")

    def _trainer(self) -> Daemon:
        return self._stage.start(self._planted, registry_url=self._registry_url, **OPTIONS)

    def _scorer(self) -> Daemon:
        settings = self._stage.settings
        options = {
            "name": settings.name,
            "bootstrap-servers": self._stage.connection.servers,
            "output-models-topic": settings.output.models_topic,
            "scoring-topic": self.points[SCORER],
            "scoring-output-topic": self.scores,
            "registry-url": self._registry_url,
            "http-port": 0,
        }
        command = [
            *flags(SCORER_CONSTANTS),
            "score",
            *(part for name, value in options.items() for part in (f"--{name}", str(value))),
        ]
        daemon = Daemon(
            [self._planted, *command] if self._planted else command,
            None,
            "tests.faults.planted" if self._planted else PROGRAM,
        )
        self._stage.started.append(daemon)
        return daemon

    def revive(self) -> bool:
        """Start again what has ended, which is counted; tell whether something had.

        Raises
        ------
        Ended
            If one ended too often.
        """
        ended = {name: status for name, daemon in self.daemons.items() if (status := daemon.ended()) is not None}
        for name, status in ended.items():
            self.daemons[name].catch_up()
            self._count.restarts += 1
            self._count.escape(f"the {name} ended with status {status}: {''.join(self.daemons[name].log[-3:])}")
            if self._count.restarts > MOST_RESTARTS:
                raise Ended(f"the {name} ended {self._count.restarts} times")
            self.start(name)
        return bool(ended)

    def end(self) -> int:
        """Return the offset after the last record of either input."""
        (end,) = {self._cluster.log_range(topic, 0)[1] for topic in self.points.values()}
        return end

    def fresh(self, topic: str) -> Iterator[Record]:
        """Yield what was written to a topic since it was last asked for."""
        for record in self._cluster.read_to_end(topic, 0, start=self._read[topic], timeout_s=DEADLINE_S):
            self._read[topic] = record.offset + 1
            yield record

    def tidy(self, before: int) -> None:
        """Remove the input below an offset that both daemons have passed, and what has been read of their answers."""
        for topic, offset in (*((topic, before) for topic in self.points.values()), *self._read.items()):
            first, end = self._cluster.log_range(topic, 0)
            if first < min(offset, end):
                delete_records(self._stage.connection, topic, min(offset, end))

    def said(self) -> dict[str, dict[str, int]]:
        """Return how many records, accepted rows and rejected rows each daemon says it had, in this life."""
        return {name: _said(self.metrics(name)) for name in self.daemons}

    def metrics(self, name: str) -> dict[str, float]:
        """Return a daemon's metrics, nothing if it has ended; a machine that is too busy is asked again."""
        daemon, until = self.daemons[name], time.monotonic() + DEADLINE_S
        while daemon.ended() is None:
            try:
                return metrics(daemon)
            except OSError:
                if time.monotonic() > until and daemon.ended() is None:
                    raise
        return {}


def _said(counted: dict[str, float]) -> dict[str, int]:
    found = {word: int(counted.get(f'streamsvm_input_rows_total{{outcome="{word}"}}', 0)) for word in ROWS}
    return {**found, "records": int(counted.get('streamsvm_input_records_total{partition="0"}', 0))}


ROWS: Final = ("accepted", "rejected")


class Watch:
    """Asks both daemons for /healthz and looks at their resident sets, in a thread of its own."""

    def __init__(self, site: Site, count: Count) -> None:
        self._site, self._count = site, count
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PROBE_EVERY_S):
            for name, daemon in list(self._site.daemons.items()):
                if daemon.ended() is None and daemon.events("configuration"):
                    self._probe(name, daemon)

    def _probe(self, name: str, daemon: Daemon) -> None:
        count, begun = self._count, time.monotonic()
        try:
            status, _ = ask(daemon, "healthz")
            rss_mb = round(daemon.rss_bytes() / 2**20, 1)
        except OSError as error:
            if daemon.ended() is not None:  # a restart is counted as one
                return
            status, rss_mb = 0, 0.0
            count.failures.append(f"{name}, after {count.records} records: {error!r}"[:200])
        count.probes += 1
        count.failed += status != 200
        count.slowest_probe_s = max(count.slowest_probe_s, round(time.monotonic() - begun, 3))
        count.rss_mb_most[name] = max(count.rss_mb_most.get(name, 0.0), rss_mb)


@dataclass
class Chunk:
    """Records of one chunk, by their offsets, and what became of them."""

    first: int
    marks: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    sent_at: list[float] = field(default_factory=list)
    letters: dict[str, dict[int, deadletter.DecodedDeadLetter]] = field(
        default_factory=lambda: {TRAINER: {}, SCORER: {}}
    )
    scores: dict[int, list[object]] = field(default_factory=dict)
    scored_at_ms: dict[int, int] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.marks)

    def take_letter(self, name: str, record: Record) -> None:
        """Note a dead letter."""
        letter = deadletter.decode(record.value, record.headers)
        if letter.offset in self.letters[name]:
            self.twice.append(f"two dead letters of the {name} for offset {letter.offset}")
        self.letters[name][letter.offset] = replace(letter, value=None)

    def take_score(self, record: Record) -> None:
        """Note the scores of one record, by their ids."""
        offset = int(dict(record.headers)["streamsvm.source"].rpartition(b"/")[2])
        if offset in self.scores:
            self.twice.append(f"two records of scores for offset {offset}")
        found = json.loads(record.value or b"")
        self.scores[offset] = [one["id"] for one in (found if isinstance(found, list) else [found])]
        self.scored_at_ms[offset] = record.timestamp_ms or 0

    def answered(self) -> int:
        """Return how many records the scorer has answered."""
        return len(self.scores.keys() | self.letters[SCORER].keys())

    def rows(self) -> int:
        """Return how many rows the scorer has answered: what the trainer must have read, too."""
        return sum(map(len, self.scores.values())) + sum(map(_rejected, self.letters[SCORER].values()))

    def latencies_s(self) -> list[float]:
        """Return how long the good records took to their scores."""
        good = [at for at, mark in enumerate(self.marks) if mark and self.first + at in self.scored_at_ms]
        return [self.scored_at_ms[self.first + at] / 1_000 - self.sent_at[at] for at in good]


class Attack:
    """Feeds chunks and accounts for each."""

    def __init__(self, stage: Stage, site: Site, count: Count) -> None:
        self._stage, self._site, self._count = stage, site, count
        self._flood = Flood(count.seed)
        self._end = 0

    def begin(self) -> None:
        """Start both daemons, teach them some good records, and time good records alone and beside hostile ones."""
        site, count = self._site, self._count
        chunk = self._chunk()
        self._send(chunk, (self._flood.good(-number - 1) for number in range(FIRST)))
        site.start(TRAINER)
        site.start(SCORER)
        self._settle(chunk, {TRAINER: _said({}), SCORER: _said({})})
        for name, daemon in site.daemons.items():
            count.rss_mb_at_start[name] = round(daemon.rss_bytes() / 2**20, 1)

    def time_good_ones(self, seconds: float) -> None:
        """Time good records at an even rate, alone and then beside hostile ones at another."""
        count, good, numbers = self._count, BESIDE_GOOD_PER_S, iter(range(-FIRST - 1, -(10**9), -1))
        alone = (self._flood.good(next(numbers)) for _ in range(int(good * seconds)))
        count.latency_alone_s = self._timed(alone, good)
        each = BESIDE_HOSTILE_PER_S // good
        mixed = (
            self._flood.hostile(-next(numbers)) if index % (each + 1) else self._flood.good(next(numbers))
            for index in range(int((each + 1) * good * seconds))
        )
        count.latency_beside_s = self._timed(mixed, (each + 1) * good)
        chunk, before, begun = self._chunk(), self._site.said(), time.monotonic()
        self._send(chunk, (self._flood.good(next(numbers)) for _ in range(FIRST)))
        self._settle(chunk, before)
        count.good_alone_per_s = round(FIRST / (time.monotonic() - begun), 1)

    def _timed(self, records: Iterator[Made], per_s: float) -> list[float]:
        chunk, before = self._chunk(), self._site.said()
        self._send(chunk, records, per_s)
        self._settle(chunk, before)
        latencies = chunk.latencies_s()  # none, if the scorer answered nothing: that is an escape already
        return [round(float(value), 3) for value in np.quantile(latencies, [0.5, 0.99, 1.0])] if latencies else []

    def chunk(self, size: int) -> None:
        """Feed so many records, and account for them."""
        site, count = self._site, self._count
        before, begun = site.said(), time.monotonic()
        chunk = self._chunk()
        self._send(chunk, map(self._flood.record, range(count.records, count.records + size)))
        count.feeding_seconds = round(count.feeding_seconds + time.monotonic() - begun, 1)
        self._settle(chunk, before, counted=True)
        count.seconds = round(count.seconds + time.monotonic() - begun, 1)
        for number in range(count.records, count.records + size):
            kind = "good" if number % GOOD_ONE_IN == GOOD_ONE_IN - 1 else self._flood.kind(number)
            count.by_kind[kind] = count.by_kind.get(kind, 0) + 1
        count.records += size
        count.records_per_s = round(count.records / count.seconds, 1)
        count.version = int(site.metrics(TRAINER).get("streamsvm_model_version", 0))

    def _chunk(self) -> Chunk:
        return Chunk(self._end)

    def _send(self, chunk: Chunk, records: Iterator[Made], per_s: float = 0.0) -> None:
        """Send records, as fast as they are taken or at an even rate."""
        outbox, begun, pause = Outbox(self._stage.connection), time.monotonic(), threading.Event()
        for index, made in enumerate(records):
            if per_s and (early := begun + index / per_s - time.monotonic()) > 0:
                outbox.poll()
                pause.wait(early)
            chunk.marks.append(made.mark)
            chunk.sent_at.append(time.time())
            for topic in self._site.points.values():
                outbox.send(Message(topic, made.value, headers=made.headers, partition=0))
        outbox.flush(DEADLINE_S)
        outbox.close()
        self._end += len(chunk)
        assert self._site.end() == self._end, "a topic holds other records than were sent"

    def _settle(self, chunk: Chunk, before: dict[str, dict[str, int]], *, counted: bool = False) -> None:
        """Wait until both daemons have answered everything, and check that it adds up."""
        if not self._wait(chunk, before):  # a daemon that was started again may say things twice
            for what in chunk.twice:
                self._count.escape(what)
            self._check(chunk)
            self._check_rows(chunk, before, counted=counted)
        if counted:
            self._add(chunk)
        self._site.tidy(chunk.first)

    def _wait(self, chunk: Chunk, before: dict[str, dict[str, int]]) -> bool:
        """Wait until all is answered; tell whether a daemon had to be started again."""
        site, pause, restarted = self._site, threading.Event(), False
        moved, standing = time.monotonic(), (-1, -1)
        while True:
            for name, topic in site.letters.items():
                for record in site.fresh(topic):
                    chunk.take_letter(name, record)
            for record in site.fresh(site.scores):
                chunk.take_score(record)
            restarted |= site.revive()
            if restarted and chunk.answered() >= len(chunk):
                return True
            grown = {name: _less(words, before[name]) for name, words in site.said().items()}
            letters = sum(map(_rejected, chunk.letters[TRAINER].values()))
            learned, scored = (grown[name]["accepted"] + grown[name]["rejected"] for name in (TRAINER, SCORER))
            read = min(chunk.answered(), grown[TRAINER]["records"]) >= len(chunk)
            # A scorer counts a batch once it is committed: a moment after others can read it.
            if read and scored == chunk.rows() <= learned and letters >= grown[TRAINER]["rejected"]:
                return False
            if standing != (now := (chunk.answered(), letters + learned)):
                moved, standing = time.monotonic(), now
            if time.monotonic() - moved > DEADLINE_S:
                self._count.escape(f"{len(chunk) - chunk.answered()} records are not scored, {learned} are learned")
                return restarted
            pause.wait(WAIT_S)

    def _check(self, chunk: Chunk) -> None:
        """Compare what the daemons say of each record."""
        trainer, scorer = chunk.letters[TRAINER], chunk.letters[SCORER]
        for at, mark in enumerate(chunk.marks):
            offset = chunk.first + at
            theirs, ours = _reasons(trainer.get(offset)), _reasons(scorer.get(offset))
            labels = {row for row, why in theirs.items() if why in LABEL_REASONS and row not in ours}
            if {row: why for row, why in theirs.items() if row not in labels} != ours:
                self._count.escape(f"offset {offset}: the trainer says {theirs}, the scorer {ours}")
            if not ours and offset not in chunk.scores:
                self._count.escape(f"offset {offset} is neither scored nor a dead letter")
            if mark and (chunk.scores.get(offset) != [mark] or theirs):
                self._count.escape(f"the good record {mark}: scores {chunk.scores.get(offset)}, rejected {theirs}")

    def _check_rows(self, chunk: Chunk, before: dict[str, dict[str, int]], *, counted: bool) -> None:
        """Compare what the daemons count with what they wrote."""
        after = self._site.said()
        grown = {name: _less(after[name], before[name]) for name in after}
        scored = sum(map(len, chunk.scores.values()))
        rejected = {name: sum(map(_rejected, letters.values())) for name, letters in chunk.letters.items()}
        labels = rejected[TRAINER] - rejected[SCORER]
        wanted = {
            TRAINER: {"accepted": scored - labels, "rejected": rejected[TRAINER], "records": len(chunk)},
            SCORER: {"accepted": scored, "rejected": rejected[SCORER], "records": len(chunk)},
        }
        for name in after:
            if grown[name] != wanted[name]:
                self._count.escape(f"the {name} counts {grown[name]}, its topics say {wanted[name]}")
        if counted:
            for name, words in grown.items():
                for word in ROWS:
                    self._count.rows[name][word] = self._count.rows[name].get(word, 0) + words[word]

    def _add(self, chunk: Chunk) -> None:
        count = self._count
        for name, letters in chunk.letters.items():
            reasons = Counter(row.reason for letter in letters.values() for row in letter.rows)
            for reason, number in sorted(reasons.items()):
                count.letters[name][reason] = count.letters[name].get(reason, 0) + number
        sums = [sum(map(_rejected, chunk.letters[name].values())) for name in (TRAINER, SCORER)]
        count.only_labels += sums[0] - sums[1]
        good = [(chunk.first + at, mark) for at, mark in enumerate(chunk.marks) if mark]
        count.good += len(good)
        count.good_scored += sum(chunk.scores.get(offset) == [mark] for offset, mark in good)
        count.good_learned += sum(offset not in chunk.letters[TRAINER] for offset, _ in good)


def _less(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {word: after[word] - before[word] for word in after}


def _rejected(letter: deadletter.DecodedDeadLetter) -> int:
    """Return how many rows a letter is about."""
    return int(letter.rejected.split()[0])


def _reasons(letter: deadletter.DecodedDeadLetter | None) -> dict[int, str]:
    """Return why each row was rejected; a missing label is told from missing features."""
    if letter is None:
        return {}
    assert len(letter.rows) == _rejected(letter), f"the letter of offset {letter.offset} does not list each row"
    missing = "missing_field: y is missing"
    return {row.row: missing if row.message == "y is missing" else row.reason for row in letter.rows}


def flooded(
    stage: Stage,
    count: Count,
    records: int,
    *,
    planted: str = "",
    chunk: int = CHUNK,
    timed_s: float = BESIDE_S,
    save: Callable[[], object] = list,
) -> Count:
    """Flood a trainer and a scorer until so many records were sent in all; `count` goes on from where it stands.

    Parameters
    ----------
    stage : Stage
        Its topics must not exist yet.
    count : Count
    records : int
    planted : str
        A defect of `tests.faults.planted`, in both daemons.
    chunk : int
        Records that are sent before what became of them is looked at.
    timed_s : float
        Seconds for which good records are timed, alone and beside hostile ones; 0: they are not.
    save : callable
        Called after each chunk.
    """
    points = PointsConfig(dimension=2, labels=(-1, 1))
    stage = Stage(stage.connection, stage.settings.model_copy(update={"points": points}), started=stage.started)
    with hostile_registry(schemas()) as registry:
        site = Site(stage, registry.url, count, planted)
        attack, watch = Attack(stage, site, count), Watch(site, count)
        try:
            attack.begin()
            if timed_s and not count.latency_beside_s:
                attack.time_good_ones(timed_s)
            while count.records < records:
                attack.chunk(min(chunk, records - count.records))
                registry.asked.clear()
                save()
        except Ended as ended:
            count.escape(str(ended))
        finally:
            watch.close()
        for name, daemon in site.daemons.items():
            if daemon.ended() is None and (status := daemon.stop()) != 0:
                count.escape(f"the {name} stopped with status {status}")
    save()
    return count


@contextmanager
def own_stage() -> Iterator[Stage]:
    """Give a broker of one's own, and a place for checkpoints."""
    broker = JvmBroker()
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as directory:
            connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
            stage = Stage(connection, settings_for("hostile-records", Path(directory) / "checkpoint"))
            try:
                yield stage
            finally:
                stage.clear()
    finally:
        broker.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Flood, and print what it came to; status 1 if anything escaped, ended, grew or failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.hostile_records", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000, help="how many in all (%(default)s)")
    parser.add_argument("--chunk", type=int, default=CHUNK, help="how many between two accounts (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--planted", default="", help="a defect of tests.faults.planted, in both daemons")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the counts go, and from where to go on")
    options = parser.parse_args(arguments)
    known = options.json is not None and options.json.exists()
    count = Count(**json.loads(options.json.read_text())) if known else Count(seed=options.seed)

    def save() -> None:
        if options.json is not None:
            partial = options.json.with_suffix(".partial")
            partial.write_text(json.dumps(asdict(count), indent=2) + "\n", encoding="utf-8")
            partial.replace(options.json)
        print(
            f"{count.records:,} records, {count.records_per_s:,.0f}/s, {count.good_scored:,} of {count.good:,} good, "
            f"{count.escaped} escapes, {count.restarts} restarts, {count.failed} of {count.probes} probes failed, "
            f"{count.rss_mb_most} MB",
            flush=True,
        )

    with own_stage() as stage:
        flooded(stage, count, options.records, planted=options.planted, chunk=options.chunk, save=save)
    print(json.dumps(asdict(count), indent=2))
    raise SystemExit(not count.clean)


if __name__ == "__main__":
    main()
