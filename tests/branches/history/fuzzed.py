"""Readers of records of erased rows for the fuzzers."""

from __future__ import annotations

from typing import Final

from streamsvm.branches.history.erased import decode_erased
from tests.fuzz.messages import plain_record
from tests.fuzz.targets import Target, messages, of_cases, words

TARGETS: Final = (Target("erased", of_cases("erased"), words("json", "model"), messages(plain_record(decode_erased))),)
