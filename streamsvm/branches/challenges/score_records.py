"""Records of a scorer's output topic, read back: what was said of which row, by which version.

A score is the JSON object of `streamsvm.ingest.scored.WrittenScore`; a record holds one, or an array of them. Where a
second version is scored in the shadow, a score says what that one would have said, under `shadow`.

Invariant: no record's bytes raise, of its header, key or value. Whatever else a record holds than
scores of this model, of two labels, is counted and left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.challenges.served import COLUMNS, ServedScores
from streamsvm.config import LabelKey, PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.ingest.blaming import blaming_the_record
from streamsvm.ingest.label_codes import LabelCodes
from streamsvm.ingest.row import excerpt
from streamsvm.places import SOURCE_HEADER, Place, Row, source_of
from streamsvm.points import key_of

LARGEST_WHOLE: Final = 1 << 53
"""A larger integer is not exact as float64."""


class ScoredRecord(Protocol):
    """What is needed of a consumed record."""

    @property
    def partition(self) -> int:
        """Where it stands."""
        ...

    @property
    def offset(self) -> int:
        """Where it stands."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its bytes."""
        ...

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """Its headers."""
        ...

    @property
    def timestamp_ms(self) -> int | None:
        """When it was written."""
        ...


class _Said(msgspec.Struct):
    version: int
    score: float
    label: bool | int | str
    probability: float | None = None


class _Score(_Said):
    model: str = ""
    id: str | int | None = None
    row: Row = 0
    shadow: _Said | None = None


_ANY: Final = msgspec.json.Decoder(list[_Score] | _Score)


@dataclass(frozen=True, slots=True)
class DecodedScores:
    """The scores of a batch of records.

    Attributes
    ----------
    scores : ServedScores
    left_out : int
        Records that hold no score of this model, in part or as a whole.
    """

    scores: ServedScores
    left_out: int


class ScoreDecoder:
    """Reads scores of one model back.

    Parameters
    ----------
    config : PointsConfig
        Its labels, of which there are two, and its limits apply.
    key : "id", "record" or "place"
        By what a score is found again: the row's `id`, the record's key, or where the row stands in the input.
    name : str
        Of the model.
    topic : str
        The input of the scorer; scores of records of another topic are left out.
    """

    def __init__(self, config: PointsConfig, key: LabelKey | str, name: str, topic: str) -> None:
        self._config, self._by, self._name, self._topic = config, key, name, topic
        self._code_of = LabelCodes(config.labels).of

    def decode(self, records: Iterable[ScoredRecord]) -> DecodedScores:
        """Return the scores of records, in their order."""
        partitions: list[int] = []
        times: list[int] = []
        keys: list[bytes] = []
        said: list[tuple[float, ...]] = []
        left_out = 0
        for record in records:
            try:
                with blaming_the_record():
                    rows = self._rows(record)
            except InvalidPoint:
                left_out += 1
                continue
            for partition, key, numbers in rows:
                partitions.append(partition)
                times.append(-1 if record.timestamp_ms is None else record.timestamp_ms)
                keys.append(key)
                said.append(numbers)
            left_out += not rows
        return DecodedScores(
            ServedScores(
                partition=np.array(partitions, np.int64),
                time_ms=np.array(times, np.int64),
                keys=keys,
                said=np.array(said, np.float64).reshape(len(said), len(COLUMNS)),
            ),
            left_out,
        )

    def _rows(self, record: ScoredRecord) -> list[tuple[int, bytes, tuple[float, ...]]]:
        place = source_of(record.headers)
        if place is None:
            said = dict(record.headers).get(SOURCE_HEADER)
            raise InvalidPoint("wrong_type", f"the header {SOURCE_HEADER} is {excerpt(repr(said))}")
        if place.topic != self._topic:
            return []
        found, rows = _ANY.decode(record.value or b""), []
        for score in found if isinstance(found, list) else [found]:
            key = self._key(score, record.key, place)
            if score.model == self._name and key is not None:
                numbers = (float(place.offset), float(score.row), *self._said(score), float(place.partition))
                rows.append((place.partition, key, numbers))
        return rows

    def _key(self, score: _Score, record_key: bytes | None, place: Place) -> bytes | None:
        if self._by == "place":
            return key_of_place(place.offset, score.row)
        return record_key if self._by == "record" else key_of(score.id)

    def _said(self, score: _Score) -> Sequence[float]:
        shadow = score.shadow
        nothing = (0.0, math.nan, math.nan, 0.0)
        return (*self._numbers(score), *(nothing if shadow is None else self._numbers(shadow)))

    def _numbers(self, said: _Said) -> tuple[float, float, float, float]:
        if not (math.isfinite(said.score) and 0 < said.version < LARGEST_WHOLE):
            raise InvalidPoint("not_finite", "the score or the version is out of range")
        probability = math.nan if said.probability is None else said.probability
        return float(said.version), said.score, probability, float(self._code_of(said.label))


def key_of_place(offset: int, row: int) -> bytes:
    """Return the key of a row by where it stands in its partition of the input."""
    return b"%d/%d" % (offset, row)


def labels_by_place(rows: Any) -> tuple[list[bytes], NDArray[np.int8]]:
    """Return keys and signs of the accepted rows of a partition of the input, whose labels come with them.

    Parameters
    ----------
    rows : Rows
    """
    chosen = np.flatnonzero(rows.accepted)
    keys = [key_of_place(*at) for at in zip(rows.offset[chosen].tolist(), rows.row[chosen].tolist(), strict=True)]
    return keys, rows.points.y[chosen].astype(np.int8)
