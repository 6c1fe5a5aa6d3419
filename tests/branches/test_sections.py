"""A branch is its folder: without it neither its options nor its metrics exist, and nothing else misses them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from consumers.branches.history.settings import ArchiveConfig
from consumers.loader import load
from consumers.settings import Settings
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.sections import Section, SectionOptions, extended, find_section, section

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources without the history of models."""
    copy = tmp_path_factory.mktemp("tree")
    for package in ("streamsvm", "consumers"):
        left = shutil.ignore_patterns("__pycache__", "*.npz")
        shutil.copytree(ROOT / package, copy / package, ignore=left)
    shutil.rmtree(copy / "consumers" / "branches" / "history")
    return copy


def ran(tree: Path, program: str) -> str:
    """Run a program in a tree, and return what it prints."""
    environment = {"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "STREAMSVM_TEST_TREE": str(tree)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tree, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_section_goes_with_the_folder(tree: Path) -> None:
    """There is no `[archive]` any more, and a file with one is refused as one with any unknown option."""
    (tree / "own.toml").write_text('[points]\ndimension = 2\n[archive]\ndirectory = "a"\n')
    said = ran(
        tree,
        """
        from pathlib import Path
        from consumers.loader import load
        from consumers.settings import Settings
        print("archive" in Settings.model_fields, load({"points": {"dimension": 2}}).models().points.dimension)
        try:
            load(file=Path("own.toml"))
        except Exception as error:
            print(type(error).__name__, error)
        """,
    )
    first, second = said.splitlines()
    assert first == "False 2"
    assert second.startswith("ConfigurationError invalid configuration: archive: there is no such option")


def test_metrics_go_with_the_folder(tree: Path) -> None:
    """No metric of the archive is declared, and the others are."""
    said = ran(
        tree,
        """
        from consumers.metrics import TRAINER
        names = [one.name for one in TRAINER]
        print([name for name in names if "archive" in name], "streamsvm_model_version" in names)
        """,
    )
    assert said == "[] True"


def test_the_configuration_is_the_same_without_a_branch_that_does_not_decide_models(tree: Path) -> None:
    """The hash does not depend on what is installed beside."""
    program = """
        from consumers.loader import load
        print(load({"points": {"dimension": 2}}).models().sha256())
        """
    assert ran(tree, program) == load({"points": {"dimension": 2}}).models().sha256()


def test_the_options_of_a_branch_are_found_by_their_class() -> None:
    """Whoever belongs to the branch asks with its class, and learns where the branch is not there."""
    settings = Settings()
    assert section(settings, ArchiveConfig).directory is None

    class Absent(Section):
        pass

    assert find_section(settings, Absent) is None
    with pytest.raises(ConfigurationError, match="does not have the options of Absent"):
        section(settings, Absent)


def test_options_stand_where_they_are_declared_to_stand() -> None:
    """A mixin's options come behind the option that it names, in the listing, the canonical value and the text."""

    class Trunk(Section):
        first: int = 1
        last: int = 4

    class Mixin(Section):
        second: int = 2
        third: int = 3

    made = extended(Trunk, [SectionOptions(section="", mixin=Mixin, after="first")])
    assert list(made.model_fields) == ["first", "second", "third", "last"]
    assert made(third=5).model_dump_json() == '{"first":1,"second":2,"third":5,"last":4}'
    assert made.__name__ == "Trunk"
    assert isinstance(made(), Trunk)
    with pytest.raises(ValueError, match="second"):
        Trunk(second=2)  # type: ignore[call-arg]
    assert extended(Trunk, []) is Trunk


def test_the_parts_of_a_model_stand_in_their_order() -> None:
    """Whatever branch declares a part of what is hashed."""
    assert list(ModelConfig.model_fields) == ["points", "coreset", "svm", "seed", "features", "labels"]


def test_the_hash_does_not_drift() -> None:
    """The hash of trunk's and branches' options is part of lineages: it may change only together with the options."""
    assert ModelConfig(points=PointsConfig(dimension=2)).sha256().startswith("e07cd9bfc637be9e")
