"""The sizes of a coreset that follow from a memory budget, and the structure that suits a kernel.

Options that are given do not change. Options that follow from others are written over the defaults, and still count as
not given: so a section can be settled again when more is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from streamsvm import memory
from streamsvm.config.capacity import largest_bytes, partition_points
from streamsvm.config.coreset_options import CoresetOptions
from streamsvm.config.point_options import PointsConfig
from streamsvm.config.span_sizes import Screens, bucket_audit_points, buckets_of, leaf_beside, require_grain, span_of
from streamsvm.config.structures import SIZES
from streamsvm.sections import with_defaults
from streamsvm.supports import LABELS, require

Options = TypeVar("Options", bound=CoresetOptions)


def settled(config: Options, points: PointsConfig, kernel: str) -> Options:
    """Return a section with the structure that suits a kernel, and the sizes that follow from a budget.

    Raises
    ------
    ValueError
        If the budget is too small. For `memory_bytes` the message names the smallest sufficient budget.
    """
    if points.classes == 2 and (more := config.kernel_defaults(kernel)):
        return _settled(sized_by_points(with_defaults(config, more).merged_by_one_rule()), points, kernel)
    own = {**config.kernel_axes(), "coreset.memory": config.memory}
    made_by = {"coreset.reducer": config.reducer, "coreset.structure": config.structure}
    require({**own, **made_by, LABELS: points.classes, "svm.kernel": kernel})
    return _settled(config, points, kernel)


def _settled(config: Options, points: PointsConfig, kernel: str) -> Options:
    if config.forgets:
        return _settled_to_forget(config, points, kernel)
    if config.structure is not None:
        return _sized_by_bytes(config, points)
    has_budget = config.memory_points is not None or config.memory_bytes is not None
    is_tree_set = not config.model_fields_set.isdisjoint({"buckets", "fan_in"})
    if kernel == "linear" and (is_tree_set or not has_budget):
        return _settled_as(config, "tree", points)
    chain = _settled_as(config, "chain", points)
    if kernel == "linear" and partition_points(chain) >= config.TREE_POINTS:
        return _settled_as(config, "tree", points)
    return chain


def _settled_as(config: Options, structure: Literal["tree", "chain"], points: PointsConfig) -> Options:
    chosen = with_defaults(config, {"structure": structure}).merged_by_one_rule()
    return _sized_by_bytes(sized_by_points(chosen), points)


def _settled_to_forget(config: Options, points: PointsConfig, kernel: str) -> Options:
    """Return a section with span and bucket that follow where something is forgotten."""
    rows = config.screens and kernel == "linear"
    # A pilot a label asks as many times more of a leaf.
    numbers = points.dimension * (1 if points.classes == 2 else points.classes)
    screens, chosen = Screens(rows, numbers), config
    budget = config.memory_points is not None or config.memory_bytes is not None
    if config.memory == "adaptive" and not budget and "bucket_points" not in config.model_fields_set:
        size = max(config.HORIZON_POINTS, 15 * points.dimension)
        chosen = with_defaults(chosen, {"bucket_points": min(size, config.bucket_points)})
    chosen = _sized_by_bytes(sized_by_points(chosen, screens), points, screens)
    span = chosen.span_rows or span_of(chosen, chosen.leaf_rows, screens)
    require_grain(chosen, span)
    return with_defaults(chosen, {"span_rows": span})


def sized_by_points(config: Options, screens: Screens | None = None) -> Options:
    """Compute those of `leaf_rows`, `bucket_points` and `audit_points` that are not given from `memory_points`.

    They are set in the section itself. If `structure` is not given either, `settled` does this later; where something
    is forgotten, again, when it is known what can be screened.

    Raises
    ------
    ValueError
        If the budget is too small.
    """
    if config.memory_points is None or (config.structure is None and not config.forgets):
        return config
    own = config.memory_points // config.max_partitions
    if "audit_points" not in config.model_fields_set:
        object.__setattr__(config, "audit_points", min(config.audit_points, int(own * config.AUDIT_SHARE)))
    points = own if config.forgets else own - config.audit_points
    screens = screens or Screens(config.screens)
    sizes = _sizes_of(config, points, screens)
    for name, size in zip(("leaf_rows", "bucket_points"), sizes, strict=True):
        object.__setattr__(config, name, size)
    if min(config.leaf_rows, config.bucket_points) < 1 or partition_points(config) > own:
        raise ValueError(
            f"coreset.memory_points = {config.memory_points} is too little: each of coreset.max_partitions = "
            f"{config.max_partitions} gets {own} points, too few for {_of_these_sizes(config, screens)}. Raise it, "
            "or lower max_partitions, leaf_rows, bucket_points or audit_points"
        )
    return config


def _of_these_sizes(config: CoresetOptions, screens: Screens) -> str:
    if not config.forgets:
        return f"a {config.structure} of these sizes"
    least = memory.smallest_budget(lambda points: min(_sizes_of(config, points, screens)) >= 1)
    return f"coreset.memory = {config.memory}, which takes {least} a partition, {least * config.max_partitions} in all"


def _sizes_of(config: CoresetOptions, points: int, screens: Screens) -> tuple[int, int]:
    """Return leaf and bucket of a structure that holds so many points."""
    given = config.model_fields_set
    leaf, bucket = (getattr(config, name) if name in given else None for name in ("leaf_rows", "bucket_points"))
    if config.forgets:
        audit = bucket_audit_points(config)
        return memory.dyadic_sizes(
            points,
            lambda rows: buckets_of(config, rows, screens),
            lambda size: leaf_beside(config, size),
            leaf,
            bucket,
            audit,
        )
    if config.structure == "chain":
        if leaf is None and bucket is None:
            leaf = config.kernel_leaf(points)
        return memory.chain_sizes(points, config.CHAIN_BUCKET_SHARE, leaf, bucket)
    if config.buckets is not None:
        return memory.tree_sizes(points, config.buckets, leaf, bucket)
    return SIZES[config.merges].of_budget(points, config.fan_in, leaf, bucket)


def _sized_by_bytes(config: Options, points: PointsConfig, screens: Screens | None = None) -> Options:
    if config.memory_bytes is None:
        return config
    budget, given = config.memory_bytes, _given_beside_the_budget(config)

    def of(memory_points: int) -> Options | None:
        return _of_points(type(config), given, memory_points, screens)

    def fits(memory_points: int) -> bool:
        made = of(memory_points)
        return made is None or largest_bytes(made, points) <= budget

    most = memory.largest_budget(fits)
    made = of(most) if most is not None else None
    if made is None:
        more = f", {config.kernel_option}" if config.kernel_option else ""
        raise ValueError(
            f"coreset.memory_bytes = {budget} is too little for coreset.max_partitions = "
            f"{config.max_partitions} and points of {points.dimension} features: the smallest "
            f"{config.structure or 'structure'} takes {_least_bytes(of, points)} bytes. Raise it, or lower "
            f"max_partitions, leaf_rows, bucket_points{more} or audit_points"
        )
    sizes = {name: getattr(made, name) for name in ("leaf_rows", "bucket_points", "audit_points")}
    return with_defaults(config, sizes)


def _given_beside_the_budget(config: CoresetOptions) -> dict[str, Any]:
    """Return the options from which sizes follow, but the budget: those that are given, and the structure's."""
    rules = {"structure": config.structure, "buckets": config.buckets}
    given = config.model_dump(include=config.model_fields_set - {"memory_bytes", "memory_points"})
    return given | rules | config.kernel_rules()


def _of_points(
    kind: type[Options], given: dict[str, Any], memory_points: int, screens: Screens | None
) -> Options | None:
    """Return a section of so many points; None if they are too few."""
    try:
        made = kind(**given, memory_points=memory_points)
        if made.forgets and screens is not None:
            made = sized_by_points(made, screens)
            span = made.span_rows or span_of(made, made.leaf_rows, screens)
            made = with_defaults(made, {"span_rows": span})
    except ValueError:  # a ValidationError is one, too
        return None
    return made if made.bucket_points >= made.LEAST_BUCKET or "bucket_points" in given else None


def _least_bytes(of: Callable[[int], Options | None], points: PointsConfig) -> int:
    """Return the bytes that the smallest possible sizes take."""
    enough = memory.smallest_budget(lambda memory_points: of(memory_points) is not None)
    made = of(enough)
    return largest_bytes(made, points) if made else 0
