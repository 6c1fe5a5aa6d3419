"""A margin classifier that is always current: streaming coresets, an SVM, and model versions on a Kafka topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsvm.estimators import STDASVC, CoresetSVC
    from streamsvm.registry.subscriber import ModelSubscriber

__all__ = ["STDASVC", "CoresetSVC", "ModelSubscriber", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load what is offered where it is asked for: the daemons start without the estimators."""
    if name in ("STDASVC", "CoresetSVC"):
        from streamsvm import estimators

        return getattr(estimators, name)
    if name == "ModelSubscriber":
        from streamsvm.registry.subscriber import ModelSubscriber

        return ModelSubscriber
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
