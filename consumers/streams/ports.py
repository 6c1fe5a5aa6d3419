"""What the trainer needs of the world: a broker, a training thread, a stop; each as a protocol.

The real ones are `streamsvm.kafka` and `consumers.trainer.training_thread`. Anything else that keeps these promises
drives the same trainer, without a broker, threads or a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from consumers.settings import Start
from streamsvm.kafka import Mark, Message, Place, Progress, Record, Stored, TopicInfo, TopicSpec
from streamsvm.learning.cutting import DueCut
from streamsvm.learning.recipe import Made
from streamsvm.learning.tuning import Tuning


class Publisher(Protocol):
    """Publishes groups of messages atomically; errors are those of `streamsvm.kafka.Publisher`."""

    def start(self) -> None:
        """Take over the transactional id: fence the predecessor and end what it left open."""

    def publish(
        self,
        messages: Sequence[Message],
        last: Callable[[Sequence[int]], Sequence[Message]] | None = None,
        progress: Progress | None = None,
    ) -> list[int]:
        """Publish a group, and return the offsets of `messages`; `last` makes those that point at them."""

    def confirm(self) -> None:
        """Wait until readers of committed records have passed the last group."""

    def sweep(self, messages: Sequence[Message], progress: Progress | None = None) -> None:
        """Begin a transaction with these, and abort it: its markers end what hangs in their partitions."""

    def close(self) -> None:
        """Let go of the broker."""


class Outbox(Protocol):
    """Sends messages at least once; errors are those of `streamsvm.kafka.Outbox`."""

    def send(self, message: Message) -> None:
        """Queue a message."""

    def poll(self) -> None:
        """Raise the first failed delivery, if there is one."""

    def flush(self, timeout_s: float) -> None:
        """Return when all that was sent is stored."""

    def close(self) -> None:
        """Let go of the broker; what is still queued is not sent."""


class Input(Protocol):
    """Reads partitions from explicit positions; errors are those of `streamsvm.kafka.Input`."""

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Record]:
        """Return at most so many records, in at most so many seconds."""

    def pause(self) -> None:
        """Stop fetching, keep polling."""

    def resume(self) -> None:
        """Go on fetching."""

    def high_watermark(self, partition: int) -> int | None:
        """Return the offset after the partition's last record as far as known; never blocks."""

    def seen_end(self, partition: int) -> int | None:
        """Return where the partition's end was last met: `poll` returned every committed record before it."""

    def commit(self, positions: Mapping[int, int]) -> None:
        """Show observers of the group how far it is; never fails."""

    def connected(self) -> bool:
        """Tell whether a broker answered lately."""

    def close(self) -> None:
        """Let go of the broker."""


class Cluster(Protocol):
    """A broker, as `streamsvm.kafka.Cluster` reaches it; errors are those of the functions named there."""

    @property
    def embedded(self) -> bool:
        """Whether it has no transactions and no admin calls."""

    @property
    def max_message_bytes(self) -> int:
        """Most bytes that the client sends in one message."""

    @property
    def servers(self) -> str:
        """Its address, for people."""

    def describe(self, topic: str) -> TopicInfo:
        """Return what the broker says about a topic."""

    def create(self, topics: Sequence[TopicSpec]) -> list[str]:
        """Create the topics that do not exist, and return their names."""

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        """Return a partition's first offset and the one after its last, committed or not."""

    def starts(self, topic: str, partitions: Iterable[int], start: Start) -> dict[int, int]:
        """Return where to start reading each partition."""

    def leader_epoch(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the leader epoch that appended the record at an offset; None where nobody can say."""

    def newest(self, topic: str, keys: Iterable[bytes], timeout_s: float) -> dict[bytes, Record]:
        """Return the newest committed record of each key in partition 0, up to the read-uncommitted high watermark."""

    def newest_under(self, topic: str, prefix: bytes, timeout_s: float) -> dict[bytes, Record]:
        """Return the newest committed record of each key that begins so, tombstones included; else as `newest`."""

    def record(self, topic: str, offset: int, timeout_s: float) -> Record | None:
        """Return the committed record at an offset of partition 0, None if there is none."""

    def marks(self, places: Iterable[Place]) -> dict[Place, Mark]:
        """Return how far partitions go, for readers of committed records and for writers."""

    def stored(
        self,
        places: Iterable[Place],
        wanted: Callable[[Record], bool],
        *,
        start: int | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        timeout_s: float,
    ) -> list[Stored]:
        """Return the wanted records of partitions, aborted ones too: from an offset or a time on, before another."""

    def stored_at(self, topic: str, partition: int, offset: int, timeout_s: float) -> Record | None:
        """Return the first record from an offset on, committed or not."""

    def publisher(self, transactional_id: str, writer: str = "") -> Publisher:
        """Make the one writer of an id, named so in its records' stamps; it fences nobody before its `start`."""

    def outbox(self) -> Outbox:
        """Make a writer of dead letters."""

    def input(self, topic: str, group: str) -> Input:
        """Make the reader of the points."""


class Worker(Protocol):
    """Trains one cut at a time."""

    @property
    def training(self) -> DueCut | None:
        """The cut handed in whose result was not taken yet."""

    def submit(self, cut: DueCut, in_force: Tuning | None) -> None:
        """Hand in a cut, with the tuning in force; there must be none in training."""

    def take(self, timeout_s: float = 0.0) -> Made | None:
        """Return a finished training, waiting at most so long; raises what ended it."""

    def close(self) -> None:
        """Let go of the thread, if there is one."""


class Stop(Protocol):
    """Says when to stop; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Tell whether to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds, or until told to stop."""
