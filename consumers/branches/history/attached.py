"""History in a trainer: rows that were erased are passed over, and older checkpoints are kept for later erasures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from consumers.branches.history.settings import KeptCheckpoints
from consumers.streams.topics import KnownPointers
from consumers.trainer.attachment import Attachment, World
from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.erased_part import Obeyed, obeyed_of, obeying
from streamsvm.branches.history.erasure import emptied, lacks, obeys, remove_disobedient
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.delivery.decision import Begin, Present, Resume
from streamsvm.delivery.machine import Continued
from streamsvm.errors import StateError
from streamsvm.kafka import TopicInfo
from streamsvm.learning.recipe import Origin
from streamsvm.model.left_out import LeftOut, Places, left_out_key
from streamsvm.sections import section


class History(Attachment):
    """Erased rows, and kept checkpoints.

    Parameters
    ----------
    world : World
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._erased: LeftOut | None = None
        self._obeyed: Obeyed | None = None
        self._generations: Sequence[Snapshot] = ()
        self._rows: dict[tuple[int, int], int] = {}

    def found(self, topic: TopicInfo, pointers: KnownPointers) -> None:
        """Take in which rows of the input were erased."""
        erased = pointers.erased
        self._erased = erased if erased is not None and erased.is_of(topic.name, topic.topic_id or "") else None

    def ordered(self, snapshots: Iterable[Snapshot], present: Present) -> Iterable[Snapshot]:
        """Let checkpoints that obey the record come first: one that may hold the rows is only a place to begin."""
        erased = self._erased
        if erased is None:
            return snapshots
        self._generations = tuple(snapshots)
        return sorted(self._generations, key=lambda read: read.name == present.name and not obeys(read, erased))

    def candidate(self, snapshot: Snapshot, present: Present) -> Snapshot:
        """Return a checkpoint without the rows.

        Raises
        ------
        StateError
            If it names a record of erased rows where the topic has none.
        """
        erased = self._erased
        read = snapshot
        if erased is not None and snapshot.name == present.name:
            from consumers.branches.history.earlier import earlier_of, fits_log, past_of

            settings, cluster = self.world.settings, self.world.components.cluster
            earlier = earlier_of(settings, past_of(settings), self._generations)
            read = emptied(snapshot, erased, present.head, earlier, partial(fits_log, cluster))
        _refuse_without_record(read, present, erased)
        return read

    def begun(self, begun: Begin | Resume, topic: TopicInfo) -> None:  # noqa: ARG002
        """Take in under which record the checkpoint was made that goes on; none is kept of what was given up."""
        if isinstance(begun, Begin) or self._keep_bytes is None:
            self._remove_kept()
        if self._erased is None:
            self._obeyed = None
        elif isinstance(begun, Resume):
            self._obeyed = obeyed_of(begun.snapshot)
        else:
            assert isinstance(self._erased, Erased)
            self._obeyed = Obeyed.of(self._erased, 0)

    @property
    def _keep_bytes(self) -> int | None:
        return section(self.world.settings, KeptCheckpoints).keep_bytes

    def _remove_kept(self) -> None:
        place = self.world.settings.checkpoint.directory
        if place.is_dir() and any(place.glob("*.kept")):
            from consumers.branches.history.earlier import past_of

            past_of(self.world.settings).remove_unless(lambda _: False)

    @property
    def continues(self) -> Continued:
        """The incarnation whose newest version, which may be of the rows, this one continues and replaces at once."""
        if self._obeyed is None:
            return Continued()
        why = f"rows of the input were erased (record {self._obeyed.sha256}), and the version before it may be of them"
        return Continued(self._obeyed.continues, why)

    def left_out(self) -> Places:
        """Return the erased rows."""
        return {} if self._erased is None else self._erased.places()

    def origin(self, origin: Origin) -> Origin:
        """Let a version name the record that it was made under."""
        if self._obeyed is None:
            return origin
        return replace(origin, facts=(*origin.facts, WithoutRows(sha256=self._obeyed.sha256)))

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """Say under which record the checkpoint was made."""
        if self._keep_bytes is not None:
            rows = sum(state.learned.rows for state in snapshot.learner.partitions.values())
            self._rows[snapshot.incarnation, snapshot.sequence] = rows
        return obeying(snapshot, self._obeyed)

    def _rows_of(self, name: str) -> int | None:
        """Return how many rows a checkpoint of this process has learned, which is asked once; None of another one's."""
        _, incarnation, _, sequence = name.removesuffix(".ssvm").split("-")
        return self._rows.pop((int(incarnation), int(sequence)), None)

    def began(self, checkpoints: CheckpointDirectory) -> None:
        """Remove what may hold erased rows, and keep the checkpoints that are retired from now on."""
        settings, erased, most = self.world.settings, self._erased, self._keep_bytes
        if erased is not None:
            remove_disobedient(checkpoints, erased, settings.name)
            self.world.components.metrics.put("streamsvm_erasure", len(erased.rows), what="rows")
        if most is None:
            return
        from consumers.branches.history.earlier import past_of

        checkpoints.retire = lambda disk, name: past_of(settings, disk).keep(name, most, self._rows_of(name))
        if erased is not None:
            assert isinstance(erased, Erased)
            past_of(settings).remove_unless(partial(lacks, erased=erased))

    def turn(self) -> None:
        """Note whether the newest version may still be of erased rows."""
        if self._erased is not None:
            delivery = self.world.delivery
            waits = delivery.head is not None and delivery.head.incarnation != delivery.incarnation
            self.world.components.metrics.put("streamsvm_erasure", float(waits), what="waits")


def _refuse_without_record(snapshot: Snapshot, present: Present, erased: LeftOut | None) -> None:
    """Refuse a checkpoint that names a record of erased rows where the topic has none.

    Raises
    ------
    StateError
    """
    own = obeyed_of(snapshot)
    found, wanted = (present.name, present.topic, present.topic_id), (snapshot.name, snapshot.topic, snapshot.topic_id)
    of_another_stream = found != wanted
    if not own or erased or of_another_stream:
        return
    raise StateError(
        f"the checkpoint{f' in {present.checkpoints}' if present.checkpoints else ''} was made under the record of "
        f"erased rows with the SHA-256 {own.sha256}, but the aliases topic holds no record "
        f"{left_out_key(present.name)}: rows that were erased would be learned",
        "Restore the aliases topic; or give streamsvm history forget the same rows once more, which writes the record "
        "anew.",
    )
