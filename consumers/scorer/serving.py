"""The version that serves: the newest one that the subscriber has loaded, and the scores of a batch by it.

The scorer's loop calls `follow` before each batch and `score` with it, both in the main thread. Between them no other
version can come in, so that a batch is scored by one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from consumers import constants
from consumers.scorer.companion import Companion
from consumers.scorer.components import ScorerComponents
from consumers.scorer.observing import ScorerWatch
from consumers.settings import ScoringConfig
from consumers.streams.absent_fields import AbsentWatch
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.unread_watch import UnreadWatch
from streamsvm.config import PointsFormat
from streamsvm.ingest.schemas import Schemas
from streamsvm.ingest.scored import BatchScorer, ExtraFields, Scored
from streamsvm.kafka import Message, Record
from streamsvm.registry.loading import Loaded
from streamsvm.registry.subscriber import ModelSubscriber

log = structlog.get_logger("streamsvm.scorer")


class Serving:
    """Follows the newest version, and scores batches by it.

    Parameters
    ----------
    scoring : ScoringConfig
    format_ : PointsFormat
        Format of the records, as `points.format` says.
    components : ScorerComponents
    watch : ScorerWatch
    subscriber : ModelSubscriber
    companion : Companion
    dead_letters : DeadLetters
    schemas : Schemas or None
    max_message_bytes : int
        Largest record that both the client and the topic of scores take.
    """

    def __init__(
        self,
        scoring: ScoringConfig,
        format_: PointsFormat,
        components: ScorerComponents,
        watch: ScorerWatch,
        subscriber: ModelSubscriber,
        *,
        companion: Companion,
        dead_letters: DeadLetters,
        schemas: Schemas | None,
        max_message_bytes: int,
    ) -> None:
        self._scoring = scoring
        self._format = format_
        self._components = components
        self._watch = watch
        self._subscriber = subscriber
        self._companion = companion
        self._beside: ExtraFields | None = None
        self._dead_letters = dead_letters
        self._schemas = schemas
        self._max_message_bytes = max_message_bytes
        self._unread = UnreadWatch(scoring.topic, components.metrics)
        self._absent = AbsentWatch(scoring.topic, components.metrics, lambda: datetime.now(UTC))
        self._by: tuple[Loaded, BatchScorer] | None = None
        self._refused = 0

    def follow(self) -> bool:
        """Use the newest version from now on; return whether there is one."""
        loaded, refused = self._subscriber.loaded, self._subscriber.refused
        self._components.metrics.increase("streamsvm_model_messages_refused", refused - self._refused)
        self._refused = refused
        if loaded is None:
            return self._by is not None
        new, beside = self._by is None or loaded is not self._by[0], self._companion.beside(loaded)
        if new or beside is not self._beside:
            self._beside = beside
            self._by = loaded, self._scorer(loaded, beside)
        if new:
            self._serve(loaded)
        return True

    def _scorer(self, loaded: Loaded, beside: ExtraFields | None) -> BatchScorer:
        scoring = self._scoring
        return BatchScorer(
            loaded.version,
            loaded.sha256,
            max_record_bytes=constants.SCORED_RECORD_BYTES,
            max_message_bytes=self._max_message_bytes,
            schemas=self._schemas,
            passed=scoring.pass_fields,
            format_=self._format,
            recipe=loaded.version.recipe,
            reasons=scoring.reasons,
            copied=scoring.copy_headers,
            beside=beside,
        )

    def _serve(self, loaded: Loaded) -> None:
        metrics = self._components.metrics
        self._watch.serving(loaded)
        self._components.board.serving(loaded)
        self._components.health.require("model", "")
        metrics.put("streamsvm_serving_version", loaded.version.number)
        metrics.put("streamsvm_serving_loaded_timestamp_seconds", loaded.loaded_at)
        log.info("serving", version=loaded.version.key, points=loaded.version.stream.points, sha256=loaded.sha256)

    def score(self, records: Sequence[Record]) -> tuple[list[Message], Scored]:
        """Return the scores and dead letters of a batch as messages, and what it came to.

        Raises
        ------
        TransientError
            If a schema is unavailable for now.
        """
        assert self._by is not None, "nothing is read before there is a version"
        scored = self._by[1].score(records)
        self._unread.note(scored.unread)
        self._absent.note(scored.absences)
        messages = [Message(self._scoring.output_topic, one.value, one.key, one.headers) for one in scored.records]
        messages += self._dead_letters.letters(records, scored.rejected)
        return messages, scored
