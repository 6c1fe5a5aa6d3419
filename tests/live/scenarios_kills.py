"""Kills: at each named point, at random moments, of trainers of every kind of stream; and what a log may hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from consumers.verify.verify import verify
from streamsvm.checkpoint import decode
from streamsvm.kafka import Cluster, Message, Outbox
from streamsvm.model import Memory
from streamsvm.verification import Outcome
from tests.brokers.settings import COMPACT_AT_ONCE
from tests.consumers.trainers import records, versions
from tests.deadline import eventually
from tests.kafka import foreign
from tests.kafka.foreign import aborted
from tests.live.lives import (
    EVENTS,
    KINDS,
    LATE_LABELS,
    LIFE,
    PLAIN,
    SEVEN,
    TRAINERS,
    Kind,
    become,
    killed_at,
    remembering,
)
from tests.live.play import LOOK_S, Play
from tests.live.process import DEADLINE_S, read_all
from tests.live.scenario import Scenario
from tests.live.strikes import Step, begin, crash, feed, kill, kill_at_random, reach, same, step, stop, through

PARTS: Final = 4
"""Streams over which the named points are spread."""
OFTEN: Final = ("input.learned", "cut.", "publish.", "checkpoint.")
AGAIN: Final = [f"{point}:2" for point in TRAINERS if point.startswith(OFTEN)]
THIRD: Final = [f"{point}:3" for point in TRAINERS if point.startswith(("input.learned", "checkpoint."))]
RENEWED: Final = ("renew.begun", "renew.fenced")
"""Points that a trainer passes once an answer to a commit was lost."""
FORGOTTEN: Final = "not the models of a clean run|different training set|unexpected AssertionError"
WINDOW: Final = remembering("window")
SCREENED_ROWS: Final = 400
"""After so many rows every leaf is screened."""
LOGGED: Final = 800


def _sure(kind: Kind) -> Step:
    def end(play: Play) -> None:
        same()(play)
        kind.holds(play)

    return end


@step
def _some_again(play: Play) -> None:
    """Store the first ten records again: rows of an open leaf, whatever the kind."""
    stored = [*Cluster(play.direct).read_to_end(play.topic, 0, timeout_s=30.0)]
    play.feed([record.value for record in stored[:10]])


@step
def _all_learned(play: Play) -> None:
    """Wait until nothing of the input is left to learn."""
    read_all(play.daemon)


def _forgetting(kind: Kind) -> Scenario:
    """Stop a trainer with an open leaf, which its next life forgets."""
    return Scenario(
        name=f"a restart that forgets rows of {kind.name} is found",
        steps=(
            *(kind.become, kind.life(0, 2), _some_again()),
            *(begin(), reach(), _all_learned(), stop()),
            kind.life(1, 2),
        ),
        end=same(),
        planted=(kind.forgets,),
        found=FORGOTTEN,
    )


KILLS: Final = (
    *(
        Scenario(
            name=f"a kill at any named point changes nothing, part {part}",
            steps=(*killed_at(TRAINERS[part::PARTS], PLAIN),),
            end=same(),
            quick=part == 0,
        )
        for part in range(PARTS)
    ),
    Scenario(
        name="a kill at later passages of a point changes nothing",
        steps=(*killed_at([*AGAIN, *THIRD], PLAIN),),
        end=same(),
    ),
    Scenario(
        name="a kill while a producer is renewed changes nothing",
        steps=(*killed_at(RENEWED, PLAIN),),
        end=same(),
        planted=("loses-an-answer",),
        quick=True,
    ),
    *(
        Scenario(
            name=f"{kills} kills at random moments change nothing",
            steps=(feed(rows), kill_at_random(kills)),
            end=same(),
            quick=kills == 3,
        )
        for kills, rows in ((3, 2_000), (100, 20_000))
    ),
    *(
        Scenario(
            name=f"kills of a trainer of {kind.name} change nothing",
            steps=(*killed_at(kind.points, kind),),
            end=_sure(kind),
            quick=kind in (SEVEN, EVENTS, LATE_LABELS) or "adaptive" in kind.name,
        )
        for kind in KINDS
    ),
    *(
        Scenario(
            name=f"kills at every named point of a trainer of {kind.name} change nothing",
            steps=(*killed_at(TRAINERS, kind),),
            end=same(),
        )
        for kind in (SEVEN, remembering("window"), remembering("decay"), remembering("adaptive"), LATE_LABELS, EVENTS)
    ),
    Scenario(
        name="kills at random moments of a trainer of seven labels change nothing",
        steps=(SEVEN.become, *(SEVEN.life(number, 10) for number in range(10)), kill_at_random(3)),
        end=same(),
    ),
    Scenario(
        name="a restart that forgets rows of two labels is found",
        steps=(feed(90), through(), feed(30, seed=1)),  # ten rows of an open leaf are in the checkpoint
        end=same(),
        planted=("forgets-the-leaf",),
        found=FORGOTTEN,
        quick=True,
    ),
    *map(_forgetting, (SEVEN, remembering("adaptive"), EVENTS)),
    Scenario(
        name=f"a restart that forgets rows of {LATE_LABELS.name} is found",
        steps=(LATE_LABELS.become, LATE_LABELS.life(0, 2), crash("checkpoint.renamed:3"), LATE_LABELS.life(1, 2)),
        end=same(),
        planted=(LATE_LABELS.forgets,),
        found=f"{FORGOTTEN}|it says nothing",  # the rows that are lost are due
    ),
)


# ------------------------------------------------- within a screened leaf, at the start


def _screened(play: Play) -> None:
    """Count the newest checkpoint if it was made in the middle of a screened leaf: the clock decides when one is."""
    newest = max(play.stage.settings.checkpoint.directory.glob("*.ssvm"))
    (partition,) = decode(newest.read_bytes()).learner.partitions.values()
    play.counts["checkpoints_within_a_screened_leaf"] += bool(partition.screen and partition.extent.rows)


def _within(play: Play) -> None:
    same()(play)
    assert play.counts["checkpoints_within_a_screened_leaf"], "no checkpoint was made in the middle of a screened leaf"


def _from_the_latest(play: Play) -> None:
    """The one version is of the rows that came after the first start."""
    (version,) = versions(play.direct, play.stage.settings)
    assert version.lineage.base[0].offset == 30
    assert version.stream.points == 40


@step
def _killed_at_its_start(play: Play) -> None:
    play.begin(input_start="latest").wait_for("started")
    play.kill()


@step
def _through_version_one(play: Play) -> None:
    daemon = play.begin(input_start="latest")
    assert daemon.reaches_version(1), daemon.said
    stop()(play)


STARTS: Final = (
    Scenario(
        name="kills within a screened leaf change nothing",
        steps=(
            feed(SCREENED_ROWS, seed=9),
            through(),
            *(
                each
                for number, point in enumerate(("input.learned:2", "publish.committed", "checkpoint.renamed:2"))
                for each in (feed(LIFE, number, bad=(7,)), crash(point), _screened)
            ),
            feed(LIFE, 3, bad=(7,)),
        ),
        end=_within,
    ),
    Scenario(
        name="a kill before the first poll keeps the start",
        steps=(
            become(plain=False),
            feed(30),
            _killed_at_its_start(),
            feed(50, seed=1),
            _through_version_one(),
        ),
        end=_from_the_latest,
        quick=True,
    ),
)


@step
def _past_removed(play: Play) -> None:
    """Remove the rows before the newest version's window, as retention does."""
    memory = versions(play.direct, play.stage.settings)[-1].lineage.memory
    assert isinstance(memory, Memory)
    oldest = memory.partitions[0].oldest[0]
    assert oldest >= (6 * LIFE - 8 * 20) // 2
    foreign.delete_records(play.direct, play.topic, 0, oldest)
    play.whole = False


