"""From nothing to a trainer that may learn and publish: checks, then the start that `streamsvm.delivery` decides.

The order is the protocol's: load, look without fencing anybody and refuse then if it must be, let the caller do what
takes long, look again if it did, take the transactional id and the ownership over, read to the end, decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from consumers import constants
from consumers.host.clock import Clock
from consumers.host.memory_limit import shortage
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.topics import MADE, KnownPointers, check_input, check_names, check_output, output_topics
from consumers.trainer.attachment import Attachments
from consumers.trainer.message_size import check_message_size
from consumers.trainer.session import Session
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.config.model import learned_part
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.decision import (
    Begin,
    Candidate,
    Present,
    Resume,
    decide,
    places,
    reads_on,
    reset_token,
    with_recipe,
)
from streamsvm.delivery.machine import Continued, Delivery
from streamsvm.errors import ConfigurationError, StateError, TransientError
from streamsvm.kafka import Cluster, TopicInfo
from streamsvm.learning.learner import DueCut, Learner, LearnerState, TakenCut
from streamsvm.learning.recipe_changes import history_of
from streamsvm.model.comparison import configuration_differences
from streamsvm.model.pointers import Alias, Head
from streamsvm.points import Position, precedes

log = structlog.get_logger("streamsvm.trainer")

LOOK_AGAIN_S: Final = 1.0
"""Age of a look after which another one comes before the id is taken. It spares a running trainer; nothing else."""
LEAST_POINTS_A_FEATURE: Final = 14
"""Points of a partition for each feature with which a chain came at least twice as near as a reservoir."""
MOST_FEATURES: Final = 2_000
"""Of dense points. Half as many take 15,000 points a bucket, 60 MB, and a second a pilot."""
MOST_NAMED: Final = 20
"""Columns that a line of the log names."""
RESET_REMEDY: Final = "remove the option; the present incarnation would begin anew with --reset "
RESTORE_REMEDY: Final = (
    "Restore a good copy, or move the directory away and start again: the trainer then says how to begin anew."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The result of a start.

    Attributes
    ----------
    topic : TopicInfo
        The input.
    base : dict of partition to Position
        Where the incarnation began in each partition; new partitions are added.
    learner : Learner
    waiting : Cut, TakenCut or None
        The checkpoint's cut, if it is still to be published.
    sequence : int
        Sequence number of the newest checkpoint file.
    read_to : dict of partition to int
        Offset at which to continue where retention removed the position, but nothing that was to be learned.
    current : Alias or None
        The version that is current.
    outputs : mapping of str to (str or None)
        See `consumers.streams.topics.OutputWatch`.
    settings : Settings
        The options as they continue from the checkpoint: an option that is newer than the checkpoint and is not given
        has the value that was in effect before it existed.
    """

    topic: TopicInfo
    base: dict[int, Position]
    learner: Learner
    waiting: DueCut | None
    sequence: int
    settings: Settings
    read_to: dict[int, int] = field(default_factory=dict)
    current: Alias | None = None
    outputs: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def topic_id(self) -> str:
        """The input topic's id; empty if the broker does not report topic ids."""
        return self.topic.topic_id or ""


