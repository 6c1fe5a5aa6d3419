"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "model_options": ("streamsvm.branches.memories.options:OPTIONS",),
}
