"""A margin classifier that is always current: streaming coresets, an SVM, and model versions on a Kafka topic."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsvm.estimators import STDASVC, CoresetSVC
    from streamsvm.registry.subscriber import ModelSubscriber

__all__ = ["STDASVC", "CoresetSVC", "ModelSubscriber", "__version__"]

__version__ = "0.1.0"


def _of_branches() -> set[str]:
    """Return the names of the estimators that branches have."""
    from streamsvm.sockets import choices

    return {name for name, _ in choices("estimators")}


def __getattr__(name: str) -> Any:
    """Load a name of the package when it is first used: the daemons start without the estimators.

    Raises
    ------
    ImportError
        If the name is an estimator's, and only the wheel `streamsvm-reader`, which has none, is installed.
    """
    if name == "ModelSubscriber":
        from streamsvm.registry.subscriber import ModelSubscriber

        return ModelSubscriber
    if name in ("CoresetSVC", "STDASVC") or (name[:1].isupper() and name in _of_branches()):
        if find_spec("streamsvm.estimators") is None:
            raise ImportError(
                f"streamsvm.{name} is not part of streamsvm-reader, which follows and scores models only. "
                "Install the whole: pip uninstall streamsvm-reader, then pip install streamsvm"
            )
        from streamsvm import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
