"""A branch whose folders are deleted is missed by nobody: trainer, scorer, page and `verify` work without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamsvm.sockets import DAEMONS, LIBRARY, branches

ROOT = Path(__file__).parents[2]
BRANCHES = sorted({*branches(LIBRARY), *branches(DAEMONS)})
OF_TESTS = ("__init__.py", "streams.py", "consumers/__init__.py", "consumers/trainers.py")

LIVED = """
import sys, tempfile, threading
from pathlib import Path
from consumers.cli import app
from consumers.host.runtime import Health
from consumers.metrics import SCORER, Metrics
from consumers.page.site import site_of
from consumers.scorer.components import ScorerComponents
from consumers.scorer.scorer import Scorer
from consumers.settings import ScoringConfig
from consumers.verify.verify import verify
from streamsvm.kafka import Cluster, EmbeddedBroker
from streamsvm.supports import markdown
from tests.consumers.trainers import produce, records, run_until, settings_for

with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as directory:
    settings, connection = settings_for("v", Path(directory)), broker.connection
    scoring = ScoringConfig(topic=settings.input.topic, output_topic="v-scores", group="v-scorer")
    settings = settings.model_copy(update={"scoring": scoring})
    produce(connection, settings.input.topic, records(90))
    trained = run_until(settings, connection, 90)
    answer = site_of(settings, trained.board, trained.metrics, trained.health)
    assert answer("/").body and answer("/status.json").body
    stop, metrics = threading.Event(), Metrics(SCORER)
    parts = ScorerComponents(connection=connection, metrics=metrics, health=Health(stuck_after_s=60.0), stop=stop)
    scorer = threading.Thread(target=Scorer(settings, parts).run, daemon=True)
    scorer.start()
    for _ in range(600):
        if metrics.registry.get_sample_value("streamsvm_scored_points_total") == 90:
            break
        stop.wait(0.1)
    stop.set()
    scorer.join(60.0)
    cluster = Cluster(connection)
    report, partitions = verify(cluster, settings), cluster.describe("v-scores").partitions
    scores = sum(len(list(cluster.read_to_end("v-scores", one, timeout_s=30.0))) for one in partitions)
    print(len(report.rows), report.clean, scores, app.__file__)
assert markdown()
print(*sorted(name for name in sys.modules if name.startswith(BRANCH)))
"""
"""A small stream that a trainer learns, a scorer scores and `verify` recomputes; then the branch's modules."""
GATED = """
from consumers.loader import load
try:
    load({"points": {"dimension": 3}, "output": {"gate": "shadow"}})
except Exception as error:
    print(error)
"""


def run_in(tree: Path, branch: str, program: str) -> list[str]:
    """Run a program over the modules of a tree; return the lines that it prints."""
    begins = tuple(f"{root}.branches.{branch}" for root in ("streamsvm", "consumers"))
    where = {**os.environ, "PYTHONPATH": str(tree)}
    text = f"BRANCH = {begins}\n{program}"
    ran = subprocess.run([sys.executable, "-c", text], cwd=tree, env=where, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def tree_without(branch: str, place: Path) -> Path:
    """Copy the packages without a branch, and of the tests only what makes a small stream."""
    folders = {ROOT / package / "branches" / branch for package in ("streamsvm", "consumers")}

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder) / name in folders}

    for package in ("streamsvm", "consumers"):
        shutil.copytree(ROOT / package, place / package, ignore=left_out)
    for name in OF_TESTS:
        (place / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "tests" / name, place / "tests" / name)
    return place


@pytest.mark.parametrize("branch", BRANCHES)
def test_all_daemons_work_without_a_branch(branch: str, tmp_path: Path) -> None:
    """One version for each 40 rows is verified, each row is scored, and nothing looks for what was deleted."""
    tree = tree_without(branch, tmp_path)
    *_, lived, loaded = run_in(tree, branch, LIVED)
    assert lived == f"2 True 90 {tree / 'consumers' / 'cli' / 'app.py'}"
    assert loaded == ""


def test_options_of_a_removed_branch_are_unknown(tmp_path: Path) -> None:
    """They are refused as any other name that there is not."""
    said = "\n".join(run_in(tree_without("challenges", tmp_path), "challenges", GATED))
    assert "output.gate: there is no such option" in said


def test_what_is_missed_would_be_found(tmp_path: Path) -> None:
    """The check can fail: a trunk that needs the branch ends with an error."""
    tree = tree_without("challenges", tmp_path)
    loader = tree / "consumers" / "verify" / "verify.py"
    loader.write_text(loader.read_text() + "\nfrom consumers.branches.challenges import judging\n")
    with pytest.raises(AssertionError, match=r"consumers\.branches\.challenges"):
        run_in(tree, "challenges", LIVED)