class Startup:
    """One start.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    directory : CheckpointDirectory
        Locked.
    attachments : Attachments
        Branches that are on.
    delivery : Delivery
    session : Session
    reset : str
        The value of `--reset`.
    clock : Clock
    memory_limit : int or None
        Bytes of the container.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        directory: CheckpointDirectory,
        attachments: Attachments,
        delivery: Delivery,
        session: Session,
        *,
        reset: str,
        clock: Clock,
        memory_limit: int | None = None,
    ) -> None:
        self._settings = settings
        self._config = self._expected = settings.models()
        self._cluster = cluster
        self._attachments = attachments
        self._delivery = delivery
        self._session = session
        self._reset = reset
        self._clock = clock
        self._memory_limit = memory_limit
        self._looked_at = -math.inf
        self._made: list[str] = []
        self._outputs: dict[str, str | None] = {}
        self._found: KnownPointers | None = None
        self._ended = directory.ended
        self._checkpoints = _Checkpoints(directory, str(settings.checkpoint.directory), self._recalled)
        self._epochs: dict[tuple[int, int], int | None] = {}
        self._carried: dict[str, Any] | None = None

    def look(self, dead_letters: DeadLetters) -> None:
        """Refuse a start that must be refused, before anything is taken over.

        Slow preparations belong between this call and `run`: a predecessor goes on publishing until then.

        Raises
        ------
        StreamsvmError
            If the start must not or cannot continue; then nobody was fenced and nothing was published.
        """
        self._check(dead_letters)
        # Read once here, so that an unreadable directory is told before anything is taken over.
        next(self._checkpoints.snapshots(), None)
        crash_point("start.loaded")
        self._look()

    def run(self) -> Started:
        """Check again, take the model over, and start; from then on no other process publishes.

        Raises
        ------
        StreamsvmError
            If the start must not or cannot continue; then nothing was published.
        """
        # Minutes of compiling may lie between the two looks.
        if self._clock.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._look()
        # One that saved its last checkpoint in this directory and said so runs no more.
        owner = self._found.owner if self._found is not None else None
        if owner is not None and owner.session != self._ended:
            log.info(
                "taking_over",
                session=owner.session,
                since=owner.since,
                remedy="if that process still runs, it is now fenced and ends. Two supervised copies would fence "
                "each other for ever: stop one of them",
            )
        crash_point("start.looked")
        found = self._session.take_over(self._clock.now())
        # Described again, after the head was read: a head may know partitions that came after the first look.
        topic = self._input()
        begun = self._decide(topic, found)
        for attachment in self._attachments.all:
            attachment.begun(begun, topic)
        self._delivery.begins(found.owner, *_after(begun), found.head, self._continues(begun))
        lost = dict.fromkeys(self._made if begun.head is not None else (), MADE)
        started = replace(self._restored(begun, topic), current=found.current, outputs=self._outputs | lost)
        crash_point("start.decided")
        return started

    def _continues(self, begun: Begin | Resume) -> Continued:
        """Return the earlier incarnation that goes on in this one: by a branch, or under another recipe."""
        earlier = () if isinstance(begun, Begin) else begun.snapshot.configuration.get("earlier", ())
        published = begun.head.incarnation if begun.head else 0  # between two changes there may be no version
        changed = Continued(published if any(one["incarnation"] == published for one in earlier) else 0)
        return max(self._attachments.continues, changed, key=lambda one: one.incarnation)

    def _recalled(self, snapshot: Snapshot) -> Snapshot:
        """Return a checkpoint of this model with what others have learned since."""
        return self._attachments.recalled(snapshot) if snapshot.name == self._settings.name else snapshot

    def _input(self) -> TopicInfo:
        """Describe the input topic. Call it after reading a head, which may know partitions added meanwhile."""
        topic = self._cluster.describe(self._settings.input.topic)
        check_memory(self._expected, len(topic.partitions), self._memory_limit)
        return topic

    def _check(self, dead_letters: DeadLetters) -> None:
        """Check topics and sizes before anything is loaded, and create the output topics that are missing."""
        settings, cluster, config = self._settings, self._cluster, self._config
        check_names(settings)
        source = cluster.describe(settings.input.topic)
        check_input(source)
        for attachment in self._attachments.all:
            attachment.check(source)
        newest = next(self._checkpoints.snapshots(), None)
        known = newest.configuration["points"]["dimension"] if newest else 0
        if known != config.points.dimension:
            check_dimension(config)
        if newest and not self._reset:  # its sizes are those of the kernel that it began with
            self._expected = config = config.begun_with(newest.configuration)
        partitions = len(source.partitions)
        check_memory(config, partitions, self._memory_limit)
        labels = config.points.labels
        if len(labels) == 2:
            log.info("labels", negative=labels[0], positive=labels[1])
        log.info(
            "coreset_memory",
            points=config.coreset.kept_points,
            partitions=partitions,
            most_bytes=config.coreset.largest_bytes(config.points, partitions),
            limit_bytes=self._memory_limit,
            # The next one is written before the oldest is removed.
            checkpoint_bytes=(constants.CHECKPOINTS + 1) * config.coreset.checkpoint_bytes(config.points, partitions),
        )
        if few := few_points(config):
            what, remedy = few
            log.warning("few_points", what=what, remedy=remedy)
        specs = output_topics(settings)
        self._made += cluster.create(specs)
        described = {spec.name: cluster.describe(spec.name) for spec in specs}
        self._outputs = {name: found.topic_id for name, found in described.items()}
        if not cluster.embedded:
            for what, remedy in check_output(settings, described):
                log.warning("output_topic", what=what, remedy=remedy)
        for attachment in self._attachments.all:
            attachment.fit(described, partitions)
        check_message_size(config, described[settings.output.models_topic], cluster.max_message_bytes, partitions)
        dead_letters.fit(described[settings.input.dead_letters], cluster.max_message_bytes)

    def _look(self) -> None:
        """Refuse the start, if necessary, before anybody is fenced."""
        self._found, self._looked_at = None, self._clock.monotonic()
        with suppress(TransientError):  # a transaction that a kill left open hides the head until it is fenced
            found = self._session.look()
            self._decide(self._input(), found)
            self._found = found

    def _decide(self, topic: TopicInfo, found: KnownPointers) -> Begin | Resume:
        self._epochs.clear()  # the log may have changed since they were read
        for attachment in self._attachments.all:
            attachment.found(topic, found)
        present = Present(
            name=self._settings.name,
            topic=topic.name,
            topic_id=topic.topic_id or "",
            configuration=self._config.canonical(),
            configuration_sha256=self._config.learned_sha256(),
            log={partition: self._cluster.log_range(topic.name, partition) for partition in topic.partitions},
            head=found.head,
            reset=self._reset,
            on_gap=self._settings.input.on_gap,
            checkpoints=str(self._settings.checkpoint.directory.absolute()),
        )
        present = self._attachments.present(present, topic)
        return decide(self._candidates(present), present)

    def _candidates(self, present: Present) -> Iterator[Candidate]:
        for read in self._attachments.ordered(self._checkpoints.snapshots(), present):
            held = self._attachments.candidate(read, present)
            snapshot, unfit = with_recipe(held, self._config, present.head)
            if snapshot is not held:
                self._carried = snapshot.configuration
            models = self._config.begun_with(snapshot.configuration)
            epochs = self._epochs_at(present, places(snapshot, present.head))
            yield Candidate(snapshot, epochs, models.canonical(), models.learned_sha256(), read, unfit)

    def _epochs_at(self, present: Present, wanted: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Return the leader epochs of records that the log still holds."""
        found = {}
        for place in wanted:
            partition, offset = place
            first, end = present.log.get(partition, (0, 0))
            # A record that retention took cannot be compared; that is no gap, as long as what comes next is there.
            if not first <= offset < end:
                continue
            # Several checkpoints ask for the same records, and each question is a read from the broker.
            if place not in self._epochs:
                self._epochs[place] = self._cluster.leader_epoch(present.topic, partition, offset)
            epoch = self._epochs[place]
            if epoch is not None:
                found[place] = epoch
        return found

    def _restored(self, begun: Begin | Resume, topic: TopicInfo) -> Started:
        if isinstance(begun, Begin):
            if begun.gap:
                log.warning(
                    "begun_anew",
                    why=begun.gap,
                    incarnation=begun.incarnation,
                    remedy="no action needed: input.on_gap = reset asks for this",
                )
            if begun.changed:
                why = f"nothing was learned or published yet, but {begun.changed}"
                log.warning(
                    "begun_anew", why=why, incarnation=begun.incarnation, remedy="no action needed: nothing was lost"
                )
            starts = self._cluster.starts(topic.name, topic.partitions, self._settings.input.start)
            base = {partition: Position(offset) for partition, offset in sorted(starts.items())}
            return Started(
                topic=topic,
                base=base,
                learner=Learner(self._config, base, self._settings.training.every_leaves),
                waiting=None,
                sequence=0,
                settings=self._settings,
            )
        if begun.reset_ignored:
            ended = max(begun.snapshot.incarnation, begun.head.incarnation if begun.head else 0)
            token = reset_token(self._settings.name, ended)
            log.warning("reset_ignored", given=self._reset, remedy=RESET_REMEDY + token)
        snapshot = begun.snapshot
        if begun.passed_over:
            log.warning("checkpoint_passed_over", why=begun.passed_over, sequence=snapshot.sequence)
            self._checkpoints.reject_newer_than(snapshot)
        # Learner that were added after the newest version are ignored while the log is replayed: the replay must
        # reach exactly the cut that this version was trained on, with the same partitions. The first topic check after
        # the replay adds them.
        added = self._cluster.starts(topic.name, self._delivery.published_cut.keys() - snapshot.base.keys(), "earliest")
        grown = {partition: Position(first) for partition, first in added.items()} | dict(snapshot.base)
        base = dict(sorted(grown.items()))
        settings = self._settings.begun_with(snapshot.configuration)
        if settings.recipe != self._settings.recipe:
            log.info(
                "older_zone_rules",
                what="this machine has other rules of time zones than those that the checkpoint began with",
                remedy="no action needed: the trainer continues with the rules of the checkpoint",
            )
        config = settings.models()
        if changes := configuration_differences(snapshot.configuration["svm"], config.canonical()["svm"], "svm"):
            log.info(
                "trained_otherwise",
                changes=changes,
                remedy="no action needed: what was learned stays, and the next version is trained with these options",
            )
        if snapshot.configuration is self._carried:
            come, go = columns_changed(config)
            log.info(
                "columns_changed",
                added=come,
                dropped=go,
                incarnation=snapshot.incarnation,
                remedy="no action needed: kept rows and sums are carried over; versions have these columns from the "
                "next one on, which comes when a leaf is full, or at once where columns only go and rows came since",
            )
        learner = Learner(config, base, settings.training.every_leaves)
        # Into a learner that already has the partitions of the newest version: the checkpoint may know fewer.
        learner.restore(snapshot.learner)
        if snapshot.configuration is self._carried and not columns_changed(config)[0]:
            learner.call_for_cut()  # of columns that came there is nothing to learn yet
        pending = snapshot.pending
        waiting = None
        if pending is not None and self._delivery.admits(pending.positions):
            waiting = TakenCut(pending.partitions, config) if isinstance(pending, LearnerState) else pending
        if pending is not None and waiting is None and not precedes(pending.positions, self._delivery.published_cut):
            learner.call_for_cut()  # this cut cannot be published any more: make a new one from its leaves
        read_to = {p: reads_on(snapshot, p, *self._cluster.log_range(topic.name, p)) for p in snapshot.read_to}
        return Started(
            topic=topic,
            base=base,
            learner=learner,
            waiting=waiting,
            sequence=self._checkpoints.newest_sequence,
            settings=settings,
            read_to=read_to,
        )


