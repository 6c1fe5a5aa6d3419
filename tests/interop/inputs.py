"""What each of the three readers says to points that are right and wrong: `python -m tests.interop.inputs`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamsvm.errors import InvalidMessage
from streamsvm.ingest import label_of
from streamsvm.model import AnyModel, ClassModel, InvalidFeatures, Model, Threshold, message as model_codec
from streamsvm.registry import Loaded
from tests.brokers.jvm import CannotRun
from tests.golden.model import handmade
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

Answer = list[dict[str, Any]]
"""Of one version: of each point `decision`, `label` and maybe `probability`, or the `error` for which it has none."""
Answers = dict[str, Answer]


def model(threshold: Threshold | None = None) -> bytes:
    """Return the value of a version's record whose features have names."""
    version = handmade()
    own = version.model
    assert isinstance(own, Model)
    assert own.dimension == len(NAMES), own.dimension
    return model_codec.encode(replace(version, feature_names=NAMES, model=replace(own, threshold=threshold)))


def answers(directory: Path, threshold: Threshold | None = None) -> Answers:
    """Return, by language, the score and the label of each point or why it has none; see `answers_by`."""
    return answers_by(directory, model(threshold), POINTS)


def answers_by(directory: Path, value: bytes, points: Mapping[str, str]) -> Answers:
    """Return, by language, what a version's value makes of each point; no language refuses it.

    Raises
    ------
    CannotRun
        If a language's tools are missing.
    """
    found = Answers()
    for language, (answer,) in answers_to_each(directory, [value], points).items():
        assert not isinstance(answer, str), (language, answer)
        found[language] = answer
    return found


def answers_to_each(
    directory: Path, values: Sequence[bytes], points: Mapping[str, str]
) -> dict[str, list[Answer | str]]:
    """Return, by language, what each of several values makes of each point, or why the value is refused.

    Raises
    ------
    CannotRun
        If a language's tools are missing.
    """
    files = [directory / f"model-{index}.json" for index in range(len(values))]
    for file, value in zip(files, values, strict=True):
        file.write_bytes(value)
    (directory / "points.json").write_text(f"[{','.join(points.values())}]")
    given = ["--check", str(directory / "points.json"), *map(str, files)]
    node = node_program("answers.mjs", directory, with_packages=False)
    programs = {"Node.js": node, "Java": java_program("Subscriber", directory)}
    found = {"Python": [in_python(value, points) for value in values]}
    for language, command in programs.items():
        ran = subprocess.run([*command, *given], capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, (language, ran.stderr)
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        assert len(lines) == len(values), language
        found[language] = [line["refused"] if isinstance(line, dict) else line for line in lines]
    return found


def in_python(value: bytes, points: Mapping[str, str]) -> Answer | str:
    """Return what our own reader makes of each point, or why it refuses the value."""
    found = Answer()
    try:
        version = model_codec.decode(value)
    except InvalidMessage as error:
        return str(error)
    machine, loaded = version.model, Loaded(version=version, sha256="", offset=0, loaded_at=0.0)
    for text in points.values():
        point = json.loads(text)
        is_event = version.recipe is not None and isinstance(point, dict)
        try:
            X = loaded.features([point]) if is_event else point if isinstance(point, dict) else [point]
            decision = machine.decision_function(X).tolist()[0]
            found.append({"decision": decision, "label": label_of(decision, version.labels, machine.border)})
            found[-1] |= probability_of(machine, X)
        except InvalidFeatures as error:
            found.append({"error": str(error)})
    return found


def probability_of(machine: AnyModel, X: Any) -> dict[str, Any]:
    """Return the probability of the second of two labels, or of each of more, under its name; nothing without one."""
    if isinstance(machine, ClassModel):
        return {} if machine.probabilities is None else {"probability": machine.predict_proba(X)[0].tolist()}
    return {} if machine.probability is None else {"probability": float(machine.predict_proba(X)[0, 1])}


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
