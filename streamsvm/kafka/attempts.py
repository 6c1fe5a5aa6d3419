"""The stamp on every record of a transaction: which attempt wrote the record, and which part of the attempt it is.

Kafka tells a reader that a record is committed. It does not tell which other records were committed with it. After a
broker lost the markers of a decided transaction in some partitions, and only in some, that is the question: the stamp
answers it. A record that is published again to complete an attempt keeps the stamp of that attempt.

The value of the header `HEADER` is ``ATTEMPT PART/PARTS ID``: a name that no other attempt has, the number of the part
counted from 1, the number of parts (``?`` in records that were sent before it was known), the transactional id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamsvm.kafka.records import Message

HEADER: Final = "streamsvm.transaction"
"""Readers may look at it, and need not."""

_UNKNOWN: Final = "?"
_TEXT: Final = re.compile(r"(\S{1,200}) ([0-9]{1,7})/([0-9]{1,7}|\?) (\S.{0,400})")


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which part of which attempt a record is.

    Attributes
    ----------
    attempt : str
        Names the attempt; no other attempt of any process has the name.
    part : int
        From 1.
    parts : int
        How many records the attempt has; 0 if the record was sent before that was known.
    transactional_id : str
    """

    attempt: str
    part: int
    parts: int
    transactional_id: str

    @classmethod
    def of(cls, headers: Sequence[tuple[str, bytes]]) -> Stamp | None:
        """Return the stamp of a record; None if it has none, or one that another program wrote and nobody can read."""
        for name, value in headers:
            if name == HEADER:
                found = _TEXT.fullmatch(value.decode("utf-8", "replace"))
                if found is None:
                    return None
                attempt, part, parts, transactional_id = found.groups()
                return cls(attempt, int(part), 0 if parts == _UNKNOWN else int(parts), transactional_id)
        return None

    @property
    def header(self) -> tuple[str, bytes]:
        """The header that carries the stamp."""
        return HEADER, f"{self.attempt} {self.part}/{self.parts or _UNKNOWN} {self.transactional_id}".encode()


def stamped(messages: Sequence[Message], attempt: str, transactional_id: str, first: int, parts: int) -> list[Message]:
    """Return messages with stamps.

    Parameters
    ----------
    messages : sequence of Message
        A message that has a stamp keeps it.
    attempt, transactional_id : str
    first : int
        The number of the first message.
    parts : int
        How many parts the attempt has; 0 if that is not known yet.
    """
    return [
        message
        if Stamp.of(message.headers) is not None
        else replace(message, headers=(*message.headers, Stamp(attempt, first + place, parts, transactional_id).header))
        for place, message in enumerate(messages)
    ]
