"""What this branch has for the sockets of the library: learning in another process changes no model."""

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "supports": ("streamsvm.branches.workers.combinations:ROWS",),
}
