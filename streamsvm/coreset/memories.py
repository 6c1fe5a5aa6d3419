r"""Memories: which rows a partition still counts, and how much.

`all` counts all of them alike, and needs nothing of this. `window` counts the newest; in `decay` weights halve;
`adaptive` learns horizons from what was right of late.

**Spans.** A *span* is a range of so many rows. Its first leaf is unscreened and screens the rest; when it is
full, both become a bucket. Two siblings, buckets of as many rows of which the older begins at a multiple of the rows of
both, become one as soon as a third as long follows them. So for any length there is a border between it and twice it
from the end. No bucket of a window is longer than a `GRAIN` of it. Buckets that will never count again are dropped.
Where there are too many the two oldest become one, again and again; windows and half-lives are never so long.

**What counts.** Age is in rows, or in time. No clock is read: a span's time is the median of its rows' times, and a
bucket is as late as the latest time in it or before it. So one record of the year 2099 changes nothing, times that run
backwards count as those before them, rows without a time have that of the rows before them, and an idle stream forgets
nothing. What decays does so as of a bucket's end: in a merge the older half is multiplied by what it lost while the
newer one came. A bucket that is partly in a window counts by its share inside.

**Horizons.** Each bucket begins a horizon: everything from there on. An *expert* of each, a rough machine, answers each
leaf before that is learned; its errors are all that is known here. Two mixtures of horizons follow them by fixed share:

    v_i <- v_i exp(-rate (e_i - min e)) / sum,   v_i <- (1 - SHARED) v_i + SHARED / K

*slots* are lengths (slot i the shortest horizon of 2^i spans or more, so that "4 spans were good so far" is remembered
while borders go) and *starts* are borders ("all since the change"). The two are mixed by the same rule. A horizon gives
its share to all that it holds, in proportion to weight: a bucket's factor is U sum(share / U_horizon) over the horizons
that hold it, and the whole keeps its weight U.

Invariant: a bucket is a pure function of its own range of the log, of where that lies, the configuration and the seed:
what came before, and what is dropped, change nothing in it (but for the oldest two, once they became one). Sums of
shares are taken in the order of the buckets, or exactly (`math.fsum`).

Sources: Datar, Gionis, Indyk and Motwani 2002 (exponential histograms: two buckets a size); Herbster and Warmuth 1998
(fixed share). Coresets as the buckets, two mixtures over lengths and starts, and the rates are our own: these were
chosen on made streams (SEA, a turning hyperplane, AGRAWAL) and turned labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np

from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.config.sizes import GRAIN, MOST_HALF_LIVES
from streamsvm.coreset.audit import merged, shares
from streamsvm.coreset.buckets import NO_TIMES, Bucket, Extent, Float, Labels, Learned, Moments, joined, label_index
from streamsvm.coreset.landmarks import measured_by_landmarks
from streamsvm.coreset.pilot import Measured, measured
from streamsvm.coreset.reduce import Observed, Purpose, generator, reduce
from streamsvm.linalg import along, product
from streamsvm.points import Points, Position, Rows

LATEST_MS: Final = (1 << 53) - 1
"""Greatest time that counts, in the year 287,396: greater ones would be rounded where a state is written."""
LEAST_TIMES: Final = 5
"""Rows of a known time that an open span must have before it has one: of fewer, a strange one may be the median."""
SLOT_RATE: Final = 0.2
"""Of an error of `USUAL_LEAF` rows. Higher: a slot that was lucky takes all."""
START_RATE: Final = 0.5
MIX_RATE: Final = 0.5
SHARED: Final = 0.05
"""Share that is dealt out anew each time. 0: what was once bad never comes back."""
NEW: Final = 0.05
"""Share of a border that is new."""
USUAL_LEAF: Final = 200
"""Rows for which the rates were chosen. More are better evidence, but not in proportion: it grows with their root."""
GROWN: Final = 8
"""An expert is solved again when its horizon has grown by one part in so many."""
EXPERT_POINTS: Final = 1_000
"""Most points that an expert is solved on: it must rank horizons, no more."""


Stretch = tuple[int, tuple[int, int]]
"""Rows, and the least and greatest time of their spans (-1: none): a range of the log as the rules see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizons:
    """Experts of horizons, the longest first, and their shares.

    Attributes
    ----------
    borders, solved : ndarray of shape (h,), int64
        Rows learned where each horizon begins, ascending; and where it ended when its expert was solved.
    w : ndarray of shape (h, machines, d + 1)
        Of the experts: coefficients over raw features, then the intercept.
    slots, starts : tuple of float
        Shares of lengths, the shortest first, and of borders; each sum to 1.
    mix : two floats
        Shares of slots and of starts.
    """

    borders: Labels
    solved: Labels
    w: Float
    slots: tuple[float, ...]
    starts: tuple[float, ...]
    mix: tuple[float, ...]

    def by_slots(self, end: int, span: int) -> list[float]:
        """Return the share of each border by lengths alone, where the stream ends after so many rows."""
        found = [0.0] * len(self.starts)
        for slot, share in enumerate(self.slots):
            found[self._border_of(slot, end, span)] += share
        return found

    def shares(self, end: int, span: int) -> list[float]:
        """Return the share of each border."""
        pairs = zip(self.by_slots(end, span), self.starts, strict=True)
        return [self.mix[0] * slot + self.mix[1] * start for slot, start in pairs]

    def judged(self, leaf: Bucket, end: int, config: ModelConfig) -> Horizons:
        """Return them with the shares that a leaf leaves, which nobody has learned and which begins at `end`."""
        points, seen, span = leaf.points, leaf.extent.moments, config.coreset.span_rows
        if not len(points):
            return self
        label = label_index(points.y, len(seen.class_weight))
        h, machines, width = self.w.shape
        X = np.hstack([points.X.astype(np.float64), np.ones((len(points), 1))])
        decision = product(X, np.ascontiguousarray(self.w.reshape(-1, width).T)).reshape(len(X), h, machines)
        each = (np.array(own)[:, None] for own in (self.by_slots(end, span), self.starts))
        mixed = [(own * decision).sum(axis=1) for own in each]
        decision = np.concatenate([decision, np.stack(mixed, axis=1)], axis=1)
        said = (decision[:, :, 0] > 0.0) if machines == 1 else decision.argmax(axis=2)
        u = points.weight * np.array(config.pilots.class_weights(seen.class_weight))[label]
        rate = min(1.0, math.sqrt(USUAL_LEAF / seen.count))
        errors = (
            seen.count * rate / u.sum() * product(u[None], (said != label[:, None]).astype(np.float64))[0]
        ).tolist()
        of_slots = [errors[self._border_of(slot, end, span)] for slot in range(len(self.slots))]
        return replace(
            self,
            slots=fixed_share(self.slots, of_slots, SLOT_RATE),
            starts=fixed_share(self.starts, errors[:h], START_RATE),
            mix=fixed_share(self.mix, errors[h:], MIX_RATE),
        )

    def factors(self, buckets: Sequence[Bucket], leaf: Moments, end: int, span: int) -> list[float]:
        """Return by what the weights of each bucket, and of the open leaf, count."""
        within = list(accumulate([leaf.weight, *(one.extent.moments.weight for one in reversed(buckets))]))[:0:-1]
        shares = [share if weight > 0.0 else 0.0 for share, weight in zip(self.shares(end, span), within, strict=True)]
        dealt = math.fsum(shares)
        if dealt <= 0.0:
            return [1.0] * (len(buckets) + 1)
        each = [share / (dealt * weight) if share else 0.0 for share, weight in zip(shares, within, strict=True)]
        found = [within[0] * total for total in accumulate(each)]
        return [*found, found[-1]]

    def _border_of(self, slot: int, end: int, span: int) -> int:
        """Return the index of a slot's border: of the shortest horizon of 2^slot spans or more, else of the longest.

        `end` and `span` are in rows.
        """
        return max(0, int(np.searchsorted(self.borders, end - (span << slot), side="right")) - 1)


