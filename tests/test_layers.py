"""The layers of the design hold: imports run downward only."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import sklearn.svm

import streamsvm
from streamsvm import estimators, kafka
from streamsvm.sockets import choices, plugs, rooms

ROOT = Path(__file__).parent.parent

LAYERS: list[set[str]] = [
    {
        "streamsvm.choices",
        "streamsvm.field_paths",
        "streamsvm.algorithms",
        "streamsvm.supports",
        "streamsvm.errors",
        "streamsvm.points",
        "streamsvm.places",
        "streamsvm.private",
        "streamsvm.option_texts",
        "streamsvm.secrecy",
        "streamsvm.sections",
        "streamsvm.sockets",
        "streamsvm.toml_text",
        "streamsvm.crashpoints",
        "streamsvm.build",
        "streamsvm.common_values",
        "streamsvm.compiling",
        "streamsvm.process_wide",
        "streamsvm.linalg",
        "streamsvm.vector_math",
        "streamsvm.memory",
        "streamsvm.named_parts",
    },
    {"streamsvm.model", "streamsvm.kafka"},
    {"streamsvm.config", "streamsvm.coreset", "streamsvm.svm", "streamsvm.registry", "streamsvm.joining"},
    {"streamsvm.learning", "streamsvm.ingest", "streamsvm.quality", "streamsvm.papers"},
    {"streamsvm.checkpoint", "streamsvm.datasets"},
    {"streamsvm.delivery", "streamsvm.verification", "streamsvm.estimators"},
    {"consumers", "streamsvm.drop_in"},
]
"""From the ground up: a folder imports those of the layers beneath its own, and no neighbour in its own layer; the
modules of the ground may know each other."""
DAEMONS: list[set[str]] = [
    {
        "consumers.metrics",
        "consumers.settings",
        "consumers.settings_sockets",
        "consumers.loader",
        "consumers.options",
        "consumers.help_texts",
    },
    {"consumers.host"},
    {"consumers.on_demand", "consumers.streams"},
    {"consumers.page"},
    {
        "consumers.trainer",
        "consumers.scorer",
        "consumers.models",
        "consumers.evaluate",
        "consumers.replay",
    },
    {"consumers.verify", "consumers.dead_letters", "consumers.demo"},
    {"consumers.cli", "consumers.branches"},
]
"""The same inside `consumers`."""

BRANCHES = ("streamsvm.branches", "consumers.branches")

FORBIDDEN = [
    ("streamsvm.kafka", "streamsvm.points", "the Kafka shell knows bytes and positions, no points"),
    ("streamsvm.coreset.structure", "streamsvm.coreset.reducers.calibrated", "the structure knows no reducer"),
]
CLOCKS_AND_CHANCE = {"time", "random", "os", "threading", "socket", "logging"}
READ_A_CLOCK = {"now", "utcnow", "today"}
"""Of `datetime`, which is a type, too: a time that is given may be written down."""
PURE = {
    "model",
    "points",
    "common_values",
    "linalg",
    "vector_math",
    "memory",
    "coreset",
    "svm",
    "learning",
    "joining",
    "quality",
    "delivery",
    "verification",
    "estimators",
    "papers",
    "drop_in",
    "branches",
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


READ = {
    where.partition(":")[0]
    for socket in ("message_parts", "left_out", "recipes", "version_bounds")
    for where in plugs(socket)
}
"""Modules of branches that a reader of models loads."""


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
        and not target.startswith(BRANCHES)  # nobody may: `branches_in` finds those
        and folder(target) != folder(module)
        and (there > own or (there == own and own > 0))
        and not (layers is LAYERS and module.startswith("consumers"))
    ]


def is_trunk(module: str) -> bool:
    """Tell whether a module is no branch's: a branch imports what it likes of the trunk."""
    return not any(module == root or module.startswith(f"{root}.") for root in BRANCHES)


@pytest.mark.parametrize("module", sorted(one for one in modules() if one != "streamsvm" and is_trunk(one)))
def test_imports_run_downward(module: str) -> None:
    """No module imports from a folder of its own layer or of one above."""
    assert upward_edges(module, imports_of(modules()[module])) == []


