"""The layers of the design hold: imports run downward only."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from streamsvm import kafka

ROOT = Path(__file__).parent.parent

LAYERS: list[set[str]] = [
    {
        "streamsvm.choices",
        "streamsvm.supports",
        "streamsvm.errors",
        "streamsvm.points",
        "streamsvm.places",
        "streamsvm.private",
        "streamsvm.secrecy",
        "streamsvm.toml_text",
        "streamsvm.crashpoints",
        "streamsvm.build",
        "streamsvm.compiling",
        "streamsvm.process_wide",
        "streamsvm.linalg",
        "streamsvm.vector_math",
        "streamsvm.memory",
        "streamsvm.named_parts",
        "streamsvm.sockets",
        "streamsvm.features",
    },
    {"streamsvm.model", "streamsvm.kafka"},
    {"streamsvm.config", "streamsvm.coreset", "streamsvm.svm", "streamsvm.registry", "streamsvm.joining"},
    {"streamsvm.learning", "streamsvm.ingest", "streamsvm.quality", "streamsvm.certificate"},
    {"streamsvm.checkpoint", "streamsvm.datasets"},
    {"streamsvm.delivery", "streamsvm.verification", "streamsvm.estimators", "streamsvm.archive"},
    {"consumers", "streamsvm.patched", "streamsvm.branches"},
]
"""From the ground up: a folder imports those of the layers beneath its own, and no neighbour in its own layer; the
modules of the ground may know each other."""
DAEMONS: list[set[str]] = [
    {
        "consumers.metrics",
        "consumers.settings",
        "consumers.loader",
        "consumers.options",
        "consumers.help_texts",
    },
    {"consumers.host"},
    {"consumers.on_demand", "consumers.streams"},
    {"consumers.page", "consumers.served"},
    {
        "consumers.trainer",
        "consumers.scorer",
        "consumers.models",
        "consumers.evaluate",
        "consumers.replay",
        "consumers.sizing",
    },
    {"consumers.verify", "consumers.dead_letters", "consumers.demo"},
    {"consumers.cli", "consumers.branches"},
]
"""The same inside `consumers`."""

FORBIDDEN = [
    ("streamsvm.kafka", "streamsvm.points", "the Kafka shell knows bytes and positions, no points"),
    ("streamsvm.svm.block", "streamsvm.svm.paper", "the production solver stands without the paper's"),
    ("streamsvm.coreset.structure", "streamsvm.coreset.reducers.calibrated", "the structure knows no reducer"),
]
CLOCKS_AND_CHANCE = {"time", "random", "os", "threading", "socket", "logging"}
READ_A_CLOCK = {"now", "utcnow", "today"}
"""Of `datetime`, which is a type, too: a time that is given may be written down."""
PURE = {
    "model",
    "points",
    "linalg",
    "vector_math",
    "memory",
    "features",
    "coreset",
    "svm",
    "learning",
    "joining",
    "quality",
    "certificate",
    "delivery",
    "verification",
    "estimators",
}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for package in ("streamsvm", "consumers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports_of(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def height(module: str, layers: list[set[str]]) -> int | None:
    for level, units in enumerate(layers):
        if any(module == unit or module.startswith(unit + ".") for unit in units):
            return level
    return None


def folder(module: str) -> str:
    return ".".join(module.split(".")[:2])


def upward_edges(module: str, imported: set[str], layers: list[set[str]] = LAYERS) -> list[str]:
    own = height(module, layers)
    assert own is not None, f"{module} stands in no layer"
    return [
        f"{module} -> {target}"
        for target in sorted(imported)
        if (there := height(target, layers)) is not None
        and folder(target) != folder(module)
        and (there > own or (there == own and own > 0))
        and not (layers is LAYERS and module.startswith("consumers"))
    ]


@pytest.mark.parametrize("module", sorted(set(modules()) - {"streamsvm"}))
def test_imports_run_downward(module: str) -> None:
    """No module imports from a folder of its own layer or of one above."""
    assert upward_edges(module, imports_of(modules()[module])) == []


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("consumers.") and m != "consumers.__main__"])
def test_imports_run_downward_among_the_daemons(module: str) -> None:
    """The same inside `consumers`."""
    assert upward_edges(module, imports_of(modules()[module]), DAEMONS) == []


def test_there_are_seven_layers() -> None:
    """A ladder with a rung for each folder would allow any import that happens to be there."""
    assert len(LAYERS) == len(DAEMONS) == 7


def test_an_upward_import_would_be_found() -> None:
    """The check can fail: planted imports are reported, and those downward are not."""
    assert upward_edges("streamsvm.coreset.structure", {"streamsvm.learning.learner.Learner"})
    assert not upward_edges("streamsvm.learning.learner", {"streamsvm.coreset.structure"})
    assert upward_edges("streamsvm.model.message", {"streamsvm.learning.learner.Cut"})
    assert upward_edges("streamsvm.model.message", {"streamsvm.config"})
    assert upward_edges("streamsvm.coreset.structure", {"streamsvm.svm.objective"})
    assert upward_edges("consumers.scorer.scorer", {"consumers.trainer.trainer"}, DAEMONS)
    assert not upward_edges("consumers.scorer.scorer", {"consumers.streams.settling"}, DAEMONS)


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("streamsvm.model")])
def test_the_contract_needs_numpy_and_msgspec_only(module: str) -> None:
    """Whoever only reads models installs and loads no more."""
    roots = {name.split(".")[0] for name in imports_of(modules()[module])}
    assert roots - sys.stdlib_module_names <= {"streamsvm", "numpy", "msgspec"}


def test_a_reader_loads_nothing_that_learns() -> None:
    """Following a model takes none of the libraries that make one, which load for seconds."""
    heavy = ["numba", "sklearn", "scipy", "pydantic", "pyarrow", "structlog", "rich", "typer", "cloudevents"]
    program = f"import sys; from streamsvm import ModelSubscriber; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_list_of_commands_loads_no_settings() -> None:
    """`streamsvm --help` shows no option: it loads neither the settings nor what only a daemon needs."""
    heavy = ["numpy", "pydantic", "pydantic_settings", "structlog", "msgspec", "confluent_kafka", "sklearn", "numba"]
    heavy += ["consumers.settings", "consumers.options", "consumers.host.runtime", "consumers.host.web.server"]
    program = (
        "import sys; from consumers.cli.app import app\n"
        "try: app(['--help'])\n"
        f"finally: print([m for m in {heavy} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "dead-letters" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("source", "target", "reason"), FORBIDDEN)
def test_neighbours_that_must_not_know_each_other(source: str, target: str, reason: str) -> None:
    """Some units are kept apart whatever their height."""
    guilty = [
        module
        for module, path in modules().items()
        if module.startswith(source) and any(name.startswith(target) for name in imports_of(path))
    ]
    assert guilty == [], reason


def test_the_client_library_is_imported_in_one_package() -> None:
    """Only streamsvm.kafka knows confluent_kafka."""
    guilty = [
        module
        for module, path in modules().items()
        if not module.startswith("streamsvm.kafka") and any(n.startswith("confluent_kafka") for n in imports_of(path))
    ]
    assert guilty == []


CLIENTS = {
    name
    for name in kafka.__all__
    if inspect.isclass(getattr(kafka, name)) and "connection" in inspect.signature(getattr(kafka, name)).parameters
} - {"Cluster"}
"""Classes that reach a broker by a connection; whoever wants one asks a `Cluster` for it."""


def past_the_door(path: Path) -> list[str]:
    """Return how a module reaches a broker, or into the package that does, otherwise than by a `Cluster`."""
    found = list[str]()
    clients = {name for name in CLIENTS if f"streamsvm.kafka.{name}" in imports_of(path)}  # others have an Input, too
    for node in nodes_of(path):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name.startswith("streamsvm.kafka")]
            case ast.ImportFrom(module=str(module)) if module.startswith("streamsvm.kafka."):
                found.append(module)
            case ast.ImportFrom(module="streamsvm.kafka", names=names):
                found += [alias.name for alias in names if alias.name not in kafka.__all__]
            case ast.Call(func=ast.Name(id=name)) if name in clients:
                found.append(f"{name}()")
    return found


def test_there_is_one_door_to_kafka() -> None:
    """The package shows no function, and outside of it nobody makes one of its clients but by a `Cluster`."""
    assert [name for name in kafka.__all__ if inspect.isfunction(getattr(kafka, name))] == []
    outside = {module: path for module, path in modules().items() if not module.startswith("streamsvm.kafka")}
    guilty = {module: found for module, path in outside.items() if (found := past_the_door(path))}
    assert guilty == {}


def test_a_way_past_the_door_would_be_found(tmp_path: Path) -> None:
    """The check can fail: an import from within the package, a function of it, and a client that somebody makes."""
    assert {"Input", "Outbox", "Publisher", "Reader", "Subscription", "Tail"} <= CLIENTS
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from streamsvm.kafka import Cluster, Tail, read_to_end\nfrom streamsvm.kafka.log import log_range\n"
        "import streamsvm.kafka.log\nTail(connection, 't', 0, 0)\nCluster(connection).tail('t', 0, 0)\n"
    )
    assert sorted(past_the_door(planted)) == ["Tail()", "read_to_end", "streamsvm.kafka.log", "streamsvm.kafka.log"]


@pytest.mark.parametrize("module", [name for name in modules() if name.split(".")[1:2] and name.split(".")[1] in PURE])
def test_the_core_reads_no_clock_and_no_chance(module: str) -> None:
    """The numerical core takes time, randomness and files as arguments."""
    assert {name.split(".")[0] for name in imports_of(modules()[module])} & CLOCKS_AND_CHANCE == set()
    asked = {node.attr for node in nodes_of(modules()[module]) if isinstance(node, ast.Attribute)}
    assert asked & READ_A_CLOCK == set()


def test_nothing_imports_the_consumers() -> None:
    """The library does not know its daemons."""
    guilty = [
        m
        for m, p in modules().items()
        if m.startswith("streamsvm") and any(name.startswith("consumers") for name in imports_of(p))
    ]
    assert guilty == []


def test_no_pickle() -> None:
    """Nothing on a topic or a disk is ever unpickled."""
    guilty = [m for m, p in modules().items() if imports_of(p) & {"pickle", "joblib", "cloudpickle", "shelve"}]
    assert guilty == []


def born_in(path: Path, name: str) -> tuple[set[str], set[str]]:
    """Return the attributes that a class's `__init__` sets, and those that other methods set."""
    (body,) = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    first, later = set[str](), set[str]()
    for method in body.body:
        if isinstance(method, ast.FunctionDef):
            (first if method.name == "__init__" else later).update(
                node.attr
                for node in ast.walk(method)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            )
    return first, later


@pytest.mark.parametrize(("module", "name"), [("trainer/trainer", "Trainer"), ("scorer/scorer", "Scorer")])
def test_a_daemon_is_whole_after_its_constructor(module: str, name: str) -> None:
    """No attribute is born later, and there are at most a dozen: what a start makes is a life's."""
    first, later = born_in(ROOT / "consumers" / f"{module}.py", name)
    assert later <= first
    assert len(first) <= 12


def test_an_attribute_that_is_born_later_would_be_found(tmp_path: Path) -> None:
    """The check can fail."""
    planted = tmp_path / "planted.py"
    planted.write_text("class A:\n    def __init__(self):\n        self.a = 1\n    def b(self):\n        self.c = 2\n")
    assert born_in(planted, "A") == ({"a"}, {"c"})
