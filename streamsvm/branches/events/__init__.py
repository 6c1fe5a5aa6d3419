"""Raw events: records of an application's own fields, which a recipe turns into points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.branches.events.event_files import events_in as events_in
    from streamsvm.branches.events.features.columns import FeatureColumns as FeatureColumns, columns_of as columns_of
    from streamsvm.branches.events.features.inference import proposal as proposal
    from streamsvm.branches.events.features.recipe import Recipe as Recipe
    from streamsvm.branches.events.options import points_of as points_of, recipe_from as recipe_from

__getattr__ = on_first_use(__name__, __file__)
