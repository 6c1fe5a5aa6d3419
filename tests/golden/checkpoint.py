"""The golden checkpoints of the trunk: snapshots made by hand with every field filled, and their rendering as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from streamsvm.checkpoint import Snapshot
from streamsvm.coreset import BINS, Bucket, Extent, Held, Moments, Sampled, Screen, Screened
from streamsvm.learning import Cut, LearnerState, PartitionState
from streamsvm.model import Alias, Gate, GatePart, GateRival, Head, PartitionCut, TuningInForce
from streamsvm.points import Points, Position, Rows

RECENT = (GateRival(40, "12" * 32, 55, 0.875), GateRival(38, "34" * 32, 51, None))


def handmade() -> Snapshot:
    """Return a snapshot of two partitions, one of them empty, with a head and a pending cut."""
    moments = Moments(3, np.array([1.5, 2.0]), np.array([0.1, -2.5]), np.array([4.0, 1e-300]))
    points = Points(
        np.array([[1.0, 2.0], [-0.0, 3.4e38]], np.float32), np.array([1, -1], np.int8), np.array([0.25, 1e9])
    )
    nothing = Points.empty(2, np.dtype(np.float32))
    bucket = Bucket(
        1,
        4,
        points,
        Extent(
            start=Position(2),
            end=Position(9, 3),
            rows=12,
            first_time_ms=1_700_000_000_000,
            last_time_ms=1_700_000_000_400,
            moments=moments,
        ),
    )
    extent = Extent(start=Position(9, 3), end=Position(10), rows=1, first_time_ms=-1, last_time_ms=-1, moments=moments)
    held = Held(points, np.array([2.5, 1e300]), 1.25)
    filled = PartitionState(
        sealed=6,
        leader_epoch=7,
        buckets=(bucket,),
        leaf_points=points.take(slice(1)),
        leaf_extent=extent,
        screened=screened(),
        audit=(held, replace(held, threshold=0.0)),
    )
    empty = PartitionState(
        sealed=0,
        leader_epoch=-1,
        buckets=(),
        leaf_points=nothing,
        leaf_extent=Extent(
            start=Position(5), end=Position(5), rows=0, first_time_ms=-1, last_time_ms=-1, moments=Moments.zero(2)
        ),
    )
    pending = Cut(
        positions={0: Position(10), 3: Position(5)},
        leader_epochs={0: 7, 3: -1},
        points=points,
        moments=moments,
        rows=13,
        first_time_ms=1_700_000_000_000,
        last_time_ms=1_700_000_000_400,
        audit=(Sampled(points, 1.25, np.array([3.5, 1e9])),),
    )
    tuning = TuningInForce(1e-5, None, 0.125, (PartitionCut(0, 4, 0, 7),), 6)
    gate = Gate(
        outcome="refused",
        why="",
        scored_on="window",
        points=99,
        candidate=0.75,
        present=0.875,
        against=40,
        margin=0.01,
        window=(GatePart(0, (8, 0), (9, 3)),),
        recent=RECENT,
    )
    head = Head(
        number=41,
        incarnation=2,
        cut=(PartitionCut(0, 8, 0, 7),),
        sha256="ab" * 32,
        offset=57,
        training_set_sha256="cd" * 32,
        build={"numpy": "2.0"},
        tuning=tuning,
        gate=gate,
        links=(Alias(40, "ef" * 32, 55), Alias(32, "01" * 32, 40)),
    )
    return Snapshot(
        name="model",
        incarnation=2,
        sequence=12,
        topic="points",
        topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
        base={0: Position(2), 3: Position(5)},
        configuration={"seed": 11, "points": {"dimension": 2, "labels": [-1, 1]}},
        configuration_sha256="ef" * 32,
        build={"numpy": "2.0", "python": "3.11"},
        head=head,
        learner=LearnerState({0: filled, 3: empty}, 1),
        pending=pending,
        read_to={0: 11, 3: 300},
    )


def handmade_taken() -> Snapshot:
    """Return the same with a cut that was taken and not made, since when one partition changed in all parts."""
    made = handmade()
    now = made.learner.partitions[0]
    (bucket,) = now.buckets
    before = PartitionState(
        sealed=now.sealed,
        leader_epoch=now.leader_epoch,
        buckets=(bucket, replace(bucket, level=0, index=9)),
        leaf_points=now.leaf_points.reweighted(now.leaf_points.weight + 1.0),
        leaf_extent=now.leaf_extent,
        screened=now.screened,
        audit=(replace(now.audit[0], threshold=0.5), *now.audit[1:]),
    )
    return replace(made, pending=LearnerState({0: before, 3: made.learner.partitions[3]}, 0))


def screened() -> Screened:
    """Return the state of a screened leaf of two features."""
    screen = Screen(
        rows=16,
        rate=0.1,
        scaling=np.array([[0.1, -2.5], [1e-3, 7.0]]),
        coefficients=np.array([0.5, -0.25]),
        intercept=1e-17,
        label_mean=np.array([[1.0, 2.0], [-1.0, 0.0]]),
        terms=np.arange(12.0).reshape(2, 6),
        projection=np.arange(12, dtype=np.float32).reshape(4, 3),
    )
    sums = np.linspace(0.0, 0.99, 2 * BINS).reshape(2, BINS)
    return Screened(
        screen=screen,
        thinnings=2,
        accepted=9,
        sums=sums,
        weight=np.array([[1.5, 2.0], [0.0, 1e9]]),
        totals=np.arange(6.0).reshape(3, 2),
    )


def as_json(found: object) -> Any:
    """Return a snapshot, or a model version, as plain JSON values; floats keep all their bits."""
    return json.loads(json.dumps(_plain(found)))


def _plain(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return {"dtype": found.dtype.str, "shape": found.shape, "values": found.ravel().tolist()}
    if isinstance(found, dict):
        return {str(key): _plain(value) for key, value in found.items()}
    if isinstance(found, Rows):  # in memory times may be looked up, in a file they are numbers
        named = {field.name: getattr(found, field.name) for field in dataclasses.fields(found) if field.name != "times"}
        return _plain({**named, "time_ms": found.time_ms})
    if dataclasses.is_dataclass(found):
        return {field.name: _plain(getattr(found, field.name)) for field in dataclasses.fields(found) if field.init}
    if isinstance(found, msgspec.Struct):
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        return {name: _plain(value) for name, value in fields.items() if value is not msgspec.UNSET}
    if isinstance(found, tuple | list):
        return [_plain(one) for one in found]
    return found
