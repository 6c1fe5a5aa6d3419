"""The quality gate: a version becomes `current` unless it is clearly worse than the current one on the same points.

Both versions are scored on the points *after* the candidate's cut that were read while it trained. Neither version has
learned these points, and the points to be scored next resemble them. If they are too few, the candidate's audit sample
is used, a weighted sample of the whole stream that is independent of the coreset. If one label is rare there, too, the
candidate's training set is used; it favours the candidate, so that only a ruined version is refused.

The figure is balanced accuracy: the mean over the labels of the share of the label's weight that is classified
correctly; of more than two labels those with enough points count, at least two. It depends neither on the scale of
decision values, as a mean hinge loss would, nor on how rare a label is, so that one margin fits all streams. The points
are the same for both versions, so that most of the chance cancels. No
point counts for more than a hundredth of the total weight, or ten times the mean weight: otherwise one heavy point
could decide.

The candidate is compared with the best of the versions that were current recently, not only with the current one:
otherwise each version could lose the margin again.

Invariant: a version that cannot be judged here is `unscored`, and the gatekeeper decides whether it passes. The gate
protects `current` against disasters; it is not a test of significance. Its verdict depends on how much had been read,
so the verdict is never part of a version's value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.outliers import bounded_weights
from streamsvm.model.correctness import balanced_accuracy
from streamsvm.points import Features, Points, Position, Positions, Rows

WINDOW_POINTS: Final = 1_000
"""Most points after a cut that are scored, the newest read."""
LEAST_OF_A_LABEL: Final = 50
"""Points of each label without which a sample says nothing: of 50, one answer is 0.01 of balanced accuracy."""
MOST_AUDITED: Final = 4_000
"""Most points of the audit sample that are scored; of a larger sample every k-th point is scored."""

Outcome = Literal["passed", "refused", "unscored"]
ScoredOn = Literal["window", "audit", "training", ""]
Predict = Callable[[Features], NDArray[np.int8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says of a candidate.

    Attributes
    ----------
    outcome : "passed", "refused" or "unscored"
    why : str
        Why it could not be scored; else empty.
    scored_on : "window", "audit", "training" or ""
    points : int
    candidate, present : float or None
        Balanced accuracies.
    earlier : tuple of float
        Balanced accuracies of the versions that were current before the present one, the newest first.
    window : mapping of partition to two Positions
        From where to where the points stand in the input; empty for an audit sample.
    """

    outcome: Outcome
    why: str = ""
    scored_on: ScoredOn = ""
    points: int = 0
    candidate: float | None = None
    present: float | None = None
    earlier: tuple[float, ...] = ()
    window: Mapping[int, tuple[Position, Position]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Points to judge by.

    Attributes
    ----------
    points : Points
        Raw; their weights are what each stands for.
    spans : mapping of partition to two Positions
        Where they stand in the input, if that is known.
    """

    points: Points
    spans: Mapping[int, tuple[Position, Position]] = field(default_factory=dict)

    @property
    def enough(self) -> bool:
        """Whether there are enough points of two labels, or of more."""
        return len(self.judged) >= 2

    @property
    def judged(self) -> NDArray[np.int8]:
        """The codes of the labels with enough points."""
        codes, counts = np.unique(self.points.y, return_counts=True)
        return codes[counts >= LEAST_OF_A_LABEL]

    def points_to_judge_by(self) -> Points:
        """Return the points of these labels, no weight beyond bounds."""
        judged = np.isin(self.points.y, self.judged)
        points = self.points if judged.all() else self.points.take(judged)
        return points.reweighted(bounded_weights(points.weight))


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Accepted rows of one partition in log order, and the position after the last row, accepted or not."""

    partition: int
    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    points: Points
    end: Position

    def __len__(self) -> int:
        return len(self.offset)

    def after(self, position: Position) -> _Chunk:
        """Return the rows at this position, the next one to learn, and behind it."""
        past = (self.offset > position.offset) | ((self.offset == position.offset) & (self.row >= position.row))
        return self if past.all() else self._from(len(past) - int(np.count_nonzero(past)))

    def newest(self, most: int) -> _Chunk:
        return self if len(self) <= most else self._from(len(self) - most)

    def _from(self, first: int) -> _Chunk:
        part = slice(first, None)
        return _Chunk(self.partition, self.offset[part], self.row[part], self.points.take(part), self.end)

    @property
    def begin(self) -> Position:
        return Position(int(self.offset[0]), int(self.row[0]))


class EvaluationWindow:
    """The newest accepted points that were read, at most `capacity`, with their places in the input."""

    def __init__(self, capacity: int = WINDOW_POINTS) -> None:
        self._capacity = capacity
        self._chunks: deque[_Chunk] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, rows: Rows) -> None:
        """Take rows in, in the order in which they are learned; what is kept is copied."""
        chunk = _chunk_of(rows, self._capacity)
        if not len(chunk):
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= self._capacity:
            self._size -= len(self._chunks.popleft())

    def after(self, cut: Positions, unlearned: Iterable[Rows] = ()) -> Evidence | None:
        """Return the newest points past a cut, those read but not learned yet among them; None if there are none.

        Parameters
        ----------
        cut : mapping of partition to Position
            A partition that it does not name counts as not read.
        unlearned : iterable of Rows
            What comes after everything that was added.
        """
        chunks = [*self._chunks, *(_chunk_of(rows, self._capacity) for rows in unlearned)]
        left, chosen = self._capacity, list[_Chunk]()
        for chunk in reversed(chunks):
            if left <= 0:
                break
            if chunk.partition in cut and len(taken := chunk.after(cut[chunk.partition]).newest(left)):
                chosen.append(taken)
                left -= len(taken)
        if not chosen:
            return None
        chosen.reverse()
        spans: dict[int, tuple[Position, Position]] = {}
        for chunk in chosen:
            spans[chunk.partition] = (spans.get(chunk.partition, (chunk.begin,))[0], chunk.end)
        return Evidence(Points.union([chunk.points for chunk in chosen]), dict(sorted(spans.items())))


