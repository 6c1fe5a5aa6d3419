"""Records of the coresets topic: what is written by several who learn the same rows, and what a reader makes of it."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.branches.workers import coreset_log, coreset_records, coreset_writer
from streamsvm.branches.workers.coreset_log import PartitionLog
from streamsvm.branches.workers.coreset_records import FORMAT, NEWEST_ROWS, Opening, encode_rows
from streamsvm.branches.workers.coreset_writer import CoresetWrite, PartitionWriter
from streamsvm.config import ModelConfig
from streamsvm.coreset import PartitionState, decode_state
from streamsvm.learning import Learner, LearnerState
from streamsvm.points import Position, Rows
from tests.branches.workers.test_combiner import MEMORIES_AND_SHAPES, config_of, content, stream
from tests.promise.records import of_bytes
from tests.promise.states import Left, look
from tests.streams import DIMENSION

NEVER = 1 << 30
ROWS = 600
Log = list[tuple[int, bytes, bytes | None]]


def opening_of(
    config: ModelConfig, incarnation: int = 1, base: tuple[int, int] = (0, 0), partition: int = 1
) -> Opening:
    return Opening(
        format=FORMAT,
        name="m",
        incarnation=incarnation,
        topic="in",
        topic_id="t",
        partition=partition,
        base=base,
        configuration=config.canonical(),
        configuration_sha256=config.sha256(),
    )


def read(log: Log, name: str = "m") -> PartitionLog:
    found = PartitionLog(name, 1, DIMENSION)
    for offset, key, value in log:
        found.feed(offset, key, value, {})
    return found


def check(log: Log) -> Left:
    return look(of_bytes("coresets", 1, offset, key, value) for offset, key, value in log)


def append(log: Log, key: bytes, value: bytes | None) -> None:
    log.append((len(log), key, value))


def put(log: Log, publication: CoresetWrite) -> None:
    for key, value in (*publication.parts, publication.manifest):
        append(log, key, value)
    for key in publication.tombstones:
        append(log, key, None)


class Someone:
    """Learns the stream's partition from what the log holds, and writes to it, one step at a time."""

    def __init__(self, log: Log, config: ModelConfig, rows: Rows) -> None:
        self._log, self._config, self._rows = log, config, rows
        self.restore()

    def restore(self) -> None:
        """Begin anew from the highest complete manifest, and clear away what is certainly over."""
        self._todo: list[tuple[bytes, bytes | None]] = []
        read_ = read(self._log)
        assert read_.opening is not None
        held = read_.highest()
        self._learner = Learner(self._config, {1: Position(0)}, NEVER)
        if held is not None:
            read_.adopt(held)
            self._learner.restore(LearnerState({1: held.state}, 0))
            self._todo += [(key, None) for key in read_.garbage()]
        self._writer = PartitionWriter(read_.opening, held)

    @property
    def position(self) -> Position:
        return self._learner.positions[1]

    def step(self, most: int) -> None:
        """Write the next record that is to be written, or learn some rows and plan what to write of them."""
        if self._todo:
            append(self._log, *self._todo.pop(0))
            return
        begun = self._rows.index_of(self.position)
        done = min(begun + most, len(self._rows))
        if done == begun:
            return
        self._learner.learn(self._rows.slice(begun, done))
        newest = self._rows.slice(max(0, done - NEWEST_ROWS), done)
        planned = self._writer.write(self._learner.state().partitions[1], newest)
        self._todo = [*planned.parts, planned.manifest, *((key, None) for key in planned.tombstones)]


def state_at(config: ModelConfig, rows: Rows, position: Position) -> PartitionState:
    learner = Learner(config, {1: Position(0)}, NEVER)
    learner.learn(rows, until=position)
    return learner.state().partitions[1]


