"""The versions of a model as its topic holds them, read from the end backwards as far as a question needs.

Invariant: what is read reaches the end of the topic, so that a tombstone behind a version that was found is never
missed; of the versions themselves only what is asked for is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from consumers.topics import READ_TIMEOUT_S
from streamsvm.codec import model as model_codec
from streamsvm.codec.model import Alias
from streamsvm.comparison import relative_gap
from streamsvm.config import Settings
from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.kafka import Connection, Record, log_range, read_to_end
from streamsvm.verification import Aliases, aliases_in, number_in

FIRST_SPAN: Final = 512
"""Offsets that are read first; a version and its transaction's marker take two."""
GROWTH: Final = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """What a list shows of a version's content."""

    points: int
    objective: float
    duality_gap: float | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One version as the topic holds it.

    Attributes
    ----------
    number, offset : int
    sha256 : str
        Of its value.
    value_bytes : int
    time_ms : int
        When its record was written, milliseconds since the epoch; -1 if unknown.
    gate : str
        What the quality gate said; empty where there was none.
    figures : Figures or None
        If they were asked for and can be read.
    accuracy : float or None
        Balanced accuracy on the points that the quality gate scored; None where there were none.
    """

    number: int
    offset: int
    sha256: str
    value_bytes: int
    time_ms: int
    gate: str
    figures: Figures | None = None
    accuracy: float | None = None

    @property
    def alias(self) -> Alias:
        """What a record says that names this version."""
        return Alias(self.number, self.sha256, self.offset)


@dataclass(slots=True)
class Catalogue:
    """What was read of the models topic.

    Attributes
    ----------
    name : str
    models_topic : str
    entries : dict of int to Entry
        By number, ascending.
    retired : set of int
        Numbers of which a tombstone was met.
    complete : bool
        Whether the topic was read from its beginning.
    """

    name: str
    models_topic: str
    entries: dict[int, Entry] = field(default_factory=dict)
    retired: set[int] = field(default_factory=set)
    complete: bool = False

    @property
    def standing(self) -> list[int]:
        """The numbers that are there and not retired, ascending."""
        return sorted(self.entries.keys() - self.retired)

    def before(self, number: int) -> int | None:
        """Return the number of the newest version before one that is neither retired nor was refused by the gate."""
        good = (one for one in self.standing if one < number and self.entries[one].gate != "refused")
        return max(good, default=None)

    def require(self, number: int) -> Entry:
        """Return a version that is there; `ConfigurationError` says which ones are, if it is not."""
        if number in self.entries and number not in self.retired:
            return self.entries[number]
        key = model_codec.version_key(self.name, number)
        what = "was retired" if number in self.retired else f"is not in {self.models_topic}"
        raise ConfigurationError(f"{key} {what}", f"There are {self._there()}.")

    def _there(self) -> str:
        standing = self.standing
        if not standing:
            return f"no versions of {self.name} in {self.models_topic}"
        older = "" if self.complete else "older ones and "
        spans = _spans(standing)
        return f"{older}{', '.join(spans[-5:])}"


def _spans(numbers: list[int]) -> list[str]:
    """Write ascending numbers as spans, such as 1-5, 7."""
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in spans]


Enough = Callable[[Catalogue], bool]


def holds(number: int) -> Enough:
    """Return a question that is answered once a version was found, or the versions before it were reached."""
    return lambda catalogue: min(catalogue.entries, default=number + 1) <= number


def holds_before(number: int) -> Enough:
    """Return a question that is answered once a version was found that may be rolled back to from `number`."""
    return lambda catalogue: catalogue.before(number) is not None


def holds_newest(count: int) -> Enough:
    """Return a question that is answered by so many versions that are not retired."""
    return lambda catalogue: len(catalogue.standing) >= count


def read_catalogue(
    connection: Connection,
    settings: Settings,
    enough: Enough,
    *,
    figures: bool = False,
    span: int = FIRST_SPAN,
    timeout_s: float = READ_TIMEOUT_S,
) -> Catalogue:
    """Read the models topic from the end backwards until a question is answered, or to its beginning.

    Parameters
    ----------
    connection : Connection
    settings : Settings
        Only `name` and `output` are looked at.
    enough : callable
        Tells whether what was read answers the question.
    figures : bool
        Whether to decode the versions and keep their figures.
    span : int
        Offsets at the end to read first.
    timeout_s : float
        Seconds to wait without progress.

    Raises
    ------
    ConfigurationError
        As `TopicMissing` if there is no such topic, and where the broker does not let us read it.
    TransientError
        If no broker answers, or a transaction stays open.
    """
    topic = settings.output.models_topic
    while True:
        low, high = log_range(connection, topic, 0)
        start = max(low, high - span)
        catalogue = Catalogue(settings.name, topic, complete=start == low)
        for record in read_to_end(connection, topic, 0, start=start, timeout_s=timeout_s):
            _note(catalogue, record, figures)
        if catalogue.complete or enough(catalogue):
            return catalogue
        span *= GROWTH


def _note(catalogue: Catalogue, record: Record, figures: bool) -> None:
    number = number_in(record.key, catalogue.name)
    if number is None:
        return
    if record.value is None:
        catalogue.retired.add(number)
        return
    headers = dict(record.headers)
    catalogue.entries[number] = Entry(
        number,
        record.offset,
        model_codec.sha256(record.value),
        len(record.value),
        -1 if record.timestamp_ms is None else record.timestamp_ms,
        (headers.get(model_codec.GATE_HEADER) or b"").decode(errors="replace"),
        _figures(record.value) if figures else None,
        _accuracy(headers.get(model_codec.GATE_ACCURACY_HEADER)),
    )


def _accuracy(header: bytes | None) -> float | None:
    try:
        return None if header is None else float(header)
    except ValueError:
        return None


def _figures(value: bytes) -> Figures | None:
    try:
        version = model_codec.decode(value)
    except InvalidMessage:
        return None
    return Figures(version.stream.points, version.fit.objective, relative_gap(version))


def read_names(connection: Connection, settings: Settings, timeout_s: float = READ_TIMEOUT_S) -> Aliases:
    """Return what the aliases topic says of a model.

    Raises
    ------
    ConfigurationError
        If it says nothing: the message names the models of which it does.
    """
    prefix, newest, others = f"{settings.name}@".encode(), dict[str, bytes](), set[str]()
    topic = settings.output.aliases_topic
    for record in read_to_end(connection, topic, 0, timeout_s=timeout_s):
        key = record.key or b""
        if not key.startswith(prefix):
            others.add(key.decode(errors="replace").split("@")[0])
        elif record.value is None:
            newest.pop(key.decode(errors="replace"), None)
        else:
            newest[key.decode(errors="replace")] = record.value
    if not newest:
        known = ", ".join(sorted(others - {""}))
        raise ConfigurationError(
            f"{topic} knows no model {settings.name}",
            f"It knows {known}: name one with --name." if known else "Nothing was published there yet.",
        )
    return aliases_in(newest, settings.name)
