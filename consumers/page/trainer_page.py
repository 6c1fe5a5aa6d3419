"""What the live page shows of a trainer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from consumers.page import drawings
from consumers.page.blocks import INPUT, STATUS, pieces
from consumers.page.board import Drawing
from consumers.page.cells import (
    NONE,
    age_of,
    bytes_of,
    figure_of,
    letters_of,
    looks_of,
    name_of,
    number_of,
    range_of,
    short_hash,
    table_of,
    verdict_of,
)
from consumers.page.markup import MINUS, Child, Markup, element, join
from consumers.page.status import Figures, PartitionPart, QualityStatus, StructureStatus, TrainerStatus, VersionPart
from streamsvm.model.class_skill import Recall
from streamsvm.model.skill import Estimate

MOST_PARTITIONS = 8
"""Of more partitions those beyond are folded, and only the lags of those that are furthest behind are listed."""

MOST_LABELS = 16
"""Of more labels those beyond are folded."""

MOST_LINES = 8
"""Of more versions those before are folded: they look alike."""

MOST_OPEN_PARTITIONS = 2
"""With more partitions the lists of their buckets are folded."""

KNOWS = {"some": "something", "none": "nothing", "unknown": "not clear yet"}

SCORERS = (("model", "the model"), ("sgd", "SGD baseline"), ("majority", "majority class"))


def trainer_part(status: TrainerStatus, picture: Markup | None, drawing: Drawing | None, now: datetime) -> list[Markup]:
    """Return the parts of a trainer's page: what its user asks first, then the method under a fold."""
    quality = status.quality
    return [
        verdict_of(status, now),
        _glance(status, now),
        element("div", _answers(quality), looks_of(status.looks, quality.labels), class_="columns even"),
        element("div", _accuracy(quality), None if _several(quality) else _shares(quality), class_="columns even"),
        element(
            "div",
            _picture(picture, drawing, status),
            element("div", _input(status), letters_of(status.input.dead_letters, "input.dead_letters",
                    status.input.letters, "input.letters", now)),
            class_="columns",
        ),
        *pieces(STATUS, status, status),
        _versions(status.versions, now, shares=not _several(quality)),
        element(
            "details",
            element("summary", "Details: how the model is made"),
            element("div", _quality(quality), _memory(status), class_="columns"),
            _structure(status.structure),
            _lineage(status.versions),
            class_="method",
        ),
    ]  # fmt: skip


def _glance(status: TrainerStatus, now: datetime) -> Markup:
    newest = status.versions[0] if status.versions else None
    read, quality, rows = status.input, status.quality, status.structure.rows
    balanced, lead = quality.balanced_accuracy, None
    if balanced.model is not None and balanced.sgd is not None:
        lead = join(f"{balanced.model - balanced.sgd:+.3f} to SGD".replace("-", MINUS))
    answered = join(number_of("quality.true", quality.true, ".2%"), " are")
    if newest is not None and balanced.model is None:  # after a start, until newer points are scored
        lead = join(number_of("versions.0.balanced_accuracy", newest.balanced_accuracy, ".3f"), " when published")
        answered = join(number_of("versions.0.answered", newest.answered, ".2%"), " when published")
    return element(
        "section",
        element("h2", "Overview", class_="unseen"),
        element(
            "dl",
            figure_of("Version", number_of("versions.0.number", newest.number if newest else None),
                    join(age_of(newest.published, now), " ago") if newest else None),
            figure_of("Balanced accuracy", number_of("quality.balanced_accuracy.model", balanced.model, ".3f"), lead),
            _answered(quality, answered),
            figure_of("Lag", number_of("input.lag_total", read.lag_total),
                    "records"),
            figure_of("Rows learned", number_of("structure.rows", rows),
                    join(number_of("input.accepted", read.accepted), " since this start")),
            figure_of("Rows rejected", number_of("input.rejected", read.rejected),
                    join("since this start, ", age_of(status.process.started, now), " ago")),
            class_="glance",
        ),
    )  # fmt: skip


def _several(quality: QualityStatus) -> bool:
    """Return whether there are more than two labels."""
    return quality.labels is not None and len(quality.labels) > 2


