"""The record of erased rows in the aliases topic: places of rows that no version or checkpoint may be made of.

A row at an erased place counts as one that was rejected when it came, but no dead letter is written. Only places stand
here, nothing of what stood at them. The topic is compacted and kept for ever, and every start reads it: so a trainer on
another machine, a start from scratch and `verify` all leave the same rows out.

Whatever claims to be made without the rows (a checkpoint, a version) names the SHA-256 of the record that it obeys.
No number says so: other programs raise numbers, too.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from streamsvm.model.left_out import LeftOutDecoder
from streamsvm.model.pointers import decode_record
from streamsvm.places import Count, Offset, Partition, Row
from streamsvm.points import Position

MOST = 10_000
"""Rows that one record may name: about 300 kB, which every topic and client takes."""


class Erased(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rows of an input that a model must not know.

    Attributes
    ----------
    topic, topic_id : str
        The input. Rows of a topic that was recreated since are other rows.
    incarnation : int
        The newest incarnation that had learned when rows were erased last. What is learned without the rows is of a
        later one.
    continues : int
        The incarnation whose newest version the next one continues: nothing is published before its cut is reached
        again. 0: the next incarnation publishes from its beginning.
    rows : tuple of (int, int, int, int)
        Partition, offset, row, and the number of the newest version when the row was erased. That version and those
        before it may be of the row; later ones are not.
    """

    topic: str
    topic_id: str
    incarnation: Count
    continues: Count
    rows: tuple[tuple[Partition, Offset, Row, Count], ...]

    @property
    def sha256(self) -> str:
        """The hash by which checkpoints and versions name this record."""
        return sha256(encode_erased(self)).hexdigest()

    def rows_sha256(self, count: int) -> str:
        """Return the SHA-256 of the first rows; a later record begins with all rows of the one before it."""
        return sha256(msgspec.json.encode(self.rows[:count])).hexdigest()

    def is_of(self, topic: str, topic_id: str) -> bool:
        """Return whether the rows are of this topic, not of another one of the same name."""
        return (self.topic, self.topic_id) == (topic, topic_id)

    def places(self, before: int | None = None) -> dict[int, frozenset[Position]]:
        """Return the places by partition.

        Parameters
        ----------
        before : int, optional
            Only of rows that were erased before the version with this number was published.
        """
        found: dict[int, set[Position]] = {}
        for partition, offset, row, newest in self.rows:
            if before is None or newest < before:
                found.setdefault(partition, set()).add(Position(offset, row))
        return {partition: frozenset(own) for partition, own in found.items()}

    def since(self, number: int) -> dict[int, frozenset[Position]]:
        """Return the places of rows that were erased when a version was there already, by partition."""
        earlier = self.places(number)
        every = {partition: own - earlier.get(partition, frozenset()) for partition, own in self.places().items()}
        return {partition: own for partition, own in every.items() if own}


def encode_erased(erased: Erased) -> bytes:
    """Encode the record's value."""
    return msgspec.json.encode(erased)


def decode_erased(value: bytes) -> Erased:
    """Decode the record's value; `InvalidMessage` if it is not one."""
    return decode_record(value, Erased)


READER: Final = LeftOutDecoder(decode_erased)
