"""What people see of a trainer: metrics, log lines and the page, from what its pipeline and publisher return.

Nothing here changes what is learned or published: a trainer without its observer makes the same versions.
"""

from __future__ import annotations

import math
from typing import Final

import structlog

from consumers import constants
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.page.board import TrainerBoard
from consumers.page.past import Past, past_of
from consumers.settings import Settings
from consumers.streams.abandonable import Pending
from consumers.trainer.components import Components
from consumers.trainer.coreset_conditions import Conditions
from consumers.trainer.freshness import Freshness
from consumers.trainer.gatekeeping import show_gate
from consumers.trainer.gauges import Gauges, Turns, show_skill
from consumers.trainer.life import Life
from consumers.trainer.outliers import OutlierLog
from streamsvm.delivery.events import (
    Assigned,
    CaughtUp,
    CutDeclined,
    CutTaken,
    Published,
    Refused,
    RowsLearned,
    Superseded,
)
from streamsvm.ingest.decoding import passed_over
from streamsvm.learning.learner import Cut, DueCut
from streamsvm.learning.recipe import Made
from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.classes import ClassModel, pairs_of
from streamsvm.model.pointers import Head
from streamsvm.model.skill import Answers, State, spelt
from streamsvm.model.skill_header import AnySkill, complaint_of
from streamsvm.model.threshold import described
from streamsvm.model.version import Version

log = structlog.get_logger("streamsvm.trainer")

MEASURE_EVERY_S: Final = 0.5
MEASURED_SHARE: Final = 0.02
SELDOM_S: Final = 5.0
"""Gauges are set every `MEASURE_EVERY_S`. If that would take more than `MEASURED_SHARE` of the loop's time they are set
less often, but at least every `SELDOM_S`."""

PAST_AFTER_S: Final = 1.0
"""How long after a start the past is read, which is for people only: a first version should not wait for that."""

Event = Assigned | CaughtUp | CutDeclined | CutTaken | RowsLearned | Published | Refused | Superseded


