"""The record of a challenge: which version challenges which, since where in the logs, and how it ended.

It stands in the aliases topic under one key, beside the alias `challenger`, and, whole, in the audit trail. A challenge
that ended names the ranges of both logs that were read, so that whoever has the logs can compute its verdict again
(`streamsvm.branches.challenges.rule`). A trainer that starts goes on from the record: no checkpoint holds anything of
it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from streamsvm.model.pointers import Alias, decode_record
from streamsvm.places import Count, Offset, Partition, TimeMs

Outcome = Literal["better", "worse", "undecided", "unlabeled", "passed", "void"]
"""`better` becomes current, and so does `passed`: too few labels came in time, and output.gate_unlabeled lets it pass,
which no bound of an error covers. The others do not: `worse` or `undecided` by the rule, `unlabeled` as `passed` but
kept back, `void` because another version than the one challenged is current, or a log that it is decided by was deleted
and made again."""
WON: tuple[Outcome, ...] = ("better", "passed")


class Span(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A range of a partition: the first offset, and the one after the last."""

    partition: Partition
    begin: Offset
    end: Offset


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a challenge ended.

    Attributes
    ----------
    outcome : Outcome
    labels : int
        Rows that both had scored, and that had a label.
    terms : int
        Differences that these rows gave: as many, or blocks of them.
    unpaired : int
        Rows with a label that one of the two had scored without the other; they count for nothing.
    champion, challenger, difference, low, high : float or None
        As of `streamsvm.branches.challenges.rule.Compared`.
    evidence, against : float
        Natural logarithms, as of `Compared`.
    scores, told : tuple of Span
        What was read of the scores, and of the log with the labels.
    time_ms : int
        The record time that the trainer had learned: the median of its newest rows.
    """

    outcome: Outcome
    labels: Count
    terms: Count
    unpaired: Count
    champion: float | None
    challenger: float | None
    difference: float | None
    low: float | None
    high: float | None
    evidence: float
    against: float
    scores: tuple[Span, ...]
    told: tuple[Span, ...]
    time_ms: TimeMs


class Challenge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A challenge.

    Attributes
    ----------
    number : int
        Of all challenges that ever began under the model's name, from 1, whatever became of them. It goes on over
        restarts, copies and incarnations, for each challenge spends a part of one error
        (`streamsvm.branches.challenges.betting`).
    alpha : float
        What this one spends: the chance that it promotes a challenger that is not better.
    spent : float
        What all before it have spent.
    challenger, champion : Alias
    figure : str
        "auc", "accuracy", "log_loss" or "cost".
    labels : int
        After how many labels it is over.
    costs : tuple of two float or None
        Of a missed positive and of a false alarm.
    since_ms : int
        The record time that the trainer had learned at its beginning; -1 while it has learned nothing since its start.
    wait_ms : int
        How long it lasts at most, in record time.
    scores_topic, scored_topic, labels_topic : str
        Of the scores, of the points that are scored, and of what the labels are in.
    scores_id, labels_id : str
        Ids of the topics of the scores and of the labels; empty where the broker gives none, and of scores whose topic
        did not exist yet.
    scores, told : tuple of Span
        Where both logs are read from (`begin`); `told` is empty where labels come with the points.
    ended : Ended or None
        None while it is open.
    """

    number: Count
    alpha: float
    spent: float
    challenger: Alias
    champion: Alias
    figure: Literal["auc", "accuracy", "log_loss", "cost"]
    labels: Count
    costs: tuple[float, float] | None
    since_ms: TimeMs
    wait_ms: Count
    scores_topic: str
    scored_topic: str
    labels_topic: str
    scores: tuple[Span, ...]
    told: tuple[Span, ...]
    scores_id: str = ""
    labels_id: str = ""
    ended: Ended | None = None


class Challenged(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="challenge"):
    """A challenge began, or ended: then `challenge.ended` says how.

    Attributes
    ----------
    name : str
        The model.
    challenge : Challenge
    by, time : str
        Time as ISO 8601.
    """

    name: str
    challenge: Challenge
    by: str
    time: str


def challenger_key(name: str) -> str:
    """Return the key of the alias that names the challenger; there is none while no challenge is open."""
    return f"{name}@challenger"


def challenge_key(name: str) -> str:
    """Return the key of the record of the newest challenge."""
    return f"{name}@challenger#challenge"


def encode_challenge(challenge: Challenge) -> bytes:
    """Encode a challenge record's value."""
    return msgspec.json.encode(challenge)


def decode_challenge(value: bytes) -> Challenge:
    """Decode a challenge record's value; `InvalidMessage` if it is not one."""
    return decode_record(value, Challenge)
