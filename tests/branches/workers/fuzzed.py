"""The reader of the coresets topic, for the fuzzers."""

from __future__ import annotations

from typing import Final

from consumers.branches.workers.coresets_topic import READ_TO, WATERMARK, manifest_headers, number_of
from streamsvm.branches.workers.coreset_log import PartitionLog
from streamsvm.kafka import Record
from streamsvm.points import Position
from tests.fuzz.targets import INT64, Target, headers_of, kept, messages, words


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


TARGETS: Final = (Target("coresets", kept("coresets"), words("json", "model", "header"), messages(_coresets)),)