def _answered(quality: QualityStatus, beside: Markup) -> Markup:
    """Return how often the positive label is the answer; of more than two labels how many are answered at all."""
    if not _several(quality):
        positive = None if quality.labels is None else quality.labels[1]
        heading = join("Answered ", name_of(positive or "positive"))
        return figure_of(heading, number_of("quality.answered", quality.answered, ".2%"), beside)
    figures = None if quality.class_skill is None else quality.class_skill.figures
    labels = 0 if quality.labels is None else len(quality.labels)
    if figures is None:
        return figure_of("Labels", f"{labels:,}", "none judged yet")
    silent = f", {len(figures.silent):,} never answered" if figures.silent else ""
    few = f", {labels - figures.judged:,} with too few points" if figures.judged < labels else ""
    return figure_of("Labels", f"{labels:,}", f"{figures.judged:,} judged{few}{silent}")


def _picture(picture: Markup | None, drawing: Drawing | None, status: TrainerStatus) -> Markup:
    if _several(status.quality):
        content = element("p", "The picture is drawn for models of two labels.", class_="empty")
    elif picture is None or drawing is None:
        said = (
            f"The training set of version {status.versions[0].number} was not kept: a picture comes with the next "
            "version."
            if status.versions
            else "There is no version yet."
        )
        content = element("p", said, class_="empty")
    else:
        content = element("figure", picture, element("figcaption", *_legend(drawing)))
    return element("section", element("h2", "The coreset"), content, class_="picture")


def _legend(drawing: Drawing) -> list[Markup]:
    projection, names = drawing.projection, drawing.feature_names
    total = f"{projection.total:,} points"
    drawn = total if projection.total == len(projection.xy) else f"{len(projection.xy):,} of {total}"
    keys = [
        element(
            "span",
            element("span", class_="key negative", aria_hidden="true"),
            "label ",
            name_of(str(drawing.labels[0])),
        ),
        element(
            "span",
            element("span", class_="key positive", aria_hidden="true"),
            "label ",
            name_of(str(drawing.labels[1])),
        ),
        element("span", element("span", class_="key line", aria_hidden="true"), "decision boundary"),
        element("span", element("span", class_="key dashes", aria_hidden="true"), "margins"),
    ]
    return [
        element("p", *[join(key, " ") for key in keys], class_="legend"),
        element(
            "p",
            f"{drawn} of the training set of version {drawing.number}; areas show weights. Horizontal axis: ",
            element("bdi", drawings.component(projection, 0, names)),
            ". Vertical axis: ",
            element("bdi", drawings.component(projection, 1, names)),
            ". The lines show where the decision surface and its margins cross this plane.",
        ),
    ]


def _quality(quality: QualityStatus) -> Markup:
    columns: tuple[tuple[str, str, Figures], ...] = (
        ("accuracy", "Accuracy", quality.accuracy),
        ("balanced_accuracy", "Balanced", quality.balanced_accuracy),
        ("hinge_loss", "Hinge loss", quality.hinge_loss),
    )
    rows = [
        [
            title,
            *(
                number_of(f"quality.{field}.{scorer}", getattr(figures, scorer), ".4f")
                for field, _, figures in columns
            ),
        ]
        for scorer, title in SCORERS
    ]  # fmt: skip
    return element(
        "section",
        element("h2", "Beside the baselines"),
        table_of(
            "On the newest points, each scored before it was learned",
            ["", *(title for _, title, _ in columns)],
            rows,
            numbers=3,
        ),
        element("p", "Points scored since this start: ", number_of("quality.points", quality.points), class_="note"),
        class_="quality",
    )


def _accuracy(quality: QualityStatus) -> Markup:
    """Return balanced accuracy through time, of the model and of SGD.

    That of always answering with the same class is a half for ever, and would only flatten the others.
    """
    title, moments = "Balanced accuracy on the newest points", quality.history
    series = {
        "model": [moment.balanced_accuracy.model for moment in moments],
        "sgd": [moment.balanced_accuracy.sgd for moment in moments],
    }
    legend = _keys(("series", "the model"), ("series sgd", "a plain SGD classifier, since this start"))
    spark = drawings.lines("quality", title, moments, series)
    return _through_time("Is it right?", spark, legend, "The chart starts with the first scored points.")


def _shares(quality: QualityStatus) -> Markup:
    moments, labels = quality.history, quality.labels
    positive = "the second label" if labels is None else labels[1]
    title = f"Shares of the newest points answered {positive}, and that are"
    series = {"model": [moment.answered for moment in moments], "true": [moment.true for moment in moments]}
    legend = _keys(("series", f"answered {positive}"), ("series true", f"are {positive}"))
    spark = drawings.lines("shares", title, moments, series)
    heading = join("How often ", name_of(positive), "?")
    return _through_time(heading, spark, legend, "The chart starts with the first scored points.")


