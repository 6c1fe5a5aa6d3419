"""What the marks of the tests mean: which tests `make test` leaves to `make test-long`.

A test is long where a shorter one touches what it protects, and length only makes it likelier that something is found:
more schedules, every kind of loss, each point of a program, a cluster instead of a broker. Its mark says which of its
cases `make test` runs all the same; `.ci/run` runs a share of the long cases, another share for another commit.

- `@pytest.mark.long`: all cases are long. `long(keep=("0", "rbf-*"))`: all but these; `long(only=("1",))`: these alone.
  A case is what stands in brackets in a test's id; `*` matches any text.
- `pytestmark = pytest.mark.enough("embedded")`: of the tests of this file that run on both brokers, `make test` runs
  those on the embedded broker. They are about what stands in topics; how a real broker keeps topics is what
  `tests/kafka` and the daemons' tests show. Daemons' files have `enough("real")`: that broker where one can be had. A
  test with a mark of its own, `enough("embedded", "real")`, runs on both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

OTHER_BROKER: Final = {"embedded": "real", "real": "embedded"}
"""What stands in the id of a case on one broker, and of the same case on the other one."""


class Marked(Protocol):
    """A collected test: what is read of a `pytest.Item`."""

    @property
    def nodeid(self) -> str:
        """Path, name and case."""

    def get_closest_marker(self, name: str) -> Any:
        """Return the mark of this name that stands nearest to the test, or `None`."""


def is_long(test: Marked, all_ids: Collection[str], *, real: bool) -> bool:
    """Return whether `make test` leaves out this test, one of these, where a real broker can be had or not."""
    name, case = _split(test.nodeid)
    if (mark := test.get_closest_marker("long")) is not None:
        if "only" not in mark.kwargs:
            return not _any(mark.kwargs.get("keep", ()), case)
        if _any(mark.kwargs["only"], case):
            return True
    if (enough := test.get_closest_marker("enough")) is None:
        return False
    parts = case.split("-")
    left = next((kind for kind in parts if kind in OTHER_BROKER and kind not in enough.args), None)
    if left is None or (left == "embedded" and not real):
        return False
    return f"{name}[{'-'.join(OTHER_BROKER[left] if part == left else part for part in parts)}]" in all_ids


def unmatched(tests: Iterable[Marked]) -> list[str]:
    """Return the cases that marks name and that their tests do not have.

    A case that is renamed would otherwise change its length by mistake.
    """
    cases: dict[str, list[str]] = {}
    named: dict[str, tuple[str, ...]] = {}
    for test in tests:
        if (mark := test.get_closest_marker("long")) is not None:
            name, case = _split(test.nodeid)
            cases.setdefault(name, []).append(case)
            named[name] = (*mark.kwargs.get("keep", ()), *mark.kwargs.get("only", ()))
    return [
        f"{name}[{pattern}]"
        for name, patterns in named.items()
        for pattern in patterns
        if not any(fnmatchcase(case, pattern) for case in cases[name])
    ]


def _split(nodeid: str) -> tuple[str, str]:
    name, _, case = nodeid.partition("[")
    return name, case.removesuffix("]")


def _any(patterns: Iterable[str], case: str) -> bool:
    return any(fnmatchcase(case, pattern) for pattern in patterns)
