"""Hostile records: each offset counted once, each bad row a dead letter, none learned, memory bounded.

What becomes of a record is said by the contract (`tests.contract.cases`), never by asking the decoder.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from streamsvm.config import PointsConfig
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Message, Outbox
from tests.consumers.trainers import versions
from tests.contract.cases import Case, cases
from tests.kafka.hostile_registry import hostile_registry
from tests.live.flood import FIRST, Flood, Flooded, schemas
from tests.live.process import metrics, read_all
from tests.live.stage import NO_LIMITS, Stage
from tests.promise.topics import check_promise
from tests.streams import gaussian

MOST_BYTES, MOST_ROWS = 2_000, 5
READ_AS = {f"2 features, labels 0 and 1, {most} bytes, {MOST_ROWS} rows" for most in (MOST_BYTES, 4_000)}
"""What the contract calls a trainer that reads as this one does; no case has between 2,000 and 4,000 bytes."""
KNOWN = [one for one in cases("points") if one.by in READ_AS and not one.schemas and "unframed" not in one.rows]
"""Records of which the contract says what becomes of each row, where there is no registry."""
GOOD_SHARE = 0.1
LEAF_ROWS = 500
MOST_GROWTH_BYTES = 200 * 2**20
OPTIONS = {
    "points_labels": "0,1",
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


def good(number: int) -> Case:
    """Return a good record."""
    x, y = gaussian(1, number).X[0, :2], number % 2
    return Case("good", "points", value=encode(x, y), rows=[{"label": y}])


def stream(count: int, seed: int) -> list[Case]:
    """Return hostile records, one in ten of them good, filled up with good ones until the rows make whole cuts."""
    chance = random.Random(seed)
    made = [good(at) if chance.random() < GOOD_SHARE else chance.choice(KNOWN) for at in range(count)]
    missing = -sum(len(each.rows) for each in made) % (4 * LEAF_ROWS)
    return [*made, *map(good, range(missing))]


def refused(case: Case) -> tuple[tuple[int, str], ...]:
    """Return index and reason of each row that is refused."""
    return tuple((row, said) for row, said in enumerate(case.rows) if isinstance(said, str))


def send(stage: Stage, made: Sequence[Case]) -> None:
    outbox = Outbox(stage.connection)
    for each in made:
        outbox.send(Message(stage.settings.input.topic, each.value, None, each.record.headers, 0))
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
    points = PointsConfig(dimension=2, labels=(0, 1), max_record_bytes=MOST_BYTES)
    stage = replace(stage, settings=stage.settings.model_copy(update={"points": points}))
    stage.create()
    send(stage, made)
    said = [row for each in made for row in each.rows]
    weights = [row.get("weight", 1.0) for row in said if isinstance(row, dict)]
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
    expected = {offset: bad for offset, each in enumerate(made) if (bad := refused(each))}
    found = letters(stage)
    assert found.keys() == expected.keys(), "not the records that are bad"
    assert found == expected
    *_, last = versions(stage.connection, stage.settings)
    assert (last.stream.rows, last.stream.points) == (len(said), len(weights)), "not each row once"
    assert last.stream.weight == pytest.approx(sum(weights), rel=1e-12)
    check_promise(stage.connection, stage.settings)
    if not kills:
        reasons = Counter(row for row in said if isinstance(row, str))
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
