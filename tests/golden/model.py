"""The golden model messages: versions made by hand that have every field filled, one a kernel, and their bytes.

``python -m tests.golden.model`` writes the files of the present format where there are none. It never changes one: what
was once released stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from streamsvm.choices import Multiclass
from streamsvm.features.columns import columns_of
from streamsvm.features.recipe import Category, Constant, Cross, Flag, Hash, Label, Number, Recipe, Time
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.classes import ClassModel, KernelMachines, LinearMachines, machines_of
from streamsvm.model.fit import Audit, Fit, MachineFit
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.message import CLASSES_FORMAT, FORMAT, HALF_FORMAT, RECIPE_FORMAT, THRESHOLD_FORMAT, encode
from streamsvm.model.probability import Isotonic, Probability, Sigmoid
from streamsvm.model.threshold import Judged, Threshold
from streamsvm.model.version import Lineage, PartitionCut, StreamSummary, Version

HERE: Final = Path(__file__).parent
KERNELS: Final = ("linear", "rbf")
NAMES: Final = ("mean", "kurtosis µ", "dm")
FORMATS: Final = tuple(range(1, int(FORMAT.split("/")[1]) + 1))
"""Of versions without a threshold."""
WITH_THRESHOLD: Final = int(THRESHOLD_FORMAT.split("/")[1])
"""The format of a version with one."""
WITH_RECIPE: Final = int(RECIPE_FORMAT.split("/")[1])
"""The format of a version of raw events; the linear one has no threshold."""
WITH_CLASSES: Final = int(CLASSES_FORMAT.split("/")[1])
"""The format of a version of more than two labels."""
WITH_HALF: Final = int(HALF_FORMAT.split("/")[1])
"""The format of a version whose machine is in half precision."""
IN_HALF: Final = ("rbf", "events")
"""Its versions: of points, and of raw events."""
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
THRESHOLDS: Final = {
    "linear": Threshold(
        value=-1.0 / 3.0,
        figure="recall",
        asked=0.9,
        chosen=True,
        met=True,
        points=1_000,
        positives=243,
        precision=Judged(0.8125, 0.75, 0.875),
        recall=Judged(0.90625, 0.86, 0.9375),
        alarm_rate=Judged(0.25, 0.125, 0.5),
        cost=None,
    ),
    "rbf": Threshold(
        value=0.0,
        figure="cost",
        asked=(50.0, 1.0),
        chosen=False,
        met=False,
        points=7,
        positives=0,
        precision=None,
        recall=None,
        alarm_rate=Judged(0.0, 0.0, 0.375),
        cost=Judged(0.0, 0.0, 0.1),
    ),
}


def path_of(number: int, kernel: str) -> Path:
    """Return where the bytes of a format are kept."""
    return HERE / f"model-{number}-{kernel}.json"


def in_half(kind: str) -> Version:
    """Return a version in half precision of one of `IN_HALF`; that of events has a threshold."""
    whole = handmade("rbf") if kind == "rbf" else handmade("rbf", WITH_RECIPE)
    assert isinstance(whole.model, Model)
    assert isinstance(whole.model.machine, KernelMachine)
    return replace(whole, model=replace(whole.model, machine=whole.model.machine.halved()))


def handmade(kernel: str, number: int = FORMATS[-1]) -> Version:
    """Return a version of three features that learned two partitions, with no more than what format `number` had."""
    scaler = Scaler(np.array([0.1, -2.5, 1e6]), np.array([1.0, 0.03125, 3.4e38]))
    gamma = 0.25 if kernel == "rbf" else None
    lineage = Lineage(
        parent="ab" * 32,
        topic="points",
        topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
        cut=(PartitionCut(0, 1_200, 3, 7), PartitionCut(3, 50, 0, -1)),
        base=(PartitionCut(0, 2, 0, -1), PartitionCut(3, 5, 0, -1)),
        configuration={
            "seed": 11,
            "points": {"dimension": 3, "labels": ["no", "yes"]},
            "svm": {"kernel": kernel, "alpha": 1e-4},
        },
        configuration_sha256="ef" * 32,
        seed=11,
        training_set_sha256="cd" * 32,
        tuned_at=(PartitionCut(0, 600, 0, 7),),
        build={"cpu": "x86_64", "numpy": "2.0", "python": "3.11"},
        links=(Ancestor(40, "40" * 32), Ancestor(32, "32" * 32)),
    )
    newest = Version(
        name="pulsar",
        number=42,
        model=Model(scaler, _machine(gamma), _probability(gamma), NAMES),
        labels=("no", "yes"),
        feature_names=NAMES,
        solver="stda",
        fit=Fit(
            C=0.5,
            gamma=gamma,
            points=500,
            weight=1_200.25,
            support_vectors=2,
            objective=3.75,
            dual_objective=3.5,
            kkt_gap=1e-4,
            iterations=17,
            converged=True,
            class_weight=(1.0, 9.5),
        ),
        stream=StreamSummary(
            rows=1_300,
            points=1_243,
            weight=1_243.5,
            class_weight=(1_000.25, 243.25),
            first_time_ms=1_700_000_000_000,
            last_time_ms=1_700_000_000_400,
        ),
        lineage=lineage,
        audit=Audit(3.625, 1.0 / 3.0, 1e10, 7),
    )
    if number == WITH_CLASSES:
        return _of_classes(newest, gamma)
    if number == WITH_RECIPE:
        return _of_events(newest, None if kernel == "linear" else THRESHOLDS[kernel])
    if number == WITH_THRESHOLD:
        return replace(newest, model=replace(newest.model, threshold=THRESHOLDS[kernel]))
    if number > 3:
        return newest
    newest = replace(newest, lineage=msgspec.structs.replace(lineage, links=()))
    if number > 2:
        return newest
    newest = replace(newest, model=replace(newest.model, probability=None))
    if number > 1:
        return newest
    return replace(newest, fit=replace(newest.fit, class_weight=(1.0, 1.0)), audit=None)


def _of_classes(version: Version, gamma: float | None) -> Version:
    """Return a version of four labels, the last of which never came."""
    scheme: Multiclass = "one_vs_one" if gamma is None else "one_vs_rest"
    intercepts = np.array([-0.75, 0.125, 1e-9, -1.0])
    coefficients = np.array([[0.1, -1.0 / 3.0, 1e-300], [2.0, 0.0, -1.0], [-0.5, 0.25, 1.0 / 7.0], [0.0, 0.0, 0.0]])
    coefficients = np.concatenate((coefficients, -coefficients[:2]))
    if gamma is None:
        intercepts = np.concatenate((intercepts, -intercepts[:2]))
    machines: LinearMachines | KernelMachines = LinearMachines(coefficients, intercepts)
    if gamma is not None:
        support = np.array([[0.5, -1.0, 0.0], [-0.0, 2.0 / 3.0, 1e-9]])
        dual = np.array([[0.5, -4.75], [0.0, 1.0 / 3.0], [-2.0, 0.0], [0.0, 0.0]])
        machines = KernelMachines(RbfKernel(gamma), support, dual, intercepts)
    count = machines_of(4, scheme)
    functions = tuple(Sigmoid(-1.0 / 3.0 - machine, 0.5 - machine) for machine in range(count))
    probabilities: tuple[Probability, ...] = (*functions[:3], _probability(0.25)) if gamma else functions
    model = ClassModel(version.model.scaler, machines, 4, scheme, probabilities, NAMES)
    fits = tuple(
        MachineFit(
            support_vectors=machine,
            objective=1.0 + machine,
            dual_objective=0.75 + machine,
            kkt_gap=1e-4,
            iterations=17,
            converged=True,
            audit=Audit(1.0 + machine, 1.0 / 3.0, 9.0, 7),
        )
        for machine in range(count)
    )
    fit = replace(version.fit, support_vectors=6, objective=10.0, dual_objective=9.0, class_weight=(1.0, 9.5, 0.5, 1.0))
    stream = msgspec.structs.replace(version.stream, class_weight=(1_000.25, 200.25, 43.0, 0.0))
    return replace(
        version,
        model=model,
        labels=("no", "yes", "µ", "never"),
        fit=fit,
        stream=stream,
        machines=fits,
        audit=Audit(10.0, 4.0 / 3.0, 36.0, 7),
    )


def _of_events(version: Version, threshold: Threshold | None) -> Version:
    """Return a version of raw events with the same numbers, as far as they reach."""
    names = columns_of(RECIPE).names
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


def _machine(gamma: float | None) -> Machine:
    if gamma is None:
        return LinearMachine(np.array([0.1, -1.0 / 3.0, 1e-300]), -0.75)
    support = np.array([[0.5, -1.0, 0.0], [-0.0, 2.0 / 3.0, 1e-9]])
    return KernelMachine(RbfKernel(gamma), support, np.array([0.5, -4.75]), 0.125)


def _probability(gamma: float | None) -> Probability:
    if gamma is None:
        return Sigmoid(-1.0 / 3.0, 1e-300)
    return Isotonic(np.array([-1.5, 1.0 / 3.0, 2.0]), np.array([0.0, 0.1, 1.0]))


if __name__ == "__main__":
    for kernel in KERNELS:
        for number in (FORMATS[-1], WITH_THRESHOLD, WITH_RECIPE, WITH_CLASSES):
            if not (path := path_of(number, kernel)).exists():
                path.write_bytes(encode(handmade(kernel, number)))
    for kind in IN_HALF:
        if not (path := path_of(WITH_HALF, kind)).exists():
            path.write_bytes(encode(in_half(kind)))