def foreseen(snapshot: Snapshot, settings: Settings) -> list[str]:
    """Return in lines what a start with other options would change of what a checkpoint holds.

    Raises
    ------
    StateError
        If it would be refused.
    """
    goes_on, unfit = with_recipe(snapshot, settings.models(), None)
    now = settings.models().begun_with(goes_on.configuration)
    learned = learned_part(goes_on.configuration), learned_part(now.canonical())
    if why := unfit or "; ".join(configuration_differences(*learned)):
        token = reset_token(settings.name, snapshot.incarnation)
        raise StateError(f"a start would be refused: {why}", f"Set it back, or begin anew with --reset {token}.")
    rows = sum(state.learned.rows for state in snapshot.learner.partitions.values())
    lines = [f"{rows:,} rows stay learned; none is read again"]
    if goes_on is not snapshot:
        added, dropped = columns_changed(now)
        lines.append(f"columns that come, which earlier rows lack: {', '.join(added) or 'none'}")
        lines.append(f"columns that go: {', '.join(dropped) or 'none'}")
        lines.append(
            f"a new incarnation, {goes_on.incarnation}, from the positions of the checkpoint on; numbers go on"
        )
    lines += configuration_differences(snapshot.configuration["svm"], now.canonical()["svm"], "svm")
    if len(lines) == 1:
        lines.append("nothing would change")
    elif goes_on is snapshot:
        lines.append("the next version comes at once")
    return lines


