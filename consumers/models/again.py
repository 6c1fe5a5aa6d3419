"""What other options of training are worth: a model trained again from a checkpoint, and published nowhere.

What was learned stays: the points of the newest checkpoint, under the pilots that they were chosen by. Both machines
answer the audit sample, by machines that were not trained on its points where two labels are told apart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.audit import represented
from streamsvm.errors import ConfigurationError
from streamsvm.learning.learner import Cut, TakenCut
from streamsvm.learning.recipe import make
from streamsvm.learning.training import held_out
from streamsvm.model.correctness import accuracy, answers, balanced_accuracy
from streamsvm.points import Points


def trained_again(found: Snapshot, given: SvmConfig) -> dict[str, dict[str, Any]]:
    """Return figures of a checkpoint's model as it is configured, and with the options of `svm` that are given.

    Raises
    ------
    ConfigurationError
        If no option is given, one does not go with the others, or the checkpoint has no audit sample.
    """
    config = ModelConfig.of_canonical(found.configuration)
    changed: dict[str, Any] = given.model_dump(mode="json", include=given.model_fields_set)
    if not changed:
        raise ConfigurationError(
            "no option of [svm] is given", "For example: streamsvm model train-again --svm-alpha 1e-3"
        )
    # Of options that exclude each other the one that is given counts.
    others = {"alpha": "C", "C": "alpha", "cost": "target", "target": "cost"}
    dropped = {others[name]: None for name in changed if name in others and others[name] not in changed}
    if changed.get("kernel", config.svm.kernel) != config.svm.kernel:
        dropped["loss"] = None  # that of the other kernel
    plain = config.canonical()
    plain.setdefault("pilots", plain["svm"])
    try:
        other = ModelConfig.model_validate({**plain, "svm": {**plain["svm"], **dropped, **changed}})
    except ValueError as error:
        raise ConfigurationError(
            f"the checkpoint's configuration does not go with these options: {error}", "Give others."
        ) from None
    cut = TakenCut(found.learner.partitions, config).make()
    if not any(len(part.points) for part in cut.audit):
        raise ConfigurationError("the checkpoint has no audit sample", "Wait until the trainer has learned more rows.")
    return {"now": _figures(cut, config), "again": _figures(cut, other)}


def _figures(cut: Cut, config: ModelConfig) -> dict[str, Any]:
    begun = time.perf_counter()
    made = make(cut, config)
    seconds = time.perf_counter() - begun
    points, weight, auc = Points.union([part.points for part in cut.audit]), represented(cut.audit), None
    if config.points.classes == 2:
        svm = made.tuning.applied(config.svm) if made.tuning else config.svm
        decision = held_out(made.trained, cut.points, cut.moments, svm, cut.audit, config.seed)
        said, y = answers(decision, made.trained.model.border), points.y
        if len(np.unique(y)) == 2:
            from sklearn.metrics import roc_auc_score

            auc = float(roc_auc_score(y, decision, sample_weight=weight))
    else:
        said, y = made.model.predict_codes(points.X), points.y
    return {
        "accuracy": accuracy(said, y, weight),
        "balanced_accuracy": balanced_accuracy(said, y, weight),
        "auc": auc,
        "support_vectors": sum(machine.fit.support_vectors for machine in made.machines),
        "converged": all(machine.fit.converged for machine in made.machines),
        "points": len(cut.points),
        "audit_points": len(points),
        "rows": cut.learned.rows,
        "seconds": seconds,
    }


def table_of(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures as lines of text, one column for each of the two."""
    lines = [f"{'':<20}{'as configured':>15}{'with these options':>20}"]
    for name in found["now"]:
        now, again = (_written(found[which][name]) for which in ("now", "again"))
        lines.append(f"{name.replace('_', ' '):<20}{now:>15}{again:>20}")
    return "\n".join(lines)


def _written(figure: object) -> str:
    """Return a figure as text; a dash stands for a figure that a missing label does not allow."""
    if isinstance(figure, float):
        return f"{figure:.4f}"
    if isinstance(figure, int):  # a count, or whether it converged
        return str(figure)
    return "-"
