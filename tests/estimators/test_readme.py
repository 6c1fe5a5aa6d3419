"""The examples of the estimators, in README, on their page and in the package's own words, run as they stand there."""

from __future__ import annotations

import csv
import doctest
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from consumers.loader import load
from streamsvm import CoresetSVC, estimators
from streamsvm.config import ModelConfig
from streamsvm.datasets import load_htru2
from streamsvm.estimators import coresetsvc, stdasvc

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def pulsars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in, but for pulsars.csv: columns by name, then a label by name."""
    X, y, names = load_htru2()
    order = np.random.default_rng(0).permutation(len(y))
    with (tmp_path / "pulsars.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*names, "label"])
        table.writerows([*map(float, X[row]), "pulsar" if y[row] > 0 else "noise"] for row in order[:6_000])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "count"), [("README.md", 1), ("streamsvm/ESTIMATORS.md", 4)])
def test_the_notebook_examples_run(page: str, count: int, pulsars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page's examples run one after another; README's prints an accuracy that is worth showing."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    examples = [code for code in blocks if "CoresetSVC" in code or "model_config" in code]
    assert len(examples) == count
    known: dict[str, object] = {}
    for example in examples:
        exec(compile(example, page, "exec"), known)
    printed = capsys.readouterr().out.split()
    assert page != "README.md" or float(printed[0]) > 0.97


def test_the_way_from_a_csv_to_a_trainer_runs(pulsars: Path) -> None:
    """The package's example says what it prints, and leaves a file that means the estimator's configuration."""
    assert doctest.testmod(estimators) == doctest.TestResults(failed=0, attempted=7)
    settings = load(file=pulsars / "streamsvm.toml").models()
    assert settings.points.labels == ("noise", "pulsar")
    assert settings.coreset.points == 2_000


@pytest.mark.parametrize(("module", "count"), [(coresetsvc, 6), (stdasvc, 5)])
def test_the_examples_of_docstrings(module: ModuleType, count: int) -> None:
    """Examples in docstrings say what they print."""
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=count)


def test_the_examples_of_the_configuration() -> None:
    """Examples in the configuration's docstrings say what they print."""
    runner = doctest.DocTestRunner()
    # The class is made of the trunk's and of branches' options: its own methods are those of its bases.
    for example in doctest.DocTestFinder().find(ModelConfig.toml, globs=vars(sys.modules[ModelConfig.__module__])):
        runner.run(example)
    assert (runner.failures, runner.tries > 0) == (0, True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": {"a": 2.0, "b": 0.25}, "alpha": 1e-5, "seed": (1 << 64) - 1},
        {"kernel": "rbf", "gamma": 0.1, "C": 3.0, "structure": "counter", "reducer": "uniform"},
        {"probability": "sigmoid", "tune": "auto", "standardize": False},
    ],
)
def test_a_file_means_the_same_configuration(options: dict[str, object], tmp_path: Path) -> None:
    """What the estimator is and what the file of it is read as have the same hash."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    machine = CoresetSVC(points=700, **options).partial_fit(X, np.where(X[:, 0] > 0, "a", "b"))
    (tmp_path / "streamsvm.toml").write_text(machine.model_config.toml())
    assert load(file=tmp_path / "streamsvm.toml").models().sha256() == machine.model_config.sha256()
