"""What is left of erased rows: looks for their numbers, texts, ids and hashes in the files and topics of a trainer.

A trace is a run of bytes that nothing else is likely to have. It is looked for as it is and in base64; support vectors
are looked for as each version scales them. The input itself is not looked at: Kafka keeps it until retention.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from consumers.settings import Settings
from streamsvm.errors import InvalidMessage, TopicMissing
from streamsvm.kafka import Cluster, Record
from streamsvm.model import Scaler, message as model_codec

FORMS: Final = ("value", "half precision", "text", "id", "hash")
LEAST: Final = 6
"""Fewest bytes of a trace: among 10^9 random bytes one is met by chance once in 300,000."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A row to look for: its features, of which none is round, its id, and its record's bytes."""

    values: NDArray[np.float64]
    id: str = ""
    record: bytes = b""


def sought(record: bytes) -> Sought:
    """Return the row of a JSON record of one point."""
    told = json.loads(record)
    return Sought(np.array(told["x"], np.float64), str(told.get("id", "")), record)


def forms_of(row: Sought) -> dict[str, bytes]:
    """Return one run of bytes of each form, as another program may write it."""
    return {
        "value": row.values.astype("<f4").tobytes(),
        "half precision": b64encode(row.values.astype("<f2").tobytes()),
        "text": ", ".join(repr(float(value)) for value in row.values).encode(),
        "id": row.id.encode(),
        "hash": sha256(row.record).hexdigest().encode(),
    }


def traces_of(row: Sought, scaler: Scaler | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield form and bytes of every trace of a row; under a scaler, of its scaled numbers only."""
    values = row.values if scaler is None else scaler.transform(row.values[None, :])[0]
    raw: list[tuple[str, bytes]] = []
    for form, kind, length in (
        ("value", "f8", 1),
        ("value", "f4", 2),
        ("half precision", "f2", len(values)),
    ):
        for order in "<>":
            written = values.astype(order + kind)
            raw += [(form, written[at : at + length].tobytes()) for at in range(len(written) - length + 1)]
    if scaler is None:
        raw += [("text", row.record), ("id", row.id.encode())]
        raw += [("hash", sha256(one).digest()) for one in (row.record, row.id.encode()) if one]
        raw += [("hash", sha256(one).hexdigest().encode()) for one in (row.record, row.id.encode()) if one]
        raw += [
            ("text", text.encode()) for value in values for text in (repr(float(value)), f"{np.float32(value):.9g}")
        ]
    for form, trace in raw:
        for one in (trace, *(b64encode(trace[at : at + (len(trace) - at) // 3 * 3]) for at in range(3))):
            if len(one) >= LEAST:
                yield form, one


def topics_of(settings: Settings) -> Mapping[str, str]:
    """Return the topics that may carry what followed from rows, by what they are for."""
    return {
        "versions": settings.output.models_topic,
        "aliases": settings.output.aliases_topic,
        "audit trail": settings.output.audit_topic,
        "dead letters": settings.input.dead_letters,
        "scores": settings.scoring.output_topic,
    }


def left(
    cluster: Cluster,
    settings: Settings,
    rows: Sequence[Sought],
    *,
    since: Mapping[str, int] | None = None,
    also: Sequence[Path] = (),
) -> set[tuple[str, str]]:
    """Return in which stores, and in which form, something of some rows stands.

    `since` names the first offset to look at by topic; `also` names folders of other files, such as logs.
    """
    traces = {trace: form for row in rows for form, trace in traces_of(row)}
    found = set[tuple[str, str]]()
    for store, folder in (("checkpoints", settings.checkpoint.directory), *(("files", one) for one in also)):
        for path in (path for path in folder.glob("**/*") if path.is_file()):
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            found |= {(store, form) for trace, form in traces.items() if trace in content}
    for store, topic in topics_of(settings).items():
        with suppress(TopicMissing):
            for partition in cluster.describe(topic).partitions:
                for record in cluster.read_to_end(topic, partition, start=(since or {}).get(topic), timeout_s=30.0):
                    content = b"\0".join((record.key or b"", record.value or b"", *(one for _, one in record.headers)))
                    own = traces | {trace: form for row in rows for form, trace in _as_scaled(row, record)}
                    found |= {(store, form) for trace, form in own.items() if trace in content}
    return found


def _as_scaled(row: Sought, record: Record) -> Iterator[tuple[str, bytes]]:
    """Yield the traces of a row as the version in a record scales it."""
    if record.value is not None and b"@" in (record.key or b""):
        with suppress(InvalidMessage):
            yield from traces_of(row, model_codec.decode(record.value).model.scaler)
