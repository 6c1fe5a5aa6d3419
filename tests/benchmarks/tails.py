"""Heavy tails are data, strangers are not: how near the optimum a bounded stream ends, beside a reservoir.

    python -m tests.benchmarks.tails [--data DIR] [--streams NAME ...] [--memory 10000] [--structure tree|chain]
        [--rows 40000] [--trials 3] [--json]

`elec2` and `elec2-given` (in its own order) are read from DIR; without it only the generated streams run.

- *Natural* streams are judged by all of their rows: their extremes are theirs, whether they come from a distribution
  (lognormal, Cauchy, Student), a fault that goes on (1 % contamination, -999 for a missing value) or a change (a spike
  that becomes common, a scale that does).
- *Strangers*, a few rows with 1e30 or a weight of 1e15 and the wrong label, are judged by the rows without them.

The gap of what was kept is (F(w, b) - F*) / F*: F over the judged rows, standardised by their own scaler, (w, b)
trained on the kept points in that scaler, F* and (w, b) certified to 1e-8; a gap below 1e-7 counts as that. `bounded`
is `coreset.max_leverage` as shipped, `unbounded` without it, and a reservoir holds as many rows as `--memory` says,
which is all that the others hold together. `ratio` is the reservoir's mean gap over the bounded one: above 1, ours is
nearer. A reservoir that missed the strangers is a lucky one: `lucky` is the least of its gaps over the greatest bounded
one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import SvmConfig
from streamsvm.points import Points
from tests.benchmarks.coreset import shipped
from tests.benchmarks.summaries import Method, learned, reservoir
from tests.papers.paper_a import fit, objective

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

CERTIFIED: Final = 1e-8
LEAST_GAP: Final = 1e-7
DIMENSION: Final = 6
SVM: Final = SvmConfig(alpha=1e-4)
NO_REDUCTION: Final = 1 << 24
Stream = Callable[[int, np.random.Generator], tuple[Points, Mask]]
"""(rows, random) -> points, and which of them are strangers."""


def plane(rows: int, random: np.random.Generator, X: Float | None = None) -> Points:
    """Return points of two overlapping classes; the last half of the features says nothing of them."""
    X = random.standard_normal((rows, DIMENSION)) if X is None else X
    useful = X[:, : DIMENSION // 2]
    score = useful @ np.array([1.0, -0.7, 0.4]) + 0.6 * random.standard_normal(rows)
    return Points(X.astype(np.float32), np.where(score > 0.3, 1, -1).astype(np.int8), np.ones(rows))


def _clean(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    return plane(rows, random), np.zeros(rows, np.bool_)


def _lognormal(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    normal = random.standard_normal((rows, DIMENSION))
    points = plane(rows, random, normal)
    return Points((10.0 ** (4.0 + normal)).astype(np.float32), points.y, points.weight), np.zeros(rows, np.bool_)


def _noise(draw: Callable[[np.random.Generator, tuple[int, int]], Float]) -> Stream:
    def made(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
        points = plane(rows, random)
        points.X[:, DIMENSION // 2 :] = draw(random, (rows, DIMENSION - DIMENSION // 2))
        return points, np.zeros(rows, np.bool_)

    return made


def _useful_tails(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    X = random.standard_t(2.0, (rows, DIMENSION))
    return plane(rows, random, X), np.zeros(rows, np.bool_)


def _contaminated(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    points = plane(rows, random)
    at = random.choice(rows, rows // 100, replace=False)
    points.X[at] *= 100.0
    points.y[at] = np.where(random.random(len(at)) < 0.5, 1, -1)
    return points, np.zeros(rows, np.bool_)


def _missing(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    points = plane(rows, random)
    points.X[random.choice(rows, rows // 500, replace=False), 1] = -999.0
    return points, np.zeros(rows, np.bool_)


def _spikes(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    points = plane(rows, random)
    late = rows // 2 + random.choice(rows - rows // 2, rows // 100, replace=False)
    points.X[late, 0] += 1_000.0 * (1.0 + random.random(len(late)))
    points.X[random.choice(rows // 2, 3, replace=False), 0] += 1_500.0
    return points, np.zeros(rows, np.bool_)


def _rescaled(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    points = plane(rows, random)
    points.X[rows // 2 :, 1] *= 1_000.0
    return points, np.zeros(rows, np.bool_)


def _rare_spikes(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    points = plane(rows, random)
    points.X[random.choice(rows, 15, replace=False), 2] *= 60.0
    return points, np.zeros(rows, np.bool_)


def _rare_indicator(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    points = plane(rows, random)
    points.X[:, 4] = random.random(rows) < 3e-4
    points.X[:, 5] = 7.0
    return points, np.zeros(rows, np.bool_)


def _strangers(spoil: Callable[[Points, NDArray[np.intp]], None], count: int, first: bool, base: Stream) -> Stream:
    def made(rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
        points, strange = base(rows, random)
        among = np.arange(500) if first else np.arange(rows // 2, rows)
        at = np.sort(random.choice(among, count, replace=False))
        spoil(points, at)
        points.y[at] = -points.y[at]
        strange[at] = True
        return points, strange

    return made


def _far(points: Points, at: NDArray[np.intp]) -> None:
    points.X[at] = 1e30


def _equal(points: Points, at: NDArray[np.intp]) -> None:
    points.X[at, 0] = 1e6


def _at_all_scales(points: Points, at: NDArray[np.intp]) -> None:
    points.X[at, 1] = 10.0 ** np.linspace(12.0, 30.0, len(at))


def _heavy(points: Points, at: NDArray[np.intp]) -> None:
    points.weight[at] = 1e15


CAUCHY: Final = _noise(lambda random, shape: random.standard_cauchy(shape))
GENERATED: Final[dict[str, Stream]] = {
    "clean": _clean,
    "lognormal": _lognormal,
    "cauchy": CAUCHY,
    "student": _useful_tails,
    "contaminated": _contaminated,
    "missing": _missing,
    "spike-becomes-common": _spikes,
    "scale-changes": _rescaled,
    "rare-spikes": _rare_spikes,
    "one-far": _strangers(_far, 1, False, _clean),
    "one-far-first": _strangers(_far, 1, True, _clean),
    "ten-equal-first": _strangers(_equal, 10, True, _clean),
    "all-scales-cauchy": _strangers(_at_all_scales, 5, False, CAUCHY),
    "one-heavy": _strangers(_heavy, 1, False, _rare_indicator),
}
GIVEN: Final = ("elec2", "elec2-given")
"""From the data folder: shuffled, and in its order."""


@dataclass(frozen=True, slots=True)
class Case:
    """A stream of one trial, and the problem of its judged rows.

    Attributes
    ----------
    points : Points
    judged : Points
        Without strangers.
    Z : ndarray of shape (n, d)
        These, standardised.
    mean, scale : ndarray of shape (d,)
    optimum : float
    """

    points: Points
    judged: Points
    Z: Float
    mean: Float
    scale: Float
    optimum: float

    @staticmethod
    def of(points: Points, strange: Mask) -> Case:
        """Solve a stream's problem."""
        judged = points.take(~strange)
        exact = judged.X.astype(np.float64)
        mean, deviation = exact.mean(axis=0), exact.std(axis=0)
        scale = np.where(deviation > 1e-9 * (1.0 + np.abs(mean)), deviation, 1.0)
        Z = (exact - mean) / scale
        upper = SVM.penalty(float(judged.weight.sum())) * judged.weight
        return Case(points, judged, Z, mean, scale, fit(Z, judged.y, upper, CERTIFIED).objective)

    def gap(self, method: Method, trial: int) -> float:
        """Return how far from the optimum what a method kept ends."""
        kept = method(self.points, trial).kept
        assert isinstance(kept, Points)
        scaled = (kept.X.astype(np.float64) - self.mean) / self.scale
        made = fit(scaled, kept.y, SVM.penalty(float(kept.weight.sum())) * kept.weight, CERTIFIED)
        upper = SVM.penalty(float(self.judged.weight.sum())) * self.judged.weight
        return max(objective(self.Z, self.judged.y, upper, made.w, made.b) / self.optimum - 1.0, LEAST_GAP)


