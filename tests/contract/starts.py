"""The table of a start as data, `start.json`, and what the shipped code decides for each of its rows.

A start finds a head, checkpoints, a log and a record of erased rows, each in one of the situations below. A row of the
table names some of these situations for each of the four, what a start decides there, and what it decides with
``input.on_gap = reset``. Every combination is in exactly one row.

``python -m tests.contract.starts`` writes the table that today's code decides; read each row that changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from consumers.branches.history import History
from consumers.host import exit_code
from consumers.settings import Settings
from consumers.streams import KnownPointers
from streamsvm.branches.history import Erased, Obeyed, obeying
from streamsvm.checkpoint import Snapshot, format as checkpoint
from streamsvm.coreset import History as Blocks, Moments
from streamsvm.delivery import Begin, Candidate, Present, Resume, decide
from streamsvm.errors import CorruptCheckpoint, StateError
from streamsvm.kafka import TopicInfo
from streamsvm.learning import Learner
from streamsvm.model import Head, PartitionCut
from tests.checkpoint.test_checkpoint import snapshot
from tests.streams import head_of, small_config

FILE: Final = Path(__file__).parent / "start.json"
CONFIG: Final = small_config()
OTHER: Final = CONFIG.model_copy(update={"seed": 12})
INCARNATION: Final = 2
"""Of the checkpoints; there was a reset before it."""


WORLD: Final[Any] = SimpleNamespace(
    settings=Settings(kafka={"bootstrap.servers": "unused:1"}, name="m"), components=SimpleNamespace(cluster=None)
)
"""Of a trainer without kept checkpoints, which asks no broker while it decides."""


def head(number: int, incarnation: int = INCARNATION, offset: int = 40) -> Head:
    """Return a head record whose version was made up to this offset of partition 0."""
    return head_of(number, [PartitionCut(0, offset, 0, 0)], incarnation=incarnation)


HEADS: Final[Mapping[str, Head | None]] = {
    "none": None,
    "the checkpoint's": head(5),
    "newer than the checkpoint's": head(9),
    "older than the checkpoint's": head(4),
    "of an earlier incarnation": head(3, 1),
    "of a later incarnation": head(9, 3),
    "made of records beyond the log": head(9, offset=101),
}


def good(**changes: Any) -> Snapshot:
    """Return a checkpoint at offset 50 of partition 0, and in the middle of the record 7 of partition 2."""
    plain = {"sequence": 2, "incarnation": INCARNATION, "head": head(5), "pending": None}
    return replace(snapshot(), **{**plain, **changes})


def configured(config: Any, **changes: Any) -> Snapshot:
    """Return a checkpoint of a configuration."""
    return good(configuration=config.canonical(), configuration_sha256=config.sha256(), **changes)


def nothing_learned() -> Snapshot:
    """Return a checkpoint of another configuration whose incarnation rejected every row, and published nothing."""
    made, none = configured(OTHER, head=head(3, 1)), Moments.zero(CONFIG.points.dimension)
    empty = {
        partition: replace(
            state,
            sealed=0,
            buckets=(),
            leaf=state.leaf.take(slice(0, 0)),
            extent=replace(state.extent, moments=none),
            screen=None,
            raw=True,
            audit=(),
            history=Blocks.zero(CONFIG.points.dimension),
        )
        for partition, state in made.learner.partitions.items()
    }
    return replace(made, learner=replace(made.learner, partitions=empty))


def older(**changes: Any) -> Snapshot:
    """Return an older checkpoint, from before anything was read."""
    return good(sequence=1, learner=Learner(CONFIG, good().base, 1).state(), **changes)


CHECKPOINTS: Final[Mapping[str, Sequence[Snapshot | None]]] = {
    "none": (),
    "good": (good(),),
    "good, before the first version": (good(head=None),),
    "good, after a reset": (good(head=head(3, 1)),),
    "good, past records that held nothing": (good(read_to={0: 60}),),
    "good, and an older one": (good(), older()),
    "good, and one of an earlier incarnation": (good(), older(incarnation=1)),
    "damaged, and an older one": (None, older()),
    "of another topic": (good(topic="u"),),
    "of another configuration": (configured(OTHER),),
    "of another configuration, nothing learned": (nothing_learned(),),
    "of another model": (good(name="other"),),
}
"""The newest first; None: its bytes are damaged."""

WHOLE: Final = {0: (0, 100), 2: (0, 100)}
LOGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "whole": {},
    "cut by retention before the checkpoint": {"log": {0: (50, 100), 2: (7, 100)}},
    "cut by retention past the checkpoint": {"log": {0: (60, 100), 2: (0, 100)}},
    "cut by retention in a record": {"log": {0: (0, 100), 2: (8, 100)}},
    "shorter": {"log": {0: (0, 49), 2: (0, 100)}},
    "without a partition": {"log": {0: (0, 100)}},
    "recreated": {"topic_id": "new"},
    "written anew under another leader": {},
}

ROWS: Final = ((0, 7, 0, 5),)
RECORD: Final = Erased(topic="t", topic_id="id", incarnation=INCARNATION, continues=INCARNATION, rows=ROWS)
EARLIER: Final = Erased(topic="t", topic_id="id", incarnation=1, continues=1, rows=ROWS)
ELSEWHERE: Final = Erased(topic="t", topic_id="before", incarnation=1, continues=1, rows=ROWS)
ERASED: Final[Mapping[str, tuple[Erased | None, bool]]] = {
    "none": (None, False),
    "of a topic before": (ELSEWHERE, False),
    "obeyed by the checkpoint": (RECORD, True),
    "not obeyed by the checkpoint": (RECORD, False),
    "before the checkpoint's incarnation, not obeyed": (EARLIER, False),
    "obeyed, but the record is lost": (None, True),
}
"""The record on the aliases topic, and whether the checkpoints were made under it."""

DIMENSIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "checkpoint": CHECKPOINTS, "erased": ERASED, "head": HEADS, "log": LOGS,
}  # fmt: skip
ESSENCES: Final = {
    "other model": "belongs to the model 'other', but this model is 'm'",
    "no checkpoint": "but there is no checkpoint in /c to continue from",
    "other configuration": "the configuration differs from the checkpoint's: seed was 12, is now 11",
    "other topic": "was made from the topic 'u', but the input topic is 't'",
    "continued elsewhere": "another trainer has continued this model",
    "head lost": "the checkpoint knows m@5, but the aliases topic holds no m",
    "head older": "the checkpoint knows m@5, but the aliases topic ends at m@",
    "recreated": "has the id new: the topic was recreated",
    "partition gone": "position in partition 2 of t, which does not exist",
    "truncated": "the checkpoint is at offset 50 of t[0], but t[0] ends at 49: the topic was truncated",
    "head beyond": "m@9 is at offset 101 of t[0], but t[0] ends at ",
    "unread records": " unread records",
    "other leader": "an unclean leader election replaced the record",
    "erasure lost": "the aliases topic holds no record m@erased: rows that were erased would be learned",
}
"""What each refusal says."""


@cache
def read(name: str, *, obeys: bool) -> list[Snapshot]:
    """Return what is read of the bytes of checkpoints; those that are damaged are left out."""
    found = []
    for saved in CHECKPOINTS[name]:
        made = saved or good()
        value = checkpoint.encode(obeying(made, Obeyed.of(RECORD, 1)) if obeys else made)
        with suppress(CorruptCheckpoint):
            found.append(checkpoint.decode(value if saved is not None else value[:-1] + bytes([value[-1] ^ 1])))
    return found


def candidates(situation: Mapping[str, str], present: Present) -> Iterator[Candidate]:
    """Yield what a start may continue from, as a trainer that obeys records of erased rows does."""
    erased, obeys = ERASED[situation["erased"]]
    history = History(WORLD)
    topic = TopicInfo(present.topic, present.topic_id, (0, 2))
    history.found(topic, KnownPointers(present.head, None, None, erased))
    for one in history.ordered(read(situation["checkpoint"], obeys=obeys), present):
        candidate = history.candidate(one, present)
        changed = situation["log"] == "written anew under another leader"
        epochs = {
            (partition, at.offset - (not at.row)): state.leader_epoch + changed
            for partition, state in candidate.learner.partitions.items()
            for at in [state.position]
        }
        yield Candidate(candidate, epochs, read=one)


def decided(situation: Mapping[str, str], **options: Any) -> Begin | Resume | StateError:
    """Return what the shipped code decides in a situation."""
    found = {"log": WHOLE, "topic_id": "id", **LOGS[situation["log"]], **options}
    present = Present(
        name="m", topic="t", configuration=CONFIG.canonical(), configuration_sha256=CONFIG.sha256(),
        head=HEADS[situation["head"]], checkpoints="/c", **found,
    )  # fmt: skip
    try:
        return decide(candidates(situation, present), present)
    except StateError as refused:
        return refused


def essence(message: str) -> str:
    """Return the name of what a message says."""
    (name,) = [name for name, words in ESSENCES.items() if words in message]
    return name


def shown(situation: Mapping[str, str], **options: Any) -> str:
    """Write what the shipped code decides as the table has it."""
    decision = decided(situation, **options)
    if isinstance(decision, StateError):
        return f"exit {exit_code(decision)}: {essence(decision.what)}"
    whose = "topic" if decision.head == HEADS[situation["head"]] else "checkpoint"
    after = f" after the {whose}'s version" if decision.head else ""
    if isinstance(decision, Begin):
        why = decision.gap or decision.changed
        return f"begin {decision.incarnation}{after}" + (f", for {essence(why)}" if why else "")
    which = f"{decision.snapshot.incarnation}" + (" from the beginning" if not learned(decision.snapshot) else "")
    passed = f", passing over {essence(decision.passed_over)}" if decision.passed_over else ""
    return f"continue {which}{after}{passed}"


def learned(saved: Snapshot) -> bool:
    """Return whether a checkpoint holds any row."""
    return any(state.learned.count for state in saved.learner.partitions.values())


def situations() -> Iterator[dict[str, str]]:
    """Yield every combination."""
    for values in product(*DIMENSIONS.values()):
        yield dict(zip(DIMENSIONS, values, strict=True))


def rows() -> list[dict[str, Any]]:
    """Return the table that today's code decides, its rows joined where they decide alike."""
    told = {tuple(one.values()): (shown(one), shown(one, on_gap="reset")) for one in situations()}
    return [
        {**dict(zip(DIMENSIONS, chosen, strict=True)), "decides": plain, "on gap": on_gap}
        for chosen, (plain, on_gap) in _joined(told, [list(values) for values in DIMENSIONS.values()])
    ]


def named(chosen: Any, every: Iterable[str]) -> list[str]:
    """Return the situations that a row names: these, all, or all but these."""
    if isinstance(chosen, dict):
        return [one for one in every if one not in chosen["all but"]]
    return list(every) if chosen == "all" else chosen


def _joined(told: Mapping[tuple[str, ...], Any], dimensions: Sequence[list[str]]) -> list[tuple[list[Any], Any]]:
    """Join the values of each dimension behind which all is the same."""
    if not dimensions:
        return [([], told[()])]
    own, rest = dimensions[0], dimensions[1:]
    groups: dict[str, tuple[list[str], list[tuple[list[Any], Any]]]] = {}
    for value in own:
        behind = _joined({key[1:]: found for key, found in told.items() if key[0] == value}, rest)
        groups.setdefault(json.dumps(behind), ([], behind))[0].append(value)
    return [([_short(values, own), *chosen], found) for values, behind in groups.values() for chosen, found in behind]


def _short(values: list[str], own: list[str]) -> Any:
    others = [one for one in own if one not in values]
    return "all" if not others else {"all but": others} if len(others) < len(values) else values


if __name__ == "__main__":
    FILE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows()) + "\n]\n")
