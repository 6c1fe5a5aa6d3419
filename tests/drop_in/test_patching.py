"""`patch_sklearn` and `python -m streamsvm.drop_in`: programs that use SVC run unchanged."""

from __future__ import annotations

import doctest
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as ORIGINAL

from streamsvm import STDASVC, STDASVR, STDALinearSVR, STDAOneClassSVM, patch_sklearn, unpatch_sklearn
from streamsvm.drop_in import patching
from tests.drop_in.svc_suite import REASONS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def patched() -> Iterator[None]:
    """scikit-learn with our classes, for one test."""
    names = ("SVC", "SVR", "OneClassSVM", "LinearSVC", "LinearSVR")
    assert patch_sklearn() == tuple(f"sklearn.svm.{name}" for name in names)
    yield
    assert unpatch_sklearn() == patching.PATCHED


def suite(kind: str) -> dict[str, list[str]]:
    """Return what scikit-learn's own tests of SVC say of a class, from a process of its own."""
    command = [sys.executable, "-m", "tests.drop_in.svc_suite", kind, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.long(only=("patched",))
@pytest.mark.parametrize("kind", ["patched", "STDASVC"])
def test_scikit_learns_own_tests_of_svc_pass(kind) -> None:
    """All of scikit-learn's tests of the five classes pass, dense and sparse, but for those with a reason."""
    found = suite(kind)
    names = {name.partition("[")[0] for name in found["failed"]}
    assert names <= set(REASONS)
    assert len(found["failed"]) == (2 if kind == "patched" else 4)
    assert len(found["passed"]) > 215


@pytest.mark.parametrize("name", ["SVR", "OneClassSVM", "LinearSVR"])
def test_the_other_classes_are_ours_by_the_old_name(patched: None, name: str) -> None:
    """A patched class is a subclass of the one it replaces, with its parameters, and gives our machines."""
    kind, X = getattr(sklearn.svm, name), np.random.default_rng(0).standard_normal((40, 3))
    assert issubclass(kind, patching.ORIGINALS[name])
    assert kind is not patching.ORIGINALS[name]
    assert kind().get_params() == patching.ORIGINALS[name]().get_params()
    options = {"random_state": 0} if name == "LinearSVR" else {"gamma": 0.5}
    assert repr(kind(tol=2.0)) == f"{name}(tol=2.0)"
    own = {"SVR": STDASVR, "OneClassSVM": STDAOneClassSVM, "LinearSVR": STDALinearSVR}[name]
    ours = own(**options).fit(X, X[:, 0]).predict(X)
    machine = pickle.loads(pickle.dumps(clone(kind(**options)).fit(X, X[:, 0])))
    np.testing.assert_array_equal(machine.predict(X), ours)


def test_what_is_put_in_is_ours_by_the_old_name(patched: None) -> None:
    """Subclass, name, parameters and the names of a pipeline's steps are what programs expect."""
    assert sklearn.svm.SVC is patching.SVC
    assert issubclass(sklearn.svm.SVC, STDASVC)
    assert issubclass(sklearn.svm.SVC, ORIGINAL)
    assert repr(sklearn.svm.SVC(C=3)) == "SVC(C=3)"
    assert sklearn.svm.SVC().get_params() == ORIGINAL().get_params()
    assert list(make_pipeline(StandardScaler(), sklearn.svm.SVC()).named_steps) == ["standardscaler", "svc"]


def test_it_can_be_taken_back() -> None:
    """After `unpatch_sklearn` the name is scikit-learn's class again, however often the patch was put in."""
    patch_sklearn()
    patch_sklearn()
    unpatch_sklearn()
    assert sklearn.svm.SVC is ORIGINAL


def test_machines_are_those_of_our_estimator(patched: None) -> None:
    """A patched SVC is STDASVC to the last bit, and stays what it is through clone and pickle."""
    X, y = load_iris(return_X_y=True)
    machine = clone(sklearn.svm.SVC(C=2.0)).fit(X, y)
    expected = STDASVC(C=2.0).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(machine.decision_function(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(machine)).decision_function(X), expected)


def test_threads_are_a_positive_number() -> None:
    """Anything else is refused, and nothing is replaced."""
    with pytest.raises(ValueError, match="threads = 0"):
        patch_sklearn(threads=0)
    assert sklearn.svm.SVC is ORIGINAL


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m streamsvm.drop_in` in a folder."""
    command = [sys.executable, "-m", "streamsvm.drop_in", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_program_runs_unchanged(tmp_path: Path) -> None:
    """A program gets its arguments, finds its neighbours, and makes our machines; a line says what was replaced."""
    (tmp_path / "neighbour.py").write_text("ANSWER = 42\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom sklearn.svm import SVC\nfrom neighbour import ANSWER\n"
        "if __name__ == '__main__':\n    print(SVC.__mro__[1].__name__, sys.argv[1:], ANSWER, SVC.threads)\n"
    )
    done = run("--threads", "2", str(program), "--threads", "9", folder=tmp_path)
    assert done.stdout == "STDASVC ['--threads', '9'] 42 2\n"
    assert done.stderr == f"streamsvm: {', '.join(patching.PATCHED)} are trained by STDA-SVM in this program\n"
    assert run("-m", "program", "x", folder=tmp_path).stdout == "STDASVC ['x'] 42 1\n"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The line says which file, and the exit code is that of a wrong command."""
    done = run("missing.py", folder=tmp_path)
    assert done.returncode == 2
    assert "missing.py: there is no such file" in done.stderr


def test_the_examples_of_the_docstring() -> None:
    """The module's example says what it prints."""
    assert doctest.testmod(patching).attempted > 0
    assert doctest.testmod(patching).failed == 0
