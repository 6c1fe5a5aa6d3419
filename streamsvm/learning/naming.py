"""What learning makes, as a version and its head record contain it; and bounds on the bytes of these."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np

from streamsvm.config import ModelConfig, support_vector_bytes
from streamsvm.coreset.buckets import Learned
from streamsvm.learning.learner import Cut
from streamsvm.learning.tuning import Tuning
from streamsvm.model.classes import machines_of
from streamsvm.model.parts import probability_part
from streamsvm.model.pointers import Head
from streamsvm.model.probes import count_of
from streamsvm.model.recipes import recipes_of
from streamsvm.model.threshold import LARGEST_BYTES as THRESHOLD_BYTES, NUMBER_BYTES
from streamsvm.model.version import (
    LINKS_BYTES,
    PARTITION_BYTES,
    Memory,
    PartitionCut,
    PartitionHorizons,
    StreamSummary,
    TuningInForce,
)
from streamsvm.svm.additive import largest_numbers

COVERAGE_BYTES: Final = 400
"""Most characters of what a lineage says of a partition that forgets, without its horizons."""
MACHINE_BYTES: Final = 512
"""Most characters of how one of several machines was fitted, with its intercept, class weights and label's weight."""
HORIZON_BYTES: Final = 48
"""Most characters of a horizon."""
DIGITS: Final = 7
"""Most characters of a number of support vectors."""


def in_force(tuning: Tuning | None) -> TuningInForce | None:
    """Return a tuning as the head record contains it."""
    if tuning is None:
        return None
    return TuningInForce(tuning.alpha, tuning.C, tuning.gamma, tuning.cut, tuning.rows)


def tuned_at(tuning: Tuning | None) -> tuple[PartitionCut, ...] | None:
    """Return the cut at which a tuning was made, for the lineage."""
    return None if tuning is None else tuning.cut


def tuning_of(head: Head | None) -> Tuning | None:
    """Read the tuning in force back from a head record."""
    if head is None or head.tuning is None:
        return None
    found = head.tuning
    return Tuning(alpha=found.alpha, C=found.C, gamma=found.gamma, cut=found.cut, rows=found.rows)


def summary(learned: Learned) -> StreamSummary:
    """Return totals of learned rows as the lineage contains them."""
    class_weight = tuple(map(float, learned.class_weight))
    return StreamSummary(
        rows=learned.rows,
        points=learned.count,
        weight=math.fsum(class_weight),
        class_weight=class_weight,
        first_time_ms=learned.first_time_ms,
        last_time_ms=learned.last_time_ms,
    )


def memory_of(cut: Cut, config: ModelConfig) -> Memory | None:
    """Return which rows of each partition count in a cut, for the lineage; None where all learned rows count."""
    if not cut.coverage:
        return None
    return Memory(
        kind=config.coreset.memory,
        partitions=tuple(
            PartitionHorizons(
                partition=partition,
                oldest=(coverage.oldest.offset, coverage.oldest.row),
                before=summary(coverage.before),
                horizons=tuple((horizon.rows, horizon.share) for horizon in coverage.horizons),
            )
            for partition, coverage in sorted(cut.coverage.items())
        ),
    )


def learned_of(summary: StreamSummary) -> Learned:
    """Return totals of learned rows from a lineage: the inverse of `summary`."""
    return Learned(
        rows=summary.rows,
        count=summary.points,
        class_weight=np.array(summary.class_weight),
        first_time_ms=summary.first_time_ms,
        last_time_ms=summary.last_time_ms,
    )


def largest_bytes(config: ModelConfig, partitions: int = 1) -> int:
    """Return a bound on the bytes of a version's value under a configuration, of so many partitions."""
    points = config.points
    machines = _machines(config)
    cuts = 2 if config.svm.tune is None else 3
    fixed = 8_192 + LINKS_BYTES + len(msgspec.json.encode(config.canonical())) + cuts * partitions * PARTITION_BYTES
    if config.coreset.forgets:
        fixed += partitions * (COVERAGE_BYTES + config.coreset.sizes.buckets * HORIZON_BYTES)
    fixed += machines * probability_part.LARGEST_BYTES
    fixed += 0 if machines == 1 else machines * MACHINE_BYTES
    fixed += THRESHOLD_BYTES if config.svm.goal is not None else 0
    if config.recipe is not None:
        fixed += recipes_of(config.recipe).largest_bytes(config.recipe)
    probes = count_of(points.dimension) * (points.dimension + 4 * machines) * NUMBER_BYTES
    described = (
        probes + points.dimension * 2 * NUMBER_BYTES + sum(len(name.encode()) * 2 + 3 for name in points.feature_names)
    )
    if config.svm.kernel == "additive":
        return fixed + described + machines * largest_numbers(_most_terms(config), points.dimension) * NUMBER_BYTES
    if config.svm.kernel == "linear":
        return fixed + described + machines * points.dimension * NUMBER_BYTES
    if config.svm.packed:
        fixed += points.dimension * 2 * NUMBER_BYTES + 128
        if config.svm.landmarks is None:
            one, room = _vector_bytes(config), config.svm.packed_bytes(points.dimension)
            return fixed + described + max(min(room, _most_terms(config) * one), 2 * one)
    return fixed + described + _most_terms(config) * _vector_bytes(config)


def terms_within(config: ModelConfig, limit: int, partitions: int = 1) -> int:
    """Return how many support vectors keep `largest_bytes` within a limit; 0 if none do, as of a linear machine."""
    if config.svm.kernel != "rbf":
        return 0
    one = _vector_bytes(config)
    some = config.model_copy(update={"svm": config.svm.model_copy(update={"landmarks": 1})})
    return max(0, (limit - largest_bytes(some, partitions) - DIGITS) // one + 1)


def _vector_bytes(config: ModelConfig) -> int:
    return support_vector_bytes(config.points.dimension, _machines(config), packed=config.svm.packed)


def _most_terms(config: ModelConfig) -> int:
    return min(config.coreset.train_points, config.svm.landmarks or config.coreset.train_points)


def _machines(config: ModelConfig) -> int:
    if config.points.classes == 2:
        return 1
    return machines_of(config.points.classes, config.svm.multiclass or "one_vs_rest")
