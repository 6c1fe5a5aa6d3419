"""From a finished training to a published version: assembled, hashed, and committed in one transaction.

The transaction holds the version, its ONNX copy if one is asked for, the head record, the alias `current` unless the
quality gate refuses it, and the audit entry: readers see all of them or none. The version's value holds nothing that a
clock touches; times and the session travel in its headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import msgspec
import structlog

from consumers.gatekeeping import Gatekeeper
from consumers.page.board import TrainerBoard
from consumers.session import InDoubt, Session
from streamsvm.build import build
from streamsvm.codec import events
from streamsvm.codec import onnx as onnx_codec
from streamsvm.config import Settings
from streamsvm.delivery import Delivery
from streamsvm.errors import InvalidMessage, StreamsvmError
from streamsvm.kafka import Message, PublishRefused
from streamsvm.learning import naming
from streamsvm.learning.recipe import Made, Origin, version_of
from streamsvm.metrics import Metrics
from streamsvm.model import deciles_header as deciles
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.message import Alias, Gate, Head, Version
from streamsvm.points import Positions
from streamsvm.signing import Signer
from streamsvm.tuning import Tuning

log = structlog.get_logger("streamsvm.trainer")


class VersionPublisher:
    """Publishes the versions of one incarnation.

    Parameters
    ----------
    settings : Settings
    writer : Session
        Ready.
    delivery : Delivery
        Says which number is next and which cuts are admitted.
    base : callable
        Returns where the incarnation began in each partition that it has by now.
    topic_id : str
        Of the input; empty where the broker tells none.
    gate : Gatekeeper
        Says which version becomes current.
    metrics : Metrics
    now : callable
        The time of day, for headers and metrics.
    board : TrainerBoard
        What is published is left there, for people.
    signer : Signer, optional
        Signs every version; by default none is signed.
    """

    def __init__(
        self,
        settings: Settings,
        writer: Session,
        delivery: Delivery,
        base: Callable[[], Positions],
        topic_id: str,
        gate: Gatekeeper,
        metrics: Metrics,
        now: Callable[[], datetime],
        board: TrainerBoard,
        signer: Signer | None = None,
    ) -> None:
        self._settings = settings
        self._config = settings.models()
        self._writer = writer
        self._delivery = delivery
        self._base = base
        self._topic_id = topic_id
        self._gate = gate
        self._metrics = metrics
        self._now = now
        self._board = board
        self._signer = signer
        self._in_doubt: tuple[Version, int, Gate | None] | None = None
        self._untold: list[Message] = []
        metrics.begin("streamsvm_trainings", "outcome", ("converged", "iteration_limit"))
        metrics.begin("streamsvm_publishes", "outcome", ("published", "refused"))

    def publish(self, result: Made) -> bool:
        """Publish a finished training as the next version, unless its cut was published before; tell if it is settled.

        A version that the broker, or any reader, refuses is reported, audited and dropped; the next one takes its
        number. One whose outcome is in doubt is not settled: offer it again once the writer is renewed, and the head
        read then says whether it was published.

        Raises
        ------
        StreamsvmError
            If nothing more can be published.
        """
        if not self._delivery.admits(result.cut.positions):
            self._settle_doubt(result)
            return True
        version, now = self._version(result), self._now()
        value = model_codec.encode(version)
        digest = model_codec.sha256(value)
        gate = self._gate.judge(version, result.cut)
        head = self._head(version, digest, result.tuning, gate)
        self._in_doubt = version, len(value), gate
        try:
            model_codec.decode(value)  # a version that readers would refuse, such as one of NaN, never goes out
            self._writer.publish(
                [self._message(version, value, digest, now, result, gate), *self._copies(version, digest, now)],
                lambda offsets: self._pointers(version, msgspec.structs.replace(head, offset=offsets[0]), now),
                lambda offsets: msgspec.structs.replace(head, offset=offsets[0]),
            )
        except InDoubt:
            return False
        except (PublishRefused, InvalidMessage) as refusal:
            self._in_doubt = None
            self._refused(version, len(value), refusal, now)
            return True
        self._in_doubt = None
        self._gate.published(version, gate, self._published_as())
        self._report(version, result, now, len(value), gate)
        return True

    def _published_as(self) -> Alias:
        """Return the place of the version that the head names."""
        head = self._delivery.head
        assert head is not None
        return Alias(head.number, head.sha256, head.offset)

    @property
    def untold(self) -> bool:
        """Whether something is still to be written to the audit trail."""
        return bool(self._untold)

    def tell(self) -> None:
        """Write to the audit trail what is still to be written, once or, after a doubt, again; the writer is ready.

        Raises
        ------
        StreamsvmError
            If nothing more can be published.
        """
        if not self._untold:
            return
        try:
            self._writer.publish(self._untold)
        except InDoubt:
            return
        except PublishRefused as refusal:
            log.error("audit_refused", entries=len(self._untold), what=str(refusal))
        self._untold.clear()

    def _settle_doubt(self, result: Made) -> None:
        """Report a version that the head read after a doubt shows to be published."""
        doubted, self._in_doubt = self._in_doubt, None
        if doubted is None or dict(result.cut.positions) != self._delivery.published_cut:
            return
        version, value_bytes, gate = doubted
        log.info("published_after_all", version=version.key)
        self._gate.published(version, gate, self._published_as())
        self._report(version, result, self._now(), value_bytes, gate)

    def _refused(self, version: Version, value_bytes: int, refusal: StreamsvmError, now: datetime) -> None:
        """Say it in the log and in the audit trail; what cannot be written there now is kept until it can."""
        self._metrics.increase("streamsvm_publishes", outcome="refused")
        log.error("version_refused", version=version.key, bytes=value_bytes, what=str(refusal))
        entry = {
            "event": "version_refused",
            "version": version.number,
            "cut": version.lineage.cut,
            "bytes": value_bytes,
            "why": refusal.what,
            "by": "trainer",
            "session": self._delivery.session,
            "time": now.isoformat(),
        }
        self._untold.append(_to(self._settings.output.audit_topic, version.key, msgspec.json.encode(entry)))
        self.tell()

    def _message(
        self, version: Version, value: bytes, digest: str, now: datetime, result: Made, gate: Gate | None
    ) -> Message:
        unhashed = {
            "streamsvm.incarnation": str(self._delivery.incarnation),
            "streamsvm.session": self._delivery.session,
            "streamsvm.training.seconds": f"{result.seconds:.6f}",
        }
        before = self._delivery.head
        if before is not None:
            named = (before.alias, *self._delivery.links)
            unhashed[model_codec.LINKS_HEADER] = ",".join(str(ancestor.offset) for ancestor in named)
        if gate is not None:
            unhashed[model_codec.GATE_HEADER] = gate.outcome
            if gate.candidate is not None:
                unhashed[model_codec.GATE_ACCURACY_HEADER] = f"{gate.candidate:.6f}"
        (audit_scores,) = result.audit_scores
        if audit_scores is not None:
            unhashed[deciles.HEADER] = deciles.encode(audit_scores)
        if self._signer is not None:
            unhashed[model_codec.SIGNATURE_HEADER] = self._signer.sign(version.key, digest)
        headers = events.headers(version, digest, now, unhashed)
        return replace(_to(self._settings.output.models_topic, version.key, value), headers=headers)

    def _copies(self, version: Version, digest: str, now: datetime) -> list[Message]:
        """Return what else holds the version: an ONNX model, if that is asked for."""
        if self._settings.output.model_format != "onnx":
            return []
        value = onnx_codec.export(version, digest)
        headers = onnx_codec.headers(version, value, digest, now)
        return [replace(_to(self._settings.output.onnx_topic, version.key, value), headers=headers)]

    def _head(self, version: Version, digest: str, tuning: Tuning | None, gate: Gate | None) -> Head:
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
            tuning=naming.in_force(tuning),
            gate=gate,
            links=model_codec.links_after(self._delivery.head, version.number),
        )

    def _pointers(self, version: Version, head: Head, now: datetime) -> list[Message]:
        """Return the records that name the version's place: head, current unless it is refused, and the audit entry."""
        output, current, gate = self._settings.output, model_codec.current_key(version.name), head.gate
        refused = gate is not None and gate.outcome == "refused"
        alias = Alias(version.number, head.sha256, head.offset)
        audit: dict[str, object] = {
            "event": "gate_refused" if refused else "alias_moved",
            "name": version.name,
            "alias": current,
            "to": version.number,
            "sha256": head.sha256,
            "by": "trainer",
            "time": now.isoformat(),
        }
        if gate is not None:
            audit["gate"] = gate
        messages = [_to(output.aliases_topic, model_codec.head_key(version.name), model_codec.encode_head(head))]
        if not refused:
            messages.append(_to(output.aliases_topic, current, model_codec.encode_alias(alias)))
        return [*messages, _to(output.audit_topic, version.key, msgspec.json.encode(audit))]

    def _version(self, result: Made) -> Version:
        delivery = self._delivery
        origin = Origin(
            name=self._settings.name,
            number=delivery.next_number,
            parent=delivery.parent,
            links=tuple(Ancestor(link.number, link.sha256) for link in delivery.links),
            topic=self._settings.input.topic,
            topic_id=self._topic_id,
            base=self._base(),
            build=build(),
        )
        return version_of(result, self._config, origin)

    def _report(self, version: Version, result: Made, now: datetime, value_bytes: int, gate: Gate | None) -> None:
        fit, metrics, head = version.fit, self._metrics, self._delivery.head
        assert head is not None
        self._board.published(version, result, head, now)
        metrics.put("streamsvm_model_version", version.number)
        metrics.put("streamsvm_model_published_timestamp_seconds", now.timestamp())
        metrics.put("streamsvm_model_points_covered", version.stream.points)
        metrics.put("streamsvm_model_support_vectors", fit.support_vectors)
        if fit.kkt_gap is not None:
            metrics.put("streamsvm_model_kkt_gap", fit.kkt_gap)
        metrics.put("streamsvm_model_penalty", fit.C)
        metrics.put("streamsvm_model_alpha", 1.0 / (fit.C * version.stream.weight))
        if fit.gamma is not None:
            metrics.put("streamsvm_model_gamma", fit.gamma)
        metrics.put("streamsvm_model_objective", fit.objective)
        if fit.dual_objective is not None:
            metrics.put("streamsvm_model_dual_objective", fit.dual_objective)
        if (audit := version.audit) is not None:
            metrics.put("streamsvm_audit_objective", audit.objective)
            metrics.put("streamsvm_audit_objective_low", audit.low)
            metrics.put("streamsvm_audit_objective_high", audit.high)
            metrics.put("streamsvm_audit_points", audit.points)
        metrics.put("streamsvm_model_message_bytes", value_bytes)
        metrics.put("streamsvm_training_iterations", fit.iterations)
        metrics.observe("streamsvm_training_seconds", result.seconds)
        if result.tuning_seconds is not None:
            self._report_tuning(version, result, result.tuning_seconds)
        metrics.increase("streamsvm_trainings", outcome="converged" if fit.converged else "iteration_limit")
        metrics.increase("streamsvm_publishes", outcome="published")
        if 0.0 in version.stream.class_weight:
            seen = version.labels[0] if version.stream.class_weight[1] == 0.0 else version.labels[1]
            log.warning(
                "one_label_only",
                version=version.key,
                seen=seen,
                labels=version.labels,
                remedy="the model always answers with that label; check that points.labels fits the records",
            )
        if result.trained.no_probability:
            log.warning(
                "no_probability",
                version=version.key,
                reason=result.trained.no_probability,
                remedy="readers get decision values without probabilities. Wait for more points, or raise "
                "coreset.audit_points",
            )
        if not fit.converged:
            log.warning(
                "not_converged",
                version=version.key,
                kkt_gap=fit.kkt_gap,
                remedy="raise svm.max_iterations, or lower svm.C (with svm.C the problem gets harder as the stream "
                "grows; with svm.alpha it does not)",
            )
        log.info(
            "model_published",
            version=version.key,
            points=version.stream.points,
            training_points=fit.points,
            support_vectors=fit.support_vectors,
            objective=round(fit.objective, 6),
            balanced_accuracy=None if gate is None or gate.candidate is None else round(gate.candidate, 4),
            seconds=round(result.seconds, 4),
            bytes=value_bytes,
        )

    def _report_tuning(self, version: Version, result: Made, seconds: float) -> None:
        self._metrics.observe("streamsvm_tuning_seconds", seconds)
        if not result.scores:
            log.warning(
                "not_tuned",
                version=version.key,
                why="a label has fewer points than cross-validation has folds",
                remedy="the configured values stay in force until the next tuning",
            )
            return
        best = max(result.scores, key=lambda score: score.mean)
        log.info(
            "tuned",
            version=version.key,
            alpha=best.alpha,
            C=best.C,
            gamma=best.gamma,
            right=round(best.mean, 6),
            least_right=round(min(score.mean for score in result.scores), 6),
            seconds=round(seconds, 4),
        )


def _to(topic: str, key: str, value: bytes) -> Message:
    """Address a record to the one partition of an output topic."""
    return Message(topic, value, key.encode(), partition=0)