def _keys(*keys: tuple[str, str]) -> Markup:
    spans = [
        join(element("span", element("span", class_=f"key {kind}", aria_hidden="true"), element("bdi", said)), " ")
        for kind, said in keys
    ]
    return element("p", *spans, class_="legend")


def _through_time(heading: Child, spark: Markup | None, legend: Markup, empty: str) -> Markup:
    shown = element("p", empty, class_="empty") if spark is None else element(
        "figure", spark, element("figcaption", legend)
    )  # fmt: skip
    return element("section", element("h2", heading), shown)


def _answers(quality: QualityStatus) -> Markup:
    """Return the two-by-two table of the newest version, or a line for each label, and what it comes to."""
    if _several(quality):
        return _answers_by_label(quality)
    skill = quality.skill
    figures = None if skill is None else skill.figures
    if skill is None or figures is None or quality.labels is None:
        content = [element("p", "Not known yet: too few points of one label were judged.", class_="empty")]
    else:
        negatives, false_alarms, missed, hits = figures.table
        negative, positive = quality.labels
        on = "newest points" if skill.newest is not None else "audit sample"
        content = [
            table_of(
                f"Shares of the {on}, {figures.points:,}, by weight, when the newest version was published",
                ["", f"Answered {negative}", f"Answered {positive}", "All"],
                [
                    [f"Is {negative}", _percent(negatives), _percent(false_alarms), _percent(1.0 - figures.true)],
                    [f"Is {positive}", _percent(missed), _percent(hits), _percent(figures.true)],
                    ["All", _percent(1.0 - figures.said), _percent(figures.said), ""],
                ],
                numbers=3,
            ),
            element(
                "p",
                f"AUC {_interval(figures.auc)}, balanced accuracy {_interval(figures.balanced_accuracy)}, average "
                f"precision {figures.average_precision:.3f}. {RANGES}",
                class_="note",
            ),
        ]
    if quality.threshold:
        content.append(element("p", f"Threshold {quality.threshold}.", class_="threshold"))
    return element("section", element("h2", "What it answers"), *content)


def _answers_by_label(quality: QualityStatus) -> Markup:
    """Return the table of more than two labels: their shares, how often each is the answer, and how often rightly."""
    skill, labels = quality.class_skill, quality.labels or ()
    figures = None if skill is None else skill.figures
    heading = element("h2", "What it answers")
    if skill is None or figures is None or len(figures.labels) != len(labels):
        said = "Not known yet: too few points of two labels were judged."
        return element("section", heading, element("p", said, class_="empty"))
    on = "newest points" if skill.newest is not None else "audit sample"
    rows: list[list[Child]] = [
        [name_of(label), _percent(one.true), _percent(one.said), _found(one)]
        for label, one in zip(labels, figures.labels, strict=True)
    ]
    caption = f"Labels in the {on}, {figures.points:,}, by weight, when the newest version was published"
    columns = ["Label", "Are", "Answered", "Found"]
    table = table_of(caption, columns, rows[:MOST_LABELS], numbers=3)
    more = None
    if len(rows) > MOST_LABELS:
        folded = table_of("Further labels", columns, rows[MOST_LABELS:], numbers=3)
        more = element("details", element("summary", f"{len(rows) - MOST_LABELS} more labels"), folded, class_="more")
    note = (
        f"Balanced accuracy {_interval(figures.balanced_accuracy)} over {figures.judged} labels with enough points; "
        f"chance is {1.0 / figures.judged:.3f}. Found: the share of a label's own weight that is answered with it. "
        f"{RANGES}"
    )
    return element("section", heading, table, more, element("p", note, class_="note"))


def _found(label: Recall) -> Child:
    """Say how much of a label is answered rightly, or that of too few points nobody can say."""
    if label.right is not None:
        return _percent(label.right)
    return NONE if not label.points else f"{label.points:,} {'point' if label.points == 1 else 'points'}, too few"


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({max(0.0, estimate.low):.3f} to {min(1.0, estimate.high):.3f})"


RANGES: Final = (
    "In brackets: the range in which the true figure lies. For 99 of 100 models, that is so of every version."
)
"""What `_interval` prints, for people; `ERROR` of `streamsvm.quality.skill`, at both ends of a range."""
ABOUT_MEMORY: Final = {
    "window": "A window: two buckets a level. What lies before it is dropped, and a bucket half inside counts half.",
    "decay": "Decay: two buckets a level, and rows that count half as much after each half-life.",
    "adaptive": "Horizons: two buckets a level. Each border begins a horizon, which counts by how well a model of it "
    "did on rows that it had not learned.",
}
"""What a structure that forgets is, by `coreset.memory`."""


