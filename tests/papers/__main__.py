"""Both papers' tables measured again: `make papers`.

    python -m tests.papers [--data DIR] [--rounds 3] [--rows 4000] [--out .papers]

`--data` is a folder of the papers' sets as NAME.npz with X and y; without it the sets that need no file are measured.
What is kept in the folder of results is not measured again.

- Tukan, Baykal, Feldman and Rus 2020: Table 1 (`table_of_sensitivities`), then the errors of Figures 1 and 3 at the
  paper's sizes: Alg. 1 and a uniform sample, of all rows at once and in a stream (`tests.benchmarks.coreset`).
- Liuzzi, Lucidi, Manno and Rinaldi 2015, Tables 1 and 2: STDA, SVMLight's selection rule in the same code, and LIBSVM,
  C = 1, 10 and 20 (`tests.benchmarks.solver`; `results/paper_b.md` has the paper's figures).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from streamsvm.datasets import load_htru2
from tests.benchmarks import coreset, solver
from tests.benchmarks.runner import Kept
from tests.papers.table_of_sensitivities import PAPER, load, pathological, sizes, table, table_row

LEAST: Final = 64
"""Fewest points that a stream is held in."""
SOLVED: Final = ("a9a", "w8a", "ijcnn1")
"""Sets of the paper on STDA-SVM; its a1a and w3a are parts of the first two."""


def sets_without_files(folder: Path) -> Path:
    """Write the sets that are shipped or made, and return their folder."""
    folder.mkdir(exist_ok=True)
    X, y, _ = load_htru2()
    made = pathological()
    np.savez(folder / "htru2.npz", X=X, y=y)
    np.savez(folder / "pathological.npz", X=made.X, y=made.y)
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory of the .npz files")
    parser.add_argument("--rounds", default="3", help="samples of each size, and rounds of each problem")
    parser.add_argument("--rows", default="4000", help="most rows of a set of the paper on STDA-SVM")
    parser.add_argument("--out", type=Path, default=Path(".papers"), help="where results are kept")
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    data = asked.data or sets_without_files(asked.out / "sets")
    there = {file.stem for file in data.glob("*.npz")}
    kept, rows = Kept(asked.out / "sensitivities.json"), {}
    for name in [name for name in PAPER if name in there]:
        rows[name] = kept.get(name, lambda name=name: table_row(name, load(name, data)))
    print(table(rows))
    given = ["--data", str(data), "--rounds", asked.rounds]
    for name, row in rows.items():
        memory = ",".join(str(m) for m in sizes(row["n"], 15) if m >= LEAST)
        reduced = [*given, "--sets", name, "--memory", memory, "--peers", "reservoir,alg2", "--json"]
        coreset.main([*reduced, str(asked.out / "offline.json"), "--mode", "offline"])
        coreset.main([*reduced, str(asked.out / "stream.json"), "--mode", "stream"])
    solved = [*given, "--sets", ",".join(name for name in SOLVED if name in there) or "htru2", "--rows", asked.rows]
    solver.main([*solved, "--peers", "svc,stda-paper,svmlight", "--json", str(asked.out / "solver.json")])


if __name__ == "__main__":
    main()