def drawn(name: str, data: Path | None, rows: int, trial: int) -> tuple[Points, Mask]:
    """Return the stream of one trial."""
    random = np.random.Generator(np.random.PCG64([trial, *name.encode()]))
    if name not in GIVEN:
        return GENERATED[name](rows, random)
    assert data is not None
    with np.load(data / "elec2.npz") as arrays:
        points = Points(arrays["X"].astype(np.float32), arrays["y"].astype(np.int8), np.ones(len(arrays["y"])))
    if name == "elec2":
        points = points.take(random.permutation(len(points)))
    return points, np.zeros(len(points), np.bool_)


def methods(memory: int, structure: str = "tree") -> dict[str, Method]:
    """Return what is compared."""
    shape: dict[str, Any] = {"train_points": NO_REDUCTION}
    return {
        "bounded": learned(shipped(structure, memory, **shape), SVM),
        "unbounded": learned(shipped(structure, memory, max_leverage=None, **shape), SVM),
        "reservoir": reservoir(memory),
    }


def row_of(name: str, data: Path | None, *, rows: int, memory: int, trials: int, structure: str) -> dict[str, Any]:
    """Return the gaps of a stream, trial by trial, and what follows from them."""
    gaps: dict[str, list[float]] = {method: [] for method in methods(memory, structure)}
    strangers = 0
    for trial in range(trials):
        points, strange = drawn(name, data, rows, trial)
        strangers = int(strange.sum())
        case = Case.of(points, strange)
        for method, run in methods(memory, structure).items():
            gaps[method].append(case.gap(run, trial))
    mean = {method: float(np.mean(own)) for method, own in gaps.items()}
    return {
        "stream": name,
        "strangers": strangers,
        **mean,
        "ratio": mean["reservoir"] / mean["bounded"],
        "lucky": min(gaps["reservoir"]) / max(gaps["bounded"]),
        "to_unbounded": mean["bounded"] / mean["unbounded"],
        "gaps": gaps,
    }


def line(row: dict[str, Any]) -> str:
    """Return a row for people."""
    figures = " | ".join(f"{row[name]:.2g}" for name in ("bounded", "unbounded", "reservoir", "ratio", "lucky"))
    return f"| {row['stream']} | {row['strangers']} | {figures} |"


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of elec2.npz; without it, only the generated streams")
    parser.add_argument("--streams", nargs="+", choices=(*GIVEN, *GENERATED), help="all by default")
    parser.add_argument("--memory", type=int, default=10_000)
    parser.add_argument("--structure", choices=("tree", "chain"), default="tree")
    parser.add_argument("--rows", type=int, default=40_000, help="of a generated stream")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    names = asked.streams or ((*GIVEN, *GENERATED) if asked.data else tuple(GENERATED))
    if asked.data is None and set(names) & set(GIVEN):
        parser.error("elec2 is read from --data")
    rows = []
    if not asked.json:
        print("| stream | strangers | bounded | unbounded | reservoir | ratio | lucky |\n|---|---|---|---|---|---|---|")
    for name in names:
        shape = {"rows": asked.rows, "memory": asked.memory, "trials": asked.trials, "structure": asked.structure}
        rows.append(row_of(name, asked.data, **shape))
        if not asked.json:
            print(line(rows[-1]), flush=True)
    if asked.json:
        print(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
