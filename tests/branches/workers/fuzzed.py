"""The reader of the coresets topic, for the fuzzers."""

from __future__ import annotations

from typing import Final

from consumers.branches.workers.coresets_topic import READ_TO, WATERMARK, manifest_headers, number_of
from streamsvm.branches.workers.coreset_log import PartitionLog
from streamsvm.branches.workers.coreset_records import FORMAT, Manifest, Opening, PartEntry, place
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.kafka import Record
from streamsvm.points import Position
from tests.fuzz.targets import HEADER_WORDS, INT64, MODEL_WORDS, Target, headers_of, kept, messages
from tests.streams import DIMENSION


def _coresets(case: bytes) -> str:
    """Read records of the coresets topic, each with a key, headers and a value, behind an opening and before it."""
    records = []
    for one in case.split(b"\n---\n"):
        headers, rest = headers_of(one)
        key, gone, value = rest.partition(b"\n")
        known = manifest_headers(Record("c", 0, 1, key, value, headers, None, None))
        numbers = (number_of(known, READ_TO), number_of(known, WATERMARK))
        assert all(number is None or 0 <= number < INT64 - 1 for number in numbers)
        records.append((key, value if gone else None, known))
    words = set()
    for order in (records, records[::-1]):
        found = PartitionLog("m", 1, 2)
        for offset, record in enumerate(order):
            found.feed(offset, *record)
        complete = found.highest(100)
        assert complete is None or complete.manifest.at <= Position(100)
        found.garbage()
        found.rest().feed(0, *order[0])
        words.add("accepted" if found.opening is not None or found.claimed()[0] else "refused")
    return "accepted" if "accepted" in words else "refused"


def coresets() -> list[bytes]:
    """Return records of a partition of the coresets topic: of each its headers, and its key and value below them."""
    config = ModelConfig(points=PointsConfig(dimension=DIMENSION), svm=SvmConfig(alpha=1e-3), seed=11)
    opening = Opening(
        format=FORMAT, name="m", incarnation=1, topic="t", topic_id="i", partition=1, base=(0, 0),
        configuration={"of": "a test"}, configuration_sha256=config.sha256(),
    )  # fmt: skip
    where = place(Position(7, 2))
    rest = PartEntry(f"l/{where}#{'ab' * 32}", 3)
    manifest = Manifest(position=(7, 2), rows=9, buckets=(), rest=rest, newest=None)
    records = [
        (b"", opening.key, opening.encode()),
        (b"", f"{opening.prefix}{rest.name}/0".encode(), b"xyz"),
        (b"watermark:9\nread_to:8", f"{opening.prefix}{manifest.key}".encode(), manifest.encode()),
    ]
    cases = [headers + b"\n\n" + key + b"\n" + value for headers, key, value in records]
    return [b"\n---\n".join(cases), cases[0], b"\n---\n".join([cases[0], cases[2], b"\n\n" + opening.key])]


TARGETS: Final = (Target("coresets", kept("coresets"), (*MODEL_WORDS, *HEADER_WORDS), messages(_coresets)),)
CORPORA: Final = {"coresets": coresets}
