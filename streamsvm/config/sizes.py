"""What a partition's points are divided into, and how many bytes they take; integers and fixed shares only."""

from __future__ import annotations

from typing import Final, NamedTuple

from streamsvm.config.point_options import PointsConfig

BUCKETS: Final = 4
"""Of a tree."""

LARGEST_AUDIT: Final = 1_000
"""Points of a partition's audit sample."""
AUDITED: Final = 11
"""One of so many points is of the audit sample: of 11,000, a leaf and four buckets have 2,000 each beside it."""
AUDITED_OF_SPANS: Final = 8
"""The same where each bucket has an audit sample of its own, of a tenth of that."""
CHAIN_BUCKET: Final = 0.7
"""The bucket's share of a partition's memory in a chain; the rest is the leaf. Measured from 0.3 to 0.85: a larger
bucket comes nearer to the optimum and loses less on sorted streams; a larger leaf is reduced less often, which takes
less time."""
COUNTER_LEVELS: Final = 31
"""Of a counter at the end of a stream of 2^40 rows, a bucket a level; its leaf has the points of two."""
LANDMARK_PARTS: Final = 32
"""Parts of a memory, screened by landmarks, of which one is the leaf. Screened leaves hold points as heavy as the
bucket's, so that a small leaf wastes nothing; each time one is full, all of the memory is read."""
LANDMARK_MANY: Final = 50_000
"""Points above which the leaf is twice that part: reading all of the memory takes longer there, and a few per cent of
the points are worth less."""
LANDMARK_LEAF: Final = 32
"""Points of such a leaf, but at most a quarter of the memory: the first leaf bounds the values of later ones."""

GRAIN: Final = 8
"""Parts of a window, or of a half-life, that may not be told apart. More parts take more buckets; with fewer, more of
the window lies in the bucket that is half inside."""
MOST_HALF_LIVES: Final = 40
"""Age, in half-lives, at which rows are dropped: they count for 1e-12 of what they did."""
LARGEST_LEAF: Final = 2_000
"""Rows of a leaf where rows are forgotten: a longer one follows a change later."""
WINDOW_LEAF, ADAPTIVE_LEAF = 8, 29
"""Parts of a memory that forgets of which one is the leaf: one that is `adaptive` follows a change leaf by leaf."""
SPAN_LEAVES: Final = 8
"""Most leaves of a span."""
SPAN_POINTS: Final = 100
"""Points of a leaf for each feature with which a span has so many leaves; with fewer, in proportion fewer leaves. A
pilot of few points screens badly: windows of ijcnn1 came three to five times as near with 2 leaves a span as with 8
where a leaf had 18 to 45 points a feature, and nearest of all with 4 where it had 90."""
HORIZON_BUCKETS: Final = 24
"""Most buckets of a partition that never drops one: of 2,000 spans, every one that doubling makes. In a longer stream
the oldest two become one again and again."""
TIMED_BUCKETS: Final = 40
"""Most buckets of a window of time, where the rows that come in it are not known before."""

HISTORY_BLOCKS: Final = 64
"""Most blocks of rows whose moments a partition keeps to find drift; it takes 2 MB for 2,000 features."""

LANDMARKS: Final = 256
"""Of a pilot. 64 to 512 were measured: below 128 margins of ijcnn1 are too rough."""
PILOT_POINTS: Final = 8_192
"""Most points on which a pilot with landmarks is solved."""
PILOT_ROWS_AT_ONCE: Final = 1_024
"""Of them, those whose kernel values with the landmarks are in memory at once."""
CURVE_POINTS: Final = 2_048
"""Most points on which a pilot with curves is fitted: four times as many gain nothing."""
PILOT_COLUMNS: Final = 1_000
"""Most columns of the curves of a pilot: where there would be more, it is linear."""
PILOT_PAIRS: Final = 10
"""Most surfaces there."""
CURVE_COLUMNS: Final = 64
"""As many as a curve or a surface has at most."""
WORKING_COPIES: Final = 3
"""Most arrays of float64 features, one row per point, that a pilot and its solver hold at the same time."""
TOTAL_COPIES: Final = 4
"""Most arrays of float64, a row per kept point and a column per total, that a calibration holds at the same time."""
MOST_TOTALS: Final = 1_024
"""Of a calibration; with more gradients are left out: its time grows with their square."""
KERNEL_BLOCK: Final = 2_048
"""Most points whose kernel values with one another the solver of an RBF pilot holds, as float32."""
WORKING_NUMBERS: Final = 24
"""Further numbers of 8 bytes per point of a reduction: margins, dual variables, slacks, steps, shares, orders."""
WORKING_NUMBERS_A_CLASS: Final = 4
"""The same for each of more than two classes: sign, margin, importance and the row of a total."""
WORKING_SQUARES: Final = 4
"""Most matrices of features by features that a reduction and its pilot hold at the same time."""
PROJECTIONS: Final = 36
"""Most columns, and numbers of a padded row, of the projection that a screen has of each of several labels."""
CLASS_NUMBERS: Final = 56
"""Further numbers of 8 bytes that it has of each: bins, terms, totals."""
AUDIT_BYTES: Final = 16
"""Bytes per point of the audit sample besides the point itself: its priority, where it is held and in a copy."""
BUCKET_BYTES: Final = 2_048
"""Bytes of a bucket's Python objects besides points and moments."""