@pytest.mark.long(keep=("coreset0", "coreset7"))
@pytest.mark.parametrize("coreset", MEMORIES_AND_SHAPES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1 << 30), several=st.integers(1, 3))
def test_at_every_prefix_the_highest_manifest_is_complete(coreset: dict[str, Any], several: int, seed: int) -> None:
    """Whoever learns at once, dies between any two records, falls behind and wakes up; the states are one learner's."""
    config, rows, chance = config_of(**coreset), stream(1, ROWS), random.Random(seed)
    log: Log = []
    append(log, opening_of(config).key, opening_of(config).encode())
    someones = [Someone(log, config, rows) for _ in range(several)]
    for _ in range(3_000):
        one = chance.choice(someones)
        if chance.random() < 0.02:
            one.restore()
        elif chance.random() < 0.02:  # frozen for a while: the others go on
            someones.remove(one)
            if not someones or chance.random() < 0.5:
                someones.append(one)
        else:
            one.step(chance.randint(1, 90))
        if all(one.position.offset == ROWS and not one._todo for one in someones):
            break
    for one in someones:
        while one._todo or one.position.offset < ROWS:
            one.step(200)
    found = check(log)
    assert not found.lacking
    assert not found.rewritten, "two owners wrote other bytes under one name"
    assert found.manifests >= 2
    highest = read(log).highest()
    assert highest is not None
    assert highest.state.position == Position(ROWS)
    assert content(highest.state) == content(state_at(config, rows, Position(ROWS)))
    for _ in range(5):
        end, clean = chance.randint(1, len(log)), chance.randint(0, len(log))
        as_written, as_kept = read(log[:end]).highest(), read(compacted(log[:end], min(clean, end))).highest()
        assert (as_written is None) == (as_kept is None)
        if as_written is not None and as_kept is not None:
            assert content(as_written.state) == content(as_kept.state)


def compacted(log: Log, clean: int) -> Log:
    """Return what Kafka keeps of a log whose first records were compacted long ago: tombstones are gone from them."""
    last = {key: offset for offset, key, _ in log}
    kept = [one for one in log[:clean] if last[one[1]] == one[0] and one[2] is not None]
    return [*kept, *log[clean:]]


def test_a_tombstone_that_comes_too_early_is_found() -> None:
    """The check can fail; `tests.promise` plants other orders of records."""
    log = written(config_of(), (100,))
    part = next(key for _, key, _ in log if b"/l/" in key)
    assert not check(log).lacking
    assert len(check([*log, (len(log), part, None)]).lacking) == 1


def reached(log: PartitionLog, most: int | None = None) -> int | None:
    """Return the offset of the highest complete manifest, if there is one."""
    found = log.highest() if most is None else log.highest(most)
    return None if found is None else found.manifest.at.offset


def is_of_one_learner(log: PartitionLog) -> bool:
    """Return whether the highest complete state is that of a learner of the first 400 rows."""
    found = log.highest()
    expected = state_at(config_of(), stream(1, ROWS), Position(400))
    return found is not None and content(found.state) == content(expected)


def faults_of(log: Log) -> str:
    found = read(log)
    found.highest()
    return "; ".join(fault.why for fault in found.take_faults())


def written(config: ModelConfig, steps: tuple[int, ...] = (200, 400), incarnation: int = 1) -> Log:
    rows, opening = stream(1, ROWS), opening_of(config, incarnation)
    log: Log = []
    append(log, opening.key, opening.encode())
    learner, writer = Learner(config, {1: Position(0)}, NEVER), PartitionWriter(opening)
    for step in steps:
        learner.learn(rows, until=Position(step))
        publication = writer.write(learner.state().partitions[1], rows.slice(0, 5))
        put(log, CoresetWrite(publication.position, publication.parts, publication.manifest, []))
    return log


def changed(log: Log, at: int, change: Callable[[bytes], bytes | None]) -> Log:
    return [(o, k, change(v) if o == at and v is not None else v) for o, k, v in log]


