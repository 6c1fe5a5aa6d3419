"""Scores as JSON: one output record for each input record that holds at least one valid point.

A score is ``{"id": ..., "score": 1.25, "label": 1, "model": "pulsar", "version": 7, "points": 120000}``: the point's
own `id` (null if it has none), the decision value, the label it means, and the version that decided, with the number of
valid points that it covers. Of a version with probabilities it has one more, ``"probability": 0.83``: that of the
second of the version's labels, whichever label the score means. Of a version of more than two labels `score`, and
`probability`, are lists: a number for each label, in their order. With `scoring.pass_fields` it repeats fields of its
event, too: ``"passed": {"card.country": "DE"}``. With `scoring.reasons` it says which fields add most to the decision
value: ``"reasons": {"baseline": -0.4, "fields": [{"field": "amount", "adds": 1.5}], "rest": 0.15}``. An array of points
(a JSON or Avro array, any Arrow record) gives an array of scores in the same order, each with its `row`, the index of
its point in the array, because rejected rows are left out (they go to the dead-letter topic).

The record keeps its input's key. Headers: ``streamsvm.source`` (topic/partition/offset of the input: unique to a reader
of committed records, and the same for every copy where the broker has no transactions), ``streamsvm.model.sha256``,
``content-type``, and those of the input that `scoring.copy_headers` names.

Invariant: every score of a batch belongs wholly to one version. Features are read as float64, whatever the version was
trained in, so that scoring loses no precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from streamsvm import places
from streamsvm.choices import OF_EVENTS_ONLY
from streamsvm.config import Label, PointsConfig, PointsFormat
from streamsvm.errors import InvalidMessage
from streamsvm.field_paths import path_of
from streamsvm.ingest.decoder import NOTHING_UNREAD, PointDecoder, RawRecord, RejectedRecord, Rejection
from streamsvm.ingest.decoding import NO_ABSENCES, Absences
from streamsvm.ingest.schemas import Schemas
from streamsvm.ingest.unread_fields import Unread
from streamsvm.model.classes import AnyModel, ClassModel
from streamsvm.model.reasons import Explainer, Reasons
from streamsvm.model.version import Version
from streamsvm.points import Features, Rows
from streamsvm.svm.landmarks import compiled

CONTENT_TYPE: Final = "application/json"
MODEL_SHA256_HEADER: Final = "streamsvm.model.sha256"
CONTENT_TYPE_HEADER: Final = "content-type"

MOST_HEADER_BYTES: Final = 1024
"""A header's value beyond so many bytes is not copied."""
FRAMING_BYTES: Final = 512
"""What a record takes beyond its key, value and headers, generously."""

Headers = tuple[tuple[str, bytes], ...]
Decided = tuple[float | list[float], float | list[float] | None]
"""A decision value, and its probability if the version has them; of more than two labels lists of them."""


