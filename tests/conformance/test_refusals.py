"""The table of what goes with what: every row is enforced, and no refusal of two options stands elsewhere."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from consumers.branches.challenges import logs_of
from consumers.evaluate import Plan, check_followable, evaluate
from consumers.host import schemas_of
from consumers.loader import load
from consumers.replay.replay import replay
from consumers.settings import Settings, section_class
from streamsvm import supports
from streamsvm.checkpoint import CheckpointDirectory, FileSystem
from streamsvm.config import ModelConfig
from streamsvm.errors import ConfigurationError
from streamsvm.estimators import CoresetSVC
from streamsvm.ingest import from_arrays
from streamsvm.model import Explainer
from streamsvm.supports import Combinations, Row, Unsupported, given, require, rows
from streamsvm.verification import certifier_of
from tests.conformance.refusals import TABLE, command, estimate, says, settle
from tests.golden import model as golden

ROOT: Final = Path(__file__).parents[2]
POINTS: Final[Mapping[str, Any]] = {"dimension": 2}
SEVERAL: Final[Mapping[str, Any]] = {"dimension": 2, "labels": [0, 1, 2]}
LATE: Final[Mapping[str, Any]] = {"topic": "answers", "horizon": "36h"}


def key(row: Row) -> str:
    return f"{row.feature.words} / {row.without.words}"


def source(labels: int) -> Any:
    return from_arrays("f", [[0.0, float(row)] for row in range(90)], [row % labels for row in range(90)])


def version(*, built: object = None, **coreset: Any) -> Any:
    """Return as much of a version as is looked at before its rows are read."""
    config = ModelConfig.model_validate({"points": POINTS, "coreset": coreset})
    lineage = SimpleNamespace(configuration=config.canonical(), fact=lambda _: built)
    return SimpleNamespace(
        key="m@1", lineage=lineage, model=SimpleNamespace(dimension=2), fit=SimpleNamespace(C=1.0, class_weight=(1, 1))
    )


def certified(classes: int, **parameters: Any) -> Callable[[], object]:
    X, y = np.random.default_rng(0).standard_normal((90, 2)), np.arange(90) % classes
    return lambda: CoresetSVC(**parameters).fit(X, y).certify(X, y)


def schemas(**sections: Any) -> Callable[[], object]:
    def enter() -> None:
        with schemas_of(load({"points": POINTS, **sections})):
            pass

    return enter


CALLS: Final[Mapping[str, Callable[[], object]]] = {
    "`points.format` = `avro` or `protobuf` / no `registry.url`": schemas(points={**POINTS, "format": "avro"}),
    "quality as served / more than two labels": lambda: logs_of(load({"points": SEVERAL})),
    "quality as served / scores of other points than the labels'": lambda: logs_of(load({"points": POINTS})),
    "a certificate / more than two labels": certified(3),
    "a certificate / `svm.kernel` = `rbf`": certified(2, kernel="rbf"),
    "a certificate / `coreset.memory` other than `all`": lambda: certifier_of(version(memory="adaptive"), 1_000),
    "reasons of a score / `svm.kernel` = `rbf`": lambda: Explainer(golden.handmade("rbf")),
    "reasons of a score / more than two labels": lambda: Explainer(golden.handmade("linear-classes")),
    "`--probability` / more than two labels": lambda: evaluate(source(3), Plan(points=64, probability="sigmoid")),
    "`--config` / `labels.topic`": lambda: check_followable(load({"points": POINTS, "labels": LATE})),
    "`--config` / `coreset.window` as a time": lambda: check_followable(
        load({"points": POINTS, "coreset": {"memory": "window", "window": "9s"}})
    ),
    "`--config` / `coreset.half_life` as a time": lambda: check_followable(
        load({"points": POINTS, "coreset": {"memory": "decay", "half_life": "9s"}})
    ),
    "`--record-format` = `avro` / no `registry.url`": lambda: replay(source(2), None, "t", format="avro"),  # type: ignore[arg-type]
    "key / rows_per_record above 1": lambda: replay(source(2), None, "t", key="id", rows_per_record=2),  # type: ignore[arg-type]
}
"""What meets each row that options alone do not meet; the others stand in `refusals.toml`."""


def refusal_of(given: str, directory: Path) -> str:
    """Return what is said to settings, or to a command."""
    if given.startswith("$ "):
        return command(given.removeprefix("$ "), directory).message
    with pytest.raises(ConfigurationError) as refused:
        settle(given)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(("given", "said"), TABLE["settings"])
def test_settings_without_a_meaning_are_refused_in_a_line(given: str, said: str, tmp_path: Path) -> None:
    """It names the option, what is wrong, and what to give."""
    answer = refusal_of(given, tmp_path)
    assert says(answer, said), answer


@pytest.mark.parametrize(("given", "status", "said"), TABLE["commands"])
def test_a_mistake_is_told_what_happened_and_what_to_do(given: str, status: int, said: str, tmp_path: Path) -> None:
    """By one message, with the documented exit status, and in none of pydantic's words."""
    answer = command(given, tmp_path)
    assert answer.status == status, answer
    assert says(answer.message, said), answer
    assert not re.search("Input should|Traceback|validation", answer.message), answer


def test_a_directory_in_use_is_told(tmp_path: Path) -> None:
    """Another trainer's checkpoints are left alone."""
    with CheckpointDirectory(FileSystem(tmp_path / "checkpoint"), 3):
        answer = command("TRAIN", tmp_path)
    assert answer.status == 78
    assert says(answer.message, "another process holds … directory"), answer


