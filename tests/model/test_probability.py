"""Probabilities in a model message: exact, checked, bounded in size."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from streamsvm.model import message as codec
from streamsvm.model.parts import probability_part as part_codec
from streamsvm.model.probability import Sigmoid
from tests.golden import model as golden
from tests.model.test_model import version_of
from tests.streams import gaussian

SIGMOID = Sigmoid(-1.0 / 3.0, 1e-300)


def value_of(probability: Sigmoid | None) -> bytes:
    version = version_of()
    return codec.encode(replace(version, model=replace(version.model, probability=probability)))


@pytest.mark.parametrize(
    ("probability", "written"),
    [
        (None, None),
        (SIGMOID, {"method": "sigmoid", "a": -1.0 / 3.0, "b": 1e-300}),
    ],
)
def test_probabilities_survive_their_bytes(probability: Sigmoid | None, written: object) -> None:
    """They stand in the message as plain numbers, and come back to the last bit."""
    value = value_of(probability)
    part = golden.parts_of(json.loads(value)).get("probability")
    assert (None if part is None else part["functions"]) == (None if written is None else [written])
    back = codec.decode(value)
    assert codec.encode(back) == value
    if probability is not None:
        at = np.linspace(-5.0, 5.0, 99)
        assert back.model.probability is not None
        assert back.model.probability.of(at).tobytes() == probability.of(at).tobytes()
        assert back.model.predict_proba(gaussian(5).X).shape == (5, 2)


def test_the_size_bound_counts_probabilities() -> None:
    """The largest function there can be fits into what is foreseen for it at the start."""
    most = -2.2250738585072014e-308
    assert len(msgspec.json.encode(part_codec.encoded(Sigmoid(most, most)))) <= part_codec.LARGEST_BYTES
