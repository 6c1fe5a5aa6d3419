"""Heavy tails are data, strangers are not: what a bounded stream is worth, beside one without bounds and a reservoir.

    python -m tests.benchmarks.tails [--data DIR] [--sets NAMES] [--memory 10000] [--structure tree|chain]
        [--rows 40000] [--test-rows 200000] [--rounds 5] [--json FILE]

`elec2` and `elec2-given` (in its own order) are read from DIR; without it only the generated streams run.

- *Natural* streams are judged by all of their rows: their extremes are theirs, whether they come from a distribution
  (lognormal, Cauchy, Student), a fault that goes on (1 % contamination, -999 for a missing value) or a change (a spike
  that becomes common, a scale that does).
- *Strangers*, a few rows with 1e30 or a weight of 1e15 and the wrong label, are judged by the rows without them.

The *gap* is that of `tests.benchmarks.optimum` over the judged rows, certified to 1e-8; less than 1e-7 counts as
1e-7.

*Accuracy* and *AUC* are those of the model that the product trains on them, with the scaler and the weight of its cut,
on rows that were not learned: another stream of the same kind without its strangers, or a third of elec2. Trial t has
the seed t.

- `bounded`: as shipped; outliers are drawn in (`streamsvm.coreset.outliers`).
- `unbounded`: every row as it came.
- `reservoir`: as many rows as `--memory` says, which is all that the others hold together, and their own scaler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments, RowBound
from streamsvm.learning import Learner, train
from streamsvm.points import Points, Position
from tests.benchmarks.optimum import Whole, fit
from tests.benchmarks.runner import Kept, known, load, parser_of
from tests.benchmarks.summaries import reservoir, shipped
from tests.streams import rows_of

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]
Figures = dict[str, float]

CERTIFIED: Final = 1e-8
LEAST_GAP: Final = 1e-7
DIMENSION: Final = 6
SVM: Final = SvmConfig(alpha=1e-4)
METHODS: Final = ("bounded", "unbounded", "reservoir")
Stream = Callable[[int, np.random.Generator], Points]
"""(rows, random) -> points."""


def plane(rows: int, random: np.random.Generator, X: Float | None = None) -> Points:
    """Return points of two overlapping classes; the last half of the features says nothing of them."""
    X = random.standard_normal((rows, DIMENSION)) if X is None else X
    useful = X[:, : DIMENSION // 2]
    score = useful @ np.array([1.0, -0.7, 0.4]) + 0.6 * random.standard_normal(rows)
    return Points(X.astype(np.float32), np.where(score > 0.3, 1, -1).astype(np.int8), np.ones(rows))


def _lognormal(rows: int, random: np.random.Generator) -> Points:
    normal = random.standard_normal((rows, DIMENSION))
    points = plane(rows, random, normal)
    return Points((10.0 ** (4.0 + normal)).astype(np.float32), points.y, points.weight)


def _useful_tails(rows: int, random: np.random.Generator) -> Points:
    return plane(rows, random, random.standard_t(2.0, (rows, DIMENSION)))


def _changed(change: Callable[[Points, int, np.random.Generator], None]) -> Stream:
    """Return a plane's points with something done to them; `change` is given how many there are."""

    def made(rows: int, random: np.random.Generator) -> Points:
        points = plane(rows, random)
        change(points, rows, random)
        return points

    return made


