"""Reads a scorer's output and the labels, both to their present ends, and joins them.

Where labels come later they are those of `labels.topic`, found by `labels.key`. Else they come with the points that the
scorer read, and are found by the point's place. The ends are looked up first; what comes in meanwhile is not read, so
that the result is that of two ranges, which are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Final, NamedTuple

import numpy as np

from consumers import constants
from consumers.branches.challenges.settings import topics_apart
from consumers.settings import Settings, Start
from consumers.streams.identity import TopicIdentity
from streamsvm.branches.challenges.combinations import SERVED, TOPICS_APART
from streamsvm.branches.challenges.score_records import ScoreDecoder, labels_by_place
from streamsvm.branches.challenges.served import Served, ServedLabels, ServedScores, gathered, served
from streamsvm.config import ModelConfig
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.ingest.label_records import LabelDecoder
from streamsvm.kafka import Cluster, Record
from streamsvm.supports import LABELS, require

PORTION: Final = 2_000
LONGEST: Final = 10 * PORTION
"""Records of a run: what is done at once."""
TIMEOUT_S: Final = 30.0

Ranges = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedScores:
    """A join, and what it is of.

    Attributes
    ----------
    served : Served
    scores, labels : mapping of int to (int, int)
        First offset and end of each partition of the scores, and of what the labels are in.
    left_out : int
        Records of the scores that hold no score of this model.
    """

    served: Served
    scores: Ranges
    labels: Ranges
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The two logs of a join.

    Attributes
    ----------
    name : str
        Of the model.
    models : ModelConfig
        The trainer's: labels, and how they are found.
    scores, scored, labels : str
        Topics: of the scores, of the points that were scored, and of what the labels are in.
    scores_id, labels_id : str
        Ids of the topics of the scores and of the labels; empty where the broker gives none, or they are not known yet.
    """

    name: str
    models: ModelConfig
    scores: str
    scored: str
    labels: str
    scores_id: str = ""
    labels_id: str = ""

    @property
    def key(self) -> str:
        """How a score finds its label: "id", "record" or "place"."""
        return "place" if self.models.label_rule is None else self.models.label_rule.key

    @property
    def decoder(self) -> ScoreDecoder:
        """What reads the scores."""
        return ScoreDecoder(self.models.points, self.key, self.name, self.scored)

    def identities(self, cluster: Cluster) -> tuple[TopicIdentity, TopicIdentity]:
        """Return the topics of the scores and of the labels, to ask whether they still are the same.

        Raises
        ------
        TopicMissing, BrokerUnavailable, ConfigurationError
            As of `Cluster.topic_id`.
        """
        scores_id = self.scores_id or cluster.topic_id(self.scores) or ""
        labels_id = self.labels_id or cluster.topic_id(self.labels) or ""
        return TopicIdentity(cluster, self.scores, scores_id, {}), TopicIdentity(cluster, self.labels, labels_id, {})


def logs_of(settings: Settings) -> Logs:
    """Return the logs that a trainer's and a scorer's configuration name.

    Raises
    ------
    ConfigurationError
        If no label can be found.
    """
    models = settings.models()
    require({SERVED: True, LABELS: models.points.classes, TOPICS_APART: topics_apart(settings)})
    return Logs(
        name=settings.name,
        models=models,
        scores=settings.scoring.output_topic,
        scored=settings.scoring.topic,
        labels=settings.labels_topic or settings.input.topic,
    )


def read_served(cluster: Cluster, settings: Settings, since: Start = "earliest") -> JoinedScores:
    """Join all scores that were written since a time with all labels since then.

    Raises
    ------
    TopicMissing, TransientError
        As of `Cluster.read_to_end`.
    Recreated
        If a topic was deleted and made again meanwhile.
    ConfigurationError
        If no label can be found.
    """
    logs = logs_of(settings)
    # Before the ranges: then these are of the topics that have these ids, or the last question finds another id.
    scores_topic, labels_topic = logs.identities(cluster)
    logs = replace(logs, scores_id=scores_topic.topic_id, labels_id=labels_topic.topic_id)
    scores = _ranges(cluster, logs.scores, since)
    # Where they come with the points, a point was read before its score was written: all that there is may be needed.
    labels = _ranges(cluster, logs.labels, "earliest" if logs.key == "place" else since)
    return join_ranges(cluster, logs, scores, labels)


def join_ranges(cluster: Cluster, logs: Logs, scores: Ranges, labels: Ranges) -> JoinedScores:
    """Join what stands in these ranges of both logs; raises as of `read_served`."""
    decoder = logs.decoder
    # Where nothing was read of the scores their topic may not exist, nor what is joined with them.
    topics = logs.identities(cluster) if any(begin < end for begin, end in scores.values()) else ()
    found = [decoder.decode(part) for part in _portions(cluster, logs.scores, scores)]
    parts = gathered([one.scores for one in found])
    left_out = sum(one.left_out for one in found)
    if logs.models.label_rule is None:
        labels = _of_scores(parts, labels)
        answers = _gathered_labels(one for run in runs_of(parts, labels) for one in read_run(cluster, logs, run))
    else:
        answers = read_labels(cluster, logs, labels)
    joined = joined_with(parts, answers, logs.models)
    for topic, ranges in zip(topics, (scores, labels), strict=False):
        topic.confirm({partition: end for partition, (_, end) in ranges.items()})
    return JoinedScores(served=joined, scores=scores, labels=labels, left_out=left_out)


