"""Sources of numpy arrays in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.cells import checked_features, checked_weights, labels_of
from streamsvm.ingest.files.reading import batch_rows
from streamsvm.ingest.files.source import Id, PointSource, SourceBatch


def from_arrays(
    name: str,
    X: ArrayLike,
    y: Iterable[Any] | None = None,
    *,
    weight: ArrayLike | None = None,
    ids: Sequence[Id | None] | None = None,
    feature_names: Sequence[str] = (),
) -> PointSource:
    """Make a source of points in memory.

    Parameters
    ----------
    name : str
        What messages call it.
    X : array-like of shape (n, d)
        Finite features. Not copied as a whole: float32 is converted to float64 batch by batch, which is exact.
    y : iterable of n labels, optional
        Whole numbers, text or booleans; also an array.
    weight : array-like of shape (n,), optional
    ids : sequence of n identifiers, optional
    feature_names : sequence of d str, optional

    Raises
    ------
    ConfigurationError
        If there is no point or a value is not valid.
    """
    features = np.asarray(X)
    labels = None if y is None else labels_of(name, "y", y.tolist() if isinstance(y, np.ndarray) else list(y), 0)
    weights = None if weight is None else checked_weights(name, "weight", np.asarray(weight, np.float64), 0)
    marks = None if ids is None else list(ids)
    if features.ndim != 2 or features.size == 0:
        raise ConfigurationError(
            f"{name} holds no points: its shape is {features.shape}", "Pass an array with one row per point."
        )
    for part in (labels, weights, marks):
        if part is not None and len(part) != len(features):
            raise ConfigurationError(f"{name} has {len(features)} rows and {len(part)} labels, weights or ids")
    names = tuple(feature_names)

    def batches() -> Iterator[SourceBatch]:
        step = batch_rows(features.shape[1])
        for start in range(0, len(features), step):
            part = slice(start, start + step)
            yield SourceBatch(
                checked_features(name, names, np.asarray(features[part], np.float64), start),
                None if labels is None else labels[part],
                None if weights is None else weights[part],
                None if marks is None else marks[part],
                start,
            )

    return PointSource(
        name=name,
        dimension=features.shape[1],
        feature_names=names,
        labeled=labels is not None,
        rows=len(features),
        batches=batches,
    )


def shuffled(source: PointSource, seed: int) -> PointSource:
    """Return the same points in a random order, which the seed decides.

    Holds the whole source in memory, at most three times 8 bytes per feature. A file that is sorted by class should be
    shuffled before it is streamed, unless learning from a sorted stream is intended.
    """
    parts = list(source.batches())
    order = np.random.default_rng(seed).permutation(sum(len(part) for part in parts))
    labels = list(chain.from_iterable(part.y or () for part in parts))
    ids = list(chain.from_iterable(part.ids or [None] * len(part) for part in parts))
    weights = [np.ones(len(part)) if part.weight is None else part.weight for part in parts]
    return from_arrays(
        source.name,
        np.concatenate([part.X for part in parts])[order],
        [labels[row] for row in order] if source.labeled else None,
        weight=np.concatenate(weights)[order] if any(part.weight is not None for part in parts) else None,
        ids=[ids[row] for row in order] if any(part.ids is not None for part in parts) else None,
        feature_names=source.feature_names,
    )
