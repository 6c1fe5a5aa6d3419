"""Raw events score alike in Python and in Node.js, by the recipe that the message carries."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamsvm.features.columns import columns_of
from streamsvm.model import message as codec
from streamsvm.model.features import InvalidFeatures
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.version import Version
from streamsvm.registry.loading import Loaded
from tests.features.recipes import payment, payments
from tests.golden import model as golden

EVENTS = 10_000
FEATURES = Path(__file__).parent / "node" / "features.mjs"


def version() -> Version:
    """Return a linear version of payments, each column of which counts."""
    recipe = payments()
    names = columns_of(recipe).names
    chance = np.random.default_rng(5)
    machine = LinearMachine(chance.normal(size=len(names)), 0.25)
    scaler = Scaler(chance.normal(size=len(names)), chance.uniform(0.5, 2.0, len(names)))
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


def test_ten_thousand_raw_events_score_alike(tmp_path: Path) -> None:
    """Within 1e-12 of the decision value, or 1e-10; what one rejects the other does, too."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    made = version()
    events = [payment(index) for index in range(EVENTS)]
    for index in range(0, EVENTS, 97):  # what is wrong, in turns
        wrong = ({"amount": "1"}, {"vip": None}, {"ts": "2026-02-30"}, {"card": 5}, {"merchant": 2**53}, {"items": {}})
        events[index] |= wrong[index // 97 % len(wrong)]
    (tmp_path / "model.json").write_bytes(codec.encode(made))
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    command = ["node", str(FEATURES), str(tmp_path / "model.json"), str(tmp_path / "events.jsonl")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == EVENTS
    loaded = Loaded(version=made, sha256="", offset=0, loaded_at=0.0)
    rejected = 0
    for event, answer in zip(events, answers, strict=True):
        try:
            own = loaded.score(event).score
        except InvalidFeatures:
            assert "error" in answer
            rejected += 1
            continue
        assert answer["decision"] == pytest.approx(own, rel=1e-12, abs=1e-10), event
    assert rejected == len(range(0, EVENTS, 97))


@pytest.mark.parametrize("broken", ["log1p", "seed", "zone"])
def test_another_evaluation_is_found_by_the_examples(tmp_path: Path, broken: str) -> None:
    """A reader whose recipe means something else does not begin to score."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    value = json.loads(codec.encode(version()))
    by_name = {feature["name"]: feature for feature in value["recipe"]["features"]}
    if broken == "log1p":
        del by_name["amount"]["log1p"]
    elif broken == "seed":
        by_name["merchant"]["seed"] = 8
    else:
        by_name["ts"]["zone"] = "UTC"
    (tmp_path / "model.json").write_text(json.dumps(value))
    (tmp_path / "events.jsonl").write_text("{}\n")
    command = ["node", str(FEATURES), str(tmp_path / "model.json"), str(tmp_path / "events.jsonl")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 1
    assert "in the message" in ran.stderr
