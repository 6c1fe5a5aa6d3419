"""Configurations with labels of a log of their own."""

from __future__ import annotations

from typing import Any, Final

KINDS: Final[dict[str, dict[str, Any]]] = {"joined labels": {"labels": {"horizon": 3_600.0, "absent": "drop"}}}
MORE: Final[dict[str, dict[str, Any]]] = {"joined labels": {"labels": {"topic": "labels"}}}
"""A topic of labels is of the daemon, not of the model."""
