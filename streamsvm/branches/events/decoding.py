"""Raw events at the socket of decoders.

Invariant: nothing that decodes is loaded before it is asked for: a trainer of points takes only the reasons from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec

from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of
from streamsvm.config import PointsConfig
from streamsvm.field_paths import shown, unreadable
from streamsvm.ingest.decoding import Decoding, Markers, PointsGiven, RecordDecoder, RejectionReason
from streamsvm.ingest.schemas import Schemas
from streamsvm.supports import require

if TYPE_CHECKING:
    from streamsvm.ingest.files.source import Format, OnIncomplete, PointSource


class EventDecoding(Decoding):
    """Decodes raw events by a `Recipe`."""

    passed_over: ClassVar[Mapping[str, str]] = {
        "tombstone": "a record without a value, or an envelope with none",
        "truncate": "a table was emptied",
        "message": "a message that a database's log holds",
    }

    reasons: ClassVar[Mapping[str, RejectionReason]] = {
        "wrong_envelope": RejectionReason(
            "the value does not have the envelope that events.envelope declares",
            "Set events.envelope to what the producer writes, or fix the producer. A scorer goes by the version.",
        ),
    }

    def decodes(self, recipe: object) -> bool:
        """Return whether a recipe is one of raw events."""
        return isinstance(recipe, Recipe)

    def decoder(self, recipe: Recipe, config: PointsConfig, *, labeled: bool, schemas: Schemas | None) -> RecordDecoder:
        """Return the decoder of a configuration."""
        from streamsvm.branches.events.event_records import events_of_records

        return events_of_records(recipe, config, labeled=labeled, schemas=schemas)

    def warm_up(self, config: PointsConfig) -> None:
        """Compile, or load from numba's file cache, what a decoder of a configuration runs."""
        from streamsvm.branches.events import event_scan, field_slots

        field_slots.warm_up()
        if config.format in ("auto", "json"):
            event_scan.warm_up()

    def given(self, features: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
        """Return the recipe of a version, of the table `[features]`, or of a configuration file."""
        from streamsvm.branches.events.estimating import recipe_given

        return recipe_given(features)

    def points_given(self, rows: Any, y: Any, recipe: Recipe) -> PointsGiven:
        """Return events as points."""
        from streamsvm.branches.events.estimating import points_given

        return points_given(rows, y, recipe)

    def labels_of(self, recipe: Recipe) -> tuple[Any, ...] | None:
        """Return the labels that scores carry; None of events without a label."""
        label = recipe.label
        return None if label is None else label.classes

    def without_labels(self, recipe: Recipe) -> Recipe:
        """Return a recipe of events without a label."""
        return msgspec.structs.replace(recipe, label=None)

    def model_options(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return `features`."""
        return {"features": recipe}

    def points_options(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return what follows from a recipe."""
        return points_of(recipe)

    def rows_in(
        self,
        path: Path,
        format_: Format,
        recipe: Recipe | None,
        delimiter: str | None,
        markers: Markers,
        *,
        unlabeled: bool,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file as events, which are sent as they are."""
        from streamsvm.branches.events.event_files import events_in

        label = None if recipe is None else recipe.label
        require({"--unlabeled": unlabeled, "events.label": label})
        require({"--events": True, "events.envelope": None if recipe is None else recipe.envelope})
        events = events_in(path, format_, recipe, delimiter, markers)
        if format_ == "parquet":
            events = _readable(path, events)
        if not unlabeled or label is None:
            return events
        hidden = label.field[0]
        return ({name: value for name, value in event.items() if name != hidden} for event in events)

    def source(
        self,
        path: Path,
        format_: Format,
        recipe: Recipe,
        *,
        delimiter: str | None,
        on_incomplete: OnIncomplete | None,
        dtype: Literal["float32", "float64"],
        markers: Markers,
    ) -> PointSource:
        """Return a file of raw events as points."""
        from streamsvm.branches.events.event_files import event_source

        return event_source(
            path, format_, recipe, delimiter=delimiter, on_incomplete=on_incomplete, dtype=dtype, markers=markers
        )


def _readable(path: Path, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from streamsvm.ingest.files.faults import bad_cell

    for row, event in enumerate(events):
        for field, why in unreadable(event):
            raise bad_cell(path, row, shown(field), why, "Correct the column, or leave it out of the file.")
        yield event


EVENTS: Final = EventDecoding()
