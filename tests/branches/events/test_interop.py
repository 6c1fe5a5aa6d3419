"""Raw events score alike in Python, Node.js and Java, by the recipe that the message carries."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import recipe_from
from streamsvm.choices import Multiclass
from streamsvm.model import (
    ClassModel,
    InvalidFeatures,
    LinearMachine,
    LinearMachines,
    Model,
    Scaler,
    Sigmoid,
    Version,
    message as codec,
)
from streamsvm.registry import Loaded
from tests.branches.events.recipes import PAYMENTS, payment, payments
from tests.branches.events.test_notations import CELLS
from tests.brokers.jvm import CannotRun
from tests.golden import model as golden
from tests.interop.programs import java_program, node_program

EVENTS = 10_000
CHANGES = json.loads(Path(__file__).with_name("changes.json").read_text())
"""Fields that make a payment wrong, and unusual ones that are right."""


def version() -> Version:
    """Return a linear version of payments, each column of which counts."""
    recipe = payments()
    names = columns_of(recipe).names
    chance = np.random.default_rng(5)
    coefficients = chance.normal(size=len(names))
    scaler = Scaler(chance.normal(size=len(names)), chance.uniform(0.5, 2.0, len(names)))
    return version_of(recipe, coefficients, 0.25, scaler)


def version_of(
    recipe: Recipe, coefficients: NDArray[np.float64], intercept: float = 0.0, scaler: Scaler | None = None
) -> Version:
    """Return a linear version of a recipe; without a scaler the columns count as they are."""
    names = columns_of(recipe).names
    machine = LinearMachine(coefficients, intercept)
    scaler = scaler or Scaler(np.zeros(len(names)), np.ones(len(names)))
    handmade = golden.handmade("linear")
    configuration = {**handmade.lineage.configuration, "features": recipe.plain()}
    return replace(
        handmade,
        model=Model(scaler, machine, feature_names=names),
        labels=(False, True),
        feature_names=names,
        lineage=msgspec.structs.replace(handmade.lineage, configuration=configuration),
        recipe=recipe,
    )


def asked(
    language: str, directory: Path, message: bytes, events: Sequence[Any], *more: str
) -> subprocess.CompletedProcess[str]:
    """Let a language score raw events by a message, which stand in files of a directory."""
    (directory / "model.json").write_bytes(message)
    (directory / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    command = [*evaluator(language, directory), str(directory / "model.json"), str(directory / "events.jsonl"), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def answers_of(*given: Any) -> list[dict[str, Any]]:
    """Return what it answers to each event."""
    ran = asked(*given)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def evaluator(language: str, directory: Path) -> list[str]:
    """Return the command that scores raw events, or skip with the reason why there is none."""
    try:
        if language == "Java":
            return [*java_program(), "--events"]
        return [*node_program("answers.mjs", directory, with_packages=False), "--events"]
    except CannotRun as missing:
        pytest.skip(f"no reader in {language}: {missing}")


@pytest.mark.long(keep=("Node.js",))
@pytest.mark.parametrize("language", ["Node.js", "Java"])
def test_ten_thousand_raw_events_score_alike(tmp_path: Path, language: str) -> None:
    """Within 1e-12 of what a decision value is summed of, and its reasons; what one rejects the other does, too."""
    made = version()
    events = [payment(index) for index in range(EVENTS)]
    for index in range(0, EVENTS, 97):  # what is wrong, in turns
        events[index] |= CHANGES["wrong"][index // 97 % len(CHANGES["wrong"])]
    for index in range(1, EVENTS, 89):  # what is unusual, and right
        events[index] |= CHANGES["unusual"][index // 89 % len(CHANGES["unusual"])]
    answers = answers_of(language, tmp_path, codec.encode(made), events, "3")
    assert len(answers) == EVENTS
    loaded = Loaded(version=made, sha256="", offset=0, loaded_at=0.0)
    machine, scaler = made.model.machine, made.model.scaler
    assert isinstance(machine, LinearMachine)
    rejected, scored = 0, list[tuple[dict[str, Any], dict[str, Any], float]]()
    for event, answer in zip(events, answers, strict=True):
        try:
            (x,) = loaded.features([event])
        except InvalidFeatures:
            assert "error" in answer, event
            rejected += 1
            continue
        summed = float(np.abs((x - scaler.mean) / scaler.scale * machine.coefficients).sum())
        assert answer["decision"] == pytest.approx(loaded.score(event).score, rel=0, abs=1e-12 * max(1.0, summed)), (
            event
        )
        scored.append((event, answer, 1e-12 * max(1.0, summed)))
    assert rejected == len(range(0, EVENTS, 97))
    reasons = loaded.explain([event for event, _, _ in scored], 3)
    for (event, answer, allowed), why in zip(scored, reasons, strict=True):
        told = answer["reasons"]
        assert [one["field"] for one in told["fields"]] == [one.field for one in why.fields], event
        assert told["baseline"] == why.baseline
        added = [*(one["adds"] for one in told["fields"]), told["rest"]]
        expected = [*(one.adds for one in why.fields), why.rest]
        assert np.abs(np.subtract(added, expected)).max() <= allowed, event
        assert abs(sum(added) + told["baseline"] - answer["decision"]) <= allowed, event


@pytest.mark.long(keep=("one_vs_one-Java",))
@pytest.mark.parametrize("language", ["Node.js", "Java"])
@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_five_thousand_events_of_four_labels_score_alike(tmp_path: Path, language: str, scheme: Multiclass) -> None:
    """Decision values of each label, the answer, and coupled probabilities."""
    recipe = recipe_from(PAYMENTS, {"label": {"field": "outcome", "labels": ["a", "b", "c", "d"]}, "id": "id"})
    chance, two = np.random.default_rng(6), version()
    machines = 6 if scheme == "one_vs_one" else 4
    many = LinearMachines(chance.normal(size=(machines, two.model.dimension)), chance.normal(size=machines))
    sigmoids = tuple(Sigmoid(-a, b) for a, b in chance.uniform(0.2, 1.0, (machines, 2)).tolist())
    made = replace(
        two,
        model=ClassModel(two.model.scaler, many, 4, scheme, sigmoids, two.feature_names),
        labels=("a", "b", "c", "d"),
        machines=(golden.handmade("linear-classes").machines[0],) * machines,
        lineage=msgspec.structs.replace(
            two.lineage, configuration={**two.lineage.configuration, "features": recipe.plain()}
        ),
        recipe=recipe,
    )
    events = [payment(index) for index in range(5_000)]
    answers = answers_of(language, tmp_path, codec.encode(made), events)
    loaded = Loaded(version=made, sha256="", offset=0, loaded_at=0.0)
    X = loaded.features(events)
    summed = np.abs((X - two.model.scaler.mean) / two.model.scaler.scale).sum(axis=1)[:, None]
    allowed = 1e-12 * np.maximum(1.0, summed * np.abs(many.coefficients).max())
    assert (np.abs([answer["decision"] for answer in answers] - loaded.decision_function(X)) <= allowed).all()
    assert (np.abs([answer["probability"] for answer in answers] - loaded.predict_proba(X)) <= allowed).all()
    assert [answer["label"] for answer in answers] == loaded.predict(X).tolist()
    others = codec.encode(made).replace(b'"labels":["a","b"', b'"labels":["b","a"', 1)
    ran = asked(language, tmp_path, others, events[:1])
    assert "the labels of the part 'recipe' are not the version's" in ran.stderr, ran.stdout


@pytest.mark.parametrize("language", ["Node.js", "Java"])
def test_numbers_in_other_notations_mean_the_same(tmp_path: Path, language: str) -> None:
    """Every cell of the golden file, to the bit: a feature for each notation, the sum of which is the decision."""
    grouped: dict[str, str] = {}
    for cell in CELLS:
        grouped.setdefault(json.dumps(cell["options"]), f"n{len(grouped)}")
    features = {
        name: {"as": "number", "missing": {"constant": 0}, **json.loads(options)} for options, name in grouped.items()
    }
    made = version_of(recipe_from(features, {}), np.ones(len(features)))
    events = [{grouped[json.dumps(cell["options"])]: cell["value"]} for cell in CELLS]
    answers = answers_of(language, tmp_path, codec.encode(made), events)
    found = [answer.get("decision") for answer in answers]
    expected = [0.0 if cell["number"] == "missing" else cell["number"] for cell in CELLS]
    assert {at: CELLS[at] for at, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]} == {}
