"""A daemon, or a subscriber, with one defect: `python -m tests.live.defects NAME[+NAME] train|score|read ...`.

Each is what an ordinary slip would make of the code that it replaces; together they show that the checker sees, in a
live system, what it is there to see. Those of `tests.faults` that fit are taken from there.
"""

from __future__ import annotations

import hashlib
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import consumers.trainer.observer
import consumers.trainer.session
import streamsvm.delivery.machine
import streamsvm.kafka.client
import streamsvm.kafka.outbox
import streamsvm.kafka.producing
from consumers.scorer.scorer import Scorer
from consumers.scorer.seat import Seat
from consumers.streams.identity import TopicIdentity
from consumers.trainer.life import Life
from consumers.trainer.session import Session
from streamsvm.ingest import scored as scores_codec
from streamsvm.joining import log_time
from streamsvm.kafka import Message, Publisher, Slot, Subscription
from tests.constants import set_from
from tests.faults import altered, planted
from tests.faults.wrapping import wrap
from tests.plugged import of_branches

WINDOW_S: Final = 0.02
"""How much longer a defect leaves open the moment at which it can be hit; without that it takes more kills."""


# -------------------------------------------------------------------- trainer


def publishes_pointers_apart() -> None:
    """A version is committed first, and what points at it in a transaction of its own."""

    def publish(original: Any, publisher: Publisher, messages: Sequence[Message], last: Any = None, *more: Any) -> Any:
        offsets = original(publisher, messages)
        if last is not None:
            time.sleep(WINDOW_S)
            original(publisher, last(offsets))
        return offsets

    wrap(Publisher, "publish", publish)


def uses_no_transactions() -> None:
    """Records are written plainly: each is there as soon as it is stored."""
    sound = streamsvm.kafka.client.make_producer

    def make_producer(connection: Any, link: Any, **options: Any) -> Any:
        fixed = {name: value for name, value in options.pop("fixed").items() if not name.startswith("transact")}
        return sound(connection, link, fixed=fixed, **options)

    for module in (streamsvm.kafka.producing, streamsvm.kafka.outbox):
        module.make_producer = make_producer  # type: ignore[attr-defined]
    Publisher.start = lambda self: None  # type: ignore[method-assign]
    Publisher._begin = lambda self: None  # type: ignore[method-assign]
    Publisher._commit = lambda self: time.sleep(WINDOW_S)  # type: ignore[method-assign]
    Publisher._abort = lambda self, cause: None  # type: ignore[method-assign]
    wrap(Publisher, "_store", _stores_slowly)


def _stores_slowly(original: Any, *given: Any) -> Any:
    stored = original(*given)
    time.sleep(WINDOW_S)
    return stored


def reads_uncommitted() -> None:
    """The trainer takes what a dead writer left open for published."""
    altered.reads_what_is_uncommitted()
    wrap(Publisher, "_commit", _commits_late)


def _commits_late(original: Any, *given: Any) -> None:
    time.sleep(WINDOW_S)
    original(*given)


def reads_only_what_is_stable() -> None:
    """What an open transaction hides is taken for absent."""
    altered.reads_to_the_stable_offset()


def resends_blindly() -> None:
    """After a commit of unknown outcome the same is sent again, and the topic is not read first."""
    altered.resends()


def assumes_success() -> None:
    """A commit of unknown outcome is taken for done."""
    altered.assumes_success()


def tells_too_early() -> None:
    """A version is told of when its records are sent, and not when they are committed."""

    def publish(original: Any, session: Session, messages: Any, last: Any = None, committed: Any = None) -> None:
        if last is not None:
            key = messages[0].key.decode()
            consumers.trainer.observer.log.info("model_published", version=key)
        time.sleep(WINDOW_S)
        original(session, messages, last, *([committed] if committed else []))

    wrap(Session, "publish", publish)


def takes_an_id_of_its_own() -> None:
    """Each process has another transactional id, so that nobody is ever fenced."""
    planted.takes_an_id_of_its_own()


def never_renews() -> None:
    """After a doubt nothing is ever published again; the process lives on."""

    def renew(original: Any, session: Session, **given: Any) -> bool:
        return bool(session._delivery.ready)

    wrap(Session, "renew", renew)


def forgets_its_parent() -> None:
    """The first version of a process names no parent."""
    sound = streamsvm.delivery.machine.Delivery.parent
    own: list[bool] = []

    def parent(self: Any) -> str | None:
        own.append(True)
        found: str | None = sound.fget(self) if len(own) > 1 else None  # type: ignore[attr-defined]
        return found

    streamsvm.delivery.machine.Delivery.parent = property(parent)  # type: ignore[assignment,method-assign]


def looks_by_the_clock_only() -> None:
    """Whether an input is still the same is asked now and then, and not before what was learned counts."""
    wrap(Life, "confirm", lambda original, life: None)


def believes_every_clock() -> None:
    """The time of a log is the greatest timestamp so far, whoever wrote it."""

    def decided(original: Any, timestamp_ms: Any, last: Any, begun_ms: int, *, closed: bool = False) -> Any:
        latest = np.minimum(timestamp_ms, log_time.LATEST_MS)
        return log_time.Decided(np.maximum.accumulate(np.maximum(latest, begun_ms)), 0, -1)

    wrap(log_time, "decided", decided)


# --------------------------------------------------------------------- scorer


