"""The configurations of the matrix: for each the sections that differ from the base, and the stream that it learns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from streamsvm.ingest import WATERMARK_HEADER, encode
from streamsvm.joining import JoinRules
from streamsvm.points import Points
from tests.branches.events.recipes import EVENTS, PAYMENTS, payment
from tests.joining import reference
from tests.streams import DIMENSION, gaussian

BEGUN_MS: Final = 1_700_000_000_000
INPUT, LABELS, MODELS = "points", "labels", "models"
HORIZON_S: Final = 30.0
CLASSES: Final = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a log, a second after the one before it unless it says another time."""

    value: bytes
    time_ms: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What the logs hold, and the rows that a learner makes of them.

    `logs`: Each topic's partition 0. `X`: Points or raw events of the rows that are learned, in their order. `places`:
    Where each of these rows stands in the log of the input.
    """

    logs: Mapping[str, tuple[Entry, ...]]
    X: Any
    y: Any
    weight: Any
    places: list[tuple[int, int]]


def _entries(values: list[bytes]) -> tuple[Entry, ...]:
    return tuple(Entry(value, BEGUN_MS + 1_000 * at) for at, value in enumerate(values))


def _points(points: Points, labels: tuple[Any, ...] = (-1, 1), spoiled: bool = False) -> Stream:
    """Write points one a record; if asked, with a record that is no point after each fiftieth."""
    codes = (points.y > 0).astype(int) if len(labels) == 2 else points.y
    y = [labels[int(code)] for code in codes]
    values, places = list[bytes](), list[tuple[int, int]]()
    for at, (x, label, weight) in enumerate(zip(points.X, y, points.weight, strict=True)):
        places.append((len(values), 0))
        values.append(encode(x, label, float(weight)))
        if spoiled and at % 50 == 49:
            values.append(b'{"x": "?"}')
    return Stream(logs={INPUT: _entries(values)}, X=points.X, y=np.array(y), weight=points.weight, places=places)


def two_classes(n: int) -> Stream:
    """Return two overlapping classes, a third of the points positive, with weights."""
    return _points(gaussian(n))


def spoiled(n: int) -> Stream:
    """Return the same two classes with records between them that are rejected: an estimator is given none of these."""
    return _points(gaussian(n), spoiled=True)


def changing(n: int) -> Stream:
    """Return the same, whose classes change places in the middle."""
    points = gaussian(n)
    y = np.where(np.arange(n) < n // 2, points.y, -points.y).astype(np.int8)
    return _points(Points(points.X, y, points.weight))


def unweighted(n: int) -> Stream:
    """Return the same classes without weights."""
    points = gaussian(n, seed=5)
    return _points(Points(points.X, points.y, np.ones(n)))


def rare(n: int) -> Stream:
    """Return two classes, one point in eight positive: the first versions know too few to fit anything to them."""
    points = gaussian(3 * n)
    kept = (points.y < 0) | (np.random.default_rng(1).random(3 * n) < 0.3)
    return _points(points.take(np.flatnonzero(kept)[:n]))


def several_classes(n: int) -> Stream:
    """Return points around a centre for each label."""
    random = np.random.default_rng(0)
    centres = 2.5 * np.random.default_rng(7).normal(size=(len(CLASSES), DIMENSION))
    y = random.integers(0, len(CLASSES), n).astype(np.int8)
    X = (centres[y] + random.normal(size=(n, DIMENSION))).astype(np.float32)
    return _points(Points(X, y, random.uniform(0.5, 2.0, n)), CLASSES)


def changing_classes(n: int) -> Stream:
    """Return the same, whose labels change places in the middle."""
    stream = several_classes(n)
    moved = np.where(np.arange(n) < n // 2, 0, 1)
    codes = (np.searchsorted(CLASSES, stream.y) + moved) % len(CLASSES)
    return _points(Points(stream.X, codes.astype(np.int8), stream.weight), CLASSES)


def raw_events(n: int) -> Stream:
    """Return payments, of which some lack fields."""
    events = [payment(at) for at in range(n)]
    return Stream(
        logs={INPUT: _entries([json.dumps(event).encode() for event in events])},
        X=events,
        y=None,
        weight=None,
        places=[(at, 0) for at in range(n)],
    )


def late_labels(n: int) -> Stream:
    """Return points whose labels come later, if at all in time."""
    points = gaussian(n)
    told = [json.dumps({"x": x.tolist(), "id": f"t{at}"}).encode() for at, x in enumerate(points.X)]
    return _joined(points.X, told, "t", points.y, (-1, 1))


def late_events(n: int) -> Stream:
    """Return payments whose labels come later, if at all in time."""
    events = [payment(at) for at in range(n)]
    fraud = np.array([1 if event.pop("is_fraud") else -1 for event in events])
    return _joined(np.array(events), [json.dumps(event).encode() for event in events], "p", fraud, ("no", "yes"))


def _joined(X: Any, told: list[bytes], prefix: str, signs: Any, labels: tuple[Any, Any]) -> Stream:
    """Return rows whose labels come up to twice the horizon later; where none comes in time the first label holds."""
    n, random = len(told), np.random.default_rng(3)
    times = BEGUN_MS + 1_000 * np.arange(n)
    closing = [Entry(b"", int(times[-1]) + int(3_000 * HORIZON_S), ((WATERMARK_HEADER, b""),))] * 8
    features = [*map(Entry, told, times.tolist()), *closing]
    late_ms = random.integers(1, int(2_000 * HORIZON_S), n)
    coming = sorted(zip((times + late_ms).tolist(), range(n), strict=True))
    answers = [{"id": f"{prefix}{at}", "y": labels[int(signs[at] > 0)]} for _, at in coming]
    answered = [Entry(json.dumps(one).encode(), time) for one, (time, _) in zip(answers, coming, strict=True)]
    rows, _, _, _ = reference.join(
        [reference.Feature(at, one.time_ms, None if one.headers else str(at)) for at, one in enumerate(features)],
        [
            *(reference.Label(at, time, str(row), int(signs[row])) for at, (time, row) in enumerate(coming)),
            *(reference.Label(n + at, one.time_ms, "", 0) for at, one in enumerate(closing)),
        ],
        JoinRules(horizon_ms=int(1_000 * HORIZON_S), early_ms=60_000, absent="negative", most_rows=1 << 20),
    )
    return Stream(
        logs={INPUT: tuple(features), LABELS: (*answered, *closing)},
        X=X[[int(key) for _, _, key, _ in rows]],
        y=np.array([labels[int(sign > 0)] for _, _, _, sign in rows]),
        weight=np.ones(len(rows)),
        places=[(offset, row) for offset, row, _, _ in rows],
    )


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A row of the table.

    `sections`: Options by section, over `BASE`. `stream`: Makes the stream of so many rows. `no_estimator`: Why
    `CoresetSVC` learns otherwise; empty where it learns the same.
    """

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stream: Callable[[int], Stream] = two_classes
    rows: int = 170
    no_estimator: str = ""


