"""Tukan, Baykal, Feldman and Rus 2020 measured again: Table 1 and Figures 1, 2, 3 and 5.

    python -m tests.papers.paper_a [--data DIR] [--trials 10] [--sets htru2 ...] [--json FILE] [--out DIR]

As in the paper: features standardised, every weight 1, lambda = 1, 15 sizes m spaced geometrically from ln n to
n^(4/5), relative error |F(P, w_S) - F(P, w*)| / F(P, w*) of the model trained on the subset S. Where it differs:

- Every optimum, that of all points too, comes from `streamsvm.svm.block.interior_point` at a certified gap of 1e-5,
  where the paper has scikit-learn's SVC, which is too slow here for so many fits. F is always evaluated on all points.
  So times compare the two samplers with each other, not with the paper's.
- Time offline counts line 1 of Alg. 1, the SVM of all points, in full: whoever has that needs no coreset, but such is
  Alg. 1 outside a tree.
- Streaming is the shipped learner: leaves of 2 m shuffled rows, buckets of m points, fan-in 2, its open union reduced
  to m at the end; pilots as shipped. Sizes that need more than `MOST_LEAVES` leaves are left out.
- Pathological is built from its description: two far clusters of different labels and, between them, two points of
  different labels close to each other.

Without `--data` the sets are HTRU2, which is shipped, and Pathological. A run that was stopped goes on where it was:
what stands in the file is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.reducers.base import Pilot, Purpose, Reducer, UniformReducer, generator
from streamsvm.coreset.sensitivity import direct_bound, dual_bound
from streamsvm.datasets import load_htru2
from streamsvm.learning.learner import Learner
from streamsvm.model.kernels import LinearKernel
from streamsvm.papers.clustered import lemma_bound, sensitivities
from streamsvm.papers.reducers import SensitivityReducer
from streamsvm.points import Points, Position
from streamsvm.svm.block.interior_point import MOST_STEPS, InteriorPointSolver
from streamsvm.svm.problem import Problem
from tests.config.sizes import sized
from tests.papers.sample_size import coreset_size
from tests.streams import rows_of

Float = NDArray[np.float64]

PAPER: Final[dict[str, tuple[str, int, float]]] = {
    "htru2": ("HTRU", 17_898, 475.8),
    "credit_default": ("Credit", 30_000, 1_013.0),
    "pathological": ("Pathol.", 1_000, 77.6),
    "skin": ("Skin", 245_057, 271.5),
    "cod_rna": ("Cod", 488_565, 2_889.2),
    "w8a": ("W1", 49_749, 24_231.6),
}
"""Our name of a set: the paper's, its n and its total sensitivity (Table 1)."""
SHIPPED: Final = ("htru2", "pathological")
"""Sets that need no file."""
NOTES: Final = {
    "cod_rna": "training and test file only: the 157,413 validation rows of the paper's 488,565 are missing here",
    "pathological": "built from its description; the paper's own points are not known",
    "credit_default": "23 features; the paper's 24 presumably count the row number or the label",
    "htru2": "8 features; the paper's 9 presumably count the label",
}
WHY: Final = (
    "Why t differs: the text says k = log n clusters and prints line 10 of Alg. 1; with k = ceil(ln n), that line and "
    "weighted means as centres give the column `lemma`. No reading of the text that we tried reaches Table 1. The "
    "authors' released code takes the k between 2 ln n and sqrt(n) with the least t (column `least`), raw seeds as "
    "centres, and caps sensitivities at 1. Column `ours` is the proven bound of streamsvm.coreset.sensitivity, with "
    "k = ceil(ln n) and capped at 1."
)
SHUFFLE_SEED: Final = 7
MOST_LEAVES: Final = 1_000
GAP: Final = 1e-5
"""Certified relative gap at which an optimum is good enough."""
CERTAIN: Final = 1e-3
"""Certified relative gap beyond which an optimum on a subset is no measurement."""
SETTINGS: Final = ("offline", "streaming")
METHODS: Final = ("uniform", "sensitivity")
FIGURES: Final = {
    1: ("offline", "error"),
    2: ("offline", "seconds"),
    3: ("streaming", "error"),
    5: ("streaming", "seconds"),
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model over scaled features, and how good it is certified to be.

    Attributes
    ----------
    w : ndarray of shape (d,)
    b : float
    objective, lower_bound : float
        F of (w, b), and a dual objective.
    seconds : float
    """

    w: Float
    b: float
    objective: float
    lower_bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Certified relative distance from the optimum."""
        return self.objective / self.lower_bound - 1 if self.lower_bound > 0 else math.inf


def objective(Z: Float, y: NDArray[np.int8], upper: Float, w: Float, b: float) -> float:
    """Return F of a model on weighted points."""
    return float(0.5 * (w @ w) + upper @ np.maximum(0.0, 1.0 - y * (Z @ w + b)))


def fit(Z: Float, y: NDArray[np.int8], upper: Float, gap: float = GAP) -> Fitted:
    """Solve min 1/2 |w|^2 + sum upper hinge; the dual solution certifies how near the optimum it is."""
    begun = time.perf_counter()
    problem = Problem(Z=Z, y=y, upper=upper, kernel=LinearKernel(), tolerance=1.0, max_iterations=MOST_STEPS)
    found = InteriorPointSolver(gap).solve(problem)
    assert found.coefficients is not None
    seconds = time.perf_counter() - begun
    value = objective(Z, y, upper, found.coefficients, found.intercept)
    return Fitted(found.coefficients, found.intercept, value, dual_bound(Z, y, upper, found.alpha), seconds)


@dataclass(frozen=True, slots=True)
class DataSet:
    """One shuffled set, and the optimum on all of it.

    Attributes
    ----------
    name : str
    points : Points
        Raw, shuffled with a fixed seed, weights 1.
    Z : ndarray of shape (n, d)
        Standardised over the whole set.
    mean, scale : ndarray of shape (d,)
    full : Fitted
    """

    name: str
    points: Points
    Z: Float
    mean: Float
    scale: Float
    full: Fitted

    @property
    def pilot(self) -> Pilot:
        """Lines 1 and 2 of Alg. 1, from the optimum on all points."""
        return Pilot(
            penalty=1.0,
            mean=self.mean,
            scale=self.scale,
            coefficients=self.full.w,
            intercept=self.full.b,
            lower_bound=self.full.lower_bound,
        )

    def error(self, subset: Points) -> float:
        """Train on a subset; return the relative error of F on all points."""
        scaled = (subset.X.astype(np.float64) - self.mean) / self.scale
        model = fit(scaled, subset.y, subset.weight)
        assert model.gap < CERTAIN or not model.objective
        reached = objective(self.Z, self.points.y, self.points.weight, model.w, model.b)
        return abs(reached - self.full.objective) / self.full.objective


def load(name: str, directory: Path | None) -> DataSet:
    """Read, shuffle, standardise and solve a set."""
    X, y = _read(name, directory)
    order = np.random.Generator(np.random.PCG64(SHUFFLE_SEED)).permutation(len(y))
    points = Points(X[order].astype(np.float32), y[order].astype(np.int8), np.ones(len(y)))
    exact = points.X.astype(np.float64)
    mean, deviation = exact.mean(axis=0), exact.std(axis=0)
    scale = np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, 1.0)
    Z = (exact - mean) / scale
    return DataSet(name, points, Z, mean, scale, fit(Z, points.y, points.weight))


