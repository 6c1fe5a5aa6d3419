"""The join of a pair of partitions: one sequence however the logs are read, and that of a second implementation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.errors import ConfigurationError
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.log_time import ENOUGH
from streamsvm.joining.rows import FeatureRows, JoinRules, LabelRows, Letter
from streamsvm.points import Position, hashed
from tests.joining.reference import Feature, Joined, Label, Told, join
from tests.streams import id_hash

FLOAT = np.dtype(np.float32)
J = TypeVar("J", bound=Joiner)


def rules(absent: Literal["negative", "drop", "dead_letter"] = "negative", horizon_ms: int = 10) -> JoinRules:
    return JoinRules(horizon_ms=horizon_ms, early_ms=4, absent=absent, most_rows=1 << 20)


def feature_rows(records: list[Feature]) -> FeatureRows:
    """Each key is a number, and the one feature is that number, so that a point tells whose it is."""
    n = len(records)
    return FeatureRows(
        offset=np.array([one.offset for one in records], np.int64),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        time_ms=np.array([one.time_ms for one in records], np.int64),
        key=hashed([(one.key or "").encode() for one in records], "m"),
        ok=np.array([one.key is not None for one in records], np.bool_),
        X=np.array([[float(one.key or -1)] for one in records], np.float32).reshape(n, 1),
        weight=np.ones(n),
        leader_epoch=np.zeros(n, np.int64),
    )


def label_rows(records: list[Label]) -> LabelRows:
    n = len(records)
    return LabelRows(
        offset=np.array([one.offset for one in records], np.int64),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        time_ms=np.array([one.time_ms for one in records], np.int64),
        key=hashed([one.key.encode() for one in records], "m"),
        sign=np.array([one.sign for one in records], np.int8),
        leader_epoch=np.zeros(n, np.int64),
    )


def drained(joiner: Joiner) -> tuple[list[Joined], list[Letter]]:
    points: list[Joined] = []
    letters: list[Letter] = []
    while True:
        rows, told = joiner.join()
        if rows is None and not told:
            return points, letters
        letters += told
        if rows is not None:
            keys = [str(int(x)) for x in rows.points.X[:, 0]]
            assert rows.id_hash is not None
            assert rows.id_hash.known().tolist() == [id_hash(key, "m") for key in keys]
            points += list(zip(rows.offset.tolist(), rows.row.tolist(), keys, rows.points.y.tolist(), strict=True))


def told(letters: list[Letter]) -> list[Told]:
    return [(letter.reason, letter.offset) for letter in letters]


def new(rules: JoinRules) -> Joiner:
    return Joiner(0, rules, 1, FLOAT, Position(0), Position(0))


def joined(features: list[Feature], labels: list[Label]) -> tuple[Joiner, list[Joined], list[Told]]:
    """Return a joiner that was given both logs, with its points and letters."""
    joiner = new(rules())
    joiner.add_features(feature_rows(features))
    joiner.add_labels(label_rows(labels))
    points, letters = drained(joiner)
    return joiner, points, told(letters)


KEYS = st.integers(0, 7).map(str)
STEPS = st.one_of(st.integers(-2, 6), st.integers(-2, 6), st.sampled_from([70_000, 10**8, 10**15]))
"""By how much later than the one before it a record is; from `WRONG_MS` on only this one, whose clock is wrong."""
WRONG_MS = 10**8
FEATURES = st.lists(st.tuples(STEPS, st.one_of(st.none(), KEYS)), max_size=25)
LABELS = st.lists(st.tuples(STEPS, KEYS, st.sampled_from([-1, 1, 1, 0])), max_size=25)
END_MS = 10**7


def features_of(drawn: list[tuple[int, str | None]]) -> list[Feature]:
    """Return a log whose times may run backwards, begun and closed by watermarks that make everything known."""
    drawn = [(0, None), *drawn]
    stamps = stamped([step for step, _ in drawn])
    found = [Feature(2 * number, stamps[number], key) for number, (_, key) in enumerate(drawn)]
    return [*found, *(Feature(2 * (len(drawn) + more), END_MS, None) for more in range(ENOUGH))]


def labels_of(drawn: list[tuple[int, str, int]]) -> list[Label]:
    drawn = [(0, "", 0), *drawn]
    stamps = stamped([step for step, _, _ in drawn])
    found = [Label(3 * number, stamps[number], key, sign) for number, (_, key, sign) in enumerate(drawn)]
    return [*found, *(Label(3 * (len(drawn) + more), END_MS, "", 0) for more in range(ENOUGH))]


def stamped(steps: list[int]) -> list[int]:
    """Return the timestamps of a log; of three records one at most has a wrong clock, which moves no time then."""
    found, time, wrong = list[int](), 0, -3
    for number, step in enumerate(steps):
        if step < WRONG_MS:
            time = max(0, time + step)
            found.append(time)
        elif number - wrong < 3:
            found.append(time)
        else:
            found.append(time + step)
            wrong = number
    return found


def read_at_random(
    joiner: J, features: list[Feature], labels: list[Label], chance: random.Random, restarted: Callable[[J], J]
) -> tuple[J, list[Joined], list[Letter]]:
    """Read both logs in portions by chance, with restarts; return the last joiner, and all points and letters."""
    f = g = 0
    points: list[Joined] = []
    found: list[Letter] = []
    while f < len(features) or g < len(labels):
        step = chance.randint(1, 6)
        if g == len(labels) or (f < len(features) and chance.random() < 0.5):
            joiner.add_features(feature_rows(features[f : f + step]))
            f = min(f + step, len(features))
        else:
            joiner.add_labels(label_rows(labels[g : g + step]))
            g = min(g + step, len(labels))
        if chance.random() < 0.5:
            more = drained(joiner)
            points += more[0]
            found += more[1]
        if chance.random() < 0.2:
            joiner = restarted(joiner)
            # What was read and not merged is read again.
            f = next((i for i, one in enumerate(features) if one.offset >= joiner.features_next.offset), len(features))
            g = next((i for i, one in enumerate(labels) if one.offset >= joiner.labels_next.offset), len(labels))
    more = drained(joiner)
    return joiner, points + more[0], found + more[1]


@settings(max_examples=300, deadline=None)
@given(FEATURES, LABELS, st.sampled_from(["negative", "drop", "dead_letter"]), st.integers(0, 1 << 32))
def test_any_interleaving_of_reads_gives_the_sequence_of_the_plain_implementation(
    some: list[tuple[int, str | None]],
    others: list[tuple[int, str, int]],
    absent: Literal["negative", "drop", "dead_letter"],
    seed: int,
) -> None:
    """However the two logs are read, in whatever portions and over restarts, the joined points are the rule's."""
    features, labels, chance = features_of(some), labels_of(others), random.Random(seed)
    expected, letters, _, _ = join(features, labels, rules(absent))
    joiner, points, found = read_at_random(
        new(rules(absent)),
        features,
        labels,
        chance,
        lambda one: Joiner.restored(0, rules(absent), 1, FLOAT, one.state()),
    )
    assert points == expected
    # Letters of one step may come in either implementation's order of leaving.
    assert sorted(told(found)) == sorted(letters)
    # The last watermarks of the labels wait for good: features of their time come first.
    assert (joiner.waits_for, joiner.labels_waiting, joiner.features_waiting) == ("features", ENOUGH, 0)


