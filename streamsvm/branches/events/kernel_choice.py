"""Chooses between a linear and an additive machine for events: both learn the first of them and answer the last.

Streams drift, so what a machine is worth is what it says of later events. The additive one is chosen where it is better
by more than the standard error of the difference: of two labels by the area under the ROC curve (DeLong, DeLong and
Clarke-Pearson 1988), of more by balanced accuracy, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from streamsvm.branches.events.event_points import EventReader
from streamsvm.branches.events.features.held_out import LEAST_COUNTED
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of
from streamsvm.choices import KernelName
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.estimators.blas_threads import one_blas_thread
from streamsvm.estimators.evaluation import scores
from streamsvm.ingest.row import LARGEST_FEATURE
from streamsvm.learning.training import Task, train
from streamsvm.model.correctness import answers
from streamsvm.points import label_codes

MOST_TRIED: Final = 20_000
"""Events that are learned and answered, the newest ones: seconds, with a thousand columns half a minute."""
MOST_VALUES: Final = 1 << 22
"""Events times columns: with more than 209 columns fewer events are tried."""
HELD_OUT: Final = 5
"""One event of so many is held out, the last ones."""


@one_blas_thread()
def chosen_kernel(
    events: Sequence[Mapping[str, Any]],
    recipe: Recipe,
    dtype: Literal["float32", "float64"],
    class_weight: Literal["none", "balanced"],
) -> tuple[KernelName | None, str, str]:
    """Return the better kernel, the figures of both, and why it is that one.

    No kernel is proposed, and the figures are empty, if a label has fewer than `LEAST_COUNTED` events among those that
    are learned, or among those that are held out.

    Parameters
    ----------
    events : sequence of mappings
        In the order of the stream; those that the recipe rejects do not count.
    recipe : Recipe
        With a label.
    dtype, class_weight
        Of the machines, as the options are called.
    """
    config = PointsConfig(dtype=dtype, **points_of(recipe))
    events = events[-min(MOST_TRIED, MOST_VALUES // config.dimension) :]
    made = EventReader(recipe, config, LARGEST_FEATURE[dtype], labeled=True).read(events)
    points = made.points.take(np.array([row not in made.faults for row in range(len(events))], np.bool_))
    border = len(points) - len(points) // HELD_OUT
    first, last = points.take(slice(border)), points.take(slice(border, None))
    codes = label_codes(config.classes)
    for part, where in ((last, f"last {len(last):,}"), (first, f"{border:,} before the last {len(last):,}")):
        for label, code in zip(config.labels, codes, strict=True):
            if (count := int(np.sum(part.y == code))) < LEAST_COUNTED:
                return None, "", f"of the {where} events {count} are {label!r}, fewer than {LEAST_COUNTED}"
    what = "AUC" if config.classes == 2 else "balanced accuracy"
    moments = Moments.zero(first.dimension, config.classes).add(first)
    kernels: tuple[KernelName, KernelName] = ("linear", "additive")
    own, said = [], []  # of each machine: how right each row is, the mean of whose means over the labels is the figure
    for kernel in kernels:
        task = Task(config.classes, SvmConfig(kernel=kernel, class_weight=class_weight).settled(config.classes))
        svm = task.machine_config(task.svm)
        model = task.model([train(part, seen, svm).model for part, seen in task.problems(first, moments)])
        decision = np.asarray(model.decision_function(last.X))
        found = scores(last, decision)
        if config.classes == 2:
            said.append(f"{kernel} AUC {found.auc:.4f} and accuracy {found.accuracy:.4f}")
            right = np.zeros(len(last))
            for code in codes:  # the share of the other label's rows with which each row is in order
                others = np.sort(code * decision[last.y != code])
                mine = code * decision[last.y == code]
                before = np.searchsorted(others, mine, "left") + np.searchsorted(others, mine, "right")
                right[last.y == code] = before / 2.0 / len(others)
        else:
            said.append(f"{kernel} balanced accuracy {found.balanced_accuracy:.4f}")
            right = (answers(decision) == last.y).astype(np.float64)
        own.append(right)
    gains = [(own[1] - own[0])[last.y == code] for code in codes]
    gain = float(np.mean([one.mean() for one in gains]))
    error = float(np.sqrt(sum(one.var(ddof=1) / len(one) for one in gains)))
    error /= 1 if config.classes == 2 else config.classes  # an area counts each pair of rows on both sides
    figures = f"Learned from {border:,} events, on the {len(last):,} after them: {'; '.join(said)}"
    better = gain > error
    why = (
        f"{what} of additive minus linear: {gain:+.4f}, {'' if better else 'not '}above its standard error {error:.4f}"
    )
    return kernels[better], figures, why
