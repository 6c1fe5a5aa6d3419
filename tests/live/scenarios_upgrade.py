"""Scenarios of a release beside the next one, in each order, and the way back; erased rows stay erased meanwhile.

The next one is `tests.live.later`: it adds a part that builds before it may pass over, or one that they must not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from streamsvm import __version__
from streamsvm.errors import UnknownFormat
from streamsvm.model import Version, message
from tests.consumers.trainers import records, versions
from tests.live.later import NAMES, VERSION
from tests.live.play import BAD, Play
from tests.live.process import words
from tests.live.scenario import Scenario
from tests.live.strikes import Step, begin, feed, reach, refused, step, stop, through

OLD: Final = ""
ROWS: Final = 80
"""Of each life of a trainer: four leaves, and so two versions."""
EACH: Final = {"output_gate_margin": "none"}
"""Every version becomes current."""
ERASED: Final = 7
KNOWN_BY: Final = f"Use streamsvm {VERSION}, which wrote it, or a newer one"


@step
def life(play: Play, /, build: str = OLD, again: int = 0, **options: Any) -> None:
    """Feed what two versions are of, and run a trainer of a build until the second is there, after some made again."""
    play.before += again
    play.whole &= build == OLD
    play.readable &= build != "required"
    feed(ROWS, seed=play.rows.total())(play)
    play.begin(build=build, **options)
    reach()(play)
    stop()(play)


@step
def lose_checkpoints(play: Play) -> None:
    """Take the checkpoints out of their directory."""
    for path in play.stage.settings.checkpoint.directory.glob("*.ssvm"):
        path.unlink()


@step
def erase(play: Play, build: str) -> None:
    """Erase a row by a release's command; the newest version is made again without it."""
    play.before += 1
    own = play.stage.settings
    named = {"name": own.name, "input-topic": own.input.topic, "output-models-topic": own.output.models_topic}
    named |= {"bootstrap-servers": play.direct.servers, "checkpoint-directory": str(own.checkpoint.directory)}
    command = ["history", "forget", "--position", f"0:{ERASED}", "--yes", *words(named)]
    erasing = play.stage.start_command(command, build=build)
    assert erasing.wait() == 0, erasing.said
    play.whole = False


def _written(play: Play) -> Iterator[tuple[int, str]]:
    """Yield the number of each version, and which release wrote it."""
    for _, value in play.models():
        version = json.loads(value or b"")
        yield version["version"], version["lineage"]["build"]["streamsvm"]


def _content(version: Version) -> str:
    """Return the hash of what rows, configuration and cut decide of a version; not of which erased rows it knows."""
    lineage = msgspec.structs.replace(version.lineage, facts=())
    return message.content_sha256(replace(version, lineage=lineage, passed_over=()))


@step
def wrote(play: Play, *builds: str) -> None:
    """These builds wrote two versions each, and the last of them maybe more, made again."""
    wanted = [VERSION if build else __version__ for build in builds for _ in "12"]
    found = [build for _, build in _written(play)]
    assert found == [*wanted, *wanted[-1:] * (len(found) - len(wanted))]


@step
def as_never_upgraded(play: Play) -> None:
    """What may be passed over changes nothing: the versions are those of a trainer that was never upgraded."""
    found = versions(play.direct, play.stage.settings)
    assert [version.passed_over for version in found] == [(), (), *[(NAMES["optional"],)] * 2, (), ()]
    never = play.elsewhere("never")
    through()(never)
    assert [*map(_content, found)] == [*map(_content, versions(never.direct, never.stage.settings))]


@step
def as_if_rejected(play: Play) -> None:
    """What was published after the erasure is of a stream that rejected the row."""
    fed = [row for seed in range(0, 3 * ROWS, ROWS) for row in records(ROWS, seed=seed)]
    clean = replace(play.elsewhere("rejected"), rows=Counter(), first=Counter(), before=0)
    settings = clean.stage.settings
    other = settings.input.model_copy(update={"topic": f"{play.topic}-rejected"})
    clean.stage = replace(clean.stage, settings=settings.model_copy(update={"input": other}))
    clean.create()
    clean.feed([BAD if at == ERASED else row for at, row in enumerate(fed)])
    through()(clean)
    wanted = {_content(version) for version in versions(clean.direct, clean.stage.settings)}
    found: list[Version] = []
    for _, value in play.models()[2:]:
        with suppress(UnknownFormat):
            found.append(message.decode(value or b""))
    assert found[-1].stream.points == len(fed) - 1
    assert {*map(_content, found)} <= wanted


def erased(kind: str, eraser: str, first: str) -> tuple[Step, ...]:
    """One build learns, one erases, one goes on, and this one goes on after it."""
    again = (begin(), refused("a part of the kind 'later'"), lose_checkpoints(), life(again=4, reset="m/2"))
    return life(), erase(eraser), life(first), *(again if kind == "required" else (life(),))


SCENARIOS: Final = (
    Scenario(
        name="a trainer goes on from the next release and back",
        steps=(life(), life("optional"), life(), wrote(OLD, "optional", OLD)),
        end=as_never_upgraded(),
        options=EACH,
        quick=True,
    ),
    Scenario(
        name="a trainer refuses what it would get wrong and names the release",
        steps=(
            *(life(), life("required")),
            *(begin(), refused("a part of the kind 'later'", KNOWN_BY)),
            *(life("required"), wrote(OLD, "required", "required")),
            *(lose_checkpoints(), begin(), refused("--reset m/1"), life(again=6, reset="m/1")),
        ),
        end=wrote(OLD, "required", "required", OLD),
        options=EACH,
        but=frozenset({"refused-to-start"}),
    ),
    *(
        Scenario(
            name=f"a row that {who} erased stays erased under a part that is {kind}",
            steps=erased(kind, eraser, kind),
            end=as_if_rejected(),
            options=EACH,
            but=frozenset({"mixed", "refused-to-start"}),
        )
        for kind in NAMES
        for eraser, who in ((OLD, "this release"), (kind, "the next one"))
    ),
)
