"""The scorer: unlabeled points in at a topic, scores out at another, by whichever version is current.

Delivery is at least once: scores and dead letters of a batch are stored by the broker before the batch's positions are
committed to the group, so a crash in between scores a batch again. Copies of a score carry the same `streamsvm.source`
header. Several scorers share a topic by sharing the group.

Invariants: nothing is consumed before there is a version; each batch is scored by one version, taken once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import structlog

from consumers.deadletters import DeadLetters
from consumers.runtime import Health
from consumers.topics import refuse_shared
from streamsvm.codec.scores import BatchScorer
from streamsvm.config import Settings
from streamsvm.errors import TransientError
from streamsvm.kafka import Connection, Message, Outbox, Record, Subscription, TopicSpec, create_topics, describe_topic
from streamsvm.metrics import Metrics
from streamsvm.subscriber import Loaded, ModelSubscriber

log = structlog.get_logger("streamsvm.scorer")

POLL_S: Final = 0.1
FLUSH_SLICE_S: Final = 1.0
RETRY_S: Final = 1.0
GRACE_S: Final = 3.0
"""How long a stop waits for a broker that does not answer."""


class Scorer:
    """The daemon's life from its start to its stop.

    Parameters
    ----------
    settings : Settings
    connection : Connection
    metrics : Metrics
        Made of `streamsvm.metrics.SCORER`.
    health : Health
    stop : threading.Event
        Set it to stop: the scorer finishes the batch at hand, commits it, and returns. With no broker to finish it, it
        returns at once, and the batch is scored again by whoever comes next.
    """

    def __init__(
        self, settings: Settings, connection: Connection, metrics: Metrics, health: Health, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._metrics = metrics
        self._dead_letters = DeadLetters(settings.scoring.topic, settings.scoring.dead_letters, metrics)
        self._health = health
        self._stop = stop
        self._serving: Loaded | None = None
        self._refused = 0
        self._unanswered = False

    def run(self) -> None:
        """Start, wait for a version, score until stopped, stop.

        Raises
        ------
        TopicMissing
            If the input, the models topic or its aliases do not exist.
        StreamsvmError
            If it cannot start for another reason, or cannot go on; what was not committed is scored again.
        """
        with ExitStack() as stack, self._health.failing():  # red before anything is closed
            for condition in ("model", "broker"):
                self._health.require(condition, "starting")
            self._start(stack)
            if self._await_model():
                self._subscribe(stack)
            while not self._stop.is_set():
                self._turn()
            log.info("stopped")

    # ------------------------------------------------------------------ start

    def _start(self, stack: ExitStack) -> None:
        scoring = self._settings.scoring
        self._check_names()
        partitions = len(describe_topic(self._connection, scoring.topic).partitions)
        create_topics(
            self._connection, [TopicSpec(scoring.output_topic, partitions), TopicSpec(scoring.dead_letters, 1)]
        )
        self._dead_letters.fit(
            describe_topic(self._connection, scoring.dead_letters), self._connection.max_message_bytes
        )
        limit = describe_topic(self._connection, scoring.output_topic).config.get("max.message.bytes")
        self._max_message_bytes = min(self._connection.max_message_bytes, int(limit or 1 << 62))
        self._subscriber = ModelSubscriber(
            self._connection, self._settings.name, models_topic=self._settings.output.models_topic
        )
        stack.enter_context(self._subscriber)
        self._outbox = Outbox(self._connection)
        stack.callback(lambda: self._outbox.close())

    def _check_names(self) -> None:
        scoring, output = self._settings.scoring, self._settings.output
        refuse_shared(
            {
                "scoring.topic": scoring.topic,
                "the scores": scoring.output_topic,
                "the dead letters": scoring.dead_letters,
                "output.models_topic": output.models_topic,
                "the aliases": output.aliases_topic,
                "the audit trail": output.audit_topic,
            }
        )

    def _await_model(self) -> bool:
        """Wait for the first version without consuming; False if stopped before."""
        said = ""
        self._metrics.put("streamsvm_serving_version", 0)
        while not self._stop.is_set():
            self._health.beat()
            if self._newest() is not None:
                return True
            why = self._subscriber.missing
            self._health.require("model", why)
            self._show_broker()
            if why != said:
                log.info("waiting_for_model", why=why)
                said = why
            self._stop.wait(POLL_S)
        return False

    def _subscribe(self, stack: ExitStack) -> None:
        settings = self._settings
        group = settings.scoring.group or f"{settings.name}-scorer"
        self._subscription = Subscription(self._connection, settings.scoring.topic, group=group)
        stack.callback(self._leave)
        log.info("started", name=settings.name, topic=settings.scoring.topic, group=group)

    # ------------------------------------------------------------------- turn

    def _turn(self) -> None:
        """Score at most one batch; blocks at most about `POLL_S` if there is none."""
        self._health.beat()
        records = self._subscription.poll(self._settings.scoring.batch_records, POLL_S)
        self._show_broker(self._subscription)
        loaded = self._newest()
        assert loaded is not None
        if not records:
            self._outbox.poll()
            return
        if self._deliver(self._score(records)):
            self._commit(records)

    def _newest(self) -> Loaded | None:
        """Return the version that serves now, and prepare for it if it is a new one."""
        loaded = self._subscriber.loaded
        refused = self._subscriber.refused
        self._metrics.increase("streamsvm_model_messages_refused", refused - self._refused)
        self._refused = refused
        if loaded is not None and loaded is not self._serving:
            self._serve(loaded)
        return loaded

    def _serve(self, loaded: Loaded) -> None:
        scoring = self._settings.scoring
        self._batch_scorer = BatchScorer(
            loaded.version,
            loaded.sha256,
            max_record_bytes=scoring.max_record_bytes,
            max_rows_per_record=scoring.max_rows_per_record,
            max_message_bytes=self._max_message_bytes,
        )
        self._serving = loaded
        self._health.require("model", "")
        self._metrics.put("streamsvm_serving_version", loaded.version.number)
        self._metrics.put("streamsvm_serving_loaded_timestamp_seconds", loaded.loaded_at)
        log.info("serving", version=loaded.version.key, points=loaded.version.stream.points, sha256=loaded.sha256)

    def _score(self, records: Sequence[Record]) -> list[Message]:
        """Return the scores and dead letters of a batch."""
        scoring = self._settings.scoring
        scored = self._batch_scorer.score(records)
        messages = [Message(scoring.output_topic, one.value, one.key, one.headers) for one in scored.records]
        self._metrics.increase("streamsvm_scored_points", sum(one.rows for one in scored.records))
        return messages + self._dead_letters.letters(records, scored.rejected)

    # ---------------------------------------------------------------- deliver

    def _deliver(self, messages: Sequence[Message]) -> bool:
        """Send until the broker has stored every message; False if stopped before.

        An outage only delays: an outbox that failed is replaced, and the batch sent again whole.
        """
        sent = False
        while True:
            begun = time.monotonic()
            try:
                if not sent:
                    for message in messages:
                        self._outbox.send(message)
                    sent = True
                self._outbox.flush(FLUSH_SLICE_S)
            except TransientError as error:
                if self._stop.is_set():
                    log.warning("batch_not_delivered", what=str(error), remedy="it is scored again at the next start")
                    return False
                self._health.require("broker", str(error))
                if time.monotonic() - begun < FLUSH_SLICE_S:
                    self._renew_outbox(error)
                    sent = False
            else:
                return True
            self._health.beat()

    def _renew_outbox(self, error: TransientError) -> None:
        log.warning("delivery_failed", what=str(error), remedy="sending the batch again")
        self._outbox.close()
        self._outbox = Outbox(self._connection)
        self._stop.wait(RETRY_S)

    def _commit(self, records: Sequence[Record]) -> None:
        """Commit a delivered batch; a failure that may pass only means that it may be scored again."""
        positions: dict[int, int] = {}
        for record in records:
            positions[record.partition] = max(record.offset + 1, positions.get(record.partition, 0))
        try:
            self._unanswered = not self._answered(_Aside(lambda: self._subscription.commit(positions)))
        except TransientError as error:
            log.warning("commit_failed", what=error.what, remedy="these points may be scored again")

    def _answered(self, call: _Aside) -> bool:
        """Wait for a call as long as it takes, the main loop alive; False if stopped before it returned."""
        stopped_at: float | None = None
        while not call.finished(POLL_S):
            self._health.beat()
            self._health.require("broker", "the broker does not answer a commit")
            if self._stop.is_set():
                stopped_at = time.monotonic() if stopped_at is None else stopped_at
                if time.monotonic() - stopped_at > GRACE_S:
                    log.warning("batch_not_committed", remedy="it is scored again at the next start")
                    return False
        return True

    def _leave(self) -> None:
        """Leave the group, unless the broker is away: then the group finds out by itself."""
        if self._unanswered or not _Aside(self._subscription.close).finished(GRACE_S):
            log.warning("group_not_left", remedy="its partitions go to other scorers when the session has run out")

    def _show_broker(self, subscription: Subscription | None = None) -> None:
        missing = "" if self._subscriber.connected else "the model is not being followed: no broker connection is up"
        if subscription is not None and not subscription.connected():
            missing = "no broker connection is up"
        self._health.require("broker", missing)


class _Aside:
    """One call in a daemon thread, because it may block for as long as the broker is away."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="aside", daemon=True)
        self._thread.start()

    def finished(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` and tell whether the call returned; what it raised is raised here."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - raised where the call is waited for
            self._failure = error
