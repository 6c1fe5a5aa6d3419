"""Spans, leaves and buckets of a memory that forgets."""

from __future__ import annotations

from typing import NamedTuple

from streamsvm import memory
from streamsvm.config.coreset_options import CoresetOptions


class Screens(NamedTuple):
    """Whether leaves can be screened, and points of how many features; of 1 while that is not known."""

    rows: bool
    dimension: int = 1


def span_of(config: CoresetOptions, leaf: int, screens: Screens) -> int:
    """Return the rows of a span by default."""
    leaves = 1
    if screens.rows:
        most = config.SPAN_LEAVES
        leaves = max(1, min(most, most * leaf // (config.SPAN_POINTS * screens.dimension)))
    if config.length_rows is not None:
        leaves = max(1, min(leaves, config.length_rows // (memory.GRAIN * leaf)))
    return leaves * leaf


def buckets_of(config: CoresetOptions, leaf: int, screens: Screens) -> int:
    """Return the most buckets of a structure that forgets, with leaves of so many rows."""
    span = config.span_rows or span_of(config, leaf, screens)
    return config.most_spans(span) or config.HORIZON_BUCKETS


def dyadic_buckets(config: CoresetOptions) -> int:
    """Return the most buckets of a structure that forgets; its span must be settled."""
    return buckets_of(config, config.leaf_rows, Screens(config.screens))


def bucket_audit_points(config: CoresetOptions) -> int:
    """Return the points of the audit sample of each bucket of a structure that forgets."""
    return min(config.audit_points, max(2, int(config.audit_points * config.AUDITED_A_BUCKET)))


def leaf_beside(config: CoresetOptions, bucket: int) -> int:
    """Return the rows of a leaf beside buckets of so many points, where something is forgotten."""
    leaf = bucket if config.memory == "adaptive" else config.LEAF_BUCKETS * bucket
    return leaf if config.length_rows is None else max(1, min(leaf, config.length_rows // memory.GRAIN))


def require_grain(config: CoresetOptions, span: int) -> None:
    """Refuse spans that are not whole leaves, and lengths of fewer than eight spans.

    Raises
    ------
    ValueError
    """
    leaf = config.leaf_rows
    if span % leaf:
        raise ValueError(
            f"coreset.span_rows = {span} is not a multiple of coreset.leaf_rows = {leaf}: give "
            f"{-(-span // leaf) * leaf}"
        )
    if config.length_rows is not None and config.length_rows < memory.GRAIN * span:
        raise ValueError(
            f"coreset.{config.length_option} = {config.length_rows} is less than eight times the {span} rows of a "
            f"span: give {memory.GRAIN * span} or more, or lower coreset.leaf_rows, or coreset.span_rows"
        )
