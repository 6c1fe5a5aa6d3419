"""scikit-learn's own tests of its SVMs, with our classes in the places of its own.

    python -m tests.drop_in.svc_suite [SVC | STDASVC | patched] [--json]

A test counts if it passes with scikit-learn's classes (`SVC`) and makes one of them at all: the others say nothing
about ours. `STDASVC` are our five, `patched` is what `streamsvm.patch_sklearn` puts in. Everything runs in this
process, whose scikit-learn is changed before its tests are imported: one kind a process.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest
import sklearn.svm
from sklearn.svm import _classes as defining

from streamsvm import STDASVC, STDASVR, STDALinearSVC, STDALinearSVR, STDAOneClassSVM, patch_sklearn

FILES: Final = ("sklearn.svm.tests.test_svm", "sklearn.svm.tests.test_sparse")

OURS: Final[dict[str, type]] = {
    "SVC": STDASVC,
    "SVR": STDASVR,
    "OneClassSVM": STDAOneClassSVM,
    "LinearSVC": STDALinearSVC,
    "LinearSVR": STDALinearSVR,
}

REASONS: Final = {
    "test_unfitted": "The message names the class, which is STDASVC and not SVC; what is patched in is called SVC.",
    "test_svc_raises_error_internal_representation": "The same.",
    "test_negative_weights_svc_leave_two_labels": "A negative weight is refused by name; SVC leaves the row out.",
    "test_negative_weight_equal_coeffs": "The same.",
}
"""Why a test that SVC passes fails."""


class Recorder:
    """A plugin of pytest that keeps what each test did.

    Attributes
    ----------
    passed, failed : list of str
        Names of tests.
    uses : set of str
        Tests that made an estimator of the class.
    """

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []
        self.uses: set[str] = set()
        self._running: str | None = None

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Note which test begins."""
        self._running = name_of(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.failed:
            self.failed.append(name_of(report.nodeid))
        elif report.when == "call" and report.passed:
            self.passed.append(name_of(report.nodeid))

    def watched(self, made: Callable[..., None]) -> Callable[..., None]:
        """Return a constructor that also notes the running test."""

        @functools.wraps(made)
        def constructor(*arguments: Any, **options: Any) -> None:
            if self._running is not None:
                self.uses.add(self._running)
            made(*arguments, **options)

        return constructor


def name_of(nodeid: str) -> str:
    """Return a test's name as it is with SVC; pytest writes the names of classes into those of parameters."""
    name = nodeid.rpartition("::")[2]
    for theirs, ours in OURS.items():
        name = name.replace(ours.__name__, theirs)
    return name


def run(kind: str, files: tuple[str, ...] = FILES) -> Recorder:
    """Run all tests with scikit-learn's classes ("SVC"), ours ("STDASVC"), or ours by their names ("patched")."""
    if kind == "STDASVC":
        for name, ours in OURS.items():
            setattr(sklearn.svm, name, ours)
            setattr(defining, name, ours)
    elif kind == "patched":
        patch_sklearn()
    recorder = Recorder()
    for used in [getattr(sklearn.svm, name) for name in OURS]:
        used.__init__ = recorder.watched(used.__init__)
    quiet = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "default", "--pyargs"]
    with elsewhere(), redirect_stdout(sys.stderr):
        pytest.main([*quiet, *files], plugins=[recorder])
    return recorder


@contextmanager
def elsewhere() -> Iterator[None]:
    """Leave this project's folder: its settings of pytest are not scikit-learn's."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main(arguments: list[str] | None = None) -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(description="scikit-learn's own tests of its SVMs, with ours for them.")
    parser.add_argument("kind", choices=("SVC", "STDASVC", "patched"), nargs="?", default="patched")
    parser.add_argument("--json", action="store_true", help="names of tests as JSON")
    options = parser.parse_args(arguments)
    recorder = run(options.kind)
    passed = sorted(set(recorder.passed) & recorder.uses)
    failed = sorted(set(recorder.failed))
    if options.json:
        print(json.dumps({"passed": passed, "failed": failed}))
        return
    print(f"{options.kind}: of the tests that make one of the five {len(passed)} passed; {len(failed)} of all failed")
    for name in failed:
        print(f"  {name}: {REASONS.get(name.partition('[')[0], '?')}")


if __name__ == "__main__":
    main()
