"""What the live page shows of a trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from consumers.page import drawings
from consumers.page.board import Drawing
from consumers.page.cells import (
    NONE,
    age_of,
    bytes_of,
    figure_of,
    name_of,
    number_of,
    range_of,
    short_hash,
    table_of,
    verdict_of,
)
from consumers.page.markup import MINUS, Child, Markup, element, join
from consumers.page.status import (
    Figures,
    PartitionPart,
    Quality,
    Structure,
    TrainerStatus,
    VersionPart,
)
from streamsvm.model.skill import Estimate

MOST_PARTITIONS = 8
"""Of more partitions those beyond are folded, and only the lags of those that are furthest behind are listed."""

MOST_OPEN_PARTITIONS = 2
"""With more partitions the lists of their buckets are folded."""

SCORERS = (("model", "the model"), ("sgd", "SGD baseline"), ("majority", "majority class"))


def trainer_part(status: TrainerStatus, picture: Markup | None, drawing: Drawing | None, now: datetime) -> list[Markup]:
    """Return the parts of a trainer's page, in their order."""
    return [
        verdict_of(status, now),
        _glance(status, now),
        element("div", _picture(picture, drawing), _quality(status), class_="columns"),
        _structure(status.structure),
        _versions(status.versions, now),
        element(
            "div", _input(status), _dead_letters(status.input.dead_letters), _memory(status), class_="columns three"
        ),
    ]


def _glance(status: TrainerStatus, now: datetime) -> Markup:
    newest = status.versions[0] if status.versions else None
    read, memory, balanced = status.input, status.memory, status.quality.balanced_accuracy
    lead = None
    if balanced.model is not None and balanced.sgd is not None:
        lead = f"{balanced.model - balanced.sgd:+.3f} to SGD".replace("-", MINUS)
    return element(
        "section",
        element("h2", "Overview", class_="unseen"),
        element(
            "dl",
            figure_of("Version", number_of("versions.0.number", newest.number if newest else None),
                    join(age_of(newest.published, now), " ago") if newest else None),
            figure_of("Balanced accuracy", number_of("quality.balanced_accuracy.model", balanced.model, ".3f"), lead),
            figure_of("Lag", number_of("input.lag_total", read.lag_total), "records"),
            figure_of("Rows learned", number_of("input.accepted", read.accepted),
                    join(number_of("input.rejected", read.rejected), " rejected")),
            figure_of("Points held", number_of("memory.points_held", memory.points_held),
                    join("at most ", number_of("memory.points_held_peak", memory.points_held_peak))),
            figure_of("Trained on",
                    number_of("versions.0.training_points", newest.training_points if newest else None), "points"),
            class_="glance",
        ),
    )  # fmt: skip


def _picture(picture: Markup | None, drawing: Drawing | None) -> Markup:
    if picture is None or drawing is None:
        content = element("p", "There is no version yet.", class_="empty")
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


def _quality(status: TrainerStatus) -> Markup:
    quality = status.quality
    columns: tuple[tuple[str, str, Figures], ...] = (
        ("accuracy", "Accuracy", quality.accuracy),
        ("balanced_accuracy", "Balanced", quality.balanced_accuracy),
        ("hinge_loss", "Hinge loss", quality.hinge_loss),
    )
    rows = [
        [
            join(
                element("span", class_=f"key series {scorer}", aria_hidden="true") if scorer != "majority" else None,
                title,
            ),
            *(
                number_of(f"quality.{field}.{scorer}", getattr(figures, scorer), ".4f")
                for field, _, figures in columns
            ),
        ]
        for scorer, title in SCORERS
    ]  # fmt: skip
    spark = drawings.lines_of_quality(quality.history)
    return element(
        "section",
        element("h2", "Quality"),
        table_of(
            "On the newest points, each scored before it was learned",
            ["", *(title for _, title, _ in columns)],
            rows,
            numbers=3,
        ),
        element("figure", spark, element("figcaption", "Balanced accuracy since the start of the process."))
        if spark is not None
        else element("p", "The chart starts with the first scored points.", class_="empty"),
        element("p", "Points scored: ", number_of("quality.points", quality.points), class_="note"),
        element("p", f"Threshold {quality.threshold}.", class_="threshold") if quality.threshold else None,
        *_answers(quality),
        class_="quality",
    )