def _newest_is_recomputed(play: Play) -> None:
    """The newest version is identical; the input of the oldest one is said to be gone."""
    report = verify(Cluster(play.direct), play.stage.settings)
    assert report.rows[-1].outcome == Outcome.IDENTICAL
    assert report.rows[0].outcome == Outcome.UNAVAILABLE
    assert "removed" in report.rows[0].note


RETENTION: Final = Scenario(
    name="a window is verified when retention has removed its past",
    steps=(*killed_at((), WINDOW), *(WINDOW.life(number, 6) for number in range(1, 6)), through(), _past_removed()),
    end=_newest_is_recomputed,
    quick=True,
)


# --------------------------------------------------------------------- what a log holds


def _offsets(play: Play) -> list[int]:
    """Return the offsets that a reader of the input gets."""
    return [record.offset for record in Cluster(play.direct).read_to_end(play.topic, 0, timeout_s=30.0)]


def _each_offset_once(play: Play) -> None:
    """Each version counts the offsets below its cut that are there, and a clean run agrees."""
    _counted(play)  # a trainer that leaves records out never comes to the end
    same()(play)
    assert _counted(play) == list(range(40, len(_offsets(play)) + 1, 40)), "not each offset once"


def _counted(play: Play) -> list[int]:
    there, found = _offsets(play), versions(play.direct, play.stage.settings)
    counted = [sum(offset < version.lineage.cut[0].offset for offset in there) for version in found]
    assert [version.stream.rows for version in found] == counted, "not each offset once"
    return counted


