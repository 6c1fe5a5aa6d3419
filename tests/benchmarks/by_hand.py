"""Raw tables through the commands of a first day, beside a pipeline that a person would write for them.

    python -m tests.benchmarks.by_hand --data DIR --tables telco.csv:Churn,bank.csv:y
        [--class-weight balanced] [--broker HOST:PORT] [--json]

Each CSV of DIR goes, unread, through `features infer` and `evaluate --config`, as both print and without a change. By
hand is scikit-learn on the same training rows, judged on the same test rows: numbers with the mean for what is missing,
all other columns one-hot, a column of which no two cells are equal left out; standardised; `LinearSVC` by hinge loss
with the same C and class weights, and once more as it comes, with its own C and loss.

With --broker the file is also sent, trained on and scored there by the same configuration: `same_version` tells whether
what was published is what `evaluate` named by its hash, and `scores` is how many rows have a score; `auc_of_scores` is
over all rows, those learned among them. Topics of the tables' names must not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from confluent_kafka import Consumer
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

PROGRAM: Final = (sys.executable, "-m", "consumers")
TEST_SHARE: Final = 0.2
SEED: Final = 0
"""Of `evaluate`, too."""
DEADLINE_S: Final = 120.0


def command(*words: str) -> str:
    """Run `streamsvm`, and return what it prints."""
    wide = {**os.environ, "COLUMNS": "200"}
    return subprocess.run([*PROGRAM, *words], stdout=subprocess.PIPE, text=True, check=True, env=wide).stdout


def order_of(rows: int) -> tuple[Any, Any]:
    """Return the places of the training rows, and of those that `evaluate` sets aside."""
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(rows)
    aside = round(TEST_SHARE * rows)
    return order[aside:], order[:aside]


def pipeline(frame: pd.DataFrame, machine: LinearSVC) -> Pipeline:
    """Return what a person writes for such columns."""
    numbers = list(frame.select_dtypes("number"))
    texts = [name for name in frame if name not in numbers and frame[name].nunique() < len(frame)]
    columns = ColumnTransformer(
        [
            ("numbers", SimpleImputer(), numbers),
            ("texts", OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        ]
    )
    return make_pipeline(columns, StandardScaler(), machine)


def by_hand(frame: pd.DataFrame, truth: Any, C: float, class_weight: str | None) -> dict[str, float]:
    """Return the areas under the curve of both machines on the rows set aside."""
    taught, judged = order_of(len(frame))
    machines = {
        "auc_by_hand": LinearSVC(loss="hinge", C=C, class_weight=class_weight, max_iter=20_000, random_state=SEED),
        "auc_by_hand_as_it_comes": LinearSVC(random_state=SEED),
    }
    found = {}
    for name, machine in machines.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 20,000 passes are a bound on the time
            made = pipeline(frame, machine).fit(frame.iloc[taught], truth[taught])
        found[name] = round(float(roc_auc_score(truth[judged], made.decision_function(frame.iloc[judged]))), 4)
    return found


def measured(file: Path, label: str, folder: Path, broker: str | None, *, balanced: bool) -> dict[str, Any]:
    """Return the row of a table."""
    config = folder / f"{file.stem}.toml"
    config.write_text(command("features", "infer", str(file), "--label", label))
    options = tomllib.loads(config.read_text())
    if balanced and "svm" not in options:
        config.write_text(f'{config.read_text()}\n[svm]\nclass_weight = "balanced"\n')
        options = tomllib.loads(config.read_text())
    positive = options["events"]["label"]["positive"][0]
    begun = time.perf_counter()
    report = json.loads(command("evaluate", str(file), "--config", str(config), "--no-optimum", "--json"))
    seconds = time.perf_counter() - begun
    frame = pd.read_csv(file, na_values=[" "])
    truth = (frame.pop(label) == positive).to_numpy()
    assert report["training_points"] + report["test_points"] == len(frame), "rows were rejected"
    (ours,) = (row for row in report["rows"] if row["contender"] == "streamsvm")
    row: dict[str, Any] = {
        "table": file.stem,
        "rows": len(frame),
        "positive": round(float(truth.mean()), 4),
        "features": len(options["features"]),
        "columns": report["dimension"],
        "class_weight": options.get("svm", {}).get("class_weight", "none"),
        "evaluate_s": round(seconds, 1),
        "auc": round(ours["auc"], 4),
        **by_hand(frame, truth, report["C"], options.get("svm", {}).get("class_weight")),
    }
    if broker is not None:
        row |= served(file, config, folder, broker, report["version"], truth)
    return row


# ------------------------------------------------------------- by the commands


@contextmanager
def running(log: Path, *words: str) -> Iterator[None]:
    """Run a daemon, and stop it."""
    with log.open("w") as out, subprocess.Popen([*PROGRAM, *words], stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()


def served(file: Path, config: Path, folder: Path, broker: str, version: Any, truth: Any) -> dict[str, Any]:
    """Send, train and score; return whether the version is that of `evaluate`, and what the scores come to."""
    name = file.stem
    at = ("--bootstrap-servers", broker)
    own = ("--name", name, "--output-models-topic", f"{name}-models", *at)
    daemon = (*own, "--http-port", "0")
    sent = ("--events", "--create", "1", "--config", str(config), *at)
    checkpoint = ("--checkpoint-directory", str(folder / f"{name}-checkpoint"))
    command("replay", str(file), "--topic", name, *sent)
    trained = ("train", "--config", str(config), "--input-topic", name, *checkpoint, *daemon)
    with running(folder / f"{name}-train.log", *trained):
        shown = until_covers(own, version["rows"])
    command("replay", str(file), "--unlabeled", "--topic", f"{name}-unlabeled", *sent)
    scored = ("--scoring-topic", f"{name}-unlabeled", "--scoring-output-topic", f"{name}-scores")
    with running(folder / f"{name}-score.log", "score", *scored, *daemon):
        scores = scores_of(broker, f"{name}-scores", len(truth))
    return {
        "same_version": version["content_sha256"] in shown,
        "version_rows": version["rows"],
        "scores": len(scores),
        "auc_of_scores": round(float(roc_auc_score(truth[: len(scores)], scores)), 4),
    }


def until_covers(own: Sequence[str], rows: int) -> str:
    """Return what `model show` prints of the version that covers so many rows, once it is published."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        asked = subprocess.run([*PROGRAM, "model", "list", "--json", *own], capture_output=True, text=True, check=False)
        for one in json.loads(asked.stdout or "[]"):
            if one["points"] == rows:
                return command("model", "show", "--version", str(one["version"]), *own)
        time.sleep(0.5)
    raise SystemExit(f"no version of {rows:,} rows within {DEADLINE_S:.0f} s: {asked.stderr}")