def columns_changed(config: ModelConfig) -> tuple[list[str], list[str]]:
    """Return names of the columns that came with the newest change of a recipe, and of those that went."""
    was, now = (set(one.points.feature_names) for one in history_of(config)[-2:])
    return sorted(now - was)[:MOST_NAMED], sorted(was - now)[:MOST_NAMED]


class _Checkpoints:
    """The checkpoints of a directory; each is read once, when it is first needed."""

    def __init__(self, directory: CheckpointDirectory, where: str, recalled: Callable[[Snapshot], Snapshot]) -> None:
        self._directory = directory
        self._recalled = recalled
        self._where = where
        self._unread = directory.generations()
        self._read: list[tuple[str, Snapshot]] = []
        self._faults: list[str] = []
        self._remedies: list[str] = []

    @property
    def newest_sequence(self) -> int:
        """The highest sequence number among the checkpoints read."""
        return max((snapshot.sequence for _, snapshot in self._read), default=0)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the valid checkpoints, the newest first.

        Raises
        ------
        StateError
            If there are checkpoint files, but none of them is valid.
        """
        at = 0
        # Lazily: the newest checkpoint is nearly always the one, and others may be large.
        while at < len(self._read) or self._read_one():
            yield self._read[at][1]
            at += 1
        if self._faults and not self._read:
            raise StateError(
                f"no checkpoint in {self._where} can be used: {'; '.join(self._faults)}",
                next(filter(None, self._remedies), RESTORE_REMEDY),
            )

    def reject_newer_than(self, chosen: Snapshot) -> None:
        """Mark the checkpoints that are newer than the chosen one as unusable."""
        for name, snapshot in self._read:
            if snapshot is chosen:
                return
            self._directory.reject(name)

    def _read_one(self) -> bool:
        for generation in self._unread:
            if generation.snapshot is not None:
                self._read.append((generation.name, self._recalled(generation.snapshot)))
                return True
            self._faults.append(f"{generation.name}: {generation.fault}")
            self._remedies.append(generation.remedy)
            remedy = {"remedy": generation.remedy} if generation.remedy else {}
            log.warning("checkpoint_unusable", file=generation.name, why=generation.fault, **remedy)
        return False


def _after(begun: Begin | Resume) -> tuple[int, Head | None]:
    """Return the incarnation that publishes, and the head that its first version follows."""
    if isinstance(begun, Begin):
        return begun.incarnation, begun.head
    return begun.snapshot.incarnation, begun.head


def check_dimension(config: ModelConfig) -> None:
    """Refuse to begin with more features than this method is for.

    Raises
    ------
    ConfigurationError
    """
    d, most = config.points.dimension, MOST_FEATURES
    if d > most:
        raise ConfigurationError(
            f"points.dimension is {d}, but above {most} dense features nothing here is right: a point takes "
            f"{config.points.point_bytes} bytes, a bucket wants {15 * d} of them, and a pilot's time grows with the "
            "cube of the features",
            "Hash or select features to fewer ([features] does), or train SGDClassifier or Vowpal Wabbit, which take "
            "sparse rows.",
        )


def check_memory(config: ModelConfig, partitions: int, limit: int | None) -> None:
    """Refuse coresets that do not fit into the container.

    Raises
    ------
    ConfigurationError
    """
    if why := shortage(config, partitions, limit):
        raise ConfigurationError(
            why,
            "Give the container more memory, or lower coreset.points. The option is part of a model's configuration: "
            "an existing model must begin anew.",
        )


def few_points(config: ModelConfig) -> tuple[str, str] | None:
    """Return what a model loses where a partition has few points for its features, and what to do."""
    own, least = config.coreset.kept_points, LEAST_POINTS_A_FEATURE * (config.points.dimension + 1)
    if own >= least:
        return None
    return (
        f"each partition has {own} points (coreset.points), few for {config.points.dimension} features: the model can "
        "be no better than one trained on a reservoir sample of the same memory",
        f"Raise coreset.points to {least}. The option is part of a model's configuration: an existing model must begin "
        "anew.",
    )