class Observer:
    """Counts, logs and shows what happens, in all lives of a process.

    Parameters
    ----------
    settings : Settings
    components : Components
    """

    def __init__(self, settings: Settings, components: Components) -> None:
        self._settings = settings
        self._metrics: Metrics = components.metrics
        self._health: Health = components.health
        self._clock = components.clock
        self._components = components
        self._shown = components.board is not None
        self._board = components.board or TrainerBoard(settings, components.metrics)
        self._gauges = Gauges(components.metrics)
        self._conditions = Conditions(settings.coreset.memory)
        self._outliers = OutlierLog(settings.input.topic)
        self._freshness: Freshness | None = None
        self._turns = Turns(self._clock.monotonic())
        self._threshold_met = True
        self._training_since: float | None = None
        self._measure_at = -math.inf
        self._head: Head | None = None
        self._recall_at = math.inf
        self._recalling: Pending[Past] | None = None
        self._skill: State | Answers | tuple[int, ...] | None = None
        self._missing_labels = 0
        weighted = settings.svm.class_weight != "none"
        metrics = components.metrics
        metrics.begin("streamsvm_input_rows", "outcome", ("accepted", "rejected"))
        metrics.begin("streamsvm_passed_over_rows", "reason", passed_over())
        metrics.begin("streamsvm_trainings", "outcome", ("converged", "iteration_limit", "skipped"))
        metrics.begin("streamsvm_publishes", "outcome", ("published", "refused"))
        metrics.put("streamsvm_class_weighted", float(weighted))

    def adopted(self, life: Life) -> None:
        """Begin to observe a life that has just started."""
        rows = life.config.coreset.leaf_rows * self._settings.training.every_leaves
        self._freshness = Freshness(self._metrics, life.pipeline.learner, rows)
        self._training_since, self._measure_at = None, -math.inf
        self._turns = Turns(self._clock.monotonic())
        self._board.adopted(life.delivery.head, life.current)
        self._metrics.put("streamsvm_model_version", life.delivery.next_number - 1)
        self._metrics.put("streamsvm_input_mostly_rejected", 0)
        self._health.require("input", "")
        self._head, self._recall_at = life.delivery.head, self._clock.monotonic() + PAST_AFTER_S
        self._recalling = None
        if self._head is not None and self._head.gate is not None:
            show_gate(self._head.gate, self._metrics)

    def _recall(self, life: Life) -> None:
        """Read, beside the loop, what the topics show of earlier versions, and show it; not without a page."""
        if self._clock.monotonic() >= self._recall_at and self._shown:
            settings, head, self._recall_at = self._settings, self._head, math.inf
            letters, cluster = settings.input.dead_letters, self._components.cluster
            self._recalling = self._components.aside(
                lambda: past_of(cluster, settings.name, settings.output.models_topic, letters, head)
            )
        if self._recalling is None or not self._recalling.over(0.0):
            return
        past, self._recalling = self._recalling.returned, None
        self._board.recalled(past)
        newest = past.newest
        if newest is not None and newest.version.number == life.delivery.next_number - 1:
            self._show_figures(newest.version, newest.published_at)
            self._metrics.put("streamsvm_training_points", newest.version.fit.points)
            self._metrics.put("streamsvm_model_labels_missing", len(newest.version.missing_labels))
            of_these_rows = self._head is not None and self._head.incarnation == life.delivery.incarnation
            if self._freshness is not None and of_these_rows:
                self._freshness.covers(newest.version.stream.rows)
            if newest.skill is not None:
                show_skill(newest.skill, self._metrics)

    def looks(self) -> None:
        """Note the time at which the loop checks whether a cut is due."""
        if self._freshness is not None:
            self._freshness.looked(self._clock.monotonic())

    def turns(self) -> None:
        """Note the time at which a turn of the main loop begins."""
        self._turns.next(self._clock.monotonic())

    def started(self, life: Life) -> None:
        """Log what was started."""
        self._turns = Turns(self._clock.monotonic())
        log.info(
            "started",
            name=self._settings.name,
            session=life.delivery.session,
            topic=self._settings.input.topic,
            partitions=life.partitions,
            incarnation=life.delivery.incarnation,
            next_version=life.delivery.next_number,
            positions={str(partition): list(at) for partition, at in life.pipeline.learner.positions.items()},
        )

    def note(self, event: Event, life: Life, begun: float = 0.0) -> None:
        """Take in what happened; `begun` is when the step began that led to it, in monotonic seconds."""
        match event:
            case RowsLearned():
                self._learned(event, begun)
            case CutTaken():
                self._emitted(event.cut)
                self._conditions.warn_of_drift(life.pipeline.learner.drift(), life.config.points)
                self._metrics.increase("streamsvm_trainings", float(event.replaced), outcome="skipped")
            case CutDeclined():
                self._emitted(None)
            case CaughtUp():
                log.info("caught_up", version=event.version)
            case Assigned():
                self._assigned(event)
            case Published():
                self._settled(event.made.cut, life)
                self._published(event)
            case Refused():
                self._settled(event.made.cut, life)
                self._metrics.increase("streamsvm_publishes", outcome="refused")
                log.error("version_refused", version=event.version.key, bytes=event.value_bytes, what=str(event.why))
            case Superseded():
                self._settled(event.made.cut, life)

    # ----------------------------------------------------------- rows and cuts

    def _learned(self, event: RowsLearned, begun: float) -> None:
        if self._freshness is not None:
            self._freshness.learned(begun, self._clock.monotonic())
        self._metrics.increase("streamsvm_input_rows", int(event.rows.accepted.sum()), outcome="accepted")
        self._metrics.increase("streamsvm_input_rows", event.rows.rejected, outcome="rejected")

    def _emitted(self, cut: DueCut | None) -> None:
        if self._freshness is not None:
            self._freshness.emitted(cut)

    def _settled(self, cut: Cut, life: Life) -> None:
        if self._freshness is not None:
            published, now = life.delivery.published_cut, self._clock.monotonic()
            self._freshness.settled(cut, published, life.pipeline.in_flight, now)

    def _assigned(self, event: Assigned) -> None:
        if event.differs:
            remedy = "no action needed: this build or CPU differs from the one that made the version"
            log.warning("training_set_differs", what=event.differs, remedy=remedy)
        if event.at_newest and self._freshness is not None:
            self._freshness.caught_up()
        self._health.require(
            "replay", "the trainer is replaying the log up to the newest version" if event.again else ""
        )

    # ------------------------------------------------------------ the training

    def training(self) -> None:
        """Note that a training begins."""
        self._training_since = self._clock.monotonic()

    def trained(self, made: Made) -> None:
        """Note that it ended."""
        self._training_since = None
        self._metrics.put("streamsvm_training_points", len(made.cut.points))

    @property
    def _training_s(self) -> float:
        return 0.0 if self._training_since is None else self._clock.monotonic() - self._training_since

    def look_after_training(self) -> None:
        """Report a training that takes so long that its thread must be stuck."""
        running_s = self._training_s
        stuck = running_s > constants.TRAINING_STUCK_AFTER_S
        self._health.suspect("training", f"a model has been training for {running_s:.0f} s" if stuck else "")

    # ------------------------------------------------------------- a version

    def _published(self, event: Published) -> None:
        version, made, fit, gate = event.version, event.made, event.version.fit, event.gate
        if event.after_doubt:
            log.info("published_after_all", version=version.key)
        self._board.published(version, made, event.head, event.time, event.skill)
        self._show_version(event)
        self._skilled(event)
        if made.tuning_seconds is not None:
            self._tuned(event, made.tuning_seconds)
        self._warn_of(event)
        log.info(
            "model_published",
            version=version.key,
            points=version.stream.points,
            training_points=fit.points,
            support_vectors=fit.support_vectors,
            objective=round(fit.objective, 6),
            balanced_accuracy=None if gate is None or gate.candidate is None else round(gate.candidate, 4),
            skill=None if event.skill is None else event.skill.state,
            seconds=round(made.seconds, 4),
            bytes=event.value_bytes,
        )

    def _show_version(self, event: Published) -> None:
        version, metrics = event.version, self._metrics
        self._show_figures(version, event.time.timestamp())
        metrics.observe("streamsvm_training_seconds", event.made.seconds, step="train")
        metrics.increase("streamsvm_trainings", outcome="converged" if version.fit.converged else "iteration_limit")
        metrics.increase("streamsvm_publishes", outcome="published")

    def _show_figures(self, version: Version, published_at: float | None) -> None:
        figures = {**_figures(version), "streamsvm_model_published_timestamp_seconds": published_at}
        for name, value in figures.items():
            if value is not None:
                self._metrics.put(name, value)
        if (audit := version.audit) is not None:
            for end, bound in (("low", audit.low), ("estimate", audit.objective), ("high", audit.high)):
                self._metrics.put("streamsvm_audit_objective", bound, end=end)

    def _skilled(self, event: Published) -> None:
        """Show what a version knows, and say once when it begins, or ceases, to know nothing."""
        version, skill = event.version, event.skill
        if skill is None:
            return
        show_skill(skill, self._metrics)
        weighted = self._settings.svm.class_weight != "none"
        wrong = complaint_of(skill, version.labels, weighted=weighted)
        said = summary_of(skill)
        before, self._skill = self._skill, said
        if wrong and said != before:
            log.warning(
                "no_skill",
                version=version.key,
                what=wrong,
                remedy="look at the runbook: deploy/RUNBOOK.md#streamsvmnoskill",
            )
        elif said == "some" and before not in (None, "some", "unknown"):
            log.info("skill_found", version=version.key)

    def _tuned(self, event: Published, seconds: float) -> None:
        self._metrics.observe("streamsvm_training_seconds", seconds, step="tune")
        scores = event.made.scores
        if not scores:
            log.warning(
                "not_tuned",
                version=event.version.key,
                why="a label has fewer points than cross-validation has folds",
                remedy="the configured values stay in force until the next tuning",
            )
            return
        best = max(scores, key=lambda score: score.mean)
        log.info(
            "tuned",
            version=event.version.key,
            alpha=best.alpha,
            C=best.C,
            gamma=best.gamma,
            right=round(best.mean, 6),
            least_right=round(min(score.mean for score in scores), 6),
            seconds=round(seconds, 4),
        )

    def _warn_of(self, event: Published) -> None:
        """Warn of what a version's readers should know."""
        version, no_probability = event.version, event.made.no_probability
        self._warn_of_missing_labels(version)
        if no_probability:
            index, reason = no_probability[0]
            log.warning(
                "no_probability",
                version=version.key,
                reason=_machine_name(version, index) + reason,
                remedy="readers get decision values without probabilities. Wait for more points, or raise "
                "coreset.points",
            )
        self._warn_of_the_threshold(version)
        if not version.fit.converged:
            log.warning(
                "not_converged",
                version=version.key,
                kkt_gap=version.fit.kkt_gap,
                remedy="raise svm.tolerance, or lower svm.C (with svm.C the problem gets harder as the stream "
                "grows; with svm.alpha it does not)",
            )

    def _warn_of_missing_labels(self, version: Version) -> None:
        """Warn of labels that never came: with two of every version, with more when their number changes."""
        missing = version.missing_labels
        seen = [one for one in version.labels if one not in missing]
        self._metrics.put("streamsvm_model_labels_missing", len(missing))
        if len(seen) == 1:
            log.warning(
                "one_label_only",
                version=version.key,
                seen=seen[0],
                labels=version.labels,
                remedy="the model always answers with that label; check that points.labels fits the records",
            )
        elif len(missing) != self._missing_labels:
            if missing:
                log.warning(
                    "labels_missing",
                    version=version.key,
                    missing=list(missing),
                    remedy="no point of these labels came, so no model can answer them rightly; check that "
                    "points.labels fits the records, or wait for their points",
                )
            elif self._missing_labels:
                log.info("labels_complete", version=version.key)
        self._missing_labels = len(missing)

    def _warn_of_the_threshold(self, version: Version) -> None:
        """Log when a threshold no longer reaches its target, and when it does again; not with every version."""
        threshold = version.model.threshold
        met = threshold is None or threshold.met
        if threshold is not None and met != self._threshold_met:
            said = {"version": version.key, "threshold": described(threshold)}
            if met:
                log.info("target_met", **said)
            else:
                log.warning(
                    "target_not_met" if threshold.chosen else "threshold_not_chosen",
                    **said,
                    remedy="ask for less, or give features that tell the labels apart"
                    if threshold.chosen
                    else "the model answers at 0 meanwhile. Wait for more points, or raise coreset.points",
                )
        self._threshold_met = met

    # ---------------------------------------------------------------- figures

    def measure(self, life: Life, *, at_once: bool = False) -> None:
        """Set the gauges and the page's figures, if it is time to."""
        self._recall(life)
        begun = self._clock.monotonic()
        if begun < self._measure_at and not at_once:
            return
        self._measure(life)
        ended = self._clock.monotonic()
        self._measure_at = begun + min(max(MEASURE_EVERY_S, (ended - begun) / MEASURED_SHARE), SELDOM_S)

    def _measure(self, life: Life) -> None:
        pipeline, learner, log_ranges = life.pipeline, life.pipeline.learner, life.surveyor.log
        pipeline.pass_markers(life.intake.ends)
        self._gauges.points(pipeline.points_held(), pipeline.points_peak)
        self._gauges.coreset(learner)
        life.quality.show()
        if self._freshness is not None:
            self._freshness.show()
        self._conditions.report(learner.observed().counts())
        self._conditions.warn_of_horizons(learner.short_share())
        self._outliers.report(learner.outliers())
        ends = life.intake.high_watermarks
        self._gauges.lag({p: (offset, ends.get(p)) for p, offset in life.intake.ahead.items()})
        life.intake.measure()
        positions = learner.positions
        self._gauges.headroom({p: at.offset - log_ranges[p][0] for p, at in positions.items() if p in log_ranges})
        self._metrics.put("streamsvm_training_running_seconds", self._training_s)
        self._metrics.put("streamsvm_loop_longest_turn_seconds", self._turns.longest_s)
        self._board.rejected(life.intake.newest_rejected, self._clock.now())
        self._board.look(learner, self._clock.now(), self._clock.monotonic())


def _machine_name(version: Version, index: int) -> str:
    """Return what a machine separates, where there are several."""
    model = version.model
    if not isinstance(model, ClassModel):
        return ""
    of = (index,) if model.scheme == "one_vs_rest" else pairs_of(model.classes)[index]
    return f"{' against '.join(spelt(version.labels[label]) for label in of)}: "


def summary_of(skill: AnySkill) -> State | Answers | tuple[int, ...]:
    """Return what a log line says of a skill, so that it is logged once while it stays the same."""
    if isinstance(skill, ClassSkill):
        return skill.silent if skill.silent and skill.state != "none" else skill.state
    return skill.state if skill.answers == "both" else skill.answers


def _figures(version: Version) -> dict[str, float | None]:
    """Return the gauges of a version; None where it has no such figure."""
    fit = version.fit
    return {
        "streamsvm_model_version": version.number,
        "streamsvm_model_points_covered": version.stream.points,
        "streamsvm_model_kkt_gap": fit.kkt_gap,
        "streamsvm_model_objective": fit.objective,
    }
