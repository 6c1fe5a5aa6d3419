"""Who owns which partitions, by numbers alone."""

from __future__ import annotations

from consumers.branches.workers.ownership import FixedShare
from streamsvm.kafka import Cluster
from tests.brokers.fixtures import TestBroker

PARTITIONS = 4


def test_fixed_shares_are_all_partitions(broker: TestBroker) -> None:
    """Each once, whatever the number of workers."""
    cluster, topic = Cluster(broker.connection), broker.topic(PARTITIONS)
    for of in (1, 2, 3, 5):
        shares = [FixedShare(cluster, topic, ordinal=k, of=of, look_every_s=60.0) for k in range(of)]
        assert sorted(p for share in shares for p in share.poll()) == list(range(PARTITIONS))
        assert shares[0].poll() == {p for p in range(PARTITIONS) if p % of == 0}
