"""Who is at fault for an exception: the bytes of a record, or the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamsvm.errors import InvalidPoint, StreamsvmError
from streamsvm.ingest.row import excerpt


@contextmanager
def blaming_the_record() -> Iterator[None]:
    """Turn every exception that a record's bytes cause in a decoder into a rejection.

    Raises
    ------
    InvalidPoint
    MemoryError
        Unchanged, because it does not depend on the record alone.
    """
    try:
        yield
    except (StreamsvmError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001
        raise undecodable(error) from None


def undecodable(error: Exception) -> InvalidPoint:
    """Return the rejection for an exception that nobody expected."""
    what = " ".join(str(error).split())
    return InvalidPoint("undecodable", f"{type(error).__name__}: {excerpt(what)}")
