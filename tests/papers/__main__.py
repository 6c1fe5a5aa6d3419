"""Both papers' tables measured again: `make papers`.

    python -m tests.papers [--data DIR] [--rounds 3] [--rows 4000] [--out .papers]

`--data` is a folder of the papers' sets as NAME.npz with X and y; without it the sets that need no file are measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.papers import paper_a, paper_b


def main() -> None:
    """Measure; what is kept in the folder is not measured again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory of the .npz files")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each size, and rounds of each problem")
    parser.add_argument("--rows", type=int, default=4_000, help="most rows of a set of the paper on STDA-SVM")
    parser.add_argument("--out", type=Path, default=Path(".papers"), help="where results are kept")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    given = ["--rounds", str(asked.rounds), *(["--data", str(asked.data)] if asked.data else [])]
    paper_a.main([*given, "--json", str(asked.out / "paper_a.json")])
    paper_b.main([*given, "--rows", str(asked.rows), "--json", str(asked.out / "paper_b.json")])


if __name__ == "__main__":
    main()
