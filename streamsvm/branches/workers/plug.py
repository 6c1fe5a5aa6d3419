"""What this branch has for the sockets of the library: whoever learns elsewhere changes no model."""

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {"supports": ("streamsvm.branches.workers.combinations:ROWS",)}
