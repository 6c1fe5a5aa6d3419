"""Every metric, once: name, meaning, unit, labels, and what to do when it moves.

Labels are bounded: a version, a hash or an offset is never one. Base units: seconds, bytes, points, rows, records.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

Kind = Literal["counter", "gauge", "histogram"]

TRAINING_BUCKETS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STALENESS_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
REDUCE_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SCORING_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SCORE_BUCKETS: Final = (-10.0, -5.0, -3.0, -2.0, -1.5, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Of decision values: margins are at -1 and 1, and the labels part at 0."""
LATENCY_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
CHECKPOINT_BUCKETS_S: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric.

    Attributes
    ----------
    name : str
        As Prometheus shows it, without the `_total` of a counter.
    kind : str
    meaning : str
        What it counts, with its unit.
    advice : str
        What to do when it moves.
    labels : tuple of str
    buckets : tuple of float
        Of a histogram.
    bulk : bool
        Whether it is a histogram that takes many observations in one step, `observe_all`.
    """

    name: str
    kind: Kind
    meaning: str
    advice: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    bulk: bool = False


HELD_UP: Final = Definition(
    "streamsvm_output_held_up_seconds",
    "gauge",
    "How long the stable offset of an output partition has stood still below its end: the longest of all, or 0.",
    "More than some seconds: a transaction has no end, and readers of committed records get nothing newer.",
)

INPUT_RECORDS: Final = Definition(
    "streamsvm_input_records",
    "counter",
    "Records read from the input topic, by partition.",
    "Flat while producers write: look at the lag and at readiness.",
    ("partition",),
)

INPUT_ROWS: Final = Definition(
    "streamsvm_input_rows",
    "counter",
    "Rows learned or scored (accepted), or passed over (rejected).",
    "A rising share of rejected rows: read the dead letters.",
    ("outcome",),
)

INPUT_LAG_RECORDS: Final = Definition(
    "streamsvm_input_lag_records",
    "gauge",
    "Records between the trainer's own position, or that of the scorer's group, and the end of the partition; a scorer "
    "shows the partitions that it has.",
    "Growing: the daemon is slower than its input. A trainer: see training time, or use the policy `latest`; a scorer: "
    "start another one in its group.",
    ("partition",),
)

INPUT_MOSTLY_REJECTED: Final = Definition(
    "streamsvm_input_mostly_rejected",
    "gauge",
    "1 while the newest records pass max_dead_letter_share or max_consecutive_dead_letters of the section input, "
    "or, of a scorer, scoring, and the daemon goes on, because its input is proven (input.proven_after_points, "
    "scoring.proven_after_records); else 0.",
    "1: the daemon is not ready, and learns or scores little. See who writes to the input; `streamsvm dead-letters` "
    "shows what.",
)

DEAD_LETTERS: Final = Definition(
    "streamsvm_dead_letters",
    "counter",
    "Rejected rows, by reason.",
    "`streamsvm dead-letters` shows where each record stood, why it was rejected, and what to do about it.",
    ("reason",),
)

UNREAD_FIELDS: Final = Definition(
    "streamsvm_unread_fields",
    "counter",
    "Rows that had a field which is not read, one count for each such field; up to 16 fields are told apart.",
    "Rising from a certain time on: a producer writes a field under another name, as `weight` for `w`, which then has "
    "its default. The log names each field once.",
)

REGISTRY_WAITING_SECONDS: Final = Definition(
    "streamsvm_registry_waiting_seconds",
    "gauge",
    "Seconds for which the input has waited for the schema registry; 0 while it does not.",
    "Above 0: the registry does not answer; nothing is lost or rejected, and reading goes on when it does.",
)

TRAINER: Final = (
    HELD_UP,
    INPUT_RECORDS,
    Definition(
        "streamsvm_input_bytes",
        "counter",
        "Bytes of the values of the records read from the input topic.",
        "Beside streamsvm_input_records it is the size of a record: one that grows has more rows, or other content.",
    ),
    INPUT_ROWS,
    INPUT_LAG_RECORDS,
    INPUT_MOSTLY_REJECTED,
    DEAD_LETTERS,
    UNREAD_FIELDS,
    REGISTRY_WAITING_SECONDS,
    Definition(
        "streamsvm_coreset_points",
        "gauge",
        "Points held in buckets, by level over all partitions; level `leaf` is the open leaves.",
        "Bounded by the configuration; grows by one level each time the stream doubles.",
        ("level",),
    ),
    Definition(
        "streamsvm_coreset_bytes",
        "gauge",
        "Bytes of the points held.",
        "Compare with the memory you meant to give.",
    ),
    Definition(
        "streamsvm_coreset_weight",
        "gauge",
        "Total weight of the accepted points, which the coreset stands for.",
        "Grows with the input, by the weight of each point. Far faster than streamsvm_input_rows: somebody sends large "
        "weights, and they decide the model.",
    ),
    Definition(
        "streamsvm_coreset_reduce_seconds",
        "histogram",
        "Seconds of sealing a leaf: its reduction, and the merges that follow from it; one observation a leaf.",
        "Times the leaves a second it is the share of the main loop that goes into coresets: near 1, raise "
        "coreset.leaf_rows or lower coreset.bucket_points.",
        buckets=REDUCE_BUCKETS_S,
    ),
    Definition(
        "streamsvm_coreset_reductions",
        "gauge",
        "Reductions of the calibrated reducer since the process started, by what they met: `calibrated`; `by_weight`, "
        "one label only; `uncalibrated`, too few points for the features; `strained`, weights at their bound. Beside "
        "these `shifted`, leaves unlike all that their partition held before.",
        "Any but `calibrated`: the stream comes sorted or drifts, or buckets are too small for the features; the model "
        "may be no better than one of a plain sample. The log says what to do.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_coreset_clipped_rows",
        "gauge",
        "Accepted rows of which coreset.max_leverage or coreset.clip_sd drew a feature in, since the process started.",
        "A few are what they are for; the log line outlier_drawn_in names the farthest. A rising share: the scale of a "
        "feature changed, which is followed over some leaves, or clip_sd is too small for it.",
    ),
    Definition(
        "streamsvm_coreset_bounded_weights",
        "gauge",
        "Accepted rows of which coreset.max_leverage drew the weight in, since the process started.",
        "Not 0: single rows claim more than a hundredth of all weight before them; the log line outlier_drawn_in names "
        "the heaviest. See who wrote them.",
    ),
    Definition(
        "streamsvm_points_held",
        "gauge",
        "Points held at once: buckets, open leaves, audit samples, decoded rows not learned yet, training sets in "
        "flight with their audit samples.",
        "Bounded by the configuration; what memory is planned by.",
    ),
    Definition(
        "streamsvm_points_held_peak",
        "gauge",
        "Most points held at once since the process started.",
        "Bounded by the configuration; what memory is planned by.",
    ),
    Definition(
        "streamsvm_training_points",
        "gauge",
        "Points of the newest training set.",
        "At coreset.train_points the union is being reduced: raise it if training is fast.",
    ),
    Definition(
        "streamsvm_training_seconds",
        "histogram",
        "Seconds of training, one observation a model.",
        "Above the time between two cuts: versions are skipped (`latest`) or the input waits (`every`).",
        buckets=TRAINING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_tuning_seconds",
        "histogram",
        "Seconds of choosing C and gamma by cross-validation, one observation a tuning; training comes on top.",
        "Above the time between two cuts: as streamsvm_training_seconds; lower svm.tune_points, or raise "
        "svm.tune_every_leaves.",
        buckets=TRAINING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_trainings",
        "counter",
        "Trainings by outcome: converged, or iteration_limit.",
        "iteration_limit: the published model is rough; look at C, scaling and svm.max_iterations.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_training_iterations",
        "gauge",
        "Iterations of the solver for the newest version.",
        "At svm.max_iterations the model is rough; rising from version to version: see the scaling and C.",
    ),
    Definition(
        "streamsvm_cuts_skipped",
        "counter",
        "Due training sets that a newer one replaced before they were trained (policy `latest`).",
        "Normal when input is faster than training; use `every` where each must be trained.",
    ),
    Definition(
        "streamsvm_model_version",
        "gauge",
        "Number of the newest published version.",
        "Flat while rows are learned: look at training time and at the log.",
    ),
    Definition(
        "streamsvm_model_published_timestamp_seconds",
        "gauge",
        "When the newest version was published, seconds since the epoch; its age is time() less this.",
        "Old while rows are learned: see streamsvm_model_version.",
    ),
    Definition(
        "streamsvm_model_staleness_seconds",
        "histogram",
        "Seconds from the sealing of the leaf that made a version due to its publication, one observation a version.",
        "Above the time between two cuts: versions describe the stream before last; see streamsvm_training_seconds.",
        buckets=STALENESS_BUCKETS_S,
    ),
    Definition(
        "streamsvm_model_rows_behind",
        "gauge",
        "Rows learned or passed over that the newest version's cut does not cover.",
        "More than a few times streamsvm_model_rows_between_cuts: no version comes although rows do; see training time "
        "and the log.",
    ),
    Definition(
        "streamsvm_model_rows_between_cuts",
        "gauge",
        "Rows after which a cut falls due: coreset.leaf_rows times training.every_leaves.",
        "Changes with the configuration only.",
    ),
    Definition(
        "streamsvm_model_message_bytes",
        "gauge",
        "Bytes of the newest version's message.",
        "Of a kernel model it grows with its support vectors; the start refuses a configuration whose largest one "
        "would not fit the broker's limits.",
    ),
    Definition(
        "streamsvm_model_points_covered",
        "gauge",
        "Valid points that the newest version covers.",
        "Compare with streamsvm_input_rows: the difference is not in the model yet.",
    ),
    Definition(
        "streamsvm_model_support_vectors",
        "gauge",
        "Support vectors of the newest version.",
        "A sudden change: the data changed.",
    ),
    Definition(
        "streamsvm_model_kkt_gap",
        "gauge",
        "Violation of optimality of the newest version on its training set.",
        "Above svm.tolerance: the solver stopped early.",
    ),
    Definition(
        "streamsvm_model_penalty",
        "gauge",
        "C of the newest version, whichever way it was set.",
        "With svm.alpha it falls as the weight of the stream grows; for what svm.tune chose see streamsvm_model_alpha.",
    ),
    Definition(
        "streamsvm_model_alpha",
        "gauge",
        "1 / (C U) of the newest version, U the weight of the stream up to its cut.",
        "Moves with svm.tune only, or with a fixed svm.C. At the end of the values to choose among, tuning after "
        "tuning: give svm.tune_alphas that go further.",
    ),
    Definition(
        "streamsvm_model_gamma",
        "gauge",
        "Gamma of the newest version; only with the kernel rbf.",
        "At the end of the values to choose among, tuning after tuning: give svm.tune_gammas that go further.",
    ),
    Definition(
        "streamsvm_model_objective",
        "gauge",
        "Objective of the newest version on its training set, in the objective's own units.",
        "Its distance from streamsvm_model_dual_objective is how far the solver is from the training set's optimum; "
        "outside the audit's interval, the coreset is wrong about the model.",
    ),
    Definition(
        "streamsvm_model_dual_objective",
        "gauge",
        "Dual objective of the newest version: a lower bound of the optimum on its training set, not on the stream.",
        "Far below streamsvm_model_objective: the solver stopped early; raise svm.max_iterations.",
    ),
    Definition(
        "streamsvm_audit_objective",
        "gauge",
        "Objective of the newest version over the whole stream, estimated from the audit sample, in which the coreset "
        "has no hand.",
        "streamsvm_model_objective outside of the interval, version after version: the coreset misses what matters; "
        "raise coreset.memory_points, and see streamsvm_coreset_reductions.",
    ),
    Definition(
        "streamsvm_audit_objective_low",
        "gauge",
        "Lower end of its interval, which holds the truth in 95 of 100 cases.",
        "See streamsvm_audit_objective.",
    ),
    Definition(
        "streamsvm_audit_objective_high",
        "gauge",
        "Upper end of its interval.",
        "Too far from the lower one to tell anything: raise coreset.audit_points.",
    ),
    Definition(
        "streamsvm_audit_points",
        "gauge",
        "Points of the newest version's audit sample.",
        "Bounded by coreset.audit_points a partition; fewer than that: it holds the partition's whole stream.",
    ),
    Definition(
        "streamsvm_publishes",
        "counter",
        "Versions by outcome: published, or refused by the broker.",
        "refused: the log names the version and the limit; the next version takes its number.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_gate_verdicts",
        "counter",
        "Versions by what the quality gate said: passed, refused, or unscored where there was nothing to judge by.",
        "refused: current stays where it is; see what changed in the input, and the accuracies, or, where the log says "
        "gate_waits, why nothing could be compared. Only unscored: hardly any points of one of the labels.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_gate_candidate_accuracy",
        "gauge",
        "Balanced accuracy of the newest version on the points that the quality gate scored.",
        "Compare with streamsvm_gate_present_accuracy; both falling: the stream changes faster than the models.",
    ),
    Definition(
        "streamsvm_gate_best_accuracy",
        "gauge",
        "Balanced accuracy on the same points of the best of the versions that were current last "
        "(output.gate_versions).",
        "Above streamsvm_gate_present_accuracy: versions have become worse one after another, each within the margin.",
    ),
    Definition(
        "streamsvm_gate_present_accuracy",
        "gauge",
        "Balanced accuracy on the same points of the version that was current then.",
        "See streamsvm_gate_candidate_accuracy.",
    ),
    Definition(
        "streamsvm_prequential_points",
        "counter",
        "Points scored by the current version before they were learned: all of them, or, by a kernel machine of more "
        "than 16 support vectors, one in a sixteenth as many points as it has of them, which bounds its time.",
        "Flat while rows are learned: nothing is current yet, input is being read again, or quality.enabled is off.",
    ),
    Definition(
        "streamsvm_prequential_seconds",
        "counter",
        "Seconds that such scoring and its baseline took.",
        "A few hundredths of the learning's own: too much for you? Set quality.enabled to false.",
    ),
    Definition(
        "streamsvm_prequential_accuracy",
        "gauge",
        "Share of the weight of the newest quality.window scored points that is answered right: by the current version "
        "(`model`), by plain SGD on every quality.baseline_every-th point at the best of several rates (`sgd`), by the "
        "commoner label (`majority`).",
        "model falling: the stream changes, or its labels went wrong; below sgd: the baseline forgets, the coreset "
        "does not, so the stream drifts, or the coreset is too small; below majority: see svm.class_weight.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_prequential_balanced_accuracy",
        "gauge",
        "The same, as the mean over the two labels; not a number while the window lacks one.",
        "See streamsvm_prequential_accuracy; to be preferred where one label is rare.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_prequential_hinge_loss",
        "gauge",
        "Mean hinge loss on the same points, by weight; the majority has none.",
        "Rising while accuracy stays: margins shrink, or a few points lie far out; see coreset.clip_sd.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_versions_retired",
        "counter",
        "Versions retired because output.keep_versions newer ones are kept.",
        "Flat with the option set: the log says what keeps versions from being retired.",
    ),
    Definition(
        "streamsvm_producer_renewals",
        "counter",
        "Times that the producer of versions was replaced, after a commit in doubt or an outage.",
        "Some with every outage of the broker; often without one: see the log for what fails.",
    ),
    Definition(
        "streamsvm_training_running_seconds",
        "gauge",
        "How long the model in training has been training; 0 while none is.",
        "Far above streamsvm_training_seconds: the solver hangs, or the machine is short of processors.",
    ),
    Definition(
        "streamsvm_input_headroom_records",
        "gauge",
        "Records between the first one that the log still holds and the trainer's position, by partition.",
        "Falling to 0: retention is about to remove records unread; make the trainer faster or retention longer.",
        ("partition",),
    ),
    Definition(
        "streamsvm_checkpoint_timestamp_seconds",
        "gauge",
        "When the newest checkpoint was written, seconds since the epoch.",
        "Old: look for checkpoint failures; a restart reads again from there.",
    ),
    Definition(
        "streamsvm_checkpoint_bytes",
        "gauge",
        "Size of the newest checkpoint.",
        "Bounded by the configuration.",
    ),
    Definition(
        "streamsvm_checkpoint_seconds",
        "histogram",
        "Seconds to write a checkpoint.",
        "Rising: the disk is slow or full.",
        buckets=CHECKPOINT_BUCKETS_S,
    ),
    Definition(
        "streamsvm_checkpoint_failures",
        "counter",
        "Checkpoints that could not be written.",
        "Any: look at the disk; the log names the file and the error.",
    ),
)
"""Metrics of the trainer."""

SCORER: Final = (
    HELD_UP,
    INPUT_RECORDS,
    INPUT_ROWS,
    INPUT_LAG_RECORDS,
    INPUT_MOSTLY_REJECTED,
    DEAD_LETTERS,
    UNREAD_FIELDS,
    REGISTRY_WAITING_SECONDS,
    Definition(
        "streamsvm_scored_points",
        "counter",
        "Points scored.",
        "Flat while producers write: look at readiness; without a model nothing is scored.",
    ),
    Definition(
        "streamsvm_scores",
        "counter",
        "Scores committed, by the label that they mean: `negative`, the first of the version's labels, or `positive`, "
        "the second.",
        "The share of `positive` moves: the input changed, or another version serves; see streamsvm_score_drift and "
        "streamsvm_serving_version.",
        ("label",),
    ),
    Definition(
        "streamsvm_score_values",
        "histogram",
        "Decision values committed, one observation a score; 0 is the border, -1 and 1 are the margins. It has buckets "
        "only, as values may be negative.",
        "Another shape than yesterday, under the same version: the input changed. All of them between -0.1 and 0.1: "
        "the model knows nothing, see its quality at the trainer.",
        buckets=SCORE_BUCKETS,
        bulk=True,
    ),
    Definition(
        "streamsvm_score_latency_seconds",
        "histogram",
        "Seconds from a record's timestamp to the commit of its scores, one observation a record that has a score.",
        "Above what a batch takes (streamsvm_scoring_seconds): records waited; see streamsvm_input_lag_records. Where "
        "the producer sets timestamps, its clock counts, too.",
        buckets=LATENCY_BUCKETS_S,
        bulk=True,
    ),
    Definition(
        "streamsvm_score_drift",
        "gauge",
        "Population stability index of the newest scores (scoring.drift_window of them) against those of the audit "
        "sample of the versions that gave them, in tenths of the sample; not a number where the version says nothing "
        "of its audit sample, or too few scores are there.",
        "Above streamsvm_score_drift_chance something changed, above 0.25 much: points are not those of which the "
        "model was made, or a feature has another unit.",
    ),
    Definition(
        "streamsvm_score_drift_chance",
        "gauge",
        "What streamsvm_score_drift passes by chance once in a thousand times where nothing changed: it falls as the "
        "window and the audit sample grow.",
        "Near 0.25: raise scoring.drift_window, or coreset.audit_points at the trainer.",
    ),
    Definition(
        "streamsvm_score_drift_scores",
        "gauge",
        "Scores in the window of streamsvm_score_drift.",
        "0 while points are scored: the versions that serve carry no scores of an audit sample.",
    ),
    Definition(
        "streamsvm_scored_batches",
        "counter",
        "Batches by outcome: committed with their positions, or put back to be read and scored again.",
        "Many put back: the log says why; a group that rebalances without end, or a broker that comes and goes.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_scoring_seconds",
        "histogram",
        "Seconds from a batch that was read to its scores being committed, one observation a batch.",
        "Rising: the broker is slow to commit, or the model has more support vectors; see scoring.batch_records.",
        buckets=SCORING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_serving_version",
        "gauge",
        "Number of the version that scores now; 0 while there is none.",
        "Behind streamsvm_model_version: a pin holds it, or the subscriber is cut off.",
    ),
    Definition(
        "streamsvm_serving_loaded_timestamp_seconds",
        "gauge",
        "When the serving version was loaded, seconds since the epoch.",
        "Old: no newer version came.",
    ),
    Definition(
        "streamsvm_model_messages_refused",
        "counter",
        "Model messages that were damaged, foreign or unfit; the version before them goes on serving.",
        "Any: the log names the record and the fault.",
    ),
)
"""Metrics of the scorer."""

PROCESS: Final = (
    Definition(
        "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", "Resident memory is what counts."
    ),
    Definition(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory size in bytes.",
        "Bounded by the configuration; growing for hours: see streamsvm_points_held, then report it.",
    ),
    Definition(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        "Moving often: the process restarts; its last log line says why.",
    ),
    Definition(
        "process_cpu_seconds",
        "counter",
        "Total user and system CPU time spent in seconds.",
        "Its rate is the processors in use; at the container's limit, training and learning wait for each other.",
    ),
    Definition(
        "process_open_fds",
        "gauge",
        "Number of open file descriptors.",
        "Growing without end is a leak; a restart helps, a report more.",
    ),
    Definition(
        "process_max_fds",
        "gauge",
        "Maximum number of open file descriptors.",
        "Close to process_open_fds: raise the limit.",
    ),
    Definition(
        "python_gc_objects_collected",
        "counter",
        "Objects collected during gc",
        "For a report about memory; nothing to do.",
        ("generation",),
    ),
    Definition(
        "python_gc_objects_uncollectable",
        "counter",
        "Uncollectable objects found during GC",
        "More than 0: report it.",
        ("generation",),
    ),
    Definition(
        "python_gc_collections",
        "counter",
        "Number of times this generation was collected",
        "For a report about pauses; nothing to do.",
        ("generation",),
    ),
    Definition(
        "python_info",
        "gauge",
        "Python platform information",
        "Says what runs; attach it to a report.",
        ("version", "implementation", "major", "minor", "patchlevel"),
    ),
)
"""What prometheus_client tells of any process; meanings in its words."""


Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)


class Bulk(Collector):
    """A histogram without labels that takes many observations in one step; one by one they cost more than scoring.

    Thread-safe.

    Parameters
    ----------
    definition : Definition
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._bounds = np.array(definition.buckets)
        self._lock = threading.Lock()
        self._counts = np.zeros(len(self._bounds) + 1, np.int64)
        self._sum = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Add observations, shape (n,); a value that equals a bucket's upper bound is in that bucket."""
        places = np.searchsorted(self._bounds, values, side="left")
        counted = np.bincount(places, minlength=len(self._counts))
        with self._lock:
            self._counts += counted
            self._sum += float(values.sum())

    def below(self) -> tuple[tuple[float, int], ...]:
        """Return each upper bound, infinity last, with the number of observations up to it."""
        with self._lock:
            counts = self._counts.tolist()
        return tuple(zip((*self._bounds.tolist(), float("inf")), accumulate(counts), strict=True))

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return it as Prometheus has it."""
        buckets = [("+Inf" if math.isinf(bound) else str(bound), float(count)) for bound, count in self.below()]
        yield HistogramMetricFamily(
            self._definition.name, self._definition.meaning, buckets=buckets, sum_value=self._sum
        )


class Metrics:
    """The metrics of one process, in a registry of their own.

    Parameters
    ----------
    definitions : iterable of Definition
    """

    def __init__(self, definitions: Iterable[Definition]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._made = {definition.name: _make(definition, self.registry) for definition in definitions}

    def with_process(self) -> Metrics:
        """Tell of the process, too (`PROCESS`); once."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        return self

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        counter = self._of(name, Counter, labels)
        counter.inc(amount)

    def begin(self, name: str, label: str, values: Iterable[str]) -> None:
        """Let a labelled counter stand at 0 for each value, so that a rate sees its first event."""
        for value in values:
            self.increase(name, 0.0, **{label: value})

    def put(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._of(name, Gauge, labels)
        gauge.set(value)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Return a counter or a gauge as it stands, by its labels' values in their order; empty if there is none."""
        made = self._made.get(name)
        families = () if made is None else made.collect()
        return {tuple(sample.labels.values()): sample.value for family in families for sample in family.samples}

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        histogram = self._of(name, Histogram, labels)
        histogram.observe(value)

    def observe_all(self, name: str, values: NDArray[np.float64]) -> None:
        """Add many observations to a histogram without labels, in one step."""
        made = self._made[name]
        assert isinstance(made, Bulk)
        made.add(values)

    def buckets(self, name: str) -> tuple[tuple[float, int], ...]:
        """Return a histogram that `observe_all` fills: upper bounds, and how many observations are up to each."""
        made = self._made.get(name)
        return made.below() if isinstance(made, Bulk) else ()

    def drop(self, name: str, *labels: str) -> None:
        """Take back one series of a labelled gauge, if there is one: what it told of is another's now."""
        made = self._made[name]
        assert isinstance(made, Gauge)
        made.remove(*labels)

    def _of(self, name: str, kind: type[Instrument], labels: dict[str, str]) -> Instrument:
        made = self._made[name]
        assert isinstance(made, kind)
        return made.labels(**labels) if labels else made


def _make(definition: Definition, registry: CollectorRegistry) -> Counter | Gauge | Histogram | Bulk:
    if definition.bulk:
        made = Bulk(definition)
        registry.register(made)
        return made
    if definition.kind == "counter":
        return Counter(definition.name, definition.meaning, definition.labels, registry=registry)
    if definition.kind == "gauge":
        return Gauge(definition.name, definition.meaning, definition.labels, registry=registry)
    return Histogram(
        definition.name, definition.meaning, definition.labels, registry=registry, buckets=definition.buckets
    )
