"""The scorer: unlabeled points in at a topic, scores out at another, by whichever version is current.

Delivery is exactly once for whoever reads committed records only: the scores and dead letters of a batch, and the
group's positions, are one transaction. When one fails, the batch is read again from where the group stands; when nobody
knows whether it failed, the id is taken over, and what the broker may have left open is settled
(`consumers.streams.settling`) before anything else. A batch counts as committed when readers of committed records have
passed it and the group's positions can be read: a commit is answered before its markers are written.

Several scorers share a topic by sharing the group. Each has a slot in it (`streamsvm.kafka.slots`), and by the slot its
membership and its transactional id: whoever comes next in the slot of a scorer that died has its partitions at once,
and settles what it left open. The group's generation keeps one that was replaced from committing. A slot is claimed
once there is a version to score by, and the transactional id is taken once the group has let the slot's member in, so
that a start that waits holds up nobody, and one that claimed a slot together with another fences no producer for it. A
scorer that loses its slot to another claims the next, and reads on from where the group stands; if the slot is
configured, it ends. The embedded broker has no transactions: there a batch's positions are committed after it was
stored, at least once, and copies of a score carry the same `streamsvm.source` header.

Invariants: nothing is consumed before there is a version; each batch is scored by one version, taken once; a batch that
was not committed is never passed over. While the schema registry does not answer, a batch that needs it is not decided.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import structlog

from consumers.host.runtime import Health, schemas_of
from consumers.metrics import Metrics
from consumers.page.board import ScorerBoard
from consumers.scorer.observing import ScorerWatch
from consumers.streams.abandonable import Aside, BoundedCluster
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.registry_outage import SchemaWait
from consumers.streams.settling import TIMEOUTS, PersonNeeded, ScoreSettlement
from consumers.streams.standstill import Standstill
from consumers.streams.topics import refuse_shared
from consumers.streams.unread_fields import UnreadWatch
from streamsvm.config import Settings
from streamsvm.crashpoints import crash_point
from streamsvm.errors import Fenced, StreamsvmError, TransientError
from streamsvm.ingest.avro import Schemas
from streamsvm.ingest.scored import BatchScorer, Scored
from streamsvm.kafka import (
    Backoff,
    Connection,
    Message,
    OutcomeUnknown,
    Progress,
    Publisher,
    Record,
    Slot,
    Slots,
    Standing,
    Standings,
    Subscription,
    TopicSpec,
    create_topics,
    describe_topic,
)
from streamsvm.registry.signing import TrustedKeys
from streamsvm.registry.subscriber import Loaded, ModelSubscriber

log = structlog.get_logger("streamsvm.scorer")

POLL_S: Final = 0.1
RETRY_S: Final = 1.0
PROMPT_S: Final = 2.0
"""A broker that takes longer over a batch than this makes the scorer unready until it answers."""
TRANSACTION_TIMEOUT_S: Final = 10.0
"""How long a batch may take to be stored, and then to be committed; a killed scorer's open transaction holds readers of
the scores back for as long."""
LOST_S: Final = 6 * TRANSACTION_TIMEOUT_S
"""A call to the publisher that takes longer than this does not return: `consumers.streams.abandonable`. A settlement,
which makes several calls and reads in between what may be much, has no limit of its own."""
CLAIM_AGAIN_S: Final = (0.2, 5.0)
"""The first and the longest wait before a slot is claimed again, in seconds, spread widely: several that start at once
take the same slot at once, and all but one of them take another."""
GRACE_S: Final = 3.0
"""How long a stop waits for a broker that does not answer."""
VACANT_SLOTS: Final = 6
"""How many slots without a member are looked into where the group's positions stay in doubt."""
LEAVE_S: Final = 6.0
"""How long a stop waits until the group has let go of this member: a rebalance that is under way comes first."""


