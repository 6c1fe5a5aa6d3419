"""The golden checkpoints: snapshots made by hand that have every field filled, and their rendering as JSON.

``python -m tests.golden.checkpoint`` writes the files where there are none. It never changes one: what was once
released stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamsvm.branches.bounds.totals import Changed, Condensed, Epoch, Frame, Ledger, Totals
from streamsvm.branches.bounds.totals_kernels import STRATA
from streamsvm.branches.classes.class_screening import ClassScreen, ClassScreened
from streamsvm.branches.history.erased_part import Obeyed, obeying
from streamsvm.branches.late_labels.joining import Joining, with_joining
from streamsvm.branches.memories.shares import Shares
from streamsvm.branches.memories.voting import Expert, Voting
from streamsvm.checkpoint.format import encode
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.coreset.audit_sample import Held, Sampled
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.screening import BINS, Screen, Screened
from streamsvm.coreset.structure import Bucket, Extent, Learned
from streamsvm.joining.joiner import FeatureRows, Joiner, JoinRules, LabelRows, hashed
from streamsvm.learning.cutting import Cut, HeldOfCut, HeldOfPartition, LearnerState
from streamsvm.learning.memories import Horizon
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.span_memory import SpansState
from streamsvm.model.pointers import Alias, Gate, GatePart, GateRival, Head
from streamsvm.model.version import PartitionCut, TuningInForce
from streamsvm.points import Points, Position

HERE = Path(__file__).parent
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


def handmade_forgetful() -> Snapshot:
    """Return the same of partitions that forget, with experts and shares in one of them."""
    snapshot = handmade()
    filled, empty = snapshot.learner.partitions[0], snapshot.learner.partitions[3]
    before = Learned(
        rows=64, count=60, class_weight=np.array([20.5, 40.0]), first_time_ms=1_600_000_000_000, last_time_ms=-1
    )
    voting = Voting(
        16,
        (Expert(64, 80, np.array([[0.5, -1e-9]]), np.array([0.25])),),
        Shares(slots=(0.75, 0.25), borders=(64,), starts=(1.0,), mix=(0.125, 0.875)),
        80,
    )
    (bucket,) = filled.buckets
    own = replace(bucket, audit=filled.audit, times=(1_700_000_000_000, 1_700_000_000_400), before=before)
    memory = SpansState(learned=before, times=np.array([1_700_000_000_500, 3]), voting=voting)
    partitions = {
        0: replace(filled, buckets=(own,), memory=memory),
        3: replace(empty, memory=SpansState(learned=Learned.nothing(2), times=np.empty(0, np.int64), voting=None)),
    }
    held = HeldOfCut(
        before,
        {
            0: HeldOfPartition(Position(2), before, (Horizon(13, 0.625), Horizon(1, 0.375))),
            3: HeldOfPartition(Position(5), Learned.nothing(2), ()),
        },
    )
    assert isinstance(snapshot.pending, Cut)
    return replace(
        snapshot, learner=replace(snapshot.learner, partitions=partitions), pending=replace(snapshot.pending, held=held)
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


def handmade_joined() -> Snapshot:
    """Return the same with labels of a log of their own."""
    return with_join(handmade())


def handmade_erased() -> Snapshot:
    """Return the same, made under a record of erased rows."""
    return obeying(handmade(), Obeyed(sha256="0e" * 32, continues=1))


def with_join(saved: Snapshot) -> Snapshot:
    """Return a snapshot with a join of partition 0: some rows wait for labels, some labels for rows."""
    pending = saved.pending
    assert isinstance(pending, Cut)
    dimension = pending.points.dimension
    rules = JoinRules(horizon_ms=10_000, early_ms=10_000, absent="drop", most_rows=1 << 20)
    joiner = Joiner(0, rules, dimension, np.dtype(np.float32), Position(0), Position(0))
    n = 6
    numbers, zeros, ones = np.arange(n), np.zeros(n, np.int64), np.ones(n, np.bool_)
    keys = hashed([str(number).encode() for number in range(2 * n)])
    X = np.arange(n * dimension, dtype=np.float32).reshape(n, dimension)
    joiner.add_features(
        FeatureRows(
            offset=numbers,
            row=zeros,
            last=ones,
            time_ms=numbers,
            leader_epoch=zeros,
            key=keys[:n],
            ok=ones,
            X=X,
            weight=np.ones(n),
        )
    )
    joiner.add_labels(
        LabelRows(
            offset=numbers,
            row=zeros,
            last=ones,
            time_ms=numbers,
            leader_epoch=zeros,
            key=keys[3 : 3 + n],
            sign=np.ones(n, np.int8),
        )
    )
    joined, _ = joiner.join()
    assert joined is not None
    first = replace(saved.learner.partitions[0], beside_offset=12)
    learner = replace(saved.learner, partitions={**saved.learner.partitions, 0: first})
    joining = Joining(
        topic="labels", topic_id="id", base={0: Position(2)}, partitions={0: joiner.state()}, waiting={0: joined}
    )
    with_offsets = replace(saved, learner=learner, pending=replace(pending, beside_offsets={0: 3}))
    return with_joining(with_offsets, joining)


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


def handmade_totals() -> Snapshot:
    """Return the same with totals of all rows: of the bucket, of the screen, of a leaf with outliers, of the cut."""
    made = handmade()
    now, pending = made.learner.partitions[0], made.pending
    assert isinstance(pending, Cut)
    assert isinstance(now.screened, Screened)
    frame = Frame(
        scaling=np.array([[0.1, -2.5], [1e-3, 7.0]]),
        machine=np.array([0.5, -0.25, 1e-17]),
        factor=np.eye(3, dtype=np.float32),
    )
    epoch = Epoch(
        frame=frame,
        rows=7,
        stratum=np.array([0, 95]),
        weight=np.array([3.0, 4.5]),
        length=np.array([1.0, 1e300]),
        nearest=np.array([0.0, 0.25]),
        sums=np.array([[1.0, 2.0], [-0.0, 1e-300]]),
        error=np.array([0.0, 1e-12]),
    )
    changed = Changed(rows=1, weight=np.array([0.0, 1e9]), moved=np.array([[0.0, -0.0], [2.5, 1e300]]))
    totals = Totals(np.array([1.0, 0.0]), pending.points.take(slice(1)), (epoch,), changed)
    condensed = Condensed(
        frame=frame,
        rows=3,
        weight=np.zeros(STRATA),
        length=np.ones(STRATA),
        nearest=np.full(STRATA, 2.0),
        sums=np.arange(2.0 * STRATA).reshape(STRATA, 2),
        spread=np.array([0.5, 1e9]),
        own=np.array([1.0, 2.0, 3.0]),
        held_beside=(pending.points,),
        border=0.125,
        most=9,
        changed=changed,
    )
    (bucket,) = now.buckets
    first = replace(now, buckets=(replace(bucket, totals=totals),), screened=replace(now.screened, condensed=condensed))
    came = pending.points.take(slice(1)).scaled(3.0)
    second = replace(
        made.learner.partitions[3],
        leaf_points=pending.points,
        leaf_extent=replace(now.leaf_extent, rows=2),
        leaf_totals=Totals(np.array([0.0, 1e9]), came, (), changed),
    )
    return replace(
        made,
        learner=replace(made.learner, partitions={**made.learner.partitions, 0: first, 3: second}),
        pending=replace(pending, ledger=Ledger(pending.points, totals)),
    )


def handmade_classes() -> Snapshot:
    """Return the same with a screen for three labels, of which two have a problem."""
    made = handmade()
    d, classes, problems = 2, 3, 2
    screen = ClassScreen(
        rows=16,
        rate=0.1,
        scaling=np.array([[0.1, -2.5], [1e-3, 7.0]]),
        class_weight=np.array([1.0, 2.0, 1e-9]),
        labels=np.array([0, 2]),
        coefficients=np.arange(4.0).reshape(problems, d),
        intercepts=np.array([0.5, -0.0]),
        label_mean=np.arange(8.0).reshape(problems, 2, d),
        terms=np.arange(24.0).reshape(problems, 2, 6),
        projection=np.arange(24, dtype=np.float32).reshape(problems, 4, 3),
    )
    screened = ClassScreened(
        screen=screen,
        thinnings=1,
        counts=np.array([4, 0, 5]),
        sums=np.linspace(0.0, 0.99, classes * BINS).reshape(classes, BINS),
        weight=np.array([1.5, 0.0, 1e9]),
        active=np.array([[1.0, 2.0], [3.0, 4.0]]),
        moments_sums=np.array([[1.0, 2.0], [3.0, 4.0]]),
        gradient=np.array([[-1.0, 0.25], [1e-300, 8.0]]),
    )
    first = replace(made.learner.partitions[0], screened=screened)
    return replace(made, learner=replace(made.learner, partitions={**made.learner.partitions, 0: first}))


HANDMADE: dict[str, Callable[[], Snapshot]] = {
    "checkpoint-1-erased": handmade_erased,
    "checkpoint-1": handmade,
    "checkpoint-1-taken": handmade_taken,
    "checkpoint-1-forgetful": handmade_forgetful,
    "checkpoint-1-joined": handmade_joined,
    "checkpoint-1-totals": handmade_totals,
    "checkpoint-1-classes": handmade_classes,
}
"""What makes the snapshot of each golden file."""


def as_json(found: object) -> Any:
    """Return a snapshot, or a model version, as plain JSON values; floats keep all their bits."""
    return json.loads(json.dumps(_plain(found)))


def _plain(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return {"dtype": found.dtype.str, "shape": found.shape, "values": found.ravel().tolist()}
    if isinstance(found, dict):
        return {str(key): _plain(value) for key, value in found.items()}
    if dataclasses.is_dataclass(found):
        return {field.name: _plain(getattr(found, field.name)) for field in dataclasses.fields(found) if field.init}
    if isinstance(found, msgspec.Struct):
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        return {name: _plain(value) for name, value in fields.items() if value is not msgspec.UNSET}
    if isinstance(found, tuple | list):
        return [_plain(one) for one in found]
    return found


if __name__ == "__main__":
    for name, make in HANDMADE.items():
        for path, content in (
            (HERE / f"{name}.ssvm", encode(make())),
            (HERE / f"{name}.json", json.dumps(as_json(make()), indent=1).encode() + b"\n"),
        ):
            if not path.exists():
                path.write_bytes(content)
