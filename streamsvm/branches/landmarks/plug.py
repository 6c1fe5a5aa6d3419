"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "leaf_screens": ("streamsvm.branches.landmarks.screens:LandmarkScreens",),
    "kernel_margins": ("streamsvm.branches.landmarks.screens:MARGINS",),
    "pilots": ("streamsvm.branches.landmarks.landmark_pilots:PILOTS",),
    "tuning_searches": ("streamsvm.branches.landmarks.nested_grid:SEARCH",),
}
