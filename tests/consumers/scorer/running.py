"""A scorer under test: settings of its own, ways to feed it, and what it wrote."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from consumers.host import Health
from consumers.metrics import SCORER, Metrics
from consumers.page import ScorerBoard
from consumers.scorer import Scorer, ScorerComponents
from consumers.settings import OutputConfig, ScoringConfig, Settings
from streamsvm.ingest import Schemas, encode
from streamsvm.kafka import Cluster, Connection, Message, TopicSpec
from streamsvm.model import Gate, Head
from tests.consumers import trainers
from tests.consumers.trainers import stored
from tests.registry.test_subscriber import NAME
from tests.streams import head_of


class Running(trainers.Running):
    """A scorer in a thread; leaving stops it and raises what it raised."""

    board: ScorerBoard  # type: ignore[assignment]

    def __init__(
        self, settings: Settings, connection: Connection, schemas: Schemas | None = None, reset_scores: str = ""
    ) -> None:
        self.metrics, self.health = Metrics(SCORER), Health(stuck_after_s=60.0)
        stop = threading.Event()
        components = ScorerComponents(
            connection=connection,
            metrics=self.metrics,
            health=self.health,
            stop=stop,
            schemas=schemas,
            reset_scores=reset_scores,
        )
        self.board, self._scorer = components.board, Scorer(settings, components)
        self.begin(self._scorer.run, stop, "scorer")

    @property
    def transactional_id(self) -> str:
        seat = self._scorer._seat
        return seat.slot.transactional_id if seat else ""

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
    dealt = [Message(topic, value, key, (("trace", b"t"),), partition=at % 4) for at, value in enumerate(values)]
    trainers.send(connection, *dealt)


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
