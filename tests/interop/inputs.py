"""What readers in Python, Node.js and Java make of points by versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.ingest import label_of
from streamsvm.model import AnyModel, ClassModel, InvalidFeatures, message as model_codec
from streamsvm.registry import Loaded
from tests.interop.programs import lines_of

Answer = list[dict[str, Any]]
"""Of one version: of each point `decision`, `label` and maybe `probability`, or the `error` for which it has none."""


def answers_to_each(
    directory: Path, values: Sequence[bytes], points: Mapping[str, str]
) -> dict[str, list[Answer | str]]:
    """Return, by language, what each of several values makes of each point, or why the value is refused.

    Raises `CannotRun` if a language's tools are missing.
    """
    files = [directory / f"model-{index}.json" for index in range(len(values))]
    for file, value in zip(files, values, strict=True):
        file.write_bytes(value)
    (directory / "points.json").write_text(f"[{','.join(points.values())}]")
    given = ["--check", str(directory / "points.json"), *map(str, files)]
    found = {"Python": [in_python(value, points) for value in values]}
    for language in ("Node.js", "Java"):
        lines = lines_of(language, directory, *given)
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
            with np.errstate(invalid="ignore"):
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