@pytest.mark.parametrize(
    "module", [m for m in modules() if m.startswith("consumers.") and m != "consumers.__main__" and is_trunk(m)]
)
def test_imports_run_downward_among_the_daemons(module: str) -> None:
    """The same inside `consumers`."""
    assert upward_edges(module, imports_of(modules()[module]), DAEMONS) == []


def branches_in(path: Path) -> list[str]:
    """Return what a module imports of a branch, in its own text or for type checkers only."""
    return sorted(name for name in imports_of(path) if name.startswith(tuple(f"{root}." for root in BRANCHES)))


def test_the_trunk_knows_no_branch() -> None:
    """A folder that is deleted takes everything of its branch with it: sockets find what is there, and nobody else."""
    guilty = {module for module, path in modules().items() if is_trunk(module) and branches_in(path)}
    assert guilty == set()


def test_no_branch_knows_another() -> None:
    """Each is removed by itself."""
    own = {m: [name for name in branches_in(p) if m.split(".")[2:3] != name.split(".")[2:3]] for m, p in _of_branches()}
    assert {module: names for module, names in own.items() if names} == {}


def _of_branches() -> list[tuple[str, Path]]:
    return [(module, path) for module, path in modules().items() if not is_trunk(module)]


def test_an_import_of_a_branch_would_be_found(tmp_path: Path) -> None:
    """The check can fail: planted imports at the top, within a function and of a whole branch."""
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from streamsvm.branches.history.store import Store\ndef late():\n    from consumers.branches import history\n"
    )
    found = branches_in(planted)
    assert found[0] == "consumers.branches.history"
    assert "streamsvm.branches.history.store" in found
    innocent = tmp_path / "innocent.py"
    innocent.write_text("from streamsvm.sockets import plugged\nimport consumers.branches\n")
    assert branches_in(innocent) == []
    assert is_trunk("streamsvm.sockets")
    assert not is_trunk("consumers.branches.history.plug")


def at_module_level(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports outside of functions, those for the type checker among them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_module_level(child)


def neighbours(paths: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return by module which of these modules it imports at module level."""
    found = dict[str, set[str]]()
    for module, path in paths.items():
        targets = found[module] = set()
        for node in at_module_level(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names} & paths.keys()
            else:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                targets |= full & paths.keys() or {str(node.module)} & paths.keys()
        targets.discard(module)
    return found


def circle(imported: Mapping[str, set[str]]) -> list[str]:
    """Return modules that import each other in turn, the first once more at the end; empty if none do."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Each module can be read, and moved, before those that import it."""
    assert circle(neighbours(modules())) == []


@pytest.mark.parametrize(
    ("back", "found"),
    [
        ("from planted.first import A", True),
        ("import planted.first", True),
        ("from planted import first", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.first import A", True),
        ("def late():\n    from planted.first import A", False),
        ("from planted.other import A", False),
    ],
)
def test_a_circle_would_be_found(back: str, found: bool, tmp_path: Path) -> None:
    """The check can fail: two modules, the first of which imports the second through a third."""
    paths = {f"planted.{name}": tmp_path / f"{name}.py" for name in ("first", "middle", "second")}
    paths["planted.first"].write_text("from planted.middle import B\n")
    paths["planted.middle"].write_text("from planted.second import C\n")
    paths["planted.second"].write_text(f"{back}\n")
    assert set(circle(neighbours(paths))) == (set(paths) if found else set())


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


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("streamsvm.model") or name in READ])
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
    assert {"Input", "Outbox", "Publisher", "RecordFetcher", "Subscription", "Tail"} <= CLIENTS
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from streamsvm.kafka import Cluster, Tail, read_to_end\nfrom streamsvm.kafka.log import log_range\n"
        "import streamsvm.kafka.log\nTail(connection, 't', 0, 0)\nCluster(connection).tail('t', 0, 0)\n"
    )
    assert sorted(past_the_door(planted)) == ["Tail()", "read_to_end", "streamsvm.kafka.log", "streamsvm.kafka.log"]


