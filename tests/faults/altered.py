"""A trainer with something in it changed: `python -m tests.faults.altered NAME[,NAME] train ...`.

Some alterations only bring a situation about. The others are defects, planted to show that a test can fail: each is
what an ordinary slip in the code it replaces would do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import consumers.trainer.session
import streamsvm.kafka.cluster
import streamsvm.kafka.reading
from consumers.cli.app import main as command_line
from consumers.host.runtime import Health
from consumers.streams.settling import Settlement
from consumers.trainer.training_thread import TrainingThread
from streamsvm.errors import FatalError, TransientError
from streamsvm.kafka import Cluster, Input, Message, OutcomeUnknown, Publisher, Record
from streamsvm.kafka.log import _questions, _watermarks
from streamsvm.kafka.producing import _Purged
from streamsvm.learning.recipe import TrainFunction
from tests.faults.wrapping import wrap

SHORT_TRANSACTION_S = 3.0
HOARDED_BYTES = 1_000_000
SLOW_TRAINING_S = 2.0
TRAININGS_PER_SLOW_ONE = 20


def impatient() -> None:
    """Give a transaction, and those of others, less time; no defect."""
    for module in (streamsvm.kafka.cluster, consumers.trainer.session):
        module.TRANSACTION_TIMEOUT_S = SHORT_TRANSACTION_S  # type: ignore[attr-defined]


class _Careless:
    """A publisher that takes an unknown outcome lightly; a new client carries on."""

    def __init__(self, make: Callable[[], Publisher], *, resends: bool) -> None:
        self._make, self._resends = make, resends
        self._publisher = make()

    def start(self) -> None:
        self._publisher.start()

    def publish(self, messages: Sequence[Message], last: Callable[..., Any] | None = None) -> list[int]:
        try:
            return self._publisher.publish(messages, last)
        except OutcomeUnknown:
            self._publisher.close()
            self._publisher = self._make()
            self._publisher.start()
            return self._publisher.publish(messages, last) if self._resends else [0] * len(messages)

    def confirm(self) -> None:
        with suppress(OutcomeUnknown):
            self._publisher.confirm()

    def sweep(self, messages: Sequence[Message], progress: Any = None) -> None:
        self._publisher.sweep(messages, progress)

    def close(self) -> None:
        self._publisher.close()


def _careless(*, resends: bool) -> None:
    sound = Cluster.publisher

    def publisher(self: Cluster, transactional_id: str, writer: str = "", **named: Any) -> Any:
        return _Careless(lambda: sound(self, transactional_id, writer, **named), resends=resends)

    Cluster.publisher = publisher  # type: ignore[method-assign]


def resends() -> None:
    """Publish again after a commit of unknown outcome, without reading the topic first."""
    _careless(resends=True)


def assumes_success() -> None:
    """Take a commit of unknown outcome for done."""
    _careless(resends=False)


def reads_to_the_stable_offset() -> None:
    """Take the end of what is committed for the end of the topic: an open transaction hides what follows it."""

    def stable_range(_: Any, connection: Any, topic: str, partition: int) -> tuple[int, int]:
        with _questions(connection, topic, [partition], "read_committed") as (consumer, link):
            return _watermarks(consumer, link, connection, topic, partition)

    wrap(streamsvm.kafka.reading, "log_range", stable_range)


def settles_nothing() -> None:
    """Take an id, and look at nothing that its partitions hold."""
    Settlement.settle = lambda self, publisher: None  # type: ignore[method-assign]


def believes_every_answer() -> None:
    """Take a commit that was answered for one that readers have passed."""
    Publisher.confirm = lambda self: None  # type: ignore[method-assign]


def reads_what_is_uncommitted() -> None:
    """Read head and owner as if every record counted: what a dead writer left open is taken for published."""

    def lent_consumer(original: Any, connection: Any, topic: str, fixed: Any) -> Any:
        return original(connection, topic, {**fixed, "isolation.level": "read_uncommitted"})

    wrap(streamsvm.kafka.reading, "lent_consumer", lent_consumer)


def renews_unread() -> None:
    """Take a new producer id, when the broker has forgotten the old one, and publish on without reading."""
    Publisher._dropped = lambda self, topic: _Purged(topic, "Try again.")  # type: ignore[method-assign]


def gives_up() -> None:
    """End when a publish fails for want of a broker."""
    sound = Publisher.publish

    def publish(self: Publisher, *arguments: Any) -> list[int]:
        try:
            return sound(self, *arguments)
        except TransientError as error:
            raise FatalError(error.what, error.remedy) from error

    Publisher.publish = publish  # type: ignore[method-assign]


def _slow(every: int, seconds: float) -> None:
    sound = TrainingThread.__init__

    def init(self: TrainingThread, train: TrainFunction, *arguments: Any) -> None:
        count = 0

        def slow(*what: Any) -> Any:
            nonlocal count
            count += 1
            if count % every == 0:
                time.sleep(seconds)  # the slowness itself
            return train(*what)

        sound(self, slow, *arguments)

    TrainingThread.__init__ = init  # type: ignore[method-assign,assignment]


def trains_slowly() -> None:
    """Take long over every so many trainings, and say when the input is paused; no defect."""
    _slow(TRAININGS_PER_SLOW_ONE, SLOW_TRAINING_S)
    sound = Input.pause

    def pause(self: Input) -> None:
        sys.stderr.write('{"event": "paused"}\n')
        sound(self)

    Input.pause = pause  # type: ignore[method-assign]


def steady() -> None:
    """Take a tenth of a second over every training, so that a fault meets the stream in its midst; no defect."""
    _slow(1, 0.1)


def unhurried() -> None:
    """Take half a second over every training, so that the stream outlasts several faults; no defect."""
    _slow(1, 0.5)


def drops_when_pausing() -> None:
    """Go on, after a pause, behind what the client had fetched ahead before it."""
    sound_pause, sound_poll = Input.pause, Input.poll
    skipping = 0

    def pause(self: Input) -> None:
        nonlocal skipping
        skipping = 5
        sound_pause(self)

    def poll(self: Input, max_records: int, timeout_s: float) -> list[Record]:
        nonlocal skipping
        records = sound_poll(self, max_records, timeout_s)
        dropped = min(skipping, len(records))
        skipping -= dropped
        return records[dropped:]

    Input.pause, Input.poll = pause, poll  # type: ignore[method-assign]


def hoards() -> None:
    """Keep something at every turn in which nothing came."""
    sound = Input.poll
    kept: list[bytearray] = []

    def poll(self: Input, max_records: int, timeout_s: float) -> list[Record]:
        kept.append(bytearray(b"x" * HOARDED_BYTES))
        return sound(self, max_records, timeout_s)

    Input.poll = poll  # type: ignore[method-assign]


def always_ready() -> None:
    """Answer /readyz with yes."""
    Health.ready = lambda self: (True, {"ready": True, "waiting_for": {}})  # type: ignore[method-assign]


ALTERATIONS: dict[str, Callable[[], None]] = {
    change.__name__: change
    for change in (
        impatient,
        resends,
        assumes_success,
        reads_to_the_stable_offset,
        settles_nothing,
        believes_every_answer,
        reads_what_is_uncommitted,
        renews_unread,
        gives_up,
        trains_slowly,
        steady,
        unhurried,
        drops_when_pausing,
        hoards,
        always_ready,
    )
}


def main() -> None:
    """Make the changes that the first argument names, and run the command line with the others."""
    for name in sys.argv.pop(1).split(","):
        ALTERATIONS[name]()
    command_line()


if __name__ == "__main__":
    main()
