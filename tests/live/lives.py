"""What a trainer is fed in each of its lives, and what it is: kinds of streams under which every kill is the same row.

A kind is a step that makes the trainer what it is, and what makes the step that feeds a life, by the number of the life
and how many there are. A life is two versions' worth of rows, some of them for the dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from consumers.branches.late_labels import LabelsConfig
from consumers.settings import Settings
from streamsvm.config import ADAPTIVE_LEAF, PointsConfig
from streamsvm.crashpoints import POINTS
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.model import ClassModel
from streamsvm.points import Points
from streamsvm.toml_text import toml_value
from tests.branches.events import recipes, test_daemons
from tests.branches.late_labels.test_labels import Timed, write
from tests.consumers.trainer.test_classes import LABELS, records_of, several
from tests.consumers.trainers import encoded, versions
from tests.live.play import BAD, Play
from tests.live.strikes import Step, crash, feed, step
from tests.streams import DIMENSION, gaussian

LIFE: Final = 80
"""Rows of a life: two versions' worth, one of them no point."""
OTHERS: Final = ("scores.", "settle.", "coresets.", "erase.", "renew.")
TRAINERS: Final = [point for point in POINTS if not point.startswith(OTHERS)]
"""The points that any trainer passes."""
STRUCK: Final = set[str]()
"""The points at which some scenario of the table kills a trainer."""


@dataclass(frozen=True)
class Kind:
    """A kind of stream, and the trainer of it."""

    name: str
    become: Step
    life: Callable[[int, int], Step]
    points: tuple[str, ...] = ("input.learned:3", "cut.trained", "publish.committed", "checkpoint.renamed:2")
    """Within a leaf, with a cut in hand, with a version that no checkpoint knows, and with one that it knows."""
    holds: Step = lambda play: None
    """What is true of its versions besides."""
    forgets: str = "forgets-the-leaf"


def killed_at(points: Sequence[str], kind: Kind) -> Iterator[Step]:
    """One life for each point, each with new records to learn, and one that lives."""
    lives = len(points) + 1
    STRUCK.update(point.partition(":")[0] for point in points)
    yield kind.become
    for number, point in enumerate(points):
        yield kind.life(number, lives)
        yield crash(point)
    yield kind.life(len(points), lives)


@step
def store(play: Play, make: Callable[[], Sequence[bytes | None]]) -> None:
    """Store the records that a function makes."""
    play.feed(make())


@step
def become(
    play: Play, /, change: Callable[[Settings], Settings] = lambda same: same, *, plain: bool = False, **options: Any
) -> None:
    """Let the trainer have other settings, and options of the command line besides."""
    play.stage = replace(play.stage, settings=change(play.stage.settings), options={**play.stage.options, **options})
    play.plain = plain


# ------------------------------------------------------------ two labels, as any

PLAIN: Final = Kind("two labels", become(plain=True), lambda number, lives: feed(LIFE, number, bad=(7,)))
TUNED_AROUND: Final = ("cut.emitted", "cut.trained", "publish.committed", "checkpoint.renamed:2", "cut.trained:2")


def tuned_once(play: Play) -> None:
    """The first version chose C, and the others have it."""
    found = versions(play.direct, play.stage.settings)
    assert {version.lineage.tuned_at == version.lineage.cut for version in found} == {True, False}


TUNED: Final = Kind(
    "C that the first version chooses", become(plain=True, svm_tune="auto"), PLAIN.life, TUNED_AROUND, tuned_once
)


# ---------------------------------------------------------------- seven labels


def _labeled(settings: Settings) -> Settings:
    return settings.model_copy(update={"points": PointsConfig(dimension=DIMENSION, labels=LABELS)})


def _several(number: int) -> list[bytes]:
    values = records_of(several(LIFE, number))
    values[7] = BAD
    values[11] = values[11].replace(b'"y":"', b'"y":"not ')
    return values


def seven_machines(play: Play) -> None:
    """Each version tells seven labels apart, and two rows of each life were refused."""
    found = versions(play.direct, play.stage.settings)
    assert all(isinstance(version.model, ClassModel) and version.labels == LABELS for version in found)
    assert found[-1].stream.rows - found[-1].stream.points == 2 * play.rows[0] // LIFE


SEVEN: Final = Kind(
    "seven labels",
    become(_labeled, points_labels=",".join(LABELS)),
    lambda number, lives: store(partial(_several, number)),
    holds=seven_machines,
)


# -------------------------------------------------------------------- memories

ENOUGH: Final = 1_000
"""Points: with few, what a half-life leaves of the old rule outweighs the new one by chance."""
TURNED: Final = 2
"""The lives whose labels are turned: the last ones."""
SCREENED_LEAF: Final = 75
"""Rows of a leaf of which two are a span, so that half of the rows meet a screen."""
MEMORIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "all": {},
    "window": {"coreset_memory": "window", "coreset_window": 8 * 20},
    "decay": {"coreset_memory": "decay", "coreset_half_life": 8 * 20},
    "adaptive": {"coreset_memory": "adaptive", "coreset_points": ADAPTIVE_LEAF * 20},
}


