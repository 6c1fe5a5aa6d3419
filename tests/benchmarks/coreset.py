"""How near the full data's optimum a summary comes, beside its peers at the same memory.

    python -m tests.benchmarks.coreset --data DIR [--sets cod_rna ...] [--memory 1000,10000] [--C 1 | --alpha 1e-4]
        [--mode offline|stream] [--structure tree|chain] [--partitions 1,8,64]
        [--train-points N] [--trials N] [--peers reservoir,alg2,sgd,river,vw]
        [--order shuffled|given|by-class|drifting] [--outliers N] [--keep FILE] [--json]
        [--kernel rbf [--gamma G] [--full]]

Any .npz file with X and y (-1, +1) is a set. One row in five, drawn with a fixed seed, is set aside for accuracy; *the
full data* is the rest.
The gap of a model (w, b) is (F(w, b) - F*) / F*, F over the full data, standardised by its own scaler, F* from
`streamsvm.svm.block.interior_point` at a certified 1e-6, and so is the model of what a summary kept; a gap below 1e-6,
which is less than is known of the optimum, counts as 1e-6. `ratio` is the peer's mean gap over ours: above 1, ours is
nearer.

- `offline`: one reduction of all data to `--memory` points; peer `reservoir` is a uniform sample of as many.
- `stream`: one pass. All memory counts: buckets, the open leaf and the audit sample together hold `--memory` points at
  most, as `coreset.points` measures; a reservoir has as many. Chain and tree have the shipped sizes. `alg2`
  is the paper's tree (sensitivity), its buckets as large as the budget lets them be for a stream of this length. SGD,
  river and Vowpal Wabbit hold a model only, pass once as well, and each is the best of its stated settings by its own
  gap (`tests.benchmarks.summaries`). The last two are no requirements: absent, they are left out.
- `--partitions P` deals the stream to P partitions in turn; each has a P-th of the memory. `--train-points` reduces the
  union to so many.
- `--C` is a number or `k/n`: `--C 100/n` weights the margin heavily.
- `--outliers N` multiplies N rows by 1,000.
- `--order`: as given; by class (all of -1 first); drifting: sorted by the first principal component of the scaled
  features, so that each leaf is from a part of space that no leaf before it saw.

A row says what our reductions met, too: how many there were, without a pilot, of too few points to calibrate, strained,
leaves unlike what came before them (shifted), and the greatest move of a weight: `Observed` in
`streamsvm.coreset.reducers.calibrated`.

- `--kernel rbf` compares accuracies of kernel machines instead: see `tests.benchmarks.kernel_accuracy`.

Rates are points a second of CPU time, on an otherwise busy machine: compare them within a row only. With `--keep`, what
the file holds is not measured again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig, SvmConfig
from streamsvm.coreset.reducers.base import Observed
from streamsvm.points import Points
from tests.benchmarks.summaries import (
    ONLINE,
    Method,
    Model,
    Summary,
    learned,
    offline,
    reservoir,
    uniform,
)
from tests.config.sizes import sized
from tests.papers.paper_a import Fitted, fit, objective

Float = NDArray[np.float64]

GAP: Final = 1e-6
SPLIT_SEED: Final = 7
TEST_SHARE: Final = 0.2
OUTLIER: Final = 1_000.0
OBSERVED: Final = tuple(asdict(Observed()))
NO_REDUCTION: Final = 1 << 24
PEERS: Final = ("reservoir", "alg2", "sgd", "river", "vw")
FOREIGN: Final = {"river": "river", "vw": "vowpalwabbit"}
"""Peers that are not among the requirements, and the module each needs."""
ORDERS: Final = ("shuffled", "given", "by-class", "drifting")


@dataclass(frozen=True, slots=True)
class Case:
    """One objective over one set.

    Attributes
    ----------
    name : str
    points : Points
        The full data: raw, weights 1, in the source's order.
    test : Points
    svm : SvmConfig
    mean, scale : ndarray of shape (d,)
    Z : ndarray of shape (n, d)
        The full data, scaled.
    optimum : float
    """

    name: str
    points: Points
    test: Points
    svm: SvmConfig
    mean: Float
    scale: Float
    Z: Float
    optimum: float

    @property
    def penalty(self) -> float:
        """C of the full data's problem."""
        return self.svm.penalty(float(len(self.points)))

    def judge(self, kept: Points | Model) -> tuple[float, float]:
        """Return gap and test accuracy of what a method kept."""
        if isinstance(kept, Points):
            scaled = (kept.X.astype(np.float64) - self.mean) / self.scale
            made: Fitted | Model = fit(scaled, kept.y, self.penalty * kept.weight, GAP)
        else:
            made = kept
        upper = self.penalty * self.points.weight
        reached = objective(self.Z, self.points.y, upper, made.w, made.b)
        decided = ((self.test.X - self.mean) / self.scale) @ made.w + made.b > 0
        return max(reached / self.optimum - 1.0, GAP), float(np.mean(decided == (self.test.y > 0)))


