"""Defects of who reads an input topic, waits for a broker, and answers over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from consumers.host.runtime import Health
from consumers.host.web.connections import Connections
from consumers.scorer.placing import Placing
from consumers.streams.identity import TopicIdentity
from consumers.trainer.life import Life
from streamsvm.errors import BrokerUnavailable
from streamsvm.kafka import Cluster, Input, Record, TopicInfo
from streamsvm.kafka.failures import Fault
from tests.defects.planting import TABLE, Live, Simulated, replace_part, wrap

HOARDED_BYTES: Final = 1_000_000
LATE: Final = "late labels"
OTHER_LOG: Final = "other log"


# ------------------------------------------------------- which topic, which part


@TABLE.defect()
def takes_every_topic_for_the_same() -> None:
    """A topic is known by its name only."""
    wrap(Cluster, "describe", lambda original, *given: replace(original(*given), topic_id="the-same"))
    wrap(Cluster, "topic_id", lambda original, *given: "the-same")


@TABLE.defect(
    Simulated(
        breach="is not what a clean run gives|went back to incarnation",
        faults={"recreate": 2, "unnoticed": 4},
        records=8,
    ),
    live=Live(part="train", nemeses=("recreated",), shows=("mixed", "misjoined"), faults=2, models=("c",)),
)
def looks_by_the_clock_only() -> None:
    """Whether an input is still the same is asked now and then, and not before what was learned counts."""
    wrap(Life, "confirm", lambda original, life: None)


@TABLE.defect(
    Simulated(
        breach="doubled-score|lost-score|phantom|points of partition",
        faults={"points recreated": 2, "unnoticed": 4},
        records=8,
        scorer=True,
    ),
    live=Live(part="score", nemeses=("recreated",), shows=("lost-score", "unasked"), faults=2),
)
def believes_its_positions() -> None:
    """How far the input was scored is taken for true of whatever topic has the name."""
    wrap(TopicIdentity, "confirm", lambda original, identity, reached: None)
    wrap(Placing, "_is_another", lambda original, placing, topic_id: False)


@TABLE.defect(
    Simulated(
        breach="clean run|at rest no version|dead letter|refused without a reason",
        faults={"kill": 2, "trim": 6, OTHER_LOG: 9},
        world=True,
        records=10,
        steps=250,
        variants=(LATE,),
    )
)
def jumps_over_removed_records() -> None:
    """Where the log begins above a position, reading goes on at its beginning."""
    first: dict[int, int] = {}

    def log_range(original: Any, cluster: Cluster, topic: str, partition: int) -> tuple[int, int]:
        first[partition], end = original(cluster, topic, partition)
        return 0, end

    def leader_epoch(original: Any, cluster: Cluster, topic: str, partition: int, offset: int) -> int | None:
        epoch: int | None = None if offset < first.get(partition, 0) else original(cluster, topic, partition, offset)
        return epoch

    def assign(original: Any, reader: Input, positions: dict[int, int]) -> None:
        original(reader, {partition: max(offset, first.get(partition, 0)) for partition, offset in positions.items()})

    wrap(Cluster, "log_range", log_range)
    wrap(Cluster, "leader_epoch", leader_epoch)
    wrap(Input, "assign", assign)


@TABLE.defect()
def sees_no_new_partition() -> None:
    """The partitions of a topic are those of its first description."""
    known: dict[str, tuple[int, ...]] = {}

    def describe(original: Any, cluster: Cluster, topic: str) -> TopicInfo:
        info = original(cluster, topic)
        return replace(info, partitions=known.setdefault(topic, info.partitions))

    wrap(Cluster, "describe", describe)


# ----------------------------------------------------------------------- records


@TABLE.defect()
def drops_when_pausing() -> None:
    """After a pause reading goes on behind what the client had fetched ahead before it."""
    skipping = [0]

    def pause(original: Any, reader: Input, *given: Any) -> None:
        skipping[0] = 5
        original(reader, *given)

    def poll(original: Any, reader: Input, max_records: int, timeout_s: float) -> list[Record]:
        records: list[Record] = original(reader, max_records, timeout_s)
        dropped = min(skipping[0], len(records))
        skipping[0] -= dropped
        return records[dropped:]

    wrap(Input, "pause", pause)
    wrap(Input, "poll", poll)


@TABLE.defect()
def hoards() -> None:
    """Every turn in which nothing came leaves a megabyte behind."""
    _keeps(lambda records: [bytearray(b"x" * HOARDED_BYTES)])


@TABLE.defect()
def keeps_what_it_read() -> None:
    """Every record read leaves a kilobyte behind."""
    _keeps(lambda records: [bytearray(b"\1" * 1024) for _ in records])


def _keeps(of: Callable[[list[Any]], list[bytearray]]) -> None:
    kept: list[bytearray] = []

    def poll(original: Any, *given: Any) -> list[Any]:
        records: list[Any] = original(*given)
        kept.extend(of(records))
        return records

    wrap(Input, "poll", poll)


# ---------------------------------------------------------------------- the world


@TABLE.defect()
def takes_refusals_for_outages() -> None:
    """A password, a certificate or a permission that is refused counts as a broker that is away."""
    for fault in (Fault.UNTRUSTED, Fault.FORBIDDEN):
        replace_part(fault, "error", BrokerUnavailable)


@TABLE.defect()
def always_ready() -> None:
    """/readyz answers yes."""

    def ready(original: Any, health: Health) -> tuple[bool, Mapping[str, Any]]:
        return True, {"ready": True, "waiting_for": {}}

    wrap(Health, "ready", ready)


@TABLE.defect()
def turns_away_newcomers() -> None:
    """When all places are taken the newest connection goes, whoever holds the others."""

    def add(original: Any, connections: Connections, connection: Any) -> Any:
        return connection if len(connections) >= connections._most else original(connections, connection)

    wrap(Connections, "add", add)