def _turning(number: int, lives: int, rows: int) -> list[bytes]:
    points = gaussian(rows, seed=number)
    turned = Points(points.X, -points.y if number >= lives - TURNED else points.y, points.weight)
    values = encoded(turned)
    values[7] = BAD
    return values


def _memory(options: Mapping[str, Any]) -> Step:
    """Return what makes a trainer have a memory; one that forgets has no fixed C."""
    unfixed = {"coreset_points": ENOUGH, "svm_c": None, "coreset_structure": None} if options else {}
    return become(plain=True, **{**unfixed, **options})


@step
def _turns(play: Play, name: str) -> None:
    """Only a memory that forgets predicts by the new rule in the end."""
    found = versions(play.direct, play.stage.settings)
    assert {version.lineage.memory.kind if version.lineage.memory else "all" for version in found} == {name}
    fresh = gaussian(1_000, seed=99)
    right = float((np.sign(found[-1].model.decision_function(fresh.X)) == -fresh.y).mean())
    assert (right > 0.6) is (name != "all")


def remembering(name: str) -> Kind:
    """Return the kind of a trainer with a memory, over a stream whose rule turns in its last lives."""
    return Kind(
        f"memory {name}",
        _memory(MEMORIES[name]),
        lambda number, lives: store(partial(_turning, number, lives, LIFE)),
        holds=_turns(name),
    )


def _screened(play: Play) -> None:
    _memory({"coreset_memory": "adaptive", "coreset_points": ADAPTIVE_LEAF * SCREENED_LEAF})(play)
    play.leaf_rows = SCREENED_LEAF


SCREENED_SPAN: Final = Kind(
    "spans screened by their first leaf",
    _screened,
    lambda number, lives: store(partial(_turning, number, lives, 4 * SCREENED_LEAF)),
)


# ----------------------------------------------------------------- late labels

ROW_MS: Final = 1_000
LATE: Final = 30
"""Rows after which the label of one comes."""
AHEAD: Final = LATE + 10
"""Rows written before those of the first life, so that each life has its versions while rows wait for a label."""
STREAM: Final = gaussian(LIFE * (len(POINTS) + 2), seed=11)


def _joining(play: Play) -> None:
    labels = LabelsConfig(topic=f"{play.topic}-labels", horizon=10.0 * LATE * ROW_MS / 1_000)
    Cluster(play.direct).create([TopicSpec(labels.topic, 1)])
    become(
        lambda settings: settings.model_copy(update={"labels": labels}),
        labels_topic=labels.topic,
        labels_horizon=labels.horizon,
    )(play)
    play.counted = False


@step
def _joined(play: Play, number: int) -> None:
    """Write rows, one of them no point at all, and the labels that are due by the newest."""
    settings: Any = play.stage.settings
    rows = range(AHEAD + LIFE * number if number else 0, AHEAD + LIFE * (number + 1))
    points = [Timed(0, ROW_MS * i, encode(STREAM.X[i], id=f"t{i}")) for i in rows]
    write(play.direct, play.topic, [*points, Timed(0, ROW_MS * rows[-1], BAD)])
    due = range(max(0, rows[0] - LATE), rows[-1] - LATE + 1)
    told = [(i, json.dumps({"id": f"t{i}", "y": int(STREAM.y[i])}).encode()) for i in due]
    write(play.direct, settings.labels.topic, [Timed(0, ROW_MS * (i + LATE), value) for i, value in told])
    play.rows[0] += LIFE


LATE_LABELS: Final = Kind(
    "labels that come later",
    _joining,
    lambda number, lives: _joined(number),
    ("input.learned:2", "publish.committed", "checkpoint.renamed:2", "deadletters.sent"),
    forgets="forgets-what-waits",
)


# ------------------------------------------------------------------ raw events


def _events(play: Play) -> None:
    file = play.directory / "streamsvm.toml"
    tables = {"features": recipes.PAYMENTS, "events": recipes.EVENTS}
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    ]
    file.write_text("\n".join(lines))
    become(test_daemons.with_features, config=file)(play)


def _payments(number: int) -> list[bytes]:
    events = [recipes.payment(1_000 * number + index) for index in range(LIFE)]
    events[7] |= {"amount": "12"}
    events[11] |= {"ts": "2026-02-30"}
    del events[13]["vip"]
    return test_daemons.encoded(events)


def of_the_recipe(play: Play) -> None:
    """Each version names the recipe, and three events of each life were refused."""
    found = versions(play.direct, play.stage.settings)
    assert all(version.recipe == recipes.payments() for version in found)
    assert found[-1].stream.rows - found[-1].stream.points == 3 * play.rows[0] // LIFE


EVENTS: Final = Kind(
    "raw events",
    _events,
    lambda number, lives: store(partial(_payments, number)),
    ("cut.trained", "checkpoint.renamed:2"),
    of_the_recipe,
)

KINDS: Final = (TUNED, SEVEN, *map(remembering, MEMORIES), SCREENED_SPAN, LATE_LABELS, EVENTS)
