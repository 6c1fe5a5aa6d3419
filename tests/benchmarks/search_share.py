"""What the default search costs a stream, and how good its choice is beside GridSearchCV's.

    python -m tests.benchmarks.search_share --data DIR [--sets NAMES] [--rows 5000] [--seeds 0 1 2] [--memory-points N]
        [--into FILE] [--json]

Each seed shuffles a set, holds a fifth out, and passes the rest once through a learner with the defaults of
`svm.kernel = rbf`, `svm.tune = auto`. At each leaf a cut is due, and searched if a trainer that trains every cut would.

- `pass_s`: learning all rows. `train_s`: making the last cut and training on it, once.
- `search_s`: all searches together, and `searches`, how many; `share` is `search_s` over `pass_s`, and `share_trained`
  over `pass_s` and `train_s` together.
- `ours`: held-out accuracy of the last cut's machine at the values in force. `theirs`: the same cut trained at the cell
  that scikit-learn's GridSearchCV chooses by five stratified folds on `--rows` of the rows passed, drawn at random,
  from the same gammas and boxes (C is a box there); `lost` is theirs less ours, in points. `theirs_s` is its time.

CPU seconds of one thread. With `--into`, grid searches that the file holds are not made again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from streamsvm.branches.landmarks.nested_grid import BOXES, GAMMAS
from streamsvm.config import ModelConfig
from streamsvm.estimators.evaluation import split
from streamsvm.learning.cutting import Cut
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.learning.training import scaler_of, train
from streamsvm.learning.tuning import Tuning, is_due, tune
from streamsvm.learning.tuning import warm_up as warm_up_search
from streamsvm.points import Points, Position, Rows, Times
from tests.benchmarks.kernels import read
from tests.benchmarks.tuning import Kept

SETS: Final = ("ijcnn1", "cod_rna", "skin", "htru2", "credit_default", "a9a")
PORTION: Final = 10_000


def passed(rows: Points, config: ModelConfig) -> dict[str, Any]:
    """Learn rows, and search at every cut that is due; times, the last cut and the tuning in force."""
    learner, in_force = Learner(config, {0: Position(0, 0)}, 1), None
    seconds = {"pass_s": 0.0, "search_s": 0.0}
    at: list[int] = []
    for start in range(0, len(rows), PORTION):
        part, done = numbered(rows.take(slice(start, start + PORTION)), start), 0
        while done < len(part):
            begun = time.process_time()
            done += learner.learn(part.slice(done, len(part)))
            seconds["pass_s"] += time.process_time() - begun
            if learner.cut_due:
                found = searched(learner, config, in_force, seconds)
                at += [] if found is in_force or found is None else [found.rows]
                in_force = found
                learner.decline_cut()
    begun = time.process_time()
    cut = learner.cut()
    return seconds | {"cut": cut, "in_force": in_force, "at": at, "cut_s": time.process_time() - begun}


def searched(
    learner: Learner, config: ModelConfig, in_force: Tuning | None, seconds: dict[str, float]
) -> Tuning | None:
    """Return the tuning in force after a cut."""
    rows = sum(position.offset for position in learner.positions.values())
    if not is_due(rows, None if in_force is None else in_force.rows, config):
        return in_force
    cut = learner.cut()
    begun = time.process_time()
    found = tune(cut, config).tuning
    seconds["search_s"] += time.process_time() - begun
    return found


def numbered(points: Points, start: int) -> Rows:
    """Return points as rows of a log."""
    n = len(points)
    return Rows(
        partition=0,
        offset=np.arange(start, start + n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        times=Times.of(np.full(n, -1, np.int64)),
        accepted=np.ones(n, np.bool_),
        points=points,
        leader_epoch=np.full(n, -1, np.int64),
    )


def grid_searched(cut: Cut, rows: Points, config: ModelConfig, most: int, seed: int) -> dict[str, Any]:
    """Search gammas and boxes with scikit-learn, on some of the rows."""
    chosen = np.random.default_rng([seed, 2]).permutation(len(rows))[:most]
    Z = scaler_of(cut.moments, config.svm).transform(rows.X[chosen])
    search = GridSearchCV(
        SVC(cache_size=1_000),
        {"C": list(BOXES), "gamma": [width / rows.dimension for width in GAMMAS]},
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    )
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(Z, rows.y[chosen])
    return {**search.best_params_, "seconds": time.process_time() - begun, "score": float(search.best_score_)}


def accuracy(
    cut: Cut, config: ModelConfig, test: Points, alpha: float | None, gamma: float | None
) -> tuple[float, float]:
    """Return the held-out accuracy of a cut's machine at some values, and the seconds of its training."""
    chosen = {name: value for name, value in {"alpha": alpha, "gamma": gamma}.items() if value is not None}
    begun = time.process_time()
    made = train(cut.points, cut.moments, config.svm.model_copy(update=chosen))
    seconds = time.process_time() - begun
    return float(np.mean((made.model.decision_function(test.X) > 0) == (test.y > 0))), seconds