def _structure(structure: StructureStatus) -> Markup:
    about = ABOUT_MEMORY.get(structure.memory) or (
        (
            "A tree: when a level is full, its buckets merge into one bucket of the next level, like a carry in a "
            "counter."
        )
        if structure.kind == "tree"
        else "A chain: one bucket, which is reduced again with every leaf."
    )
    parts = [_partition(structure, index, part) for index, part in enumerate(structure.partitions) if part.rows]
    idle = [str(part.partition) for part in structure.partitions if not part.rows]
    return element(
        "section",
        element("h2", "The structure"),
        element("p", about, class_="note"),
        element("div", *parts[:MOST_PARTITIONS], class_="partitions"),
        _folded(parts[MOST_PARTITIONS:]),
        element("p", f"No rows learned yet from {_partitions(idle)}.", class_="note") if idle else None,
        class_="structure",
    )


def _partitions(numbers: Sequence[str]) -> str:
    return f"partition{'' if len(numbers) == 1 else 's'} {', '.join(numbers)}"


def _folded(parts: Sequence[Markup]) -> Markup | None:
    if not parts:
        return None
    inside = element("div", *parts, class_="partitions")
    return element("details", element("summary", f"{len(parts)} more partitions"), inside, class_="more")


def _partition(structure: StructureStatus, index: int, part: PartitionPart) -> Markup:
    path = f"structure.partitions.{index}"
    digits = None
    if structure.kind == "counter" and part.sealed:
        digits = join(", in binary ", element("code", f"{part.sealed:b}"))
    rows = [
        [
            str(place),
            range_of(bucket.start, bucket.end),
            number_of(f"{path}.buckets.{place}.rows", bucket.rows),
            number_of(f"{path}.buckets.{place}.points", bucket.points),
        ]
        for place, bucket in enumerate(part.buckets)
    ]
    leaf = part.leaf
    rows.append(
        [
            "leaf",
            range_of(leaf.start, leaf.end),
            join(number_of(f"{path}.leaf.rows", leaf.rows), " of ", number_of(f"{path}.leaf.span", leaf.span)),
            number_of(f"{path}.leaf.points", leaf.points),
        ]
    )
    return element(
        "article",
        element("h3", f"Partition {part.partition}"),
        element(
            "p",
            number_of(f"{path}.rows", part.rows), " rows, rejected ones included, in ",
            number_of(f"{path}.sealed", part.sealed), " sealed leaves", digits,
            class_="note",
        ),
        element("div", drawings.counter(structure, part), class_="digits"),
        _horizons(path, part),
        element(
            "details",
            element("summary", f"{len(part.buckets)} {'bucket' if len(part.buckets) == 1 else 'buckets'} and a leaf"),
            table_of(
                f"Buckets and leaf of partition {part.partition}, oldest first",
                ["Bucket", "Offsets", "Rows", "Points"],
                rows,
                numbers=3,
            ),
            open=len(structure.partitions) <= MOST_OPEN_PARTITIONS,
        ),
    )  # fmt: skip


def _horizons(path: str, part: PartitionPart) -> Markup | None:
    """Return the table of a partition's horizons; None where all rows count alike."""
    if not part.horizons:
        return None
    rows = [
        [number_of(f"{path}.horizons.{place}.0", rows), f"{share:.0%}"]
        for place, (rows, share) in enumerate(part.horizons)
    ]
    caption = f"Horizons of partition {part.partition}: the newest rows, and their share of the next model"
    return element(
        "details",
        element("summary", f"{len(rows)} {'horizon' if len(rows) == 1 else 'horizons'}"),
        table_of(caption, ["Newest rows", "Share"], rows, numbers=2),
    )


def _versions(versions: Sequence[VersionPart], now: datetime, *, shares: bool) -> Markup:
    columns = ["Answered", "True"] if shares else []
    headings = ["Version", "Age", "Rows", "Balanced accuracy", *columns, "Knows", "Gate"]
    rows = [_version(index, version, now, shares=shares) for index, version in enumerate(versions)]
    caption = (
        f"The newest versions. Balanced accuracy{' and the shares of the second label, answered and true,' * shares} "
        f"{'are those' if shares else 'is that'} of the newest points when each was published, so each is of other "
        "points; the gate compares on the same."
    )
    older = rows[MOST_LINES:]
    return element(
        "section",
        element("h2", "Versions"),
        table_of(caption, headings, rows[:MOST_LINES], numbers=2 + len(columns), first=2)
        if rows
        else element("p", "There is no version yet.", class_="empty"),
        element(
            "details",
            element("summary", f"{len(older)} earlier {'version' if len(older) == 1 else 'versions'}"),
            table_of("Earlier versions", headings, older, numbers=2 + len(columns), first=2),
            class_="more",
        )
        if older
        else None,
        class_="versions",
    )


