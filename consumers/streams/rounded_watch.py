"""Says of which features float32 makes different values the same, among the first rows that are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from consumers.host.untrusted_text import printable
from consumers.metrics import Metrics
from streamsvm.config import PointsConfig
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Record
from streamsvm.points import is_lost_as_float32

log = structlog.get_logger("streamsvm")

MOST_ROWS: Final = 4096
"""Rows that are looked at; about a leaf."""
MOST_NUMBERS: Final = 1 << 22
"""Features that are held meanwhile, of all these rows: 32 MiB."""
MOST_NAMED: Final = 5
"""Features that a warning names."""


class RoundedWatch:
    """Decodes the first rows once more, to float64, and compares.

    Parameters
    ----------
    config : PointsConfig
    decoder : PointDecoder
        Of the rows that are learned.
    metrics : Metrics
        It has `streamsvm_input_rounded_features`.
    """

    def __init__(self, config: PointsConfig, decoder: PointDecoder, metrics: Metrics) -> None:
        self._names, self._metrics = config.feature_names, metrics
        self._exact = decoder.in_float64() if config.dtype == "float32" else None
        self._most_rows = min(MOST_ROWS, MOST_NUMBERS // config.dimension)
        self._X: NDArray[np.float64] = np.empty((0, config.dimension))
        self._looked_at = 0
        self._lost: frozenset[int] = frozenset()
        metrics.put("streamsvm_input_rounded_features", 0)

    def note(self, records: Sequence[Record]) -> None:
        """Take what was read, as long as there are few; look whenever they have doubled.

        Raises
        ------
        TransientError
            If a schema is unavailable now.
        """
        if self._exact is None:
            return
        found = [rows.points.X[rows.accepted] for rows in self._exact.decode(records[: self._most_rows]).rows]
        self._X = np.concatenate([self._X, *found])[: self._most_rows]
        is_last = len(self._X) == self._most_rows
        if is_last or len(self._X) >= max(1, 2 * self._looked_at):
            self._look()
        if is_last:
            self._exact, self._X = None, self._X[:0]

    def _look(self) -> None:
        self._looked_at = len(self._X)
        lost = {at for at in range(self._X.shape[1]) if at not in self._lost and is_lost_as_float32(self._X[:, at])}
        if not lost:
            return
        self._lost |= lost
        self._metrics.put("streamsvm_input_rounded_features", len(self._lost))
        named = [printable(self._names[at]) if self._names else f"x[{at}]" for at in sorted(lost)]
        log.warning(
            "float32_rounds_features",
            features=", ".join(named[:MOST_NAMED]) + (", ..." if len(named) > MOST_NAMED else ""),
            rows=self._looked_at,
            what="points.dtype = float32 makes different values the same: the model cannot tell them apart",
            remedy="set points.dtype = float64, which begins a new incarnation; or let the producer send the "
            "difference to a fixed value, as the option offset of a feature does",
        )
