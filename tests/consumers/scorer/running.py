"""A scorer under test: settings of its own, ways to feed it, and what it wrote."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from contextlib import closing
from types import TracebackType
from typing import Any

from consumers.host import Health
from consumers.metrics import SCORER, Metrics
from consumers.page import ScorerBoard
from consumers.scorer import Scorer, ScorerComponents
from consumers.settings import OutputConfig, ScoringConfig, Settings
from streamsvm.ingest import Schemas, encode
from streamsvm.kafka import (
    Cluster,
    Connection,
    Message,
    Outbox,
    Record,
    TopicSpec,
)
from streamsvm.model import Gate, Head
from tests.registry.test_subscriber import DEADLINE_S, NAME
from tests.streams import head_of


class Running:
    """A scorer in a thread; leaving stops it and raises what it raised."""

    def __init__(self, settings: Settings, connection: Connection, schemas: Schemas | None = None) -> None:
        self.metrics, self.health, self._stop = Metrics(SCORER), Health(stuck_after_s=60.0), threading.Event()
        self.failure: BaseException | None = None
        self._components = ScorerComponents(
            connection=connection, metrics=self.metrics, health=self.health, stop=self._stop, schemas=schemas
        )
        self._scorer = Scorer(settings, self._components)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._scorer.run()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure = error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the scorer did not stop"
        if self.failure is not None:
            raise self.failure from error

    def ended(self) -> bool:
        return not self._thread.is_alive()

    @property
    def board(self) -> ScorerBoard:
        return self._components.board

    @property
    def transactional_id(self) -> str:
        seat = self._scorer._seat
        return seat.slot.transactional_id if seat else ""

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def waiting_for(self) -> dict[str, str]:
        waiting = self.health.ready()[1]["waiting_for"]
        assert isinstance(waiting, dict)
        return waiting


def settings_for(connection: Connection, partitions: int = 4) -> Settings:
    """Return settings whose topics no other test uses; input and models exist, the others do not yet."""
    unique = uuid.uuid4().hex[:12]
    points, models = f"points-{unique}", f"models-{unique}"
    Cluster(connection).create([TopicSpec(points, partitions), TopicSpec(models), TopicSpec(f"{models}.aliases")])
    return Settings(
        name=NAME,
        kafka={"bootstrap.servers": "unused:1"},
        output=OutputConfig(models_topic=models),
        scoring=ScoringConfig(topic=points, output_topic=f"scores-{unique}", group=f"g-{unique}"),
    )


def produce(connection: Connection, topic: str, values: Sequence[bytes | None], key: bytes | None = None) -> None:
    """Store records, dealt over four partitions."""
    with closing(Outbox(connection)) as outbox:
        for index, value in enumerate(values):
            outbox.send(Message(topic, value, key, (("trace", b"t"),), partition=index % 4))
        outbox.flush(DEADLINE_S)


def stored(connection: Connection, topic: str) -> list[Record]:
    partitions = Cluster(connection).describe(topic).partitions
    return [record for p in partitions for record in Cluster(connection).read_to_end(topic, p, timeout_s=DEADLINE_S)]


def scores(connection: Connection, settings: Settings) -> list[dict[str, Any]]:
    found = [json.loads(record.value or b"") for record in stored(connection, settings.scoring.output_topic)]
    return [score for one in found for score in (one if isinstance(one, list) else [one])]


def points(numbers: Sequence[int], dimension: int = 2) -> list[bytes | None]:
    return [encode([float(number)] * dimension, id=number) for number in numbers]


def held_back(why: str) -> Head:
    """Return the head of a first version that the gate did not let become current."""
    gate = Gate(
        outcome="refused",
        why=why,
        scored_on="",
        points=0,
        candidate=None,
        present=None,
        against=None,
        margin=0.1,
        window=(),
        recent=(),
    )
    return head_of(1, gate=gate)
