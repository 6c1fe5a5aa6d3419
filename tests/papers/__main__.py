"""Both papers' tables measured again: `make papers`.

    python -m tests.papers [--data DIR] [--trials 3] [--rows 4000] [--out .papers]

`--data` is a folder of the papers' sets as NAME.npz with X and y; without it the sets that need no file are measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.papers import paper_a, paper_b


def main() -> None:
    """Measure, and write tables and figures into a folder."""
    parser = argparse.ArgumentParser(description="Both papers' tables measured again.")
    parser.add_argument("--data", type=Path, help="directory of the .npz files")
    parser.add_argument("--trials", type=int, default=3, help="samples of each size, and rounds of each problem")
    parser.add_argument("--rows", type=int, default=4_000, help="most rows of a set of the paper on STDA-SVM")
    parser.add_argument("--out", type=Path, default=Path(".papers"), help="where results go")
    options = parser.parse_args()
    given = ["--trials", str(options.trials), *(["--data", str(options.data)] if options.data else [])]
    paper_a.main([*given, "--json", str(options.out / "paper_a.json"), "--out", str(options.out)])
    paper_b.main([*given, "--rows", str(options.rows), "--json", str(options.out / "paper_b.json")])


if __name__ == "__main__":
    main()
