"""The golden model messages of the trunk: versions made by hand, and where their bytes are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from streamsvm.choices import Multiclass
from streamsvm.model import (
    Ancestor,
    Audit,
    ClassModel,
    Fit,
    Grid,
    Judged,
    KernelMachine,
    KernelMachines,
    Lineage,
    LinearMachine,
    LinearMachines,
    Machine,
    MachineFit,
    Memory,
    Model,
    Packing,
    PartitionCut,
    PartitionHorizons,
    RbfKernel,
    Scaler,
    Sigmoid,
    StreamSummary,
    Threshold,
    Version,
    machines_of,
)
from tests.golden import HERE
from tests.plugged import of_branches

KERNELS: Final = ("linear", "rbf")
NAMES: Final = ("mean", "kurtosis µ", "dm")
KINDS: Final = (
    *KERNELS,
    *(f"{kernel}-{feature}" for feature in ("threshold", "classes") for kernel in KERNELS),
    "rbf-packed",
    "linear-lineage",
)
"""A version of each kernel, and one for each thing more that a version may have."""
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


def path_of(kind: str) -> Path:
    """Return where the bytes of a version are kept."""
    return HERE / f"model-1-{kind}.json"


def parts_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return the named parts of a version's value by their names; the objects themselves."""
    return {part["part"]: part for part in value["parts"]}


def handmade(kind: str = "linear") -> Version:
    """Return one of `KINDS`."""
    kernel, _, feature = kind.partition("-")
    version = _plain(kernel)
    match feature:
        case "threshold":
            return replace(version, model=replace(version.model, threshold=THRESHOLDS[kernel]))
        case "classes":
            return _of_classes(version, version.fit.gamma)
        case "packed":
            return packed(version)
        case "lineage":
            return replace(version, lineage=_whole(version))
    return version


def packed(version: Version) -> Version:
    """Return a version with its support vectors on grids of no bits, one, and sixteen."""
    assert isinstance(version.model, Model)
    assert isinstance(version.model.machine, KernelMachine)
    grid = Grid(np.array([0.5, -1.0, -2.0]), np.array([1.0, 5.0 / 3.0, 1e-4]), np.array([0, 1, 16]))
    packing = Packing(grid, support_vectors=9, whole_error=0.0625, error=1.0 / 15.0)
    return replace(version, model=replace(version.model, machine=version.model.machine.packed(packing)))


def _whole(version: Version) -> Lineage:
    """Return a lineage with everything that a lineage may have, even what no one version has together."""
    facts = [make(version.lineage) for found in of_branches("golden", "FACTS") for make in found.values()]
    return msgspec.structs.replace(
        version.lineage,
        memory=Memory(
            kind="adaptive",
            partitions=(
                PartitionHorizons(
                    partition=0, oldest=(7, 1), before=version.stream, horizons=((900, 0.75), (100, 0.25))
                ),
            ),
        ),
        facts=tuple(sorted(facts, key=lambda fact: type(fact).__name__)),
    )


def _plain(kernel: str) -> Version:
    """Return a version of three features that learned two partitions."""
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
    return Version(
        name="pulsar",
        number=42,
        model=Model(scaler, _machine(gamma), _probability(gamma), NAMES),
        labels=("no", "yes"),
        feature_names=NAMES,
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
    probabilities: tuple[Sigmoid, ...] = (*functions[:3], _probability(0.25)) if gamma else functions
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


def _machine(gamma: float | None) -> Machine:
    if gamma is None:
        return LinearMachine(np.array([0.1, -1.0 / 3.0, 1e-300]), -0.75)
    support = np.array([[0.5, -1.0, 0.0], [-0.0, 2.0 / 3.0, 1e-9]])
    return KernelMachine(RbfKernel(gamma), support, np.array([0.5, -4.75]), 0.125)


def _probability(gamma: float | None) -> Sigmoid:
    if gamma is None:
        return Sigmoid(-1.0 / 3.0, 1e-300)
    return Sigmoid(-1.5, 0.125)