def _read(name: str, directory: Path | None) -> tuple[NDArray[Any], NDArray[Any]]:
    if name == "pathological":
        return pathological()
    if directory is None:
        assert name == "htru2"
        return load_htru2()[:2]
    with np.load(directory / f"{name}.npz") as arrays:
        return arrays["X"], arrays["y"]


def pathological() -> tuple[Float, NDArray[np.int8]]:
    """Return 1,000 points: 499 about (10, 10), 499 about (-10, -10), and two of different labels 0.4 apart between."""
    random = np.random.Generator(np.random.PCG64(1))
    y = np.repeat(np.array([1, -1], np.int8), 500)
    X = 10.0 * y[:, None] + random.normal(size=(1_000, 2))
    X[[0, -1]] = [[-0.2, 0.2], [0.2, -0.2]]
    return X, y


def table_row(data: DataSet) -> dict[str, Any]:
    """Return one row of Table 1."""
    n = len(data.points)
    paper_name, paper_n, paper_t = PAPER[data.name]

    def total(k: int | None, *, ours: bool) -> float:
        return sensitivities(
            data.Z,
            data.points.y,
            data.points.weight,
            1.0,
            data.full.lower_bound,
            generator(0, Purpose.NODE, (0, 0, 0)),
            k,
            bound=direct_bound if ours else lemma_bound,
            capped=ours,
        ).total

    ours = total(None, ours=True)
    between = np.unique(np.geomspace(2 * math.log(n), math.sqrt(n), 5).astype(int))
    least, least_k = min((total(int(k), ours=False), int(k)) for k in between)
    return {
        "paper_name": paper_name,
        "paper_n": paper_n,
        "paper_t": paper_t,
        "n": n,
        "k": math.ceil(math.log(n)),
        "t_lemma": round(total(None, ours=False), 1),
        "t_least": round(least, 1),
        "t_least_k": least_k,
        "t_ours": round(ours, 1),
        "optimum_at_least": data.full.lower_bound,
        "optimum_gap": data.full.gap,
        "optimum_seconds": round(data.full.seconds, 2),
        "theory_at_0.1": str(coreset_size(ours, 0.1, 0.1, data.points.dimension, n)),
    }