def _mixed(play: Play) -> None:
    """Store a stream in which a third of the records come twice or more, far apart and out of order."""
    chance, plain = random.Random(1), records(LOGGED, 1)
    values = plain + chance.choices(plain, k=LOGGED // 2)
    chance.shuffle(values)
    play.feed(values)


def _with_aborted(play: Play) -> None:
    """Store points with aborted transactions and control records among them."""
    become()(play)
    play.counted = False
    for turn in range(10):
        aborted(play.direct, play.topic, records(7, seed=100 + turn))
        play.feed(records(LOGGED // 20, seed=turn))
    assert len(_offsets(play)) == LOGGED // 2


def _keyed(play: Play, values: Sequence[bytes]) -> None:
    outbox = Outbox(play.direct)
    for index, value in enumerate(values):
        outbox.send(Message(play.topic, value, b"%d" % (index % 150), partition=0))
    outbox.flush(30.0)
    outbox.close()


def _compacted(play: Play) -> None:
    """Store records under keys that come again and again in a compacted topic, against advice."""
    become()(play)
    play.counted = False
    for name, value in COMPACT_AT_ONCE.items():
        foreign.set_option(play.direct, play.topic, name, value)
    values = records(LOGGED)
    for first in range(0, LOGGED, 200):
        _keyed(play, values[first : first + 200])

    def compacted() -> bool:
        _keyed(play, values[:1])  # closes the segment before it
        return len(_offsets(play)) < LOGGED

    eventually(compacted, "the input is compacted", DEADLINE_S, LOOK_S)
    foreign.set_option(play.direct, play.topic, "cleanup.policy", "delete")
    play.rows[0] = len(_offsets(play))


@step
def _killed_twice(play: Play) -> None:
    """Kill a trainer after a third of the versions, and again after two thirds."""
    for third in (1, 2):
        begin()(play)
        reach(max(1, third * play.due // 3))(play)
        kill()(play)


LOG: Final = (
    Scenario(
        name="duplicates and disorder count by offset",
        steps=(_mixed, _killed_twice()),
        end=_each_offset_once,
    ),
    Scenario(
        name="aborted records leave gaps that count for nothing",
        steps=(_with_aborted, _killed_twice()),
        end=_each_offset_once,
        quick=True,
    ),
    Scenario(
        name="records that compaction removed count for nothing",
        steps=(_compacted, _killed_twice()),
        end=_each_offset_once,
        quick=True,
    ),
    Scenario(
        name="a trainer that guesses duplicates is found",
        steps=(_mixed, _killed_twice()),
        end=_each_offset_once,
        planted=("drops-duplicates",),
        found="not each offset once|different training set|not the models of a clean run",
    ),
)

SCENARIOS: Final = (*KILLS, *STARTS, RETENTION, *LOG)
