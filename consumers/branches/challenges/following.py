"""Follows a scorer's output and the labels, and joins what was read so far: what a challenge is decided by.

Invariant: the join is that of `consumers.branches.challenges.reading.join_ranges`, of settled rows, over the ranges
that `spans` names. The order in which records were read does not matter. At most `MOST_KEPT` scores and labels are
held, and at most `MOST_PASSED` records of the input are passed over for labels by place, whatever the scores name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from consumers.branches.challenges.reading import (
    PORTION,
    LabelsDecoder,
    Logs,
    Ranges,
    ScoredRange,
    joined_labels,
    joined_with,
    read_run,
    runs_of,
)
from streamsvm.branches.challenges.score_records import Unreadable
from streamsvm.branches.challenges.served import Served, ServedLabels, ServedScores, gathered
from streamsvm.kafka import Cluster, Input

MOST_KEPT: Final = 2_000_000
"""Scores and labels of one challenge; some 200 bytes each. A score by place counts twice: its label will be held."""
MOST_PASSED: Final = 20_000_000
"""Records of the input that are passed over for labels by place. Going on elsewhere counts as `PORTION` records."""
AT_ONCE: Final = 100_000
"""Records of the input after which a look for labels by place goes on in the next one; less than a second of work."""


class LabelsByPlace:
    """Reads labels that come with the points, at the places that scores name.

    Labels count once those of all scores that were there when they were looked up were read, so the spans name exactly
    what was joined.

    Parameters
    ----------
    cluster : Cluster
    logs : Logs
    scores_spans : mapping of int to (int, int)
        Where the scores begin.
    labels, spans : dict
        Where to put the labels of each partition that count, and between which offsets they stand.

    Attributes
    ----------
    counted : int
        How many batches of scores have all of their labels.
    counted_spans : mapping of int to (int, int)
        What was read of the scores then.
    passed : int
        Records of the input that were looked at.
    nowhere : list of ServedScores
        Scores that name a place which the input has not.
    """

    def __init__(
        self,
        cluster: Cluster,
        logs: Logs,
        scores_spans: Ranges,
        labels: dict[int, list[ServedLabels]],
        spans: dict[int, tuple[int, int]],
    ) -> None:
        self._cluster, self._logs, self._labels, self._spans = cluster, logs, labels, spans
        self._planned = self.counted = self.passed = 0
        self._planned_spans = self.counted_spans = dict(scores_spans)
        self._runs: deque[ScoredRange] = deque()
        self._read: list[tuple[ScoredRange, ServedLabels]] = []
        self._known: dict[int, set[bytes]] = {}
        self.nowhere: list[ServedScores] = []

    def read(self, scores: Sequence[ServedScores], scores_spans: Ranges) -> bool:
        """Read labels of all scores that were read; return whether that is done.

        About `AT_ONCE` records of the input are looked at in one call.

        Raises
        ------
        TopicMissing, TransientError, OffsetOutOfRange
            If labels cannot be read.
        """
        limit = min(self.passed + AT_ONCE, MOST_PASSED)
        with self._cluster.keeping():
            while self._runs or self._planned < len(scores):
                if self.passed >= limit:
                    return self.passed >= MOST_PASSED
                if not self._runs:
                    self._plan(scores, scores_spans)
                if self._runs:
                    run = self._runs.popleft()
                    self.passed += run.end - run.begin + PORTION
                    self._read += [(run, labels) for _, labels in read_run(self._cluster, self._logs, run)]
                if not self._runs:
                    self._count()
        return True

    def _plan(self, scores: Sequence[ServedScores], scores_spans: Ranges) -> None:
        """Look up where the rows of the scores stand that came since, as far as the input has such places."""
        parts, self._planned = [*self.nowhere, *scores[self._planned :]], len(scores)
        self._planned_spans = dict(scores_spans)
        topic = self._logs.labels
        named = {partition for part in parts for partition in np.unique(part.partition).tolist()}
        existing = sorted(named & set(self._cluster.describe(topic).partitions))
        there = {partition: self._cluster.log_range(topic, partition) for partition in existing}
        runs, self.nowhere = runs_of(parts, there)
        for run in runs:
            # The same row may be scored again.
            known = self._known.setdefault(run.partition, set())
            fresh = {at: new for at, keys in run.keys.items() if (new := [key for key in keys if key not in known])}
            known.update(key for keys in fresh.values() for key in keys)
            if fresh:
                self._runs.append(ScoredRange(run.partition, min(fresh), max(fresh) + 1, fresh))

    def _count(self) -> None:
        """Let what was read as planned count."""
        for run, labels in self._read:
            self._labels.setdefault(run.partition, []).append(labels)
            begin, end = self._spans.get(run.partition, (run.begin, run.end))
            self._spans[run.partition] = (min(begin, run.begin), max(end, run.end))
        self._read.clear()
        self.counted, self.counted_spans = self._planned, self._planned_spans


class Follower:
    """Reads both logs on from where a challenge began.

    Blocks at construction at most the connection's request timeout.

    Parameters
    ----------
    cluster : Cluster
    logs : Logs
    scores, labels : mapping of int to int
        First offset of each partition of the scores, and of the labels; `labels` is empty where labels come with the
        points: then they are read where scores need them.

    Attributes
    ----------
    kept : int
        Scores and labels.
    grown : int
        Records that were read since the newest join.
    unreadable : int
        Records of the scores' topic that are no scores.
    named : Unreadable or None
        The first of them.

    Raises
    ------
    TopicMissing, BrokerUnavailable
        As of `Input.assign`.
    """

    def __init__(self, cluster: Cluster, logs: Logs, scores: Mapping[int, int], labels: Mapping[int, int]) -> None:
        self._cluster, self._logs = cluster, logs
        self._decoder, self._labels_decoder = logs.decoder, LabelsDecoder(logs.models)
        self._scores: list[ServedScores] = []
        self._labels: dict[int, list[ServedLabels]] = {}
        self._scores_spans = {p: (at, at) for p, at in scores.items()}
        self._labels_spans = {p: (at, at) for p, at in labels.items()}
        self._by_place: LabelsByPlace | None = None
        if logs.key == "place":
            self._by_place = LabelsByPlace(cluster, logs, self._scores_spans, self._labels, self._labels_spans)
        self._inputs: list[Input] = []
        self.kept = self.grown = self.unreadable = 0
        self.named: Unreadable | None = None
        self._scores_topic, self._labels_topic = logs.identities(cluster)
        try:
            self._scores_input = self._opened(logs.scores, scores)
            self._labels_input = self._opened(logs.labels, labels) if labels else None
        except BaseException:
            self.close()
            raise

    def _opened(self, topic: str, positions: Mapping[int, int]) -> Input:
        opened = self._cluster.input(topic, None)
        self._inputs.append(opened)
        opened.assign(positions)
        return opened

    def close(self) -> None:
        """Let go of the broker."""
        for opened in self._inputs:
            opened.close()
        self._inputs.clear()

    @property
    def full(self) -> bool:
        """Whether so much is kept, or was passed over, that nothing more is read."""
        return self.kept >= MOST_KEPT or (self._by_place is not None and self._by_place.passed >= MOST_PASSED)

    def read(self, most: int) -> int:
        """Read at most so many records of each log that are at hand; return how many came.

        Raises
        ------
        OffsetOutOfRange, TopicMissing, ConfigurationError, FatalError
            As of `Input.poll`.
        """
        if self.full:
            return 0
        scores = self._scores_input.poll(most, 0.0)
        if scores:
            found = self._decoder.decode(scores)
            self._scores.append(found.scores)
            self.kept += (1 if self._by_place is None else 2) * len(found.scores)
            self.unreadable += found.unreadable
            self.named = self.named or next(iter(found.named), None)
            _move(self._scores_spans, scores.ends())
            self.grown += len(scores)
        if self._labels_input is None:
            return len(scores)
        records = self._labels_input.poll(most, 0.0)
        if records:
            for partition, labels in self._labels_decoder.decode(records):
                self._labels.setdefault(partition, []).append(labels)
                self.kept += len(labels.keys)
            _move(self._labels_spans, records.ends())
            self.grown += len(records)
        return len(scores) + len(records)

    def reached(self, scores: Mapping[int, int], labels: Mapping[int, int]) -> bool:
        """Return whether all was read before these ends, as far as their partitions are followed."""
        followed = [(self._scores_input, self._scores_spans, scores)]
        if self._labels_input is not None:
            followed.append((self._labels_input, self._labels_spans, labels))
        return all(
            max(end, opened.seen_end(p) or 0) >= ends.get(p, 0)
            for opened, spans, ends in followed
            for p, (_, end) in spans.items()
        )

    @property
    def scored(self) -> int:
        """How many scores were read."""
        return sum(map(len, self._scores))

    def read_labels(self) -> bool:
        """Read labels that come with the points; see `LabelsByPlace.read`. Labels of their own are read by `read`."""
        return self._by_place is None or self._by_place.read(self._scores, self._scores_spans)

    def joined(self) -> Served:
        """Return the settled rows of what was read.

        Raises
        ------
        TopicMissing, TransientError
            If the broker does not say whether both topics are still the same.
        Recreated
            If a topic is not the one that was read.
        """
        self.grown = 0
        scores = gathered(self._scores if self._by_place is None else self._scores[: self._by_place.counted])
        labels = {partition: joined_labels(parts) for partition, parts in self._labels.items()}
        # Only now, after the newest record of both was fetched.
        for topic, spans in zip((self._scores_topic, self._labels_topic), self.spans(), strict=True):
            topic.confirm({partition: end for partition, (_, end) in spans.items()})
        return joined_with(scores, labels, self._logs.models, settled=True)

    def spans(self) -> tuple[Ranges, Ranges]:
        """Return what was read of the scores, and of the labels, and counts."""
        scores = self._scores_spans if self._by_place is None else self._by_place.counted_spans
        return dict(scores), dict(self._labels_spans)

    @property
    def nowhere(self) -> int:
        """Scores that name a place which the input has not."""
        return 0 if self._by_place is None else sum(map(len, self._by_place.nowhere))


def _move(spans: dict[int, tuple[int, int]], ends: Mapping[int, int]) -> None:
    for partition, end in ends.items():
        spans[partition] = (spans[partition][0], end)
