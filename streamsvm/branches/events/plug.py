"""What the branch has for which socket."""

from typing import Final

PLUGS: Final = {
    "model_options": ("streamsvm.branches.events.options:OPTIONS",),
    "supports": (
        "streamsvm.branches.events.combinations:DECLARED_ROWS",
        "streamsvm.branches.events.combinations:COMMAND_ROWS",
    ),
    "estimators": {"EventVectorizer": "streamsvm.branches.events.vectorizer:EventVectorizer"},
    "message_parts": ("streamsvm.branches.events.recipe_part:PART",),
    "recipes": ("streamsvm.branches.events.recipes:EVENTS",),
    "decoders": ("streamsvm.branches.events.decoding:EVENTS",),
}
