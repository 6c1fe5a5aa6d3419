"""`streamsvm scale refine`: the best machine over all rows of a version, found by reading them again, and published.

A version is near the best machine over its rows; how near, its certificate proves, and each read of the log that a
certificate takes meets a better machine. Rows are looked at as they were learned, outliers within their bounds: what
was bounded to save a model is not let in here. The best machine met is published under a model name of its own, with
its proof in the lineage; only the trainer publishes under the trainer's name. Probability, threshold and audit are made
anew from the audit sample of the same cut. `streamsvm verify --name NEW` makes all of it again, from the log alone.

Invariant: nothing is published that the log does not give again on this build, and no version of a trainer is touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import msgspec

from consumers.branches.history import beside
from consumers.host.runtime import schemas_of
from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S
from consumers.verify.replayed import Replayed
from consumers.verify.verifier import verifiers_of
from streamsvm.branches.history.refined_part import Refined
from streamsvm.build import build
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.publication import Publication
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.kafka import Cluster, Connection
from streamsvm.learning.certifying import Certificate, Certifier
from streamsvm.learning.recipe import Made, Origin, remade, version_of
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.gap import gap_of, percent
from streamsvm.model.machine import LinearMachine
from streamsvm.model.version import Version, positions
from streamsvm.registry.loading import Loaded
from streamsvm.verification.differences import differences
from streamsvm.verification.recomputation import Recomputation, certifier_of

SURVEYS: Final = 6
"""Rows held at once, for each row that is kept and each partition, at most: three looks, each up to twice."""

Say = Callable[[str], object]
"""Takes a line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is requested.

    Attributes
    ----------
    name : str
        Of the new model.
    within : float
        Gap to the best possible machine that is enough.
    reads : int
        Most reads of the log after the first, which makes the version again.
    keep : int
        Rows that a read keeps whole.
    by : str
        Who asks, for the audit trail.
    """

    name: str
    within: float
    reads: int
    keep: int
    by: str


def refine(
    connection: Connection, settings: Settings, loaded: Loaded, value: bytes, request: Request, say: Say
) -> Publication:
    """Refine a published version, and publish the result.

    Parameters
    ----------
    connection : Connection
    settings : Settings
        Of whose model the version is; only `name`, `output` and `registry` are looked at.
    loaded : Loaded
    value : bytes
        Of its record.
    request : Request
    say : callable

    Raises
    ------
    ConfigurationError
        If the version cannot be refined, or the name belongs to a trainer.
    StateError
        If the log does not give the version again.
    TransientError
        If the broker does not answer, or a transaction stays open.
    """
    version = loaded.version
    _require_refinable(version, settings, request)
    target, cluster = settings.model_copy(update={"name": request.name}), Cluster(connection)
    beside.require_own_name(connection, target)
    with ExitStack() as stack:
        schemas = stack.enter_context(schemas_of(settings))
        verifiers = verifiers_of(cluster, settings, READ_TIMEOUT_S, schemas)
        replayed = stack.enter_context(Replayed(cluster, READ_TIMEOUT_S, schemas, verifiers))
        say(_memory(version, request))
        recomputation, made = replayed.made(version)
        _compare(recomputation, made, version, value, replayed.facts(version), say)
        certifier = certifier_of(version, request.keep, made)
        assert certifier is not None  # of a version that this build makes again
        certificate = _read(replayed, version, certifier, request, say)
    if not math.isfinite(certificate.reached):
        raise StateError(
            f"the objective of {version.key} over all rows is beyond what float64 holds, so nothing can be proven",
            "Look for rows of extreme values: coreset.max_leverage leaves them out.",
        )
    refined = Refined(
        name=version.name,
        number=version.number,
        sha256=loaded.sha256,
        keep=request.keep,
        reads=certificate.reads,
        objective=certificate.reached,
        bound=certificate.bound,
        bounded=certificate.bounded,
    )
    return _publish(connection, target, recomputation, version, made, certifier.best, refined, request.by)


def gap(refined: Refined) -> float | None:
    """Return how far a refined machine is from the best one at most over the rows as learned; None: not known."""
    return gap_of(refined.objective, refined.bound)


def _require_refinable(version: Version, settings: Settings, request: Request) -> None:
    if request.name == settings.name:
        raise ConfigurationError(
            f"--as {request.name} is the trainer's own model: only the trainer publishes under its name",
            f"Choose another name, for example --as {settings.name}-refined.",
        )
    if (source := version.lineage.fact(Refined)) is not None:
        raise ConfigurationError(
            f"{version.key} is refined already, from {source.name}@{source.number}",
            f"Refine a version of {source.name}, with more --reads or a smaller --within.",
        )
    certifier_of(version, request.keep)


def _memory(version: Version, request: Request) -> str:
    row = 8 * version.model.dimension + 9 + 24
    partitions = len(version.lineage.cut)
    megabytes = SURVEYS * request.keep * partitions * row / 1e6
    return (
        f"refining {version.key}: {version.stream.rows:,} rows of {partitions} partitions are read up to "
        f"{request.reads + 1} times, and at most {megabytes:,.0f} MB of rows are held (--keep {request.keep})"
    )


def _compare(
    recomputation: Recomputation,
    made: Made,
    version: Version,
    value: bytes,
    facts: tuple[msgspec.Struct, ...],
    say: Say,
) -> None:
    """See that the log gives the version again: what is refined must be what people know by its name."""
    parts = differences(value, recomputation.encoded(made, version, version.lineage, facts))
    if parts and version.lineage.build == build():
        raise StateError(
            f"the log gives another {version.key} than the published one: {'; '.join(parts)}",
            f"Find out why first: streamsvm verify --version {version.number}",
        )
    if parts:
        say(f"this build makes another {version.key} than the one that published it; what is refined is this build's")


def _read(replayed: Replayed, version: Version, certifier: Certifier, request: Request, say: Say) -> Certificate:
    while True:
        certificate = replayed.read(version, certifier)
        proven = gap_of(certificate.reached, certificate.bound)
        near = proven is not None and proven <= request.within
        reached = "nothing proven"
        if proven is not None:
            reached = f"within {percent(proven)} of the best possible"
        say(f"read {certificate.reads} of at most {request.reads}: {reached}")
        if near or certifier.done or certificate.reads >= request.reads:
            return certificate


def _publish(
    connection: Connection,
    target: Settings,
    recomputation: Recomputation,
    version: Version,
    made: Made,
    machine: LinearMachine,
    refined: Refined,
    by: str,
) -> Publication:
    """Publish as the next version of a model of its own: an incarnation for each, as each has a cut of its own."""

    def make(delivery: Delivery) -> tuple[Version, Made]:
        again = remade(made, recomputation.config, machine)
        origin = Origin(
            name=target.name,
            number=delivery.next_number,
            parent=delivery.parent,
            links=tuple(Ancestor(link.number, link.sha256) for link in delivery.links),
            topic=version.lineage.topic,
            topic_id=version.lineage.topic_id,
            base=positions(version.lineage.base),
            build=build(),
            facts=(refined,),
            of_cut=recomputation.others,
        )
        return version_of(again, recomputation.config, origin), again

    return beside.publish(connection, target, "refine-", make, by)
