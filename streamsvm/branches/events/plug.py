"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "message_parts": ("streamsvm.branches.events.recipe_part:PART",),
    "decoders": ("streamsvm.branches.events.decoding:EVENTS",),
}
