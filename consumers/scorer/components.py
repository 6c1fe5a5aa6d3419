"""What a scorer is made of besides its settings: the world it works in."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.page.board import ScorerBoard
from streamsvm.ingest.schemas import Schemas
from streamsvm.kafka import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerComponents:
    """The parts of a scorer.

    Attributes
    ----------
    connection : Connection
    metrics : Metrics
        Made of `consumers.metrics.SCORER`.
    health : Health
    stop : threading.Event
        When it is set the scorer finishes the batch at hand and returns. With no broker to finish it, the scorer
        returns within seconds, and the next start scores the batch, unless it was committed.
    board : ScorerBoard
        Where the version that serves is left, for people.
    schemas : Schemas or None
        Where Avro's schemas come from; None is the configured registry, if there is one.
    reset_scores : str
        What `--reset-scores` said.
    """

    connection: Connection
    metrics: Metrics
    health: Health
    stop: threading.Event
    board: ScorerBoard = field(default_factory=ScorerBoard)
    schemas: Schemas | None = None
    reset_scores: str = ""
