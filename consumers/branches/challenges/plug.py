"""What the quality as served plugs in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "commands": ("consumers.branches.challenges.served_command:SERVED",),
    "scorer": ("consumers.branches.challenges.wanted_shadow:SCORER",),
    "settings": ("consumers.branches.challenges.settings:SHADOW",),
    "scorer_metrics": ("consumers.branches.challenges.metrics:SCORER",),
}
