"""One life of a trainer: the parts that live from a start to a stop, or to a gap in the input.

`consumers.trainer.beginning` makes a `Life`, whole or not at all. The main loop (`consumers.trainer.trainer`) is given
one, and calls its parts. A gap in the input ends a life; the next one is made by the very steps of a fresh start, and
nothing of the old one is left.

Read the attributes of `Life` as the list of what a running trainer consists of. Two acts need several parts at once and
are therefore methods here: to save a checkpoint (`save`, `save_on`), and to confirm that the input is still the topic
that was read (`confirm`).

Invariant of a checkpoint: it never passes a dead letter that the broker has not acknowledged, and never a row of an
input of which no valid row was seen yet (`NothingValid`): with a better configuration all of that is to be read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from consumers.streams.identity import TopicIdentity
from consumers.streams.input_watch import InputWatch
from consumers.streams.ports import Worker
from consumers.streams.standstill import Standstill
from consumers.trainer.attachment import Attachments
from consumers.trainer.checkpointing import Saver
from consumers.trainer.intake import FLUSH_TIMEOUT_S, NothingValid
from consumers.trainer.owner_watch import OwnerWatch
from consumers.trainer.publishing import VersionPublisher
from consumers.trainer.retention import Keeper
from consumers.trainer.session import Session
from consumers.trainer.source import Source
from consumers.trainer.stream_quality import QualityWatch
from consumers.trainer.topic_watch import Surveyor
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.config import ModelConfig
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import TransientError
from streamsvm.model.pointers import Alias

SHORT_FLUSH_S: Final = 5.0
"""How long the loop waits, before a checkpoint, for dead letters to be delivered. If that is not enough, the checkpoint
is left out, and the next one tries again."""


@dataclass(slots=True, kw_only=True)
class Life:
    """The parts that live from a start to a stop, or to a gap in the input.

    Attributes
    ----------
    config : ModelConfig
        With the time zone rules of the checkpoint from which this life goes on.
    topic_id : str
    partitions : int
        Of the input, at the start.
    current : Alias or None
        The version that was current at the start.
    intake : Source
        The input topic, or what a branch puts in its place.
    identity : TopicIdentity
        Of the input.
    sequence : int
        Of the newest checkpoint written; 0 before the first.
    attachments : Attachments
        Branches that are on.
    checkpoints : CheckpointDirectory
        Locked.
    saved : bool
        Whether a checkpoint of this life was written.
    """

    config: ModelConfig
    topic_id: str
    partitions: int
    current: Alias | None
    delivery: Delivery
    session: Session
    pipeline: Pipeline
    intake: Source
    worker: Worker
    quality: QualityWatch
    versions: VersionPublisher
    keeper: Keeper
    saver: Saver
    identity: TopicIdentity
    surveyor: Surveyor
    standstill: Standstill
    input_watch: InputWatch
    owner: OwnerWatch
    sequence: int
    attachments: Attachments
    checkpoints: CheckpointDirectory
    saved: bool = False

    def confirm(self) -> None:
        """Raise unless all that was learned is of the topics that this life began with.

        Blocks as `TopicIdentity.confirm`.

        Raises
        ------
        Recreated, TransientError, ConfigurationError
            As of `TopicIdentity.confirm`.
        """
        learned = self.pipeline.learner.positions
        self.identity.confirm({partition: at.offset for partition, at in learned.items()})
        self.intake.confirm()

    def save(self, flush_s: float = FLUSH_TIMEOUT_S) -> None:
        """Write a checkpoint, after all dead letters up to its positions are acknowledged.

        Raises
        ------
        Fenced
            If the model belongs to another process by now; nothing is written then.
        TransientError
            If the dead letters cannot be delivered in time, or the disk refuses.
        """
        self._begin_saving(flush_s)
        while self.saver.saving:
            if self.saver.go_on():
                self._note_saved()

    def save_or_report(self) -> None:
        """Save as `save` does; where that fails, report it and go on from the checkpoint before, in memory.

        Raises
        ------
        TransientError
            If this incarnation has no checkpoint yet: what it publishes could not be continued after a restart.
        """
        resumable = self.sequence > 0
        try:
            self.save()
        except TransientError as error:
            if not resumable:
                raise type(error)(
                    f"{error.what}. It is the first one of incarnation {self.delivery.incarnation}, without which no "
                    "start could go on: nothing is published",
                    error.remedy,
                ) from None
            self.saver.failed(error)

    def _note_saved(self) -> None:
        if not self.saved:
            for attachment in self.attachments.all:
                attachment.began(self.checkpoints)
        self.saved = True

    def _begin_saving(self, flush_s: float) -> None:
        # A process that lost the model must not overwrite the checkpoints of its successor.
        self.owner.before_saving()
        # Not before the first checkpoint, which is written before anything is read: there are no letters yet.
        if self.sequence:
            try:
                self._settle(flush_s)
            # No checkpoint, so that the positions stay where they are: a better configuration reads all of it again.
            except NothingValid:
                self.saver.passed()
                return
        self.sequence += 1
        snapshot = self.pipeline.snapshot(self.sequence, self.intake.ends)
        self.saver.begin(self.attachments.saved(self.intake.saved(snapshot)))

    def _settle(self, flush_s: float) -> None:
        if self.intake.nothing_valid:
            raise NothingValid
        self.intake.flush(flush_s)

    def save_on(self) -> None:
        """Begin a checkpoint if one is due, or work on the one that was begun; a failure is tried again later.

        When it is written, the group's offsets are committed, for observers.
        """
        try:
            if not self.saver.saving and self.saver.due:
                self._begin_saving(SHORT_FLUSH_S)
            if self.saver.saving and self.saver.go_on():
                self._note_saved()
                self.show_progress()
        except TransientError as error:
            self.saver.failed(error)

    def show_progress(self) -> None:
        """Commit the group's offsets, for observers; not before a valid row was seen."""
        if not self.intake.nothing_valid:
            self.intake.show_progress()
