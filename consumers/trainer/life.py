"""One life of a trainer: the parts that live from a start to a stop, or to a gap in the input.

`consumers.trainer.beginning` makes it, whole or not at all. A gap in the input ends a life; the next one is made by the
very steps of a fresh start, and nothing of the old one is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from consumers.streams.identity import TopicIdentity
from consumers.streams.ports import Worker
from consumers.streams.standstill import Standstill
from consumers.trainer.attachment import Attachments, Part
from consumers.trainer.checkpointing import Saver
from consumers.trainer.intake import FLUSH_TIMEOUT_S, NothingValid
from consumers.trainer.owner_watch import OwnerWatch
from consumers.trainer.publishing import VersionPublisher
from consumers.trainer.retention import Keeper
from consumers.trainer.session import Session
from consumers.trainer.source import Source
from consumers.trainer.stream_quality import QualityWatch
from consumers.trainer.topic_watch import Surveyor
from streamsvm.config import ModelConfig
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import TransientError
from streamsvm.model.pointers import Alias

SHORT_FLUSH_S: Final = 5.0
"""How long a checkpoint holds up the loop for dead letters that cannot be delivered; the next one tries again."""


@dataclass(slots=True, kw_only=True)
class Life:
    """The parts that live from a start to a stop, or to a gap in the input.

    Attributes
    ----------
    config : ModelConfig
        With the rules of time zones of the checkpoint from which it goes on.
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
    parts : tuple of Part
        What these do in every turn.
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
    owner: OwnerWatch
    sequence: int
    attachments: Attachments
    parts: tuple[Part, ...]

    def confirm(self) -> None:
        """Return if all that was learned is of the topics that this life began with; blocks as `TopicIdentity.confirm`.

        Raises
        ------
        Recreated, TransientError, ConfigurationError
            As of `TopicIdentity.confirm`.
        """
        learned = self.pipeline.learner.positions
        self.identity.confirm({partition: at.offset for partition, at in learned.items()})
        self.intake.confirm()

    def save(self, flush_s: float = FLUSH_TIMEOUT_S) -> None:
        """Write a checkpoint; none passes a dead letter that is not acknowledged.

        Raises
        ------
        Fenced
            If the model belongs to another process by now; nothing is written then.
        TransientError
            If the dead letters cannot be delivered in time, or the disk refuses; where a branch saves rows, also if the
            broker does not say whether the input is still the same topic.
        Recreated
            If a branch would save rows that are of two topics. A checkpoint of such rows needs no such care: it names
            the old topic's id, and no start goes on from it.
        """
        self._begin_saving(flush_s)
        while self.saver.saving:
            self.saver.go_on()

    def _begin_saving(self, flush_s: float) -> None:
        self.owner.before_saving()
        if self.sequence:
            try:
                self._settle(flush_s)
            except NothingValid:  # positions stay: a better configuration is to read all of it again
                self.saver.passed()
                return
        for part in self.parts:  # before the checkpoint, which passes over the rows that they save
            part.save(self.confirm, self.pipeline.base)
        self.sequence += 1
        snapshot = self.pipeline.snapshot(self.sequence, self.intake.ends)
        self.saver.begin(self.attachments.saved(self.intake.saved(snapshot)))

    def _settle(self, flush_s: float) -> None:
        if self.intake.nothing_valid:
            raise NothingValid
        self.intake.flush(flush_s)

    def save_on(self) -> None:
        """Begin a checkpoint if one is due, or work on the one that was begun; a failure is tried again later.

        Once it is written, observers of the group are shown how far the learner is.
        """
        try:
            if not self.saver.saving and self.saver.due:
                self._begin_saving(SHORT_FLUSH_S)
            if self.saver.saving and self.saver.go_on():
                self.show_progress()
        except TransientError as error:
            self.saver.failed(error)

    def show_progress(self) -> None:
        """Show observers of the group how far it is; where nothing was valid yet, it is nowhere."""
        if not self.intake.nothing_valid:
            self.intake.show_progress()