class Sizes(NamedTuple):
    """Of one partition.

    Attributes
    ----------
    leaf : int
        Rows after which an unscreened leaf is sealed; most points of a leaf.
    bucket, buckets : int
        Most points of a bucket, and most buckets.
    audit : int
        Most points of the audit sample; where rows are forgotten, of ten buckets.
    span : int
        Rows of a bucket that was not merged, where rows are forgotten: whole leaves. Else 0.
    """

    leaf: int
    bucket: int
    buckets: int
    audit: int
    span: int = 0

    @property
    def bucket_audit(self) -> int:
        """Points of each bucket's audit sample, where rows are forgotten."""
        return self.audit // 10


def of_structure(structure: str, points: int, *, by_landmarks: bool) -> Sizes:
    """Return the sizes of a structure in which nothing is forgotten."""
    audit = min(LARGEST_AUDIT, points // AUDITED)
    rest = points - audit
    if structure == "tree":
        one = rest // (BUCKETS + 1)
        return Sizes(one, one, BUCKETS, audit)
    if structure == "counter":
        bucket = rest // (COUNTER_LEVELS + 2)
        return Sizes(2 * bucket, bucket, COUNTER_LEVELS, audit)
    leaf = rest - int(rest * CHAIN_BUCKET)
    if by_landmarks:
        parts = LANDMARK_PARTS // (2 if rest > LANDMARK_MANY else 1)
        leaf = max(rest // parts, min(rest // 4, LANDMARK_LEAF))
    return Sizes(leaf, rest - leaf, 1, audit)


def of_spans(points: int, memory: str, length: int | None, *, screened: int) -> Sizes:
    """Return the sizes of a memory that forgets.

    Parameters
    ----------
    points : int
    memory : str
    length : int or None
        Rows of the window, or of the half-life.
    screened : int
        Numbers of the pilot by which leaves are screened, features times labels; 0: they are not.
    """
    leaf = min(LARGEST_LEAF, points // (ADAPTIVE_LEAF if memory == "adaptive" else WINDOW_LEAF))
    leaf = max(1, leaf if length is None else min(leaf, length // GRAIN))
    span = span_of(leaf, length, screened)
    made = Sizes(leaf, 0, most_spans(memory, length, span), min(LARGEST_AUDIT, points // AUDITED_OF_SPANS), span)
    rest = points - leaf - made.bucket_audit * (made.buckets + 1)
    bucket = (rest - leaf) // made.buckets
    return made._replace(bucket=bucket if bucket <= leaf else rest // (made.buckets + 1))


def span_of(leaf: int, length: int | None, screened: int) -> int:
    """Return the rows of a span: whole leaves, so many that a pilot of one screens the others well."""
    leaves = max(1, min(SPAN_LEAVES, SPAN_LEAVES * leaf // (SPAN_POINTS * screened))) if screened else 1
    return leaf * (leaves if length is None else max(1, min(leaves, length // (GRAIN * leaf))))


def most_spans(memory: str, length: int | None, span: int) -> int:
    """Return the most buckets of spans of so many rows."""
    if memory == "window":
        return TIMED_BUCKETS if length is None else windowed_buckets(length, span)
    return HORIZON_BUCKETS if length is None else doubling_buckets(MOST_HALF_LIVES * length, span)


def windowed_buckets(window: int, span: int) -> int:
    """Return the most buckets of a window of so many rows, none of which is longer than a grain of it."""
    levels, longest = 0, span
    while 2 * longest * GRAIN <= window:
        levels, longest = levels + 1, 2 * longest
    return 2 * levels + -(-window // longest) + 2


def doubling_buckets(rows: int, span: int) -> int:
    """Return the most buckets, two a level, of so many rows."""
    levels = 1
    while span << levels <= rows:
        levels += 1
    return 2 * levels + 2


def largest_bytes(
    sizes: Sizes,
    points: PointsConfig,
    partitions: int,
    train_points: int,
    *,
    forgets: bool,
    class_screens: bool,
    landmarks: int | None,
    curves: bool,
) -> int:
    """Return the most bytes that so many partitions, a running reduction and a training set take together."""
    held, audited = _held_points(sizes, forgets=forgets)
    needed = partitions * held_bytes(sizes, points, forgets=forgets, class_screens=class_screens, curves=curves)
    cut = partitions * held
    # A reservoir has room for twice as many points as its sample, which is a copy.
    needed += (cut + min(cut, train_points) + 2 * partitions * audited) * points.point_bytes
    needed += partitions * _history_bytes(points)
    # A pilot, a screen, or an expert, is of all that a partition holds; a cut that is too large is reduced as a whole.
    reduced, kept = held, max(sizes.leaf, sizes.bucket)
    if cut > train_points:
        reduced, kept = max(held, cut), max(kept, train_points)
    fitted = 16 * min(PILOT_COLUMNS, (points.dimension + PILOT_PAIRS) * CURVE_COLUMNS) ** 2 if curves else 0
    fitted += 24 * min(reduced, CURVE_POINTS) * (2 * points.dimension + 4 * PILOT_PAIRS) if curves else 0
    return needed + fitted + _working_bytes(points, reduced, min(kept, reduced), landmarks)


def held_bytes(sizes: Sizes, points: PointsConfig, *, forgets: bool, class_screens: bool, curves: bool) -> int:
    """Return the most bytes of what one partition holds: points, audit sample, moments, history and screens."""
    held, audited = _held_points(sizes, forgets=forgets)
    needed = (held + audited) * points.point_bytes + audited * AUDIT_BYTES
    needed += (sizes.buckets + 2) * (16 * points.dimension + BUCKET_BYTES) + _history_bytes(points)
    if class_screens:
        width = points.dimension + 4
        one = 4 * width * min(width, PROJECTIONS) + 8 * (4 * width + CLASS_NUMBERS)
        needed += points.classes * one
    if curves:
        needed += 8 * (3 * min(PILOT_COLUMNS, points.dimension * CURVE_COLUMNS) + PILOT_PAIRS * (CURVE_COLUMNS + 2))
        needed += 8 * 5 * points.dimension
    return needed


def _history_bytes(points: PointsConfig) -> int:
    return HISTORY_BLOCKS * 8 * (2 * points.dimension + points.classes)


def _held_points(sizes: Sizes, *, forgets: bool) -> tuple[int, int]:
    """Return the most points of leaf and buckets, and those of audit samples."""
    held = sizes.leaf + sizes.buckets * sizes.bucket
    if forgets:
        return held + max(sizes.leaf, sizes.bucket), (sizes.buckets + 1) * sizes.bucket_audit
    return held, sizes.audit


def _working_bytes(points: PointsConfig, reduced: int, kept: int, landmarks: int | None) -> int:
    """Return the bytes of a reduction of so many points, of which so many are kept, and of its pilot."""
    width, problems = points.dimension + 1, 1 if points.classes == 2 else points.classes
    numbers = WORKING_NUMBERS + (0 if problems == 1 else WORKING_NUMBERS_A_CLASS * problems)
    # What is reduced, and what of it is kept, are points of their own; both are scaled.
    moving = (reduced + kept) * (points.point_bytes + 8 * width) + 8 * reduced * numbers
    if landmarks is not None:  # few points are scaled for the pilot, and no gradient is a total
        few = min(reduced, PILOT_POINTS)
        landmarks = min(landmarks, few)
        pilot = 8 * few * (WORKING_COPIES * width + numbers) + 4 * min(few, KERNEL_BLOCK) ** 2
        pilot += 8 * landmarks * (2 * PILOT_ROWS_AT_ONCE + WORKING_SQUARES * landmarks)
        totals = 3 * problems + points.dimension * (problems > 1)
        return max(pilot, moving + 8 * kept * TOTAL_COPIES * totals)
    totals = problems * points.dimension
    totals = 3 * problems + (totals if totals <= MOST_TOTALS else points.dimension)
    moving += 8 * (kept * TOTAL_COPIES * totals + WORKING_SQUARES * totals**2)
    return max(8 * reduced * (WORKING_COPIES * width + numbers) + 8 * WORKING_SQUARES * width**2, moving)
