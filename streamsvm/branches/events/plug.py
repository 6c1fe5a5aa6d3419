"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "message_parts": ("streamsvm.branches.events.recipe_part:PART",),
    "recipes": ("streamsvm.branches.events.recipes:EVENTS",),
    "decoders": ("streamsvm.branches.events.decoding:EVENTS",),
}