def fixed_share(shares: Sequence[float], errors: Sequence[float], rate: float) -> tuple[float, ...]:
    """Return what shares become by the errors of those who have them."""
    least = min(errors)
    grown = [share * math.exp(-rate * (error - least)) for share, error in zip(shares, errors, strict=True)]
    total = math.fsum(grown)
    return tuple((1.0 - SHARED) * one / total + SHARED / len(grown) for one in grown)


def horizons_of(before: Horizons | None, buckets: Sequence[Bucket], partition: int, config: ModelConfig) -> Horizons:
    """Return the horizons that begin with each bucket: experts that are still good stay, shares of the others go."""
    borders = [_before(bucket).rows for bucket in buckets]
    end, span = borders[-1] + buckets[-1].extent.rows, config.coreset.span_rows
    known = {int(border): at for at, border in enumerate(before.borders)} if before else {}
    solved, experts, kept = [], [], []
    for at, border in enumerate(borders):
        kept.append(before.starts[known[border]] if before and border in known else 0.0)
        if before and border in known and GROWN * (end - before.solved[known[border]]) < end - border:
            solved.append(int(before.solved[known[border]]))
            experts.append(before.w[known[border]])
        else:
            solved.append(end)
            experts.append(_expert(buckets[at:], (partition, border, end), config))
    total, new = math.fsum(kept), NEW * sum(border not in known for border in borders)
    starts = [1.0 / len(borders)] * len(borders)
    if total > 0.0 and new < 1.0:
        pairs = zip(borders, kept, strict=True)
        starts = [(1.0 - new) * own / total if border in known else NEW for border, own in pairs]
    slots = list(before.slots) if before else []
    count = 1 + max(0, math.ceil(math.log2((end - borders[0]) / span)))
    while len(slots) < count:
        slots.append(1.0 / (len(slots) + 1))
    whole = math.fsum(slots[:count])
    return Horizons(
        borders=np.array(borders, np.int64),
        solved=np.array(solved, np.int64),
        w=np.array(experts),
        slots=tuple(one / whole for one in slots[:count]),
        starts=tuple(starts),
        mix=(0.5, 0.5) if before is None else before.mix,
    )


