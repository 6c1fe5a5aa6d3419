"""What a version's bounds follow from, as plain values that `checker` judges: rows, totals, machine and multipliers.

That these are the rows of the log only the log shows; what follows from them the checker says, which knows nothing of
the product. Notation is that of `streamsvm.branches.bounds.proving` and `streamsvm.branches.bounds.totals`.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from streamsvm.branches.bounds import proving
from streamsvm.branches.bounds.epochs import Epoch
from streamsvm.learning.recipe import Made
from streamsvm.model.machine import LinearMachine
from streamsvm.svm.feasible import MOST_MULTIPLES

Plain = dict[str, Any]


def proof_of(made: Made) -> Plain | None:
    """Return the proof of a version's bounds; None where it has none, or they say nothing.

    The multipliers are integers, in the unit of which balanced ones are multiples; `factor` has the rows of the upper
    triangular P, from the diagonal on, or one number, that multiple of the unit matrix.
    """
    trained, claim, ledger = made.machines[0], made.certified, made.cut.ledger
    machine, scaler, fit = trained.model.machine, trained.model.scaler, trained.fit
    if claim is None or ledger is None or not isinstance(machine, LinearMachine):
        return None
    with np.errstate(all="ignore"):
        found = proving.proof_of(ledger, scaler, machine, fit, made.audit)
    multipliers = found.multipliers
    if claim.gap is None or not multipliers.any() or not np.isfinite(found.strata.excess).all():
        return None
    unit = 2.0 ** (math.frexp(float(multipliers.max()))[1] - 1) / MOST_MULTIPLES
    return {
        "claim": msgspec.to_builtins(claim),
        "C": fit.C,
        "class_weight": [float(one) for one in fit.class_weight],
        "mean": scaler.mean.tolist(),
        "scale": scaler.scale.tolist(),
        "coefficients": machine.coefficients.tolist(),
        "intercept": float(machine.intercept),
        "X": ledger.rows.X.astype(np.float64).tolist(),
        "y": ledger.rows.y.tolist(),
        "weight": ledger.rows.weight.tolist(),
        "epochs": [_plain(epoch) for epoch in ledger.totals.epochs],
        "unit": unit,
        "multipliers": (multipliers / unit).astype(np.int64).tolist(),
    }


def _plain(epoch: Epoch) -> Plain:
    return {
        "rows": epoch.rows,
        "centre": epoch.frame.scaling[0].tolist(),
        "inverse_scale": epoch.frame.scaling[1].tolist(),
        "machine": epoch.frame.machine.tolist(),
        "factor": [row[at:].tolist() for at, row in enumerate(epoch.frame.factor)],
        "label": epoch.label.tolist(),
        "active": epoch.active.tolist(),
        "weight": epoch.weight.tolist(),
        "length": epoch.length.tolist(),
        "nearest": np.where(epoch.length > 0.0, epoch.nearest, 0.0).tolist(),
        "sums": epoch.sums.tolist(),
        "error": epoch.error.tolist(),
    }
