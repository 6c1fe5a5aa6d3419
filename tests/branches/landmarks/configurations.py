"""Configurations with landmarks of kernels."""

from __future__ import annotations

from typing import Any, Final

RBF: Final = {"kernel": "rbf"}
KINDS: Final[dict[str, dict[str, Any]]] = {
    "rbf, few landmarks": {
        "svm": RBF,
        "coreset": {"landmarks": 32, "points": 8_000},
    },
    "rbf, no landmarks": {"svm": RBF, "coreset": {"landmarks": "none"}},
}
