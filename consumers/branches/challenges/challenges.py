"""Challenges: under output.gate = shadow a version becomes current once it was better in the shadow of the current one.

A version that passes the quality gate is published as one that *waits*. Where no challenge is open the newest of these
becomes the challenger: the alias `challenger` names it, scorers with `scoring.shadow = @challenger` score it beside the
current version, and the trainer joins the scores with the labels. The rule is in `streamsvm.branches.challenges.rule`.
The trainer alone moves `current`.

Each challenge has a number, which the record of the newest one holds and the next one goes on from: it says what part
of one error for life a challenge may spend (`streamsvm.branches.challenges.betting`). Nothing gives a part back.

What is decided depends on how much had been read, so a decision is a record, which names the ranges read; it is
committed, with `current` where the challenger won, in one transaction of the trainer. So after a kill it either stands
or is made anew from the beginning of the challenge, which is a record, too.

A challenge is looked at often, and the bound of its error is for looks at ever more rows. So whoever reads a challenge
from its beginning again, after a start or an error, looks only after all was read that both logs held then: nobody has
ever looked at more.

Invariant: while a challenge is open nothing but its end makes the challenger current; a version that has no current one
to be compared with becomes current as without challenges, and ends a challenge as void.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec
import structlog

from consumers.branches.challenges.deciding import FIGURES, figures_of, paired, rule_of, unpaired
from consumers.branches.challenges.following import Follower
from consumers.branches.challenges.reading import Logs, Ranges, logs_of
from consumers.branches.challenges.settings import ChallengeOptions
from consumers.branches.challenges.shadow_gate import ShadowGate
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.trainer.gatekeeping import present_of
from consumers.trainer.session import InDoubt, Session
from consumers.trainer.stream_quality import QualityWatch
from streamsvm.branches.challenges.betting import alpha_of, spent_before
from streamsvm.branches.challenges.record import (
    WON,
    Challenge,
    Challenged,
    Ended,
    Outcome,
    Span,
    challenge_key,
    challenger_key,
    decode_challenge,
    encode_challenge,
)
from streamsvm.branches.challenges.rule import GAIN, Compared, Rule, compare, labels_needed
from streamsvm.errors import InvalidMessage, StreamsvmError, TopicMissing, TransientError
from streamsvm.kafka import Cluster, Message, OffsetOutOfRange, PublishRefused, Recreated
from streamsvm.model import trail
from streamsvm.model.pointers import Alias, current_key, encode_alias
from streamsvm.model.version import Version, version_key
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.trainer")

READ_TIMEOUT_S: Final = 10.0
LOOK_EVERY_S: Final = 1.0
"""Between two joins of what was read, and two attempts where the broker did not answer."""
PORTION: Final = 1_000
"""Most records of each log that are read in a turn of the loop, some milliseconds of work."""
LEAST_TO_WARN: Final = 100
"""Labels after which the champion's figure says whether there can be enough."""
OUTCOMES: Final[tuple[Outcome, ...]] = ("better", "worse", "undecided", "unlabeled", "passed", "void")


@dataclass(slots=True)
class _Progress:
    """What was found and logged of the open challenge, in this life.

    Attributes
    ----------
    until : pair of mappings of partition to int, or None
        Ends of both logs when the challenge's time was first seen to be over.
    unpaired : int
        Rows that one of the two has scored without the other.
    lost : bool
        Whether what it would be decided by cannot be had by trying again.
    warned, named : bool
        Whether it was logged that labels cannot be enough, and that scores are left out.
    """

    until: tuple[dict[int, int], dict[int, int]] | None = None
    unpaired: int = 0
    lost: bool = False
    warned: bool = False
    named: bool = False


