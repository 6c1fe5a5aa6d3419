"""A worker that learns files, where another one learns the input topic; it ends where the stream goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from consumers.branches.workers.files.intake import FilesIntake, LetterFiles
from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.group_worker import GroupWorker
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.ports import Stop
from consumers.trainer.source import Source
from streamsvm.branches.workers.coreset_log import PartitionLog
from streamsvm.branches.workers.coreset_records import Opening
from streamsvm.delivery.reading import Reading
from streamsvm.errors import StateError
from streamsvm.kafka import Cluster
from streamsvm.points import Position


class FilesWorker(GroupWorker):
    """A worker's life from its start to where its partitions' files are learned.

    Parameters
    ----------
    settings, cluster, metrics, health, stop
        As of `GroupWorker`.
    plan : FilesPlan
    enough : callable
        Takes how many rows of each partition's files are learned; returns whether to end, having published.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        metrics: Metrics,
        health: Health,
        stop: Stop,
        *,
        plan: FilesPlan,
        enough: Callable[[Mapping[int, int]], bool],
    ) -> None:
        super().__init__(settings, cluster, metrics, health, stop, enough=enough)
        self._plan = plan
        self._files = LetterFiles(Path(plan.dead_letters), metrics)

    def _begin(self, stack: ExitStack) -> None:
        stack.callback(self._files.close)
        super()._begin(stack)

    def _made_intake(self, reading: Reading) -> Source:
        return FilesIntake(self._plan, self._config.points, reading, self._files)

    def _ahead(self) -> Mapping[int, int]:
        positions = {} if self._reading is None else self._reading.learner.positions
        return {partition: self._plan.origin.row_at(partition, at) for partition, at in positions.items()}

    def _awaits_files(self, found: PartitionLog, opening: Opening, position: Position) -> str:  # noqa: ARG002
        """Refuse to learn where the trainer began elsewhere than the files do.

        Raises
        ------
        StateError
        """
        base = self._plan.origin.base[opening.partition]
        if Position(*opening.base) != base:
            raise StateError(
                f"the trainer of {opening.name} begins partition {opening.partition} at offset {opening.base[0]}, but "
                f"the files are to be learned from offset {base.offset} on",
                "Start the backfill again: it says how the trainer can begin anew.",
            )
        return ""
