"""How true the probabilities are: `python -m tests.benchmarks.calibration`.

    python -m tests.benchmarks.calibration [--data DIRECTORY] [--sets htru2,...] [--kernels linear,rbf]
        [--rows 1000,20000] [--seeds 5] [--json]

Each seed shuffles a set; the first rows are a stream, 5,000 others are judged: Brier score, log loss, and ECE, the mean
distance of what was said from what was so over 15 bins of as many points each. A figure is the median over seeds, with
the least and the greatest in brackets. HTRU2 is in the package; a directory holds others as `NAME.npz` with X and y.

=============  ========================================================================================================
contender      what it is
=============  ========================================================================================================
rate           the share of positive rows, for every point: what knowing nothing else is worth
uncalibrated   1 / (1 + exp(-f)) of our decision values f
sigmoid        `CoresetSVC(probability="sigmoid")`, 10,000 points held, 1,000 of them the audit sample
isotonic       the same with `isotonic`
cv sigmoid     `CalibratedClassifierCV` of five folds around `STDASVC` on all rows: the optimum that SVC has, sooner
cv isotonic    the same with `isotonic`
=============  ========================================================================================================

A stream of 1,000 rows is wholly in the audit sample and wholly trained on: there the probabilities of a machine are
fitted to the points that it was made of. In longer ones the shared part shrinks; `shared` is the share of the audit
sample's points that are in the training set, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streamsvm import STDASVC, CoresetSVC
from streamsvm.datasets import load_htru2

Float = NDArray[np.float64]
Labels = NDArray[np.int64]
Kernel = Literal["linear", "rbf"]

ALPHA: Final = 1e-4
MEMORY: Final = 10_000
JUDGED: Final = 5_000
BINS: Final = 15
SCORES: Final = ("brier", "log_loss", "ece")
METHODS: Final[tuple[Literal["sigmoid", "isotonic"], ...]] = ("sigmoid", "isotonic")


@dataclass(frozen=True, slots=True)
class Judged:
    """What one contender's probabilities are worth, on one shuffle."""

    case: str
    contender: str
    brier: float
    log_loss: float
    ece: float
    shared: float | None = None


def ece(y: Labels, said: Float) -> float:
    """Return the expected calibration error over bins of equal counts."""
    order = np.argsort(said, kind="stable")
    bins = zip(np.array_split(said[order], BINS), np.array_split(y[order] > 0, BINS), strict=True)
    return float(sum(len(of) * abs(float(of.mean()) - float(so.mean())) for of, so in bins) / len(y))


def judge(case: str, contender: str, y: Labels, said: Float, shared: float | None = None) -> Judged:
    """Score probabilities of the label 1."""
    brier, loss = brier_score_loss(y, said, pos_label=1), log_loss(y, said, labels=[-1, 1])
    return Judged(case, contender, float(brier), float(loss), ece(y, said), shared)


def shared_part(machine: CoresetSVC) -> float:
    """Return which share of the audit sample's points are trained on."""
    cut = machine._stream.learner.cut()
    trained = {row.tobytes() for row in cut.points.X}
    return float(np.mean([row.tobytes() in trained for part in cut.audit for row in part.points.X]))


def rounds(name: str, X: Float, y: Labels, kernel: Kernel, rows: int, seed: int) -> list[Judged]:
    """Let every contender learn the same rows and judge it on the same others."""
    order = np.random.default_rng(seed).permutation(len(y))
    fresh, seen = order[:JUDGED], order[JUDGED : JUDGED + rows]
    case, truth = f"{name}, {kernel}, {len(seen):,} rows", y[fresh]
    found = [judge(case, "rate", truth, np.full(len(fresh), float((y[seen] > 0).mean())))]
    for method in METHODS:
        ours = CoresetSVC(memory_points=MEMORY, alpha=ALPHA, kernel=kernel, probability=method, seed=seed)
        ours.fit(X[seen], y[seen])
        if method == METHODS[0]:
            plain = 1.0 / (1.0 + np.exp(-ours.decision_function(X[fresh])))
            found.append(judge(case, "uncalibrated", truth, plain))
        found.append(judge(case, method, truth, ours.predict_proba(X[fresh])[:, 1], shared_part(ours)))
    for method in METHODS:
        theirs = CalibratedClassifierCV(
            make_pipeline(StandardScaler(), STDASVC(alpha=ALPHA, kernel=kernel)), method=method
        )
        theirs.fit(X[seen], y[seen])
        found.append(judge(case, f"cv {method}", truth, theirs.predict_proba(X[fresh])[:, 1]))
    return found


def load(name: str, directory: Path | None) -> tuple[Float, Labels]:
    """Return features and labels of a set."""
    if name == "htru2":
        X, y, _ = load_htru2()
        return X.astype(np.float64), y.astype(np.int64)
    if directory is None:
        raise SystemExit(f"{name} is not in the package: name a directory with {name}.npz by --data")
    with np.load(directory / f"{name}.npz") as kept:
        return kept["X"].astype(np.float64), kept["y"].astype(np.int64)


def table(found: list[Judged]) -> str:
    """Return a table of medians, a block for each case."""
    lines: list[str] = []
    for case in dict.fromkeys(one.case for one in found):
        lines += ["", case, f"{'':14}{'Brier':>25}{'log loss':>25}{'ECE':>25}{'shared':>8}"]
        own = [one for one in found if one.case == case]
        for contender in dict.fromkeys(one.contender for one in own):
            runs = [one for one in own if one.contender == contender]
            cells = "".join(f"{_interval([getattr(one, score) for one in runs]):>25}" for score in SCORES)
            shared = [one.shared for one in runs if one.shared is not None]
            lines.append(f"{contender:14}{cells}" + (f"{statistics.median(shared):8.2f}" if shared else ""))
    return "\n".join(lines)


def _interval(figures: list[float]) -> str:
    return f"{statistics.median(figures):.4f} [{min(figures):.4f}, {max(figures):.4f}]"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="How true the probabilities are.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", default="htru2")
    parser.add_argument("--kernels", default="linear,rbf")
    parser.add_argument("--rows", default="1000,20000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found: list[Judged] = []
    for name in options.sets.split(","):
        X, y = load(name, options.data)
        for kernel in options.kernels.split(","):
            for rows in map(int, options.rows.split(",")):
                for seed in range(options.seeds):
                    found += rounds(name, X, y, kernel, rows, seed)
    print(json.dumps({"rounds": [asdict(one) for one in found]}) if options.json else table(found).lstrip())


if __name__ == "__main__":
    main()
