"""A trainer with one defect or one disturbance: `python -m tests.faults.planted NAME train ...`.

A row of the matrix is shown able to fail by running it on a trainer that has the defect which the row is there to
catch. A defect takes one protecting part out of the shipped code, at run time, and leaves the rest as it is. A
disturbance makes happen what a test cannot make the world do at the moment it wants, and the trainer must take it well.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import structlog

import consumers.scorer.life
import consumers.trainer.publishing
import streamsvm.kafka.cluster
from consumers.host.clock import Clock
from consumers.host.web.connections import Connections
from consumers.scorer.scorer import Scorer
from consumers.scorer.seat import Seat
from consumers.streams.dead_letters import DeadLetters
from streamsvm.crashpoints import crash_point
from streamsvm.errors import BrokerUnavailable
from streamsvm.ingest.decoder import Decoded, PointDecoder
from streamsvm.kafka import (
    Cluster,
    Input,
    Message,
    OutcomeUnknown,
    Publisher,
    PublishRefused,
    Subscription,
    TopicInfo,
)
from streamsvm.kafka.failures import Fault
from streamsvm.learning.cutting import LearnerState
from streamsvm.learning.learner import Learner
from streamsvm.model.pointers import pin_key
from streamsvm.points import Points
from tests.faults.wrapping import wrap
from tests.live.stopping import stop_here
from tests.plugged import of_branches

CLOCK_FILE = "STREAMSVM_TEST_CLOCK_FILE"
"""Variable that names the file with the seconds by which the injected clock is off."""

EIO_FILE = "STREAMSVM_TEST_EIO_FILE"
"""Variable that names the file which, while it exists, makes every fsync fail."""


TRANSACTION_TIMEOUT = "STREAMSVM_TEST_TRANSACTION_TIMEOUT_S"
"""Variable that says after how many seconds a transaction times out."""


def forgets_the_leaf() -> None:
    """A restart goes on at the checkpoint's position, without the points of the open leaf."""

    def restore(original: Any, learner: Learner, state: LearnerState) -> None:
        partitions = {
            partition: replace(saved, leaf_points=Points.empty(saved.leaf_points.dimension, saved.leaf_points.X.dtype))
            for partition, saved in state.partitions.items()
        }
        original(learner, replace(state, partitions=partitions))

    wrap(Learner, "restore", restore)


def takes_an_id_of_its_own() -> None:
    """Each process has another transactional id, so that nobody is ever fenced."""

    def publisher(original: Any, cluster: Cluster, name: str, writer: str = "", **named: Any) -> Publisher:
        made: Publisher = original(cluster, f"{name}/{uuid.uuid4().hex}", writer, **named)
        return made

    wrap(Cluster, "publisher", publisher)


def locks_nothing() -> None:
    """The checkpoint directory is not locked."""
    wrap(fcntl, "flock", lambda original, *given: None)


def loses_its_disk() -> None:
    """A disturbance: each fsync answers EIO while a file exists."""
    file = Path(os.environ[EIO_FILE])

    def fsync(original: Any, handle: int) -> None:
        if file.exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(handle)

    wrap(os, "fsync", fsync)


