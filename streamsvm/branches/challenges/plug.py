"""What the branch has for which socket."""

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {
    "supports": ("streamsvm.branches.challenges.combinations:SERVED_ROWS",),
}
