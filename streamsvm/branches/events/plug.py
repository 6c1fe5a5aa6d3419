"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "decoders": ("streamsvm.branches.events.decoding:EVENTS",),
}