class Challenges:
    """Begins, follows and ends challenges, one at a time.

    Parameters
    ----------
    settings : Settings
        With output.gate = shadow.
    cluster : Cluster
    session : Session
        Ready where `turn` is called with `ready`.
    gate : ShadowGate
    quality : QualityWatch
        Told which version became current.
    metrics : Metrics
    now : callable
        The time of day, for the audit trail.
    monotonic : callable
        Seconds.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        session: Session,
        gate: ShadowGate,
        quality: QualityWatch,
        metrics: Metrics,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._settings, self._cluster, self._session = settings, cluster, session
        self._gate, self._quality, self._metrics = gate, quality, metrics
        self._now, self._monotonic = now, monotonic
        self._logs: Logs = logs_of(settings)
        options = section(settings, ChallengeOptions)
        self._rule = Rule(figure=options.gate_figure, labels=options.gate_labels, costs=settings.svm.cost)
        self._newest: Challenge | None = None
        self._open: Challenge | None = None
        self._follower: Follower | None = None
        self._known = False
        self._progress = _Progress()
        self._due_at = 0.0
        self._ends_at_start: tuple[dict[int, int], dict[int, int]] | None = None
        self._won: Version | None = None
        self._trouble = ""
        self.compared: Compared | None = None
        """What the newest look found; None before the first."""
        metrics.begin("streamsvm_challenges", "outcome", OUTCOMES)

    @property
    def challenge(self) -> Challenge | None:
        """The open challenge; None if there is none."""
        return self._open

    def close(self) -> None:
        """Let go of the broker."""
        if self._follower is not None:
            self._follower.close()
            self._follower = None
        self._ends_at_start = None
        self.compared = None

    def turn(self, *, ready: bool) -> Version | None:
        """Read on, look, and begin or end a challenge if that is due; a failure is tried again later.

        Returns what became current, if a version did.

        Parameters
        ----------
        ready : bool
            Whether the trainer may publish now.
        """
        if not ready:
            # What was in doubt may have been decided: ask the topic once publishing is possible again.
            self._known = False
            return None
        came = 0 if self._follower is None else self._read()
        now = self._monotonic()
        if came >= PORTION or now < self._due_at:
            return None
        self._due_at = now + LOOK_EVERY_S
        try:
            self._look(idle=not came)
        except InDoubt:
            self._known = False
        except (TransientError, InvalidMessage, PublishRefused) as error:
            self._wait(error)
        won, self._won = self._won, None
        return won

    def _read(self) -> int:
        assert self._follower is not None
        try:
            came = self._follower.read(PORTION)
        except StreamsvmError as error:
            self._wait(error, lost=not isinstance(error, TransientError))
            return 0
        self._name(self._follower)
        return came

    def _name(self, follower: Follower) -> None:
        """Count what counts as no score, and say once in a challenge where the first of it stands."""
        found = {"unreadable": follower.unreadable, "nowhere": follower.nowhere}
        for reason, count in found.items():
            self._metrics.put("streamsvm_challenge_scores_left_out", count, reason=reason)
        if self._progress.named or not any(found.values()):
            return
        self._progress.named, first = True, follower.named
        log.warning(
            "challenge_scores_left_out",
            **found,
            record="" if first is None else f"{self._logs.scores}[{first.partition}]@{first.offset}",
            why=f"the scores name records that {self._logs.scored} does not have" if first is None else first.why,
            remedy="find out who else writes to the topic of the scores; what is left out decides nothing",
        )

    def _look(self, *, idle: bool) -> None:
        if not self._known:
            self._recall()
        if self._open is None:
            self._begin()
            return
        challenge, present = self._open, self._gate.present
        if present is None or present.alias.place != challenge.champion.place:
            self._end("void", None)
            return
        if challenge.since_ms < 0 <= self._gate.time_ms:
            challenge = self._open = self._timed(challenge)
        over = 0 <= challenge.since_ms < self._gate.time_ms - challenge.wait_ms
        try:
            done = self._compare(challenge, over=over, idle=idle)
        except Recreated as error:  # what it would be decided by is gone: the next version that waits challenges
            log.warning("challenge_void", what=error.what, remedy="no action needed: the next version challenges")
            self._end("void", None)
            return
        except StreamsvmError as error:  # the scores or labels cannot be read: no reason to stop learning
            self._wait(error, lost=not isinstance(error, TransientError))
            done = False
        if over and self._progress.lost:
            # What the challenge would be decided by is gone from the log, or nobody may read it.
            self.close()
            done = True
        if self.compared is not None and self.compared.outcome != "open":
            self._end(self.compared.outcome, self.compared)
        elif done:
            passes = section(self._settings, ChallengeOptions).gate_unlabeled == "pass"
            self._end("passed" if passes else "unlabeled", self.compared)

    def _compare(self, challenge: Challenge, *, over: bool, idle: bool) -> bool:
        """Compare the two on what was read, if that is due; return whether there is nothing more to wait for."""
        if self._follower is None:
            self._follow(challenge)
        follower = self._follower
        if follower is None:
            return over
        done = follower.full or (over and self._read_up(follower))
        if not done and not self._caught_up(follower):
            return False
        if done or self.compared is None or _worth_joining(follower, idle=idle):
            if not follower.read_labels():
                return False
            found = follower.joined()
            self.compared = compare(paired(found, challenge), rule_of(challenge))
            self._progress.unpaired = unpaired(found, challenge)
            self._show()
            if self.compared.labels >= LEAST_TO_WARN:
                self._warn(challenge, self.compared)
        self._trouble, self._progress.lost = "", False
        return done

    def _read_up(self, follower: Follower) -> bool:
        """Return whether all was read that both logs had when the challenge's time was first seen to be over."""
        if self._progress.until is None:
            self._progress.until = self._ends_of_both()
        return follower.reached(*self._progress.until)

    def _caught_up(self, follower: Follower) -> bool:
        """Return whether all was read that both logs had when this life began to read them."""
        if self._ends_at_start is None:
            self._ends_at_start = self._ends_of_both()
        return follower.reached(*self._ends_at_start)

    def _ends_of_both(self) -> tuple[dict[int, int], dict[int, int]]:
        return self._ends(self._logs.scores), {} if self._logs.key == "place" else self._ends(self._logs.labels)

    def _warn(self, challenge: Challenge, found: Compared) -> None:
        """Say once in a challenge that its labels cannot be enough for a challenger that is better by `GAIN`.

        `found` is what is known of the champion: of this challenge, or, when it begins, of the one before.
        """
        rule = rule_of(challenge)
        needed = labels_needed(rule, found)
        if self._progress.warned or needed is None or needed <= rule.labels:
            return
        self._progress.warned = True
        log.warning(
            "challenge_needs_more_labels",
            challenger=self._key(challenge.challenger),
            number=challenge.number,
            needed=needed,
            gate_labels=rule.labels,
            remedy=f"set output.gate_labels to at least {needed}: with fewer labels a challenger that is better by "
            f"{100 * GAIN:.0f} % cannot win",
        )

    def _wait(self, error: StreamsvmError, *, lost: bool = False) -> None:
        """Say once what is in the way; then everything is read again from where the challenge begins.

        `lost`: what the challenge would be decided by cannot be had by trying again. It then ends with its time.
        """
        if error.what != self._trouble:
            log.warning("challenge_waits", what=error.what, remedy="no action needed: the trainer tries again")
        self._trouble = error.what
        self._progress.lost |= lost
        self.close()

    # ---------------------------------------------------------------- its record

    def _recall(self) -> None:
        """Read what the topic says of the newest challenge: after a start, and after a doubt."""
        key, topic = challenge_key(self._settings.name).encode(), self._settings.output.aliases_topic
        record = self._cluster.newest(topic, [key], READ_TIMEOUT_S).get(key)
        found = None if record is None or record.value is None else decode_challenge(record.value)
        if found != self._open:
            self.close()
            self._open, self.compared = None, None
            self._progress = _Progress()
        if found is not None:
            self._newest = found
            if found.ended is None:
                self._open = found
            elif found.ended.outcome in WON:
                self._promote(found)
        self._known = True

    def _begin(self) -> None:
        """Let the newest version that waits be the challenger."""
        alias, present = self._gate.waiting, self._gate.present
        before = self._newest
        last = 0 if before is None else before.challenger.number
        if alias is None or present is None or alias.number <= max(last, present.number):
            return
        if not self._there(alias):
            self._gate.waiting = None
            return
        # Before the ends: then these are of the topics that have these ids, or `Follower` finds another id.
        scores_id, labels_id = self._id_of_scores(), self._cluster.topic_id(self._logs.labels) or ""
        scores = self._ends_of_scores()
        labels = {} if self._logs.key == "place" else self._ends(self._logs.labels)
        number = 1 if before is None else before.number + 1
        challenge = Challenge(
            number=number,
            alpha=alpha_of(number),
            spent=spent_before(number),
            challenger=alias,
            champion=present.alias,
            figure=self._rule.figure,
            labels=self._rule.labels,
            costs=self._rule.costs if self._rule.figure == "cost" else None,
            since_ms=self._gate.time_ms,
            wait_ms=round(1_000 * section(self._settings, ChallengeOptions).gate_wait),
            scores_topic=self._logs.scores,
            scored_topic=self._logs.scored,
            labels_topic=self._logs.labels,
            scores_id=scores_id if scores else "",
            labels_id=labels_id,
            scores=_spans({p: (at, at) for p, at in scores.items()}),
            told=_spans({p: (at, at) for p, at in labels.items()}),
        )
        self._publish(challenge, [self._alias(challenger_key(self._settings.name), encode_alias(alias))])
        self._open, self._newest, self.compared = challenge, challenge, None
        self._progress = _Progress()
        self._show()
        log.info(
            "challenge_begun",
            challenger=self._key(alias),
            champion=self._key(present.alias),
            number=number,
            alpha=challenge.alpha,
        )
        if before is not None and before.ended is not None and before.figure == challenge.figure:
            said = {name: getattr(before.ended, name) for name in FIGURES}
            self._warn(challenge, Compared(outcome="open", **said))

    def _timed(self, begun: Challenge) -> Challenge:
        """Commit since when a challenge's time counts that began before this life had learned a row."""
        challenge = msgspec.structs.replace(begun, since_ms=self._gate.time_ms)
        record = self._alias(challenge_key(self._settings.name), encode_challenge(challenge))
        self._known = False
        self._session.publish([record])
        self._known = True
        return challenge

    def _end(self, outcome: Outcome, compared: Compared | None) -> None:
        """Commit how a challenge ended, and what is current from then on."""
        assert self._open is not None
        if outcome in WON and not self._there(self._open.challenger):
            outcome = "void"
        read: tuple[Ranges, Ranges] = ({}, {}) if self._follower is None else self._follower.spans()
        ended = Ended(
            outcome=outcome,
            unpaired=0 if compared is None else self._progress.unpaired,
            **figures_of(compared or Compared(outcome="open", labels=0)),
            scores=_spans(read[0]),
            told=_spans(read[1]),
            time_ms=self._gate.time_ms,
        )
        challenge, name = msgspec.structs.replace(self._open, ended=ended), self._settings.name
        messages = [self._alias(challenger_key(name), None)]
        if outcome in WON:
            messages.append(self._alias(current_key(name), encode_alias(challenge.challenger)))
            messages.append(self._entry(self._moved(challenge.challenger)))
        self._publish(challenge, messages)
        self._open, self._newest, self.compared = None, challenge, None
        self._progress = _Progress()
        self.close()
        self._metrics.increase("streamsvm_challenges", outcome=outcome)
        self._show()
        self._say(challenge, ended)
        if outcome in WON:
            # Until it is current here, too, the topic is asked again.
            self._known = False
            self._promote(challenge)
            self._known = True

    def _there(self, alias: Alias) -> bool:
        """Return whether a version was not retired since it was published."""
        key, there = self._key(alias).encode(), False
        try:
            topic = self._settings.output.models_topic
            for record in self._cluster.read_to_end(topic, 0, start=alias.offset, timeout_s=READ_TIMEOUT_S):
                if record.key == key:
                    there = record.value is not None
        except OffsetOutOfRange:
            return False
        except StreamsvmError as error:
            raise TransientError(error.what, "The trainer tries again; it needs Read on the models topic.") from error
        return there

    def _say(self, challenge: Challenge, ended: Ended) -> None:
        said = log.warning if ended.outcome in ("unlabeled", "passed") else log.info
        said(
            "challenge_ended",
            outcome=ended.outcome,
            challenger=self._key(challenge.challenger),
            champion=self._key(challenge.champion),
            figure=challenge.figure,
            labels=ended.labels,
            of_challenger=ended.challenger,
            of_champion=ended.champion,
            unpaired=ended.unpaired,
            difference=ended.difference,
            low=ended.low,
            high=ended.high,
            remedy="run a scorer with scoring.shadow = @challenger, and see that labels come, or raise output.gate_wait"
            if ended.outcome in ("unlabeled", "passed")
            else "no action needed",
        )

    def _promote(self, challenge: Challenge) -> None:
        """Take the winner for current, here, too."""
        present = self._gate.present
        if present is not None and present.number >= challenge.challenger.number:
            return
        won = present_of(self._settings, self._cluster, challenge.challenger)
        if won.version is None:
            raise TransientError(won.why, "The trainer tries again; it needs the permission Read on the models topic.")
        self._quality.promoted(won.version, won.alias)
        self._won = won.version

    def _publish(self, challenge: Challenge, messages: list[Message]) -> None:
        name = self._settings.name
        said = Challenged(name=name, challenge=challenge, by="trainer", time=self._now().isoformat())
        record = self._alias(challenge_key(name), encode_challenge(challenge))
        # In doubt until it is known to be committed: then the topic is asked what became of it.
        self._known = False
        self._session.publish([record, *messages, self._entry(said)])
        self._known = True

    def _moved(self, to: Alias) -> trail.CurrentMoved:
        name = self._settings.name
        return trail.CurrentMoved(
            name=name,
            alias=current_key(name),
            to=to.number,
            sha256=to.sha256,
            by="trainer",
            time=self._now().isoformat(),
        )

    def _alias(self, key: str, value: bytes | None) -> Message:
        return Message(self._settings.output.aliases_topic, value, key.encode(), partition=0)

    def _entry(self, entry: trail.CurrentMoved | Challenged) -> Message:
        key = self._key(entry.challenge.challenger) if isinstance(entry, Challenged) else entry.name
        return Message(self._settings.output.audit_topic, trail.encode(entry), key.encode(), partition=0)

    def _key(self, alias: Alias) -> str:
        return version_key(self._settings.name, alias.number)

    # ---------------------------------------------------------------------- logs

    def _ends(self, topic: str) -> dict[int, int]:
        partitions = self._cluster.describe(topic).partitions
        return {partition: self._cluster.log_range(topic, partition)[1] for partition in partitions}

    def _ends_of_scores(self) -> dict[int, int]:
        """Return where the scores end; nothing while there is no topic, for no scorer was started yet."""
        try:
            return self._ends(self._logs.scores)
        except TopicMissing:
            return {}

    def _id_of_scores(self) -> str:
        try:
            return self._cluster.topic_id(self._logs.scores) or ""
        except TopicMissing:
            return ""

    def _follow(self, challenge: Challenge) -> None:
        scores = {span.partition: span.begin for span in challenge.scores}
        if not scores:  # the topic was made since: all of it is of this challenge
            scores = dict.fromkeys(self._ends_of_scores(), 0)
        if not scores:
            return
        labels = {span.partition: span.begin for span in challenge.told}
        logs = replace(self._logs, scores_id=challenge.scores_id, labels_id=challenge.labels_id)
        self._follower = Follower(self._cluster, logs, scores, labels)

    def _show(self) -> None:
        challenge, compared, metrics = self._open, self.compared, self._metrics
        metrics.put("streamsvm_challenger_version", 0 if challenge is None else challenge.challenger.number)
        metrics.put("streamsvm_challenge_labels", 0 if compared is None else compared.labels)
        if compared is None or compared.champion is None or compared.challenger is None:
            return
        metrics.put("streamsvm_challenge_figure", compared.champion, of="champion")
        metrics.put("streamsvm_challenge_figure", compared.challenger, of="challenger")
        for end, value in (("low", compared.low), ("mean", compared.difference), ("high", compared.high)):
            if value is not None:
                metrics.put("streamsvm_challenge_difference", value, end=end)


def _worth_joining(follower: Follower, *, idle: bool) -> bool:
    """Return whether enough came since the newest join, which takes time in proportion to all that is kept."""
    return follower.grown > 0 and (idle or 20 * follower.grown >= follower.kept)


def _spans(ranges: Mapping[int, tuple[int, int]]) -> tuple[Span, ...]:
    return tuple(Span(partition, begin, end) for partition, (begin, end) in sorted(ranges.items()))
