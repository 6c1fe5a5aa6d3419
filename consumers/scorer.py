"""The scorer: unlabeled points in at a topic, scores out at another, by whichever version is current.

Delivery is exactly once for whoever reads committed records only: the scores and dead letters of a batch, and the
group's positions, are one transaction. When one fails, the batch is read again from where the group stands; when nobody
knows whether it failed, the id is taken over first, which settles it. Several scorers share a topic by sharing the
group; each process has a transactional id of its own, and the group's generation keeps one that was replaced from
committing. The embedded broker has no transactions: there a batch's positions are committed after it was stored, at
least once, and copies of a score carry the same `streamsvm.source` header.

Invariants: nothing is consumed before there is a version; each batch is scored by one version, taken once; a batch that
was not committed is never passed over. While the schema registry does not answer, a batch that needs it is not decided.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import structlog

from consumers.deadletters import DeadLetters
from consumers.page.board import ScorerBoard
from consumers.runtime import Health, schemas_of
from consumers.schemas import SchemaWait
from consumers.topics import refuse_shared
from consumers.unread import UnreadWatch
from streamsvm.codec.avro import Schemas
from streamsvm.codec.scores import BatchScorer
from streamsvm.config import Settings
from streamsvm.crashpoints import crash_point
from streamsvm.errors import Fenced, StreamsvmError, TransientError
from streamsvm.kafka import (
    Connection,
    Message,
    OutcomeUnknown,
    Progress,
    Publisher,
    Record,
    Subscription,
    TopicSpec,
    create_topics,
    describe_topic,
)
from streamsvm.metrics import Metrics
from streamsvm.subscriber import Loaded, ModelSubscriber

log = structlog.get_logger("streamsvm.scorer")

POLL_S: Final = 0.1
RETRY_S: Final = 1.0
PROMPT_S: Final = 2.0
"""A broker that takes longer over a batch than this makes the scorer unready until it answers."""
TRANSACTION_TIMEOUT_S: Final = 10.0
"""How long a batch may take to be stored, and then to be committed; a killed scorer's open transaction holds readers of
the scores back for as long."""
LOST_S: Final = 6 * TRANSACTION_TIMEOUT_S
"""A call to the publisher that takes longer than this does not return: librdkafka's `send_offsets_to_transaction` may
pass its own limit of time where the group's coordinator went away meanwhile (confluentinc/librdkafka issue 5456)."""
GRACE_S: Final = 3.0
"""How long a stop waits for a broker that does not answer."""
LEAVE_S: Final = 6.0
"""How long a stop waits until the group has let go of this member: a rebalance that is under way comes first."""


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
        Set it to stop: the scorer finishes the batch at hand and returns. With no broker to finish it, it returns
        within seconds, and whoever comes next scores the batch, unless it was committed.
    board : ScorerBoard, optional
        Where the version that serves is left, for people.
    schemas : Schemas, optional
        Where Avro's schemas come from; the configured registry, if there is one, by default.
    """

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        metrics: Metrics,
        health: Health,
        stop: threading.Event,
        board: ScorerBoard | None = None,
        schemas: Schemas | None = None,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._metrics = metrics
        metrics.begin("streamsvm_scored_batches", "outcome", ("committed", "put_back"))
        self._dead_letters = DeadLetters(settings.name, settings.scoring.topic, settings.scoring.dead_letters, metrics)
        self._unread = UnreadWatch(settings.scoring.topic, metrics)
        self._health = health
        self._stop = stop
        self._board = board or ScorerBoard()
        self._schemas = schemas
        self._schema_wait = SchemaWait(metrics, health, time.monotonic)
        self._serving: Loaded | None = None
        self._refused = 0
        self._group = settings.scoring.group or f"{settings.name}-scorer"
        self._transactional_id = f"{self._group}-{uuid.uuid4().hex}"
        self._publisher: Publisher | None = None
        self._in_doubt: Mapping[int, int] = {}
        self._trouble = ""
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
        if self._schemas is None:
            self._schemas = stack.enter_context(schemas_of(self._settings))
        partitions = len(describe_topic(self._connection, scoring.topic).partitions)
        create_topics(
            self._connection, [TopicSpec(scoring.output_topic, partitions), TopicSpec(scoring.dead_letters, 1)]
        )
        self._dead_letters.fit(
            describe_topic(self._connection, scoring.dead_letters), self._connection.max_message_bytes
        )
        topics = [describe_topic(self._connection, topic) for topic in (scoring.output_topic, scoring.dead_letters)]
        self._sweepings = [
            Message(topic.name, b"", partition=number) for topic in topics for number in topic.partitions
        ]
        limit = topics[0].config.get("max.message.bytes")
        self._max_message_bytes = min(self._connection.max_message_bytes, int(limit or 1 << 62))
        self._subscriber = ModelSubscriber(
            self._connection, self._settings.name, models_topic=self._settings.output.models_topic
        )
        stack.enter_context(self._subscriber)
        self._renew()
        stack.callback(self._let_go)

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
        name, topic = self._settings.name, self._settings.scoring.topic
        self._subscription = Subscription(self._connection, topic, group=self._group)
        stack.callback(self._leave)
        delivery = "at least once: no transactions here" if self._connection.embedded else "exactly once"
        log.info("started", name=name, topic=topic, group=self._group, delivery=delivery)

    # ------------------------------------------------------------------- turn

    def _turn(self) -> None:
        """Score at most one batch; blocks at most about `POLL_S` if there is none."""
        self._health.beat()
        if not self._schema_wait.over:
            self._stop.wait(POLL_S)
            return
        records = self._subscription.poll(self._settings.scoring.batch_records, POLL_S)
        self._show_broker(self._subscription)
        loaded = self._newest()
        assert loaded is not None
        if self._publisher is None:
            self._recover()
        elif records:
            self._deliver(records, self._publisher)
        else:
            self._trouble = ""  # what was put back may be another's by now, or was committed after all
            self._publisher.poll()

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
            schemas=self._schemas,
        )
        self._serving = loaded
        self._board.serving(loaded)
        self._health.require("model", "")
        self._metrics.put("streamsvm_serving_version", loaded.version.number)
        self._metrics.put("streamsvm_serving_loaded_timestamp_seconds", loaded.loaded_at)
        log.info("serving", version=loaded.version.key, points=loaded.version.stream.points, sha256=loaded.sha256)

    def _score(self, records: Sequence[Record]) -> tuple[list[Message], int]:
        """Return the scores and dead letters of a batch, and how many points were scored."""
        scoring = self._settings.scoring
        scored = self._batch_scorer.score(records)
        self._unread.tell(scored.unread)
        messages = [Message(scoring.output_topic, one.value, one.key, one.headers) for one in scored.records]
        messages += self._dead_letters.letters(records, scored.rejected)
        return messages, sum(one.rows for one in scored.records)

    def _score_when_known(self, records: Sequence[Record]) -> tuple[list[Message], int] | None:
        """Score a batch; None, and it is read again, while a schema cannot be had."""
        try:
            scored = self._score(records)
        except TransientError as error:
            self._schema_wait.failed(error)
            self._subscription.rewind()
            return None
        self._schema_wait.end()
        return scored

    # ---------------------------------------------------------------- deliver

    def _deliver(self, records: Sequence[Record], publisher: Publisher) -> None:
        """Score a batch and hand it over; one that fails for now is read again."""
        positions, begun = positions_after(records), time.monotonic()
        self._in_doubt = positions_before(records)
        try:
            progress = self._subscription.progress(positions)
            scored = self._score_when_known(records)
            if scored is None:
                return
            messages, points = scored
            if not self._answered(_Aside(lambda: self._hand_over(publisher, messages, progress, positions))):
                return
        except (TransientError, Fenced) as error:
            self._put_back(error)
            return
        crash_point("scores.committed")
        self._trouble = ""
        self._metrics.increase("streamsvm_scored_points", points)
        self._metrics.increase("streamsvm_scored_batches", outcome="committed")
        self._metrics.observe("streamsvm_scoring_seconds", time.monotonic() - begun)

    def _hand_over(
        self, publisher: Publisher, messages: Sequence[Message], progress: Progress, positions: Mapping[int, int]
    ) -> None:
        publisher.publish(messages, progress=progress)
        if self._connection.embedded:
            self._subscription.commit(positions)

    def _put_back(self, error: StreamsvmError) -> None:
        """Have the batch read again, and, if the publisher is of no more use or in doubt, take another one first.

        Nobody else has this process's id: fenced, it took too long over a transaction, and the broker ended it.
        """
        log.warning("batch_put_back", what=error.what, remedy="it is read again from where the group stands")
        self._metrics.increase("streamsvm_scored_batches", outcome="put_back")
        self._trouble = error.what
        self._subscription.rewind()
        if isinstance(error, OutcomeUnknown | Fenced):
            self._let_go()
        self._stop.wait(RETRY_S)

    def _recover(self) -> None:
        """Take the id over again, which ends whatever is left open; what the group then has is what was committed."""
        try:
            progress = self._subscription.progress(self._in_doubt)
            if self._answered(_Aside(lambda: self._renew(progress))):
                log.info("publisher_renewed")
                self._subscription.rewind()
        except (TransientError, Fenced) as error:
            if error.what != self._trouble:
                log.warning("publisher_waits", what=error.what, remedy=error.remedy)
            self._trouble = error.what
            self._stop.wait(RETRY_S)

    def _renew(self, left_open: Progress | None = None) -> None:
        publisher = Publisher(self._connection, self._transactional_id, transaction_timeout_s=TRANSACTION_TIMEOUT_S)
        try:
            publisher.start()
            if left_open is not None:
                publisher.sweep(self._sweepings, left_open)
        except BaseException:
            publisher.close()
            raise
        self._publisher = publisher

    def _let_go(self) -> None:
        """Let go of the publisher, unless a call of its is still under way: that one ends with the process."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None and not self._unanswered:
            publisher.close()

    def _answered(self, call: _Aside) -> bool:
        """Wait for a call, the main loop alive; False if stopped before it returned.

        Raises
        ------
        OutcomeUnknown
            If it does not return. The publisher stays with the call, which can do no harm any more once another one
            has taken the id.
        """
        begun, stopped_at = time.monotonic(), None
        while not call.finished(POLL_S):
            self._health.beat()
            if time.monotonic() - begun > LOST_S:
                self._publisher = None
                raise OutcomeUnknown(
                    f"the client library did not return within {LOST_S:g} s", "A new publisher takes its place."
                )
            if time.monotonic() - begun > PROMPT_S:
                self._health.require("broker", "the broker does not answer a commit")
            if self._stop.is_set():
                stopped_at = time.monotonic() if stopped_at is None else stopped_at
                if time.monotonic() - stopped_at > GRACE_S:
                    log.warning("batch_not_answered", remedy="unless it was committed, it is scored at the next start")
                    self._unanswered = True
                    return False
        return True

    def _leave(self) -> None:
        """Leave the group, unless the broker is away: then the group finds out by itself."""
        if self._unanswered or not _Aside(self._subscription.close).finished(LEAVE_S):
            log.warning("group_not_left", remedy="its partitions go to other scorers when the session has run out")

    def _show_broker(self, subscription: Subscription | None = None) -> None:
        missing = self._trouble
        if not self._subscriber.connected:
            missing = "the model is not being followed: no broker connection is up"
        if subscription is not None and subscription.unplaced:
            missing = f"the broker does not say where group {self._group} stands: {subscription.unplaced}"
        if subscription is not None and not subscription.connected():
            missing = "no broker connection is up"
        self._health.require("broker", missing)


def positions_after(records: Sequence[Record]) -> dict[int, int]:
    """Return the next offset to read in each partition of a batch."""
    positions: dict[int, int] = {}
    for record in records:
        positions[record.partition] = max(record.offset + 1, positions.get(record.partition, 0))
    return positions


def positions_before(records: Sequence[Record]) -> dict[int, int]:
    """Return the first offset of a batch in each of its partitions."""
    positions: dict[int, int] = {}
    for record in records:
        positions[record.partition] = min(record.offset, positions.get(record.partition, record.offset))
    return positions


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
