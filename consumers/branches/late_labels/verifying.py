"""What `verify` knows of late labels: both logs of a version are joined again."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

from consumers.branches.late_labels.joined_source import JoinedSource
from consumers.settings import Settings
from consumers.verify.source import BATCH_RECORDS, POLL_S, ReplaySource
from consumers.verify.verifier import Verifier, Verifies
from streamsvm.branches.late_labels.lineage import LabelsOrigin, labels_origin_of
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.left_out import Places
from streamsvm.model.version import Version
from streamsvm.points import Positions
from streamsvm.verification.recomputation import NotRecomputable, Recomputation


class LabelsVerifier(Verifier):
    """The branch's own.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
    timeout_s : float
    schemas : SchemaRegistry, optional
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,  # noqa: ARG002 - what every verifier is given
        timeout_s: float,
        schemas: SchemaRegistry | None = None,  # noqa: ARG002
    ) -> None:
        self._cluster, self._timeout_s = cluster, timeout_s

    def other_log(self, version: Version) -> LabelsOrigin | None:
        """Return the log of a version's labels."""
        return labels_origin_of(version)

    def source(self, version: Version, recomputation: Recomputation, without: Places) -> ReplaySource | None:
        """Return what joins the logs; raises `NotRecomputable` if a version names one, or has a rule, without both."""
        labels = labels_origin_of(version)
        if (recomputation.config.label_rule is None) != (labels is None):
            raise NotRecomputable("the version's configuration and lineage.labels do not fit together")
        return None if labels is None else _Joined(self._cluster, recomputation, labels, self._timeout_s, without)


class _Joined(ReplaySource):
    """Joins the two logs of a version again, from where they began.

    Parameters
    ----------
    cluster : Cluster
    recomputation : Recomputation
    labels : LabelsOrigin
    timeout_s : float
    without : mapping of partition to positions
    """

    def __init__(
        self,
        cluster: Cluster,
        recomputation: Recomputation,
        labels: LabelsOrigin,
        timeout_s: float,
        without: Places,
    ) -> None:
        super().__init__(recomputation.topic, timeout_s)
        self._source = JoinedSource(
            cluster,
            recomputation.config,
            features=recomputation.topic,
            labels=labels.topic,
            group=None,
            most_rows=sys.maxsize,
            left_out=without,
        )
        self._source.begin(recomputation.positions, labels.base)

    def close(self) -> None:
        """Let go of the broker."""
        self._source.close()

    def _read(self, behind: Positions, positions: Positions) -> None:  # noqa: ARG002
        """Join what is at hand of the partitions that are behind; where nothing is, read on."""
        joined = self._source.join(behind.keys())
        for partition, rows, _ in joined:
            if rows is not None:
                self._backlog.setdefault(partition, deque()).append(rows)
        if not joined:
            self._source.read(BATCH_RECORDS, POLL_S)


VERIFIES: Final = Verifies(LabelsVerifier)