@pytest.mark.parametrize(
    "module", [name for name in modules() if name.startswith("streamsvm.") and name.split(".")[1] in PURE]
)
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


ROOMS = rooms()
"""Packages beside the trunk that may be deleted."""


def names_of_a_room(module: str, path: Path) -> set[str]:
    """Return the rooms that a module outside of them names: in an import, a string or a comment."""
    text = path.read_text()
    return {room for room in ROOMS if f"streamsvm.{room}" in text and not module.startswith(f"streamsvm.{room}")}


def defined_in(path: Path) -> set[str]:
    """Return the names of a module's functions, classes and attributes."""
    found = set[str]()
    for node in nodes_of(path):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


def private_to_others(path: Path, bases: Sequence[Path] = ()) -> set[str]:
    """Return the private names that a module takes from others, and neither it nor a module of its bases defines."""
    found = {name for one in imports_of(path) if one.startswith("streamsvm") for name in one.split(".")}
    used = {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    own = set[str]().union(*(defined_in(one) for one in (path, *bases)))
    return {name for name in found | (used - own) if name.startswith("_") and not name.endswith("__")}


BASES: dict[str, tuple[Path, ...]] = {
    "drop_in": (
        *(ROOT / "streamsvm" / "drop_in" / f"{name}.py" for name in ("base", "single", "linear")),
        *(Path(inspect.getfile(module)) for module in (sklearn.svm._base, sklearn.svm._classes)),
    )
}
"""By room, where classes that its modules extend, or look into, stand: scikit-learn's, and the room's own."""


def test_the_trunk_names_no_room() -> None:
    """Rooms are found by their folder: only tests import one."""
    assert {"papers", "drop_in"} <= set(ROOMS)
    assert {module: found for module, path in modules().items() if (found := names_of_a_room(module, path))} == {}


@pytest.mark.parametrize("module", [name for name in modules() if name.split(".")[1:2] and name.split(".")[1] in ROOMS])
def test_a_room_uses_what_is_public(module: str) -> None:
    """No private name of the trunk, nor of another module of the room."""
    assert private_to_others(modules()[module], BASES.get(module.split(".")[1], ())) == set()


def test_a_name_of_a_room_and_a_private_use_would_be_found(tmp_path: Path) -> None:
    """The checks can fail."""
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from streamsvm.papers import counter\nfrom streamsvm.points import _hidden\n"
        "class A(counter.Counter):\n    def b(self):\n        self._own = 1\n        return self._own, self._hold([])\n"
    )
    assert names_of_a_room("streamsvm.coreset.planted", planted) == {"papers"}
    assert names_of_a_room("streamsvm.papers.planted", planted) == set()
    assert private_to_others(planted) == {"_hidden", "_hold"}
    other = tmp_path / "other.py"
    other.write_text(
        "from streamsvm.svm.block.descent import BlockDescent\n"
        "class A(BlockDescent):\n    def b(self):\n        return self._crowded_ns, self._gap, self._n_support\n"
    )
    assert private_to_others(other, BASES["drop_in"]) == {"_crowded_ns"}


TRAINED: str = """
import sys, tempfile
from pathlib import Path
from consumers.cli import app
from consumers.scorer import scorer
from consumers.verify.verify import verify
from streamsvm.kafka import Cluster, EmbeddedBroker
from tests.consumers.trainers import produce, records, run_until, settings_for
with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as directory:
    settings = settings_for("v", Path(directory))
    produce(broker.connection, settings.input.topic, records(90))
    run_until(settings, broker.connection, 90)
    report = verify(Cluster(broker.connection), settings)
    print(len(report.rows), report.clean, app.__file__)
print(*sorted(name for name in sys.modules if name.split(".")[:2] in ROOMS))
"""
"""A small stream that a trainer with default options learns and `verify` recomputes; then the modules of rooms."""
REFUSED: str = """
from consumers.loader import load
for options in ({"svm": {"solver": "stda-paper"}}, {"coreset": {"structure": "counter"}},
        {"coreset": {"reducer": "sensitivity"}}, {"coreset": {"fan_in": 2}}):
    try:
        load({"points": {"dimension": 3}, **options}).models()
    except Exception as error:
        print(error)
"""