def _answers(quality: Quality) -> list[Markup]:
    """Return the two-by-two table of the newest version, and what it comes to."""
    figures = None if quality.skill is None else quality.skill.figures
    if quality.skill is None or figures is None or quality.labels is None:
        return []
    negatives, false_alarms, missed, hits = figures.table
    negative, positive = quality.labels
    on = "newest points" if quality.skill.newest is not None else "audit sample"
    return [
        element("h3", "What it answers"),
        table_of(
            f"Shares of the {on}, {figures.points:,}, by weight",
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
            f"precision {figures.average_precision:.3f}; in brackets, what holds over all versions together.",
            class_="note",
        ),
    ]


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({max(0.0, estimate.low):.3f} to {min(1.0, estimate.high):.3f})"


def _structure(structure: Structure) -> Markup:
    about = (
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


def _partition(structure: Structure, index: int, part: PartitionPart) -> Markup:
    path = f"structure.partitions.{index}"
    digits = None
    if structure.kind == "tree" and structure.fan_in == 2 and part.sealed:
        digits = join(", in binary ", element("code", f"{part.sealed:b}"))
    rows = [
        [
            number_of(f"{path}.buckets.{place}.level", bucket.level),
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
            number_of(f"{path}.rows", part.rows), " rows in ", number_of(f"{path}.sealed", part.sealed),
            " sealed leaves", digits,
            class_="note",
        ),
        element("div", drawings.counter(structure, part), class_="digits"),
        element(
            "details",
            element("summary", f"{len(part.buckets)} {'bucket' if len(part.buckets) == 1 else 'buckets'} and a leaf"),
            table_of(
                f"Buckets and leaf of partition {part.partition}, oldest first",
                ["Level", "Offsets", "Rows", "Points"],
                rows,
                numbers=3,
            ),
            open=len(structure.partitions) <= MOST_OPEN_PARTITIONS,
        ),
    )  # fmt: skip


def _versions(versions: Sequence[VersionPart], now: datetime) -> Markup:
    headings = ["Version", "Age", "Rows", "Trained on", "Objective", "Over the stream", "Gap", "Gate", "Hash", "Parent"]
    rows = [_version(index, version, now) for index, version in enumerate(versions)]
    return element(
        "section",
        element("h2", "Versions"),
        table_of("Published by this process, newest first; each names its parent", headings, rows, numbers=5, first=2)
        if rows
        else element("p", "This process has not published a version yet.", class_="empty"),
        class_="versions",
    )


def _version(index: int, version: VersionPart, now: datetime) -> list[Child]:
    path = f"versions.{index}"
    number = number_of(f"{path}.number", version.number)
    between: Child = NONE
    if version.audit_low is not None and version.audit_high is not None:
        low = number_of(f"{path}.audit_low", version.audit_low, ".4g")
        between = join(low, " to ", number_of(f"{path}.audit_high", version.audit_high, ".4g"))
    gap: Child = number_of(f"{path}.gap", version.gap, ".1e")
    return [
        join(number, " ", element("span", "current", class_="badge") if version.current else None),
        age_of(version.published, now),
        number_of(f"{path}.rows", version.rows),
        number_of(f"{path}.training_points", version.training_points),
        number_of(f"{path}.objective", version.objective, ".5g"),
        between,
        gap if version.converged else join(gap, " not converged"),
        _gate(version),
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
    )


def _dead_letters(reasons: Mapping[str, int]) -> Markup:
    path = "input.dead_letters"
    rows = [
        [element("bdi", reason), number_of(f"{path}.{reason}", count)] for reason, count in reasons.items() if count
    ]
    return element(
        "section",
        element("h2", "Dead letters"),
        table_of("Rejected rows by reason", ["Reason", "Rows"], rows, numbers=1)
        if rows
        else element("p", "None: every row was a valid point.", class_="empty"),
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
                ["Points of the coresets", bytes_of("memory.coreset_bytes", memory.coreset_bytes)],
                ["Newest checkpoint", bytes_of("memory.checkpoint_bytes", memory.checkpoint_bytes)],
                ["The whole process", bytes_of("process.resident_bytes", resident)],
            ],
            numbers=1,
        ),
    )
