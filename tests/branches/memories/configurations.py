"""Configurations with memories that forget."""

from __future__ import annotations

from typing import Any, Final

KINDS: Final[dict[str, dict[str, Any]]] = {
    "window": {"coreset": {"memory": "window", "window_points": 100_000}},
    "window of time": {"coreset": {"memory": "window", "window_s": 3_600.0, "memory_bytes": 90_000_000}},
    "decay": {"coreset": {"memory": "decay", "half_life_s": 3_600.0, "memory_points": 99_000}},
    "adaptive": {"coreset": {"memory": "adaptive"}, "svm": {"kernel": "rbf"}},
}
MEMORIES: Final[list[dict[str, Any]]] = [{"memory": "adaptive"}, {"memory": "decay", "half_life_points": 90_000}]
