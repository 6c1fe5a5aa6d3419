"""The sum: from a rate, and constants that were measured, to cores, partitions and the first bottleneck; no I/O.

A row is decoded and learned by the one worker that owns its partition, so a partition is never faster than a core. What
workers send is little: the state of each partition, when it changed. The trainer's work does not grow with the rate.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

BUSY: Final = 0.8
"""Share of a core that is counted on: the rest is for what comes in bursts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is asked for.

    Attributes
    ----------
    rate : float
        Points a second, over all partitions.
    partitions : int
    network_gbit : float
        Of the link between broker and workers, gigabits a second.
    """

    rate: float
    partitions: int
    network_gbit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What one machine takes, measured.

    Attributes
    ----------
    decode_us, learn_us : float
        Processor time a point, microseconds, the latter late in a stream.
    point_bytes : float
        Bytes of a point on the wire, uncompressed.
    partition_bytes : float
        Of a partition's state.
    training_s : float
        Processor time of one version, from the cut of one partition to its value.
    training_points : int
        Points that it was trained on.
    """

    decode_us: float
    learn_us: float
    point_bytes: float
    partition_bytes: float
    training_s: float
    training_points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What it takes.

    Attributes
    ----------
    cores : float
        Kept busy by decoding and learning.
    workers : int
        Processes of one core each, `BUSY` of it used.
    least_partitions : int
        With fewer, one of them needs more than a core.
    network_mb_s : float
        From broker to workers.
    state_mb : float
        Of all partitions, in the workers, and once more in the trainer.
    most : dict of str to float
        By bottleneck, the greatest rate that it allows, points a second.
    bottleneck : str
        The one that becomes too small first.
    fits : bool
        Whether none of them is below the rate.
    """

    cores: float
    workers: int
    least_partitions: int
    network_mb_s: float
    state_mb: float
    most: dict[str, float]
    bottleneck: str
    fits: bool

    def plain(self) -> dict[str, Any]:
        """Return it as a plain JSON value."""
        return asdict(self)


def sizing_of(demand: Demand, constants: Constants) -> Sizing:
    """Return what a demand takes.

    The rate is taken to be spread evenly over the partitions.
    """
    row_s = (constants.decode_us + constants.learn_us) * 1e-6
    cores = demand.rate * row_s
    most = {
        "partitions": demand.partitions * BUSY / row_s,
        "network": demand.network_gbit * 1e9 / 8.0 * BUSY / constants.point_bytes,
    }
    bottleneck = min(most, key=lambda name: most[name])
    return Sizing(
        cores=cores,
        workers=max(1, math.ceil(cores / BUSY)),
        least_partitions=max(1, math.ceil(cores / BUSY)),
        network_mb_s=demand.rate * constants.point_bytes / 1e6,
        state_mb=demand.partitions * constants.partition_bytes / 1e6,
        most=most,
        bottleneck=bottleneck,
        fits=most[bottleneck] >= demand.rate,
    )