@pytest.mark.parametrize(("given", "said"), TABLE["estimator"])
def test_a_wrong_parameter_is_named_with_what_it_may_be(given: str, said: str) -> None:
    """In the estimator's own words, without those of the libraries that check."""
    with pytest.raises(ValueError, match=r".") as refused:
        estimate(given)
    assert says(str(refused.value), said), refused.value
    assert not re.search(r"literal\[|Input should", str(refused.value))


def test_a_message_that_lacks_a_part_is_not_taken() -> None:
    """The check can fail."""
    assert says("a.b is 1: give 2", "give … a.b")
    assert not says("a.b is 1: give 2", "a.b … gave")


# ---------------------------------------------------------------- what goes with what


def test_every_row_has_a_case_and_is_there_once() -> None:
    """A row that nothing enforces would be a promise of the page only."""
    keys = [key(row) for row in rows()]
    assert len(set(keys)) == len(keys)
    assert set(keys) == CALLS.keys() | TABLE["supports"].keys()
    assert not CALLS.keys() & TABLE["supports"].keys()


@pytest.mark.parametrize("row", rows(), ids=key)
def test_what_meets_a_row_is_refused_with_its_text(row: Row, tmp_path: Path) -> None:
    """The reason, whether it is not supported yet, and what to do."""
    if key(row) in CALLS:
        with pytest.raises((ConfigurationError, ValueError)) as refused:
            CALLS[key(row)]()
        text = str(refused.value)
    else:
        text = refusal_of(TABLE["supports"][key(row)], tmp_path)
    assert row.why in text
    assert ("not supported yet" in text) == (row.kind == "not built")
    remedy = re.escape(row.remedy.removesuffix(".")).replace(r"\{feature\}", ".+").replace(r"\{without\}", ".+")
    assert re.search(remedy, text), text


def test_names_are_those_of_the_caller() -> None:
    """A command has flags where the configuration has options."""
    with pytest.raises(Unsupported, match=r"^--cost = 50\.0,1\.0, but f has 3 labels: .* Remove --cost"):
        require({"svm.cost": (50.0, 1.0), "points.labels": 3}, {"svm.cost": "--cost", "points.labels": "f"})


def test_what_is_unknown_or_off_is_not_refused() -> None:
    """A row is looked at only if both of its axes are known; zero is a value, and what is empty is not."""
    require({"svm.cost": (50.0, 1.0)})
    require({"labels.topic": "", "coreset.memory": "window", "training.from_coresets": True})
    assert given("a").holds(0)
    assert not any(given("a").holds(value) for value in (None, False, "", (), {}))


SIZES: Final[Mapping[str, str]] = {
    "streamsvm/config/point_options.py:PointsConfig._consistent": "as many names as features",
    "streamsvm/config/svm.py:_require_room_for": "a size is too small for the number of labels",
    "consumers/evaluate/predict_then_train.py:PrequentialPlan.check": "the lag and the leaf divide each other",
    "consumers/settings/input_settings.py:RegistryConfig._without_secrets": "an address has no user of its own",
    "consumers/branches/workers/settings.py:WorkerConfig._fixed_or_shared": "an ordinal is below the number of workers",
}
"""Refusals that name two options and are no combination of features: two sizes do not fit, or one value is wrong."""


def raised(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """Yield the first argument of each configuration error that a module raises, with the qualified name around it."""

    def within(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ast.expr]]:
        for child in ast.iter_child_nodes(node):
            own = (*names, child.name) if isinstance(child, ast.FunctionDef | ast.ClassDef) else names
            match child:
                case ast.Raise(exc=ast.Call(func=ast.Name(id="ValueError" | "ConfigurationError"), args=[what, *_])):
                    yield ".".join(own), what
            yield from within(child, own)

    return within(ast.parse(path.read_text()), ())


def options_in(what: ast.expr) -> set[str]:
    """Return the options and flags that a message names."""
    known = {
        f"{section}.{option}"
        for section in Settings.model_fields
        for option in getattr(section_class(section), "model_fields", ())
    }
    words = " ".join(
        node.value for node in ast.walk(what) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {found for found in re.findall(r"--[a-z][a-z-]+|\b[a-z]+\.\w+", words) if found[0] == "-" or found in known}


def test_no_refusal_of_two_options_stands_elsewhere() -> None:
    """Whoever refuses a combination adds a row; two sizes that do not fit each other stay where they are known."""
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for package in ("streamsvm", "consumers")
        for path in (ROOT / package).rglob("*.py")
        for name, what in raised(path)
        if len(options_in(what)) > 1
    }
    assert found == SIZES.keys()


def test_a_refusal_elsewhere_would_be_found(tmp_path: Path) -> None:
    """The check can fail."""
    planted = tmp_path / "planted.py"
    planted.write_text('def f(a):\n    raise ValueError(f"labels.topic is {a}, but training.policy is every")\n')
    assert [(name, options_in(what)) for name, what in raised(planted)] == [("f", {"labels.topic", "training.policy"})]


def test_rows_of_a_branch_stand_where_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a part of the trunk or of another branch, whichever is asked first; at the end where there is no such."""

    def added(axis: str, before: str) -> Combinations:
        return Combinations(before=before, rows=(dataclasses.replace(rows()[0], axis=axis),))

    named = [added("A", "B"), added("B", "Other commands"), added("C", "Other commands"), added("D", "not there")]
    axes = list(dict.fromkeys(row.axis for part in supports._OWN for row in part()))
    monkeypatch.setattr(supports, "plugged", lambda *_: tuple(named))
    found = list(dict.fromkeys(row.axis for row in rows.__wrapped__()))
    place = found.index("A")
    assert found[place : place + 4] == ["A", "B", "C", "Other commands"]
    assert found[-1] == "D"
    assert [axis for axis in found if axis not in {"A", "B", "C", "D"}] == axes
