"""The socket at which a branch takes part in a trainer: in its start, and in the life that follows.

A branch plugs in a `TrainerPlug` at the socket `trainer`. It decides by the configuration whether the branch is wanted,
and names the `Attachment` to make then; nothing else of an unwanted branch is imported. At each step of a start the
trunk calls all attachments, in the order of the branches' names. Every method of the base class does nothing, or
returns what changes nothing, so a branch overrides only the steps in which it takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from streamsvm.delivery.machine import Continued
from streamsvm.sockets import DAEMONS, import_name, plugged

if TYPE_CHECKING:
    from consumers.settings import Settings
    from consumers.streams.dead_letters import DeadLetters
    from consumers.streams.topics import KnownPointers
    from consumers.trainer.components import Components
    from consumers.trainer.source import Source
    from consumers.trainer.stream_quality import QualityWatch
    from consumers.trainer.topic_watch import Surveyor
    from streamsvm.checkpoint.directory import CheckpointDirectory
    from streamsvm.checkpoint.snapshot import ReadAhead, Snapshot
    from streamsvm.delivery.decision import Begin, Present, Resume
    from streamsvm.delivery.machine import Delivery
    from streamsvm.delivery.pipeline import Pipeline
    from streamsvm.kafka import TopicInfo
    from streamsvm.learning.recipe import Origin
    from streamsvm.model.left_out import Places
    from streamsvm.points import Rows

SOCKET: Final = "trainer"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What an attachment is made with, before anything was looked at.

    Attributes
    ----------
    settings : Settings
    components : Components
    delivery : Delivery
    stack : ExitStack
        What is opened is closed there.
    """

    settings: Settings
    components: Components
    delivery: Delivery
    stack: ExitStack


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """A life that is being made, as far as it is.

    Attributes
    ----------
    settings : Settings
        As they go on from the checkpoint.
    topic_id : str
        Of the input; empty where the broker tells none.
    dead_letters : DeadLetters
        Of the input.
    pipeline : Pipeline
    quality : QualityWatch
    surveyor : Surveyor
        Of the input.
    remedy : str
        What a person can do about a gap in a topic.
    left_out : mapping of partition to positions
        Rows that count as rejected ones, without dead letters: they were erased, for example.
    other_logs : tuple of ReadAhead
        What is read beside the input.
    """

    settings: Settings
    topic_id: str
    dead_letters: DeadLetters
    pipeline: Pipeline
    quality: QualityWatch
    surveyor: Surveyor
    remedy: str
    left_out: Places
    other_logs: tuple[ReadAhead, ...]


