"""Raw events at the socket of decoders.

Invariant: nothing that decodes is loaded before it is asked for: a trainer of points takes only the reasons from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from streamsvm.config import PointsConfig
from streamsvm.features.recipe import Recipe
from streamsvm.ingest.decoding import Decoding, Markers, RecordDecoder, RowsRead
from streamsvm.ingest.schemas import Schemas

if TYPE_CHECKING:
    from streamsvm.ingest.files.source import Format, OnIncomplete, PointSource


class EventDecoding(Decoding):
    """Decodes raw events by a `Recipe`."""

    passed_over: ClassVar[Mapping[str, str]] = {
        "tombstone": "a record without a value, or an envelope with none",
        "truncate": "a table was emptied",
        "message": "a message that a database's log holds",
    }

    def decodes(self, recipe: object) -> bool:
        """Return whether a recipe is one of raw events."""
        return isinstance(recipe, Recipe)

    def decoder(
        self, recipe: Recipe, config: PointsConfig, *, labeled: bool, schemas: Schemas | None, envelope: str | None
    ) -> RecordDecoder:
        """Return the decoder of a configuration; the envelope is by default the recipe's."""
        from streamsvm.branches.events.event_records import events_of_records

        return events_of_records(recipe, config, labeled=labeled, schemas=schemas, envelope=envelope)

    def warm_up(self, config: PointsConfig) -> None:
        """Compile, or load from numba's file cache, what a decoder of a configuration runs."""
        from streamsvm.branches.events import event_scan, field_slots

        field_slots.warm_up()
        if config.format in ("auto", "json"):
            event_scan.warm_up()

    def read(
        self, recipe: Recipe, config: PointsConfig, rows: Sequence[Mapping[str, Any]], *, labeled: bool
    ) -> RowsRead:
        """Return events as points."""
        from streamsvm.branches.events.event_points import EventReader
        from streamsvm.ingest.row import LARGEST_FEATURE

        return EventReader(recipe, config, LARGEST_FEATURE[config.dtype], labeled=labeled).read(rows)

    def rows_in(
        self, path: Path, format_: Format, recipe: Recipe | None, delimiter: str | None, markers: Markers
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file as events."""
        from streamsvm.branches.events.event_files import events_in

        return events_in(path, format_, recipe, delimiter, markers)

    def source(
        self,
        path: Path,
        format_: Format,
        recipe: Recipe,
        *,
        delimiter: str | None,
        on_incomplete: OnIncomplete | None,
        dtype: Literal["float32", "float64"],
    ) -> PointSource:
        """Return a file of raw events as points."""
        from streamsvm.branches.events.event_files import event_source

        return event_source(path, format_, recipe, delimiter=delimiter, on_incomplete=on_incomplete, dtype=dtype)


EVENTS: Final = EventDecoding()
