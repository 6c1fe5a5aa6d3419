"""How far a version can be from the model that never saw some of its rows, before anything is learned again.

The rows that are left are read once, or twice where that proves more, and a certificate is made of them: the version's
objective over them is at most `objective`, and that of no machine, over the same scaler, C and class weights, is below
`bound`. With G between the two, the coefficients of the best machine are at most sqrt(2 G) away, since the objective is
strongly convex in them; of the intercept nothing is said, which many values may share.

Source: the ball of Okumura, Suzuki and Takeuchi 2015, of which `streamsvm.branches.bounds.certificate.deletion` has the
sharper form for rows that are all held.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from consumers.branches.history.stretches import Ranges
from streamsvm.errors import ConfigurationError, StreamsvmError
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.learning.certifying import KEEP
from streamsvm.model.left_out import Places
from streamsvm.model.machine import LinearMachine
from streamsvm.model.version import Version, positions
from streamsvm.verification.recomputation import NotRecomputable, certifier_of, configuration_of

READS: Final = 2
"""A second look proves more where the first one kept too few rows of those near the kink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a version can be from the best model without some rows.

    Attributes
    ----------
    version : str
    rows : int
        Valid rows that are left, all of them read.
    gap : float or None
        Its objective over them is at most so far above the least one, in absolute terms; None: not known.
    distance : float or None
        Its coefficients are at most so far from those of the best machine.
    share : float or None
        The same in parts of their length.
    seconds : float
        Spent on it.
    why : str
        Why nothing is known; else empty.
    """

    version: str
    rows: int = 0
    gap: float | None = None
    distance: float | None = None
    share: float | None = None
    seconds: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        if self.distance is None or self.share is None:
            return f"how far {self.version} can be from a model that never saw these rows is not known: {self.why}"
        return (
            f"the coefficients of {self.version} are at most {self.distance:.3g} from those of the best model, over "
            f"the same scaler and C, that never saw these rows: {self.share:.2%} of their length, by {self.rows:,} rows"
        )


def reach_without(
    cluster: Cluster,
    version: Version,
    topic_id: str,
    places: Places,
    schemas: SchemaRegistry | None,
    timeout_s: float,
) -> Reach:
    """Read the rows of a version but some, and return how far it can be from the best model of these.

    Parameters
    ----------
    cluster : Cluster
    version : Version
    topic_id : str
        Of the input.
    places : mapping of partition to positions
        Rows that it should never have seen.
    schemas : SchemaRegistry, optional
    timeout_s : float
        Seconds to wait without progress.
    """
    begun = time.monotonic()
    try:
        found = _read(cluster, version, topic_id, places, schemas, timeout_s)
    except (ConfigurationError, NotRecomputable) as error:
        return Reach(version=version.key, why=error.what)
    except StreamsvmError as error:  # a bound is no reason to put a deletion off
        return Reach(version=version.key, why=f"the rows could not be read: {error.what}")
    seconds = round(time.monotonic() - begun, 3)
    if found is None:
        return Reach(version=version.key, why="no bound is made of such a version", seconds=seconds)
    rows, gap = found
    machine = version.model.machine
    assert isinstance(machine, LinearMachine)
    length = float(np.linalg.norm(machine.coefficients))
    if not (math.isfinite(gap) and length > 0.0):
        return Reach(version=version.key, rows=rows, why="nothing is proven of these rows", seconds=seconds)
    distance = math.sqrt(2.0 * gap)
    return Reach(version=version.key, rows=rows, gap=gap, distance=distance, share=distance / length, seconds=seconds)


def _read(
    cluster: Cluster,
    version: Version,
    topic_id: str,
    places: Places,
    schemas: SchemaRegistry | None,
    timeout_s: float,
) -> tuple[int, float] | None:
    certifier = certifier_of(version, KEEP)
    if certifier is None:
        return None
    lineage, config = version.lineage, configuration_of(version.lineage)
    if config.label_rule is not None:
        raise NotRecomputable("labels of a log of their own are not joined for it")
    base, cut = positions(lineage.base), positions(lineage.cut)
    forgotten = {partition: frozenset(own) for partition, own in places.items()}
    least = math.inf
    rows = 0
    with Ranges(cluster, lineage.topic, topic_id, config, timeout_s, schemas, forgotten) as ranges:
        for _ in range(READS):
            for partition in sorted(cut):
                for own in ranges.rows(partition, base[partition], cut[partition]):
                    if own.accepted.any():
                        certifier.look(partition, own.points.take(own.accepted))
            certificate = certifier.certificate()
            rows, least = certificate.rows, min(least, certificate.objective - certificate.bound)
            if certifier.done:
                break
    return rows, max(0.0, least)