def _cauchy(points: Points, rows: int, random: np.random.Generator) -> None:
    points.X[:, DIMENSION // 2 :] = random.standard_cauchy((rows, DIMENSION - DIMENSION // 2))


def _contaminate(points: Points, rows: int, random: np.random.Generator) -> None:
    at = random.choice(rows, rows // 100, replace=False)
    points.X[at] *= 100.0
    points.y[at] = np.where(random.random(len(at)) < 0.5, 1, -1)


def _lose(points: Points, rows: int, random: np.random.Generator) -> None:
    points.X[random.choice(rows, rows // 500, replace=False), 1] = -999.0


def _raise_some(points: Points, rows: int, random: np.random.Generator) -> None:
    late = rows // 2 + random.choice(rows - rows // 2, rows // 100, replace=False)
    points.X[late, 0] += 1_000.0 * (1.0 + random.random(len(late)))
    points.X[random.choice(rows // 2, 3, replace=False), 0] += 1_500.0


def _rescale(points: Points, rows: int, random: np.random.Generator) -> None:
    points.X[rows // 2 :, 1] *= 1_000.0


def _raise_few(points: Points, rows: int, random: np.random.Generator) -> None:
    points.X[random.choice(rows, 15, replace=False), 2] *= 60.0


def _indicate(points: Points, rows: int, random: np.random.Generator) -> None:
    points.X[:, 4] = random.random(rows) < 3e-4
    points.X[:, 5] = 7.0


def _far(points: Points, at: NDArray[np.intp]) -> None:
    points.X[at] = 1e30


def _equal(points: Points, at: NDArray[np.intp]) -> None:
    points.X[at, 0] = 1e6


def _at_all_scales(points: Points, at: NDArray[np.intp]) -> None:
    points.X[at, 1] = 10.0 ** np.linspace(12.0, 30.0, len(at))


def _heavy(points: Points, at: NDArray[np.intp]) -> None:
    points.weight[at] = 1e15


CAUCHY: Final = _changed(_cauchy)
GENERATED: Final[dict[str, Stream]] = {
    "clean": plane,
    "lognormal": _lognormal,
    "cauchy": CAUCHY,
    "student": _useful_tails,
    "contaminated": _changed(_contaminate),
    "missing": _changed(_lose),
    "spike-becomes-common": _changed(_raise_some),
    "scale-changes": _changed(_rescale),
    "rare-spikes": _changed(_raise_few),
    "one-far": plane,
    "one-far-first": plane,
    "ten-equal-first": plane,
    "all-scales-cauchy": CAUCHY,
    "one-heavy": _changed(_indicate),
}
STRANGERS: Final[dict[str, tuple[Callable[[Points, NDArray[np.intp]], None], int, bool]]] = {
    "one-far": (_far, 1, False),
    "one-far-first": (_far, 1, True),
    "ten-equal-first": (_equal, 10, True),
    "all-scales-cauchy": (_at_all_scales, 5, False),
    "one-heavy": (_heavy, 1, False),
}
"""What is done to some rows of a stream, to how many, and whether they are among the first."""
GIVEN: Final = ("elec2", "elec2-given")
"""From the data folder: shuffled, and in its order."""


def generated(name: str, rows: int, random: np.random.Generator) -> tuple[Points, Mask]:
    """Return a stream, and which of its rows are strangers."""
    points, strange = GENERATED[name](rows, random), np.zeros(rows, np.bool_)
    if name in STRANGERS:
        spoil, count, first = STRANGERS[name]
        among = np.arange(500) if first else np.arange(rows // 2, rows)
        at = np.sort(random.choice(among, count, replace=False))
        spoil(points, at)
        points.y[at] = -points.y[at]
        strange[at] = True
    return points, strange


def drawn(name: str, data: Path | None, rows: int, test_rows: int, trial: int) -> tuple[Points, Mask, Points]:
    """Return the stream of one trial, which of its rows are strangers, and rows to test with."""
    random = np.random.Generator(np.random.PCG64([trial, *name.encode()]))
    if name not in GIVEN:
        points, strange = generated(name, rows, random)
        others, strangers = generated(name, test_rows, random)
        return points, strange, others.take(~strangers)
    points = load("elec2", data)
    order = random.permutation(len(points))
    held_out, learned = order[: len(points) // 3], order[len(points) // 3 :]
    learned = np.sort(learned) if name == "elec2-given" else learned
    return points.take(learned), np.zeros(len(learned), np.bool_), points.take(held_out)


Method = Callable[[Points, int], tuple[Points, Moments]]
"""(stream, trial) -> the points that are kept of it, and the moments that are known of all."""


def learned(coreset: CoresetConfig) -> Method:
    """Return what a cut at the end of the stream is made of."""

    def run(points: Points, trial: int) -> tuple[Points, Moments]:
        config = ModelConfig(points=PointsConfig(dimension=points.dimension), coreset=coreset, svm=SVM, seed=trial)
        learner = Learner(config, {0: Position(0)}, every_leaves=1 << 40)
        learner.learn(rows_of(points))
        cut = learner.cut()
        return cut.points, cut.moments

    return run


def sampled(memory: int) -> Method:
    """Return a reservoir, and its own moments."""

    def run(points: Points, trial: int) -> tuple[Points, Moments]:
        kept = reservoir(memory)(points, trial).kept
        assert isinstance(kept, Points)
        return kept, Moments.zero(kept.dimension).add(kept)

    return run


def unbounded(run: Method) -> Method:
    """Return what is made of rows that nothing is drawn in of."""

    def as_they_came(_: RowBound, points: Points, accepted: Mask | None = None) -> Points:
        return points

    def learned_so(points: Points, trial: int) -> tuple[Points, Moments]:
        with mock.patch.object(RowBound, "draw_in", as_they_came):
            return run(points, trial)

    return learned_so


def methods(memory: int, structure: str) -> dict[str, Method]:
    """Return what is compared."""
    ours = learned(shipped(structure, memory))
    return {"bounded": ours, "unbounded": unbounded(ours), "reservoir": sampled(memory)}


def figures(whole: Whole, test: Points, kept: Points, moments: Moments) -> Figures:
    """Return what the points that a method kept, and the moments that it knows, are worth."""
    scaled = (kept.X.astype(np.float64) - whole.mean) / whole.scale
    made = fit(scaled, kept.y, SVM.penalty(float(kept.weight.sum())) * kept.weight, CERTIFIED)
    decision = train(kept, moments, SVM).model.decision_function(test.X)
    return {
        "gap": max(whole.gap(made), LEAST_GAP),
        "accuracy": float(np.mean((decision > 0.0) == (test.y > 0))),
        "auc": float(roc_auc_score(test.y, decision)),
    }


def trial_of(asked: argparse.Namespace, name: str, trial: int) -> dict[str, Any]:
    """Return what each method is worth on the stream of one trial."""
    points, strange, test = drawn(name, asked.data, asked.rows, asked.test_rows, trial)
    whole = Whole.of(points.take(~strange), SVM, CERTIFIED)
    found = {
        method: figures(whole, test, *run(points, trial))
        for method, run in methods(asked.memory, asked.structure).items()
    }
    return {"strangers": int(strange.sum()), "methods": found}


def mean(trials: Sequence[dict[str, Any]], method: str, figure: str) -> float:
    """Return the mean of a figure over trials."""
    return float(np.mean([trial["methods"][method][figure] for trial in trials]))


def differences(rows: dict[str, list[dict[str, Any]]], one: str, other: str) -> list[str]:
    """Return the paired differences of two methods for people: of each stream with its standard error, and the mean."""
    lines = []
    for figure in ("accuracy", "auc"):
        means = []
        for stream, trials in rows.items():
            own = np.array([trial["methods"][one][figure] - trial["methods"][other][figure] for trial in trials])
            error = own.std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else 0.0
            means.append((float(own.mean()), float(error), stream))
        worst = min(means)
        lines.append(
            f"{figure} of {one} less that of {other}: mean {np.mean([mean for mean, *_ in means]):+.5f}, "
            f"least {worst[0]:+.5f} (standard error {worst[1]:.5f}) on {worst[2]}; beyond 0.0005: "
            + (", ".join(f"{stream} {value:+.4f}" for value, _, stream in means if abs(value) > 5e-4) or "none")
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """Measure what is not kept yet, and print."""
    parser = parser_of("tails", __doc__, data=False)
    parser.add_argument("--memory", type=int, default=10_000)
    parser.add_argument("--structure", choices=("tree", "chain"), default="tree")
    parser.add_argument("--rows", type=int, default=40_000, help="of a generated stream")
    parser.add_argument("--test-rows", type=int, default=200_000, help="of a generated stream")
    asked = parser.parse_args(arguments)
    known(parser, "--sets", asked.sets, (*GIVEN, *GENERATED))
    names = asked.sets or ((*GIVEN, *GENERATED) if asked.data else tuple(GENERATED))
    if asked.data is None and set(names) & set(GIVEN):
        parser.error("elec2 is read from --data")
    kept, rows = Kept(asked.json), dict[str, list[dict[str, Any]]]()
    print(f"{'stream':<22}{'strangers':>10}  " + "  ".join(f"{name + ': gap, accuracy, AUC':<32}" for name in METHODS))
    for name in names:
        shape = f"{name}/{asked.structure}/{asked.memory}/{asked.rows}"
        rows[name] = [kept.get(f"{shape}/{t}", partial(trial_of, asked, name, t)) for t in range(asked.rounds)]
        shown = (
            f"{mean(rows[name], method, 'gap'):<10.2g} {mean(rows[name], method, 'accuracy'):<10.4f} "
            f"{mean(rows[name], method, 'auc'):<10.4f}"
            for method in METHODS
        )
        print(f"{name:<22}{rows[name][0]['strangers']:>10}  {'  '.join(shown)}", flush=True)
    for other in METHODS[1:]:
        print(*differences(rows, METHODS[0], other), sep="\n")
    return rows


if __name__ == "__main__":
    main()
