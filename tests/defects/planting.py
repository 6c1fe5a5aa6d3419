"""What a planted defect is, and how one is put into the product and taken out again.

A defect is a behaviour, such as "resends": its name and its docstring say what the daemon does, and its function puts a
small patch into the product that makes it do so. Whoever rewrites the patched part ports the patch. A disturbance is
put in the same way: it makes happen what a test cannot make the world do, and the daemon must take it well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A small simulated world in which a defect shows.

    `breach`: A regular expression for what it breaks. `faults`: What may happen in that world. `world`: Whether that
    world itself has the defect (`tests.defects.worlds`): where the simulation has a part of its own, such as the
    broker's client, a patch of the product would change nothing. `alone`: Whether another part is taken out of that
    world, which would make good what is missing. `two`: Whether there are two instances. `scorer`: Whether it is a
    scorer's.
    """

    breach: str
    faults: Mapping[str, int]
    world: bool = False
    alone: bool = False
    policies: Sequence[str] = ("every", "latest")
    two: bool = False
    records: int = 4
    steps: int = 150
    variants: tuple[str, ...] = ()
    scorer: bool = False
    partitions: int = 1


@dataclass(frozen=True, kw_only=True)
class Live:
    """Random faults on a live system under which a defect shows.

    `part` ("train", "score", "scale" or "read"): The command in whose processes the defect is. `nemeses`: Under which
    it comes to light. `shows`: Anomalies of which at least one must be found. `faults, transactions`: How many are
    waited for. `models`: Who learns.
    """

    part: str
    nemeses: tuple[str, ...]
    shows: tuple[str, ...]
    faults: int = 5
    transactions: int = 100
    models: tuple[str, ...] = ("a",)


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A behaviour that some check must find.

    `plant`: Patches the product, unless a simulated world is all that has the defect. `simulated`: Where it shows: in a
    world of a trainer, of a scorer, in none. `live`: Tests and scenarios besides name the defects that they find.
    `joined`: Whether it shows where two logs are merged in memory (`tests/joining`). `patches`: Whether the product is
    patched.
    """

    plant: Callable[[], None]
    simulated: tuple[Simulated, ...] = ()
    live: Live | None = None
    joined: bool = False
    patches: bool = True

    @property
    def name(self) -> str:
        """What it does, in words with hyphens."""
        return name_of(self.plant)

    @property
    def behaviour(self) -> str:
        """What it does, in a sentence."""
        return " ".join((self.plant.__doc__ or "").split())


@dataclass
class Table:
    """Defects and disturbances by name, each put in by its decorator."""

    defects: dict[str, Defect] = field(default_factory=dict)
    disturbances: dict[str, Callable[[], None]] = field(default_factory=dict)

    def defect(self, *simulated: Simulated, **places: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
        """Add a function that plants a defect, with the fields of `Defect`."""

        def add(plant: Callable[[], None]) -> Callable[[], None]:
            self.defects[name_of(plant)] = Defect(plant=plant, simulated=simulated, **places)
            return plant

        return add

    def disturbance(self, plant: Callable[[], None]) -> Callable[[], None]:
        """Add a function that makes something happen which is no defect."""
        self.disturbances[name_of(plant)] = plant
        return plant

    def plant(self, names: str) -> None:
        """Plant what is named, with pluses or commas between names; underscores do for hyphens."""
        for name in names.replace(",", "+").replace("_", "-").split("+"):
            if name in self.defects:
                assert self.defects[name].patches, f"only a simulated world has {name}"
                self.defects[name].plant()
            else:
                self.disturbances[name]()


TABLE: Final = Table()
_replaced: Final[list[tuple[Any, str, Any]]] = []
"""What stood where, in the order in which it was replaced."""


def name_of(plant: Callable[[], None]) -> str:
    """Return the name of what a function plants."""
    return plant.__name__.replace("_", "-")


@contextmanager
def planted(*names: str) -> Iterator[None]:
    """Have defects in this process for a while."""
    before = len(_replaced)
    try:
        TABLE.plant("+".join(names))
        yield
    finally:
        while len(_replaced) > before:
            owner, name, value = _replaced.pop()
            setattr(owner, name, value)


def replace_part(owner: Any, name: str, value: Any) -> None:
    """Replace what a module or a class has under a name."""
    _replaced.append((owner, name, inspect.getattr_static(owner, name)))
    setattr(owner, name, value)


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around(original, *arguments)`, which must take what the function takes."""
    original = getattr(owner, name)
    parameters = inspect.signature(original).parameters.values()
    taken = [one for one in parameters if one.kind in POSITIONAL]
    named_only = {one.name: one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    try:
        inspect.signature(around).bind(original, *taken, **named_only)
    except TypeError as misfit:
        raise TypeError(f"what is planted for {name} does not fit it any more: {misfit}") from misfit

    @functools.wraps(original)
    def replaced(*given: Any, **named: Any) -> Any:
        return around(original, *given, **named)

    replace_part(owner, name, replaced)
