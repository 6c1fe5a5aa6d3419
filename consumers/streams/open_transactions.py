"""What open transactions of producers withhold from a daemon: shown, so that it does not look like lag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from consumers.metrics import Metrics

GAUGE: Final = "streamsvm_input_open_transaction_records"


class OpenTransactions:
    """Shows how many offsets of each partition are withheld; a partition that never had any has no series.

    Parameters
    ----------
    metrics : Metrics
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._shown: frozenset[int] = frozenset()

    def show(self, withheld: Mapping[int, int]) -> None:
        """Show what is withheld now."""
        for partition in self._shown - withheld.keys():
            self._metrics.put(GAUGE, 0, partition=str(partition))
        for partition, count in withheld.items():
            self._metrics.put(GAUGE, count, partition=str(partition))
        self._shown = frozenset(withheld)
