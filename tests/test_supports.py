"""The table of what goes with what: every row is enforced, and no refusal of two options stands elsewhere."""

from __future__ import annotations

import ast
import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
from typer.testing import CliRunner

from consumers.branches.challenges.reading import logs_of
from consumers.cli.app import app
from consumers.evaluate.configured import check_followable
from consumers.evaluate.plan import Plan
from consumers.evaluate.run import evaluate
from consumers.host.runtime import schemas_of
from consumers.loader import load
from consumers.replay.replay import replay
from consumers.settings import Settings, section_class
from streamsvm import supports
from streamsvm.config import ModelConfig
from streamsvm.errors import ConfigurationError
from streamsvm.estimators import CoresetSVC
from streamsvm.ingest.files.array_files import from_arrays
from streamsvm.model.reasons import Explainer
from streamsvm.supports import (
    Combinations,
    Row,
    Unsupported,
    given,
    require,
    rows,
)
from streamsvm.verification.recomputation import certifier_of
from tests.golden import model as golden

ROOT: Final = Path(__file__).parent.parent
POINTS: Final[Mapping[str, Any]] = {"dimension": 2}
SEVERAL: Final[Mapping[str, Any]] = {"dimension": 2, "labels": [0, 1, 2]}
LATE: Final[Mapping[str, Any]] = {"topic": "answers", "horizon": "36h"}
AMOUNT: Final[Mapping[str, Any]] = {"amount": "number"}
LABEL: Final[Mapping[str, Any]] = {"field": "fraud", "negative": [False], "positive": [True]}


def key(row: Row) -> str:
    return f"{row.feature.words} / {row.without.words}"


def settled(**sections: Any) -> Callable[[], object]:
    """Return what makes the settings of some sections, and the part that decides what a model is."""
    return lambda: load({"points": POINTS, **sections}).models()


def command(*words: str) -> Callable[[], object]:
    """Return what runs a command, and raises its error."""

    def run() -> None:
        found = CliRunner().invoke(app, list(words))
        assert found.exception is not None
        raise found.exception

    return run


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


