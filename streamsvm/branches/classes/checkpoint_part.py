"""The part ``classes``: what a screen for more than two labels has besides, of each label and of each problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.classes.class_screening import ClassScreen, ClassScreened
from streamsvm.checkpoint.forms import Form, OptionalPart, PlacedArray
from streamsvm.checkpoint.parts import PartOf
from streamsvm.coreset.screening import Screen, Screened
from streamsvm.coreset.screening_kernels import BINS
from streamsvm.errors import CorruptCheckpoint


class ScreenClasses(Form, tag_field="part", tag="classes"):
    """Of a screen, most of whose arrays then have an axis more, that of the problems."""

    labels: PlacedArray
    intercepts: PlacedArray
    class_weight: PlacedArray
    counts: PlacedArray
    active: PlacedArray


def _trunk(state: ClassScreened) -> Screened:
    """Return the arrays that a screen for two labels has, too."""
    screen = state.screen
    return Screened(
        screen=Screen(
            rows=screen.rows,
            rate=screen.rate,
            scaling=screen.scaling,
            coefficients=screen.coefficients,
            intercept=0.0,
            label_mean=screen.label_mean,
            terms=screen.terms,
            projection=screen.projection,
        ),
        thinnings=state.thinnings,
        accepted=state.accepted,
        sums=state.sums,
        weight=state.weight,
        totals=np.concatenate([state.moments_sums, state.gradient]),
    )


def _of(state: ClassScreened) -> Mapping[str, Any]:
    screen = state.screen
    return {
        "labels": screen.labels,
        "intercepts": screen.intercepts,
        "class_weight": screen.class_weight,
        "counts": state.counts,
        "active": state.active,
    }


def _joined(trunk: Screened, **more: NDArray[Any]) -> ClassScreened:
    screen = trunk.screen
    _check(trunk, more)
    return ClassScreened(
        screen=ClassScreen(
            rows=screen.rows,
            rate=screen.rate,
            scaling=screen.scaling,
            class_weight=more["class_weight"],
            labels=more["labels"],
            coefficients=screen.coefficients,
            intercepts=more["intercepts"],
            label_mean=screen.label_mean,
            terms=screen.terms,
            projection=screen.projection,
        ),
        thinnings=trunk.thinnings,
        counts=more["counts"],
        sums=trunk.sums,
        weight=trunk.weight,
        active=more["active"],
        moments_sums=trunk.totals[:2],
        gradient=trunk.totals[2:],
    )


def _check(trunk: Screened, more: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays of a screen that do not fit each other: compiled loops look into them without asking."""
    screen, labels, classes = trunk.screen, more["labels"], more["class_weight"].size
    problems, d = labels.size, screen.scaling.shape[-1] if screen.scaling.ndim else 0
    last = screen.projection.shape[-1] if screen.projection.ndim else 0
    for name, array, shape in (
        ("scaling", screen.scaling, (2, d)),
        ("coefficients", screen.coefficients, (problems, d)),
        ("label_mean", screen.label_mean, (problems, 2, d)),
        ("terms", screen.terms, (problems, 2, 6)),
        ("projection", screen.projection, (problems, d + 1 + -(d + 1) % 4, last)),
        ("sums", trunk.sums, (classes, BINS)),
        ("weight", trunk.weight, (classes,)),
        ("totals", trunk.totals, (2 + problems, d)),
        ("labels", labels, (problems,)),
        ("intercepts", more["intercepts"], (problems,)),
        ("class_weight", more["class_weight"], (classes,)),
        ("counts", more["counts"], (classes,)),
        ("active", more["active"], (problems, 2)),
    ):
        if array.shape != shape:
            raise CorruptCheckpoint(f"{name} of a screen has the shape {array.shape}, where {shape} fits")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise CorruptCheckpoint(f"a screen for {classes} labels has a problem of label {int(labels.max())}")


SCREEN: Final = OptionalPart(
    form=ScreenClasses,
    has=lambda state: isinstance(state, ClassScreened),
    of=_of,
    joined=_joined,
    trunk=(ClassScreened, _trunk),
)
PLUGGED: Final = PartOf("screen", SCREEN)
