"""From a finished training to a published version: assembled, hashed, and committed in one transaction.

The transaction holds the version, the head record, the alias `current` and the audit entry: readers see all of them or
none. The version's value holds nothing that a clock touches; times and the session travel in its headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import msgspec
import structlog

from consumers.ports import Publisher
from consumers.worker import Result
from streamsvm.build import build
from streamsvm.codec import model as model_codec
from streamsvm.codec.model import Alias, Head, Lineage, Version
from streamsvm.config import Settings
from streamsvm.delivery import Delivery
from streamsvm.errors import InvalidMessage
from streamsvm.kafka import Message, PublishRefused
from streamsvm.metrics import Metrics
from streamsvm.points import Positions

log = structlog.get_logger("streamsvm.trainer")


class VersionPublisher:
    """Publishes the versions of one incarnation.

    Parameters
    ----------
    settings : Settings
    publisher : Publisher
        Started.
    delivery : Delivery
        Says which number is next and which cuts are admitted; told of every commit.
    base : mapping of partition to Position
        Where the incarnation began.
    topic_id : str
        Of the input; empty where the broker tells none.
    session : str
        Names this process in the versions' headers.
    metrics : Metrics
    now : callable
        The time of day, for headers and metrics.
    """

    def __init__(
        self,
        settings: Settings,
        publisher: Publisher,
        delivery: Delivery,
        base: Positions,
        topic_id: str,
        session: str,
        metrics: Metrics,
        now: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self._config = settings.models()
        self._publisher = publisher
        self._delivery = delivery
        self._base = base
        self._topic_id = topic_id
        self._metrics = metrics
        self._now = now
        self._session = session
        metrics.begin("streamsvm_trainings", "outcome", ("converged", "iteration_limit"))
        metrics.begin("streamsvm_publishes", "outcome", ("published", "refused"))

    def publish(self, result: Result) -> None:
        """Publish a finished training as the next version, unless its cut was published before.

        A version that the broker, or any reader, refuses is reported and dropped; the next one takes its number.

        Raises
        ------
        Fenced
            If another trainer took over; nothing was published.
        TransientError, FatalError
            If it failed; where the outcome is unknown only the topic can say it.
        """
        if not self._delivery.admits(result.cut.positions):
            return
        version, now = self._version(result), self._now()
        value = model_codec.encode(version)
        digest = model_codec.sha256(value)
        head = self._head(version, digest)
        try:
            model_codec.decode(value)  # a version that readers would refuse, such as one of NaN, never goes out
            offsets = self._publisher.publish(
                [self._message(version, value, digest, now, result.seconds)],
                lambda offsets: self._pointers(version, msgspec.structs.replace(head, offset=offsets[0]), now),
            )
        except (PublishRefused, InvalidMessage) as refusal:
            self._metrics.increase("streamsvm_publishes", outcome="refused")
            log.error("version_refused", version=version.key, bytes=len(value), what=str(refusal))
            return
        self._delivery.published(msgspec.structs.replace(head, offset=offsets[0]))
        self._report(version, result, now, len(value))

    def _message(self, version: Version, value: bytes, digest: str, now: datetime, seconds: float) -> Message:
        unhashed = {
            "streamsvm.incarnation": str(self._delivery.incarnation),
            "streamsvm.session": self._session,
            "streamsvm.training.seconds": f"{seconds:.6f}",
        }
        headers = model_codec.headers(version, digest, now, unhashed)
        return replace(_to(self._settings.output.models_topic, version.key, value), headers=headers)

    def _head(self, version: Version, digest: str) -> Head:
        """Return the head record but for the offset, which only the broker knows."""
        lineage = version.lineage
        return Head(
            version.number,
            self._delivery.incarnation,
            lineage.cut,
            digest,
            -1,
            lineage.training_set_sha256,
            lineage.build,
        )

    def _pointers(self, version: Version, head: Head, now: datetime) -> list[Message]:
        """Return the records that name the version's place: head, current, and the audit entry."""
        output, current = self._settings.output, model_codec.current_key(version.name)
        alias = Alias(version.number, head.sha256, head.offset)
        audit = {
            "event": "alias_moved",
            "alias": current,
            "to": version.number,
            "sha256": head.sha256,
            "by": "trainer",
            "time": now.isoformat(),
        }
        return [
            _to(output.aliases_topic, model_codec.head_key(version.name), model_codec.encode_head(head)),
            _to(output.aliases_topic, current, model_codec.encode_alias(alias)),
            _to(output.audit_topic, version.key, msgspec.json.encode(audit)),
        ]

    def _version(self, result: Result) -> Version:
        cut, config = result.cut, self._config
        lineage = Lineage(
            self._delivery.parent,
            self._settings.input.topic,
            self._topic_id,
            model_codec.partition_cuts(cut.positions, cut.leader_epochs),
            model_codec.partition_cuts(self._base, {}),
            config.canonical(),
            config.sha256(),
            config.seed,
            result.training_set_sha256,
            None,
            build(),
        )
        return Version(
            self._settings.name,
            self._delivery.next_number,
            result.trained.model,
            config.points.labels,
            config.points.feature_names,
            config.svm.solver,
            result.trained.fit,
            model_codec.summary(cut),
            lineage,
        )

    def _report(self, version: Version, result: Result, now: datetime, value_bytes: int) -> None:
        fit, metrics = version.fit, self._metrics
        metrics.put("streamsvm_model_version", version.number)
        metrics.put("streamsvm_model_published_timestamp_seconds", now.timestamp())
        metrics.put("streamsvm_model_points_covered", version.stream.points)
        metrics.put("streamsvm_model_support_vectors", fit.support_vectors)
        if fit.kkt_gap is not None:
            metrics.put("streamsvm_model_kkt_gap", fit.kkt_gap)
        metrics.observe("streamsvm_training_seconds", result.seconds)
        metrics.increase("streamsvm_trainings", outcome="converged" if fit.converged else "iteration_limit")
        metrics.increase("streamsvm_publishes", outcome="published")
        if 0.0 in version.stream.class_weight:
            seen = version.labels[0] if version.stream.class_weight[1] == 0.0 else version.labels[1]
            log.warning(
                "one_label_only",
                version=version.key,
                seen=seen,
                labels=version.labels,
                remedy="the model answers with that label always; see whether points.labels fits the records",
            )
        if not fit.converged:
            log.warning(
                "not_converged",
                version=version.key,
                kkt_gap=fit.kkt_gap,
                remedy="raise svm.max_iterations, or lower svm.C (its boxes grow with the stream; svm.alpha's do not)",
            )
        log.info(
            "model_published",
            version=version.key,
            points=version.stream.points,
            training_points=fit.points,
            support_vectors=fit.support_vectors,
            objective=round(fit.objective, 6),
            seconds=round(result.seconds, 4),
            bytes=value_bytes,
        )


def _to(topic: str, key: str, value: bytes) -> Message:
    """Address a record to the one partition of an output topic."""
    return Message(topic, value, key.encode(), partition=0)
