"""The golden record of a challenge that ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamsvm.branches.challenges.record import Challenge, Ended, Span, decode_challenge, encode_challenge
from tests.golden.record import ALIAS, Kept

SPANS: Final = (Span(0, 3, 9),)
CHALLENGE: Final = Challenge(
    number=2, alpha=0.01, spent=0.02, challenger=ALIAS, champion=ALIAS, figure="auc", labels=500, costs=None,
    since_ms=5, wait_ms=7, scores_topic="s", scored_topic="p", labels_topic="l", scores=SPANS, told=SPANS,
    ended=Ended(
        outcome="worse", labels=5, terms=5, unpaired=0, champion=0.5, challenger=0.25, difference=-0.25, low=-0.5,
        high=0.125, evidence=0.5, against=1.5, scores=SPANS, told=SPANS, time_ms=9,
    ),
)  # fmt: skip
RECORDS: Final[Mapping[str, Kept]] = {"challenge": Kept(lambda: encode_challenge(CHALLENGE), decode_challenge)}
