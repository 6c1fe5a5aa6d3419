"""Messages, headers and files: what is read means what was written, and what is not is refused in its way."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np

from consumers.streams import positions_of
from streamsvm import places
from streamsvm.checkpoint import format as checkpoint
from streamsvm.coreset import decode_state, encode_state
from streamsvm.delivery import AttemptRecord
from streamsvm.errors import CorruptCheckpoint, InvalidMessage
from streamsvm.ingest import LabelDecoder, dead_letter as deadletter, scores_of
from streamsvm.kafka import Record, Stamp
from streamsvm.model import (
    deciles_header,
    decode_alias,
    decode_head,
    decode_owner,
    decode_retired,
    message as model_codec,
    skill_header,
    version_number,
)
from streamsvm.registry import published_at
from streamsvm.verification import incarnation_in
from tests.fuzz.records import LABELED
from tests.fuzz.targets import INT64, Target, headers_of, kept, messages, of_cases, words
from tests.golden import HERE
from tests.ingest.rows import Raw


def _model(value: bytes) -> str:
    try:
        version = model_codec.decode(value)
    except InvalidMessage:
        return "refused"
    again = model_codec.decode(model_codec.encode(version))
    assert (again.key, again.labels, again.lineage) == (version.key, version.labels, version.lineage)
    assert np.isfinite(version.model.decision_function(version.model.scaler.mean[None])).all()
    assert len(json.loads(value)["features"]["mean"]) == version.model.dimension
    return "accepted"


def plain_record(decode: Callable[[bytes], Any], *, passes_over: bool = False) -> Callable[[bytes], str]:
    """Look at a record: what it says is what was written, with nothing left out but names that readers pass over."""

    def look(value: bytes) -> str:
        try:
            found = decode(value)
        except InvalidMessage:
            return "refused"
        plain = json.loads(msgspec.json.encode(found))
        # A name that is passed over may be of any bytes.
        told = json.loads(value.decode(errors="replace")) if passes_over else json.loads(value)
        told = {name: one for name, one in told.items() if name in plain or not passes_over}
        assert {name: plain[name] for name in told} == told, f"{plain} of {told}"
        return "accepted"

    return look


def _dead_letter(value: bytes) -> str:
    """Read a dead letter whose headers are the lines of the case, name and content apart by a colon."""
    headers = [line.partition(b":")[::2] for line in value.split(b"\n")]
    try:
        found = deadletter.decode(value, [(name.decode("latin-1"), content) for name, content in headers])
    except InvalidMessage:
        return "refused"
    assert found.rows
    return "accepted"


def _part(headers: tuple[tuple[str, bytes], ...]) -> AttemptRecord:
    """Return a record of an attempt to write scores."""
    return AttemptRecord(
        attempt="a", number=1, parts=1, topic="scores", partition=0, offset=1, key=b"k", value=b"", headers=headers,
        visible=True,
    )  # fmt: skip


def _source(case: bytes) -> str:
    """Read where a score of any headers says that it comes from: whatever is made of it fits into the arrays."""
    headers, value = headers_of(case)
    place = places.source_of(headers)
    assert place is None or (0 <= place.partition < 1 << 31 and 0 <= place.offset + 1 < INT64)
    scores_of(value, headers, "points", "m")
    positions_of([_part(headers)], "points")
    return "refused" if place is None else "accepted"


def _version_headers(case: bytes) -> str:
    """Read what the headers of a version's record tell: each is in its range, or is none."""
    headers, key = headers_of(case)
    told = dict(headers)
    number, incarnation = version_number(key, "m"), incarnation_in(told)
    record = Record("models", 0, 1, key, b"", headers, INT64 - 1, None)
    assert all(one is None or -1 <= one < INT64 - 1 for one in (number, incarnation))
    published = published_at(record)
    assert published is None or places.time_of(published) is None or math.isfinite(published)
    found = [skill_header.decode(headers), deciles_header.decode(headers), Stamp.of(headers)]
    return "accepted" if any(one is not None for one in (number, incarnation, published, *found)) else "refused"


def _labels(value: bytes) -> str:
    """Read a record of a labels topic, by its own key and by ids: each row is a label, or is rejected."""
    accepted = 0
    for key in ("record", "id"):
        (labels,), rejected = LabelDecoder(LABELED, key).decode([Raw(value, key=b"k", timestamp_ms=None)])
        refused = {rejection.row for record in rejected for rejection in record.rejections}
        assert {row for row, sign in enumerate(labels.sign.tolist()) if not sign} == refused
        assert not any(one.reason == "undecodable" for record in rejected for one in record.rejections)
        accepted += len(labels.sign) - len(refused)
    return "accepted" if accepted else "refused"


def _checkpoint(value: bytes) -> str:
    """Read a checkpoint whose checksum is right, whatever else is wrong: what a defect of ours, or a person, writes."""
    for content in (value, _sealed(value)):
        try:
            snapshot = checkpoint.decode(content)
        except CorruptCheckpoint:
            continue
        again = checkpoint.decode(checkpoint.encode(snapshot))
        assert again.keys() == snapshot.keys() if isinstance(snapshot, Mapping) else type(again) is type(snapshot)
        return "accepted"
    return "refused"


def _state_record(value: bytes) -> str:
    """Read a state whose checksum is right, whatever else is wrong."""
    for content in (value, _sealed(value)):
        with suppress(CorruptCheckpoint):
            names, state = decode_state(content)
            assert decode_state(encode_state(state, names))[0] == names
            return "accepted"
    return "refused"


def _sealed(value: bytes) -> bytes:
    size = hashlib.sha256().digest_size
    return value[:-size] + hashlib.sha256(value[:-size]).digest() if len(value) > size else value


MESSAGES: Final = tuple(
    Target(name, corpus, words(*of), messages(look))
    for name, corpus, of, look in (
        ("model", of_cases("model"), ("json", "model"), _model),
        ("alias", of_cases("alias"), ("json", "model"), plain_record(decode_alias)),
        ("head", of_cases("head"), ("json", "model"), plain_record(decode_head, passes_over=True)),
        ("owner", of_cases("owner"), ("json", "model"), plain_record(decode_owner, passes_over=True)),
        ("retired", of_cases("retired"), ("json", "model"), plain_record(decode_retired)),
        ("letter", kept("letter"), ("letter",), _dead_letter),
        ("label", of_cases("labels"), ("json",), _labels),
        ("score", kept("score"), ("json", "header"), _source),
        ("version-headers", kept("version-headers"), ("json", "model", "header"), _version_headers),
        ("checkpoint", kept("checkpoint", *sorted(HERE.glob("checkpoint-1-*.ssvm"))), ("binary", "model"), _checkpoint),
        ("state-record", kept("state-record"), ("binary", "json", "model"), _state_record),
    )
)