class SourceRecord(RawRecord, Protocol):
    """What is needed of an input record beyond its points."""

    @property
    def topic(self) -> str:
        """Topic it came from."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...


class WrittenScore(msgspec.Struct, frozen=True, kw_only=True):
    """One score; `probability` only of a version that has one, `passed` and `reasons` if configured, `row` in an array.

    What is scored beside it has fields of its own, behind these: `ExtraFields`.
    """

    id: str | int | None
    score: float | list[float]
    label: bool | int | str
    model: str
    version: int
    points: int
    probability: float | list[float] | msgspec.UnsetType = msgspec.UNSET
    passed: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    reasons: Reasons | msgspec.UnsetType = msgspec.UNSET
    row: int | msgspec.UnsetType = msgspec.UNSET


class ExtraFields(Protocol):
    """Says something else of the rows that are scored, in fields of its own."""

    @property
    def shape(self) -> type[WrittenScore]:
        """A score with these fields."""
        ...

    def fields(self, rows: Rows) -> Sequence[Mapping[str, Any]]:
        """Return them of each row; meaningless where the row was rejected."""
        ...


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """One record of the output topic; `rows` is how many points it scores."""

    key: bytes | None
    value: bytes
    headers: Headers
    rows: int


@dataclass(frozen=True, slots=True)
class Scored:
    """What a batch of records came to; every record is in one of the two lists, in both in part, or passed over.

    Attributes
    ----------
    records : list of ScoreRecord
    rejected : list of RejectedRecord
    unread : Unread
        Fields of the points that are not read.
    absences : Absences
        Declared fields that raw events did not have.
    passed_over : mapping of str to int
        Rows that hold no event and are not rejected, by reason; they have no score.
    values : list of float
        The decision values of all points that have a score, in the order of the records; of more than two labels that
        of each point's answer.
    labels : tuple of labels
        Of the version.
    answers : list of int
        How often each of them was the answer.
    border : float
        The decision value above which the version answers the second label.
    """

    records: list[ScoreRecord]
    rejected: list[RejectedRecord]
    unread: Unread = NOTHING_UNREAD
    absences: Absences = NO_ABSENCES
    passed_over: Mapping[str, int] = field(default_factory=dict)
    values: list[float] = field(default_factory=list)
    border: float = 0.0
    labels: tuple[Label, ...] = ()
    answers: list[int] = field(default_factory=list)


def points_config(
    version: Version,
    *,
    max_record_bytes: int | None = None,
    format_: PointsFormat = "auto",
) -> PointsConfig:
    """Return what a valid unlabeled point is to a version: its dimension, labels and features' names, as float64.

    Raises
    ------
    InvalidMessage
        If no points can be of that kind, for example because both labels are the same.
    """
    limits = {"max_record_bytes": max_record_bytes} if max_record_bytes else {}
    described = {
        "dimension": version.model.dimension,
        "labels": version.labels,
        "feature_names": version.feature_names,
        "dtype": "float64",
        "format": format_,
        **limits,
    }
    try:
        return PointsConfig.model_validate(described)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise InvalidMessage(
            f"{version.key} describes points that this build does not support: {where} {fault['msg']}".rstrip()
        ) from None


@dataclass(frozen=True, slots=True)
class _Extra:
    """What is written of the rows of a record beside their scores, if it is configured."""

    beside: Sequence[Mapping[str, Any]] | None
    reasons: Sequence[Reasons] | None


class BatchScorer:
    """Scores batches of records with one version.

    Parameters
    ----------
    version : Version
    sha256 : str
        Of the version's value; goes into a header.
    max_record_bytes : int
        Larger input records are rejected.
    max_message_bytes : int
        Largest output message, key and headers included; a record whose scores would take more is rejected.
    schemas : Schemas, optional
        Where Avro's schemas come from; without it every one is unknown.
    passed : sequence of str
        Fields of raw events that their scores repeat.
    format_ : PointsFormat
        Of the records.
    recipe : Struct, optional
        By which records are read. Default: the version's.
    beside : ExtraFields, optional
        What else is said of the same rows.
    reasons : int
        How many reasons a score has; 0: it says nothing of them.
    copied : sequence of str
        Headers of a record that its scores have, too.

    Raises
    ------
    InvalidMessage
        If no point can be valid to this version.
    Unsupported
        If reasons are asked for, and the version has none.
    """

    def __init__(
        self,
        version: Version,
        sha256: str,
        *,
        max_record_bytes: int,
        max_message_bytes: int,
        schemas: Schemas | None = None,
        passed: Sequence[str] = (),
        format_: PointsFormat = "auto",
        recipe: msgspec.Struct | None = None,
        beside: ExtraFields | None = None,
        reasons: int = 0,
        copied: Sequence[str] = (),
    ) -> None:
        self._beside, self._copied = beside, frozenset(copied)
        self._shape = WrittenScore if beside is None else beside.shape
        self._reasons = reasons
        self._explainer = Explainer(version) if reasons else None
        self._passed = {written: path_of(written) for written in passed}
        self._version = replace(version, model=compiled(version.model))
        self._sha256 = sha256.encode()
        self._max_message_bytes = max_message_bytes
        config = points_config(
            version,
            max_record_bytes=max_record_bytes,
            format_=format_,
        )
        if version.recipe is None and format_ in OF_EVENTS_ONLY:
            raise InvalidMessage(f"{version.key} has no recipe, and points cannot be read as {format_}")
        self._decoder = PointDecoder(config, labeled=False, schemas=schemas, recipe=recipe or version.recipe)

    def score(self, records: Sequence[SourceRecord]) -> Scored:
        """Score a batch; records of one partition must be in the order of their offsets.

        Raises
        ------
        TransientError
            If a schema cannot be had now: nothing of the batch is decided; score it again later.
        ConfigurationError
            If the schema registry refuses us.
        """
        decoded = self._decoder.decode(records)
        sources = {(record.partition, record.offset): record for record in records}
        rejections = {(bad.record.partition, bad.record.offset): bad.rejections for bad in decoded.rejected}
        scored = Scored(
            [],
            [],
            decoded.unread,
            decoded.absences,
            decoded.passed_over,
            border=self._version.model.border,
            labels=self._version.labels,
            answers=[0] * len(self._version.labels),
        )
        base = 0
        for rows in decoded.rows:
            decided = decide(self._version, rows)
            beside = None if self._beside is None else self._beside.fields(rows)
            why = None
            if self._explainer is not None:
                with np.errstate(all="ignore"):  # meaningless where the row was rejected
                    why = self._explainer.reasons(np.asarray(rows.points.X), self._reasons)
            for start, end in _records(rows):
                at = rows.partition, int(rows.offset[start])
                ids = decoded.ids[base + start : base + end]
                accepted = rows.accepted[start:end].tolist()
                extra = _Extra(None if beside is None else beside[start:end], None if why is None else why[start:end])
                self._score_record(
                    sources[at], decided[start:end], extra, ids, accepted, known=rejections.get(at, ()), scored=scored
                )
            base += len(rows)
        return scored

    def _score_record(
        self,
        source: SourceRecord,
        decided: Sequence[Decided],
        extra: _Extra,
        ids: Sequence[str | int | None],
        accepted: Sequence[bool],
        *,
        known: tuple[Rejection, ...],
        scored: Scored,
    ) -> None:
        """Add one record's output and dead letter to `scored`."""
        bad = {rejection.row: rejection for rejection in known}
        for row, (score, _) in enumerate(decided):
            if accepted[row] and not math.isfinite(greatest(score)):
                bad[row] = Rejection(row, "not_finite", f"x is so large that its score is {score}")
        good = [row for row in range(len(decided)) if accepted[row] and row not in bad]
        record = self._encode(source, [(row, ids[row], decided[row]) for row in good], extra) if good else None
        if record is not None and (needed := _message_bytes(record)) > self._max_message_bytes:
            what = f"the record's scores take {needed} bytes; the output topic allows {self._max_message_bytes}"
            bad |= {row: Rejection(row, "too_many_rows", what) for row in good}
            record = None
        if record is not None:
            scored.records.append(record)
            for row in good:
                score = decided[row][0]
                scored.values.append(greatest(score))
                scored.answers[index_of(score, scored.border)] += 1
        if bad:
            scored.rejected.append(RejectedRecord(source, len(decided), tuple(bad[row] for row in sorted(bad))))

    def _encode(
        self,
        source: SourceRecord,
        rows: Sequence[tuple[int, str | int | None, Decided]],
        extra: _Extra,
    ) -> ScoreRecord:
        many = self._decoder.is_array(source)
        passed = self._fields_of(source) if self._passed else None
        found = [
            self._score(
                identity,
                decided,
                row if many else None,
                passed[row] if passed else msgspec.UNSET,
                msgspec.UNSET if extra.reasons is None else extra.reasons[row],
                {} if extra.beside is None else extra.beside[row],
            )
            for row, identity, decided in rows
        ]
        headers = (
            (places.SOURCE_HEADER, source_of(source)),
            (MODEL_SHA256_HEADER, self._sha256),
            (CONTENT_TYPE_HEADER, CONTENT_TYPE.encode()),
            *self._copies(source),
        )
        return ScoreRecord(source.key, msgspec.json.encode(found if many else found[0]), headers, len(found))

    def _copies(self, source: SourceRecord) -> Iterable[tuple[str, bytes]]:
        """Return the headers that are copied, each once, by the last that has its name."""
        if not self._copied:
            return ()
        last = {name: value for name, value in source.headers if name in self._copied and value is not None}
        return ((name, value) for name, value in last.items() if len(value) <= MOST_HEADER_BYTES)

    def _fields_of(self, source: SourceRecord) -> list[dict[str, Any]] | None:
        """Return the fields to repeat of each row of a record; None if it holds points."""
        columns = self._decoder.fields_of(source, list(self._passed.values()))
        if columns is None:
            return None
        return [dict(zip(self._passed, row, strict=True)) for row in zip(*columns, strict=True)]

    def _score(
        self,
        identity: str | int | None,
        decided: Decided,
        row: int | None,
        passed: dict[str, Any] | msgspec.UnsetType,
        reasons: Reasons | msgspec.UnsetType,
        beside: Mapping[str, Any],
    ) -> WrittenScore:
        version, (score, probability) = self._version, decided
        return self._shape(
            id=identity,
            score=score,
            label=label_of(score, version.labels, version.model.border),
            model=version.name,
            version=version.number,
            points=version.stream.points,
            probability=msgspec.UNSET if probability is None else probability,
            passed=passed,
            reasons=reasons,
            row=msgspec.UNSET if row is None else row,
            **beside,
        )