def test_the_first_label_counts_and_a_changed_one_is_told() -> None:
    """A repeated label is passed over, a changed one is a letter, an early one joins when its row comes."""
    features = [Feature(0, 1, "1"), Feature(1, 5, "2"), Feature(2, 100, None)]
    labels = [Label(0, 2, "1", 1), Label(1, 3, "1", 1), Label(2, 3, "1", -1), Label(3, 4, "2", -1)]
    joiner, points, letters = joined(features, [*labels, Label(4, 101, "", 0)])
    assert points == [(0, 0, "1", 1), (1, 0, "2", -1)]
    assert letters == [("changed_label", 2)]
    assert joiner.counts[[0, 2, 4]].tolist() == [2, 1, 1], "joined, early, doubled"


def test_a_label_at_the_horizon_is_in_time_and_one_behind_it_is_not() -> None:
    """A row of time t takes labels up to t + horizon; later ones are unmatched, and the row is negative."""
    features = [Feature(0, 0, "1"), Feature(1, 1, "2"), Feature(2, 50, None)]
    _, points, letters = joined(features, [Label(0, 10, "1", 1), Label(1, 12, "2", 1), Label(2, 50, "", 0)])
    assert points == [(1, 0, "1", 1), (1, 1, "2", -1)]
    assert letters == [("unmatched_label", 1)]


def test_an_idle_log_is_waited_for_and_named_until_a_record_of_it_tells_the_time() -> None:
    """Nothing later than what the other log is known to have reached is merged; a watermark lets it go on."""
    joiner, points, letters = joined([Feature(0, 5, "1"), Feature(1, 40, "2")], [])
    assert (points, letters) == ([], [])
    assert (joiner.waits_for, joiner.features_waiting) == ("labels", 2)
    joiner.add_labels(label_rows([Label(0, 60, "", 0)]))
    assert drained(joiner)[0] == [(0, 0, "1", -1)]
    # The watermark itself waits now: features of before it may still come.
    assert (joiner.waits_for, joiner.labels_waiting) == ("features", 1)


def test_a_log_too_short_to_tell_its_time_holds_the_other_up() -> None:
    """Retention may leave few records of a log, far ahead of where it began: labels wait, here as in the plain rule."""
    far = 10 * WRONG_MS
    features = [Feature(7, far, "1"), Feature(8, far + 1, "2"), Feature(9, far + 50, None)]
    labels = [Label(at, far + at, "1", 1) for at in range(6)]
    assert joined(features, labels)[1:] == ([], [])
    assert join(features, labels, rules())[:2] == ([], [])


def test_more_rows_than_allowed_end_the_join_with_what_to_do() -> None:
    """Memory is bounded by an option, and the message names it."""
    joiner = Joiner(
        3, JoinRules(horizon_ms=10, early_ms=0, absent="drop", most_rows=1_024), 1, FLOAT, Position(0), Position(0)
    )
    joiner.add_features(feature_rows([Feature(offset, 0, str(offset)) for offset in range(2_000)]))
    joiner.add_labels(label_rows([Label(0, 1, "", 0)]))
    with pytest.raises(ConfigurationError, match=r"wait within labels\.horizon: more may not"):
        drained(joiner)


def test_a_time_that_leaps_past_many_horizons_is_joined_in_bounded_portions() -> None:
    """Twenty thousand rows that leave at once come in portions, each in its place, and none is lost."""
    n = 20_000
    joiner = new(rules())
    joiner.add_features(feature_rows([Feature(offset, 0, str(offset)) for offset in range(n)]))
    joiner.add_features(feature_rows([Feature(n, 100, None)]))
    joiner.add_labels(label_rows([Label(0, 100, "", 0)]))
    sizes = []
    places: list[tuple[int, int]] = []
    while (rows := joiner.join()[0]) is not None:
        sizes.append(len(rows))
        places += list(zip(rows.offset.tolist(), rows.row.tolist(), strict=True))
    assert max(sizes) < n // 2
    assert places == [(n - 1, row) for row in range(n)]
