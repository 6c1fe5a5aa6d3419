"""Writes the kept corpora: `python -m tests.fuzz.seeds`; a file that is there stays as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from streamsvm.checkpoint.records import encode_bucket, encode_partition
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.avro import AvroWriter
from streamsvm.ingest.row_builder import RejectedRecord, Rejection
from streamsvm.learning.learner import Learner
from streamsvm.model import message as model_codec
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Model, Scaler
from streamsvm.model.pointers import (
    Alias,
    Head,
    Owner,
    Retired,
    encode_alias,
    encode_head,
    encode_owner,
    encode_retired,
)
from streamsvm.model.probability import Sigmoid
from streamsvm.model.version import PartitionCut
from streamsvm.points import Position
from tests.config.sizes import sized
from tests.fuzz.targets import CORPUS, SHELF
from tests.golden import HERE
from tests.golden.every_model import KINDS
from tests.golden.model import path_of
from tests.ingest.rows import POINT, POINTS, Raw
from tests.ingest.test_points import BAD
from tests.model.test_bounds import FOURTH, bomb, with_version
from tests.model.test_model import version_of
from tests.plugged import of_branches
from tests.streams import DIMENSION, gaussian, rows_of

GOOD = [
    b'{"x":[1,2],"y":1}',
    b'{"x": [0.1, -2.5e30], "y": -1, "w": 2.5, "id": "a"}',
    b'{"id":7,"w":1e-3,"y":1.0,"x":[3,4],"extra":[1,{"a":"\\u00fc"}]}',
    b' [ {"x":[1e-5,2E+3],"y":1} , {"y":-1,"x":[0.5,-1e3],"w":2,"id":"a}"} ] ',
    b'[{"x":[-0.0,2],"y":1,"op":null},{"x":[123456789012345678,2],"y":1,"id":null}]',
    b'{"x":[0.30000000000000004,1.7976931348623157e99],"y":-1,"id":"\\ud83d\\ude00","t":"2026-01-31T12:00:00Z"}',
    '{"x":[1,2],"y":1,"näme":"ü"}'.encode(),
]
X = np.array([[1.5, 2.0], [3.0, -4.0]])


def stream(**columns: Any) -> bytes:
    """Return one batch of columns as an IPC stream."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def arrows() -> list[bytes]:
    """Return streams of the kinds of column that the decoder looks at, or past."""
    x = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 2)
    y, text = pa.array([1, -1], pa.int8()), pa.array(["a", None])
    kinds = [
        {"x": x, "y": y},
        {"x": x, "y": y, "w": pa.array([None, 2.0]), "id": text},
        {"x": x, "y": y, "op": pa.array([None, {"a": 1}])},
        {"x": x, "y": pa.array([True, False]), "z": pa.array([[1], None])},
        {"x": x, "y": y, "op": pa.RunEndEncodedArray.from_arrays([2], ["a"])},
        {"x": pa.FixedSizeListArray.from_arrays(pa.array([1.0, None, 2, 3], pa.float32()), 2), "y": y},
        {"x": x, "y": y, "id": text.cast(pa.string_view()), "w": pa.nulls(2)},
    ]
    streams = [stream(**kind) for kind in kinds]
    return [*streams, bomb(4_096), with_version(streams[0], FOURTH)]


def avros() -> list[bytes]:
    """Return data of each schema of the shelf."""
    one, many = AvroWriter(POINT, 1), AvroWriter(POINTS, 2)
    rows = [{"x": x, "y": 1, "w": w, "id": mark} for x, w, mark in zip(X.tolist(), (None, 2.5), ("a", 7), strict=True)]
    third = SHELF.schema(3)
    assert third is not None
    odd = [{"x": [1.5, 2], "y": 1, "op": None, "w": None}, {"x": [2.5, 1], "y": "a", "op": {"a": b"b"}, "w": "c"}]
    return [
        one.encode(rows[0]),
        one.encode(rows[1]),
        many.encode(rows),
        many.encode([]),
        AvroWriter(third, 3).encode(odd),
    ]