def source_of(source: SourceRecord) -> bytes:
    """Return what `streamsvm.places.SOURCE_HEADER` says of an input record."""
    return f"{source.topic}/{source.partition}/{source.offset}".encode()


def scores_of(value: bytes, headers: Headers, topic: str, name: str) -> int:
    """Return how many scores a record of the output topic has of points of a topic, by a model; 0 for any other record.

    Parameters
    ----------
    value : bytes
    headers : tuple of (str, bytes)
    topic : str
        Input topic.
    name : str
        Of the model.
    """
    source = places.source_of(headers)
    if source is None or source.topic != topic:
        return 0
    try:
        found = msgspec.json.decode(value, type=list[_NamedModel] | _NamedModel)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    return sum(one.model == name for one in (found if isinstance(found, list) else [found]))


class _NamedModel(msgspec.Struct, frozen=True):
    """The model and version that a score is of."""

    model: str


def label_of(score: float | list[float], labels: Sequence[Label], border: float = 0.0) -> Label:
    """Return the label that a score means; see `index_of`."""
    return labels[index_of(score, border)]


def index_of(score: float | list[float], border: float = 0.0) -> int:
    """Return which label a score means: the second one above the border, or the one with the greatest value."""
    if isinstance(score, list):
        return score.index(max(score))
    return int(score > border)


