"""Every configuration has every property: one trained stream a configuration, shared by all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from consumers import constants
from consumers.branches.history import erase
from consumers.settings import Settings
from streamsvm.kafka import Connection, EmbeddedBroker
from streamsvm.learning import Learner, LearnerState
from streamsvm.points import Position, Rows
from streamsvm.registry import load_version
from tests.branches.events.recipes import payment
from tests.brokers.jvm import CannotRun
from tests.conformance import golden, properties
from tests.conformance.configurations import MODELS, TABLE
from tests.conformance.properties import PROPERTIES, as_golden, batched, probable
from tests.conformance.runs import Published, publish
from tests.interop.inputs import Answer, answers_to_each, in_python
from tests.streams import gaussian

Trained = Callable[[str], Published]
Told = dict[str, dict[str, Answer]]
PROBES = {f"point {at}": json.dumps(x.tolist()) for at, x in enumerate(gaussian(20, seed=9).X)} | {
    f"event {at}": json.dumps({**payment(1_000 + at), "is_fraud": None}) for at in range(20)
}


@pytest.fixture(scope="module")
def trained() -> Iterator[Trained]:
    """What a trainer published of a configuration, made when it is first asked for."""
    made = dict[str, Published]()
    with ExitStack() as brokers:

        def of(name: str) -> Published:
            if name not in made:
                made[name] = publish(name, brokers.enter_context(EmbeddedBroker()))
            return made[name]

        yield of


@pytest.mark.parametrize("records_a_poll", [3, 1_000])
@pytest.mark.parametrize("name", TABLE)
def test_batches_change_nothing(
    name: str, records_a_poll: int, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever number of records a poll returns, the versions have the same bytes."""
    published = trained(name)
    monkeypatch.setattr(constants, "BATCH_RECORDS", records_a_poll)
    assert batched(name, published) == ""


@pytest.mark.parametrize("of", [of for of in PROPERTIES if of != "batches"])
@pytest.mark.parametrize("name", TABLE)
def test_a_configuration_has_a_property(name: str, of: str, trained: Trained) -> None:
    """Restarts change nothing, verifier and estimator make the same, and one changed bit is found."""
    assert PROPERTIES[of](name, trained(name)) == ""


@pytest.mark.parametrize("name", TABLE)
def test_the_bytes_are_the_golden_ones(name: str, trained: Trained) -> None:
    """`python -m tests.conformance.golden` writes them."""
    assert as_golden(name, trained(name), golden.read()) == ""


