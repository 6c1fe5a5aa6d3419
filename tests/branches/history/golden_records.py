"""The golden record of erased rows, and the files of an archive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from streamsvm.branches.history import forgotten, store
from streamsvm.branches.history.erased import Erased, decode_erased, encode_erased
from streamsvm.branches.history.forgotten import Listed
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.store import Identity, Store, UnderWay
from streamsvm.branches.history.stretches import archived
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.points import Position
from tests.faults.disks import VolatileDisk
from tests.golden.checkpoint import handmade
from tests.golden.record import BUCKET, Kept

BASE: Final = Position(2)
CONFIG: Final = ModelConfig(points=PointsConfig(dimension=2), svm=SvmConfig(alpha=1e-3), seed=11)
IDENTITY: Final = Identity(
    name="m",
    topic="points",
    topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
    config=archived(CONFIG, leaf_rows=16, span_rows=64, bucket_points=12),
    base={0: BASE, 3: Position(5, 2)},
)
ERASED: Final = Erased(
    topic="points", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", incarnation=2, continues=1, rows=((0, 5, 0, 3), (3, 9, 2, 4))
)
NODE: Final = Node.of(0, BASE, BUCKET, encode_bucket(BUCKET))
LISTED: Final = Listed({0: frozenset([Position(3), Position(7, 2)]), 3: frozenset([Position(1 << 40)])}, "ab" * 32)
UNDER_WAY: Final = UnderWay(positions=LISTED.rows, old=(NODE,), saved=True, archive_only=False)


def forgetting() -> bytes:
    """Return the file of a forgetting that was begun."""
    disk = VolatileDisk()
    Store(disk).mark(UNDER_WAY)
    return disk.read(store.UNDER_WAY)


def read_forgetting(content: bytes) -> object:
    """Return what it says, which is a list of places and of names."""
    disk = VolatileDisk()
    disk.write(store.UNDER_WAY, content)
    found = Store(disk).under_way()
    assert found is not None
    names = [node.name for node in found.old]
    return [forgotten.encode_rows(found.positions), names, found.saved, found.archive_only]


RECORDS: Final[Mapping[str, Kept]] = {
    "erased": Kept(lambda: encode_erased(ERASED), decode_erased),
    "archive": Kept(IDENTITY.encode, lambda content: json.loads(Identity.decode(content).encode())),
    "archive-name": Kept(NODE.name.encode, lambda content: Node.parse(content.decode())),
    "archive-open": Kept(
        lambda: store._encode_state(0, BASE, handmade().learner.partitions[3]),
        lambda content: store._decode_state(0, content),
    ),
    "forgotten": Kept(
        lambda: forgotten.encode(LISTED), lambda content: json.loads(forgotten.encode(forgotten.decode(content)))
    ),
    "forgetting": Kept(forgetting, read_forgetting),
}