def test_bad_records_are_passed_over_by_name() -> None:
    """A part that is missing, or has other bytes, costs its manifest only: the one before it is adopted."""
    config = config_of()
    log = written(config)
    manifests = [offset for offset, key, _ in log if b"/m/" in key]
    last_part = manifests[1] - 1
    assert reached(read(log)) == 400
    without = [one for one in log if one[0] != last_part]
    flipped = changed(log, last_part, lambda value: value[:-1] + bytes([value[-1] ^ 1]))
    inner = changed(log, last_part, lambda value: value[:40] + bytes([value[40] ^ 1]) + value[41:])
    shorter = changed(log, last_part, lambda value: value[:-7])
    tombstoned = [*log, (99, log[last_part][1], None)]
    for broken in (without, flipped, inner, shorter, tombstoned):
        assert reached(read(broken)) == 200
    assert "names" in faults_of(without)
    assert "are not there whole, such as n/" in faults_of(without)
    assert "has the bytes of another one" in faults_of(flipped)
    assert "checksum does not match" in faults_of(inner)


def test_bad_manifests_and_openings_are_passed_over_by_name() -> None:
    """Whatever stands there, the log goes on being readable."""
    config = config_of()
    log = written(config)
    prefix = opening_of(config).prefix
    at = max(offset for offset, key, _ in log if b"/m/" in key)

    def with_(**changes: Any) -> Log:
        return changed(log, at, lambda value: json.dumps({**json.loads(value), **changes}).encode())

    huge = {"name": json.loads(log[at][2] or b"")["rest"]["name"], "size": 1 << 60}
    cases = [
        (changed(log, at, lambda _: b"{"), "the record is damaged"),
        (changed(log, at, lambda _: b"\xff\xfe"), "the record is damaged"),
        (changed(log, at, lambda _: b" " * (1 << 21)), "the record has 2097152 bytes"),
        (with_(position=[3, 0]), "the manifest is of position"),
        (with_(rest=huge), "the manifest names a part of 1152921504606846976 bytes"),
        (with_(rest={"name": "l/elsewhere", "size": 3}), "the manifest names a part of 3 bytes"),
        (with_(rows=7), "is of 7 rows"),
        ([*log, (99, f"{prefix}x/1".encode(), b"")], "the key is of no kind"),
        ([*log, (99, b"m/o/00000002", b"{}")], "the record is damaged"),
        ([*log, (99, b"m/o/00000002", opening_of(config, 3).encode())], "the opening is of format 1 and of m/o/0"),
        ([*log, (99, b"m/o/00000002", opening_of(config, 2, partition=0).encode())], "the opening is of partition 0"),
    ]
    for broken, said in cases:
        assert said in faults_of(broken), said
        assert reached(read(broken)) in (200, 400)


def test_records_of_other_models_and_configurations_are_passed_over() -> None:
    """They are neither adopted nor faults; those of an incarnation that is over are cleared away."""
    config, other = config_of(), config_of(train_points=91)
    log = written(config)
    append(log, b"other/o/00000009", b"what ever")
    append(log, b"no key of ours", b"x")
    log.append((len(log), None, b"x"))  # type: ignore[arg-type]
    assert read(log).highest() is not None
    assert not faults_of(log)
    append(log, opening_of(other, 2).key, opening_of(other, 2).encode())
    found = read(log)
    assert found.opening == opening_of(other, 2)
    assert found.highest() is None
    old = {key for _, key, _ in written(config)}
    assert set(found.garbage()) == old
    again = opening_of(config, base=(7, 0))  # the same number, begun anew elsewhere
    begun_again = [*written(config), (99, again.key, again.encode())]
    assert set(read(begun_again).garbage()) == old - {again.key}


def test_an_opening_may_stand_behind_what_it_opens() -> None:
    """Compaction keeps the last record of a key."""
    log = written(config_of())
    assert reached(read([*log[1:], log[0]])) == 400


