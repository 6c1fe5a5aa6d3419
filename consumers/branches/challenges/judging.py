"""What the audit trail says of challenges, computed again from the logs that each of them names.

A decision is about what had been read, which its record says; so whoever has both logs comes to the same figures, to
the last bit, and by the rule to the same verdict. Who became current is then a consequence. What a challenge may spend
of the error for life follows from its number, and each ended challenge has the number after that of the one before: a
number that comes twice, or begins anew, would spend a part again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from consumers.branches.challenges.deciding import FIGURES, figures_of, paired, rule_of, unpaired
from consumers.branches.challenges.reading import Logs, Ranges, join_ranges
from consumers.settings import Settings
from consumers.verify.judging import Judge
from streamsvm.branches.challenges.betting import alpha_of, spent_before
from streamsvm.branches.challenges.record import Challenge, Challenged, Ended, Span, challenge_key
from streamsvm.branches.challenges.rule import compare
from streamsvm.branches.challenges.served import Served
from streamsvm.errors import StreamsvmError, TopicMissing
from streamsvm.kafka import Cluster
from streamsvm.model import message as model_codec
from streamsvm.model.version import version_key
from streamsvm.verification.recomputation import NotRecomputable, configuration_of

BY_THE_RULE = ("better", "worse", "undecided")


def challenges_in(cluster: Cluster, settings: Settings, timeout_s: float) -> Iterator[Challenge]:
    """Yield the challenges of a model that ended, as the audit trail has them, the oldest first."""
    key = challenge_key(settings.name).encode()
    with suppress(TopicMissing):
        # Where there never was a challenge the audit trail is not read: not everybody who verifies may.
        if not cluster.newest(settings.output.aliases_topic, [key], timeout_s):
            return
        for record in cluster.read_to_end(settings.output.audit_topic, 0, timeout_s=timeout_s):
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                entry = msgspec.json.decode(record.value or b"", type=Challenged)
                if entry.name == settings.name and entry.challenge.ended is not None:
                    yield entry.challenge


def judge_challenges(cluster: Cluster, settings: Settings, timeout_s: float) -> tuple[list[str], list[str]]:
    """Decide every challenge that ended again.

    Returns
    -------
    faults, notes : list of str
        Verdicts that differ; challenges that cannot be decided again.
    """
    faults, notes, before = list[str](), list[str](), 0
    for challenge in challenges_in(cluster, settings, timeout_s):
        assert challenge.ended is not None
        if fault := spending_fault(challenge, before):
            faults.append(f"the challenge of {version_key(settings.name, challenge.challenger.number)} {fault}")
        before = challenge.number
        if challenge.ended.outcome == "void":
            continue
        key = version_key(settings.name, challenge.challenger.number)
        try:
            fault = _fault(cluster, settings, challenge, challenge.ended, timeout_s)
        except StreamsvmError as error:
            notes.append(f"the challenge of {key} cannot be decided again: {error.what}")
            continue
        except NotRecomputable as error:
            notes.append(f"the challenge of {key} cannot be decided again: {error}")
            continue
        if fault:
            faults.append(f"the challenge of {key} {fault}")
    return faults, notes


def spending_fault(challenge: Challenge, before: int) -> str:
    """Return what is wrong with what a challenge spends; empty if nothing is.

    Parameters
    ----------
    challenge : Challenge
    before : int
        Number of the ended challenge before it; 0 where the audit trail has none, any more.
    """
    number = challenge.number
    if number < 1 or (before and number != before + 1):
        return f"has number {number} after number {before}: it does not spend what is left of the error"
    if (challenge.alpha, challenge.spent) != (expected := (alpha_of(number), spent_before(number))):
        said = challenge.alpha, challenge.spent
        return (
            f"says that it spends {said[0]} after {said[1]}; number {number} spends {expected[0]} after {expected[1]}"
        )
    return ""


def _fault(cluster: Cluster, settings: Settings, challenge: Challenge, ended: Ended, timeout_s: float) -> str:
    found = _joined(cluster, settings, challenge, ended, timeout_s)
    again = compare(paired(found, challenge), rule_of(challenge))
    said = {"unpaired": ended.unpaired} | {name: getattr(ended, name) for name in FIGURES}
    made = {"unpaired": unpaired(found, challenge)} | figures_of(again)
    if said != made:
        return f"was decided by {said}, and its logs give {made}"
    expected = ended.outcome if ended.outcome in BY_THE_RULE else "open"
    if again.outcome != expected:
        return f"ended as {ended.outcome}, and by its figures it is {again.outcome}"
    return ""


def _joined(cluster: Cluster, settings: Settings, challenge: Challenge, ended: Ended, timeout_s: float) -> Served:
    record = cluster.record(settings.output.models_topic, challenge.challenger.offset, timeout_s)
    if record is None or record.value is None:
        raise TopicMissing(f"its version is not at offset {challenge.challenger.offset}", "")
    version = model_codec.decode(record.value, challenge.challenger.sha256)
    logs = Logs(
        name=settings.name,
        models=configuration_of(version.lineage),
        scores=challenge.scores_topic,
        scored=challenge.scored_topic,
        labels=challenge.labels_topic,
        scores_id=challenge.scores_id,
        labels_id=challenge.labels_id,
    )
    return join_ranges(cluster, logs, _ranges(ended.scores), _ranges(ended.told), settled=True).served


def _ranges(spans: tuple[Span, ...]) -> Ranges:
    return {span.partition: (span.begin, span.end) for span in spans}


JUDGE: Final = Judge(judge_challenges)
