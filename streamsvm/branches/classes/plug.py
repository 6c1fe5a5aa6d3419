"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "leaf_screens": ("streamsvm.branches.classes.screens:ClassScreens",),
    "checkpoint_parts": ("streamsvm.branches.classes.checkpoint_part:PLUGGED",),
}
