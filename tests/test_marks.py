"""Marks decide which tests are long, and where a test stands which ones are quick."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import marks

ROOT = Path(__file__).parent.parent
KILL = "tests/faults/test_kill.py::test_a_kill"


@dataclass(frozen=True)
class Test:
    """A collected test with the marks that it has."""

    __test__ = False

    nodeid: str
    marked: dict[str, pytest.MarkDecorator] = field(default_factory=dict)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marked[name].mark if name in self.marked else None


def marked(nodeid: str, **those: pytest.MarkDecorator) -> Test:
    return Test(nodeid, those)


def test_every_name_is_of_a_test() -> None:
    """What was renamed in its file would count as quick, and nobody would notice."""
    for name in marks.NOT_QUICK:
        file, _, function = name.partition("::")
        nodes = ast.parse((ROOT / file).read_text()).body
        assert not function or function in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}, name
    assert all((ROOT / path).exists() for path in marks.QUICK)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    ("case", "long", "is_long"),
    [
        ("[0]", pytest.mark.long(keep=("0",)), False),
        ("[1]", pytest.mark.long(keep=("0",)), True),
        ("[rbf-0]", pytest.mark.long(keep=("0", "rbf-*")), False),
        ("[1]", pytest.mark.long(only=("0",)), False),
        ("[0]", pytest.mark.long(only=("0",)), True),
        ("[0]", pytest.mark.long, True),
        ("", pytest.mark.long, True),
    ],
)
def test_a_mark_names_the_cases_that_are_kept_or_left(
    case: str, long: pytest.MarkDecorator, is_long: bool, real: bool
) -> None:
    """A mark that names none is of all cases."""
    assert marks.is_long(marked(KILL + case, long=long), [], real=real) == is_long


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("case", ["[1-embedded]", "[1-real]", "[1]", ""])
def test_a_test_without_marks_is_not_long(case: str, real: bool) -> None:
    """Whatever its id looks like."""
    assert not marks.is_long(marked(KILL + case), [f"{KILL}[1-embedded]", f"{KILL}[1-real]"], real=real)


@pytest.mark.parametrize(
    ("brokers", "real", "left"),
    [
        (("embedded",), False, "real"),
        (("embedded",), True, "real"),
        (("real",), True, "embedded"),
        (("real",), False, ""),
        (("embedded", "real"), True, ""),
    ],
)
def test_one_broker_is_enough_where_it_can_be_had(brokers: tuple[str, ...], real: bool, left: str) -> None:
    """A case is left out only if the same case runs on the other broker."""
    ids = {kind: f"{KILL}[1-{kind}-x]" for kind in ("embedded", "real")}
    tests = {kind: marked(each, enough=pytest.mark.enough(*brokers)) for kind, each in ids.items()}
    long = [kind for kind, each in tests.items() if marks.is_long(each, ids.values(), real=real)]
    assert long == [left] * bool(left)
    assert not any(marks.is_long(each, [each.nodeid], real=real) for each in tests.values())
    assert not marks.is_long(marked(f"{KILL}[1]", enough=pytest.mark.enough(*brokers)), ids.values(), real=real)


@pytest.mark.parametrize("which", ["keep", "only"])
def test_a_case_that_is_not_there_is_named(which: str) -> None:
    """Of a test that was collected; of others nothing is known."""
    long = pytest.mark.long(**{which: ("0", "rbf-*")})
    tests = [marked(f"{KILL}[{case}]", long=long) for case in ("0", "rbf-1")]
    assert marks.unmatched(tests) == []
    assert marks.unmatched(tests[:1]) == [f"{KILL}[rbf-*]"]
    assert marks.unmatched([marked(f"{KILL}[2]", long=pytest.mark.long), marked(KILL)]) == []


def test_quick_tests_start_nothing() -> None:
    """By where they stand, and by what they ask for."""
    assert marks.is_quick("tests/codec/test_points.py::test_x", ["tmp_path"])
    assert not marks.is_quick("tests/codec/test_points.py::test_x", ["real_broker"])
    assert not marks.is_quick("tests/svm/test_bias.py::test_x", [])
    assert not marks.is_quick("tests/faults/test_kill.py::test_x", [])
