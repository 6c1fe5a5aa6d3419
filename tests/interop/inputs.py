"""What each of the three readers says to points that are right and wrong: `python -m tests.interop.inputs`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamsvm.ingest.scored import label_of
from streamsvm.model import message as model_codec
from streamsvm.model.features import InvalidFeatures
from streamsvm.model.machine import Model
from streamsvm.model.threshold import Threshold
from tests.brokers.jvm import CannotRun
from tests.codec.test_model import version_of
from tests.interop.programs import java_program, node_program

NAMES: Final = ("mean", "width", "skew")
ROW: Final = [1.0, -2.0, 4.0]
POINTS: Final[Mapping[str, str]] = {
    "in order": "[1.0, -2.0, 4.0]",
    "integers": "[1, -2, 4]",
    "by name": '{"mean": 1.0, "width": -2.0, "skew": 4.0}',
    "by name, another order": '{"skew": 4, "mean": 1, "width": -2}',
    "one feature": "[5.0]",
    "one too many": "[1, -2, 4, 0]",
    "none": "[]",
    "a number": "5.0",
    "a name missing": '{"mean": 1, "skew": 4}',
    "a name too many": '{"mean": 1, "width": -2, "skew": 4, "id": 7}',
    "a misspelt name": '{"mean": 1, "widht": -2, "skew": 4}',
    "null": "[1, null, 4]",
    "null by name": '{"mean": 1, "width": null, "skew": 4}',
    "infinity": "[1, 1e999, 4]",
    "text": '["1", "-2", "4"]',
    "text by name": '{"mean": "1", "width": -2, "skew": 4}',
    "true": "[1, -2, true]",
}
"""Points as JSON, the features' names being `NAMES`."""

Answers = dict[str, list[dict[str, Any]]]


def model(threshold: Threshold | None = None) -> bytes:
    """Return the value of a version's record whose features have names."""
    from dataclasses import replace

    version = version_of()
    own = version.model
    assert isinstance(own, Model)
    assert own.dimension == len(NAMES), own.dimension
    return model_codec.encode(replace(version, feature_names=NAMES, model=replace(own, threshold=threshold)))


def answers(directory: Path, threshold: Threshold | None = None) -> Answers:
    """Return, by language, the score and the label of each point or why it has none; see `answers_by`."""
    return answers_by(directory, model(threshold), POINTS)


def answers_by(directory: Path, value: bytes, points: Mapping[str, str]) -> Answers:
    """Return, by language, what a version's value makes of each point.

    Raises
    ------
    CannotRun
        If a language's tools are missing.
    """
    (directory / "model.json").write_bytes(value)
    (directory / "points.json").write_text(f"[{','.join(points.values())}]")
    given = ["--check", str(directory / "model.json"), str(directory / "points.json")]
    programs = {"Node.js": node_program("subscriber.mjs", directory), "Java": java_program("Subscriber", directory)}
    found = {"Python": in_python(value, points)}
    for language, command in programs.items():
        ran = subprocess.run([*command, *given], capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr
        found[language] = [json.loads(line) for line in ran.stdout.splitlines()]
    return found


def in_python(value: bytes, points: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what our own reader says."""
    version, found = model_codec.decode(value), list[dict[str, Any]]()
    machine = version.model
    for text in points.values():
        point = json.loads(text)
        try:
            decision = machine.decision_function(point if isinstance(point, dict) else [point]).tolist()[0]
            found.append({"decision": decision, "label": label_of(decision, version.labels, machine.border)})
        except InvalidFeatures as error:
            found.append({"error": str(error)})
    return found


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as directory:
        found = answers(Path(directory))
    table = Table("point", *found, show_lines=True)
    for index, (name, text) in enumerate(POINTS.items()):
        told = [answer[index] for answer in found.values()]
        shown = [str(one["error"] if "error" in one else np.round(one["decision"], 6)) for one in told]
        table.add_row(*map(escape, (f"{name}\n{text}", *shown)))
    Console(width=200).print(table)


if __name__ == "__main__":
    try:
        main()
    except CannotRun as missing:
        raise SystemExit(f"not run: {missing}") from None
