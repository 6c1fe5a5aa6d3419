"""What people, administrators and machines do: topics that change, second trainers, clocks, pins, limits, disks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from streamsvm.checkpoint import CheckpointDirectory, FileSystem
from streamsvm.kafka import Cluster, Message, Outbox, TopicSpec
from streamsvm.model import TIME_HEADER, Alias, encode_alias, message as model_codec, pin_key, version_key
from streamsvm.registry import ModelSubscriber, load_version
from tests.consumers.trainers import topic, versions
from tests.kafka import foreign
from tests.kafka.foreign import committed
from tests.live.play import REFUSED, Play
from tests.live.process import Daemon, ask, metrics
from tests.live.scenario import Scenario
from tests.live.strikes import (
    RESET,
    WATCHFUL,
    Step,
    add_partition,
    begin,
    delete_records,
    delete_topic,
    feed,
    freeze,
    healthy,
    not_ready,
    published,
    reach,
    ready,
    recreate,
    refused,
    same,
    see,
    step,
    stop,
    thaw,
    through,
)
from tests.promise.topics import incarnations

FENCED: Final = 70
AS_IF_NOTHING: Final = "as if nothing had happened"

# ------------------------------------------------------------------ the input


def _begun_anew(rows: int) -> Step:
    """Let a trainer begin anew: numbers go on, the counts begin again."""

    def end(play: Play) -> None:
        daemon = play.begin(**WATCHFUL, **RESET)
        assert daemon.reaches_version(2 + rows // 40), daemon.said
        stop()(play)
        found = versions(play.direct, play.stage.settings)
        assert incarnations(play.direct, play.stage.settings) == [1, 1] + [2] * (rows // 40)
        assert [version.stream.points for version in found] == [40, 80, *range(40, rows + 1, 40)]

    return end


def _both_learned(play: Play) -> None:
    """Both partitions are learned, and each record once."""
    reach(8)(play)
    stop()(play)
    last = versions(play.direct, play.stage.settings)[-1]
    assert {part.partition for part in last.lineage.cut} == {0, 1}, "the new partition is not learned"


WIDENED: Final = (
    feed(90),
    begin(**WATCHFUL),
    reach(2),
    add_partition(),
    feed(110, seed=1, partition=1),
    feed(80, seed=2),
)
EXPLAINED: Final = frozenset({"refused-to-start"})
RECREATED: Final = Scenario(
    name="a topic that is made again is refused or begun anew",
    steps=(feed(90), through(), recreate(120), begin(**WATCHFUL), refused("--reset m/1", instead_of=3)),
    end=_begun_anew(120),
    but=EXPLAINED,
    quick=True,
)
TRUNCATED: Final = Scenario(
    name="a topic that is truncated is refused or begun anew",
    steps=(
        *(feed(90), through(), feed(90, seed=1), delete_records(100), begin(**WATCHFUL)),
        refused("[0]", "100", "--reset m/1", instead_of=3),
    ),
    end=_begun_anew(80),
    but=EXPLAINED | {"mixed"},  # who learned nothing below a gap counts from there on
    quick=True,
)
BY_NAME, OVER_A_GAP = "takes-every-topic-for-the-same", "jumps-over-removed-records"

TOPICS: Final = (
    RECREATED,
    RECREATED.spoilt("a trainer that knows a topic by its name only is found", BY_NAME, found=AS_IF_NOTHING),
    TRUNCATED,
    TRUNCATED.spoilt("a trainer that jumps over a gap is found", OVER_A_GAP, found=AS_IF_NOTHING),
    *(
        Scenario(
            name=f"a topic that is {what} while it is read ends the process",
            steps=(feed(90), begin(**WATCHFUL), reach(), strike, refused()),
            end=published(2),
            but=EXPLAINED,
            quick=what == "deleted",
        )
        for what, strike in {"deleted": delete_topic(), "made again": recreate(120)}.items()
    ),
    Scenario(
        name="records removed under a frozen process end it",
        steps=(
            feed(90),
            begin(**WATCHFUL),
            reach(),
            freeze(),
            feed(3_000, seed=1),
            delete_records(3_000),
            thaw(),
            feed(90, seed=2),
            refused(),
        ),
        end=published(2),
        but=EXPLAINED,
    ),
    Scenario(
        name="a new partition is learned",
        steps=(*WIDENED, reach(6), stop(), feed(40, seed=3, partition=1), feed(30, seed=4), begin()),
        end=_both_learned,
        quick=True,
    ),
    Scenario(
        name="a partition that is not seen is found",
        steps=(*WIDENED, reach(4), stop()),
        end=_both_learned,
        planted=("sees-no-new-partition",),
        found="the new partition is not learned|the process|version",
    ),
)

# ---------------------------------------------------------------- a second trainer

LONG: Final = 1_000


@step
def _second_on_the_same_directory(play: Play) -> None:
    """Start another trainer on the directory of a frozen one: it is refused in one line."""
    first = play.daemon
    second = play.begin()
    try:
        assert not second.reaches_version(1), "the second one works on the directory of the first"
        assert second.wait() == REFUSED
        assert "another process holds the checkpoint directory" in second.log[-1]
        assert "Stop that process, or give each trainer its own directory." in second.log[-1]
        assert "Traceback" not in second.said
    finally:
        first.thaw()
    play.stage.started.remove(second)


@step
def _copies_go_on(play: Play, times: int) -> None:
    """Freeze a trainer, let one on a copy of its directory go on, thaw the first; the copy is frozen next."""
    for turn in range(times):
        frozen = play.daemon
        frozen.freeze()
        rival = play.copy()
        running = rival.begin()
        assert running.reaches_version(play.due), running.said
        before = play.models()
        frozen.thaw()
        feed(40, seed=100 + turn)(play)
        assert not frozen.reaches_version(play.due), "the first one went on"
        assert frozen.wait() == FENCED, f"the first one was not fenced: {frozen.said}"
        assert "Traceback" not in frozen.said
        assert running.reaches_version(play.due), running.said
        if not turn:  # later on old versions are retired
            assert play.models()[:-1] == before, "the first one committed after it was thawed"
        play.stage = rival.stage
        if turn + 1 < times:
            feed(LONG, seed=turn + 1)(play)
            assert running.reaches_version(play.due - LONG // 40 + turn % 5), running.said
    stop()(play)


ZOMBIES: Final = frozenset({"refused-to-start"})

SECONDS: Final = (
    Scenario(
        name="a second trainer on the directory of a frozen one is refused",
        steps=(feed(60), begin(), reach(), freeze(), _second_on_the_same_directory(), feed(20, seed=1)),
        end=same(),
        quick=True,
    ),
    Scenario(
        name="a missing lock is found",
        steps=(feed(60), begin(), reach(), freeze(), _second_on_the_same_directory()),
        end=same(),
        planted=("locks-nothing",),
        found="works on the directory of the first",
    ),
    *(
        Scenario(
            name=f"a frozen trainer whose copy went on is fenced, {times} times over",
            steps=(feed(LONG), begin(), reach(3), _copies_go_on(times)),
            end=same(),
            planted=("steady",),
            but=ZOMBIES,
            quick=times == 1,
        )
        for times in (1, 8)
    ),
)

# --------------------------------------------------------------------- the clock

DAY_S: Final = 86_400
JUMPS_S: Final = ((0, DAY_S, 0, -DAY_S), (DAY_S, 0, DAY_S, -DAY_S))
"""By how much the clock is off, from one pair of versions to the next, in each of two lives."""


@step
def _jump(play: Play, seconds: int) -> None:
    """Set how far the clock of the process is off, in one step."""
    file = play.directory / "clock"
    fresh = file.with_suffix(".new")
    fresh.write_text(str(seconds), encoding="utf-8")
    fresh.rename(file)


def _clocks_that_jump() -> tuple[Step, ...]:
    lives = ((begin(), *(_jumped(life, at) for at in range(4)), stop()) for life in range(2))
    return tuple(each for life in lives for each in life)


def _jumped(life: int, at: int) -> Step:
    def act(play: Play) -> None:
        _jump(JUMPS_S[life][at])(play)
        feed(80, seed=2 * (4 * life + at))(play)
        reach()(play)

    return act


def _jumped_and_same(play: Play) -> None:
    """The clock did jump, and the models are those of a clean run."""
    read = topic(play.direct, play.stage.settings.output.models_topic)
    times = [datetime.fromisoformat(dict(record.headers)[TIME_HEADER].decode()) for record in read]
    assert max(times) - min(times) > timedelta(days=2), "the clock did not jump"
    assert times != sorted(times), "the clock did not go back"
    same()(play)


JUMPING: Final = Scenario(
    name="a clock that jumps a day either way changes no model",
    steps=_clocks_that_jump(),
    end=_jumped_and_same,
    planted=("follows-another-clock",),
)
DATED: Final = ("follows-another-clock", "dates-the-model")
CLOCK: Final = (
    JUMPING,
    JUMPING.spoilt("a model that knows the day is found", *DATED, found="not the models of a clean run"),
)

# ------------------------------------------------------------------ pins and limits

VERSIONS: Final = 30
PINNED: Final = 2
PATIENCE_S: Final = 30.0


def _write_alias(play: Play, key: str, alias: Alias | None) -> None:
    """Write to the aliases topic as a person's tool does: no transaction, no question."""
    value = None if alias is None else encode_alias(alias)
    outbox = Outbox(play.direct)
    outbox.send(Message(play.stage.settings.output.aliases_topic, value, key.encode(), partition=0))
    outbox.flush(PATIENCE_S)
    outbox.close()