def _expert(buckets: Sequence[Bucket], name: tuple[int, int, int], config: ModelConfig) -> Float:
    """Return rough machines of a horizon over raw features, shape (machines, d + 1)."""
    labels, seen = config.points.classes, joined(buckets).moments
    points, random = Points.union([bucket.points for bucket in buckets]), generator(config.seed, Purpose.EXPERT, name)
    w = np.zeros((1 if labels == 2 else labels, points.dimension + 1))
    if not len(points):
        return w
    points = reduce(points, EXPERT_POINTS, None, random, labels, Observed())
    # A label that is missing is never said, and one that is alone is always said.
    own = np.bincount(label_index(points.y, labels), minlength=labels)
    w[:, -1] = np.where((own[1:] if labels == 2 else own) == len(points), 1.0, -1.0)
    found = measured(points, seen.weight, seen, config.pilots, random)
    if found is not None:
        solved, (mean, inverse) = found.pilot.w, found.pilot.scaling
        which = np.zeros(1, np.intp) if labels == 2 else found.pilot.side.argmax(axis=1)
        w[which, :-1] = solved[:, :-1] * inverse
        w[which, -1] = solved[:, -1] - along(solved[:, :-1] * inverse, mean)
    return w


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a partition that forgets knows besides its buckets.

    Attributes
    ----------
    learned : Learned
        Everything that was sealed, dropped or not.
    times : ndarray of shape (k,), int64
        Of every k-th row of the open span, as many as a leaf has: their median is that of the span. Empty
        where age is in rows.
    horizons : Horizons or None
        Of `adaptive`, once something was sealed.
    """

    learned: Learned
    times: Labels
    horizons: Horizons | None = None

    def noted(self, rows: Rows, leaf_rows: int, coreset: CoresetConfig) -> Memory:
        """Return it with the times of every k-th of the rows that follow `leaf_rows` rows of the open leaf."""
        if coreset.length_s is None:
            return self
        every = coreset.span_rows // coreset.leaf_rows
        times = rows.times.take(slice(-(self.learned.rows + leaf_rows) % every, None, every)).known()
        return replace(self, times=np.concatenate([self.times, np.minimum(times[times >= 0], LATEST_MS)]))

    def sealed(
        self,
        buckets: Sequence[Bucket],
        leaf: Bucket,
        partition: int,
        config: ModelConfig,
        observed: Observed,
        *,
        screens: bool,
    ) -> tuple[tuple[Bucket, ...], Memory, Measured | None]:
        """Return what a full leaf makes of buckets and memory, and, if it `screens` the rest of its span, what by."""
        coreset, horizons = config.coreset, self.horizons
        if horizons is not None:
            horizons = horizons.judged(leaf, self.learned.rows, config)

        def node(parts: Sequence[Bucket], most: int, *, always: bool = False) -> tuple[Bucket, Measured | None]:
            whole = _union(parts, coreset)
            name = (partition, _before(whole).rows + whole.extent.rows, whole.extent.rows)
            seen, found = whole.extent.moments, None
            if coreset.reducer != "uniform" and len(whole.points) and (always or len(whole.points) > most):
                if config.pilots.kernel != "rbf":
                    random = generator(config.seed, Purpose.SKETCH, name)
                    found = measured(whole.points, seen.weight, seen, config.pilots, random)
                else:
                    found = measured_by_landmarks(whole.points, seen, whole.extent.rows, config, None)
            random = generator(config.seed, Purpose.NODE, name)
            points = reduce(whole.points, most, found, random, config.points.classes, observed)
            return replace(whole, points=points), found

        begun, rows = self.learned.rows % coreset.span_rows, leaf.extent.rows
        older = list(buckets[:-1] if begun else buckets)
        parts = [*buckets[len(older) :], replace(leaf, before=self.learned)]
        memory = replace(self, learned=self.learned.join(leaf.extent.learned), horizons=horizons)
        assert begun + rows <= coreset.span_rows
        if begun + rows < coreset.span_rows:
            made, found = node(parts, max(coreset.leaf_rows, coreset.bucket_points), always=screens)
            held = [*older, made]
        else:
            made, found = node(parts, coreset.bucket_points)[0], None
            held = [*older, replace(made, times=median_times(self.times, 1))]
            while (at := _siblings(held, coreset)) is not None:
                held[at : at + 2] = [node(held[at : at + 2], coreset.bucket_points)[0]]
            while len(held) > coreset.sizes.buckets:
                held[:2] = [node(held[:2], coreset.bucket_points)[0]]
            each = [(bucket.extent.rows, bucket.times) for bucket in held]
            least = 0.5**MOST_HALF_LIVES if coreset.memory == "decay" else 0.0
            counting = [factor > least for factor in by_age(coreset, each, latest(each)[-1])]
            held = held[counting.index(True) :]
            memory = replace(memory, times=self.times[:0])
        # Whatever was dropped, nothing is missing between what is held.
        for one, rows in zip(held, [*(_before(bucket).rows for bucket in held[1:]), memory.learned.rows], strict=True):
            assert _before(one).rows + one.extent.rows == rows
        if coreset.memory == "adaptive":
            memory = replace(memory, horizons=horizons_of(horizons, held, partition, config))
        return tuple(held), memory, found if screens else None

    def factors(self, coreset: CoresetConfig, buckets: Sequence[Bucket], leaf: Extent, now_ms: int) -> list[float]:
        """Return by what the weights of each bucket, and of the open leaf, count; `now_ms` is of all partitions."""
        if self.horizons is not None:
            return self.horizons.factors(buckets, leaf.moments, self.learned.rows, coreset.span_rows)
        found = by_age(coreset, self.stretches(coreset, buckets, leaf), now_ms)
        # What is sealed of the open span, and the open leaf, are one stretch.
        return found + found[-1:] * (len(buckets) + 1 - len(found))

    def newest(
        self, coreset: CoresetConfig, buckets: Sequence[Bucket], leaf: Extent, now_ms: int
    ) -> list[tuple[int, float]]:
        """Return how many of the newest rows count, and their share, the longest first."""
        if self.horizons is not None:
            end = self.learned.rows
            shares = self.horizons.shares(end, coreset.span_rows)
            pairs = zip(self.horizons.borders.tolist(), shares, strict=True)
            return [(end - border + leaf.rows, share) for border, share in pairs]
        each = self.stretches(coreset, buckets, leaf)
        pairs = zip([rows for rows, _ in each], by_age(coreset, each, now_ms), strict=True)
        return [(sum(rows for rows, factor in pairs if factor > 0.0), 1.0)]

    def oldest(
        self, coreset: CoresetConfig, buckets: Sequence[Bucket], leaf: Extent, now_ms: int
    ) -> tuple[Position, Learned]:
        """Return the start of the oldest bucket, or leaf, that counts, and what was learned before it.

        Another learner may begin there. `now_ms` is the latest time of all partitions.
        """
        counted = by_age(coreset, self.stretches(coreset, buckets, leaf), now_ms)
        for bucket, factor in zip(buckets, counted, strict=False):
            if factor > 0.0:
                return bucket.extent.start, _before(bucket)
        return leaf.start, self.learned

    def stretches(self, coreset: CoresetConfig, buckets: Sequence[Bucket], leaf: Extent) -> list[Stretch]:
        """Return buckets as the rules see them, and the open span as one, which may be empty."""
        full = buckets[:-1] if self.learned.rows % coreset.span_rows else buckets
        rows = leaf.rows + sum(bucket.extent.rows for bucket in buckets[len(full) :])
        open_span = rows, median_times(self.times, LEAST_TIMES)
        return [*((bucket.extent.rows, bucket.times) for bucket in full), open_span]


def latest(stretches: Sequence[Stretch]) -> list[int]:
    """Return how late each is: the greatest time of it and of those before it; -1 before the first time."""
    return list(accumulate((times[1] for _, times in stretches), max))


def by_age(coreset: CoresetConfig, stretches: Sequence[Stretch], now_ms: int) -> list[float]:
    """Return by what each stretch counts for its age."""
    length, found = _length(coreset), []
    after, before = sum(rows for rows, _ in stretches), -1
    for (rows, (first, _)), end in zip(stretches, latest(stretches), strict=True):
        after -= rows
        if coreset.memory == "decay":
            age = after if coreset.length_s is None else max(0, now_ms - end) * (end >= 0)
            found.append(_halved(age / length))
        elif coreset.length_s is None:
            found.append(min(1.0, max(0.0, (length - after) / rows)) if rows else 1.0)
        else:
            # As if rows came evenly between its first time, or the latest before it, and its end.
            begin, first = now_ms - length, max(before, first)
            share = (end - begin) / (end - first) if end > first >= 0 else float(end > begin or end < 0)
            found.append(min(1.0, max(0.0, share)))
        before = end
    return found


def _siblings(buckets: Sequence[Bucket], coreset: CoresetConfig) -> int | None:
    """Return the place of the first of two siblings that a third bucket as long as each follows."""
    grain = _length(coreset) / GRAIN
    for at, (older, newer, third) in enumerate(zip(buckets, buckets[1:], buckets[2:], strict=False)):
        rows = older.extent.rows
        if not rows == newer.extent.rows == third.extent.rows or _before(older).rows % (2 * rows):
            continue
        times = [time for time in (*older.times, *newer.times) if time >= 0]
        length = 2 * rows if coreset.length_s is None else max(times, default=0) - min(times, default=0)
        if coreset.memory != "window" or length <= grain:
            return at
    return None


def _union(buckets: Sequence[Bucket], coreset: CoresetConfig) -> Bucket:
    """Return one or two buckets, and their samples, as one, not reduced: weights as of its end."""
    if len(buckets) == 1:
        return buckets[0]
    older, newer = buckets
    lost = 0.0
    if coreset.memory == "decay" and newer.extent.rows >= coreset.span_rows:
        lost = newer.extent.rows
        if coreset.length_s is not None:
            known = min(older.times[1], newer.times[1]) >= 0
            lost = max(0, newer.times[1] - older.times[1]) * known
    factor = _halved(lost / _length(coreset))
    extent = replace(older.extent, moments=older.extent.moments.scaled(factor)).join(newer.extent)
    times = [time for time in (*older.times, *newer.times) if time >= 0]
    most = shares(coreset.bucket_audit_points, len(extent.moments.class_weight)).values()
    samples = zip(older.audit, newer.audit, most, strict=True) if older.audit else ()
    return Bucket(
        Points.union([older.points.scaled(factor), newer.points]),
        extent,
        times=(min(times), max(times)) if times else NO_TIMES,
        before=older.before,
        audit=tuple(merged([old.scaled(factor), new], share) for old, new, share in samples) or newer.audit,
    )


def median_times(times: Labels, least: int) -> tuple[int, int]:
    """Return the lower median of at least so many times, as the first and the last of a span; else `NO_TIMES`."""
    if len(times) < least:
        return NO_TIMES
    median = int(np.sort(times)[(len(times) - 1) // 2])
    return median, median


def _length(coreset: CoresetConfig) -> float:
    """Return the window or the half-life, in rows or in milliseconds; infinite where there is neither."""
    if coreset.length_s is not None:
        return coreset.length_s * 1e3
    return math.inf if coreset.length_rows is None else float(coreset.length_rows)


def _halved(half_lives: float) -> float:
    # Further back everything is dropped anyhow; a weight must stay positive, and far above the least number there is.
    return float(0.5 ** min(half_lives, 2.0 * MOST_HALF_LIVES))


def _before(bucket: Bucket) -> Learned:
    assert bucket.before is not None
    return bucket.before
