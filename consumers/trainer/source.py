"""Where a trainer's rows come from: the socket for the input topic, or for what a branch puts in its place.

`consumers.trainer.intake.Intake` is the trunk's source. Branches have others: rows that were joined with labels, and
rows that other processes learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.delivery.reading import Ends
from streamsvm.ingest.row_builder import RejectedRecord
from streamsvm.points import Positions


class Source(Protocol):
    """Brings rows, or what other processes learned of rows, into a pipeline, in one life of a trainer."""

    @property
    def waits_for_schema(self) -> bool:
        """Whether records were read that cannot be decoded yet."""

    @property
    def nothing_valid(self) -> bool:
        """Whether records were rejected and none was ever valid: no position may be kept then."""

    @property
    def newest_rejected(self) -> RejectedRecord | None:
        """The record that was rejected last; None before the first, or if other processes decode."""

    @property
    def ends(self) -> Ends:
        """Where each partition's end was last met; None where that is not known here."""

    @property
    def high_watermarks(self) -> Mapping[int, int | None]:
        """The offset after each partition's last record that can be read, as far as known."""

    @property
    def ahead(self) -> Mapping[int, int]:
        """The offset before which each partition holds nothing that is still to be learned."""

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read on from these offsets, and nothing else."""

    def read(self, most: int, timeout_s: float) -> int:
        """Take in what is there; return how much came, `most` where there may be more.

        Raises
        ------
        LogGap
            If a topic is gone.
        ConfigurationError
            If so much is rejected that this is plainly the wrong stream.
        """

    def hold(self) -> None:
        """Read nothing this time, and keep connections alive."""

    def release(self) -> None:
        """Read again from now on."""

    def refresh(self, *, may_train: bool) -> None:
        """Bring in what was learned elsewhere, if it is time to."""

    def look(self) -> None:
        """Look after others who read, and after topics beside the input; raises as `read` does."""

    def surveyed(self) -> tuple[Positions, Positions]:
        """Return where learning stands in each partition of the input, and where reading does."""

    def admit(self, added: Mapping[int, int]) -> None:
        """Raise if partitions that were added to the input cannot be taken up; called before they are.

        Raises
        ------
        LogGap
        """

    def confirm(self) -> None:
        """Return if all that was learned of topics beside the input is of those that this life began with.

        Raises
        ------
        Recreated, LogGap, TransientError, ConfigurationError
            As of `consumers.streams.identity.TopicIdentity.confirm`.
        """

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with what a checkpoint must hold of this source, too."""

    def measure(self) -> None:
        """Set the gauges that only this source has."""

    def poll_letters(self) -> None:
        """Serve the client of dead letters; raises what failed to be delivered."""

    def flush(self, timeout_s: float) -> None:
        """Return when every dead letter is acknowledged; raises if that takes too long."""

    def show_progress(self) -> None:
        """Commit group offsets, for observers."""

    def end(self) -> None:
        """Read nothing more."""


class InputOnly:
    """What sources do alike that read no topic beside the input, and keep nothing that a checkpoint holds."""

    def refresh(self, *, may_train: bool) -> None:
        """Bring in what was learned elsewhere: nothing is."""

    def look(self) -> None:
        """Look after others: there are none."""

    def admit(self, added: Mapping[int, int]) -> None:
        """Take up whatever was added."""

    def confirm(self) -> None:
        """Confirm nothing: the input is looked after elsewhere."""

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """Add nothing."""
        return snapshot

    def measure(self) -> None:
        """Set no gauge."""

    def end(self) -> None:
        """Read nothing more: only `read` reads, so there is nothing to do."""
