"""What sources do alike that take in no records of the input: rows of files, or what other processes learned."""

from __future__ import annotations

from collections.abc import Mapping

from consumers.trainer.source import InputOnly
from streamsvm.delivery.reading import Ends, Reading
from streamsvm.ingest.row_builder import RejectedRecord


class Recordless(InputOnly):
    """A source without a client of the input: whoever reads that waits for schemas, writes letters and shows progress.

    Parameters
    ----------
    reading : Reading
    """

    newest_rejected: RejectedRecord | None = None

    def __init__(self, reading: Reading) -> None:
        self._whole = reading

    @property
    def waits_for_schema(self) -> bool:
        """No record waits for a schema here."""
        return False

    @property
    def nothing_valid(self) -> bool:
        """Whatever is invalid is kept by no position here."""
        return False

    @property
    def ends(self) -> Ends:
        """Not known here."""
        return dict.fromkeys(self._whole.learner.positions)

    @property
    def high_watermarks(self) -> Mapping[int, int | None]:
        """Not known here."""
        return dict.fromkeys(self._whole.learner.positions)

    @property
    def ahead(self) -> Mapping[int, int]:
        """The offset before which each partition holds nothing that is still to be learned."""
        return self._whole.ahead

    def hold(self) -> None:
        """Read nothing this time."""

    def release(self) -> None:
        """Nothing was paused."""

    def poll_letters(self) -> None:
        """Letters are written elsewhere, or at once."""

    def show_progress(self) -> None:
        """There is no group to show it in, or it is shown elsewhere."""
