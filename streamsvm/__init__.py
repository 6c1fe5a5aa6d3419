"""A margin classifier that is always current: streaming coresets, an SVM, and model versions on a Kafka topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsvm.estimators import STDASVC, CoresetSVC

__all__ = ["STDASVC", "CoresetSVC", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the estimators where they are asked for: the daemons start without them."""
    if name in ("STDASVC", "CoresetSVC"):
        from streamsvm import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
