"""Readers of scores as they were served, for the fuzzers."""

from __future__ import annotations

from typing import Final

import numpy as np

from consumers.branches.challenges.reading import runs_of
from streamsvm.branches.challenges.score_records import ScoreDecoder
from streamsvm.branches.challenges.served import ServedLabels, served
from streamsvm.kafka import Record
from tests.fuzz.records import LABELED
from tests.fuzz.targets import INT64, Target, headers_of, kept, messages, words


def _served(case: bytes) -> str:
    """Read a score of any headers: whatever is made of it fits into the arrays, and the join goes on."""
    headers, value = headers_of(case)
    accepted = 0
    for by in ("place", "id", "record"):
        record = Record("scores", 0, 1, b"k", value, headers, INT64 - 1, None)
        found = ScoreDecoder(LABELED, by, "m", "points").decode([record])
        assert found.left_out or len(found.scores)
        runs = runs_of(found.scores, {0: (0, 10)})
        assert sum(len(keys) for run in runs for keys in run.keys.values()) <= len(found.scores)
        assert all(0 <= run.begin < run.end <= 10 for run in runs)
        labels = {
            0: ServedLabels(
                time_ms=np.array([INT64 - 1]), last=np.ones(1, np.bool_), keys=[b"a"], sign=np.array([1], np.int8)
            )
        }
        if len(found.scores):
            served(found.scores, labels, horizon_ms=1_000, early_ms=0)
        accepted += len(found.scores)
    return "accepted" if accepted else "refused"


TARGETS: Final = (Target("served", kept("served"), words("json", "header"), messages(_served)),)
