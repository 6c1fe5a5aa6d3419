"""The wheel `streamsvm-reader` follows and scores models with three libraries, alone in an environment of its own.

Both wheels are built from this tree as `make` builds them. The environment is made without a network: the reader's
wheel is installed by pip, and the files of the libraries that it requires are linked from the environment of the tests,
theirs and no others'; `pip check` then says whether anything that the wheel requires is missing.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.model import message as model_codec
from streamsvm.registry import Loaded
from tests.brokers.fixtures import TestBroker
from tests.deploy.checkers import said
from tests.deploy.files import DEPLOY, ROOT
from tests.golden import HERE
from tests.registry.test_subscriber import NAME, Trainer, version_of

READER = DEPLOY / "reader"
GOLDEN = sorted(HERE.glob("model-1-*.json"))
X = [[0.5, -2.0], [3.0, 1.0]]
FOLLOWING = f"""
import json, sys
from streamsvm import ModelSubscriber
connection, topic = json.loads(sys.argv[1]), sys.argv[2]
with ModelSubscriber(connection, {NAME!r}, models_topic=topic) as subscriber:
    loaded = subscriber.wait_ready(timeout_s=30)
    said = {{"version": loaded.version.number, "values": loaded.decision_function({X}).tolist()}}
print(json.dumps(said))
"""
SCORING = """
import sys
from pathlib import Path
from streamsvm.model import message
from streamsvm.registry.subscriber import Loaded
for path in map(Path, sys.argv[1:]):
    value = path.read_bytes()
    version = message.decode(value)
    X = [[0.25 * (row - column) for column in range(version.model.dimension)] for row in range(5)]
    print(Loaded(version=version, sha256=message.sha256(value), offset=0, loaded_at=0.0).decision_function(X).tolist())
"""


def built(folder: Path, into: Path) -> Path:
    """Build the wheel of a folder's pyproject.toml and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", into]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(READER, tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("whole"))


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files that a wheel installs, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        return {name: archive.read(name) for name in names}


def requirements(distribution: str) -> Iterator[Requirement]:
    """Yield what a distribution requires here, without extras."""
    for line in importlib.metadata.requires(distribution) or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def link_distribution(name: str, site: Path) -> None:
    """Link an installed distribution, and those that it requires, into an environment."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or []:
        top = file.parts[0]
        if top != ".." and not (site / top).exists():
            (site / top).symlink_to(distribution.locate_file(top))
    for requirement in requirements(name):
        link_distribution(requirement.name, site)


@pytest.fixture(scope="module")
def python(reader: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the reader and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", str(reader)]
    subprocess.run([interpreter, *install], check=True, capture_output=True, text=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for line in tomllib.loads((READER / "pyproject.toml").read_text())["project"]["dependencies"]:
        link_distribution(Requirement(line).name, site)
    return interpreter


def run(python: Path, program: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program away from this tree, by an interpreter that looks into its own environment only."""
    command = [python, "-I", "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120)


def test_it_requires_what_the_whole_requires_of_the_same() -> None:
    """The bounds of each library are the whole's, and so are its version, its Python and its licence."""
    mine = tomllib.loads((READER / "pyproject.toml").read_text())["project"]
    theirs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(mine["dependencies"]) < set(theirs["dependencies"])
    assert mine["optional-dependencies"] == {"sign": theirs["optional-dependencies"]["sign"]}
    assert [mine[key] for key in ("requires-python", "license")] == [
        theirs[key] for key in ("requires-python", "license")
    ]


def test_both_wheels_have_one_version_and_the_same_bytes(reader: Path, whole: Path) -> None:
    """What the two share is the same file, so that whichever is installed last changes nothing."""
    mine, theirs = contents(reader), contents(whole)
    assert mine.items() <= theirs.items()
    assert len(theirs) > 3 * len(mine)
    assert [reader.name.split("-")[1:], whole.name.split("-")[1:]] == [whole.name.split("-")[1:]] * 2


def test_nothing_that_it_requires_is_missing(python: Path) -> None:
    """pip finds each library that the wheel names, in a version that it allows."""
    assert said(python, "-m", "pip", "check") == ""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    names = {one["name"] for one in json.loads(listed.stdout)} - {"pip", "setuptools"}
    assert names == {"confluent-kafka", "msgspec", "numpy", "streamsvm-reader"}


def test_it_follows_a_model_on_a_real_broker(python: Path, real_broker: TestBroker, tmp_path: Path) -> None:
    """A version that is published arrives with its decision values."""
    topic, version = real_broker.name("models"), version_of(3)
    Cluster(real_broker.connection).create([TopicSpec(topic), TopicSpec(f"{topic}.aliases")])
    with closing(Trainer(real_broker.connection, topic)) as trainer:
        trainer.publish(version)
    done = run(python, FOLLOWING, json.dumps(dict(real_broker.connection.options)), topic, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["version"] == 3
    assert said["values"] == Loaded(version=version, sha256="ab", offset=0, loaded_at=0.0).decision_function(X).tolist()


def test_every_module_of_the_wheel_can_be_imported(python: Path, reader: Path, tmp_path: Path) -> None:
    """Nothing in it needs a module or a library that is only in the whole."""
    names = [name for name in contents(reader) if name.endswith(".py")]
    modules = [name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in names]
    assert len(modules) > 30
    done = run(python, f"import importlib\nfor name in {modules}: importlib.import_module(name)", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_it_scores_kept_messages(python: Path, tmp_path: Path) -> None:
    """Each golden message gives the decision values that the whole gives, to the last bit."""
    done = run(python, SCORING, *GOLDEN, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for golden, told in zip(GOLDEN, done.stdout.splitlines(), strict=True):
        version = model_codec.decode(golden.read_bytes())
        points = 0.25 * (np.arange(5)[:, None] - np.arange(version.model.dimension))
        loaded = Loaded(version=version, sha256="ab", offset=0, loaded_at=0.0)
        assert json.loads(told) == loaded.decision_function(points).tolist(), golden


@pytest.mark.parametrize("name", ["CoresetSVC", "STDASVC"])
def test_what_only_the_whole_has_is_named_with_its_remedy(name: str, python: Path, tmp_path: Path) -> None:
    """An estimator is asked for where only the reader is installed."""
    done = run(python, f"from streamsvm import {name}", folder=tmp_path)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: streamsvm.{name} is not part of streamsvm-reader, which follows and scores models only. "
        "Install the whole: pip uninstall streamsvm-reader, then pip install streamsvm"
    )


def test_signatures_name_the_library_that_they_need(python: Path, tmp_path: Path) -> None:
    """Without the extra, a reader that is given public keys says what to install."""
    done = run(
        python, "from streamsvm.registry.signing import TrustedKeys\nTrustedKeys.of(texts=['key'])", folder=tmp_path
    )
    assert "'streamsvm-reader[sign]'" in done.stderr.splitlines()[-1]
