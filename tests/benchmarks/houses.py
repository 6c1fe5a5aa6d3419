"""Whether a change of the whole lost anything: held-out accuracy and AUC of an earlier build beside today's.

    python -m tests.benchmarks.houses --data DIR --before PYTHON --tree TREE [--cases linear,rbf] [--seeds 10]
        [--rows 20000] [--json FILE]

PYTHON is the interpreter of an environment with the earlier build (`make before`), TREE its checkout; both learn the
same rows in child processes. DIR has NAME.npz files with `X` and `y` (-1 or +1). Half of at most `--rows` rows,
shuffled by the seed, is held out; streams are answered before their labels come, 500 rows at a time. Seeds are 0 to
`--seeds` - 1. What took part in a memory budget once is given as points a partition to both.

Not worse is, over paired seeds: the mean difference over sets is at least -0.0005, and no set is below -0.002 by more
than twice its standard error; sets with fewer than 5,000 held-out rows count in the mean only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from streamsvm import CoresetSVC
from tests.benchmarks.changing import hyperplane, sea, turned

ROOT: Final = Path(__file__).parents[2]
SETS: Final = ("a9a", "cod_rna", "credit_default", "elec2", "htru2", "ijcnn1", "skin", "w8a")
STREAMS: Final = ("elec2", "Hyperplane", "SEA", "ijcnn1", "cod_rna", "credit_default")
CLASSES: Final = ("unequal", "seven", "four")
PORTION: Final = 500
JUDGED_ROWS: Final = 5_000
CASES: Final[dict[str, dict[str, Any]]] = {
    "linear": {},
    "500 points": {"points": 500},
    "1000 points": {"points": 1_000},
    "weights": {"weighted": True},
    "balanced": {"class_weight": "balanced"},
    "rbf": {"kernel": "rbf"},
    "tuned": {"kernel": "rbf", "tune": "auto"},
    "labels": {},
    "window": {"memory": "window", "window": 4_000},
    "adaptive": {"memory": "adaptive"},
}


def machine_of(seed: int, options: dict[str, Any]) -> CoresetSVC:
    """Return an estimator of whichever build this is: names of options differ."""
    known, given = CoresetSVC().get_params(), {"seed": seed, **options}
    for new, old in (("points", "memory_points"), ("window", "window_points")):
        if new in given and new not in known:
            given[old] = given.pop(new)
    return CoresetSVC(**given)


def rows_of(case: str, name: str, seed: int, data: Path, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a set or stream in the order of a seed."""
    random = np.random.default_rng(seed)
    if name == "four":
        return make_classification(
            most, 16, n_informative=8, n_classes=4, n_clusters_per_class=2, flip_y=0.02, random_state=seed
        )
    if name in CLASSES:
        share = [0.4, 0.25, 0.15, 0.1, 0.06, 0.03, 0.01] if name == "unequal" else [1 / 7] * 7
        y = random.choice(7, most, p=share)
        return random.normal(size=(7, 10))[y] * 1.2 + random.normal(size=(most, 10)) * (1.0 + 0.5 * (y[:, None] % 3)), y
    if name in ("Hyperplane", "SEA"):
        return (hyperplane if name == "Hyperplane" else sea)(most, seed)[:2]
    with np.load(data / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"].astype(np.int64)
    if case in ("window", "adaptive"):
        return (X[:most], y[:most]) if name == "elec2" else turned(X, y, most, seed=seed)[:2]
    chosen = random.permutation(len(y))[:most]
    return X[chosen], y[chosen]


def measure(case: str, name: str, seed: int, data: Path, most: int) -> dict[str, Any]:
    """Learn and answer; return accuracy, AUC of two labels, and how many rows were judged."""
    options = dict(CASES[case])
    weighted = options.pop("weighted", False)
    X, y = rows_of(case, name, seed, data, most)
    machine = machine_of(seed, options)
    if case in ("window", "adaptive"):
        said = np.zeros(len(y))
        for start in range(0, len(y), PORTION):
            part = slice(start, start + PORTION)
            if start:
                said[part] = machine.decision_function(X[part])
            machine.partial_fit(X[part], y[part], classes=[-1, 1])
        truth, said = y[PORTION:], said[PORTION:]
        answers = np.where(said > 0, 1, -1)
    else:
        half = len(y) // 2
        weight = np.random.default_rng(seed).uniform(0.2, 5.0, half) if weighted else None
        machine.fit(X[:half], y[:half], sample_weight=weight)
        truth, answers = y[half:], machine.predict(X[half:])
        said = machine.decision_function(X[half:])
    two = len(np.unique(y)) == 2
    return {
        "case": case,
        "set": name,
        "seed": seed,
        "rows": len(truth),
        "accuracy": float(np.mean(answers == truth)),
        "auc": float(roc_auc_score(truth, said)) if two else None,
    }


def jobs(cases: list[str], seeds: int) -> Iterator[tuple[str, str, int]]:
    """Yield every case, set and seed."""
    for case in cases:
        names = CLASSES if case == "labels" else STREAMS if case in ("window", "adaptive") else SETS
        for name in names:
            yield from ((case, name, seed) for seed in range(seeds))


def child(options: argparse.Namespace) -> None:
    """Measure everything with the build that this process imports, a line of JSON each."""
    import warnings

    warnings.simplefilter("ignore")
    for case, name, seed in jobs(options.cases, options.seeds):
        print(json.dumps(measure(case, name, seed, options.data, options.rows)), flush=True)


def start(python: Path, tree: Path, arguments: list[str], file: str = __file__) -> subprocess.Popen[str]:
    """Begin a child with a build and this very program, or another one of this tree; it has a thread a library."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment, pipe = {**os.environ, **one_thread, "PYTHONPATH": str(tree)}, subprocess.PIPE
    program = f"import runpy, sys; sys.argv = {[file, *arguments]!r}; runpy.run_path({file!r}, run_name='__main__')"
    return subprocess.Popen([python, "-c", program], cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True)


def verdict(before: list[dict[str, Any]], after: list[dict[str, Any]], figure: str) -> tuple[list[str], float, bool]:
    """Return a line a set, the mean difference, and whether the rule calls it not worse."""
    lines, means, fine = [], [], True
    for name in dict.fromkeys(row["set"] for row in after):
        old, new = ([row for row in rows if row["set"] == name] for rows in (before, after))
        difference = np.array([b[figure] - a[figure] for a, b in zip(old, new, strict=True)])
        mean, error = difference.mean(), difference.std(ddof=1) / len(difference) ** 0.5
        means.append(mean)
        judged = new[0]["rows"] >= JUDGED_ROWS
        worse = judged and mean < -0.002 - 2.0 * error
        fine = fine and not worse
        lines.append(
            f"    {name:<16} {np.mean([row[figure] for row in old]):.4f} {np.mean([row[figure] for row in new]):.4f}  "
            f"{mean:+.4f} +- {error:.4f}{'' if judged else '  in the mean only'}{'  WORSE' if worse else ''}"
        )
    return lines, float(np.mean(means)), fine and float(np.mean(means)) >= -0.0005


def main() -> int:
    """Compare, and return 1 if a case is worse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="interpreter of the earlier build")
    parser.add_argument("--tree", type=Path, help="its checkout")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[*CASES])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="also write every row here")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return 0
    given = ["--child", "--data", str(options.data.resolve()), "--cases", ",".join(options.cases)]
    given += ["--seeds", str(options.seeds), "--rows", str(options.rows)]
    houses = [start(options.before, options.tree, given), start(Path(sys.executable), ROOT, given)]
    told = [[json.loads(line) for line in house.communicate()[0].splitlines()] for house in houses]
    if any(house.returncode for house in houses):
        return 2
    if options.json:
        options.json.write_text(json.dumps({"before": told[0], "after": told[1]}, indent=1))
    worse = False
    for case in options.cases:
        before, after = ([row for row in rows if row["case"] == case] for rows in told)
        for figure in ("accuracy", "auc"):
            if after[0][figure] is None:
                continue
            lines, mean, fine = verdict(before, after, figure)
            worse = worse or not fine
            print(f"{case}, {figure}: {'not worse' if fine else 'WORSE'}, in the mean {mean:+.5f}", *lines, sep="\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