def _alias_to(play: Play, number: int) -> Alias:
    key = version_key(play.stage.settings.name, number).encode()
    (record,) = (one for one in topic(play.direct, play.stage.settings.output.models_topic) if one.key == key)
    return Alias(number, model_codec.sha256(record.value or b""), record.offset)


@step
def _pin_while_publishing(play: Play) -> None:
    """Pin a version in the middle of a burst, restart the trainer, take the pin back; a subscriber sees just that."""
    name, models, seen = play.stage.settings.name, play.stage.settings.output.models_topic, list[int]()
    with ModelSubscriber(
        play.direct, name, models_topic=models, callback=lambda loaded: seen.append(loaded.version.number)
    ) as subscriber:
        subscriber.wait_for(PINNED, PATIENCE_S)
        feed(40 * VERSIONS, seed=1)(play)
        reach(PINNED + 5)(play)
        _write_alias(play, pin_key(name), _alias_to(play, PINNED))
        reach()(play)
        stop()(play)
        feed(40, seed=2)(play)
        through()(play)
        pinned = load_version(play.direct, name, models_topic=models).version.number
        assert pinned == PINNED, f"the pin does not hold: {pinned}"
        _write_alias(play, pin_key(name), None)
        subscriber.wait_for(play.due, PATIENCE_S)
    assert seen[-2:] == [PINNED, play.due], "something else was served between pin and unpin"