def scores_of(broker: str, topic: str, expected: int) -> list[float]:
    """Return the scores of a topic in their order."""
    options = {"bootstrap.servers": broker, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer, scores = Consumer(options), list[float]()
    consumer.subscribe([topic])
    deadline = time.monotonic() + DEADLINE_S
    while len(scores) < expected and time.monotonic() < deadline:
        records = consumer.consume(10_000, 1.0)
        scores += [json.loads(record.value())["score"] for record in records if record.error() is None]
    consumer.close()
    return scores


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the files")
    parser.add_argument("--tables", required=True, help="FILE:LABEL, separated by commas")
    parser.add_argument("--class-weight", choices=("balanced",), help="of both, also where it is not proposed")
    parser.add_argument("--broker", help="host:port of a Kafka broker")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for table in options.tables.split(","):
            file, _, label = table.partition(":")
            balanced = options.class_weight is not None
            found.append(measured(options.data / file, label, Path(folder), options.broker, balanced=balanced))
    print(json.dumps(found, indent=2) if options.json else text_of(found))


def text_of(found: Sequence[dict[str, Any]]) -> str:
    """Return the rows for people."""
    lines = []
    for row in found:
        lines.append(
            f"{row['table']:10} {row['rows']:7,} rows, {row['features']:2} features, {row['columns']:3} columns, "
            f"{row['positive']:.1%} positive, class_weight {row['class_weight']}: AUC {row['auc']:.4f}, by hand "
            f"{row['auc_by_hand']:.4f}, as it comes {row['auc_by_hand_as_it_comes']:.4f}; {row['evaluate_s']} s"
        )
        if "scores" in row:
            lines.append(
                f"    trained on {row['version_rows']:,} rows: {'the' if row['same_version'] else 'NOT the'} version "
                f"of evaluate; {row['scores']:,} scores, AUC {row['auc_of_scores']:.4f} over all rows"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