class Scorer:
    """The daemon's life from its start to its stop.

    Parameters
    ----------
    settings : Settings
    connection : Connection
    metrics : Metrics
        Made of `consumers.metrics.SCORER`.
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
        self._cluster = BoundedCluster(connection, transaction_timeout_s=TRANSACTION_TIMEOUT_S, lost_s=LOST_S)
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
        self._watch = ScorerWatch(settings, connection, metrics, health, self._board)
        self._refused = 0
        self._group = settings.scoring.group or f"{settings.name}-scorer"
        self._slots = Slots(connection, self._group, fixed=settings.scoring.slot)
        self._slot: Slot | None = None
        self._claims = Backoff(*CLAIM_AGAIN_S, jitter=0.9)
        self._transactional_id = ""
        self._publisher: Publisher | None = None
        self._settlement: ScoreSettlement | None = None
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
            self._await_model()
            while not self._stop.is_set():
                self._turn()
            log.info("stopped")

    # ------------------------------------------------------------------ start

    def _start(self, stack: ExitStack) -> None:
        scoring = self._settings.scoring
        self._check_names()
        if self._schemas is None:
            self._schemas = stack.enter_context(schemas_of(self._settings))
        partitions = describe_topic(self._connection, scoring.topic).partitions
        create_topics(
            self._connection, [TopicSpec(scoring.output_topic, len(partitions)), TopicSpec(scoring.dead_letters, 1)]
        )
        self._dead_letters.fit(
            describe_topic(self._connection, scoring.dead_letters), self._connection.max_message_bytes
        )
        topics = [describe_topic(self._connection, topic) for topic in (scoring.output_topic, scoring.dead_letters)]
        self._places = [(topic.name, number) for topic in topics for number in topic.partitions]
        self._input_partitions = partitions
        self._standstill = Standstill(
            self._cluster.marks, self._places, TIMEOUTS * TRANSACTION_TIMEOUT_S, time.monotonic, self._metrics
        )
        limit = topics[0].config.get("max.message.bytes")
        self._max_message_bytes = min(self._connection.max_message_bytes, int(limit or 1 << 62))
        output = self._settings.output
        self._subscriber = ModelSubscriber(
            self._connection,
            self._settings.name,
            models_topic=output.models_topic,
            trusted=TrustedKeys.of(output.trusted_keys_file, output.trusted_keys),
        )
        stack.enter_context(self._subscriber)
        stack.callback(self._let_go)
        stack.callback(self._leave)

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

    def _await_model(self) -> None:
        """Wait for the first version, without a slot and without consuming, until it comes or the daemon is stopped."""
        said = ""
        self._metrics.put("streamsvm_serving_version", 0)
        while not self._stop.is_set() and self._newest() is None:
            self._health.beat()
            why = self._watch.waiting(self._subscriber)
            self._health.require("model", why)
            self._show_broker()
            if why != said:
                log.info("waiting_for_model", why=why)
                said = why
            self._stop.wait(POLL_S)

    # ------------------------------------------------------------------- slot

    def _join(self) -> None:
        """Claim a slot and begin to join the group in it; tried again while the broker does not say who is there."""
        try:
            slot = self._claimed()
        except TransientError as error:
            if error.what != self._trouble:
                log.warning("slot_waits", what=error.what, remedy=error.remedy)
            self._trouble = error.what
            self._show_broker()
            self._stop.wait(RETRY_S)
            return
        if slot is None:
            return
        self._slot, self._transactional_id, self._trouble = slot, slot.transactional_id, ""
        log.info("slot_claimed", slot=slot.number, group=self._group, transactional_id=slot.transactional_id)
        name, topic = self._settings.name, self._settings.scoring.topic
        self._subscription = Subscription(
            self._connection, topic, group=self._group, slot=slot, client_id=self._slots.client_id
        )
        self._members = _Members(
            self._connection, self._group, topic, self._input_partitions, self._subscription, self._slots
        )
        self._settlement = ScoreSettlement(
            self._cluster,
            slot.transactional_id,
            self._places,
            family=f"{self._group}-",
            transaction_timeout_s=TRANSACTION_TIMEOUT_S,
            monotonic=time.monotonic,
            wait=self._stop.wait,
            input_topic=topic,
            group=self._members,
        )
        delivery = "at least once: no transactions here" if self._connection.embedded else "exactly once"
        log.info("started", name=name, topic=topic, group=self._group, delivery=delivery)

    def _claimed(self) -> Slot | None:
        """Claim a slot, the main loop alive; None if stopped before the broker answered."""
        claim = Aside(self._slots.claim)
        while not claim.finished(POLL_S):
            self._health.beat()
            if self._stop.is_set():
                return None
        return claim.returned

    def _lose_slot(self, slot: Slot, error: Fenced) -> None:
        """Let go of a slot that another member has taken, and have another claimed, unless a person chose this one.

        Raises
        ------
        Fenced
            If the slot is configured.
        """
        self._let_go()
        self._leave()
        if self._settings.scoring.slot is not None:
            raise Fenced(
                f"another scorer has taken slot {slot.number} of group {self._group}, which scoring.slot gives to "
                "this scorer",
                "Give each scorer of the group its own scoring.slot, or set scoring.slot for none of them.",
            ) from error
        log.warning("slot_lost", slot=slot.number, what=error.what, remedy="the scorer claims another slot")
        self._trouble = f"slot {slot.number} of group {self._group} was lost to another scorer"
        self._show_broker()
        self._stop.wait(self._claims.next_s(random.random()))

    # ------------------------------------------------------------------- turn

    def _turn(self) -> None:
        """Score at most one batch; blocks at most about `POLL_S` if there is none."""
        self._health.beat()
        if not self._schema_wait.over:
            self._stop.wait(POLL_S)
            return
        if self._slot is None:
            self._join()
            return
        self._watch.look(self._subscription)
        try:
            records = self._subscription.poll(self._settings.scoring.batch_records, POLL_S)
        except Fenced as error:
            self._lose_slot(self._slot, error)
            return
        self._show_broker(self._subscription)
        self._look_after_readers()
        loaded = self._newest()
        assert loaded is not None
        if self._publisher is None:
            if self._subscription.joined:  # the slot is ours by now, and not only asked for
                self._recover()
        elif records:
            self._claims.reset()
            self._deliver(records, self._publisher)
        else:
            self._trouble = ""  # what was put back may be another's by now, or was committed after all
            self._publisher.poll()

    def _look_after_readers(self) -> None:
        """Settle where readers of the scores are held up: by a scorer that died, or by this one's own past."""
        held_up = "" if self._connection.embedded else self._standstill.turn()
        self._health.require("readers", held_up)
        if held_up and self._publisher is not None:
            log.warning(
                "readers_held_up", what=held_up, remedy="no action needed: the scorer ends the open transaction"
            )
            self._subscription.rewind()
            self._let_go()

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
            max_decoded_bytes=scoring.max_decoded_bytes,
            max_message_bytes=self._max_message_bytes,
            schemas=self._schemas,
        )
        self._serving = loaded
        self._watch.serving(loaded)
        self._board.serving(loaded)
        self._health.require("model", "")
        self._metrics.put("streamsvm_serving_version", loaded.version.number)
        self._metrics.put("streamsvm_serving_loaded_timestamp_seconds", loaded.loaded_at)
        log.info("serving", version=loaded.version.key, points=loaded.version.stream.points, sha256=loaded.sha256)

    def _score(self, records: Sequence[Record]) -> tuple[list[Message], Scored]:
        """Return the scores and dead letters of a batch as messages, and what it came to."""
        scoring = self._settings.scoring
        scored = self._batch_scorer.score(records)
        self._unread.tell(scored.unread)
        messages = [Message(scoring.output_topic, one.value, one.key, one.headers) for one in scored.records]
        messages += self._dead_letters.letters(records, scored.rejected)
        return messages, scored

    def _score_when_known(self, records: Sequence[Record]) -> tuple[list[Message], Scored] | None:
        """Score a batch. While a schema is unavailable return None: the batch is then read again."""
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
        try:
            progress = self._subscription.progress(positions)
            found = self._score_when_known(records)
            if found is None:
                return
            messages, scored = found
            self._watch.check(records, scored.rejected)
            if not self._answered(Aside(lambda: self._hand_over(publisher, messages, progress, positions))):
                return
        except (TransientError, Fenced) as error:
            self._put_back(error)
            return
        crash_point("scores.committed")
        self._trouble = ""
        self._watch.committed(records, scored)
        self._metrics.increase("streamsvm_scored_points", len(scored.values))
        self._metrics.increase("streamsvm_scored_batches", outcome="committed")
        self._metrics.observe("streamsvm_scoring_seconds", time.monotonic() - begun)

    def _hand_over(
        self, publisher: Publisher, messages: Sequence[Message], progress: Progress, positions: Mapping[int, int]
    ) -> None:
        publisher.publish(messages, progress=progress)
        if self._connection.embedded:
            self._subscription.commit(positions)
            return
        crash_point("scores.answered")
        publisher.confirm()
        self._members.confirm(positions)

    def _put_back(self, error: StreamsvmError) -> None:
        """Have the batch read again, and, if the publisher is of no more use or in doubt, take another one first.

        Fenced, it took too long over a transaction, and the broker ended it; or another has taken its slot, which the
        next poll says.
        """
        log.warning(
            "batch_put_back", what=error.what, remedy="the batch is read again from the group's committed positions"
        )
        self._metrics.increase("streamsvm_scored_batches", outcome="put_back")
        self._trouble = error.what
        self._subscription.rewind()
        if isinstance(error, OutcomeUnknown | Fenced):
            self._let_go()
        self._stop.wait(RETRY_S)

    def _recover(self) -> None:
        """Take the id over, and settle what is left open; what the group then has is what was committed."""
        try:
            if self._answered(Aside(self._renew), "the scorer is settling transactions that its slot left open"):
                log.info("publisher_renewed")
                self._trouble = ""
                self._subscription.rewind()
        except (TransientError, Fenced) as error:
            if error.what != self._trouble:
                log.warning("publisher_waits", what=error.what, remedy=error.remedy)
            self._trouble = str(error) if isinstance(error, PersonNeeded) else error.what
            self._stop.wait(RETRY_S)

    def _renew(self) -> None:
        assert self._settlement is not None
        publisher = self._cluster.publisher(self._transactional_id)
        try:
            publisher.start()
            self._settlement.settle(publisher)
        except BaseException:
            publisher.close()
            raise
        self._publisher = publisher

    def _let_go(self) -> None:
        """Let go of the publisher, unless a call of its is still under way: that one ends with the process."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None and not self._unanswered:
            publisher.close()

    def _answered(self, call: Aside[None], slow: str = "the broker does not answer a commit") -> bool:
        """Wait for a call, the main loop alive; False if stopped before it returned."""
        begun, stopped_at = time.monotonic(), None
        while not call.finished(POLL_S):
            self._health.beat()
            if time.monotonic() - begun > PROMPT_S:
                self._health.require("broker", slow)
            if self._stop.is_set():
                stopped_at = time.monotonic() if stopped_at is None else stopped_at
                if time.monotonic() - stopped_at > GRACE_S:
                    log.warning(
                        "batch_not_answered", remedy="if the batch was not committed, it is scored at the next start"
                    )
                    self._unanswered = True
                    return False
        return True

    def _leave(self) -> None:
        """Leave the group, unless the broker is away: then the group finds out by itself."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        self._slots.release(slot)
        if self._unanswered or not Aside(self._subscription.close).finished(LEAVE_S):
            log.warning(
                "group_not_left", remedy="other scorers get this scorer's partitions when its session has expired"
            )

    def _show_broker(self, subscription: Subscription | None = None) -> None:
        missing = self._trouble
        if subscription is not None and self._publisher is None and not missing:
            missing = f"this scorer has not been admitted to group {self._group} yet"
        if not self._subscriber.connected:
            missing = "model versions are not being received: no broker connection is up"
        if subscription is not None and subscription.unplaced:
            missing = f"the broker does not return the positions of group {self._group}: {subscription.unplaced}"
        if subscription is not None and not subscription.connected():
            missing = "no broker connection is up"
        self._health.require("broker", missing)


def positions_after(records: Sequence[Record]) -> dict[int, int]:
    """Return the next offset to read in each partition of a batch."""
    positions: dict[int, int] = {}
    for record in records:
        positions[record.partition] = max(record.offset + 1, positions.get(record.partition, 0))
    return positions


class _Members:
    """How far the group has come, as a settlement asks for it."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        partitions: Sequence[int],
        subscription: Subscription,
        slots: Slots,
    ) -> None:
        self._standings = Standings(connection, group, topic)
        self._partitions = partitions
        self._subscription = subscription
        self._slots = slots

    def standings(self) -> dict[int, Standing]:
        """See `consumers.streams.settling.Group`."""
        return self._standings.of(self._partitions)

    def progress(self, positions: Mapping[int, int]) -> Progress:
        """See `consumers.streams.settling.Group`."""
        return self._subscription.progress(positions)

    def confirm(self, positions: Mapping[int, int]) -> None:
        """See `consumers.streams.settling.Group`."""
        self._standings.confirm(positions, TRANSACTION_TIMEOUT_S)

    def vacant(self) -> list[str]:
        """See `consumers.streams.settling.Group`."""
        return [slot.transactional_id for slot in self._slots.vacant(VACANT_SLOTS)]