def _version(index: int, version: VersionPart, now: datetime, *, shares: bool) -> list[Child]:
    path = f"versions.{index}"
    number = number_of(f"{path}.number", version.number)
    second: list[Child] = [
        number_of(f"{path}.answered", version.answered, ".2%"),
        number_of(f"{path}.true", version.true, ".2%"),
    ]
    return [
        join(number, " ", element("span", "current", class_="badge") if version.current else None),
        age_of(version.published, now),
        number_of(f"{path}.points", version.points),
        number_of(f"{path}.balanced_accuracy", version.balanced_accuracy, ".3f"),
        *(second if shares else []),
        KNOWS.get(version.skill, NONE),
        _gate(version),
    ]


def _lineage(versions: Sequence[VersionPart]) -> Markup:
    headings = ["Version", "Trained on", "Objective", "Over the stream", "Gap", "Hash", "Parent"]
    rows = [_made(index, version) for index, version in enumerate(versions)]
    return element(
        "section",
        element("h2", "How the versions were made"),
        table_of("The newest first; each names its parent", headings, rows, numbers=5)
        if rows
        else element("p", "There is no version yet.", class_="empty"),
        class_="versions",
    )


def _made(index: int, version: VersionPart) -> list[Child]:
    path = f"versions.{index}"
    between: Child = NONE
    if version.audit_low is not None and version.audit_high is not None:
        low = number_of(f"{path}.audit_low", version.audit_low, ".4g")
        between = join(low, " to ", number_of(f"{path}.audit_high", version.audit_high, ".4g"))
    gap: Child = number_of(f"{path}.gap", version.gap, ".1e")
    return [
        f"{version.number:,}",
        number_of(f"{path}.training_points", version.training_points),
        number_of(f"{path}.objective", version.objective, ".5g"),
        between,
        gap if version.converged else join(gap, " not converged"),
        short_hash(version.sha256),
        short_hash(version.parent),
    ]


def _gate(version: VersionPart) -> Child:
    gate = version.gate
    if gate is None:
        return NONE
    if gate.candidate is None or gate.present is None:
        return element("span", gate.outcome, title=gate.why or None)
    return join(gate.outcome, element("small", f" {gate.candidate:.3f} against {gate.present:.3f}"))


def _input(status: TrainerStatus) -> Markup:
    read = status.input
    behind = sorted(read.lag.items(), key=lambda part: -part[1])[:MOST_PARTITIONS]
    rows = [[f"Partition {partition}", number_of(f"input.lag.{partition}", lag)] for partition, lag in behind]
    if len(read.lag) > len(behind):
        rows.append([f"{len(read.lag) - len(behind)} more", f"at most {behind[-1][1]:,} each"])
    line = drawings.line_of_lag(status.quality.history)
    return element(
        "section",
        element("h2", "Lag"),
        None if line is None else element("figure", line),
        table_of("Records behind the end of the input", ["", "Records"], rows, numbers=1)
        if rows
        else element("p", "Not available yet.", class_="empty"),
        *pieces(INPUT, read, status),
    )


def _memory(status: TrainerStatus) -> Markup:
    memory = status.memory
    resident = status.process.resident_bytes
    return element(
        "section",
        element("h2", "Memory"),
        table_of(
            "Memory of this process",
            ["", ""],
            [
                ["Points held", number_of("memory.points_held", memory.points_held)],
                ["Most points held since this start", number_of("memory.points_held_peak", memory.points_held_peak)],
                ["Points of the coresets", bytes_of("memory.coreset_bytes", memory.coreset_bytes)],
                ["Most that coresets can take", bytes_of("memory.most_bytes", memory.most_bytes)],
                ["The limit of the container", bytes_of("memory.limit_bytes", memory.limit_bytes)],
                ["Newest checkpoint", bytes_of("memory.checkpoint_bytes", memory.checkpoint_bytes)],
                ["The whole process", bytes_of("process.resident_bytes", resident)],
            ],
            numbers=1,
        ),
    )