def row_of(name: str, points: Points, seed: int, asked: argparse.Namespace, kept: Kept) -> dict[str, Any]:
    """Measure one set in one order."""
    coreset = {} if asked.memory_points is None else {"memory_points": asked.memory_points, "max_partitions": 1}
    config = ModelConfig.model_validate(
        {
            "points": {"dimension": points.dimension},
            "coreset": coreset,
            "svm": {"kernel": "rbf", "tune": "auto"},
            "seed": seed,
        }
    )
    rows, test = split(points, 0.2, seed)
    warm_up(config)
    warm_up_search(config)
    found = passed(rows, config)
    cut, tuning = found.pop("cut"), found.pop("in_force")
    theirs = kept.cell(f"{name}/{asked.rows}/{seed}", grid_searched, cut, rows, config, asked.rows, seed)
    ours, train_s = accuracy(cut, config, test, tuning and tuning.alpha, tuning and tuning.gamma)
    other, _ = accuracy(cut, config, test, 1.0 / (theirs["C"] * len(cut.points)), theirs["gamma"])
    whole = found["pass_s"] + found.pop("cut_s") + train_s
    return {
        "set": name,
        "seed": seed,
        "rows": len(rows),
        "points": len(cut.points),
        **found,
        "train_s": whole - found["pass_s"],
        "share": found["search_s"] / found["pass_s"],
        "share_trained": found["search_s"] / whole,
        "box": None if tuning is None else 1.0 / (tuning.alpha * len(cut.points)),
        "gamma": tuning and tuning.gamma,
        "ours": ours,
        "their_box": theirs["C"],
        "their_gamma": theirs["gamma"],
        "theirs": other,
        "theirs_s": theirs["seconds"],
        "lost": 100.0 * (other - ours),
    }


def shown(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    return (
        f"{row['set']:<15}{row['seed']:>3}{row['points']:>8,}{len(row['at']):>4}{row['search_s']:>8.2f}"
        f"{row['pass_s']:>8.2f}{row['train_s']:>8.2f}{row['share']:>8.3f}{row['share_trained']:>8.3f}"
        f"{row['box']:>8.2f}{row['gamma']:>8.3f}{100 * row['ours']:>8.2f}{row['their_box']:>8.1f}"
        f"{row['their_gamma']:>8.3f}{100 * row['theirs']:>8.2f}{row['lost']:>+7.2f}{row['theirs_s']:>8.1f}"
    )


HEADING: Final = (
    f"{'set':<14}{'seed':>4}{'points':>8}{'no.':>4}{'search':>8}{'pass':>8}{'train':>8}{'share':>8}{'trained':>8}"
    f"{'box':>8}{'gamma':>8}{'ours':>8}{'box':>8}{'gamma':>8}{'theirs':>8}{'lost':>7}{'theirs s':>8}"
)


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set and seed, and the mean of each set; or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), metavar="NAME")
    parser.add_argument("--rows", type=int, default=5_000, help="of the grid search")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--memory-points", type=int, help="of one partition, instead of the default memory of eight")
    parser.add_argument("--into", type=Path, help="grid searches, which a later run does not make again")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    kept, rows = Kept(asked.into), []
    if not asked.json:
        print(HEADING)
    with threadpool_limits(1):
        for name in asked.sets:
            points = read(name, asked.data)
            own = []
            for seed in asked.seeds:
                own.append(row_of(name, points, seed, asked, kept))
                if not asked.json:
                    print(shown(own[-1]), flush=True)
            rows += own
            if not asked.json:
                share, trained, lost = (
                    np.mean([row[key] for row in own]) for key in ("share", "share_trained", "lost")
                )
                print(f"{name}: share {share:.3f} ({trained:.3f} with training), lost {lost:+.3f}", flush=True)
    if asked.json:
        print(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
