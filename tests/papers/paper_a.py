"""Tukan, Baykal, Feldman and Rus 2020 measured again: Table 1, and the errors of Figures 1 and 3.

    python -m tests.papers.paper_a [--data DIR] [--rounds 10] [--sets htru2,...] [--json FILE]

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

- The theory of one reduction, Theorem 5.3 with c = 1, asks for t / epsilon^2 ((d + 1) ln t + ln(1 / delta)) draws. The
  paper leaves c open: a size that fails at c = 1 fails for certain.

Without `--data` the sets are HTRU2, which is shipped, and Pathological.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Pilot, Purpose, Reducer, UniformReducer, direct_bound, generator
from streamsvm.learning import Learner
from streamsvm.papers.clustered import lemma_bound, sensitivities
from streamsvm.papers.reducers import SensitivityReducer
from streamsvm.points import Points, Position
from tests.benchmarks.optimum import Fitted, Whole
from tests.benchmarks.runner import Kept, known, load as read, parser_of
from tests.config.sizes import sized
from tests.streams import rows_of

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
THEORY: Final = 0.1
"""Epsilon and delta of the theorem."""


def pilot_of(data: Whole) -> Pilot:
    """Return lines 1 and 2 of Alg. 1, from the optimum on all points."""
    full = data.full
    return Pilot(
        penalty=1.0,
        mean=data.mean,
        scale=data.scale,
        coefficients=full.w,
        intercept=full.b,
        lower_bound=full.lower_bound,
    )


def error_of(data: Whole, subset: Points) -> float:
    """Train on a subset; return the relative error of F on all points."""
    model = data.machine(subset)
    assert isinstance(model, Fitted)
    assert model.gap < CERTAIN or not model.objective
    return abs(data.reached(model) - data.optimum) / data.optimum


def load(name: str, directory: Path | None) -> Whole:
    """Read, shuffle, standardise and solve a set."""
    points = pathological() if name == "pathological" else read(name, directory)
    order = np.random.Generator(np.random.PCG64(SHUFFLE_SEED)).permutation(len(points))
    return Whole.of(points.take(order), SvmConfig(C=1.0), GAP)


def pathological() -> Points:
    """Return 1,000 points: 499 about (10, 10), 499 about (-10, -10), and two of different labels 0.4 apart between."""
    random = np.random.Generator(np.random.PCG64(1))
    y = np.repeat(np.array([1, -1], np.int8), 500)
    X = 10.0 * y[:, None] + random.normal(size=(1_000, 2))
    X[[0, -1]] = [[-0.2, 0.2], [0.2, -0.2]]
    return Points(X.astype(np.float32), y, np.ones(1_000))


def table_row(name: str, data: Whole) -> dict[str, Any]:
    """Return one row of Table 1."""
    n = len(data.points)
    paper_name, paper_n, paper_t = PAPER[name]

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
        "optimum_gap": data.full.gap,
        "draws": math.ceil(ours / THEORY**2 * ((data.points.dimension + 1) * math.log(ours) - math.log(THEORY))),
    }


def sizes(n: int, count: int) -> list[int]:
    """Return sizes from ln n to n^(4/5), spaced geometrically."""
    return [int(m) for m in np.unique(np.round(np.geomspace(math.log(n), n**0.8, count)).astype(int))]


def measure(data: Whole, setting: str, method: str, m: int, trial: int) -> tuple[float, float]:
    """Return relative error and seconds of one subset of one trial."""
    begun = time.perf_counter()
    subset = _offline(data, method, m, trial) if setting == "offline" else _streaming(data, method, m, trial)
    built = time.perf_counter() - begun
    if (setting, method) == ("offline", "sensitivity"):
        built += data.full.seconds
    begun = time.perf_counter()
    error = error_of(data, subset)
    return error, built + time.perf_counter() - begun


def _offline(data: Whole, method: str, m: int, trial: int) -> Points:
    reducer: Reducer = UniformReducer() if method == "uniform" else SensitivityReducer()
    random = generator(trial, Purpose.NODE, (0, 0, m))
    return reducer.reduce(data.points, m, random, pilot_of(data) if reducer.needs_pilot else None)


def _streaming(data: Whole, method: str, m: int, trial: int) -> Points:
    coreset = sized(reducer=method, leaf_rows=2 * m, bucket_points=m, train_points=max(2, m))
    config = ModelConfig(
        points=PointsConfig(dimension=data.points.dimension), coreset=coreset, svm=SvmConfig(C=1.0), seed=trial
    )
    learner = Learner(config, {0: Position(0)}, every_leaves=1 << 40)
    order = np.random.Generator(np.random.PCG64(trial)).permutation(len(data.points))
    learner.learn(rows_of(data.points.take(order)))
    return learner.cut().points


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return Table 1 as text, theirs beside ours."""
    lines = [
        f"{'set':<15} {'n':>8} {'k':>3} {'paper n':>8} {'paper t':>9} {'lemma':>9} {'least':>9} {'at k':>5} {'ours':>9}"
        f" {'ours/n':>7} {'draws':>15}"
    ]
    for name, row in rows.items():
        lines.append(
            f"{name:<15} {row['n']:>8,} {row['k']:>3} {row['paper_n']:>8,} {row['paper_t']:>9,.1f} "
            f"{row['t_lemma']:>9,.1f} {row['t_least']:>9,.1f} {row['t_least_k']:>5} {row['t_ours']:>9,.1f} "
            f"{row['t_ours'] / row['n']:>7.1%} {row['draws']:>15,}"
        )
    worst = max(row["optimum_gap"] for row in rows.values())
    lines.append(f"Every optimum on all points is certified: a relative gap of {worst:.1e} or less.")
    lines += [f"{name}: {NOTES[name]}." for name in rows if name in NOTES]
    return "\n".join([*lines, f"Draws: what Theorem 5.3 asks for at epsilon = delta = {THEORY}.", WHY])