FITTED: str = """
import numpy as np
import streamsvm
X = np.random.default_rng(0).standard_normal((300, 2))
print(streamsvm.CoresetSVC(memory_points=100).fit(X, X[:, 0] > 0.0).score(X, X[:, 0] > 0.0) > 0.9)
for name in ("STDASVC", "patch_sklearn", "no_such_name"):
    try:
        print(getattr(streamsvm, name).__name__)
    except AttributeError as error:
        print(error)
"""
"""An estimator of the trunk, and those that a room offers."""


def run_in(tree: Path, program: str) -> list[str]:
    """Run a program over the modules of a tree, or as this process finds them; return the lines that it prints."""
    where = dict(os.environ) if tree == ROOT else {**os.environ, "PYTHONPATH": str(tree)}
    text = f"ROOMS = {[['streamsvm', room] for room in ROOMS]}\n{program}"
    ran = subprocess.run([sys.executable, "-c", text], cwd=tree, env=where, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture
def trunk(tmp_path: Path) -> Path:
    """A copy of the tree without rooms and without their tests; of the tests only what makes a small stream."""
    rooms = [*(ROOT / "streamsvm" / room for room in ROOMS), *(ROOT / "tests" / room for room in ROOMS)]

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder) / name in rooms}

    for package in ("streamsvm", "consumers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=left_out)
    for name in ("__init__.py", "streams.py", "consumers/__init__.py", "consumers/trainers.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "tests" / name, tmp_path / "tests" / name)
    return tmp_path


def test_a_daemon_with_default_options_loads_nothing_of_a_room() -> None:
    """But the names that it lists, and what these do not go with."""
    *_, trained, loaded = run_in(ROOT, TRAINED)
    assert trained.startswith("2 True")
    expected = {name for room in ROOMS for name in (f"streamsvm.{room}", f"streamsvm.{room}.plug")}
    expected |= {name for where in plugs("supports") if (name := where.partition(":")[0]).split(".")[1] in ROOMS}
    assert loaded.split() == sorted(expected)


def test_the_trunk_works_without_its_rooms(trunk: Path) -> None:
    """Trainer, scorer and `verify` are imported, a stream is learned and verified, and no room is missed."""
    *_, trained, loaded = run_in(trunk, TRAINED)
    assert trained == f"2 True {trunk / 'consumers' / 'cli' / 'app.py'}"
    assert loaded == ""


def test_the_choices_of_a_room_are_unknown_without_it(trunk: Path) -> None:
    """Each is refused with those that there are; what a `tree` without buckets is, too."""
    solver, structure, reducer, counter = run_in(trunk, REFUSED)
    assert "svm.solver: must be 'stda' (got 'stda-paper')" in solver
    assert "coreset.structure: must be 'tree' or 'chain' (got 'counter')" in structure
    assert "coreset.reducer: must be 'uniform' or 'calibrated' (got 'sensitivity')" in reducer
    assert "`counter`, which is not part of this installation: give coreset.structure = chain" in counter


def test_estimators_of_a_room_are_offered_by_the_package() -> None:
    """Those that the package lists, each loaded when it is asked for."""
    offered = set(dict(choices("estimators")))
    assert set(estimators.__all__) - offered == {"CoresetSVC"}
    assert set(streamsvm.__all__) == {*estimators.__all__, "ModelSubscriber", "__version__"}
    for name in estimators.__all__:
        assert getattr(streamsvm, name) is getattr(estimators, name)
    assert run_in(ROOT, FITTED)[:3] == ["True", "STDASVC", "patch_sklearn"]


def test_estimators_of_a_room_are_missed_by_name_without_it(trunk: Path) -> None:
    """The trunk's own estimator learns, and who asks for another is told why it is not there."""
    own, first, second, other = run_in(trunk, FITTED)
    assert own == "True"
    for name, said in (("STDASVC", first), ("patch_sklearn", second)):
        assert f"{name} is not part of this installation: the folder of streamsvm that has it is missing" in said
    assert "has no attribute 'no_such_name'" in other