def replayed(*options: str, toml: str = "") -> Callable[[], object]:
    """Return what replays a file of events, with a configuration."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as place:
            file, config = Path(place) / "events.jsonl", Path(place) / "own.toml"
            file.write_text('{"amount": 1, "fraud": true}\n')
            config.write_text(toml)
            command("replay", str(file), "--events", "--topic", "t", *options, "--config", str(config))()

    return run


EVENTS_TOML: Final = """[features]
amount = "number"
[events]
envelope = "connect"
"""
FORGETS: Final = {"memory": "adaptive"}
ADOPTS: Final = {"from_coresets": True}
REGISTRY: Final = {"url": "http://registry"}
COSTS: Final = {"cost": [50.0, 1.0]}

LATE_LABELS: Final[Mapping[str, Callable[[], object]]] = {
    "`labels.topic` / no `labels.horizon`": settled(labels={"topic": "answers"}),
    "an option of `[labels]` / no `labels.topic`": settled(labels={"horizon": "36h"}),
    "`labels.topic` / `events.label`": lambda: load({"features": AMOUNT, "events": {"label": LABEL}, "labels": LATE}),
    "`labels.topic` / `coreset.memory` other than `all`": settled(labels=LATE, coreset=FORGETS),
    "`labels.topic` / `points.format` other than `auto` or `json` or `arrow`": settled(
        labels=LATE, points={**POINTS, "format": "avro"}
    ),
    "`labels.topic` / `registry.url`": settled(labels=LATE, registry=REGISTRY),
    "`labels.topic` / `training.from_coresets`": settled(labels=LATE, training=ADOPTS),
}
EVENTS: Final[Mapping[str, Callable[[], object]]] = {
    "`[events]` / no `[features]`": settled(events={"weight": "amount"}),
    "an option of `[points]` that follows from `[features]` / `[features]`": settled(
        features=AMOUNT, events={"label": LABEL}
    ),
    "`points.format` = `json-schema` or `protobuf` / no `[features]`": settled(points={**POINTS, "format": "protobuf"}),
    "`points.format` = `avro` or `protobuf` / no `registry.url`": schemas(points={**POINTS, "format": "avro"}),
}
MACHINE: Final[Mapping[str, Callable[[], object]]] = {
    "`svm.alpha` / `svm.C`": settled(svm={"alpha": 0.1, "C": 1.0}),
    "`svm.C` / `coreset.memory` other than `all`": settled(svm={"C": 1.0}, coreset=FORGETS),
    "`svm.multiclass` / two labels": settled(svm={"multiclass": "one_vs_one"}),
    "`svm.cost` / `svm.target`": settled(svm={**COSTS, "target": {"recall": 0.9}}),
    "`svm.cost` / more than two labels": settled(points=SEVERAL, svm=COSTS),
    "`svm.target` / more than two labels": settled(points=SEVERAL, svm={"target": {"recall": 0.9}}),
    "`svm.tune_scoring` = `cost` / no `svm.cost`": settled(svm={"tune_scoring": "cost"}),
    "`svm.tune_scoring` = `auc` or `log_loss` or `cost` / more than two labels": settled(
        points=SEVERAL, svm={"tune_scoring": "auc"}
    ),
}
CORESET: Final[Mapping[str, Callable[[], object]]] = {
    "`coreset.structure` = `tree` / `coreset.reducer` other than `calibrated`": settled(
        coreset={"structure": "tree", "reducer": "uniform"}
    ),
    "`coreset.structure` / `coreset.memory` other than `all`": settled(coreset={"structure": "tree", **FORGETS}),
    **{
        f"`coreset.{option}` / `coreset.memory` other than `{memory}`": settled(coreset={option: 100_000, **FORGETS})
        for option, memory in (
            ("window", "window"),
            ("half_life", "decay"),
        )
    },
    "`coreset.memory` = `window` / no `coreset.window`": settled(coreset={"memory": "window"}),
    "`coreset.memory` = `decay` / no `coreset.half_life`": settled(coreset={"memory": "decay"}),
    "`svm.landmarks` / `svm.kernel` = `linear`": settled(svm={"landmarks": 64}),
}
DAEMONS: Final[Mapping[str, Callable[[], object]]] = {
    "`training.policy` = `every` / `training.from_coresets`": settled(training={"policy": "every", **ADOPTS}),
    "`worker.ordinal` / no `worker.of`": settled(worker={"ordinal": 1}),
    "`worker.of` / no `worker.ordinal`": settled(worker={"of": 2}),
    "`checkpoint.keep_bytes` / `labels.topic`": settled(checkpoint={"keep_bytes": 1}, labels=LATE),
    "`checkpoint.keep_bytes` / `svm.tune`": settled(checkpoint={"keep_bytes": 1}, svm={"tune": "auto"}),
    "quality as served / more than two labels": lambda: logs_of(load({"points": SEVERAL})),
    "quality as served / scores of other points than the labels'": lambda: logs_of(load({"points": POINTS})),
}
VERSIONS: Final[Mapping[str, Callable[[], object]]] = {
    "a certificate / more than two labels": certified(3),
    "a certificate / `svm.kernel` other than `linear`": certified(2, kernel="rbf"),
    "a certificate / `coreset.memory` other than `all`": lambda: certifier_of(version(memory="adaptive"), 1_000),
    "reasons of a score / `svm.kernel` other than `linear`": lambda: Explainer(golden.handmade("rbf")),
    "reasons of a score / more than two labels": lambda: Explainer(golden.handmade("linear-classes")),
}
COMMANDS: Final[Mapping[str, Callable[[], object]]] = {
    "`--probability` / more than two labels": lambda: evaluate(source(3), Plan(points=64, probability="sigmoid")),
    "`--prequential` / `svm.C`": command("evaluate", "--dataset", "htru2", "--prequential", "--C", "5"),
    "`--lag` / no `--prequential`": command("evaluate", "--dataset", "htru2", "--lag", "5"),
    "`--leaf-rows` / no `--prequential`": command("evaluate", "--dataset", "htru2", "--leaf-rows", "5"),
    "`--every-leaves` / no `--prequential`": command("evaluate", "--dataset", "htru2", "--every-leaves", "5"),
    "`--partitions` / no `--config`": command("evaluate", "--dataset", "htru2", "--partitions", "2"),
    "`--config` / `labels.topic`": lambda: check_followable(load({"points": POINTS, "labels": LATE})),
    "`--config` / `coreset.window` as a time": lambda: check_followable(
        load({"points": POINTS, "coreset": {"memory": "window", "window": "9s"}})
    ),
    "`--config` / `coreset.half_life` as a time": lambda: check_followable(
        load({"points": POINTS, "coreset": {"memory": "decay", "half_life": "9s"}})
    ),
    "`--version` / `--alias`": command("model", "show", "--version", "1", "--alias", "current"),
    "`--version` / `--all`": command("verify", "--version", "1", "--all"),
    "`--certificate` / `--all`": command("verify", "--certificate", "--all"),
    "`--keep` / no `--certificate`": command("verify", "--keep", "100"),
    "`--reads` / no `--certificate`": command("verify", "--reads", "2"),
    "`--mended` / no `--resend`": command("dead-letters", "--mended", "letters.jsonl"),
    "`--events` / `--label`, `--weight`, `--id`, `--columns` or `--header`": replayed("--label", "fraud"),
    "`--unlabeled` / no `events.label`": replayed("--unlabeled"),
    "`--events` / `events.envelope` other than `none`": replayed(toml=EVENTS_TOML),
    "`--record-format` = `avro` / no `registry.url`": lambda: replay(source(2), None, "t", format="avro"),  # type: ignore[arg-type]
    "key / rows_per_record above 1": lambda: replay(source(2), None, "t", key="id", rows_per_record=2),  # type: ignore[arg-type]
    "`--format` = `protobuf` / `--envelope` other than `none`": command(
        "features", "infer", "--topic", "t", "--format", "protobuf", "--envelope", "connect"
    ),
}
REFUSED: Final[Mapping[str, Callable[[], object]]] = {
    **LATE_LABELS,
    **EVENTS,
    **MACHINE,
    **CORESET,
    **DAEMONS,
    **VERSIONS,
    **COMMANDS,
}
"""What meets each row, as a person would: by settings, a command, or a call."""


def test_every_row_has_a_case_and_is_there_once() -> None:
    """A row that nothing enforces would be a promise of the page only."""
    keys = [key(row) for row in rows()]
    assert len(set(keys)) == len(keys)
    assert set(keys) == REFUSED.keys()


@pytest.mark.parametrize("row", rows(), ids=key)
def test_what_meets_a_row_is_refused_with_its_text(row: Row) -> None:
    """The reason, whether it is not supported yet, and what to do."""
    with pytest.raises((ConfigurationError, ValueError)) as refused:
        REFUSED[key(row)]()
    text = str(refused.value)
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
