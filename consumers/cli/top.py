"""A running daemon's figures in the terminal: the same as on its live page, from `/status.json`."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from consumers.page.cells import MARKS, NONE, age
from consumers.page.status import (
    FORMAT,
    LettersStatus,
    Looks,
    PartitionPart,
    QualityStatus,
    ScorerStatus,
    ScoringPart,
    Status,
    StructureStatus,
    TrainerStatus,
    VerdictStatus,
    VersionPart,
    decode,
)
from consumers.page.trainer_page import SCORERS
from streamsvm.errors import ConfigurationError, FatalError, StreamsvmError, TransientError

MOST_LABELS: Final = 8
"""Of more labels the most frequent answers are listed."""
TIMEOUT_S: Final = 5.0
MOST_BYTES: Final = 32 << 20
MOST_VERSIONS: Final = 8
_WAY_OUT: Final = "Give the health port of a trainer or a scorer, and check that its http.page is on."
_WAYS_OUT: Final = {
    401: "Give the file with the daemon's bearer token with --bearer-file.",
    403: "The daemon requires a client certificate: connect through a proxy that has one.",
    421: "Use the daemon's IP address, or add the name to its http.allowed_hosts.",
}
STYLES: Final = {"good": "green", "fair": "default", "bad": "red", "waiting": "yellow", "stopped": "red"}


def show(
    url: str, every_s: float, *, once: bool = False, as_json: bool = False, bearer_file: Path | None = None
) -> None:
    """Show the figures until interrupted.

    Parameters
    ----------
    url : str
        Address of the health port.
    every_s : float
        Seconds between two looks.
    once, as_json : bool
        Print one frame, or the document as it came, and return.
    bearer_file : Path, optional
        File of the token that the daemon wants (`http.bearer_file`).

    Raises
    ------
    StreamsvmError
        If nothing answers the first query, or the answer is not a status of this format.
    """
    address = _address(url)
    value = fetch(address, bearer_file)
    status = _decoded(value, address)
    console = Console()
    if as_json:
        console.out(value.decode(), end="", highlight=False)
        return
    if once:
        console.print(frame(status, _now()))
        return
    with Live(frame(status, _now()), console=console, screen=True, auto_refresh=False) as live:
        try:
            update = partial(live.update, refresh=True)
            _follow(partial(fetch, address, bearer_file), address, every_s, update, frame(status, _now()))
        except KeyboardInterrupt:
            return


def _follow(
    again: Callable[[], bytes],
    address: str,
    every_s: float,
    update: Callable[[RenderableType], None],
    last: RenderableType,
) -> None:
    while True:
        time.sleep(every_s)
        try:
            last = frame(_decoded(again(), address), _now())
            update(last)
        except StreamsvmError as error:
            update(Group(Text(f"{error.what}; the figures below are the last ones received", style="red"), last))


def fetch(address: str, bearer_file: Path | None = None) -> bytes:
    """Return the document at an address.

    Raises
    ------
    ConfigurationError
        If the token's file cannot be read.
    TransientError
        If nothing answers.
    FatalError
        If something else does.
    """
    request = urllib.request.Request(address, headers=_bearing(bearer_file))  # noqa: S310 - _address allows HTTP only
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the same
            value: bytes = answer.read(MOST_BYTES)
            return value
    except urllib.error.HTTPError as error:
        with error:
            raise FatalError(
                f"{address} answered {error.code} {error.reason}", _WAYS_OUT.get(error.code, _WAY_OUT)
            ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        why = getattr(why, "strerror", None) or why
        raise TransientError(
            f"nothing answers at {address}: {why}",
            "Start a trainer or a scorer, or give the address of its health port with --url.",
        ) from None


def _bearing(bearer_file: Path | None) -> dict[str, str]:
    if bearer_file is None:
        return {}
    try:
        return {"Authorization": f"Bearer {bearer_file.read_text().strip()}"}
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"--bearer-file {bearer_file} cannot be read: {error}", "Give the file that holds the token."
        ) from None


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"--url is {url!r}", "Give an address such as http://127.0.0.1:9464.")
    return url.removesuffix("/").removesuffix("/status.json") + "/status.json"


def _decoded(value: bytes, address: str) -> Status:
    try:
        return decode(value)
    except msgspec.DecodeError as error:
        raise FatalError(
            f"{address} did not answer with a status of format {FORMAT}: {error}",
            "Use the streamsvm of the same version as the daemon.",
        ) from None


def _now() -> datetime:
    return datetime.now(UTC)


def frame(status: Status, now: datetime) -> RenderableType:
    """Return one frame: the figures as a table for people."""
    parts = _trainer(status, now) if isinstance(status, TrainerStatus) else _scorer(status, now)
    spaced = [Padding(part, (0, 0, 1, 0)) for part in parts]
    return Group(*spaced, Text(f"figures of {status.taken:%H:%M:%S} UTC", style="dim"))


def _trainer(status: TrainerStatus, now: datetime) -> list[RenderableType]:
    return [
        _headline(status, status.verdict, status.input.topic, now),
        Columns([_quality(status), _input(status), *_looks(status.looks, status.quality)], padding=(0, 4)),
        *_newest_letter(status.input.letters, now),
        _structure(status.structure),
        _versions(status.versions, now),
    ]


def _headline(status: Status, verdict: VerdictStatus, topic: str, now: datetime) -> RenderableType:
    line = Text(f"{MARKS[verdict.level]} {_plain(verdict.headline)}", style=f"bold {STYLES[verdict.level]}")
    if verdict.since is not None:
        line.append(f"  for {age((now - verdict.since).total_seconds())}", style="not bold dim")
    name = Text(_plain(status.name), style="bold").append(f"  {_plain(topic)}", style="not bold dim")
    return Group(name, line, Text(_plain(verdict.detail)))


def _quality(status: TrainerStatus) -> Table:
    quality = status.quality
    table = _table("QualityStatus", "", "accuracy", "balanced", "hinge loss")
    for scorer, title in SCORERS:
        figures = (quality.accuracy, quality.balanced_accuracy, quality.hinge_loss)
        table.add_row(title, *(_number(getattr(figure, scorer), ".4f") for figure in figures))
    return table


def _looks(looks: Looks | None, quality: QualityStatus) -> list[RenderableType]:
    """Return what the newest version looks at, and how often it answers with the second label."""
    if looks is None or looks.why:
        return []
    signed, labels = looks.by == "coefficients", quality.labels or ("first label", "second label")
    table = _table(f"What version {looks.number} looks at", "", "share", *(["speaks for"] if signed else []))
    for feature in looks.features:
        speaks = [Text(_plain(labels[1 if feature.value > 0.0 else 0]))] if signed else []
        table.add_row(Text(_plain(feature.name)), f"{feature.share:.1%}", *speaks)
    return [table]


def _newest_letter(letters: LettersStatus | None, now: datetime) -> list[RenderableType]:
    newest = None if letters is None else letters.newest
    if newest is None:
        return []
    when = "" if newest.time is None else f", {age((now - newest.time).total_seconds())} ago"
    place = f"{newest.topic}[{newest.partition}]@{newest.offset}"
    return [Text(_plain(f"The newest dead letter: {place}{when}: {newest.reason}. {newest.message}"))]


def _input(status: TrainerStatus) -> Table:
    read, memory, quality = status.input, status.memory, status.quality
    shares: list[tuple[str, float]] = [
        (f"percent {what} {_plain(quality.labels[1])}", round(100.0 * share, 2))
        for what, share in (("answered", quality.answered), ("that are", quality.true))
        if share is not None and quality.labels is not None
    ]
    table = _table("Input and memory", "", "")
    for title, value in (
        *shares,
        ("rows learned", status.structure.rows),
        ("since this start", read.accepted),
        ("rows rejected since this start", read.rejected),
        ("records behind", read.lag_total),
        ("points held", memory.points_held),
        ("at most", memory.points_held_peak),
        ("bytes of coresets", memory.coreset_bytes),
        ("bytes of the process", status.process.resident_bytes),
        *((f"dead letters: {_plain(reason)}", count) for reason, count in read.dead_letters.items() if count),
    ):
        table.add_row(Text(title), _number(value))
    return table


def _structure(structure: StructureStatus) -> Table:
    table = _table(f"Structure ({structure.kind})", "partition", "levels", "leaf", "leaves sealed", "rows")
    for part in structure.partitions:
        leaf = f"{part.leaf.rows:,} of {part.leaf.span:,}"
        table.add_row(f"{part.partition}", _levels(structure, part), leaf, _number(part.sealed), _number(part.rows))
    return table


def _levels(structure: StructureStatus, part: PartitionPart) -> Text:
    """Draw a filled square for each bucket, an empty one for each free place; of a counter the highest level first."""
    if structure.buckets is not None:
        held = len(part.buckets)
        return Text("■" * held, style="cyan").append("□" * (structure.buckets - held), style="dim")
    levels = [bucket.level for bucket in part.buckets]
    text = Text()
    for level in reversed(range(max(levels, default=-1) + 1)):
        held = levels.count(level)
        text.append("■" * held, style="cyan")
        text.append("□" * (structure.fan_in - 1 - held if structure.kind == "tree" else 0), style="dim")
        text.append(f"{level} " if structure.kind == "tree" else " chain", style="dim")
    return text


def _versions(versions: tuple[VersionPart, ...], now: datetime) -> Table:
    table = _table("Versions", "", "age", "rows", "trained on", "objective", "over the stream", "gap", "gate", "hash")
    for version in versions[:MOST_VERSIONS]:
        between = NONE
        if version.audit_low is not None and version.audit_high is not None:
            between = f"{version.audit_low:.4g} to {version.audit_high:.4g}"
        table.add_row(
            f"{version.number}{' current' if version.current else ''}",
            age((now - version.published).total_seconds()),
            _number(version.points),
            _number(version.training_points),
            _number(version.objective, ".5g"),
            between,
            _number(version.gap, ".1e"),
            NONE if version.gate is None else Text(_plain(version.gate.outcome)),
            Text(_plain(version.sha256[:8])),
        )
    return table


def _scorer(status: ScorerStatus, now: datetime) -> list[RenderableType]:
    serving = status.serving
    table = _table("Scoring", "", "")
    for title, value in (
        ("serving version", serving.number if serving else None),
        ("points scored", status.scored_points),
        ("batches committed", status.batches.get("committed")),
        ("batches put back", status.batches.get("put_back")),
        ("models refused", status.refused_models),
        *_figures_of(status.scoring),
        *((f"dead letters: {_plain(reason)}", count) for reason, count in status.dead_letters.items() if count),
    ):
        table.add_row(Text(title), _number(value))
    heading = _headline(status, status.verdict, f"{status.topic} to {status.output_topic}", now)
    return [heading, table, *_newest_letter(status.letters, now)]


def _figures_of(scoring: ScoringPart | None) -> list[tuple[str, float | None]]:
    if scoring is None:
        return []
    drift, labels = scoring.drift, scoring.labels or ("first label", "second label")
    counts: list[tuple[str, float | None]] = [(labels[0], scoring.negative), (labels[1], scoring.positive)]
    if len(labels) > 2:
        counts = [*sorted(scoring.by_label.items(), key=lambda one: -one[1])[:MOST_LABELS]]
    return [
        ("records behind", scoring.lag_total),
        ("points a second", round(scoring.history[-1].points_per_s) if scoring.history else None),
        ("longest seconds from record to score", scoring.history[-1].latency_s if scoring.history else None),
        *((f"scores: {_plain(label)}", count) for label, count in counts),
        ("rows rejected", scoring.rejected),
        ("drift of scores", None if drift.index is None else round(drift.index, 4)),
        ("drift by chance, at most", None if drift.chance is None else round(drift.chance, 4)),
    ]


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for index, heading in enumerate(headings):
        table.add_column(
            heading, justify="right" if index and heading not in ("levels", "gate", "hash", "speaks for") else "left"
        )
    return table


def _number(value: float | None, form: str = ",") -> str:
    return NONE if value is None else f"{value:{form}}"


def _plain(text: str) -> str:
    """Return a name without what a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)
