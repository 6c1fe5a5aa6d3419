"""`python -m tests.mutants streamsvm.quality --draw 200 --seed 5eacdd55`: how many mutants of a package its tests kill.

Each mutant is played on a private copy of the checked-out commit: first the tests that run the mutated function, the
package's own before the nets; then the other tests of those of its own files. Where nothing tells which tests run it,
since it is compiled or stands outside of functions, all do. What was judged stays in .mutants, a line of JSON for each
mutant, and is not played again.

    --these FILE    judge the mutants of another file of results instead: the same faults, by the tests of this tree
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.mutants.drawing import Mutant, draw, found_again, from_row
from tests.mutants.planning import plan
from tests.mutants.playing import Copy, commit_of, private_copy

NETS: Final = ("tests/contract", "tests/promise", "tests/conformance", "tests/simulation")
ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "streamsvm.joining": ("tests/branches/late_labels",),
    "streamsvm.verification": ("tests/consumers/verify",),
}
"""Tests of a package that stand in other folders than its own and the nets."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, judge, and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("package")
    parser.add_argument("--draw", type=int, default=200)
    parser.add_argument("--seed", default="", help="by default the first eight digits of the commit's hash")
    parser.add_argument("--tree", type=Path, default=Path.cwd())
    parser.add_argument("--these", type=Path)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args(arguments)
    tree, package = given.tree.resolve(), given.package
    commit = commit_of(tree)
    seed = given.seed or commit[:8]
    results = given.results or tree / ".mutants" / f"{package}-{seed}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    with private_copy(tree) as copy:
        drawn = _these(given.these, package, copy) if given.these else draw(copy.root, package, given.draw, seed)
        judged = {from_row(row).name for row in rows}
        left = [mutant for mutant in drawn if mutant.name not in judged]
        if left:
            tests = tests_of(package, copy.root)
            nets = [net for net in NETS if (copy.root / net).exists()]
            touched = _touched(results.with_suffix(f".{commit[:8]}.json"), copy, [*tests, *nets])
            for mutant in left:
                row = {**judge(copy, mutant, touched, tests), "package": package, "seed": seed, "commit": commit[:8]}
                with results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                rows.append(row)
                print(f"{row['verdict']:9} {mutant.name} {row['by']} {row['seconds']:.0f} s", flush=True)
    names = {mutant.name for mutant in drawn}
    print(summary(package, [row for row in rows if from_row(row).name in names]))
    return 0


def judge(copy: Copy, mutant: Mutant, touched: Mapping[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    """Return the line of results of a mutant."""
    by, seconds = "", 0.0
    with copy.mutated(mutant):
        for stage in plan(copy.root, mutant, touched, tests):
            run = copy.run(stage, sum(touched[test]["seconds"] for test in stage))
            by, seconds = run.by, seconds + run.seconds
            if by:
                break
    verdict = "killed" if by else "survived" if seconds else "unreached"
    return {**mutant.__dict__, "verdict": verdict, "by": by, "seconds": round(seconds, 1)}


def tests_of(package: str, root: Path) -> list[str]:
    """Return where the tests of a package stand: `tests/quality` for `streamsvm.quality`."""
    place = "tests/" + package.removeprefix("streamsvm.").replace(".", "/")
    return [path for path in (place, *ALSO.get(package, ())) if (root / path).exists()]


def summary(package: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the share that is killed, its standard error, and each survivor with its line."""
    rows = [*rows]
    left = [row for row in rows if row["verdict"] != "killed"]
    share = 1 - len(left) / max(len(rows), 1)
    error = math.sqrt(share * (1 - share) / max(len(rows), 1))
    lines = [f"{package}: {len(rows) - len(left)} of {len(rows)} killed, {share:.3f} +- {error:.3f}"]
    for row in sorted(left, key=lambda row: (row["file"], row["line"])):
        change = f"{row['what']} {row['old'][:60]!r} -> {row['new']!r}"
        lines.append(f"  {row['verdict']}: {row['file']}:{row['line']} {change}: {row['code']}")
    return "\n".join(lines)


def _these(file: Path, package: str, copy: Copy) -> list[Mutant]:
    """Return the mutants of a package in a file of results, as they are in this tree; say which are gone."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [row for row in rows if row["package"] == package]
    rows.sort(key=lambda row: row["verdict"] != "killed")
    now = [(row, found_again(from_row(row), copy.root)) for row in rows]
    for row, mutant in now:
        if mutant is None:
            print(f"gone: {from_row(row).name}")
    return [mutant for _, mutant in now if mutant is not None]


def _touched(file: Path, copy: Copy, tests: Sequence[str]) -> dict[str, Any]:
    """Return what each test takes and touches, from a run without a mutant, or from the file of an earlier one."""
    if not file.exists():
        file.write_text(json.dumps(copy.clean(tests)))
    found: dict[str, Any] = json.loads(file.read_text())
    failed = [test for test, known in found.items() if known.get("failed")]
    if failed:
        print(f"left out, they fail without a mutant: {', '.join(failed)}")
    return {test: known for test, known in found.items() if not known.get("failed")}


if __name__ == "__main__":
    raise SystemExit(main())
