"""A status as an HTML page: every number of it is there without JavaScript.

Numbers stand in `data` elements, whose `value` is the exact one and whose `data-field` names it in `/status.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from consumers.page import charts, drawings
from consumers.page.board import Drawing
from consumers.page.markup import MINUS, Child, Markup, element, join, raw
from consumers.page.status import (
    Figures,
    PartitionPart,
    Quality,
    ScorerStatus,
    ScoringPart,
    ServingPart,
    Status,
    Structure,
    TrainerStatus,
    VersionPart,
)
from streamsvm.model.skill import Estimate

MOST_PARTITIONS = 8
"""Of more partitions those beyond are folded, and only the lags of those that are furthest behind are listed."""
MOST_OPEN_PARTITIONS = 2
"""With more partitions the lists of their buckets are folded."""
NONE = "\N{EN DASH}"
MARKS = {"good": "●", "fair": "●", "bad": "▲", "waiting": "◌", "stopped": "■"}
UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("bytes", 1))
SCORERS = (("model", "the model"), ("sgd", "SGD baseline"), ("majority", "majority class"))


def page_of(status: Status, picture: Markup | None, drawing: Drawing | None, now: datetime) -> bytes:
    """Return the page.

    Parameters
    ----------
    status : Status
    picture : Markup or None
        Of the newest training set, of `drawing`.
    drawing : Drawing or None
    now : datetime
        From which ages are counted.
    """
    body = _trainer(status, picture, drawing, now) if isinstance(status, TrainerStatus) else _scorer(status, now)
    role = "trainer" if isinstance(status, TrainerStatus) else "scorer"
    document = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{status.name}: {status.verdict.headline} · streamsvm {role}"),
            element("link", rel="icon", href="/icon.svg", type="image/svg+xml"),
            element("link", rel="stylesheet", href="/page.css"),
            element("script", src="/page.js", defer=True),
        ),
        element(
            "body",
            element("a", "Skip to the figures", class_="skip", href="#main"),
            _header(status, role),
            element("main", *body, id="main", tabindex="-1"),
            _footer(status, now),
            data_now=now.isoformat(),
        ),
        lang="en",
    )
    return join(raw("<!doctype html>\n"), document, raw("\n")).encode()


def _header(status: Status, role: str) -> Markup:
    if isinstance(status, TrainerStatus):
        about = join("learns from ", _name(status.input.topic))
    else:
        about = join("scores ", _name(status.topic), " into ", _name(status.output_topic))
    return element(
        "header",
        element("p", f"streamsvm {role}", class_="brand"),
        element("h1", _name(status.name)),
        element("p", about, class_="about"),
        element(
            "p",
            element("span", id="connection", role="status"),
            element("button", "Pause updates", id="pause", type="button", hidden=True, aria_pressed="false"),
            class_="controls",
        ),
    )


def _footer(status: Status, now: datetime) -> Markup:
    links = [
        element("a", path, href=path)
        for path in ("/status.json", "/status.schema.json", "/metrics", "/healthz", "/readyz")
    ]
    between = [join(link, " ") for link in links]
    return element(
        "footer",
        element("p", "Figures of ", _time(status.taken), f", streamsvm {status.process.version}; running for ",
                _age(status.process.started, now), "."),
        element("nav", *between, aria_label="The same as JSON"),
    )  # fmt: skip


# ---------------------------------------------------------------------- trainer


def _trainer(status: TrainerStatus, picture: Markup | None, drawing: Drawing | None, now: datetime) -> list[Markup]:
    return [
        _verdict(status, now),
        _glance(status, now),
        element("div", _picture(picture, drawing), _quality(status), class_="columns"),
        _structure(status.structure),
        _versions(status.versions, now),
        element(
            "div", _input(status), _dead_letters(status.input.dead_letters), _memory(status), class_="columns three"
        ),
    ]


def _input_and_memory(status: TrainerStatus) -> list[Markup]:
    return [_input(status), _dead_letters(status.input.dead_letters), _memory(status)]


def _verdict(status: Status, now: datetime) -> Markup:
    verdict = status.verdict
    since = verdict.since
    return element(
        "section",
        element("h2", "Status", class_="unseen"),
        element(
            "div",
            element("p", _mark(verdict.level), element("span", verdict.headline), role="status"),
            None if since is None else element("p", "for ", _age(since, now), class_="since"),
            class_="headline",
        ),
        element("p", element("bdi", verdict.detail), class_="detail"),
        class_=f"verdict {verdict.level}",
    )


def _mark(level: str) -> Markup:
    return element("span", MARKS[level], class_="mark", aria_hidden="true")


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
            _figure("Version", _number("versions.0.number", newest.number if newest else None),
                    join(_age(newest.published, now), " ago") if newest else None),
            _figure("Balanced accuracy", _number("quality.balanced_accuracy.model", balanced.model, ".3f"), lead),
            _figure("Lag", _number("input.lag_total", read.lag_total), "records"),
            _figure("Rows learned", _number("input.accepted", read.accepted),
                    join(_number("input.rejected", read.rejected), " rejected")),
            _figure("Points held", _number("memory.points_held", memory.points_held),
                    join("at most ", _number("memory.points_held_peak", memory.points_held_peak))),
            _figure("Trained on",
                    _number("versions.0.training_points", newest.training_points if newest else None), "points"),
            class_="glance",
        ),
    )  # fmt: skip


def _figure(name: str, value: Child, note: Child) -> Markup:
    return element("div", element("dt", name), element("dd", value, element("small", note) if note else None))


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
            "span", element("span", class_="key negative", aria_hidden="true"), "label ", _name(str(drawing.labels[0]))
        ),
        element(
            "span", element("span", class_="key positive", aria_hidden="true"), "label ", _name(str(drawing.labels[1]))
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
                _number(f"quality.{field}.{scorer}", getattr(figures, scorer), ".4f")
                for field, _, figures in columns
            ),
        ]
        for scorer, title in SCORERS
    ]  # fmt: skip
    spark = drawings.lines_of_quality(quality.history)
    return element(
        "section",
        element("h2", "Quality"),
        _table(
            "On the newest points, each scored before it was learned",
            ["", *(title for _, title, _ in columns)],
            rows,
            numbers=3,
        ),
        element("figure", spark, element("figcaption", "Balanced accuracy since the start of the process."))
        if spark is not None
        else element("p", "The chart starts with the first scored points.", class_="empty"),
        element("p", "Points scored: ", _number("quality.points", quality.points), class_="note"),
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
        _table(
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
            _number(f"{path}.buckets.{place}.level", bucket.level),
            _range(bucket.start, bucket.end),
            _number(f"{path}.buckets.{place}.rows", bucket.rows),
            _number(f"{path}.buckets.{place}.points", bucket.points),
        ]
        for place, bucket in enumerate(part.buckets)
    ]
    leaf = part.leaf
    rows.append(
        [
            "leaf",
            _range(leaf.start, leaf.end),
            join(_number(f"{path}.leaf.rows", leaf.rows), " of ", _number(f"{path}.leaf.span", leaf.span)),
            _number(f"{path}.leaf.points", leaf.points),
        ]
    )
    return element(
        "article",
        element("h3", f"Partition {part.partition}"),
        element(
            "p",
            _number(f"{path}.rows", part.rows), " rows in ", _number(f"{path}.sealed", part.sealed),
            " sealed leaves", digits,
            class_="note",
        ),
        element("div", drawings.counter(structure, part), class_="digits"),
        element(
            "details",
            element("summary", f"{len(part.buckets)} {'bucket' if len(part.buckets) == 1 else 'buckets'} and a leaf"),
            _table(
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
        _table("Published by this process, newest first; each names its parent", headings, rows, numbers=5, first=2)
        if rows
        else element("p", "This process has not published a version yet.", class_="empty"),
        class_="versions",
    )


def _version(index: int, version: VersionPart, now: datetime) -> list[Child]:
    path = f"versions.{index}"
    number = _number(f"{path}.number", version.number)
    between: Child = NONE
    if version.audit_low is not None and version.audit_high is not None:
        low = _number(f"{path}.audit_low", version.audit_low, ".4g")
        between = join(low, " to ", _number(f"{path}.audit_high", version.audit_high, ".4g"))
    gap: Child = _number(f"{path}.gap", version.gap, ".1e")
    return [
        join(number, " ", element("span", "current", class_="badge") if version.current else None),
        _age(version.published, now),
        _number(f"{path}.rows", version.rows),
        _number(f"{path}.training_points", version.training_points),
        _number(f"{path}.objective", version.objective, ".5g"),
        between,
        gap if version.converged else join(gap, " not converged"),
        _gate(version),
        _hash(version.sha256),
        _hash(version.parent),
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
    rows = [[f"Partition {partition}", _number(f"input.lag.{partition}", lag)] for partition, lag in behind]
    if len(read.lag) > len(behind):
        rows.append([f"{len(read.lag) - len(behind)} more", f"at most {behind[-1][1]:,} each"])
    line = drawings.line_of_lag(status.quality.history)
    return element(
        "section",
        element("h2", "Lag"),
        None if line is None else element("figure", line),
        _table("Records behind the end of the input", ["", "Records"], rows, numbers=1)
        if rows
        else element("p", "Not available yet.", class_="empty"),
    )


def _dead_letters(reasons: Mapping[str, int]) -> Markup:
    path = "input.dead_letters"
    rows = [[element("bdi", reason), _number(f"{path}.{reason}", count)] for reason, count in reasons.items() if count]
    return element(
        "section",
        element("h2", "Dead letters"),
        _table("Rejected rows by reason", ["Reason", "Rows"], rows, numbers=1)
        if rows
        else element("p", "None: every row was a valid point.", class_="empty"),
    )


def _memory(status: TrainerStatus) -> Markup:
    memory = status.memory
    resident = status.process.resident_bytes
    return element(
        "section",
        element("h2", "Memory"),
        _table(
            "Memory of this process",
            ["", ""],
            [
                ["Points of the coresets", _bytes("memory.coreset_bytes", memory.coreset_bytes)],
                ["Newest checkpoint", _bytes("memory.checkpoint_bytes", memory.checkpoint_bytes)],
                ["The whole process", _bytes("process.resident_bytes", resident)],
            ],
            numbers=1,
        ),
    )


# ----------------------------------------------------------------------- scorer


def _scorer(status: ScorerStatus, now: datetime) -> list[Markup]:
    serving = status.serving
    return [
        _verdict(status, now),
        element(
            "section",
            element("h2", "Overview", class_="unseen"),
            element(
                "dl",
                _figure("Serving version", _number("serving.number", serving.number if serving else None),
                        join("for ", _age(serving.loaded, now)) if serving else None),
                _figure("Points scored", _number("scored_points", status.scored_points),
                        _rate(status.scoring)),
                *_glance_of_scoring(status.scoring),
                _figure("Batches committed", _number("batches.committed", status.batches.get("committed")),
                        join(_number("batches.put_back", status.batches.get("put_back")), " put back")),
                _figure("Models refused", _number("refused_models", status.refused_models), None),
                class_="glance",
            ),
        ),
        *([] if status.scoring is None else _scoring(status.scoring)),
        element("div", _serving(serving, now), _scorers_letters(status), class_="columns"),
    ]  # fmt: skip


def _glance_of_scoring(scoring: ScoringPart | None) -> list[Markup]:
    if scoring is None:
        return []
    path, scores, drift = "scoring", scoring.positive + scoring.negative, scoring.drift
    share = f"{scoring.positive / scores:.1%}" if scores else NONE
    newest = scoring.history[-1].latency_s if scoring.history else None
    return [
        _figure("Lag", _number(f"{path}.lag_total", scoring.lag_total), "records"),
        _figure("Latency", NONE if newest is None else f"{newest:.3g} s", "record to score, longest of the newest"),
        _figure("Positive", share, join("of ", _number(f"{path}.accepted", scoring.accepted))),
        _figure("Rejected", _number(f"{path}.rejected", scoring.rejected), "rows"),
        _figure("Drift of scores", _number(f"{path}.drift.index", drift.index, ".3f"),
                join("by chance below ", _number(f"{path}.drift.chance", drift.chance, ".3f"))),
    ]  # fmt: skip


def _rate(scoring: ScoringPart | None) -> Child:
    if scoring is None or not scoring.history:
        return None
    return f"{scoring.history[-1].points_per_s:,.0f} per second"


def _scoring(scoring: ScoringPart) -> list[Markup]:
    """Return what one watches: rate, lag, latency, share of each label and drift through time, and both histograms."""
    moments = scoring.history
    times = [moment.time for moment in moments]
    waiting = [None if moment.lag is None else float(moment.lag) for moment in moments]
    whole, seconds, share = "{:,.0f}".format, "{:.3g} s".format, "{:.1%}".format
    positive = "second label" if scoring.labels is None else scoring.labels[1]
    lines: list[tuple[str, str, Sequence[float | None], Callable[[float], str]]] = [
        ("rate", "Points scored per second", [moment.points_per_s for moment in moments], whole),
        ("lag", "Records behind the end of the input", waiting, whole),
        ("latency", "Longest time from record to score", [moment.latency_s for moment in moments], seconds),
        ("positive", f"Share of the label {positive}", [moment.positive for moment in moments], share),
        ("drift", "Drift: population stability index", [moment.drift for moment in moments], "{:.3f}".format),
    ]
    through = [
        _chart(title, charts.line(name, title, times, values, shown), "Not available yet.")
        for name, title, values, shown in lines
    ]
    drift = scoring.drift
    if drift.why:
        through[-1] = _chart("Drift: population stability index", None, drift.why)
    values = charts.histogram("values", "Scores since the process started, by decision value", scoring.values, "")
    latency = charts.histogram(
        "waited", "Records since the process started, by seconds from record to score", scoring.latency_s, " s"
    )
    return [
        element("div", *through[:3], class_="columns three"),
        element("div", *through[3:], _labels(scoring), class_="columns three"),
        element(
            "div",
            _chart("Scores by decision value", values, "No point was scored yet."),
            _chart("Seconds from record to score", latency, "No point was scored yet."),
            class_="columns",
        ),
    ]


def _chart(title: str, drawing: Markup | None, empty: str) -> Markup:
    shown = element("p", empty, class_="empty") if drawing is None else element("figure", drawing)
    return element("section", element("h2", element("bdi", title)), shown)


def _labels(scoring: ScoringPart) -> Markup:
    names = scoring.labels or ("first", "second")
    rows: list[list[Child]] = [
        [_name(names[0]), _number("scoring.negative", scoring.negative)],
        [_name(names[1]), _number("scoring.positive", scoring.positive)],
    ]
    table = _table("Scores since the process started, by label", ["Label", "Scores"], rows, numbers=1)
    return element("section", element("h2", "Labels"), table)


def _serving(serving: ServingPart | None, now: datetime) -> Markup:
    if serving is None:
        content = element("p", "No version was loaded yet.", class_="empty")
    else:
        published = NONE if serving.published is None else join(_age(serving.published, now), " ago")
        content = _table(
            "The version that scores now",
            ["", ""],
            [
                ["Number", _number("serving.number", serving.number)],
                ["Hash", _hash(serving.sha256)],
                ["Published", published],
                ["Points covered", _number("serving.points", serving.points)],
                ["Support vectors", _number("serving.support_vectors", serving.support_vectors)],
            ],
            numbers=1,
        )
    return element("section", element("h2", "The model"), content)


def _scorers_letters(status: ScorerStatus) -> Markup:
    rows = [
        [element("bdi", reason), _number(f"dead_letters.{reason}", count)]
        for reason, count in status.dead_letters.items()
        if count
    ]
    return element(
        "section",
        element("h2", "Dead letters"),
        _table("Rejected rows by reason", ["Reason", "Rows"], rows, numbers=1)
        if rows
        else element("p", "None: every row could be scored.", class_="empty"),
    )


# ------------------------------------------------------------------------ parts


def _table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[Child]], *, numbers: int, first: int = 1
) -> Markup:
    """Return a table in a region that scrolls by itself; `numbers` columns from `first` on are numbers."""
    kinds = ["number" if first <= column < first + numbers else None for column in range(len(headings))]
    head = [
        element("th", heading, scope="col", class_=kind) if heading else element("td", class_=kind)
        for heading, kind in zip(headings, kinds, strict=True)
    ]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *[element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)],
        )
        for row in rows
    ]
    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption)),
            element("thead", element("tr", *head)) if any(headings) else None,
            element("tbody", *lines),
        ),
        class_="scroll",
        role="region",
        aria_label=caption,
        tabindex=0,
    )


def _number(field: str, value: float | None, form: str = ",") -> Markup:
    """Return a number for people, with the exact one beside it; a dash for none."""
    if value is None:
        return element("data", NONE, value="", data_field=field)
    shown = f"{value:{form}}".replace("-", MINUS)
    return element("data", shown, value=repr(value), data_field=field)


def _bytes(field: str, value: int | None) -> Markup:
    """Return a number of bytes in the unit that suits it, with the exact one beside it."""
    if value is None:
        return _number(field, None)
    unit, size = next(((unit, size) for unit, size in UNITS if value >= size), UNITS[-1])
    return element("data", f"{value / size:.4g} {unit}", value=repr(value), data_field=field)


def _name(text: str) -> Markup:
    """Return a name from outside, whatever its direction of writing."""
    return element("bdi", text)


def _hash(digest: str | None) -> Markup:
    if digest is None:
        return element("span", "none", title="the first version")
    return element("code", digest[:8], title=digest)


def _range(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return a range of offsets, the end exclusive; the row inside of a record where it is not its first."""
    return " to ".join(f"{offset:,}" + (f"+{row}" if row else "") for offset, row in (start, end))


def _time(time: datetime) -> Markup:
    return element("time", f"{time:%Y-%m-%d %H:%M:%S} UTC", datetime=time.isoformat())


def _age(time: datetime, now: datetime) -> Markup:
    """Return how long ago something was; the script keeps it up to date."""
    return element("time", age((now - time).total_seconds()), datetime=time.isoformat(), data_age=True)


def age(seconds: float) -> str:
    """Return a length of time in its largest unit of which it has two, else in seconds; `script.js` does the same."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"