def joined_with(scores: ServedScores, labels: Mapping[int, ServedLabels], models: ModelConfig) -> Served:
    """Join scores and labels under a configuration; where labels come with the points there is no time between them."""
    if models.label_rule is None:
        scores = replace(scores, time_ms=np.zeros(len(scores), np.int64))
        return served(scores, labels, horizon_ms=0, early_ms=0)
    rule = models.label_rule
    return served(
        scores, labels, horizon_ms=round(1_000 * rule.horizon), early_ms=round(1_000 * constants.LABEL_EARLY_S)
    )


def _of_scores(scores: ServedScores, labels: Ranges) -> Ranges:
    """Return the ranges of the points that were scored, within what there is of their log."""
    runs = runs_of(scores, labels)
    return {
        partition: (min(run.begin for run in own), max(run.end for run in own))
        for partition in labels
        if (own := [run for run in runs if run.partition == partition])
    }


class ScoredRange(NamedTuple):
    """Neighbouring records of the input that scores were made from, and the keys of the rows that were scored.

    Only these records are decoded, and only labels of these rows are held: what is between two scores that lie far
    apart is not even read, whoever wrote them.
    """

    partition: int
    begin: int
    end: int
    keys: Mapping[int, list[bytes]]


def runs_of(scores: ServedScores, there: Ranges) -> list[ScoredRange]:
    """Return where the rows of scores stand, in the order of their log.

    Parameters
    ----------
    scores : ServedScores
        Its keys are places.
    there : mapping of int to (int, int)
        What there is of the input: first offset and end of each of its partitions.
    """
    runs: list[ScoredRange] = []
    offsets = scores.said[:, 0]
    for partition, (begin, end) in sorted(there.items()):
        keys: dict[int, list[bytes]] = {}
        found = (scores.partition == partition) & (offsets >= begin) & (offsets < end)
        for index in np.flatnonzero(found).tolist():
            keys.setdefault(int(offsets[index]), []).append(scores.keys[index])
        if not keys:
            continue
        at = np.array(sorted(keys), np.int64)
        borders = 1 + np.flatnonzero((np.diff(at) > PORTION) | (np.diff(at // LONGEST) > 0))
        for some in np.split(at, borders):
            run = {offset: keys[offset] for offset in some.tolist()}
            runs.append(ScoredRange(partition, int(some[0]), int(some[-1]) + 1, run))
    return runs


def read_run(cluster: Cluster, logs: Logs, run: ScoredRange) -> Iterator[tuple[int, ServedLabels]]:
    """Yield the labels of the rows of a run, so many at a time; raises as of `read_served`."""
    decoder = LabelsDecoder(logs.models)
    for records in _portions(cluster, logs.labels, {run.partition: (run.begin, run.end)}):
        named = [record for record in records if record.offset in run.keys]
        wanted = {key for record in named for key in run.keys[record.offset]}
        for partition, labels in decoder.decode(named) if named else ():
            yield partition, labels.of(wanted)


def read_labels(cluster: Cluster, logs: Logs, ranges: Ranges) -> dict[int, ServedLabels]:
    """Return the labels that stand in ranges of their log, by partition; raises as of `read_served`."""
    decoder = LabelsDecoder(logs.models)
    return _gathered_labels(
        one for records in _portions(cluster, logs.labels, ranges) for one in decoder.decode(records)
    )


def _gathered_labels(parts_read: Iterable[tuple[int, ServedLabels]]) -> dict[int, ServedLabels]:
    parts: dict[int, list[ServedLabels]] = {}
    for partition, labels in parts_read:
        parts.setdefault(partition, []).append(labels)
    return {partition: joined_labels(own) for partition, own in parts.items()}


class LabelsDecoder:
    """Reads labels of either kind: records of labels, or points that have them.

    Parameters
    ----------
    models : ModelConfig
    """

    def __init__(self, models: ModelConfig) -> None:
        self._points = PointDecoder(models.points, recipe=models.recipe) if models.label_rule is None else None
        self._labels = None if models.label_rule is None else LabelDecoder(models.points, models.label_rule.key)

    def decode(self, records: Sequence[Record]) -> list[tuple[int, ServedLabels]]:
        """Return the labels of records, partition by partition."""
        if self._labels is not None:
            return [
                (one.partition, ServedLabels(time_ms=one.time_ms, last=one.last, keys=one.keys, sign=one.sign))
                for one in self._labels.decode(records)[0]
            ]
        assert self._points is not None
        found = []
        for rows in self._points.decode(records).rows:
            keys, sign = labels_by_place(rows)
            n = len(keys)
            labels = ServedLabels(time_ms=np.zeros(n, np.int64), last=np.ones(n, np.bool_), keys=keys, sign=sign)
            found.append((rows.partition, labels))
        return found


def joined_labels(parts: Sequence[ServedLabels]) -> ServedLabels:
    """Return labels of one partition that were read in portions."""
    return ServedLabels(
        time_ms=np.concatenate([one.time_ms for one in parts]),
        last=np.concatenate([one.last for one in parts]),
        keys=[key for one in parts for key in one.keys],
        sign=np.concatenate([one.sign for one in parts]),
    )


def _ranges(cluster: Cluster, topic: str, since: Start) -> Ranges:
    partitions = cluster.describe(topic).partitions
    starts = cluster.starts(topic, partitions, since)
    return {partition: (starts[partition], cluster.log_range(topic, partition)[1]) for partition in partitions}


def _portions(cluster: Cluster, topic: str, ranges: Ranges) -> Iterator[list[Record]]:
    """Yield the records of ranges, partition by partition, so many at a time."""
    for partition, (begin, end) in sorted(ranges.items()):
        if begin >= end:
            continue
        records = cluster.read_to_end(topic, partition, start=begin, timeout_s=TIMEOUT_S)
        within = takewhile(lambda record, end=end: record.offset < end, records)  # type: ignore[misc]
        while portion := list(islice(within, PORTION)):
            yield portion
