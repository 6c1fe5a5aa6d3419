"""Configurations with memories that forget."""

from __future__ import annotations

from typing import Any, Final

KINDS: Final[dict[str, dict[str, Any]]] = {
    "window": {"coreset": {"memory": "window", "window": 100_000}},
    "window of time": {"coreset": {"memory": "window", "window": "1h", "points": 9_000}},
    "decay": {"coreset": {"memory": "decay", "half_life": "1h", "points": 99_000}},
    "adaptive": {"coreset": {"memory": "adaptive"}, "svm": {"kernel": "rbf"}},
}
MEMORIES: Final[list[dict[str, Any]]] = [{"memory": "adaptive"}, {"memory": "decay", "half_life": 90_000}]