def greatest(score: float | list[float]) -> float:
    """Return the decision value of the answer; not finite if one of several is not."""
    if not isinstance(score, list):
        return score
    return max(score) if all(map(math.isfinite, score)) else math.nan


def decide(version: Version, rows: Rows) -> list[Decided]:
    """Return the decision value and the probability of each row; meaningless where the row was rejected."""
    with np.errstate(all="ignore"):
        scores, probabilities = _decisions(version.model, rows.points.X)
    return list(zip(scores.tolist(), probabilities, strict=True))


def _decisions(model: AnyModel, X: Features) -> tuple[NDArray[np.float64], list[Any]]:
    """Return the score of each row, of more than two labels one for each label; and its probability, or None."""
    if isinstance(model, ClassModel):
        values = model.machine_values(X)
        shares = [None] * len(values) if model.probabilities is None else model.shares(values).tolist()
        return model.label_values(values), shares
    scores = model.decision_function(X)
    return scores, [None] * len(scores) if model.probability is None else model.probability.of(scores).tolist()


def _records(rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield where each record's rows begin and end."""
    start = 0
    for end in (np.flatnonzero(rows.last) + 1).tolist():
        yield start, end
        start = end


def _message_bytes(record: ScoreRecord) -> int:
    headers = sum(len(name) + len(content) for name, content in record.headers)
    return len(record.value) + len(record.key or b"") + headers + FRAMING_BYTES