BASE: Final[Mapping[str, Mapping[str, Any]]] = {
    "points": {"dimension": DIMENSION},
    "coreset": {"points": 110, "structure": "tree", "train_points": 500},
    "svm": {"C": 1.0},
    "training": {"policy": "every", "every_leaves": 2},
}
"""A leaf every 20 rows and a version every 40; a section that a configuration names stands in the place of this one."""
SELDOM: Final = {"policy": "every", "every_leaves": 25}
"""A second version is past the fifty leaves after which it is tuned anew."""
AUDITED: Final = {"points": 440, "structure": "tree", "train_points": 500}
"""Audit samples that hold ten points of the rarer label."""
LATE: Final = {"topic": LABELS, "horizon": HORIZON_S, "absent": "negative"}
SEVERAL: Final = {"dimension": DIMENSION, "labels": CLASSES}
TABLE: Final[Mapping[str, Configuration]] = {
    "linear": Configuration(),
    "chain, balanced": Configuration(
        sections={"coreset": {"points": 110, "structure": "chain"}, "svm": {"alpha": 1e-3, "class_weight": "balanced"}}
    ),
    "no weights, class weights, raw scale": Configuration(
        sections={"svm": {"C": 0.5, "class_weight": (1.0, 3.0), "standardize": False}}, stream=unweighted
    ),
    "rbf": Configuration(sections={"svm": {"C": 1.0, "kernel": "rbf"}}),
    "squared hinge": Configuration(sections={"svm": {"loss": "squared_hinge", "class_weight": "balanced"}}),
    "hinge, rbf": Configuration(sections={"svm": {"loss": "hinge", "kernel": "rbf"}}),
    "additive": Configuration(sections={"svm": {"kernel": "additive"}}),
    "additive, four labels": Configuration(
        sections={"points": SEVERAL, "svm": {"kernel": "additive"}}, stream=several_classes
    ),
    "additive, one label against the rest": Configuration(
        sections={
            "points": SEVERAL,
            "coreset": {**AUDITED, "points": 660},
            "svm": {"kernel": "additive", "multiclass": "one_vs_rest", "probability": "sigmoid"},
        },
        stream=several_classes,
        rows=800,
    ),
    "rbf, landmarks": Configuration(
        sections={
            "coreset": {"points": 110, "structure": "tree", "train_points": 30},
            "svm": {"kernel": "rbf", "landmarks": 64},
        },
        stream=spoiled,
        no_estimator="it is given no rejected rows, and has as many landmarks as it likes",
    ),
    "pairs of labels": Configuration(
        sections={
            "points": SEVERAL,
            "coreset": {**AUDITED, "points": 660},
            "svm": {"class_weight": "balanced", "probability": "sigmoid"},
        },
        stream=several_classes,
        rows=800,
    ),
    "one label against the rest, rbf": Configuration(
        sections={"points": SEVERAL, "svm": {"kernel": "rbf", "multiclass": "one_vs_rest"}}, stream=several_classes
    ),
    "window": Configuration(sections={"coreset": {"points": 110, "memory": "window", "window": 64}, "svm": {}}),
    "window of time": Configuration(
        sections={"coreset": {"points": 110, "memory": "window", "window": "70s"}, "svm": {}},
        stream=spoiled,
        no_estimator="an estimator's rows have no times",
    ),
    "decay": Configuration(sections={"coreset": {"points": 110, "memory": "decay", "half_life": 50}, "svm": {}}),
    "adaptive": Configuration(
        sections={"coreset": {"points": 200, "memory": "adaptive"}, "svm": {}}, stream=changing, rows=400
    ),
    "adaptive, four labels": Configuration(
        sections={"points": SEVERAL, "coreset": {"points": 400, "memory": "adaptive"}, "svm": {}},
        stream=changing_classes,
        rows=400,
    ),
    "events": Configuration(
        sections={"points": {"dtype": "float64"}, "features": PAYMENTS, "events": EVENTS}, stream=raw_events
    ),
    "late labels": Configuration(sections={"labels": LATE}, stream=late_labels),
    "late labels of events": Configuration(
        sections={
            "points": {"dtype": "float64", "labels": ("no", "yes")},
            "features": PAYMENTS,
            "events": {"id": "id"},
            "labels": LATE,
        },
        stream=late_events,
    ),
    "tuned": Configuration(sections={"svm": {"alpha": 1e-3, "tune": "auto"}, "training": SELDOM}, rows=1_050),
    "tuned, four labels": Configuration(
        sections={"points": SEVERAL, "svm": {"alpha": 1e-3, "tune": "auto"}, "training": SELDOM},
        stream=several_classes,
        rows=1_050,
    ),
    "probability, cost": Configuration(
        sections={
            "coreset": {**AUDITED, "points": 220},
            "svm": {"C": 1.0, "probability": "sigmoid", "cost": (5.0, 1.0)},
            "training": {"policy": "every", "every_leaves": 1},
        },
        stream=rare,
        rows=300,
    ),
    "target": Configuration(
        sections={"coreset": AUDITED, "svm": {"C": 1.0, "kernel": "rbf", "target": {"recall": 0.9}}}, rows=700
    ),
}


@cache
def stream_of(name: str) -> Stream:
    """Return the stream of a configuration."""
    return TABLE[name].stream(TABLE[name].rows)