def test_a_part_may_come_behind_its_manifest() -> None:
    """Compaction removes the first of two copies; a reader that follows waits for the second."""
    log = written(config_of())
    at = max(offset for offset, key, _ in log if b"/m/" in key) - 1
    found = read([one for one in log if one[0] != at])
    first = found.highest()
    assert first is not None
    found.adopt(first)
    found.feed(*log[at], {})
    assert reached(found) == 400


def test_large_parts_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a bucket takes, no record is larger than brokers accept by default."""
    for module in (coreset_records, coreset_writer, coreset_log):
        monkeypatch.setattr(module, "PIECE_BYTES", 100)
    log = written(config_of())
    assert all(len(value or b"") <= 100 for _, key, value in log if b"/b/" in key or b"/l/" in key)
    assert is_of_one_learner(read(log))
    missing = [one for one in log if not one[1].endswith(b"/3")]
    assert read(missing).highest() is None


def test_newest_rows_travel_whole_and_rejected_ones_as_zeros() -> None:
    """What a rejected row holds is left to chance: it must not be in the bytes."""
    rows = stream(1, 50)
    rejected = np.flatnonzero(~rows.accepted)
    assert len(rejected)
    spoiled = stream(1, 50)
    spoiled.points.X[rejected] = 77.0
    names = opening_of(config_of()).names
    assert encode_rows(rows, names) == encode_rows(spoiled, names)
    found = decode_state(encode_rows(rows, names), Rows)[1]
    for name in ("offset", "row", "last", "time_ms", "accepted", "leader_epoch"):
        assert np.array_equal(getattr(found, name), getattr(rows, name)), name
    assert np.array_equal(found.points.X[rows.accepted], rows.points.X[rows.accepted])


def test_a_manifest_that_leaves_out_a_bucket_is_passed_over_and_so_is_a_part_of_another_state() -> None:
    """A partition is never taken for a smaller one, and each part says which incarnation it is of."""
    log = written(config_of())
    at = max(offset for offset, key, _ in log if b"/m/" in key)
    for gone, told in ((0, "its parts of .* rows"), (1, "the positions of its"), (-1, "the positions of its leaf")):

        def without(value: bytes, gone: int = gone) -> bytes:
            manifest = json.loads(value)
            del manifest["buckets"][gone]
            return json.dumps(manifest).encode()

        broken = changed(log, at, without)
        assert re.search(told, faults_of(broken))
        assert reached(read(broken)) == 200
    other, mine = written(config_of(), (200,), 2)[1:], opening_of(config_of()).prefix.encode()
    moved = [log[0], *((o, mine + k.split(b"/", 2)[2], v) for o, k, v in other)]
    assert reached(read(moved)) is None
    assert "is of another state, named Names(incarnation=2" in faults_of(moved)


def test_a_state_of_other_features_is_passed_over() -> None:
    """It is of this very incarnation, as far as its key says."""
    found = PartitionLog("m", 1, DIMENSION + 1)
    for offset, key, value in written(config_of()):
        found.feed(offset, key, value, {})
    assert found.highest() is None
    assert f"rows of {DIMENSION} features, and not of this trainer's {DIMENSION + 1}" in found.take_faults()[0].why


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the bounds small beside what the tests write, and large beside one state."""
    monkeypatch.setattr(PartitionLog, "MOST_EARLY_BYTES", 400_000)
    monkeypatch.setattr(PartitionLog, "MOST_UNNAMED_BYTES", 400_000)
    monkeypatch.setattr(PartitionLog, "MOST_MANIFEST_BYTES", 100_000)
    monkeypatch.setattr(PartitionLog, "MOST_KEYS", 1_000)


def forged_parts(prefix: str, n: int) -> Log:
    return [(9, f"{prefix}n/{at:020d}.0000000000#{'ab' * 32}/0".encode(), bytes(5_000)) for at in range(500, 500 + n)]


