"""From the bytes of a record, or a file, to rows: formats, bounds, rejections, and records of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.ingest import (
        arrow as arrow,
        arrow_stream as arrow_stream,
        avro as avro,
        dead_letter as dead_letter,
        decoder as decoder,
        json_rows as json_rows,
    )
    from streamsvm.ingest.arrow_stream import field as field
    from streamsvm.ingest.avro import AvroReader as AvroReader, AvroWriter as AvroWriter
    from streamsvm.ingest.dead_letter import (
        DecodedDeadLetter as DecodedDeadLetter,
        Receipt as Receipt,
        RejectedRow as RejectedRow,
        decode as decode,
    )
    from streamsvm.ingest.decoder import (
        REASONS as REASONS,
        REMEDIES as REMEDIES,
        Decoded as Decoded,
        PointDecoder as PointDecoder,
    )
    from streamsvm.ingest.decoding import Absences as Absences, Markers as Markers
    from streamsvm.ingest.files.array_files import from_arrays as from_arrays
    from streamsvm.ingest.files.opening import open_source as open_source
    from streamsvm.ingest.files.source import Format as Format, PointSource as PointSource
    from streamsvm.ingest.framed import FRAME as FRAME, SCHEMA_HEADER as SCHEMA_HEADER
    from streamsvm.ingest.json_rows import DEEPEST_NESTING as DEEPEST_NESTING, encode as encode
    from streamsvm.ingest.label_records import (
        WATERMARK_HEADER as WATERMARK_HEADER,
        LabelDecoder as LabelDecoder,
        is_watermark as is_watermark,
    )
    from streamsvm.ingest.row import (
        LARGEST_FEATURE as LARGEST_FEATURE,
        LARGEST_WEIGHT as LARGEST_WEIGHT,
        SMALLEST_WEIGHT as SMALLEST_WEIGHT,
        Point as Point,
    )
    from streamsvm.ingest.row_builder import RejectedRecord as RejectedRecord, Rejection as Rejection
    from streamsvm.ingest.schemas import Schemas as Schemas
    from streamsvm.ingest.scored import BatchScorer as BatchScorer, label_of as label_of, scores_of as scores_of
    from streamsvm.ingest.unread_fields import (
        MOST_FIELDS as MOST_FIELDS,
        Unread as Unread,
        UnreadFields as UnreadFields,
    )

__getattr__ = on_first_use(__name__, __file__)
