"""The trunk without a branch: each in `REMOVABLE` is deleted from a copy of the tree, and everything else goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from consumers.help_texts import Command
from streamsvm.sockets import DAEMONS, branches, import_name, plugs
from tests.branches.removed import IMPORTS, PACKAGES, copy_without, run_in, stream_in
from tests.brokers.fixtures import TestBroker
from tests.forked import ROOT

REMOVABLE: Final = tuple(sorted({*branches(), *branches(DAEMONS)}))
OPTIONS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "challenges": ("output.gate", {"output": {"gate": "shadow"}}),
    "events": ("features", {"features": {"amount": "number"}}),
    "history": ("archive", {"archive": {"directory": "/nowhere"}}),
    "landmarks": ("coreset.landmarks", {"svm": {"kernel": "rbf"}, "coreset": {"landmarks": 64}}),
    "late_labels": ("labels", {"labels": {"topic": "labels"}}),
    "memories": ("coreset.window_points", {"coreset": {"window_points": 1_000}}),
    "workers": ("training.workers", {"training": {"workers": 2}}),
}
"""An option that only exists with a branch, and settings that give it; the others have none of their own."""


@pytest.fixture(scope="module", params=REMOVABLE)
def branch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def tree(branch: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without the branch."""
    return copy_without(branch, tmp_path_factory.mktemp(f"without-{branch}"))


def test_nothing_of_it_is_left(branch: str, tree: Path) -> None:
    """The branch is in the tree, and not in the copy, which has all other modules."""
    begun = 0
    for package in PACKAGES:
        names = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        left = {str(path.relative_to(tree)) for path in (tree / package).rglob("*.py")}
        assert names >= left
        assert all(name.startswith(f"{package}/branches/{branch}/") for name in names - left)
        begun += f"{package}/branches/{branch}/__init__.py" in names - left
    assert begun  # on one side at least


@pytest.mark.long(keep=("events", "workers"))
def test_every_other_module_can_be_imported(tree: Path) -> None:
    """None of the trunk, and none of another branch, needs it."""
    assert run_in(tree, "-c", IMPORTS, str(tree)).strip() == ""


@pytest.mark.long(keep=("events", "workers"))
def test_a_module_that_needs_it_would_be_found(branch: str, tree: Path) -> None:
    """The check can fail: planted in the copy, for as long as this takes."""
    planted = tree / "consumers" / "planted.py"
    package = next(one for one in PACKAGES if (ROOT / one / "branches" / branch).exists())
    planted.write_text(f"import {package}.branches.{branch}\n")
    try:
        assert "consumers.planted: ModuleNotFoundError" in run_in(tree, "-c", IMPORTS, str(tree))
    finally:
        planted.unlink()


def test_help_lists_what_is_left(branch: str, tree: Path) -> None:
    """All commands but those of the branch."""
    commands = {where: import_name(where) for where in plugs("commands", DAEMONS)}
    top = {where: one.name for where, one in commands.items() if isinstance(one, Command) and not one.group}
    listed = {line.split()[1] for line in run_in(tree, "-m", "consumers", "--help").splitlines() if line[:2] == "│ "}
    gone = {name for where, name in top.items() if where.startswith(f"{DAEMONS}.{branch}.")}
    assert {"train", "score", "verify"} | set(top.values()) - gone <= listed
    assert not gone & listed


def test_its_options_are_unknown(branch: str, tree: Path) -> None:
    """They are refused as any other name that there is not."""
    if branch not in OPTIONS:
        pytest.skip(f"no option exists only with {branch}")
    option, given = OPTIONS[branch]
    program = "import json, sys\nfrom consumers.loader import load\ntry: load(json.loads(sys.argv[1]))\n"
    program += "except Exception as error: print(error)"
    said = run_in(tree, "-c", program, json.dumps({"points": {"dimension": 3}, **given}))
    assert option in said
    assert "there is no such option" in said


@pytest.mark.long(keep=("events-embedded", "history-embedded"))  # the real broker does here what the embedded one does
def test_a_stream_goes_through_without_it(broker: TestBroker, tree: Path) -> None:
    """Versions are published, points are scored, pages answer, and `verify` makes every version again."""
    servers = str(broker.connection.options["bootstrap.servers"])
    found = stream_in(tree, *([] if broker.kind == "embedded" else ["--bootstrap-servers", servers]))
    assert found["outcomes"]
    assert set(found["outcomes"]) == {"identical"}
    assert (found["status"], found["scores"]) == (0, 50)
