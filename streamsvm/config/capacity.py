"""What a coreset of given sizes holds: points, and bytes of memory."""

from __future__ import annotations

from streamsvm import memory
from streamsvm.config.coreset_options import CoresetOptions
from streamsvm.config.point_options import PointsConfig
from streamsvm.config.span_sizes import bucket_audit_points, dyadic_buckets
from streamsvm.config.structures import SIZES


def partition_points(config: CoresetOptions) -> int:
    """Return the most points that a partition holds at once, its audit sample included."""
    if config.forgets:
        audit = bucket_audit_points(config)
        return memory.dyadic_points(dyadic_buckets(config), config.leaf_rows, config.bucket_points, audit)
    if config.structure == "chain":
        return memory.chain_points(config.leaf_rows, config.bucket_points) + config.audit_points
    if config.buckets is not None:
        return memory.tree_points(config.buckets, config.leaf_rows, config.bucket_points) + config.audit_points
    return SIZES[config.merges].points(config.fan_in, config.leaf_rows, config.bucket_points) + config.audit_points


def audit_capacity(config: CoresetOptions) -> int:
    """Return the most points of a partition's audit samples."""
    if not config.forgets:
        return config.audit_points
    return (dyadic_buckets(config) + 1) * bucket_audit_points(config)


def coreset_points(config: CoresetOptions) -> int:
    """Return the most points that the buckets and open leaves of all partitions hold at once."""
    return config.max_partitions * (partition_points(config) - audit_capacity(config))


def reduced_points(config: CoresetOptions) -> int:
    """Return the most points of one reduction or pilot: of a node, of all partitions, or of a partition's screen."""
    needed = coreset_points(config)
    if config.structure == "chain" or config.buckets is not None or config.memory == "adaptive":
        node = partition_points(config) - audit_capacity(config)  # a pilot, or an expert, is of everything that is held
    elif config.forgets:
        node = max(config.leaf_rows + max(config.leaf_rows, config.bucket_points), 2 * config.bucket_points)
    else:
        node = SIZES[config.merges].reduced(config.fan_in, config.leaf_rows, config.bucket_points)
        if config.screens:  # the pilot of a screen is solved on all buckets of a partition
            node = max(node, partition_points(config) - config.audit_points - config.leaf_rows)
    return max(node, needed if needed > config.train_points else 0)


def largest_bytes(config: CoresetOptions, points: PointsConfig) -> int:
    """Return the most bytes that all partitions, a running reduction and a training set take together."""
    audited = config.max_partitions * audit_capacity(config)
    buckets = config.max_partitions + coreset_points(config) // config.bucket_points
    needed = (coreset_points(config) + audited) * points.point_bytes + audited * config.AUDIT_BYTES
    needed += buckets * (16 * points.dimension + config.BUCKET_BYTES)
    needed += _class_screen_bytes(config, points)
    width = points.dimension + 1
    of_kernel = config.kernel_bytes(reduced_points(config), points.dimension, points.point_bytes)
    if of_kernel is not None:
        return needed + of_kernel + _cut_bytes(config, points, audited)
    numbers = config.WORKING_NUMBERS + (0 if points.classes == 2 else config.WORKING_NUMBERS_A_CLASS * points.classes)
    working = 8 * reduced_points(config) * (config.WORKING_COPIES * width + numbers)
    working += 8 * config.WORKING_SQUARES * width**2
    return needed + working + _cut_bytes(config, points, audited)


def _class_screen_bytes(config: CoresetOptions, points: PointsConfig) -> int:
    """Return the bytes of the screens for more than two labels, with their totals: one for each partition."""
    if points.classes == 2 or not config.screens:
        return 0
    width = points.dimension + 4
    one = 4 * width * min(width, config.PROJECTIONS) + 8 * (4 * width + config.CLASS_NUMBERS)
    return config.max_partitions * points.classes * one


def _cut_bytes(config: CoresetOptions, points: PointsConfig, audited: int) -> int:
    needed = coreset_points(config)
    return (needed + min(needed, config.train_points) + audited) * points.point_bytes
