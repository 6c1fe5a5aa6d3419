"""The shape of `/status.json`, which the page is made from, too.

`format` names it: a reader refuses another one. Within a format, fields are only ever added. Times are ISO 8601 in UTC;
`null` is what is not known, or not known yet; what belongs to a branch (`consumers.page.blocks`) is there only where it
is on; a position is `[offset, row]`, the next row to learn.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

import msgspec

from consumers.page.blocks import INPUT, STATUS, open_to_branches
from streamsvm.choices import MemoryName
from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.shapes import Shape
from streamsvm.model.skill import Skill

FORMAT: Final = "streamsvm.status/1"

Level = Literal["good", "fair", "bad", "waiting", "stopped"]


class VerdictStatus(msgspec.Struct, frozen=True, omit_defaults=False, kw_only=True):
    """The status in one line.

    Attributes
    ----------
    level : str
        `good`: current, and at least as good as its baselines; `fair`: current, or not judged yet; `bad`: behind its
        stream, or worse than a baseline; `waiting`: not ready, it says for what; `stopped`: not healthy.
    current : bool or None
        Whether the newest version covers all but the last rows; None before there is one.
    good : bool or None
        Whether it is as good as its baselines; None while that is not measured.
    headline, detail : str
        For people.
    since : datetime or None
        Since when `headline` has been true.
    """

    level: Level
    current: bool | None
    good: bool | None
    headline: str
    detail: str
    since: datetime | None = None


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon itself; `waiting_for` says what is missing where it is not ready."""

    version: str
    started: datetime
    healthy: bool
    ready: bool
    waiting_for: dict[str, str]
    resident_bytes: int | None


class LetterPart(msgspec.Struct, frozen=True, kw_only=True):
    """The newest dead letter: where its record stood, and why its first bad row was rejected.

    Attributes
    ----------
    topic : str
        The input topic.
    partition, offset, row : int
    reason, message : str
        The message is cut to 200 characters; control characters are escaped.
    time : datetime or None
        When it was written, or first seen.
    """

    topic: str
    partition: int
    offset: int
    row: int
    reason: str
    message: str
    time: datetime | None


class LettersStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters beyond the counts since the start.

    Attributes
    ----------
    topic : str
        The dead-letter topic.
    before : int or None
        How many it held, at most, when the process started; None where it could not be read.
    newest : LetterPart or None
    """

    topic: str
    before: int | None
    newest: LetterPart | None


@open_to_branches(INPUT)
class InputStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What was read since the start of the process.

    Records and rows, records behind the end of each partition, rejected rows by reason; `letters` reaches further back.
    """

    topic: str
    records: int
    accepted: int
    rejected: int
    lag: dict[str, int]
    lag_total: int | None
    dead_letters: dict[str, int]
    letters: LettersStatus | None = None