def dates_the_model() -> None:
    """The day of the clock enters the hashed value of a version."""
    wrap(consumers.trainer.publishing, "build", lambda original: {**original(), "day": str(int(time.time() // 86_400))})


def loses_dead_letters() -> None:
    """Every hundredth dead letter is counted and not sent."""
    sent = [0]

    def letters(original: Any, *given: Any) -> list[Message]:
        kept = []
        for letter in original(*given):
            sent[0] += 1
            if sent[0] % 100:
                kept.append(letter)
        return kept

    wrap(DeadLetters, "letters", letters)


def has_no_patience_with_dead_letters() -> None:
    """A dead letter that is not delivered within a second ends the trainer."""
    wrap(Cluster, "outbox", lambda original, cluster, **_: original(cluster, patience_s=1.0))


def learns_bad_rows() -> None:
    """A rejected row is learned as the point of zeros that stands in its place."""

    def decode(original: Any, *given: Any) -> Decoded:
        decoded = original(*given)
        rows = [replace(each, accepted=np.ones(len(each), np.bool_)) for each in decoded.rows]
        return replace(decoded, rows=rows)

    wrap(PointDecoder, "decode", decode)


def dies_of_far_exponents() -> None:
    """A record with a number beyond any exponent ends the process."""

    def decode(original: Any, decoder: PointDecoder, records: Sequence[Any]) -> Decoded:
        if any(b"1e12345678" in (record.value or b"") for record in records):
            raise RuntimeError("the exponent is too far")
        decoded: Decoded = original(decoder, records)
        return decoded

    wrap(PointDecoder, "decode", decode)


def drops_duplicates() -> None:
    """A record whose bytes were seen before is taken for a copy and passed over."""
    seen: set[bytes | None] = set()

    def decode(original: Any, decoder: PointDecoder, records: Sequence[Any]) -> Decoded:
        fresh = [record for record in records if record.value not in seen and not seen.add(record.value)]  # type: ignore[func-returns-value]
        decoded: Decoded = original(decoder, fresh)
        return decoded

    wrap(PointDecoder, "decode", decode)


def takes_a_refusal_for_success() -> None:
    """A version that the broker refuses counts as published."""

    def publish(original: Any, *given: Any) -> list[int]:
        try:
            offsets: list[int] = original(*given)
        except PublishRefused:
            return [0]
        return offsets

    wrap(Publisher, "publish", publish)


def takes_refusals_for_outages() -> None:
    """A password, a certificate or a permission that is refused counts as a broker that is away."""
    for fault in (Fault.UNTRUSTED, Fault.FORBIDDEN):
        fault.error = BrokerUnavailable


def takes_every_topic_for_the_same() -> None:
    """A topic is known by its name only."""
    wrap(Cluster, "describe", lambda original, *given: replace(original(*given), topic_id="the-same"))
    wrap(Cluster, "topic_id", lambda original, *given: "the-same")


def jumps_over_removed_records() -> None:
    """Where the log begins above a position, reading goes on at its beginning."""
    first: dict[int, int] = {}

    def log_range(original: Any, cluster: Cluster, topic: str, partition: int) -> tuple[int, int]:
        first[partition], end = original(cluster, topic, partition)
        return 0, end

    def leader_epoch(original: Any, cluster: Cluster, topic: str, partition: int, offset: int) -> int | None:
        epoch: int | None = None if offset < first.get(partition, 0) else original(cluster, topic, partition, offset)
        return epoch

    def assign(original: Any, reader: Input, positions: dict[int, int]) -> None:
        original(reader, {partition: max(offset, first.get(partition, 0)) for partition, offset in positions.items()})

    wrap(Cluster, "log_range", log_range)
    wrap(Cluster, "leader_epoch", leader_epoch)
    wrap(Input, "assign", assign)


def sees_no_new_partition() -> None:
    """The partitions of a topic are those of its first description."""
    known: dict[str, tuple[int, ...]] = {}

    def describe(original: Any, cluster: Cluster, topic: str) -> TopicInfo:
        info = original(cluster, topic)
        return replace(info, partitions=known.setdefault(topic, info.partitions))

    wrap(Cluster, "describe", describe)


def ends_transactions_early() -> None:
    """A disturbance: every transaction times out after the seconds that a variable says: outages go faster."""
    timeout_s = float(os.environ[TRANSACTION_TIMEOUT])
    for module in (streamsvm.kafka.cluster, consumers.scorer.life):
        module.TRANSACTION_TIMEOUT_S = timeout_s  # type: ignore[attr-defined]

    def make(original: Any, publisher: Publisher, connection: Any, transactional_id: str, **named: Any) -> None:
        given_s = named.pop("transaction_timeout_s", timeout_s)
        original(publisher, connection, transactional_id, transaction_timeout_s=min(given_s, timeout_s), **named)

    wrap(Publisher, "__init__", make)


def takes_pins_back() -> None:
    """Every published version takes the pin of its model back."""

    def publish(
        original: Any, publisher: Publisher, messages: Sequence[Message], last: Any = None, progress: Any = None
    ) -> list[int]:
        def and_unpin(offsets: Sequence[int]) -> list[Message]:
            pointers = list(last(offsets))
            name = (pointers[0].key or b"").decode().split("@")[0]
            return [*pointers, replace(pointers[0], key=pin_key(name).encode(), value=None)]

        offsets: list[int] = original(publisher, messages, last and and_unpin, progress)
        return offsets

    wrap(Publisher, "publish", publish)


def keeps_what_it_read() -> None:
    """Every record read leaves a kilobyte behind."""
    kept: list[bytearray] = []

    def poll(original: Any, *given: Any) -> list[Any]:
        records: list[Any] = original(*given)
        kept.extend(bytearray(b"\1" * 1024) for _ in records)
        return records

    wrap(Input, "poll", poll)


def commits_beside_its_scores() -> None:
    """A scorer commits a batch's positions after the transaction of its scores, not in it."""

    def hand_over(
        _: Any,
        scorer: Scorer,
        seat: Seat,
        publisher: Publisher,
        messages: Any,
        progress: Any,
        positions: Any,
        *more: Any,
    ) -> None:
        publisher.publish(messages)
        crash_point("scores.placed")
        seat.subscription.commit(positions)

    wrap(Scorer, "_hand_over", hand_over)


def names_no_member() -> None:
    """A scorer commits its positions in the name of the group alone, so that nobody asks whether it is still in it."""
    strangers: dict[Subscription, Input] = {}

    def progress(original: Any, subscription: Subscription, positions: Any) -> Any:
        made = original(subscription, positions)
        if subscription not in strangers:
            connection, topic = subscription._feed._connection, subscription._topic
            strangers[subscription] = Input(connection, topic, group=subscription._group)
        return replace(made, member=strangers[subscription]._consumer.consumer_group_metadata())

    wrap(Subscription, "progress", progress)


def freezes_before_its_positions() -> None:
    """A disturbance: SIGSTOP between a transaction's scores and its positions, the second time."""
    consumers.scorer.life.TRANSACTION_TIMEOUT_S = 60.0  # type: ignore[misc]
    calls = [0]

    def add(original: Any, publisher: Publisher, progress: Any, attempt: str) -> None:
        calls[0] += 1
        if calls[0] == 2:
            structlog.get_logger("planted").info("freezes")
            stop_here()
        original(publisher, progress, attempt)

    wrap(Publisher, "_add", add)


def freezes_before_its_scores() -> None:
    """A disturbance: SIGSTOP with a batch scored, its transaction not yet begun, the second time."""
    calls = [0]

    def publish(
        original: Any, publisher: Publisher, messages: Any, last: Any = None, progress: Any = None
    ) -> list[int]:
        calls[0] += 1
        if calls[0] == 2:
            structlog.get_logger("planted").info("freezes")
            stop_here()
        offsets: list[int] = original(publisher, messages, last, progress)
        return offsets

    wrap(Publisher, "publish", publish)


def hangs_in_the_client() -> None:
    """A disturbance: the second call that adds positions to a transaction comes back long after it was given up."""
    consumers.scorer.life.LOST_S = 2.0  # type: ignore[misc]
    calls = [0]

    def add(original: Any, publisher: Publisher, progress: Any, attempt: str) -> None:
        calls[0] += 1
        if calls[0] == 2:
            time.sleep(3 * consumers.scorer.life.LOST_S)
            try:
                original(publisher, progress, attempt)
            finally:
                structlog.get_logger("planted").info("returned_late")
        else:
            original(publisher, progress, attempt)

    wrap(Publisher, "_add", add)


def loses_an_answer() -> None:
    """A disturbance: the second commit is made, and its answer is lost."""
    commits = [0]

    def commit(original: Any, publisher: Publisher) -> None:
        original(publisher)
        commits[0] += 1
        if commits[0] == 2:
            raise OutcomeUnknown("the answer to a commit was lost", "This is a test.")

    wrap(Publisher, "_commit", commit)


def follows_another_clock() -> None:
    """A disturbance: the clock is off by as many seconds as a file says."""
    file, real = Path(os.environ[CLOCK_FILE]), time.time

    def now() -> float:
        return real() + float(file.read_text(encoding="utf-8") or 0)

    time.time = now
    Clock.__init__.__defaults__ = time.monotonic, lambda: datetime.fromtimestamp(now(), UTC)


def turns_away_newcomers() -> None:
    """A defect: when all places are taken the newest connection goes, whoever holds the others."""

    def add(original: Any, connections: Connections, connection: Any) -> Any:
        return connection if len(connections) >= connections._most else original(connections, connection)

    wrap(Connections, "add", add)


DEFECTS = {
    defect.__name__.replace("_", "-"): defect
    for defect in (
        *(defect for found in of_branches("planted", "DEFECTS") for defect in found),
        forgets_the_leaf,
        takes_an_id_of_its_own,
        locks_nothing,
        loses_its_disk,
        dates_the_model,
        loses_dead_letters,
        has_no_patience_with_dead_letters,
        learns_bad_rows,
        dies_of_far_exponents,
        drops_duplicates,
        takes_a_refusal_for_success,
        takes_refusals_for_outages,
        takes_every_topic_for_the_same,
        jumps_over_removed_records,
        sees_no_new_partition,
        ends_transactions_early,
        takes_pins_back,
        keeps_what_it_read,
        commits_beside_its_scores,
        names_no_member,
        freezes_before_its_positions,
        freezes_before_its_scores,
        hangs_in_the_client,
        loses_an_answer,
        follows_another_clock,
        turns_away_newcomers,
    )
}
"""What can be planted, by the name that the command line takes; several are joined by a plus."""


def main() -> None:
    """Plant what the first argument names, and run the command line with the others."""
    from consumers.cli.app import main as command_line
    from tests.faults.altered import ALTERATIONS

    for name in sys.argv.pop(1).split("+"):
        (DEFECTS.get(name) or ALTERATIONS[name])()
    command_line()


if __name__ == "__main__":
    main()
