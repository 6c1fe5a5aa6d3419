"""What versions are made of: the rows of the topics that they name, and no others; joined as the rule has it.

A version says the ids of its topics, how far it learned them, and how many points of each label it learned. What was
fed is known record by record, for each of the topics that had a name one after the other; so these counts can be made
again. Where labels come later, the join is made again by the plain form of the rule (`tests.joining.reference`), over
whole logs with whatever timestamps they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product
from math import isclose
from typing import Any

from tests.joining import reference
from tests.live.checker.evidence import Evidence, Generation, Join, Site
from tests.live.checker.versions import published
from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record

REASON = "__streams.errors.exception"
OFFSET = "__streams.errors.offset"
Counts = tuple[float, float]
"""Weights of the points of the negative and of the positive label."""


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for versions of other rows than they say, and for rows that were joined or refused wrongly."""
    found: list[Anomaly] = []
    for site in evidence.sites:
        for name, topic in site.inputs.items():
            versions = published(evidence, site, name)
            if name in site.joins:
                found += _joined(evidence, site, name, versions)
            else:
                known = {one.topic_id: one for one in evidence.generations(topic)}
                why = f"it is not of the rows of the {topic} that it names"
                found += each("mixed", why, _differing(versions, lambda read, of=known: _learned(read, of)))
    return found


def ids_of(read: Record) -> tuple[str, ...]:
    """Return the ids of the topics that a version names: of its features, and of its labels where these come later."""
    lineage = read.value["lineage"]
    return lineage["topic_id"], *([lineage["labels"]["topic_id"]] if lineage.get("labels") else [])


def _differing(versions: Iterable[Record], made_of: Any) -> Iterable[str]:
    """Name each version whose counts are not those that `made_of` finds for it; None if its topics never were."""
    for read in versions:
        if read.value is None:
            continue
        weights = read.value["stream"]["class_weight"]
        found = made_of(read)
        if found is None or not all(isclose(*pair, abs_tol=1e-6) for pair in zip(found, weights, strict=True)):
            ids = " and ".join(ids_of(read))
            yield f"{read.key} of {ids}: weights {weights}, not {found or 'of a topic that was there'}"


def _learned(read: Record, known: Mapping[str, Generation]) -> Counts | None:
    """Count what was fed below a version's cut, in the topic that it names."""
    if ids_of(read)[0] not in known:
        return None
    records = known[ids_of(read)[0]].records
    cut = {part["partition"]: part["offset"] for part in read.value["lineage"]["cut"]}
    return _counts(
        (record.y, record.weight)
        for partition, end in cut.items()
        for offset, record in records[partition].items()
        if offset < end
    )


def _counts(points: Iterable[tuple[int | None, float]]) -> Counts:
    known = [*points]
    return sum(weight for y, weight in known if y == -1), sum(weight for y, weight in known if y == 1)


# ------------------------------------------------------------------- joins


def _joined(evidence: Evidence, site: Site, name: str, versions: list[Record]) -> list[Anomaly]:
    rule, topic = site.joins[name], site.inputs[name]
    features, labels = ({one.topic_id: one for one in evidence.generations(each_)} for each_ in (topic, rule.labels))

    @cache
    def join(of: str, with_: str, partition: int) -> tuple[list[reference.Joined], list[reference.Told]]:
        return _join(rule, partition, features[of], labels[with_])

    def made_of(read: Record) -> Counts | None:
        of, with_ = ids_of(read)
        if of not in features or with_ not in labels:
            return None
        return _counts(
            (sign, 1.0)
            for part in read.value["lineage"]["cut"]
            for place, since, _, sign in join(of, with_, part["partition"])[0]
            if (place, since) < (part["offset"], part["row"])
        )

    refused = {
        (reason, partition, offset)
        for (of, one), (with_, other) in product(features.items(), labels.items())
        if one.made_t < other.deleted_t and other.made_t < one.deleted_t
        for partition in one.records
        for reason, offset in join(of, with_, partition)[1]
    }
    found = each("misjoined", "the join of its logs gives other points", _differing(versions, made_of))
    strange = (
        f"{read.at}: {read.headers[REASON]} of {read.headers[LETTER_TOPIC]}@{read.headers[OFFSET]}"
        for letters in rule.letters
        for read in evidence.log(letters)
        if (read.headers[REASON], int(read.headers[LETTER_PARTITION]), int(read.headers[OFFSET])) not in refused
    )
    return found + each("misjoined", "no join of the logs refuses this row", strange)


LETTER_TOPIC, LETTER_PARTITION = "__streams.errors.topic", "__streams.errors.partition"


def _join(
    rule: Join, partition: int, features: Generation, labels: Generation
) -> tuple[list[reference.Joined], list[reference.Told]]:
    """Join a partition of two whole logs."""
    rows = [
        reference.Feature(offset, one.time_ms, None if one.id is None else str(one.id))
        for offset, one in sorted(features.records[partition].items())
    ]
    told = [
        reference.Label(offset, one.time_ms, str(one.id), one.y or 0)
        for offset, one in sorted(labels.records[partition].items())
    ]
    return reference.join(rows, told, rule)[:2]