def read(name: str, directory: Path, outliers: int) -> tuple[Points, Points]:
    """Read a set and split it: the full data, `outliers` of its rows multiplied, and what is set aside."""
    with np.load(directory / f"{name}.npz") as arrays:
        X, y = arrays["X"].astype(np.float32), arrays["y"].astype(np.int8)
    random = np.random.Generator(np.random.PCG64(SPLIT_SEED))
    aside = np.zeros(len(y), np.bool_)
    aside[random.permutation(len(y))[: round(TEST_SHARE * len(y))]] = True
    points, test = (Points(X[part], y[part], np.ones(int(part.sum()))) for part in (~aside, aside))
    points.X[random.permutation(len(points))[:outliers]] *= OUTLIER
    return points, test


def load(name: str, directory: Path, svm: SvmConfig | float, outliers: int, held: dict[str, Any]) -> Case:
    """Read, split, standardise and solve a set; its optimum is taken from `held` if that has it.

    Parameters
    ----------
    svm : SvmConfig or float
        A float k stands for C = k / n.
    """
    points, test = read(name, directory, outliers)
    if isinstance(svm, float):
        svm = SvmConfig(C=svm / len(points))
    exact = points.X.astype(np.float64)
    mean, deviation = exact.mean(axis=0), exact.std(axis=0)
    scale = np.where(deviation > 1e-9 * (1.0 + np.abs(mean)), deviation, 1.0)
    Z = (exact - mean) / scale
    penalty = svm.penalty(float(len(points)))
    key = f"{name}/{penalty:.6g}/{outliers}"
    if key not in held:
        found = fit(Z, points.y, penalty * points.weight, GAP)
        assert found.gap <= 2 * GAP, f"the optimum of {name} is certified to {found.gap:.1e} only"
        held[key] = found.objective
    return Case(name, points, test, svm, mean, scale, Z, held[key])


def ordered(points: Points, order: str, trial: int) -> Points:
    """Return the stream of one trial."""
    if order == "given":
        return points
    if order == "by-class":
        return points.take(np.argsort(points.y, kind="stable"))
    if order == "drifting":
        return points.take(np.argsort(first_component(points), kind="stable"))
    return points.take(np.random.Generator(np.random.PCG64(trial)).permutation(len(points)))


