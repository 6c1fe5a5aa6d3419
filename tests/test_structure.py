"""The measures of the tree count what they say, on trees small enough to count by hand."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.structure import code
from tests.structure.report import measures
from tests.structure.spread import WORDS, names_of
from tests.structure.tree import Tree
from tests.structure.walk import Walk

FILES = {
    "streamsvm/__init__.py": "",
    "streamsvm/errors.py": "class Wrong(Exception):\n    def __init__(self, why: str) -> None: ...\n",
    "streamsvm/parts.py": """
        from streamsvm.errors import Wrong

        class Part:
            def turn(self) -> None:
                raise Wrong("always")

        class Plain:
            one: int
        """,
    "streamsvm/making.py": """
        from streamsvm.parts import Part, Plain

        def made() -> Part | None:
            return Part()

        def plain() -> Plain:
            return Plain()
        """,
    "streamsvm/sockets_of_parts.py": """
        from typing import Protocol

        class Source(Protocol):
            def take(self) -> int: ...
        """,
    "streamsvm/hidden.py": "class Hidden:\n    def take(self) -> int: ...\n    def unheard_of(self) -> None: ...\n",
    "consumers/__init__.py": "",
    "consumers/running.py": """
        from collections.abc import Callable
        from streamsvm import making
        from streamsvm.sockets_of_parts import Source

        class Runner:
            def __init__(self, source: Source, *, unknown) -> None:
                self._source = source
                self._unknown = unknown

            def run(self) -> None:
                made = making.made()
                made.turn()
                self._source.take()
                self._unknown.unheard_of()
                passed(making.plain)

        def passed(what: Callable[[], object]) -> None:
            what()
        """,
}


def written(root: Path, **more: str) -> Tree:
    """Write a small product, with further files by their paths, `/` written as `__`."""
    for path, text in {**FILES, **{name.replace("__", "/") + ".py": text for name, text in more.items()}}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(dedent(text))
    return Tree(root)


def test_a_walk_enters_the_rooms_that_a_reader_would(tmp_path: Path) -> None:
    """It follows types, callbacks and Protocols; exceptions, records and methods of unknown classes are no rooms."""
    walk = Walk(written(tmp_path))
    start = walk.find("Runner.run")
    assert start is not None
    assert walk.rooms(start) == {
        "consumers.running": 0,
        "streamsvm.making": 1,
        "streamsvm.parts": 1,
        "streamsvm.sockets_of_parts": 1,
    }


def test_a_name_that_is_defined_twice_is_no_start(tmp_path: Path) -> None:
    """Which of two functions is meant is not guessed."""
    walk = Walk(written(tmp_path, streamsvm__again="def passed() -> None: ..."))
    with pytest.raises(ValueError, match="passed is defined 2 times"):
        walk.find("passed")
    assert walk.find("absent") is None


@pytest.mark.parametrize("branch", sorted(WORDS))
def test_an_import_of_a_branch_is_found(tmp_path: Path, branch: str) -> None:
    """A trunk module that imports a branch names it, one in the branch's own folder does not count."""
    place = {"streamsvm__branches__" + branch + "__part": f"from streamsvm.branches.{branch} import other"}
    assert names_of(written(tmp_path, **place))[branch] == []
    tree = written(tmp_path, streamsvm__knows=f"def ask():\n    import streamsvm.branches.{branch}.part\n", **place)
    assert [module.name for module in names_of(tree)[branch]] == ["streamsvm.knows"]
    by_name = {row.name: row.now for row in measures(tree)}
    assert by_name["branches that the trunk names, of nine"] == 1
    assert by_name[f"  {branch}"] == 1


def test_words_are_looked_for_in_code_only(tmp_path: Path) -> None:
    """A docstring, a comment and a sentence may name a branch; an attribute, an option and a key do."""
    said = '"""The landmarks."""\n# landmarks\nTEXT = "give landmarks a try"\n'
    assert names_of(written(tmp_path, streamsvm__said=said))["landmarks"] == []
    for line in ("asked = config.landmarks", 'asked = "svm.landmarks"', "def ask(*, landmarks): ..."):
        found = names_of(written(tmp_path, streamsvm__said=said + line))["landmarks"]
        assert [module.name for module in found] == ["streamsvm.said"]


def test_lines_of_branches_are_no_trunk(tmp_path: Path) -> None:
    """The trunk is the product without branches, the papers' room and the drop-ins."""
    bare = written(tmp_path)
    tree = written(
        tmp_path, streamsvm__branches__events__x="\n" * 7, streamsvm__papers__y="\n" * 5, streamsvm__drop_in__z="\n"
    )
    assert tree.trunk_lines == bare.trunk_lines == bare.product_lines == tree.product_lines - 13


def test_bounds_of_code_are_counted(tmp_path: Path) -> None:
    """Attributes of bases count, parameters of compiled functions and after a star do not."""
    many = "\n".join(f"    a{at}: int" for at in range(code.MANY_ATTRIBUTES))
    text = (
        f"class Many:\n{many}\n\nclass More(Many):\n    def __init__(self):\n        self.one = 1\n"
        "def long(a, b, c, d, e, f, g): ...\ndef short(a, b, c, d, e, f, *, g): ...\n"
        "@njit(cache=True)\ndef compiled(a, b, c, d, e, f, g): ...\n"
    )
    tree = written(tmp_path, streamsvm__many=text, streamsvm__also="class Many: ...\n" + "\n" * code.LONG_LINES)
    assert code.large_classes(tree) == []  # which `Many` is the base is not guessed
    assert code.long_signatures(tree) == [("streamsvm.many.long", 7)]
    assert code.doubled_classes(tree) == [("Many", ["streamsvm.also", "streamsvm.many"])]
    assert code.long_modules(tree) == [("streamsvm/also.py", code.LONG_LINES + 1)]
    alone = written(tmp_path, streamsvm__also="")
    assert code.large_classes(alone) == [("streamsvm.many.More", code.MANY_ATTRIBUTES + 1)]


def test_attributes_that_others_prescribe_do_not_count(tmp_path: Path) -> None:
    """Parameters of estimators, options, and the state of a solver that another one derives from are left out."""
    names = [f"a{at}" for at in range(code.MANY_ATTRIBUTES + 1)]
    takes = f"    def __init__(self, {', '.join(names)}):\n" + "".join(f"        self.{one} = {one}\n" for one in names)
    fields = "".join(f"    {one}: int\n" for one in names)
    tree = written(
        tmp_path,
        streamsvm__estimators__one="class Estimator(BaseEstimator):\n" + takes,
        streamsvm__config__two="class Options:\n" + fields,
        streamsvm__svm__block__three="class Solver:\n" + fields,
        streamsvm__drop_in__four="class Other(Solver):\n    more: int\n",
        streamsvm__elsewhere="class Machine(BaseEstimator):\n" + takes,
    )
    assert code.large_classes(tree) == [("streamsvm.elsewhere.Machine", code.MANY_ATTRIBUTES + 1)]
