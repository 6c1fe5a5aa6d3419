"""Hostile records: each offset counted once, each bad row a dead letter, none learned, memory bounded."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from streamsvm.config import PointsConfig
from streamsvm.kafka import Cluster, Message, Outbox
from tests.consumers.trainers import versions
from tests.kafka.hostile_registry import hostile_registry
from tests.live.flood import FIRST, Flood, Flooded, schemas
from tests.live.hostile import MOST_BYTES, MOST_ROWS, Expected, good, hostile
from tests.live.process import metrics, read_all
from tests.live.stage import NO_LIMITS, Stage
from tests.promise.topics import check_promise

LEAF_ROWS = 500
MOST_GROWTH_BYTES = 200 * 2**20
OPTIONS = {
    "points_max_record_bytes": MOST_BYTES,
    "ROWS_PER_RECORD": MOST_ROWS,
    "coreset_points": 11 * LEAF_ROWS // 2,
    "training_every_leaves": 4,
    "training_policy": "latest",
    "BATCH_RECORDS": 1_000,
    "checkpoint_interval_s": 1.0,
    **NO_LIMITS,
}


@pytest.fixture(autouse=True)
def _verified_as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who recomputes takes no more rows of a record than who learned."""
    monkeypatch.setattr(PointsConfig, "ROWS_PER_RECORD", MOST_ROWS)


def stream(count: int, seed: int) -> list[Expected]:
    """Return hostile records, filled up with good ones until the rows make whole cuts."""
    made = list(hostile(count, seed))
    missing = -sum(each.rows for each in made) % (4 * LEAF_ROWS)
    return [*made, *(good(number) for number in range(missing))]


def send(stage: Stage, made: Sequence[Expected]) -> None:
    outbox = Outbox(stage.connection)
    for each in made:
        outbox.send(Message(stage.settings.input.topic, each.value, None, each.headers, 0))
    outbox.flush(60.0)
    outbox.close()


def letters(stage: Stage) -> dict[int, tuple[tuple[int, str], ...]]:
    """Return the rows that the dead letters list, by the offset of their record; a copy must say the same."""
    found: dict[int, tuple[tuple[int, str], ...]] = {}
    for letter in Cluster(stage.connection).read_to_end(stage.settings.input.dead_letters, 0, timeout_s=30.0):
        headers = dict(letter.headers)
        offset = int(headers["__streams.errors.offset"])
        assert (
            headers["streamsvm.deadletter.id"].decode()
            == f"{stage.settings.name}/{stage.settings.input.topic}/0/{offset}"
        )
        rows = tuple((row["row"], row["reason"]) for row in json.loads(headers["streamsvm.deadletter.rows"]))
        assert found.setdefault(offset, rows) == rows
    return found


def read_hostile(stage: Stage, count: int, seed: int, planted: str = "", kills: int = 0) -> None:
    """Feed hostile records to a process, killed a few times on its way, and account for each of them."""
    made = stream(count, seed)
    stage.create()
    send(stage, made)
    rows, weights = sum(each.rows for each in made), [w for each in made for w in each.weights]
    for _ in range(kills):
        daemon = stage.start(planted, {"STREAMSVM_TEST_CRASH_AT": f"checkpoint.durable:{2 + kills % 2}"}, **OPTIONS)
        daemon.wait()
    daemon = stage.start(planted, **OPTIONS)
    daemon.wait_for("started")
    begun = daemon.rss_bytes()
    peak = read_all(daemon)
    assert peak - begun < MOST_GROWTH_BYTES, f"{(peak - begun) / 2**20:.0f} MB more than at the start"
    counted = metrics(daemon)
    assert daemon.stop() == 0, daemon.said
    expected = {offset: each.rejected for offset, each in enumerate(made) if each.rejected}
    found = letters(stage)
    assert found.keys() == expected.keys(), "not the records that are bad"
    assert found == expected
    *_, last = versions(stage.connection, stage.settings)
    assert (last.stream.rows, last.stream.points) == (rows, len(weights)), "not each row once"
    assert last.stream.weight == pytest.approx(sum(weights), rel=1e-12)
    check_promise(stage.connection, stage.settings)
    if not kills:
        reasons = Counter(reason for each in made for _, reason in each.rejected)
        for reason, number in reasons.items():
            assert counted[f'streamsvm_dead_letters_total{{reason="{reason}"}}'] == number
        assert counted['streamsvm_input_rows_total{outcome="rejected"}'] == reasons.total()


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_hostile_records_are_dead_letters(
    stage: Stage, count: int, record_property: Callable[[str, object], None]
) -> None:
    """Malformed, deep, huge, not finite, binary, of the wrong kind, in arrays with good ones: each where it belongs."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    record_property("hostile_records", count)
    read_hostile(stage, count, seed)


@pytest.mark.long
def test_kills_lose_no_dead_letter(stage: Stage, record_property: Callable[[str, object], None]) -> None:
    """Killed twice on the way: letters may come twice, none is missing, and each row still counts once."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    record_property("hostile_records", 5_000)
    read_hostile(stage, 5_000, seed, kills=2)


@pytest.mark.parametrize(
    ("planted", "found"),
    [("loses-dead-letters", "not the records that are bad"), ("learns-bad-rows", "not each row once")],
)
@pytest.mark.long
def test_a_lost_letter_and_a_learned_bad_row_are_found(stage: Stage, planted: str, found: str) -> None:
    """The row can fail."""
    with pytest.raises(AssertionError, match=found):
        read_hostile(stage, 2_000, 1, planted)


def flooded(stage: Stage, count: int, planted: str = "") -> None:
    """Let a flood of the fuzzers' records pass over a trainer and a scorer, and compare what they say of each."""
    points = PointsConfig(dimension=2, labels=(-1, 1))
    stage = replace(stage, settings=stage.settings.model_copy(update={"points": points}))
    flood = Flood(random.SystemRandom().randrange(1 << 32))
    with hostile_registry(schemas()) as registry:
        site = Flooded(stage, registry.url, planted)
        site.send(flood.good(-number - 1) for number in range(FIRST))
        site.begin()
        site.send(map(flood.record, range(count)))
        site.finish()


def test_a_record_of_the_flood_is_a_function_of_its_number() -> None:
    """A run that is looked into makes the same records again."""
    numbers = [*range(120), 10**7, 10**7 + 99]
    first, again = Flood(7), Flood(7)
    assert [first.record(number) for number in numbers] == [again.record(number) for number in reversed(numbers)][::-1]
    assert first.record(5) != Flood(8).record(5)


@pytest.mark.long(keep=("4000",))
@pytest.mark.parametrize("count", [4_000, 50_000])
def test_a_flood_ends_nothing_and_adds_up(stage: Stage, count: int) -> None:
    """Every record is accounted for by both daemons alike, and each good one is learned and scored once."""
    flooded(stage, count)


@pytest.mark.long
@pytest.mark.parametrize(
    ("planted", "found"), [("dies-of-far-exponents", "ended with status"), ("learns-bad-rows", "the trainer counts")]
)
def test_a_flood_finds_a_defect(stage: Stage, planted: str, found: str) -> None:
    """Planted: a kind of record ends a daemon; a rejected row is learned."""
    with pytest.raises(AssertionError, match=found):
        flooded(stage, 4_000, planted)