def models() -> list[bytes]:
    """Return versions of each machine, with and without probabilities, and with every part."""
    scaler = Scaler(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    linear = Model(scaler, LinearMachine(np.array([1.0, -2.0]), 0.5))
    rbf = Model(scaler, KernelMachine(RbfKernel(0.5), X, np.array([1.0, -1.0]), 0.1))
    found = [linear, rbf, replace(linear, probability=Sigmoid(-1.5, 0.25))]
    found.append(replace(rbf, probability=Sigmoid(-1.5, 0.125)))
    golden = [path_of(kind).read_bytes() for kind in KINDS if kind not in ("rbf-events", "rbf-threshold")]
    return [*(model_codec.encode(replace(version_of(), model=model)) for model in found), *golden]


def letters() -> list[bytes]:
    """Return the headers of a dead letter, a line each."""
    bad = RejectedRecord(Raw(b"x"), 2, (Rejection(0, "wrong_type", "what"), Rejection(1, "not_finite", "else")))
    letter = deadletter.encode("topic", bad, None, (("trace", b"t"),), model="m")
    return [b"\n".join(name.encode() + b":" + content for name, content in letter.headers)]


def corpora() -> dict[str, list[bytes]]:
    """Return each target's values."""
    cut = (PartitionCut(0, 80, 0, 4), PartitionCut(1, 7, 3, -1))
    head = Head(
        number=3,
        incarnation=1,
        cut=cut,
        sha256="ab" * 32,
        offset=17,
        training_set_sha256="cd" * 32,
        build={"numpy": "2"},
        links=(),
    )
    get = b"GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\nAccept-Encoding: gzip\r\n\r\n"
    return {
        "json": [*GOOD * 6, *(value for value, _ in BAD if value and len(value) < 500)],
        "arrow": arrows(),
        "avro": avros(),
        "model": models(),
        "alias": [encode_alias(Alias(7, "ab" * 32, 12))],
        "head": [encode_head(head)],
        "owner": [encode_owner(Owner("s", "2026-01-31T12:00:00Z"))],
        "retired": [encode_retired(Retired(9, (2, 5), ()))],
        "letter": letters(),
        "label": [b'{"id": "a", "y": 1}', b'[{"id": 7, "y": -1}, {"y": 1}]', b"-1", b'{"y": 1, "more": {"id": []}}'],
        "checkpoint": [path.read_bytes() for path in sorted(HERE.glob("checkpoint-1-*.ssvm"))],
        "state-record": state_records(),
        "score": scores(),
        "version-headers": version_headers(),
        "http": [
            get,
            b"GET /healthz HTTP/1.0\r\n\r\n",
            b"GET /\n\n",
            b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        ],
        **{name: make() for found in of_branches("fuzzed", "CORPORA") for name, make in found.items()},
    }


def scores() -> list[bytes]:
    """Return scores: headers, a line each, and after an empty line the value."""
    said = {"id": "a", "score": 1.5, "label": 1, "model": "m", "version": 4, "points": 9, "row": 0}
    shadow = {"shadow": {"version": 5, "score": -0.5, "label": -1, "probability": 0.25}}
    sources = (b"points/0/5", b"points/999/5", b"elsewhere/0/5")
    values = [json.dumps(one).encode() for one in (said, [said | shadow, said | {"row": 3}])]
    return [b"streamsvm.source:" + source + b"\n\n" + value for source in sources for value in values]


def version_headers() -> list[bytes]:
    """Return headers of versions, a line each, and after an empty line the key."""
    told = {
        "streamsvm.incarnation": b"3",
        model_codec.TIME_HEADER: b"2026-01-31T12:00:00+00:00",
        "streamsvm.transaction": b"abc~1 2/3 streamsvm/m/models",
    }
    lines = [name.encode() + b":" + content for name, content in told.items()]
    return [b"\n".join(lines) + b"\n\nm@7", b"\n".join(lines[1:]) + b"\n\nm@12"]


def state_records() -> list[bytes]:
    """Return records of a bucket, of one of a partition that forgets, and of a partition in its first leaf."""
    found = []
    for coreset, rows in (({}, 60), ({"memory": "window", "window": 256}, 200)):
        sizes = sized(leaf_rows=8, bucket_points=5, audit_points=7, train_points=64, **coreset)
        config = ModelConfig(points=PointsConfig(dimension=DIMENSION), coreset=sizes, svm=SvmConfig(), seed=11)
        learner = Learner(config, {0: Position(0)}, 1 << 30)
        learner.learn(rows_of(gaussian(5)))
        early = learner.state().partitions[0]
        learner.learn(rows_of(gaussian(rows)))
        found += [encode_bucket(learner.state().partitions[0].buckets[0]).value, encode_partition(0, early, ())]
    return found


if __name__ == "__main__":
    for name, values in corpora().items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for value, number in zip(values, count(1), strict=False):
            if not (path := CORPUS / name / f"{number:02}").exists():
                path.write_bytes(value)
