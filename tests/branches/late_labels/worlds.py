"""Worlds whose labels come later: two logs are written and read, and a clean run joins all of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from consumers import constants
from consumers.branches.late_labels.settings import LabelsConfig
from streamsvm.config import ModelConfig
from streamsvm.points import Rows
from tests.branches.late_labels.joined_logs import (
    EARLY_MS,
    HORIZON_MS,
    LABEL_LETTERS,
    LABELS,
    RULES,
    JoinedLogs,
    came_ms,
    features_log,
    joined,
    labels_log,
)
from tests.simulation.broker import Entry
from tests.simulation.stream import INPUT, LETTERS
from tests.simulation.variants import LOGS, MEMORY, RECORDS, Producers, Reading, Variant
from tests.simulation.world import Profile, World

OTHER_LOG: Final = "other log"
"""What may happen: the record that comes next is not that of the earlier time."""
_SETTINGS: Final = LabelsConfig(topic=LABELS, horizon=HORIZON_MS / 1_000, absent=RULES.absent)
_NOT_HERE: Final = ("truncate", "recreate", "add partition")
"""No clean run is known of a log that was cut off or made anew."""


class BothLogs(Producers):
    """Writes features and labels, by their time unless the other log is ahead."""

    def __init__(self, world: World) -> None:
        self._world = world
        partitions = world.profile.partitions
        counts = [len(range(partition, world.profile.records, partitions)) for partition in range(partitions)]
        features = [(at, entry) for at, count in enumerate(counts) for entry in features_log(at, count)]
        labels = [(at, entry) for at, count in enumerate(counts) for entry in labels_log(count)]
        in_time = [sorted(log, key=lambda one: came_ms(one[1])) for log in (features, labels)]
        self._features, self._labels = deque(in_time[0]), deque(in_time[1])

    def append(self) -> bool:
        """Produce the next record of either."""
        features, labels = self._features, self._labels
        if not (features or labels):
            return False
        by_time = not labels or bool(features and _time_ms(features[0][1]) <= _time_ms(labels[0][1]))
        if features and labels and self._world.decide("order", "", [OTHER_LOG]):
            by_time = not by_time
        topic, queue = (INPUT, features) if by_time else (LABELS, labels)
        partition, entry = queue.popleft()
        log = self._world.broker.log(topic, partition)
        log.append(entry)
        if topic == INPUT and log.end == 3:
            log.append(Entry(None, control=True))
        return True


def _time_ms(entry: Entry) -> int:
    assert entry.time_ms is not None
    return entry.time_ms


class Joining(Reading):
    """Joins all features of a partition from an offset on with all of their labels; remembers it."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._known: dict[object, JoinedLogs] = {}

    def rows(self, partition: int, entries: Sequence[Entry | None], start: int) -> Sequence[Rows]:
        """Return the rows that are joined."""
        return self._joined(partition, entries, start).rows

    def letters(self, partition: int, entries: Sequence[Entry | None]) -> Mapping[str, Set[int]]:
        """Return what is rejected of both logs."""
        clean = self._joined(partition, entries, 0)
        return {LETTERS: clean.feature_letters, LABEL_LETTERS: clean.label_letters}

    def _joined(self, partition: int, entries: Sequence[Entry | None], start: int) -> JoinedLogs:
        features = [(at, entry) for at, entry in enumerate(entries) if entry and not entry.control]
        key = (partition, start, tuple(features))
        if key not in self._known:
            labels = list(enumerate(labels_log(len(features) - 1)))
            self._known[key] = joined(self._config, partition, [one for one in features if one[0] >= start], labels)
        return self._known[key]


class LateLabels(Variant):
    """Labels come in a log of their own; the records of a world are then those of the features."""

    logs = (LABELS,)
    letters = (LABEL_LETTERS,)

    def settle(self, sections: dict[str, Any]) -> None:
        """Give the topic and the rule."""
        sections["labels"] = _SETTINGS

    def drawn(self, profile: Profile) -> Profile:
        """Return a longer world, in which nothing happens of which no clean run is known."""
        left = {kind: count for kind, count in profile.faults.items() if kind not in _NOT_HERE}
        return replace(profile, faults={**left, OTHER_LOG: 5}, records=2 * profile.records)

    def producers(self, world: World) -> BothLogs:
        """Return who writes both logs, and let labels be as early as they are there."""
        constants.LABEL_EARLY_S = EARLY_MS / 1_000  # a test gives back what was before
        return BothLogs(world)

    def reading(self, config: ModelConfig) -> Joining:
        """Return the join of whole logs."""
        return Joining(config)


LATE: Final = LateLabels("late labels", RECORDS, MEMORY, LOGS, share=0.1)
VARIANTS: Final = (LATE,)
SMALLEST: Final[Mapping[str, Profile]] = {
    "late labels": Profile(
        "every", 1, 7, 400, {"kill": 3, "power loss": 1, "newest lost": 1, OTHER_LOG: 2}, variants=(LATE.name,)
    )
}
