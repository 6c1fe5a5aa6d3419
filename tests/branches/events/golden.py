"""The golden versions of raw events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import numpy as np

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import Category, Constant, Cross, Flag, Hash, Label, Number, Recipe, Time
from streamsvm.model import LinearMachine, Scaler, Version
from tests.golden.model import THRESHOLDS, handmade

RECIPE: Final = Recipe(
    features=(
        Number(name="mean", field=("signal", "mean"), clip=(0.0, 250.0), log1p=True),
        Category(name="mode", field=("mode",), values=("à", "b"), missing="indicator"),
        Hash(name="beam", field=("beams", 0), bits=1, seed=3, missing=Constant("none")),
        Time(name="seen", field=("seen",), parts=("hour", "age"), zone="Europe/Berlin", since=("first",)),
        Flag(name="known", field=("known",)),
        Cross(name="both", of=("beam", "known")),
        Number(name="dm", field=("dm",), buckets=(10.0, 100.0), unit=2.0),
    ),
    zones={"Europe/Berlin": ((0, 3_600), (1_774_746_000, 7_200), (1_792_890_000, 3_600))},
    label=Label(field=("pulsar",), negative=("no", "rather not"), positive=("yes",)),
    weight=("weight",),
    id=("id",),
)
"""A recipe with every kind of feature."""


def handmade_of_events(kernel: str) -> Version:
    """Return a version of raw events with the same numbers, as far as they reach."""
    version, names = handmade(kernel), columns_of(RECIPE).names
    threshold = None if kernel == "linear" else THRESHOLDS[kernel]
    width = len(names)
    machine = version.model.machine
    if isinstance(machine, LinearMachine):
        machine = LinearMachine(np.resize(machine.coefficients, width), machine.intercept)
    else:
        machine = replace(machine, support=np.resize(machine.support, (len(machine.dual), width)))
    scaler = Scaler(np.resize(version.model.scaler.mean, width), np.resize(version.model.scaler.scale, width))
    model = replace(version.model, scaler=scaler, machine=machine, feature_names=names, threshold=threshold)
    configuration = {**version.lineage.configuration, "features": RECIPE.plain()}
    lineage = msgspec.structs.replace(version.lineage, configuration=configuration)
    return replace(version, model=model, feature_names=names, lineage=lineage, recipe=RECIPE)


VERSIONS: Final[Mapping[str, Callable[[], Version]]] = {
    "linear-events": partial(handmade_of_events, "linear"),
    "rbf-events": partial(handmade_of_events, "rbf"),
}