class Attachment:
    """What a branch adds to one trainer, from its start to its end.

    Parameters
    ----------
    world : World
    """

    def __init__(self, world: World) -> None:
        self.world = world

    # ------------------------------------------------------------------ the start, in the order of its steps

    def check(self, source: TopicInfo) -> None:
        """Refuse what must be refused before anything is created; raises a `StreamsvmError`."""

    def fit(self, topics: Mapping[str, TopicInfo], partitions: int) -> None:
        """Create, and check, topics of its own beside those of every trainer, which are given by name."""

    def found(self, topic: TopicInfo, pointers: KnownPointers) -> None:
        """Take in the input and what the aliases topic says; twice in a start, the second time after taking over."""

    def present(self, present: Present, topic: TopicInfo) -> Present:  # noqa: ARG002 - a branch may look at it
        """Return the situation that a start finds, with what this branch knows of it."""
        return present

    def recalled(self, snapshot: Snapshot) -> Snapshot:
        """Return a checkpoint with what others have learned since."""
        return snapshot

    def ordered(self, snapshots: Iterable[Snapshot], present: Present) -> Iterable[Snapshot]:  # noqa: ARG002 - a branch may look at it
        """Return checkpoints in the order in which a start tries them."""
        return snapshots

    def candidate(self, snapshot: Snapshot, present: Present) -> Snapshot:  # noqa: ARG002 - a branch may look at it
        """Return what of a checkpoint may be gone on from; raises a `StateError` if a start must not go on at all."""
        return snapshot

    def begun(self, begun: Begin | Resume, topic: TopicInfo) -> None:
        """Take in what the start decided."""

    @property
    def continues(self) -> Continued:
        """The incarnation whose newest version this one continues, and replaces at once; none by default."""
        return Continued()

    # ------------------------------------------------------------------ the life

    def waiting(self) -> Mapping[int, Rows] | None:
        """Return the rows that wait at the start, where rows cannot be read again by themselves; else None."""

    def left_out(self) -> Places:
        """Return the places of rows that count as rejected ones, without dead letters; by default there are none."""
        return {}

    def other_logs(self) -> tuple[ReadAhead, ...]:
        """Return the logs beside the input that are read, as they are at the start of a life."""
        return ()

    def source(self, making: Making) -> Source | None:
        """Return what takes the place of the input topic; None: nothing does."""

    def began(self, checkpoints: CheckpointDirectory) -> None:
        """Take in that the first checkpoint of this life was written."""

    def turn(self) -> None:
        """Do what is due in a turn of the main loop."""

    def origin(self, origin: Origin) -> Origin:
        """Return where a version comes from, with what this branch knows of it."""
        return origin

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with what a checkpoint must hold of this branch."""
        return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerPlug:
    """What a branch plugs in at the socket `trainer`.

    Attributes
    ----------
    wanted : callable
        Tells whether a configuration turns the branch on.
    attachment : str
        Module and name, ``module:name``, of its `Attachment`.
    """

    wanted: Callable[[Settings], bool]
    attachment: str

    def attach(self, world: World) -> Attachment:
        """Return the attachment, whose module is loaded now."""
        kind = import_name(self.attachment)
        assert isinstance(kind, type)
        made = kind(world)
        assert isinstance(made, Attachment)
        return made


@dataclass(frozen=True, slots=True)
class Attachments:
    """All branches of one trainer, called one after the other.

    Attributes
    ----------
    all : tuple of Attachment
    """

    all: tuple[Attachment, ...] = field(default=())

    @classmethod
    def of(cls, world: World) -> Attachments:
        """Return what the configuration wants."""
        plugs = plugged(SOCKET, TrainerPlug, DAEMONS)
        return cls(tuple(plug.attach(world) for plug in plugs if plug.wanted(world.settings)))

    def present(self, present: Present, topic: TopicInfo) -> Present:
        """See `Attachment.present`."""
        for one in self.all:
            present = one.present(present, topic)
        return present

    def recalled(self, snapshot: Snapshot) -> Snapshot:
        """See `Attachment.recalled`."""
        for one in self.all:
            snapshot = one.recalled(snapshot)
        return snapshot

    def ordered(self, snapshots: Iterable[Snapshot], present: Present) -> Iterable[Snapshot]:
        """See `Attachment.ordered`."""
        for one in self.all:
            snapshots = one.ordered(snapshots, present)
        return snapshots

    def candidate(self, snapshot: Snapshot, present: Present) -> Snapshot:
        """See `Attachment.candidate`."""
        for one in self.all:
            snapshot = one.candidate(snapshot, present)
        return snapshot

    @property
    def continues(self) -> Continued:
        """See `Attachment.continues`; the latest incarnation counts."""
        return max((one.continues for one in self.all), key=lambda one: one.incarnation, default=Continued())

    def waiting(self) -> Mapping[int, Rows] | None:
        """See `Attachment.waiting`; the first answer counts."""
        return _first(one.waiting() for one in self.all)

    def left_out(self) -> Places:
        """See `Attachment.left_out`; the first that names any counts."""
        return next((found for one in self.all if (found := one.left_out())), {})

    def other_logs(self) -> tuple[ReadAhead, ...]:
        """See `Attachment.other_logs`."""
        return tuple(log for one in self.all for log in one.other_logs())

    def source(self, making: Making) -> Source | None:
        """See `Attachment.source`; the first answer counts."""
        return _first(one.source(making) for one in self.all)

    def origin(self, origin: Origin) -> Origin:
        """See `Attachment.origin`."""
        for one in self.all:
            origin = one.origin(origin)
        return origin

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """See `Attachment.saved`."""
        for one in self.all:
            snapshot = one.saved(snapshot)
        return snapshot


def _first(found: Iterable[Found | None]) -> Found | None:
    return next((one for one in found if one is not None), None)
