"""A flood of the fuzzers' cases over a trainer and a scorer: both daemons live, and say the same of every record.

What a record's rows deserve is not known here; that both decide it alike is, but for labels, which a point to be scored
need not have. A good record, one in a hundred, is learned and scored once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streamsvm.ingest import arrow, avro, dead_letter as deadletter, encode
from streamsvm.kafka import Cluster, Message, Outbox, Record, TopicSpec
from tests.constants import flags
from tests.deadline import eventually
from tests.fuzz.mutation import LARGEST, Mutator
from tests.fuzz.records import RECORDS, SHELF
from tests.ingest.rows import ARROW, AVRO, POINT
from tests.kafka.hostile_registry import Answer, plain, text
from tests.live.process import DEADLINE_S, metrics, read_all, scorer
from tests.live.stage import NO_LIMITS, Stage

GOOD_ONE_IN: Final = 100
FIRST: Final = 500
"""Good records before the flood: the scorer needs a version."""
MOST_ROWS: Final = 20
"""`ROWS_PER_RECORD` of both daemons: a dead letter then lists every row that it is about."""
NO_LABEL: Final = "y is missing"
OPTIONS: Final = {
    "points_dtype": "float64",  # as a scorer reads
    "ROWS_PER_RECORD": MOST_ROWS,
    "training_policy": "latest",
    "BATCH_RECORDS": 1_000,
    "checkpoint_interval_s": 5.0,
    **NO_LIMITS,
}
SCORERS: Final = {"ROWS_PER_RECORD": MOST_ROWS, "MOST_REJECTED_SHARE": 0.0, "SCORED_AT_ONCE": 1_000}


@dataclass(frozen=True)
class Made:
    """A record to send; `mark` is the id of a good one."""

    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
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
        run = self.RUNS[number // self.RUNS_EVERY % len(self.RUNS)]
        kind = self.KINDS[number // run % len(self.KINDS)]
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


def schemas() -> Answer:
    """Return a registry's answers: the schemas of the fuzzers, and that there is no other."""

    def give(request: Any) -> None:
        number = request.path.partition("/ids/")[2].partition("?")[0]
        known = SHELF.schemas.get(int(number)) if number.isdecimal() else None
        unknown = plain(b'{"error_code": 40403, "message": "Schema not found"}', 404)
        (unknown if known is None else text(known))(request)

    return give


class Flooded:
    """A trainer and a scorer, each of a topic with the same records, and what they write.

    `stage`: Of points of two features; its topics must not exist yet.
    """

    def __init__(self, stage: Stage, registry_url: str, planted: str = "") -> None:
        self._stage, self._url, self._planted = stage, registry_url, planted
        self.learned = stage.settings.input.topic
        self.points, self.scores = f"{self.learned}.scored", f"{self.learned}.scores"
        names = (self.learned, self.points, self.scores, f"{self.learned}.dlq", f"{self.points}.dlq")
        Cluster(stage.connection).create([TopicSpec(name) for name in names])
        self.sent: list[Made] = []

    def send(self, records: Iterator[Made]) -> None:
        """Put records into both topics."""
        outbox = Outbox(self._stage.connection)
        for made in records:
            self.sent.append(made)
            for topic in (self.learned, self.points):
                outbox.send(Message(topic, made.value, headers=made.headers, partition=0))
        outbox.flush(DEADLINE_S)
        outbox.close()

    def begin(self) -> None:
        """Start both daemons."""
        self.trainer = self._stage.start(self._planted, registry_url=self._url, **OPTIONS)
        assert self.trainer.reaches_version(1), self.trainer.said
        servers, settings = self._stage.connection.servers, self._stage.settings
        models = settings.output.models_topic
        command = scorer(servers, settings.name, models, self.points, self.scores, registry_url=self._url)
        self.scorer = self._stage.start_command([*flags(SCORERS), *command], self._planted)

    def finish(self) -> None:
        """Let both answer everything, and stop them; then compare what they say of each record."""

        def answered() -> bool:
            for daemon in (self.trainer, self.scorer):
                daemon.catch_up()
                assert daemon.ended() is None, f"a daemon ended with status {daemon.wait()}: {daemon.said[-2_000:]}"
            return len({*self._scores(), *self._letters(self.points)}) >= len(self.sent)

        eventually(answered, "every record is answered", DEADLINE_S, 0.5)
        read_all(self.trainer)
        counted = metrics(self.trainer)
        for daemon in (self.scorer, self.trainer):
            assert daemon.stop() == 0, daemon.said
        scores, ours, theirs = self._scores(), self._letters(self.points), self._letters(self.learned)
        for offset, made in enumerate(self.sent):
            scorer, trainer = ours.get(offset, {}), theirs.get(offset, {})
            labels = {row for row, why in trainer.items() if row not in scorer and why in (NO_LABEL, "unknown_label")}
            told = {row: why for row, why in trainer.items() if row not in labels}
            assert told == scorer, f"offset {offset}: the trainer says {told}, the scorer {scorer}"
            assert scorer or offset in scores, f"offset {offset} is neither scored nor a dead letter"
            if made.mark:
                assert (scores.get(offset), trainer) == ([made.mark], {}), f"the good record {made.mark}"
        scored, refused, bad = (
            sum(map(len, scores.values())),
            sum(map(len, theirs.values())),
            sum(map(len, ours.values())),
        )
        wanted = {"accepted": scored + bad - refused, "rejected": refused}
        found = {word: counted[f'streamsvm_input_rows_total{{outcome="{word}"}}'] for word in wanted}
        assert found == wanted, f"the trainer counts {found}, the topics say {wanted}"

    def _scores(self) -> dict[int, list[object]]:
        """Return the ids that were scored, by the offset of their record."""
        found: dict[int, list[object]] = {}
        for record in self._records(self.scores):
            offset = int(dict(record.headers)["streamsvm.source"].rpartition(b"/")[2])
            assert offset not in found, f"two records of scores for offset {offset}"
            value = json.loads(record.value or b"")
            found[offset] = [one["id"] for one in (value if isinstance(value, list) else [value])]
        return found

    def _letters(self, topic: str) -> dict[int, dict[int, str]]:
        """Return why each row was rejected, by the offset of its record."""
        found: dict[int, dict[int, str]] = {}
        for record in self._records(f"{topic}.dlq"):
            letter = deadletter.decode(record.value, record.headers)
            assert letter.offset not in found, f"two dead letters for offset {letter.offset}"
            assert len(letter.rows) == int(letter.rejected.split()[0]), f"the letter of {letter.offset} lists not all"
            rows = {row.row: NO_LABEL if row.message == NO_LABEL else row.reason for row in letter.rows}
            found[letter.offset] = rows
        return found

    def _records(self, topic: str) -> Iterator[Record]:
        return iter(Cluster(self._stage.connection).read_to_end(topic, 0, timeout_s=DEADLINE_S))
