"""Follows a scorer's output and the labels, and joins what was read so far: what a challenge is decided by.

Invariant: the join is that of `consumers.served.reading.join_ranges`, of settled rows, over the ranges that `spans`
names, whatever was read when. What is held is bounded by `MOST_HELD`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from consumers.served.reading import LabelsDecoder, Logs, Ranges, joined_labels, joined_with, read_labels
from streamsvm.joining.served import Served, ServedLabels, ServedScores, gathered
from streamsvm.kafka import Cluster, Input

MOST_HELD: Final = 2_000_000
"""Scores and labels of one challenge; some 200 bytes each."""


class Follower:
    """Reads both logs on from where a challenge began.

    Blocks at construction at most the connection's request timeout.

    Parameters
    ----------
    cluster : Cluster
    logs : Logs
    scores, told : mapping of int to int
        First offset of each partition of the scores, and of the labels; `told` is empty where labels come with the
        points: then they are read where scores need them.

    Raises
    ------
    TopicMissing, BrokerUnavailable
        As of `Input.assign`.
    """

    def __init__(self, cluster: Cluster, logs: Logs, scores: Mapping[int, int], told: Mapping[int, int]) -> None:
        self._cluster, self._logs = cluster, logs
        self._decoder, self._labels_decoder = logs.decoder, LabelsDecoder(logs.models)
        self._scores: list[ServedScores] = []
        self._labels: dict[int, list[ServedLabels]] = {}
        self._scores_spans = {p: (at, at) for p, at in scores.items()}
        self._told_spans = {p: (at, at) for p, at in told.items()}
        self._inputs: list[Input] = []
        self.held = 0
        self._scores_topic, self._labels_topic = logs.identities(cluster)
        try:
            self._scores_input = self._opened(logs.scores, scores)
            self._labels_input = self._opened(logs.labels, told) if told else None
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
        """Whether so much is held that nothing more is read."""
        return self.held >= MOST_HELD

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
            self._scores.append(self._decoder.decode(scores).scores)
            self.held += len(self._scores[-1])
            _move(self._scores_spans, scores.ends())
        if self._labels_input is None:
            return len(scores)
        records = self._labels_input.poll(most, 0.0)
        if records:
            for partition, told in self._labels_decoder.decode(records):
                self._labels.setdefault(partition, []).append(told)
                self.held += len(told.keys)
            _move(self._told_spans, records.ends())
        return len(scores) + len(records)

    def reached(self, scores: Mapping[int, int], told: Mapping[int, int]) -> bool:
        """Tell whether all was read before these ends, as far as their partitions are followed."""
        followed = [(self._scores_input, self._scores_spans, scores)]
        if self._labels_input is not None:
            followed.append((self._labels_input, self._told_spans, told))
        return all(
            max(end, opened.seen_end(p) or 0) >= ends.get(p, 0)
            for opened, spans, ends in followed
            for p, (_, end) in spans.items()
        )

    @property
    def scored(self) -> int:
        """How many scores were read."""
        return sum(map(len, self._scores))

    def joined(self) -> Served:
        """Return the settled rows of what was read.

        Where labels come with the points, those of all scores are read first.

        Raises
        ------
        TopicMissing, TransientError, OffsetOutOfRange
            If labels cannot be read, or the broker does not say whether both topics are still the same.
        Recreated
            If a topic is not the one that was read.
        """
        scores = gathered(self._scores)
        if self._labels_input is None:
            self._read_labels_of(scores)
        labels = {partition: joined_labels(parts) for partition, parts in self._labels.items()}
        # Only now, after the newest record of both was fetched.
        for topic, spans in ((self._scores_topic, self._scores_spans), (self._labels_topic, self._told_spans)):
            topic.confirm({partition: end for partition, (_, end) in spans.items()})
        return joined_with(scores, labels, self._logs.models, settled=True)

    def _read_labels_of(self, scores: ServedScores) -> None:
        for partition in np.unique(scores.partition).tolist():
            offsets = scores.said[scores.partition == partition, 0]
            first, end = int(offsets.min()), int(offsets.max()) + 1
            low, high = self._told_spans.get(partition, (first, first))
            for begin, until in ((first, low), (high, end)):
                if begin < until:
                    found = read_labels(self._cluster, self._logs, {partition: (begin, until)})
                    self._labels.setdefault(partition, []).extend(found.values())
            self._told_spans[partition] = (min(low, first), max(high, end))

    def spans(self) -> tuple[Ranges, Ranges]:
        """Return what was read of the scores, and of the labels."""
        return dict(self._scores_spans), dict(self._told_spans)


def _move(spans: dict[int, tuple[int, int]], ends: Mapping[int, int]) -> None:
    for partition, end in ends.items():
        spans[partition] = (spans[partition][0], end)