def sizes(n: int, count: int) -> list[int]:
    """Return sizes from ln n to n^(4/5), spaced geometrically."""
    return [int(m) for m in np.unique(np.round(np.geomspace(math.log(n), n**0.8, count)).astype(int))]


def measure(data: DataSet, setting: str, method: str, m: int, trial: int) -> tuple[float, float]:
    """Return relative error and seconds of one subset of one trial."""
    begun = time.perf_counter()
    subset = _offline(data, method, m, trial) if setting == "offline" else _streaming(data, method, m, trial)
    built = time.perf_counter() - begun
    if (setting, method) == ("offline", "sensitivity"):
        built += data.full.seconds
    begun = time.perf_counter()
    error = data.error(subset)
    return error, built + time.perf_counter() - begun


def _offline(data: DataSet, method: str, m: int, trial: int) -> Points:
    reducer: Reducer = UniformReducer() if method == "uniform" else SensitivityReducer()
    random = generator(trial, Purpose.NODE, (0, 0, m))
    return reducer.reduce(data.points, m, random, data.pilot if reducer.needs_pilot else None)


def _streaming(data: DataSet, method: str, m: int, trial: int) -> Points:
    coreset = sized(reducer=method, leaf_rows=2 * m, bucket_points=m, train_points=max(2, m))
    config = ModelConfig(
        points=PointsConfig(dimension=data.points.dimension), coreset=coreset, svm=SvmConfig(C=1.0), seed=trial
    )
    learner = Learner(config, {0: Position(0)}, every_leaves=1 << 40)
    order = np.random.Generator(np.random.PCG64(trial)).permutation(len(data.points))
    learner.learn(rows_of(data.points.take(order)))
    return learner.cut().points


def run(
    directory: Path | None, names: list[str], settings: list[str], trials: int, count: int, file: Path
) -> dict[str, Any]:
    """Measure what the file does not hold yet; return all it holds then."""
    held: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"table": {}, "cells": {}}
    for name in names:
        wanted = [
            (setting, method, m)
            for m in sizes(_count(name, directory), count)
            for setting in settings
            for method in METHODS
            if setting == "offline" or _count(name, directory) <= 2 * m * MOST_LEAVES
        ]
        keys = {case: "/".join(map(str, (name, *case))) for case in wanted}
        missing = [case for case in wanted if len(held["cells"].get(keys[case], {}).get("error", [])) < trials]
        if not missing and name in held["table"]:
            continue
        data = load(name, directory)
        if name not in held["table"]:
            held["table"][name] = table_row(data)
            _save(file, held)
        for case in missing:
            cell = held["cells"].setdefault(keys[case], {"error": [], "seconds": []})
            for trial in range(len(cell["error"]), trials):
                error, seconds = measure(data, *case, trial)
                cell["error"].append(float(f"{error:.4g}"))
                cell["seconds"].append(float(f"{seconds:.3g}"))
            _save(file, held)
            print(f"{keys[case]:<40} error {np.mean(cell['error']):.4g}, {np.mean(cell['seconds']):.3g} s", flush=True)
    return held


def _count(name: str, directory: Path | None) -> int:
    return len(_read(name, directory)[1])


def _save(file: Path, held: dict[str, Any]) -> None:
    """Write as a whole or not at all: a stopped run loses one cell."""
    fresh = file.with_suffix(".tmp")
    fresh.write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")
    fresh.replace(file)


