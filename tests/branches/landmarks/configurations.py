"""Configurations with landmarks of kernels."""

from __future__ import annotations

from typing import Any, Final

RBF: Final = {"kernel": "rbf"}
KINDS: Final[dict[str, dict[str, Any]]] = {
    "rbf, few points": {"svm": RBF, "coreset": {"points": 8_000}},
    "rbf, a tree": {"svm": RBF, "coreset": {"structure": "tree"}},
}