@step
def _allow(play: Play, limit: str) -> None:
    """Set the largest message of the models topic."""
    foreign.set_option(play.direct, play.stage.settings.output.models_topic, "max.message.bytes", limit)


@step
def _too_small_a_topic(play: Play) -> None:
    """A start where a version may not fit is refused: the line names the limit, and nobody is fenced."""
    models = play.stage.settings.output.models_topic
    config = {"max.message.bytes": TOO_LITTLE, "cleanup.policy": "compact"}
    Cluster(play.direct).create([TopicSpec(models, 1, config=config)])
    daemon = play.begin()
    assert daemon.wait() == REFUSED, daemon.said
    assert f"the topic {models} (max.message.bytes) allows only {TOO_LITTLE}" in daemon.log[-1]
    assert "Raise that limit to " in daemon.log[-1], "fewer training points make no linear model smaller"
    assert "train_points" not in daemon.log[-1]
    assert "Traceback" not in daemon.said


def _dropped_and_reported(play: Play) -> None:
    """The refused version's number went to the next, which covers its points too, and the audit trail says why."""
    reach(2)(play)
    stop()(play)
    settings = play.stage.settings
    found = versions(play.direct, settings)
    assert [version.stream.rows for version in found] == [40, 120], "not the first and the third cut"
    audit = [json.loads(record.value or b"{}") for record in topic(play.direct, settings.output.audit_topic)]
    (refusal,) = (entry for entry in audit if entry["event"] == "version_refused")
    assert refusal["version"] == 2
    models = settings.output.models_topic
    assert f"the topic {models} (max.message.bytes) allows only {TOO_LITTLE}" in refusal["why"], refusal