def table(held: dict[str, Any]) -> str:
    """Return Table 1 as text, theirs beside ours."""
    lines = [
        f"{'set':<15} {'n':>8} {'k':>3} {'paper n':>8} {'paper t':>9} {'lemma':>9} {'least':>9} {'at k':>5} {'ours':>9}"
        f" {'ours/n':>7}"
    ]
    for name, row in held["table"].items():
        lines.append(
            f"{name:<15} {row['n']:>8,} {row['k']:>3} {row['paper_n']:>8,} {row['paper_t']:>9,.1f} "
            f"{row['t_lemma']:>9,.1f} {row['t_least']:>9,.1f} {row['t_least_k']:>5} {row['t_ours']:>9,.1f} "
            f"{row['t_ours'] / row['n']:>7.1%}"
        )
    if held["table"]:
        worst = max(row["optimum_gap"] for row in held["table"].values())
        lines.append(f"Every optimum on all points is certified: a relative gap of {worst:.1e} or less.")
    lines += [f"{name}: {NOTES[name]}." for name in held["table"] if name in NOTES]
    lines += [
        f"{name}: Theorem 5.3 at epsilon = delta = 0.1: {row['theory_at_0.1']}" for name, row in held["table"].items()
    ]
    return "\n".join([*lines, WHY])


def ratios(held: dict[str, Any]) -> str:
    """Return, for each set and setting, how many times smaller the error of Alg. 1 is than that of uniform sampling."""
    lines = ["mean error of uniform sampling / mean error of Alg. 1, by m:"]
    for name in held["table"]:
        for setting in SETTINGS:
            cells = _curves(held, name, setting)
            if cells:
                both = sorted(set(cells["uniform"]) & set(cells["sensitivity"]))
                shown = " ".join(
                    f"{m}:{np.mean(cells['uniform'][m]['error']) / np.mean(cells['sensitivity'][m]['error']):.2f}"
                    for m in both
                )
                lines.append(f"{name:<15} {setting:<9} {shown}")
    return "\n".join(lines)


def _curves(held: dict[str, Any], name: str, setting: str) -> dict[str, dict[int, dict[str, list[float]]]]:
    curves: dict[str, dict[int, dict[str, list[float]]]] = {}
    for key, cell in held["cells"].items():
        own, where, method, m = key.split("/")
        if (own, where) == (name, setting) and cell["error"]:
            curves.setdefault(method, {})[int(m)] = cell
    return curves


def draw(held: dict[str, Any], directory: Path) -> list[Path]:
    """Draw the figures that there are numbers for; return the files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    files = []
    for number, (setting, quantity) in FIGURES.items():
        names = [name for name in held["table"] if _curves(held, name, setting)]
        if not names:
            continue
        figure = Figure(figsize=(3.4 * len(names), 3.0), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            for method, curve in sorted(_curves(held, name, setting).items()):
                m = sorted(curve)
                mean = np.array([np.mean(curve[size][quantity]) for size in m])
                spread = np.array([np.std(curve[size][quantity]) for size in m])
                axes.plot(m, mean, marker=".", label="Alg. 1" if method == "sensitivity" else "uniform")
                axes.fill_between(m, np.maximum(mean - spread, mean / 10), mean + spread, alpha=0.2)
            if quantity == "seconds":
                axes.axhline(held["table"][name]["optimum_seconds"], color="0.5", linestyle=":", label="all points")
            axes.set(xscale="log", yscale="log", title=name, xlabel="points m")
            axes.set_ylabel("relative error" if quantity == "error" else "seconds, construction and training")
            axes.legend()
        files.append(directory / f"paper_a_figure_{number}.png")
        figure.savefig(files[-1], dpi=80)
    return files


def main(arguments: list[str] | None = None) -> None:
    """Measure, then show the table and draw the figures."""
    parser = argparse.ArgumentParser(description="Tukan et al. 2020 measured again: Table 1, Figures 1, 2, 3 and 5.")
    parser.add_argument("--data", type=Path, help="directory of the .npz files; default: the sets that need none")
    parser.add_argument("--trials", type=int, default=10, help="samples of each size (the paper: 100)")
    parser.add_argument("--sets", nargs="+", choices=sorted(PAPER), help="sets to measure; default: all there are")
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, default=list(SETTINGS), help="empty: the table only")
    parser.add_argument("--sizes", type=int, default=15, help="sizes from ln n to n^(4/5)")
    parser.add_argument(
        "--json", type=Path, default=Path("paper_a.json"), help="results, which a stopped run goes on from"
    )
    parser.add_argument("--out", type=Path, default=Path(), help="directory of the figures")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    sets = options.sets or (list(PAPER) if options.data else list(SHIPPED))
    held = run(options.data, sets, options.settings, options.trials, options.sizes, options.json)
    report = f"{table(held)}\n\n{ratios(held)}\n"
    (options.out / "paper_a.txt").write_text(report)
    print(report)
    for file in draw(held, options.out):
        print(file)


if __name__ == "__main__":
    main()