def believes_its_positions() -> None:
    """The group's positions are taken for those of whatever topic has the name."""
    wrap(TopicIdentity, "confirm", lambda original, identity, reached: None)
    wrap(Subscription, "_is_another", lambda original, subscription, standing: False)


def commits_beside_its_scores() -> None:
    """A batch's positions are committed after the transaction of its scores, not in it."""
    planted.commits_beside_its_scores()


def names_no_member() -> None:
    """Positions are committed in the name of the group alone, so that nobody asks whether the scorer is still in it."""
    planted.names_no_member()


def passes_over_what_failed() -> None:
    """A batch that was not committed is not read again."""
    wrap(Scorer, "_put_back", _put_aside)


def _put_aside(original: Any, scorer: Scorer, seat: Seat, error: Any) -> None:
    rewind, seat.subscription.rewind = seat.subscription.rewind, lambda: None  # type: ignore[method-assign]
    try:
        original(scorer, seat, error)
    finally:
        seat.subscription.rewind = rewind  # type: ignore[method-assign]


def names_another_model() -> None:
    """Every tenth batch of scores carries a hash that is not its version's."""
    made = [0]

    def score(original: Any, scorer: Any, records: Any) -> Any:
        made[0] += 1
        scored = original(scorer, records)
        if made[0] % 10:
            return scored
        other = hashlib.sha256(b"another").hexdigest().encode()
        for at, one in enumerate(scored.records):
            headers = tuple((n, other if n == scores_codec.MODEL_SHA256_HEADER else v) for n, v in one.headers)
            scored.records[at] = scores_codec.ScoreRecord(one.key, one.value, headers, one.rows)
        return scored

    wrap(scores_codec.BatchScorer, "score", score)


def has_random_ids() -> None:
    """Each process makes a transactional id up, which says neither slot nor group: nobody takes a dead one's over."""
    own = uuid.uuid4().hex
    Slot.transactional_id = property(lambda slot: f"{own}-{slot.number}")  # type: ignore[assignment,method-assign]


# --------------------------------------------------------------------- reader


def serves_what_is_uncommitted() -> None:
    """A subscriber reads uncommitted records."""
    altered.reads_what_is_uncommitted()


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A defect and how it is shown.

    Attributes
    ----------
    plant : callable
    part : "train", "score", "scale" or "read"
    nemeses : tuple of str
        Under which it comes to light.
    shows : tuple of str
        Anomalies of which at least one must be found.
    faults, transactions : int
        How many are waited for.
    models : tuple of str
        Who learns.
    """

    plant: Callable[[], None]
    part: str
    nemeses: tuple[str, ...]
    shows: tuple[str, ...]
    faults: int = 5
    transactions: int = 100
    models: tuple[str, ...] = ("a",)


def _of(plant: Callable[[], None], part: str, nemeses: str, *shows: str, faults: int = 5, models: str = "a") -> Defect:
    return Defect(
        plant=plant,
        part=part,
        nemeses=tuple(nemeses.split(",")),
        shows=shows,
        faults=faults,
        models=tuple(models.split(",")),
    )


DEFECTS: Final = MappingProxyType(
    {
        defect.plant.__name__.replace("_", "-"): defect
        for defect in (
            _of(publishes_pointers_apart, "train", "kill-trainer", "torn-version"),
            _of(uses_no_transactions, "train", "kill-trainer", "torn-version", "doubled-version"),
            _of(
                reads_uncommitted, "train", "kill-trainer", "lost-version", "missing-version", "torn-version", "forged"
            ),
            _of(resends_blindly, "train", "lost-answer", "doubled-version", faults=3),
            _of(assumes_success, "train", "lost-answer", "lost-version", "missing-version", "forged", faults=3),
            _of(tells_too_early, "train", "kill-trainer", "lost-version"),
            _of(takes_an_id_of_its_own, "train", "stop-trainer", "doubled-version", "zombie", faults=2),
            _of(never_renews, "train", "kill-broker", "stuck-trainer", faults=2),
            _of(forgets_its_parent, "train", "kill-trainer", "forged", faults=2),
            _of(looks_by_the_clock_only, "train", "recreated", "mixed", "misjoined", faults=2, models="c"),
            _of(believes_every_clock, "train", "wrong-clock", "misjoined", faults=2, models="d"),
            _of(believes_its_positions, "score", "recreated", "lost-score", "unasked", faults=2),
            _of(commits_beside_its_scores, "score", "kill-scorer", "doubled-score"),
            _of(names_no_member, "score", "stop-scorer", "doubled-score", "lost-score"),
            _of(passes_over_what_failed, "score", "kill-broker", "lost-score", "stuck-scorer"),
            _of(names_another_model, "score", "rebalance", "forged-score", faults=1),
            _of(has_random_ids, "score", "kill-both", "stuck-reader", "stuck-scorer", faults=4),
            _of(serves_what_is_uncommitted, "read", "kill-trainer", "aborted-read"),
            *(
                _of(plant, *given, models=models)
                for found in of_branches("planted", "HISTORIES")
                for plant, models, *given in found
            ),
        )
    }
)


def main() -> None:
    """Plant what the first argument names, and run what the second one names with the others."""
    sys.argv = set_from(sys.argv)
    names, part = sys.argv.pop(1).split("+"), sys.argv[1]
    for name in names:
        DEFECTS[name].plant()
    if part == "read":
        from tests.live.subscriber import main as subscribe

        subscribe(*sys.argv[2:])
        return
    from consumers.cli.app import main as command_line

    command_line()


if __name__ == "__main__":
    main()
