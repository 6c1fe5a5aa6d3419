"""Prints the measures of a tree, and what is beyond each bound."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from tests.structure.report import Measure, measures, table
from tests.structure.tree import Tree

HERE = Path(__file__).parents[2]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("--tree", type=Path, default=HERE, metavar="DIR", help="checkout to measure; default: this one")
    parser.add_argument("--against", type=Path, metavar="DIR", help="an earlier checkout, for a column before")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--brief", action="store_true", help="print the table only, without what is beyond a bound")
    asked = parser.parse_args()
    rows = measures(Tree(asked.tree))
    before = measures(Tree(asked.against)) if asked.against else None
    if asked.json:
        print(json.dumps({"now": _plain(rows), "before": _plain(before)}, indent=2))
        return
    print(table(rows, before, _shown))
    if not asked.brief:
        print(*_beyond(rows), sep="\n")


def _plain(rows: list[Measure] | None) -> list[dict[str, object]] | None:
    return None if rows is None else [dataclasses.asdict(row) for row in rows]


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,.6g}" if number < 1_000 else f"{number:,.0f}"


def _beyond(rows: list[Measure]) -> list[str]:
    lines = []
    for row in rows:
        if not row.is_kept:
            lines += ["", f"{row.name.strip()}: {_shown(row.now)}, asked {_shown(row.asked)}"]
            lines += [f"  {one}" for one in row.violations]
    return lines


if __name__ == "__main__":
    main()