def _no_version(play: Play) -> None:
    """Nothing was published."""
    assert play.models() == []


TOO_LITTLE, ENOUGH = "300", "1048588"

HELD: Final = Scenario(
    name="a pin holds while versions are published",
    steps=(feed(40 * PINNED), begin(), reach(), _pin_while_publishing()),
    end=same(),
    but=frozenset({"torn-move"}),  # the person's own tool writes no audit entry
    quick=True,
)
PEOPLE: Final = (
    HELD,
    HELD.spoilt("a trainer that takes pins back is found", "takes-pins-back", found="the pin does not hold"),
    Scenario(
        name="a version that grew too large is dropped and reported",
        steps=(
            feed(40),
            begin(),
            reach(),
            _allow(TOO_LITTLE),
            feed(40, seed=1),
            see("version_refused"),
            _allow(ENOUGH),
            feed(40, seed=2),
        ),
        end=_dropped_and_reported,
        quick=True,
    ),
    Scenario(
        name="a refusal taken for a success is found",
        steps=(
            feed(40),
            begin(),
            reach(),
            _allow(TOO_LITTLE),
            feed(40, seed=1),
            reach(2),
            _allow(ENOUGH),
            feed(40, seed=2),
            reach(),
            stop(),
        ),
        planted=("takes-a-refusal-for-success",),
        found="missing-version|torn-version|lost-version|forged",
    ),
    Scenario(
        name="a limit that a model may exceed is refused at the start",
        steps=(_too_small_a_topic(),),
        end=_no_version,
        but=EXPLAINED,
        quick=True,
    ),
)

# ---------------------------------------------------------------------- disks