def first_component(points: Points) -> Float:
    """Return each point's first principal component, shape (n,), features scaled to unit variance."""
    exact = points.X.astype(np.float64)
    deviation = exact.std(axis=0)
    Z = (exact - exact.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    axis = np.linalg.eigh(Z.T @ Z)[1][:, -1]
    return np.asarray(Z @ (axis * np.sign(axis[np.argmax(np.abs(axis))])), dtype=np.float64)


def shipped(structure: str, points: int, **shape: Any) -> CoresetConfig:
    """Return what a user gets who gives points and a structure."""
    return CoresetConfig.model_validate({"reducer": "calibrated", "structure": structure, "points": points, **shape})


def counter_of(memory: int, n: int) -> dict[str, int]:
    """Return leaf and bucket of a binary counter that holds `memory` points at its most over n rows.

    A leaf is two buckets long. With L levels at most L buckets are held, and one full leaf.
    """
    bucket = int(memory / 3)
    while bucket > 1:
        levels, leaves = 0, n // (2 * bucket)
        while 2**levels <= leaves:
            levels += 1
        if bucket * levels + 2 * bucket <= memory:
            break
        bucket -= max(1, bucket // 100)
    return {"leaf_rows": 2 * bucket, "bucket_points": bucket}


def methods(case: Case, options: argparse.Namespace, memory: int, partitions: int) -> Iterator[tuple[str, Method]]:
    """Yield ours, then every peer that was asked for."""
    svm, n = case.svm, len(case.points) // partitions
    streaming = options.mode == "stream"
    shape: dict[str, Any] = {"train_points": options.train_points}
    own = memory // partitions
    paper = sized(reducer="sensitivity", audit_points=0, **counter_of(own, n), **shape)
    if streaming:
        yield "ours", learned(shipped(options.structure, own, **shape), svm, partitions)
    else:
        yield "ours", offline("calibrated", memory, svm)
    if "reservoir" in options.peers:
        yield "reservoir", reservoir(memory) if streaming else uniform(memory)
    if "alg2" in options.peers:
        yield "alg2", learned(paper, svm, partitions) if streaming else offline("sensitivity", memory, svm)
    for peer, (settings, make) in ONLINE.items():
        if peer in options.peers:
            for setting in range(len(settings)):
                yield f"{peer}#{setting}", make(setting, case.penalty, case.mean, case.scale)


def measure(case: Case, method: Method, order: str, trial: int) -> dict[str, float]:
    """Return one cell: what one method made of one stream."""
    summary: Summary = method(ordered(case.points, order, trial), trial)
    gap, accuracy = case.judge(summary.kept)
    return {
        "gap": gap,
        "accuracy": accuracy,
        "held": summary.held,
        "kept": len(summary.kept) if isinstance(summary.kept, Points) else 0,
        "state_bytes": summary.state_bytes,
        "seconds": summary.seconds,
        **asdict(summary.observed),
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure what is not held yet; return {"rows": [...]} and what was held."""
    held: dict[str, Any] = {"optima": {}, "cells": {}}
    if options.keep and options.keep.exists():
        held = json.loads(options.keep.read_text())
    rows = []
    for name in options.sets or sorted(file.stem for file in options.data.glob("*.npz")):
        case = load(name, options.data, options.svm, options.outliers, held["optima"])
        for memory in options.memory:
            if memory >= len(case.points):
                continue
            for partitions in options.partitions:
                label = _label(case, options, memory, partitions)
                found = _cells(case, options, label, methods(case, options, memory, partitions), held)
                for row in _rows(case, label, found):
                    rows.append(row)
                    if not options.json:
                        print(_line(row), flush=True)
    return {"rows": rows}


def _cells(
    case: Case, options: argparse.Namespace, label: str, listed: Iterable[tuple[str, Method]], held: dict[str, Any]
) -> dict[str, list[dict[str, float]]]:
    """Return each method's trials; what `held` lacks is measured and put there."""
    found: dict[str, list[dict[str, float]]] = {}
    for name, method in listed:
        cells = held["cells"].setdefault(f"{label}/{name}", [])
        while len(cells) < options.trials:
            cells.append(measure(case, method, options.order, len(cells)))
            _save(options.keep, held)
        found[name] = cells[: options.trials]
    return found


def _label(case: Case, options: argparse.Namespace, memory: int, partitions: int) -> str:
    structure = ""
    if options.mode == "stream":
        shared = f"/{partitions}-partitions" if partitions > 1 else ""
        trained = f"/to-{options.train_points}" if options.train_points < NO_REDUCTION else ""
        structure = f"/{options.structure}{shared}{trained}"
    outliers = f"/{options.outliers}-outliers" if options.outliers else ""
    return f"{case.name}/{options.mode}{structure}/{options.order}/C={case.penalty:.4g}{outliers}/{memory}"


def _rows(case: Case, label: str, found: dict[str, list[dict[str, float]]]) -> Iterator[dict[str, Any]]:
    ours = found["ours"]
    peers: dict[str, list[dict[str, float]]] = {}
    for name, cells in found.items():
        peer = name.split("#")[0]
        if peer != "ours" and (peer not in peers or _mean(cells, "gap") < _mean(peers[peer], "gap")):
            peers[peer] = cells
    n = len(case.points)
    for peer, cells in peers.items():
        yield {
            "case": label,
            "n": n,
            "d": case.points.dimension,
            "memory_points": max(int(cell["held"]) for cell in ours),
            "state_bytes": max(int(cell["state_bytes"]) for cell in ours),
            **{figure: max(cell[figure] for cell in ours) for figure in OBSERVED},
            "gap_mean": _mean(ours, "gap"),
            "gap_max": max(cell["gap"] for cell in ours),
            "peer": peer,
            "peer_memory_points": max(int(cell["held"]) for cell in cells),
            "peer_gap_mean": _mean(cells, "gap"),
            "ratio": _mean(cells, "gap") / _mean(ours, "gap"),
            "accuracy": _mean(ours, "accuracy"),
            "peer_accuracy": _mean(cells, "accuracy"),
            "points_per_s": n / max(_mean(ours, "seconds"), 1e-9),
            "peer_points_per_s": n / max(_mean(cells, "seconds"), 1e-9),
        }


def _mean(cells: list[dict[str, float]], figure: str) -> float:
    return float(np.mean([cell[figure] for cell in cells]))


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['case']:<58} held {row['memory_points']:>7,} gap {row['gap_mean']:.2e} (max {row['gap_max']:.2e}) "
        f"{row['peer']:<9} {row['peer_gap_mean']:.2e} ratio {row['ratio']:7.2f} accuracy {row['accuracy']:.4f} "
        f"{row['peer_accuracy']:.4f} points/s {row['points_per_s']:,.0f} {row['peer_points_per_s']:,.0f} | of "
        f"{row['reductions']} by weight {row['by_weight']} uncalibrated {row['uncalibrated']} strained "
        f"{row['strained']} shifted {row['shifted']} eta {row['eta']:.2f}"
    )


def _save(file: Path | None, held: dict[str, Any]) -> None:
    """Write as a whole or not at all."""
    if file is None:
        return
    fresh = file.with_suffix(".tmp")
    fresh.write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")
    fresh.replace(file)


def _penalty(text: str) -> SvmConfig | float:
    return float(text.removesuffix("/n")) if text.endswith("/n") else SvmConfig(C=float(text))


def _gamma(text: str) -> float | str:
    return text if text in ("scale", "auto") else float(text)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of a run; a peer that cannot be imported is left out, and said so."""
    parser = argparse.ArgumentParser(description="How near the full data's optimum a summary comes, beside its peers.")
    parser.add_argument("--data", type=Path, required=True, help="directory of the .npz files")
    parser.add_argument("--sets", nargs="+", help="names of sets; all files without")
    parser.add_argument("--memory", type=lambda text: [int(part) for part in text.split(",")], default=[1_000, 10_000])
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument("--C", dest="svm", type=_penalty, default=SvmConfig(C=1.0), help="a number, or k/n")
    weight.add_argument("--alpha", dest="svm", type=lambda text: SvmConfig(alpha=float(text)))
    parser.add_argument("--mode", choices=("offline", "stream"), default="stream")
    parser.add_argument("--structure", choices=("tree", "chain"), default="chain")
    parser.add_argument("--partitions", type=lambda text: [int(part) for part in text.split(",")], default=[1])
    parser.add_argument("--train-points", type=int, default=NO_REDUCTION, help="most points of the union; all without")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["reservoir"])
    parser.add_argument("--order", choices=ORDERS, default="shuffled")
    parser.add_argument("--outliers", type=int, default=0)
    parser.add_argument("--kernel", choices=("linear", "rbf"), default="linear")
    parser.add_argument("--gamma", type=_gamma, default="auto", help="of rbf: a number, scale, or auto (1 / d)")
    parser.add_argument("--full", action="store_true", help="of rbf: train on all of the data, too")
    parser.add_argument("--keep", type=Path, help="results, which a stopped run goes on from")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args(arguments)
    unknown = set(options.peers) - set(PEERS)
    if unknown:
        parser.error(f"unknown peers {sorted(unknown)}; there are {', '.join(PEERS)}")
    absent = {peer: module for peer, module in FOREIGN.items() if not importlib.util.find_spec(module)}
    for peer in absent.keys() & set(options.peers):
        print(f"{peer} is left out: no module {absent[peer]}", file=sys.stderr, flush=True)
        options.peers.remove(peer)
    if not options.peers:
        parser.error("no peer is left to compare with")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    options = parse(arguments)
    if options.kernel == "rbf":
        from tests.benchmarks import kernel_accuracy

        made = kernel_accuracy.run(options)
    else:
        made = run(options)
    if options.json:
        print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