class BucketPart(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket: its rows from `start` up to but not including `end`, the points that represent them, their weight."""

    start: tuple[int, int]
    end: tuple[int, int]
    rows: int
    points: int
    weight: float


class LeafPart(msgspec.Struct, frozen=True):
    """The open leaf: rows seen so far, rows at which it is full (`span`), and points kept."""

    start: tuple[int, int]
    end: tuple[int, int]
    rows: int
    span: int
    points: int


class PartitionPart(msgspec.Struct, frozen=True):
    """One partition's structure: leaves sealed, rows seen, its buckets, the oldest first, and the open leaf.

    Rejected rows are among those seen. `horizons` are the newest rows, so many, and their share of the next model's
    weight; empty where all rows count.
    """

    partition: int
    sealed: int
    rows: int
    buckets: tuple[BucketPart, ...]
    leaf: LeafPart
    horizons: tuple[tuple[int, float], ...] = ()


class StructureStatus(msgspec.Struct, frozen=True):
    """The structures of all partitions: a `tree` or a binary `counter` of at most `buckets`, or a `chain`.

    Or `dyadic`, of at most `buckets`, where rows are forgotten: `memory` says how.

    `rows` is what all partitions learned, without rejected rows, and before this start, too.
    """

    kind: Literal["tree", "chain", "counter", "dyadic"]
    partitions: tuple[PartitionPart, ...]
    rows: int = 0
    buckets: int = 1
    memory: MemoryName = "all"


class MemoryStatus(msgspec.Struct, frozen=True):
    """Points in memory now, the most so far, and the bytes of the coresets and of the newest checkpoint.

    `most_bytes` is what the coresets can take, with a reduction and a training set; `limit_bytes` what the container
    allows, if it has a limit.
    """

    points_held: int
    points_held_peak: int
    coreset_bytes: int
    checkpoint_bytes: int | None
    most_bytes: int
    limit_bytes: int | None


class Figures(msgspec.Struct, frozen=True):
    """One figure of quality: of the model, of the SGD baseline, of always answering with the majority class."""

    model: float | None = None
    sgd: float | None = None
    majority: float | None = None


class Moment(msgspec.Struct, frozen=True):
    """Figures at one moment in the past: balanced accuracies, rows learned, records behind.

    `answered` and `true` are the shares of the newest points, by weight, that were answered with the second label, and
    that have it. Moments before the start of the process are those at which versions were published, as far as known.
    """

    time: datetime
    balanced_accuracy: Figures
    rows: int
    lag: int | None
    answered: float | None = None
    true: float | None = None


class QualityStatus(msgspec.Struct, frozen=True):
    """How good answers are.

    Attributes
    ----------
    points : int or None
        Points scored, each before it was learned.
    accuracy, balanced_accuracy, hinge_loss : Figures
        Prequential: of the newest of these points.
    history : tuple of Moment
    labels : tuple of str
        As JSON: the negative and the positive label, or all of more than two.
    skill : Skill or None
        What the newest version knew when it was published; None before there is one, or where its record does not say.
    threshold : str
        The threshold of that version in words: what it was chosen for, and what is expected of it; empty without one.
    answered, true : float or None
        As in `Moment`, now.
    class_skill : ClassSkill or None
        In place of `skill`, of more than two labels.
    """

    points: int | None
    accuracy: Figures
    balanced_accuracy: Figures
    hinge_loss: Figures
    history: tuple[Moment, ...]
    labels: tuple[str, ...] | None = None
    skill: Skill | None = None
    threshold: str = ""
    answered: float | None = None
    true: float | None = None
    class_skill: ClassSkill | None = None


class FeaturePart(msgspec.Struct, frozen=True, kw_only=True):
    """How much a feature decides.

    Attributes
    ----------
    name : str
        Its name, or its place, such as `x[3]`.
    share : float
        Of all features together.
    value : float
        Its coefficient over standardised features, positive where a greater value speaks for the second label; of a
        kernel machine, the fall of the AUC when the feature's values are exchanged at random.
    """

    name: str
    share: float
    value: float


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest version looks at.

    Attributes
    ----------
    number : int
        Of the version.
    by : "coefficients", "machines" or "shapes"
        "machines": the mean size of the coefficients of the machines of more than two labels. "shapes": those of an
        additive machine, which has no features here.
    features : tuple of FeaturePart
        Those with the largest shares, the largest first.
    others : int
        How many features, or shapes, are not listed.
    why : str
        Why there are no features; else empty.
    shapes : tuple of Shape
        The strongest curves and surfaces of an additive machine, in raw units, to six digits: at most ten surfaces, and
        16 kB in all. While the trainer that made it runs, curves also say where its kept points are.
    """

    number: int
    by: Literal["coefficients", "machines", "shapes"]
    features: tuple[FeaturePart, ...]
    others: int
    why: str
    shapes: tuple[Shape, ...] = ()


class GateStatus(msgspec.Struct, frozen=True):
    """What the quality gate said; `candidate` and `present` are balanced accuracies on the same points."""

    outcome: Literal["passed", "refused", "unscored"]
    why: str
    candidate: float | None
    present: float | None


class VersionPart(msgspec.Struct, frozen=True, kw_only=True):
    """One published version, and its lineage.

    Attributes
    ----------
    number : int
    sha256, parent : str, str or None
        Of its own value, and of its predecessor's.
    published : datetime
    current : bool
        Whether the trainer's alias `current` names this version; a pin, which people set, may hold readers at
        another one.
    rows, points : int
        Rows seen and valid points that it covers.
    training_points, support_vectors : int
    objective : float
        On its training set.
    gap : float or None
        Relative duality gap: the largest share of the objective by which the solution may miss the optimum.
    audit_low, audit_high : float or None
        95 % interval of the objective over the whole stream.
    converged : bool
    seconds : float
        Of training; 0 where an earlier process published it and its record does not say.
    gate : GateStatus or None
        None where there is no gate.
    cut : dict of partition to (offset, row)
        The position in each partition up to which the input was learned.
    balanced_accuracy, answered, true : float or None
        Of the newest points when it was published, or else of its audit sample: as in `Moment`. None where not known.
    skill : str
        `some`, `none` or `unknown`; empty where not known.
    earlier : bool
        Whether an earlier process published it, so that this line is what its record says.
    """

    number: int
    sha256: str
    parent: str | None
    published: datetime
    current: bool
    rows: int
    points: int
    training_points: int
    support_vectors: int
    objective: float
    gap: float | None
    audit_low: float | None
    audit_high: float | None
    converged: bool
    seconds: float
    gate: GateStatus | None
    cut: dict[str, tuple[int, int]]
    balanced_accuracy: float | None = None
    answered: float | None = None
    true: float | None = None
    skill: str = ""
    earlier: bool = False


@open_to_branches(STATUS)
class TrainerStatus(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="trainer"):
    """What a trainer shows; `versions` are the newest ones, also of earlier processes, the newest first."""

    format: str = FORMAT
    name: str
    taken: datetime
    process: ProcessStatus
    verdict: VerdictStatus
    input: InputStatus
    structure: StructureStatus
    memory: MemoryStatus
    quality: QualityStatus
    versions: tuple[VersionPart, ...]
    looks: Looks | None = None


class ServingPart(msgspec.Struct, frozen=True, kw_only=True):
    """The version that scores now, when it was loaded, and when it was published."""

    number: int
    sha256: str
    points: int
    support_vectors: int
    loaded: datetime
    published: datetime | None


class ScoringMoment(msgspec.Struct, frozen=True, kw_only=True):
    """How scoring went between the previous moment and this one.

    Attributes
    ----------
    time : datetime
    records_per_s, points_per_s : float
        Committed.
    lag : int or None
        Records that waited.
    latency_s : float or None
        The longest from a record's timestamp to the commit of its scores; None where nothing was scored.
    positive : float or None
        Share of scores that predict the second label.
    drift : float or None
        Population stability index.
    """

    time: datetime
    records_per_s: float
    points_per_s: float
    lag: int | None
    latency_s: float | None
    positive: float | None
    drift: float | None


class DriftPart(msgspec.Struct, frozen=True):
    """How far the newest scores have drifted from those of the version's audit sample.

    `index` is the population stability index of `scores` scores; `chance` is the value it exceeds by chance once in a
    thousand times. Both are null if there is no index; `why` then gives the reason.
    """

    index: float | None
    chance: float | None
    scores: int
    why: str


class ScoringPart(msgspec.Struct, frozen=True, kw_only=True):
    """How scoring goes, since the process started.

    Attributes
    ----------
    records, accepted, rejected : int
        Records read, rows scored, rows rejected.
    negative, positive : int
        Scores that predict the first and the second of the version's labels, of two.
    labels : tuple of str, or None
        The labels' names; None before there is a version.
    by_label : dict of str to int
        Scores that predict each of more than two labels, spelt as JSON.
    lag : dict of partition to int
        Records behind its end; of the partitions that this scorer has.
    lag_total : int or None
    values, latency_s : tuple of (float or None, int)
        Upper bounds of buckets, and how many decision values, or seconds from a record's timestamp to the commit of
        its scores, are in each; the last one has no bound.
    drift : DriftPart
    history : tuple of ScoringMoment
    """

    records: int
    accepted: int
    rejected: int
    negative: int
    positive: int
    labels: tuple[str, ...] | None
    lag: dict[str, int]
    lag_total: int | None
    values: tuple[tuple[float | None, int], ...]
    latency_s: tuple[tuple[float | None, int], ...]
    drift: DriftPart
    history: tuple[ScoringMoment, ...]
    by_label: dict[str, int] = {}


class ScorerStatus(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="scorer"):
    """What a scorer shows."""

    format: str = FORMAT
    name: str
    taken: datetime
    process: ProcessStatus
    verdict: VerdictStatus
    topic: str
    output_topic: str
    scored_points: int
    batches: dict[str, int]
    dead_letters: dict[str, int]
    refused_models: int
    serving: ServingPart | None
    scoring: ScoringPart | None = None
    letters: LettersStatus | None = None
    looks: Looks | None = None


Status = TrainerStatus | ScorerStatus


def encode(status: Status) -> bytes:
    """Return the JSON of a status, with a line's end."""
    return msgspec.json.encode(status) + b"\n"