def _run(*command: str) -> None:
    """Run a command, or skip the test, saying why, where this machine does not allow it."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{' '.join(command)}: {error.stderr.strip()}")


class FullDisk:
    """A file system of a megabyte in memory, and a file that fills it."""

    told: Final = os.strerror(errno.ENOSPC)

    def begin(self, directory: Path) -> None:
        self._mount = directory.parent
        self._mount.mkdir()
        _run("mount", "-t", "tmpfs", "-o", "size=1024k", "tmpfs", str(self._mount))

    def fail(self) -> None:
        """Fill it, and take the older checkpoints away, which would be given up for the next one."""
        older = [self._mount]
        while older:
            with (self._mount / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            older = sorted(self._mount.glob("*/checkpoint-*.ssvm"))[:-1]
            for path in older:
                path.unlink(missing_ok=True)

    def mend(self) -> None:
        (self._mount / "ballast").unlink()

    def clear(self) -> None:
        _run("umount", "--lazy", str(self._mount))


class ReadOnlyDirectory:
    """A directory in which nobody may create, rename or remove a file."""

    told: Final = os.strerror(errno.EPERM if os.geteuid() == 0 else errno.EACCES)

    def begin(self, directory: Path) -> None:
        self._directory = directory
        directory.parent.mkdir()

    def fail(self) -> None:
        self._set("chattr +i", 0o555)

    def mend(self) -> None:
        self._set("chattr -i", 0o755)

    clear = mend

    def _set(self, command: str, mode: int) -> None:
        if os.geteuid() == 0:
            _run(*command.split(), str(self._directory))
        else:
            self._directory.chmod(mode)


class BrokenDisk:
    """A disk that answers EIO when the process wants to know whether its bytes arrived."""

    told: Final = os.strerror(errno.EIO)

    def begin(self, directory: Path) -> None:
        self._broken = directory.parent.parent / "eio"
        directory.parent.mkdir()

    def fail(self) -> None:
        self._broken.touch()

    def mend(self) -> None:
        self._broken.unlink(missing_ok=True)

    def clear(self) -> None:
        """Nothing is left behind."""


Disk = FullDisk | ReadOnlyDirectory | BrokenDisk


def _usable(directory: Path, copy: Path) -> list[str]:
    """Return the generations that a start could use now, looking at a copy."""
    copy.mkdir()
    for path in directory.glob("checkpoint-*.ssvm"):
        shutil.copy(path, copy)
    with CheckpointDirectory(FileSystem(copy), 100) as copied:
        return [found.name for found in copied.generations() if found.snapshot is not None]


@step
def _without_a_disk(play: Play, make: Callable[[], Disk]) -> None:
    """A disk fails under a process: versions, an alarm, offsets that stay; the same after a restart; recovery."""
    disk, directory = make(), play.directory / "disk" / "checkpoint"
    disk.begin(directory)
    play.stage = play.stage.in_directory(directory)

    def observed(rows: int) -> Callable[[], bool]:
        group = f"streamsvm-{play.stage.settings.name}"
        return lambda: committed(play.direct, group, play.topic, 0) == rows

    def start() -> Daemon:
        return play.begin(MOST_CHECKPOINT_AGE_S=1)

    try:
        feed(60)(play)
        first = start()
        reach()(play)
        play.wait_until(observed(60), "the first rows' checkpoint")
        disk.fail()
        assert disk.told in first.wait_for("checkpoint_failed", times=2)["what"]
        feed(140, seed=1)(play)
        reach()(play)
        assert disk.told in first.wait_for("checkpoint_failed", times=2)["what"]
        assert observed(60)(), "the offsets went on without a checkpoint"
        assert _usable(directory, play.directory / "meanwhile")
        not_ready("checkpoint")(play)
        healthy()(play)
        assert "streamsvm_checkpoint_failures_total 0" not in ask(first, "metrics")[1]
        for seed in (2, 3):  # killed and started again, twice: versions go on
            play.kill()
            again = start()
            assert disk.told in again.wait_for("checkpoint_failed")["what"]
            again.wait_for("started")
            feed(60, seed=seed)(play)
            reach()(play)
            assert disk.told in again.wait_for("checkpoint_failed", times=2)["what"]
            assert observed(60)(), "the offsets went on without a checkpoint"
            assert "streamsvm_checkpoint_failures_total 0" not in ask(again, "metrics")[1]
        assert _usable(directory, play.directory / "later")
        disk.mend()
        play.wait_until(observed(320), "a checkpoint of all rows")
        ready()(play)
        failures = metrics(again)["streamsvm_checkpoint_failures_total"]
        feed(40, seed=4)(play)
        reach()(play)
        play.wait_until(observed(360), "one more checkpoint")
        assert metrics(again)["streamsvm_checkpoint_failures_total"] == failures
        same()(play)
        assert not [*directory.glob("*.partial")]
    finally:
        disk.clear()


DISKS: Final = tuple(
    Scenario(
        name=f"a disk that is {what} delays checkpoints and no version",
        steps=(_without_a_disk(disk),),
        planted=("loses-its-disk",) if disk is BrokenDisk else (),
        but=EXPLAINED,
        quick=disk is FullDisk,
    )
    for what, disk in {"full": FullDisk, "read-only": ReadOnlyDirectory, "broken": BrokenDisk}.items()
)

SCENARIOS: Final = (*TOPICS, *SECONDS, *CLOCK, *PEOPLE, *DISKS)
