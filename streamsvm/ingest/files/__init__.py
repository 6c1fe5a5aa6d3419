"""Points from files, batch by batch: CSV, JSON lines and Parquet. Not from Kafka.

Opening a `PointSource` reads its schema; afterwards it can be read any number of times. Reading takes memory for one
batch, not for the file; the exception, `shuffled`, says so.

Invariants: every batch holds finite float64 features of one dimension; labels that are whole numbers, text or booleans;
and weights that a record may have. A file that violates this raises one error, which names the file, the row and the
column. Messages count rows from 1, without blank lines and the header.

Numbers and labels are read in the same way everywhere in a file:

- a label that is a whole number is an integer, however it is written (``1``, ``+1``, ``1.0``); any other number is
  refused;
- a CSV has no types, so a cell that can be read as a number is a number; spaces around a cell are ignored;
- an identifier is kept as written: text in a CSV, text or an integer in other formats.
"""

from streamsvm.ingest.files.array_files import from_arrays, shuffled
from streamsvm.ingest.files.opening import open_source
from streamsvm.ingest.files.source import Column, Format, Id, OnIncomplete, PointSource, SourceBatch

__all__ = [
    "Column",
    "Format",
    "Id",
    "OnIncomplete",
    "PointSource",
    "SourceBatch",
    "from_arrays",
    "open_source",
    "shuffled",
]
