"""How well an RBF machine of a summary decides: the rows of `tests.benchmarks.coreset --kernel rbf`.

    python -m tests.benchmarks.coreset --kernel rbf --data DIR --sets ijcnn1 cod_rna --memory 4500 --C 1 --gamma 0.1
        [--structure chain|tree] [--trials N] [--peers reservoir] [--order ...] [--full] [--json]

One pass, all memory counted. The shipped learner and a reservoir of as many points train the same machine: the same C
of the full data's problem (so that a point of weight u has the box C u), the same gamma, the same scaler, of the full
data. Accuracy is that on the fifth of the rows that was set aside. `--full` trains on all of the data, too, which takes
minutes, and says its accuracy.

No gap: the optimum of the full data's kernel problem is not certified here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamsvm.config import SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.learning.training import train
from streamsvm.points import Points
from tests.benchmarks import coreset
from tests.benchmarks.summaries import Method, learned, reservoir


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure; return {"rows": [...]}, one a set and memory."""
    rows = []
    for name in options.sets or sorted(file.stem for file in options.data.glob("*.npz")):
        points, test = coreset.read(name, options.data, options.outliers)
        svm = _svm(options, len(points))
        whole = _judged(points, test, svm, points)["accuracy"] if options.full else None
        for memory in options.memory:
            rows.append(_row(name, points, test, svm, memory, options) | {"full_accuracy": whole})
            if not options.json:
                print(line(rows[-1]), flush=True)
    return {"rows": rows}


def _svm(options: argparse.Namespace, n: int) -> SvmConfig:
    given = SvmConfig(C=options.svm / n) if isinstance(options.svm, float) else options.svm
    return SvmConfig(**given.model_dump(exclude={"kernel", "gamma"}), kernel="rbf", gamma=options.gamma)


def _methods(svm: SvmConfig, n: int, memory: int, options: argparse.Namespace) -> Iterator[tuple[str, Method]]:
    yield "ours", learned(coreset.shipped(options.structure, memory, train_points=coreset.NO_REDUCTION), svm)
    yield "reservoir", reservoir(memory)


def _row(
    name: str, points: Points, test: Points, svm: SvmConfig, memory: int, options: argparse.Namespace
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case": f"{name}/rbf/{options.structure}/{options.order}/C={svm.C}/gamma={svm.gamma}/{memory}",
        "n": len(points),
        "d": points.dimension,
    }
    for method, made in _methods(svm, len(points), memory, options):
        cells = []
        for trial in range(options.trials):
            summary = made(coreset.ordered(points, options.order, trial), trial)
            assert isinstance(summary.kept, Points)
            cells.append(_judged(summary.kept, test, svm, points) | {"held": summary.held, "seconds": summary.seconds})
        prefix = "" if method == "ours" else "peer_"
        row |= {
            f"{prefix}memory_points": max(cell["held"] for cell in cells),
            f"{prefix}accuracy": float(np.mean([cell["accuracy"] for cell in cells])),
            f"{prefix}accuracy_min": min(cell["accuracy"] for cell in cells),
            f"{prefix}support_vectors": max(cell["support_vectors"] for cell in cells),
            f"{prefix}points_per_s": len(points) / max(1e-9, float(np.mean([cell["seconds"] for cell in cells]))),
        }
    return row


def _judged(kept: Points, test: Points, svm: SvmConfig, full: Points) -> dict[str, float]:
    """Train on what was kept, under the moments of the full data; return test accuracy and support vectors."""
    trained = train(kept, Moments.zero(full.dimension).add(full), svm)
    right = trained.model.predict_sign(test.X) == test.y
    return {"accuracy": float(np.mean(right)), "support_vectors": float(trained.fit.support_vectors)}


def line(row: dict[str, Any]) -> str:
    """Write a row for people."""
    full = f" full data {row['full_accuracy']:.4f}" if row["full_accuracy"] is not None else ""
    return (
        f"{row['case']:<58} held {row['memory_points']:>7,} accuracy {row['accuracy']:.4f} (min "
        f"{row['accuracy_min']:.4f}) reservoir {row['peer_accuracy']:.4f} (min {row['peer_accuracy_min']:.4f}){full} "
        f"points/s {row['points_per_s']:,.0f} support vectors {row['support_vectors']:,.0f}"
    )