@pytest.fixture(scope="module")
def told(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What each language makes of the probes, by configuration: one process a language."""
    values = {name: trained(name).values[-1] for name in TABLE}
    try:
        found = answers_to_each(tmp_path_factory.mktemp("readers"), list(values.values()), PROBES)
    except CannotRun:
        found = {"Python": [in_python(value, PROBES) for value in values.values()]}
    return {language: dict(zip(values, answers, strict=True)) for language, answers in found.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["Node.js", "Java"])
@pytest.mark.parametrize("name", TABLE)
def test_every_reader_agrees(name: str, language: str, told: Told) -> None:
    """On decision, label and probability of each probe, and on which of them is none."""
    if language not in told:
        pytest.skip(f"there is no reader in {language} here")
    answers = told["Python"][name]
    assert sum("decision" in answer for answer in answers) >= 20
    assert unlike(answers, told[language][name]) == []


def unlike(answers: Answer, others: Answer) -> list[Any]:
    """Return the pairs of answers that differ by more than rounding."""
    return [pair for pair in zip(answers, others, strict=True) if not alike(*pair)]


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two answers are the same but for rounding; errors are worded by each language."""
    if one.keys() != other.keys() or one.get("label") != other.get("label"):
        return False
    return all(
        other[number] == pytest.approx(one[number], rel=1e-12, abs=1e-12) for number in one.keys() - {"label", "error"}
    )


@pytest.mark.parametrize("name", TABLE)
def test_the_subscriber_answers_as_the_message_says(name: str, trained: Trained, told: Told) -> None:
    """What is fetched from the topic decides to the last bit as the bytes that were published."""
    loaded = load_version(trained(name).broker.connection, "m", models_topic=MODELS, number=len(trained(name).values))
    for text, answer in zip(PROBES.values(), told["Python"][name], strict=True):
        if "decision" in answer:
            probe = json.loads(text)
            X = loaded.features([probe]) if isinstance(probe, dict) else [probe]
            assert loaded.decision_function(X)[0].tolist() == answer["decision"]
            assert loaded.predict(X)[0] == answer["label"]


def test_what_the_sample_is_too_small_for_is_said() -> None:
    """A version without probabilities each time, with the reason; a threshold that is not chosen once a start."""
    with capture_logs() as logs, EmbeddedBroker() as broker:
        published = publish("probability, cost", broker)
    without = [one.key for one in published.versions if not probable(one)]
    assert 0 < len(without) < len(published.versions)
    said = [one for one in logs if one["event"] == "no_probability"]
    assert [one["version"] for one in said] == without
    assert all("10 are needed" in one["reason"] for one in said)
    (once,) = [one for one in logs if one["event"] == "threshold_not_chosen"]
    assert "coreset.points" in once["remedy"]


# ---------------------------------------------------------------- the matrix can fail


@pytest.fixture
def linear(trained: Trained) -> Published:
    """The plainest configuration."""
    return trained("linear")


def test_a_restart_that_comes_back_otherwise_is_found(linear: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the weights of an open leaf lose their last digits."""
    restore = Learner.restore

    def rounded(learner: Learner, state: LearnerState) -> None:
        parts = {
            at: replace(one, leaf=one.leaf.reweighted(np.round(one.leaf.weight, 9)))
            for at, one in state.partitions.items()
        }
        restore(learner, replace(state, partitions=parts))

    monkeypatch.setattr(Learner, "restore", rounded)
    assert "differs" in PROPERTIES["restart"]("linear", linear)


@pytest.mark.parametrize("by_batch", [True, False])
def test_a_step_of_one_program_only_is_found(
    by_batch: bool, linear: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that depends on the batch, as a sum that begins anew with each would; one that the trainer did not have."""
    learn = Learner.learn

    def otherwise(learner: Learner, rows: Rows, until: Position | None = None) -> int:
        weight = rows.points.weight * (1.0 + 1e-9 * (len(rows) if by_batch else 1))
        return learn(learner, replace(rows, points=rows.points.reweighted(weight)), until)

    monkeypatch.setattr(Learner, "learn", otherwise)
    if by_batch:
        with EmbeddedBroker() as broker:
            planted = publish("linear", broker)
        monkeypatch.setattr(constants, "BATCH_RECORDS", 3)
        assert "differs" in batched("linear", planted)
    assert "training_set_sha256" in PROPERTIES["verify"]("linear", linear)
    assert "another" in PROPERTIES["estimator"]("linear", linear)


def test_a_verifier_that_believes_is_found(linear: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds neither the record nor the numbers."""
    monkeypatch.setattr("consumers.verify.verify.differences", lambda *_: [])
    assert PROPERTIES["bits"]("linear", linear) == "a record of the log, model, features"


def test_an_erasure_that_leaves_a_row_is_found(linear: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three rows are erased: the versions are of the third one."""

    def fewer(
        connection: Connection, settings: Settings, places: dict[int, list[Position]], *report: Any, **agree: Any
    ) -> bool:
        return erase(connection, settings, {0: places[0][1:]}, *report, **agree)

    monkeypatch.setattr(properties, "erase", fewer)
    assert PROPERTIES["erasure"]("linear", linear) != ""


def test_another_reader_and_other_bytes_are_found(linear: Published, told: Told) -> None:
    """An answer that is off by one digit, and a file of other hashes."""
    answers = told["Python"]["linear"]
    off = [{**one, "decision": one["decision"] + 1e-9} if "decision" in one else one for one in answers]
    assert len(unlike(answers, off)) == 20
    held = golden.read()
    held["configurations"]["linear"]["sha256"] = "0" * 64
    held["configurations"]["linear"]["versions"] = 99
    assert as_golden("linear", linear, held) != ""