def manifest_of(prefix: str, at: tuple[int, int], rows: int) -> tuple[bytes, bytes]:
    """Return key and value of a manifest, well-formed but for its part, which nobody has written."""
    rest = coreset_records.PartEntry(f"l/{coreset_records.place(Position(*at))}#{'ab' * 32}", 40)
    made = coreset_records.Manifest(position=at, rows=rows, buckets=(), rest=rest, newest=None)
    return f"{prefix}{made.key}".encode(), made.encode()


def forged_manifests(prefix: str, n: int) -> Log:
    return [(9, *manifest_of(prefix, (399, row), 10**15)) for row in range(n)]


def read_again(log: Log) -> PartitionLog:
    """Read as a start does: again where something was given up that is needed."""
    found = read(log)
    for _ in range(2):
        found.highest()
        if not found.again:
            break
        found = found.rest()
        for offset, key, value in log:
            found.feed(offset, key, value, {})
    return found


@pytest.mark.parametrize("place", ["before", "between", "behind"])
@pytest.mark.parametrize("kind", ["early", "parts", "manifests"])
def test_what_nobody_needs_is_not_held(kind: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever another program writes is bounded by bytes, and the true state is found beside it."""
    small(monkeypatch)
    log, prefix = written(config_of()), opening_of(config_of()).prefix
    flood = {
        "early": forged_parts("m/99999999-0123456789abcdef/", 2_000),
        "parts": forged_parts(prefix, 2_000),
        "manifests": forged_manifests(prefix, 5_000),
    }[kind]
    at = {"before": 0, "between": len(log) - 1, "behind": len(log)}[place]
    whole = [*log[:at], *flood, *log[at:]]
    found = read_again(whole)
    assert is_of_one_learner(found)
    assert len(pickle.dumps(found)) < 700_000
    assert len(found.faults) <= PartitionLog.MOST_FAULTS
    assert found.faults
    assert found.claimed()[0] < 10**15, "what was looked at, and is not complete, counts for nothing"


def test_a_state_that_waits_for_its_opening_behind_a_flood_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer leaves its state before it opens; between the two another program writes as much as it likes."""
    small(monkeypatch)
    log = written(config_of())
    found = read([*log[1:], *forged_parts("m/99999999-0123456789abcdef/", 2_000), log[0]])
    assert found.highest() is None
    assert found.again
    assert reached(read_again([*log[1:], *forged_parts("m/99999999-0123456789abcdef/", 2_000), log[0]])) == 400


def test_an_opening_counts_until_it_is_taken_back() -> None:
    """Then the highest one that is left counts, at the next reading; one that is written again counts again."""
    config, log = config_of(), written(config_of())
    forged = opening_of(config, 99_999_999)
    append(log, forged.key, forged.encode())
    assert read_again(log).opening == forged
    append(log, forged.key, None)
    found = read_again(log)
    assert found.opening == opening_of(config)
    assert reached(found) == 400
    again = read_again([*log, (99, forged.key, forged.encode())])
    assert again.opening == forged
    append(log, opening_of(config).key, None)
    assert read_again(log).opening is None


def test_a_trainer_follows_its_own_opening_only() -> None:
    """Whatever is opened, or taken back, while it runs."""
    config, log = config_of(), written(config_of())
    found = read(log)
    found.pin(opening_of(config))
    forged = opening_of(config, 99_999_999)
    found.feed(99, forged.key, forged.encode(), {})
    assert found.opening == opening_of(config)
    assert "is at incarnation 1" in found.faults[0].why
    taken_back = []
    for value in (b"of another hand", None, opening_of(config).encode()):
        found.feed(100, opening_of(config).key, value, {})
        taken_back.append(found.taken_back)
        assert not found.again
    assert taken_back == [False, True, False]
    assert reached(found) == 400


def test_a_manifest_beyond_the_input_is_passed_over_until_the_input_is_longer() -> None:
    """Nobody has learned what the log does not hold."""
    found = read(written(config_of()))
    assert reached(found, 399) == 200
    assert "the input ends at 399" in found.faults[0].why
    assert reached(found, 400) == 400
