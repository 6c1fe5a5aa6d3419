"""Readers of records of erased rows for the fuzzers."""

from __future__ import annotations

from typing import Final

from streamsvm.branches.history.erased import Erased, decode_erased, encode_erased
from tests.fuzz.targets import MODEL_WORDS, Target, kept, messages, plain_record


def erased() -> list[bytes]:
    """Return a record of erased rows."""
    return [
        encode_erased(Erased(topic="t", topic_id="i", incarnation=2, continues=1, rows=((0, 5, 0, 3), (1, 9, 2, 4))))
    ]


TARGETS: Final = (Target("erased", kept("erased"), MODEL_WORDS, messages(plain_record(decode_erased))),)
CORPORA: Final = {"erased": erased}