def errors_of(name: str, data: Whole, kept: Kept, rounds: int, count: int) -> dict[str, dict[str, Any]]:
    """Return mean error and seconds by setting, method and size."""
    found = {}
    for m, setting, method in product(sizes(len(data.points), count), SETTINGS, METHODS):
        if setting == "streaming" and len(data.points) > 2 * m * MOST_LEAVES:
            continue
        case = f"{name}/{setting}/{method}/{m}"
        cells = [kept.get(f"{case}/{t}", partial(measure, data, setting, method, m, t)) for t in range(rounds)]
        error, seconds = np.mean(cells, axis=0)
        found[case] = {"error": float(error), "seconds": float(seconds)}
        print(f"{case:<40} error {error:.4g}, {seconds:.3g} s", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Measure, then show the table, and how many times smaller the errors of Alg. 1 are than those of uniform ones."""
    parser = parser_of("paper_a", __doc__, data=False, rounds=10)
    parser.add_argument("--sizes", type=int, default=15, help="sizes from ln n to n^(4/5); 0: the table only")
    asked = parser.parse_args(arguments)
    known(parser, "--sets", asked.sets, sorted(PAPER))
    kept, rows, errors = Kept(asked.json), dict[str, dict[str, Any]](), dict[str, dict[str, Any]]()
    for name in asked.sets or (list(PAPER) if asked.data else list(SHIPPED)):
        data = load(name, asked.data)
        rows[name] = kept.get(f"{name}/table", partial(table_row, name, data))
        errors |= errors_of(name, data, kept, asked.rounds, asked.sizes)
    print(table(rows), "\n\nmean error of uniform sampling / mean error of Alg. 1, by m:")
    for name, setting in product(rows, SETTINGS):
        start = f"{name}/{setting}/uniform/"
        uniform = {case.removeprefix(start): cell["error"] for case, cell in errors.items() if case.startswith(start)}
        shown = (f"{m}:{e / errors[f'{name}/{setting}/sensitivity/{m}']['error']:.2f}" for m, e in uniform.items())
        print(f"{name:<15} {setting:<9} {' '.join(shown)}")
    return rows | errors


if __name__ == "__main__":
    main()
