"""The fault matrix in its long form, one line a row: `python -m tests.faults [pytest options]`.

A row is a module `test_*.py` of this directory; its title is the first line of the module's docstring. What a test
notes by `record_property` (counts, the seed) is summed, or listed, in its row's line.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@dataclass
class Row:
    """What the tests of one module came to."""

    title: str
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    words: dict[str, list[str]] = field(default_factory=dict)

    def note(self, name: str, value: object) -> None:
        """Add up a count; list anything else, and every seed."""
        if isinstance(value, int) and name != "seed":
            self.counts[name] += value
        elif str(value) not in self.words.setdefault(name, []):
            self.words[name].append(str(value))

    def line(self) -> str:
        """Return the row as it is printed."""
        verdict = "FAIL" if self.outcomes["failed"] else "ok  " if self.outcomes["passed"] else "skip"
        tests = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        notes = [f"{value:,} {name.replace('_', ' ')}" for name, value in self.counts.items()]
        notes += [f"{name} {'/'.join(values)}" for name, values in self.words.items()]
        return f"{verdict}  {self.title}: {'; '.join([tests, *notes, f'{self.seconds:.0f} s'])}"


class Matrix:
    """A pytest plugin that prints a row as soon as the last test of its module is done."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._left: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._left.update(item.nodeid.split("::")[0] for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        module = report.nodeid.split("::")[0]
        row = self.rows.setdefault(module, Row(title_of(Path(module))))
        row.seconds += report.duration
        if report.when == "call" or not report.passed:
            row.outcomes[report.outcome] += 1
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            row.note(name, value)
        self._left[module] -= 1
        if not self._left[module]:
            sys.stdout.write(f"\n{row.line()}\n")


def title_of(module: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    said = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or module.stem
    return said.splitlines()[0].rstrip(".")


def main(options: list[str]) -> int:
    """Run the tests of this directory, the long ones too, and print a line a row; what pytest is given comes last."""
    matrix = Matrix()
    chosen = [option for option in options if not option.startswith("-")]
    where = [] if any(Path(option.split("::")[0]).exists() for option in chosen) else [str(HERE)]
    status = pytest.main(["-q", "-m", "", "--timeout", "3600", *where, *options], plugins=[matrix])
    sys.stdout.write("\nThe fault matrix:\n" + "".join(f"{row.line()}\n" for row in matrix.rows.values()))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
