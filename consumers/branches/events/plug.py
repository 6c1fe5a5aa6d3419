"""What raw events plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "settings": ("consumers.branches.events.settings:SECTIONS",),
    "reference": ("consumers.branches.events.reference:PAGE",),
    "commands": ("consumers.branches.events.features_command:FEATURES",),
}
