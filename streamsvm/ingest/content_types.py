"""Which format a record has: what its header `content-type` says, or the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from streamsvm.ingest.arrow_stream import CONTENT_TYPE as ARROW

CONTENT_TYPES: Final[Mapping[str, str]] = {
    "application/json": "json",
    "text/json": "json",
    ARROW: "arrow",
    "application/avro": "avro",
    "avro/binary": "avro",
    "application/vnd.confluent.avro": "avro",
}
"""Formats by what the header `content-type` says, parameters aside; without the header a record is JSON."""
CONTENT_TYPE_HEADER: Final = "content-type"


def format_of(headers: Sequence[tuple[str, bytes]]) -> str:
    """Return the format that a record's headers name; empty if it is not supported."""
    for name, content in headers:
        if name.lower() == CONTENT_TYPE_HEADER:
            return _format_of(content)
    return "json"


@lru_cache(maxsize=64)
def _format_of(content: bytes) -> str:
    bare = content.decode("latin-1").partition(";")[0].strip().lower()
    return CONTENT_TYPES.get(bare, "json" if bare.endswith("+json") else "")
