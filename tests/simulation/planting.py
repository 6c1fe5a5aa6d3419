"""How a defect is planted, and the small worlds in which it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.simulation import ports
from tests.simulation.running import SHIPPED, Design
from tests.simulation.world import Profile, World


@dataclass(frozen=True)
class Defect:
    """A planted defect and a small world in which it shows.

    Attributes
    ----------
    what : str
        What is missing.
    breach : str
        A regular expression for what it breaks.
    faults : mapping of str to int
        What may happen in that world.
    design : Design
    planted : callable
        Returns a context in which the shipped code is defective.
    alone : callable
        Returns a context without another part, which would make good what is missing; the promise holds without it.
    policies : sequence of str
    two : bool
    records, steps : int
    variants : tuple of str
    scorer : bool
        Whether it is a scorer's.
    partitions : int
    """

    what: str
    breach: str
    faults: Mapping[str, int]
    design: Design = SHIPPED
    planted: Callable[[], AbstractContextManager[Any]] = nullcontext
    alone: Callable[[], AbstractContextManager[Any]] = nullcontext
    policies: Sequence[str] = ("every", "latest")
    two: bool = False
    records: int = 4
    steps: int = 150
    variants: tuple[str, ...] = ()
    scorer: bool = False
    partitions: int = 1

    def profile(self, number: int) -> Profile:
        """Return the n-th of its small worlds."""
        policy = self.policies[number % len(self.policies)]
        faults = {"slow training": 3, "late poll": 3, "small batch": 3, **self.faults}
        if self.two:
            faults |= {"copy": 1, "switch": 6, "survivor": 1}
        return Profile(
            policy,
            self.partitions,
            self.records,
            self.steps,
            faults,
            self.two,
            variants=self.variants,
            scorer=self.scorer,
        )


def replaced(target: object, name: str, value: object) -> Callable[[], AbstractContextManager[Any]]:
    """Return what puts a value in the place of an attribute, for a while."""
    return lambda: mock.patch.object(target, name, value)


def with_cluster(cluster: type[ports.Cluster]) -> Design:
    """Return a world of another broker."""

    class Ports(ports.Ports):
        def __init__(self, world: World, life: Any) -> None:
            super().__init__(world, life)
            self.cluster = cluster(world, life)

    return Design(ports=Ports)