def _chunk_of(rows: Rows, most: int) -> _Chunk:
    """Return a copy of the newest `most` accepted rows."""
    accepted = np.flatnonzero(rows.accepted)[-most:]
    end = rows.position_after(len(rows) - 1) if len(rows) else Position(0)
    return _Chunk(rows.partition, rows.offset[accepted], rows.row[accepted], rows.points.take(accepted), end)


def audit_evidence(sample: Sequence[Sampled]) -> Evidence | None:
    """Return an audit sample's points, each with the weight that it stands for; None if there are none."""
    kept = [
        Points(part.points.X, part.points.y, np.maximum(part.points.weight, part.threshold))
        for part in sample
        if len(part.points)
    ]
    if not kept:
        return None
    points = Points.union(kept)
    return Evidence(points.take(slice(None, None, -(-len(points) // MOST_AUDITED))))


def judge(
    candidate: Predict,
    present: Predict,
    window: Evidence | None,
    audit: Evidence | None,
    margin: float,
    *,
    training: Evidence | None = None,
    earlier: Sequence[Predict] = (),
) -> Verdict:
    """Score all models on the same points, and refuse the candidate if it is worse than the best by more than a margin.

    Parameters
    ----------
    candidate, present : callable
        Return the codes of the labels of points, of whose columns a version may have some only.
    window, audit, training : Evidence or None
        Points to score on: the first of the three that is `enough`.
    margin : float
        By how much balanced accuracy, from 0 to 1, may be lower than the best model's.
    earlier : sequence of callable
        Of the versions that were current before `present`, the newest first.
    """
    samples: tuple[tuple[ScoredOn, Evidence | None], ...] = (
        ("window", window),
        ("audit", audit),
        ("training", training),
    )
    for scored_on, evidence in samples:
        if evidence is not None and evidence.enough:
            points = evidence.points_to_judge_by()
            y, weight, models = points.y, points.weight, (candidate, present, *earlier)
            new, old, *before = (balanced_accuracy(each(points.X), y, weight) for each in models)
            return Verdict(
                outcome="refused" if new < max(old, *before, 0.0) - margin else "passed",
                scored_on=scored_on,
                points=len(points),
                candidate=new,
                present=old,
                earlier=tuple(before),
                window=evidence.spans,
            )
    most = max((len(evidence.points) for _, evidence in samples if evidence is not None), default=0)
    return Verdict(outcome="unscored", why=f"too few points of one of the labels among {most}")
