"""The scorer: unlabeled points in at a topic, scores out at another, by the version that is current.

`streamsvm score` makes a `Scorer` and calls `run`. `consumers.scorer.life` opens everything that a start needs, or
nothing; the loop is here. One turn of the loop (`_turn`) reads at most one batch, scores it by the version that is in
use at that moment (`consumers.scorer.serving`), and hands it over in one transaction (`_deliver`, `_hand_over`).

Exactly once
------------
Readers of committed records get each score exactly once, because the scores and dead letters of a batch, and how far
the input is scored with them, are one transaction (`consumers.streams.scored_progress`). If it fails, the batch is read
again from where the input was scored. If nobody knows whether it failed, the publisher is given up: the next one takes
the transactional id over, and settles what the broker may have left open (`consumers.streams.settling`), before
anything else is read. A batch counts as committed when readers of committed records have passed it, because a broker
answers a commit before it writes the markers.

The embedded broker has no transactions. There a batch may be stored and its progress not: at least once, and copies of
a score carry the same `streamsvm.source` header.

Several scorers of one topic
----------------------------
They share a group, which says whose partitions are whose, and each has a slot of it (`streamsvm.kafka.group_slots`).
The slot determines the scorer's membership and its transactional id (`consumers.scorer.seat`). A scorer that takes the
slot of one that died therefore gets its partitions at once, and settles what it left open. The group's generation keeps
a scorer that was replaced from committing.

Order matters at a start. A slot is claimed once there is a version to score by: a scorer that still waits for one keeps
no slot from others. The transactional id is taken once the group has admitted the slot's member: of two that claimed
the same slot, the one that is turned away has then fenced no producer. A scorer that loses its slot claims the next
one, and reads on from where the input was scored. If the slot is configured, it ends instead.

Invariants
----------
- Nothing is consumed before there is a version.
- Each batch is scored by one version, which is taken once.
- A batch that was not committed is never passed over.
- Just before a batch is committed, the broker is asked whether the input is still the topic that was read. Positions of
  another topic with the same name are not committed.
- While the schema registry does not answer, nothing is decided about a batch that needs it.

To read next: `consumers.scorer.life`, `consumers.scorer.seat`, `streamsvm.kafka.membership`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from consumers import constants
from consumers.host.runtime import STARTING
from consumers.scorer.components import ScorerComponents
from consumers.scorer.life import ScorerLife, begin, group_of
from consumers.scorer.observing import ScorerWatch
from consumers.scorer.placing import FROM_THE_BEGINNING
from consumers.scorer.seat import Seat, take_seat
from consumers.settings import Settings
from consumers.streams.abandonable import Aside, Stopped, heeding
from consumers.streams.registry_outage import SchemaWait
from consumers.streams.settling import PersonNeeded
from streamsvm.crashpoints import crash_point
from streamsvm.errors import Fenced, LogGap, StreamsvmError, TransientError
from streamsvm.ingest.scored import Scored
from streamsvm.kafka import (
    Backoff,
    Batch,
    Cluster,
    MemberProgress,
    Message,
    OutcomeUnknown,
    Publisher,
    Record,
    Recreated,
    Slot,
)

log = structlog.get_logger("streamsvm.scorer")

POLL_S: Final = 0.1
RETRY_S: Final = 1.0
PROMPT_S: Final = 2.0
"""A broker that takes longer over a batch than this makes the scorer unready until it answers."""
CLAIM_AGAIN_S: Final = (0.2, 5.0)
"""The first and the longest wait before a slot is claimed again, in seconds, spread widely: several that start at once
take the same slot at once, and all but one of them take another."""
CONFIRM_EVERY_S: Final = 0.05
"""Least time between two checks of the input's id, in seconds: at the rates of most topics each batch is checked, and
checks never take more than 1 % of a processor. For a batch of a new topic to be committed unchecked, the topic would
have to be deleted, created, filled and fetched again within that time. The next check then finds it, and the new topic
is scored from its first record."""
APART_S: Final = 0.05
"""Least time between the beginnings of two small transactions, in seconds. At a low rate each record would have one of
its own, which takes several milliseconds of a processor; what comes meanwhile is gathered."""
SMALL_ROWS: Final = 200
"""A transaction of more is worth its price: the next one begins as soon as there is anything."""
COMPARE_EVERY_S: Final = 1.0
"""The same where the broker reports no ids: there each check reads two records of every partition."""
PORTION_ROWS: Final = 16_384
"""About how many rows are scored in one transaction, estimated from the portion before. A decoded row, its score and
its message take up to a kilobyte of memory, however small the record is."""
PORTION_BYTES: Final = 4 << 20
"""Most bytes of values in one transaction, unless one record has more."""
FIRST_ROW_BYTES: Final = 64.0
"""Estimated bytes of a row before the first portion was scored: those of a row in an array."""
GRACE_S: Final = 3.0
"""How long a stop waits for a broker that does not answer."""
LEAVE_S: Final = 6.0
"""How long a stop waits until this member has left the group: a rebalance that is under way comes first."""


class Scorer:
    """The daemon's life from its start to its stop.

    Parameters
    ----------
    settings : Settings
    components : ScorerComponents
    """

    def __init__(self, settings: Settings, components: ScorerComponents) -> None:
        self._settings = settings
        self._components = components
        self._health = components.health
        self._stop = components.stop
        components.metrics.begin("streamsvm_scored_batches", "outcome", ("committed", "put_back"))
        self._schema_wait = SchemaWait(components.metrics, components.health, time.monotonic)
        self._watch = ScorerWatch(
            settings, Cluster(components.connection), components.metrics, components.health, components.board
        )
        self._claims = Backoff(*CLAIM_AGAIN_S, jitter=0.9)
        self._seat: Seat | None = None
        self._trouble = ""
        self._row_bytes = FIRST_ROW_BYTES
        self._unanswered = False
        self._confirmed_at = self._not_before = -math.inf

    def run(self) -> None:
        """Start, wait for a version, score until stopped, stop.

        Raises
        ------
        StreamsvmError
            If it cannot start for another reason, or cannot go on; what was not committed is scored again.
        """
        with ExitStack() as stack, self._health.failing():  # red before anything is closed
            for condition in ("model", "broker"):
                self._health.require(condition, STARTING)
            try:
                life = begin(self._settings, self._components, self._watch, stack)
            except Stopped:
                log.info("stopped", remedy="the scorer stopped before it had a slot; nothing was written")
                return
            self._watch.started()
            stack.callback(self._give_up_seat, life)
            self._await_model(life)
            while not self._stop.is_set():
                self._turn(life)
            log.info("stopped")

    def _await_model(self, life: ScorerLife) -> None:
        """Wait for the first version, without a slot and without consuming, until it comes or the daemon is stopped."""
        said = ""
        self._components.metrics.put("streamsvm_serving_version", 0)
        while not self._stop.is_set() and not life.serving.follow():
            self._health.beat()
            why = self._watch.waiting(life.subscriber)
            self._health.require("model", why)
            self._show_broker(life)
            life.topics_watch.turn(time.monotonic())
            if why != said:
                log.info("waiting_for_model", why=why)
                said = why
            self._stop.wait(POLL_S)

    # ------------------------------------------------------------------- slot

    def _join(self, life: ScorerLife) -> None:
        """Claim a slot and begin to join the group in it; tried again while the broker does not list the members."""
        try:
            slot = self._claimed(life)
        except TransientError as error:
            if error.what != self._trouble:
                log.warning("slot_waits", what=error.what, remedy=error.remedy)
            self._trouble = error.what
            self._show_broker(life)
            self._stop.wait(RETRY_S)
            return
        if slot is None:
            return
        group = group_of(self._settings)
        log.info("slot_claimed", slot=slot.number, group=group, transactional_id=slot.transactional_id)
        self._seat, self._trouble = take_seat(slot, life, self._settings, self._stop), ""
        delivery = "at least once: no transactions here" if life.cluster.embedded else "exactly once"
        log.info(
            "started", name=self._settings.name, topic=self._settings.scoring.topic, group=group, delivery=delivery
        )

    def _claimed(self, life: ScorerLife) -> Slot | None:
        """Claim a slot while the main loop reports that it is alive; None if stopped before the broker answered."""
        with suppress(Stopped):
            return heeding(self._stop, self._health.beat, life.slots.claim)
        return None

    def _lose_seat(self, seat: Seat, life: ScorerLife, error: Fenced) -> None:
        """Give up a slot that another member has taken; the loop then claims another."""
        number, group = seat.slot.number, group_of(self._settings)
        self._let_go(seat)
        self._leave(seat, life)
        log.warning("slot_lost", slot=number, what=error.what, remedy="the scorer claims another slot")
        self._trouble = f"slot {number} of group {group} was lost to another scorer"
        self._show_broker(life)
        self._stop.wait(self._claims.next_s(random.random()))

    def _give_up_seat(self, life: ScorerLife) -> None:
        """Leave the group, and only then close the publisher."""
        if (seat := self._seat) is not None:
            try:
                self._leave(seat, life)
            finally:
                self._let_go(seat)

    # ------------------------------------------------------------------- turn

    def _turn(self, life: ScorerLife) -> None:
        """Score at most one batch; blocks at most about `POLL_S` if there is none."""
        self._health.beat()
        if not self._schema_wait.over:
            self._stop.wait(POLL_S)
            return
        seat = self._seat
        if seat is None:
            self._join(life)
            return
        self._watch.look(seat.subscription)
        self._stop.wait(max(self._not_before - time.monotonic(), 0.0))
        try:
            records = seat.subscription.poll(constants.SCORED_AT_ONCE, POLL_S)
        except Fenced as error:
            self._lose_seat(seat, life, error)
            return
        except Recreated as gap:
            self._pass(gap, seat, life)
            return
        self._show_broker(life, seat)
        life.topics_watch.turn(time.monotonic())
        if not life.cluster.embedded:
            topic = self._settings.scoring.topic
            life.input_watch.turn(lambda: [(topic, partition) for partition in seat.subscription.assigned])
        self._look_after_readers(life, seat)
        life.serving.follow()
        if seat.publisher is None:
            # Only once the group has admitted this member. Until then another scorer may have the slot, and taking the
            # transactional id would fence it.
            if seat.subscription.joined:
                self._recover(seat, life)
        elif records:
            self._claims.reset()
            try:
                for part in portions(records, min(PORTION_BYTES, int(PORTION_ROWS * self._row_bytes))):
                    if self._stop.is_set() or not self._deliver(part, seat, seat.publisher, life):
                        break
                    self._health.beat()
            except Recreated as gap:
                self._pass(gap, seat, life)
        else:
            # Nothing to read, so nothing is in trouble: a batch that was put back belongs to another member by now, or
            # was committed after all.
            self._trouble = ""
            seat.publisher.poll()

    def _look_after_readers(self, life: ScorerLife, seat: Seat) -> None:
        """Settle where readers of the scores are blocked: by a scorer that died, or by this one's own past."""
        blocked = "" if life.cluster.embedded else life.standstill.turn()
        self._health.require("readers", blocked)
        if blocked and seat.publisher is not None:
            log.warning(
                "readers_held_up", what=blocked, remedy="no action needed: the scorer ends the open transaction"
            )
            seat.subscription.rewind()
            self._let_go(seat)

    def _pass(self, gap: Recreated, seat: Seat, life: ScorerLife) -> None:
        """Read on in the topic that has the name now, if `scoring.on_gap` is `beginning`.

        Raises
        ------
        LogGap
            Otherwise, with what a person can do.
        """
        if self._settings.scoring.on_gap == "fail":
            raise LogGap(gap.what, FROM_THE_BEGINNING) from gap
        log.warning(
            "reading_from_the_beginning",
            why=gap.what,
            remedy="no action needed: scoring.on_gap = beginning asks for this",
        )
        if gap.topic_id:
            life.identity.topic_id = gap.topic_id
            seat.subscription.follow(gap.topic_id)
        else:
            life.identity.forget()
            seat.subscription.begin_again()

    # ---------------------------------------------------------------- deliver

    def _deliver(self, records: Sequence[Record], seat: Seat, publisher: Publisher, life: ScorerLife) -> bool:
        """Score a batch and commit it; return False if it failed for now: it is read again, and what follows it."""
        newest, begun = newest_of(records), time.monotonic()
        positions = {partition: record.offset + 1 for partition, record in newest.items()}
        metrics = self._components.metrics
        try:
            progress = seat.subscription.progress(positions)
            found = self._score_when_known(records, seat, life)
            if found is None:
                return False
            messages, scored = found
            done = life.placing.scored(newest, round(1000 * time.time()))
            messages += life.progress.messages(seat.slot.transactional_id, done)
            self._row_bytes = max(1.0, float(_sizes(records).sum()) / max(1, len(scored.values)))
            self._watch.check(records, scored.rejected)
            if self._watch.waits(scored):
                return True
            # The first valid row was seen, so the configuration is right. The records that were rejected before,
            # without letters, are read again and get their letters now.
            if self._watch.wait_is_over():
                seat.subscription.rewind()
                return False
            if not self._answered(Aside(lambda: self._hand_over(seat, publisher, messages, progress, positions, life))):
                return False
        except (TransientError, Fenced) as error:
            self._put_back(seat, error)
            return False
        crash_point("scores.committed")
        self._trouble = ""
        self._not_before = begun + (APART_S if len(scored.values) < SMALL_ROWS else 0.0)
        self._watch.committed(records, scored)
        metrics.increase("streamsvm_scored_points", len(scored.values))
        metrics.increase("streamsvm_scored_batches", outcome="committed")
        metrics.observe("streamsvm_scoring_seconds", time.monotonic() - begun)
        return True

    def _score_when_known(
        self, records: Sequence[Record], seat: Seat, life: ScorerLife
    ) -> tuple[list[Message], Scored] | None:
        """Score a batch. While a schema is unavailable return None: the batch is then read again."""
        try:
            scored = life.serving.score(records)
        except TransientError as error:
            self._schema_wait.failed(error)
            seat.subscription.rewind()
            return None
        self._schema_wait.end()
        return scored

    def _hand_over(
        self,
        seat: Seat,
        publisher: Publisher,
        messages: Sequence[Message],
        progress: MemberProgress,
        positions: Mapping[int, int],
        life: ScorerLife,
    ) -> None:
        # Only now, after the newest record of the batch was fetched: an id that was read earlier would prove nothing
        # about records that were fetched later.
        now = time.monotonic()
        if now - self._confirmed_at >= (CONFIRM_EVERY_S if life.identity.topic_id else COMPARE_EVERY_S):
            life.identity.confirm(positions)
            self._confirmed_at = now
        publisher.publish(messages, progress=progress)
        if self._components.connection.embedded:
            seat.subscription.commit(positions)
            return
        crash_point("scores.answered")
        publisher.confirm()

    def _put_back(self, seat: Seat, error: StreamsvmError) -> None:
        """Read the batch again; if the publisher ended, or a transaction of it failed, take another publisher first.

        A transaction that failed was aborted, but the markers of an abort may be missing, too: the commit of the next
        batch by the same publisher would show readers what was aborted. A publisher that was fenced took too long for a
        transaction, and the broker ended it; or another scorer has taken the slot, which the next poll reports.
        """
        log.warning("batch_put_back", what=error.what, remedy="the batch is read again from where the input was scored")
        self._components.metrics.increase("streamsvm_scored_batches", outcome="put_back")
        self._trouble = error.what
        seat.subscription.rewind()
        publisher = seat.publisher
        attempted = publisher.attempted if publisher else ()
        if attempted or isinstance(error, OutcomeUnknown | Fenced):
            seat.settlement.remember_at(attempted, round(1000 * time.time()))
            self._let_go(seat)
        self._stop.wait(RETRY_S)

    def _recover(self, seat: Seat, life: ScorerLife) -> None:
        """Take the id over and settle what is open; how far the input was scored then is known."""
        try:
            settling = "the scorer is settling transactions that its slot left open"
            if self._answered(Aside(lambda: seat.renew(life)), settling):
                log.info("publisher_renewed")
                self._trouble = ""
                seat.subscription.rewind()
        except (TransientError, Fenced) as error:
            if error.what != self._trouble:
                log.warning("publisher_waits", what=error.what, remedy=error.remedy)
            self._trouble = str(error) if isinstance(error, PersonNeeded) else error.what
            self._stop.wait(RETRY_S)

    def _let_go(self, seat: Seat) -> None:
        """Close the publisher, unless one of its calls has not returned: then it ends with the process."""
        publisher, seat.publisher = seat.publisher, None
        if publisher is not None and not self._unanswered:
            publisher.close()

    def _answered(self, call: Aside[None], slow: str = "the broker does not answer a commit") -> bool:
        """Wait for a call while the main loop reports that it is alive; False if stopped before the call returned."""
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

    def _leave(self, seat: Seat, life: ScorerLife) -> None:
        """Leave the group, unless no broker answers: then the membership ends with its session."""
        self._seat = None
        life.slots.release(seat.slot)
        if self._unanswered or not Aside(seat.subscription.close).finished(LEAVE_S):
            log.warning(
                "group_not_left", remedy="other scorers get this scorer's partitions when its session has expired"
            )

    def _show_broker(self, life: ScorerLife, seat: Seat | None = None) -> None:
        missing, group = self._trouble, group_of(self._settings)
        if seat is not None and seat.publisher is None and not missing:
            missing = f"this scorer has not been admitted to group {group} yet"
        if not life.subscriber.connected:
            missing = "model versions are not being received: no broker connection is up"
        if seat is not None and seat.subscription.unplaced:
            missing = f"it is not known yet where to read on in group {group}: {seat.subscription.unplaced}"
        if seat is not None and not seat.subscription.connected():
            missing = "no broker connection is up"
        self._health.require("broker", missing)


def portions(records: Sequence[Record], most_bytes: int) -> Iterator[Sequence[Record]]:
    """Yield a batch in parts of so many bytes of values at most, or of one record; as it is where it is smaller."""
    sizes = _sizes(records)
    if int(sizes.sum()) <= most_bytes:
        yield records
        return
    start = total = 0
    for at, size in enumerate(sizes.tolist()):
        if at > start and total + size > most_bytes:
            yield records[start:at]
            start, total = at, 0
        total += size
    yield records[start:]


def _sizes(records: Sequence[Record]) -> NDArray[np.int64]:
    """Return the bytes of each value."""
    return records.sizes if isinstance(records, Batch) else np.array([len(r.value or b"") for r in records], np.int64)


def newest_of(records: Sequence[Record]) -> dict[int, Record]:
    """Return the last record of each partition of a batch."""
    last = records.last() if isinstance(records, Batch) else records
    return {record.partition: record for record in last}
