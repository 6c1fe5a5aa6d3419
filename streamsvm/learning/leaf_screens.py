"""The screens of a partition's leaves: whom it asks whether the next leaf is screened, and by what.

Two labels are screened by a linear machine; other kinds are plugged in. A kind says for which
configurations it is there, how much a leaf may span, and makes the screener of a leaf from what is sealed.

Invariant: a screen is a pure function of what is sealed, the configuration and the leaf's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from streamsvm.config import ModelConfig
from streamsvm.coreset import screen_making
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Purpose, generator
from streamsvm.coreset.screen_making import make_screen
from streamsvm.coreset.screening import LEAST_CAPACITY, Screener
from streamsvm.coreset.screens import LeafRule, LeafScreener
from streamsvm.coreset.structure import Extent
from streamsvm.learning.pilots import linear_pilot
from streamsvm.learning.tasks import Task
from streamsvm.points import Points
from streamsvm.sockets import plugged

SOCKET: Final = "leaf_screens"
NodePilot = Callable[[Points, float, Moments], Any]
"""Returns the pilot of a node from its points, their weight, and moments of all rows that it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What a leaf is screened by.

    Attributes
    ----------
    points : Points
        Of the sealed buckets.
    extent : Extent
        What they stand for.
    pilot : object or None
        Theirs, if sealing has solved it.
    span : int
        Rows that the leaf spans.
    accepted : float
        Expected number of valid rows among them.
    leaf : tuple of (seed, partition, number)
        The leaf's name.
    """

    points: Points
    extent: Extent
    pilot: Any
    span: int
    accepted: float
    leaf: tuple[int, int, int]


class LeafScreens(ABC):
    """One kind of screens.

    Parameters
    ----------
    config : ModelConfig
    task : Task

    Attributes
    ----------
    least_leaves : int
        A leaf that would span less, in leaves that are not screened, is not screened.
    """

    least_leaves: ClassVar[int] = 2

    def __init__(self, config: ModelConfig, task: Task) -> None:
        self._config, self._task = config, task

    @classmethod
    @abstractmethod
    def wanted(cls, config: ModelConfig, task: Task) -> bool:
        """Return whether leaves of a configuration, which screens, are screened by this kind."""

    @classmethod
    @abstractmethod
    def warm_up(cls, config: ModelConfig, say: Callable[[str], None]) -> None:
        """Compile what this kind runs, if a configuration may need it; say so before."""

    @abstractmethod
    def share(self, points: int) -> float:
        """Return the share of the rows that are known which a leaf may span, where the buckets have so many points."""

    @abstractmethod
    def begun(self, sealed: Sealed) -> LeafScreener | None:
        """Return the screener of a new leaf; None if it is to be short."""

    def kept_pilot(self, rule: LeafRule | None, sealed: int) -> NodePilot | None:  # noqa: ARG002
        """Return what gives pilots without solving anything, by a leaf's own screen; None where they are solved.

        Parameters
        ----------
        rule : LeafRule or None
            Of the leaf that is full.
        sealed : int
            Leaves sealed before.
        """
        return None


class LinearScreens(LeafScreens):
    """By the margin of a linear pilot of two labels; parameters as of `LeafScreens`."""

    @classmethod
    def wanted(cls, config: ModelConfig, task: Task) -> bool:
        """Return whether a linear machine separates two labels."""
        fits = config.coreset.leaf_rows >= LEAST_CAPACITY
        return task.classes == 2 and config.svm.kernel == "linear" and fits

    @classmethod
    def warm_up(cls, config: ModelConfig, say: Callable[[str], None]) -> None:
        """See `LeafScreens`."""
        if config.coreset.screens:
            say("preparing the screening")
            screen_making.warm_up(config.points.numpy_dtype)

    def share(self, points: int) -> float:  # noqa: ARG002
        """Return that of the configuration."""
        return self._config.coreset.SCREENING

    def begun(self, sealed: Sealed) -> Screener | None:
        """See `LeafScreens`."""
        points, moments, (seed, partition, leaf) = sealed.points, sealed.extent.moments, sealed.leaf
        pilot, capacity = sealed.pilot, self._config.coreset.leaf_rows
        if pilot is None:
            pilot = linear_pilot(points, moments.weight, moments, self._config.svm)
        if pilot.lower_bound <= 0.0:
            return None
        random = generator(seed, Purpose.SKETCH, (partition, leaf, 0))
        screen = make_screen(points, pilot, moments, sealed.span, sealed.accepted, capacity, random)
        return Screener.begin(screen, *sealed.leaf)


def screens_of(config: ModelConfig, task: Task) -> LeafScreens | None:
    """Return the screens of a configuration; None where no leaf is screened."""
    if not config.coreset.screens:
        return None
    return next((kind(config, task) for kind in _kinds() if kind.wanted(config, task)), None)


def warm_up(config: ModelConfig, say: Callable[[str], None]) -> None:
    """Compile, or load from numba's file cache, whatever the screens of a configuration run."""
    for kind in _kinds():
        kind.warm_up(config, say)


def _kinds() -> Iterator[type[LeafScreens]]:
    yield LinearScreens
    for kind in plugged(SOCKET, type):
        if not issubclass(kind, LeafScreens):
            raise TypeError(f"{kind.__module__}:{kind.__name__} is not a kind of screens")
        yield kind
