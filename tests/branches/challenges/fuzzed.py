"""Readers of challenges and of scores as they were served, for the fuzzers."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from consumers.branches.challenges.reading import runs_of
from streamsvm.branches.challenges.record import Challenge, Ended, Span, decode_challenge, encode_challenge
from streamsvm.branches.challenges.score_records import ScoreDecoder
from streamsvm.branches.challenges.served import ServedLabels, served
from streamsvm.kafka import Record
from streamsvm.model.pointers import Alias
from tests.fuzz.seeds import scores
from tests.fuzz.targets import (
    HEADER_WORDS,
    INT64,
    JSON_WORDS,
    LABELED,
    MODEL_WORDS,
    Target,
    headers_of,
    kept,
    messages,
    plain_record,
)


def _served(case: bytes) -> str:
    """Read a score of any headers: whatever is made of it fits into the arrays, and the join goes on."""
    headers, value = headers_of(case)
    accepted = 0
    for by in ("place", "id", "record"):
        record = Record("scores", 0, 1, b"k", value, headers, INT64 - 1, None)
        found = ScoreDecoder(LABELED, by, "m", "points").decode([record])
        assert found.left_out or len(found.scores)
        assert found.unreadable == len(found.named) <= found.left_out
        runs, nowhere = runs_of([found.scores], {0: (0, 10)})
        assert sum(map(len, nowhere)) + sum(len(keys) for run in runs for keys in run.keys.values()) == len(
            found.scores
        )
        assert all(0 <= run.begin < run.end <= 10 for run in runs)
        labels = {
            0: ServedLabels(
                time_ms=np.array([INT64 - 1]), last=np.ones(1, np.bool_), keys=[b"a"], sign=np.array([1], np.int8)
            )
        }
        if len(found.scores):
            served(found.scores, labels, horizon_ms=1_000, early_ms=0, settled=True)
        accepted += len(found.scores)
    return "accepted" if accepted else "refused"


def challenges() -> list[bytes]:
    """Return a challenge that is open, and one that ended."""
    alias, spans = Alias(7, "ab" * 32, 12), (Span(0, 3, 9),)
    one = Challenge(
        number=2, alpha=0.01, spent=0.02, challenger=alias, champion=alias, figure="auc", labels=500, costs=None,
        since_ms=5, wait_ms=7, scores_topic="s", scored_topic="p", labels_topic="l", scores=spans, told=spans,
    )  # fmt: skip
    over = Ended(
        outcome="worse", labels=5, terms=5, unpaired=0, champion=0.5, challenger=0.25, difference=-0.25, low=-0.5,
        high=0.125, evidence=0.5, against=1.5, scores=spans, told=spans, time_ms=9,
    )  # fmt: skip
    return [encode_challenge(one), encode_challenge(msgspec.structs.replace(one, ended=over))]


TARGETS: Final = (
    Target("challenge", kept("challenge"), MODEL_WORDS, messages(plain_record(decode_challenge))),
    Target("served", kept("served"), (*JSON_WORDS, *HEADER_WORDS), messages(_served)),
)
CORPORA: Final = {"challenge": challenges, "served": scores}
