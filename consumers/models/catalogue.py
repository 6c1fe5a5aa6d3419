"""The versions of a model as its topic holds them, read from the end backwards as far as a question needs.

A program that may write to the models topic only can put records under the key of any version, and tombstones. So a
version counts as what it is once its hash follows from the aliases topic (`streamsvm.registry.anchoring`), and as
retired once that topic, or the audit trail, says so; everything else that stands under a number is kept apart, and
named.

Invariant: what is read has the end of the topic; of the versions themselves only what is asked for is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass

from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.kafka import Cluster, Record
from streamsvm.model import message as model_codec, skill_header
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.comparison import relative_gap
from streamsvm.model.pointers import Alias
from streamsvm.model.skill_header import AnySkill
from streamsvm.model.version import version_key, version_number
from streamsvm.registry import backwards
from streamsvm.registry.aliases import Aliases, models_there, read_aliases
from streamsvm.registry.anchoring import seen_in
from streamsvm.verification.version_survey import note_of


@dataclass(frozen=True, slots=True)
class VersionFigures:
    """What a list shows of a version's content."""

    points: int
    objective: float
    duality_gap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
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
    ancestors : tuple of Ancestor
        The versions that it names by their hashes.
    signature : bytes or None
    figures : VersionFigures or None
        If they were asked for and can be read.
    accuracy : float or None
        Balanced accuracy on the points that the quality gate scored; None where there were none.
    before : float or None
        Balanced accuracy, on the same points, of the version that was current then.
    skill : Skill or None
        What was found of it when it was published.
    """

    number: int
    offset: int
    sha256: str
    value_bytes: int
    time_ms: int
    gate: str
    ancestors: tuple[Ancestor, ...] = ()
    signature: bytes | None = None
    figures: VersionFigures | None = None
    accuracy: float | None = None
    before: float | None = None
    skill: AnySkill | None = None

    @property
    def alias(self) -> Alias:
        """What a record says that names this version."""
        return Alias(self.number, self.sha256, self.offset)

    @property
    def said(self) -> str:
        """The value and its place, for people."""
        return f"{self.sha256} at offset {self.offset}"


class Catalogue:
    """What was read of the models topic.

    Parameters
    ----------
    name, models_topic : str
    values : iterable of CatalogueEntry
        In the log's order; of a value that stands there twice the first counts.
    names : Aliases
        What the aliases topic says.
    retired : set of int
        Numbers that are retired, besides those of which the aliases topic says so.
    complete : bool
        Whether the topic was read from its beginning.

    Attributes
    ----------
    entries : dict of int to CatalogueEntry
        The versions whose hashes follow from what the aliases topic names, by number, ascending.
    """

    def __init__(
        self,
        name: str,
        models_topic: str,
        values: Iterable[CatalogueEntry],
        names: Aliases,
        retired: AbstractSet[int] = frozenset(),
        *,
        complete: bool = False,
    ) -> None:
        self.name = name
        self.models_topic = models_topic
        self.complete = complete
        self._names = names
        self._retired = retired
        self._values: dict[int, dict[str, CatalogueEntry]] = {}
        for entry in values:
            self._values.setdefault(entry.number, {}).setdefault(entry.sha256, entry)
        self.entries = dict(sorted(self._anchored().items()))

    def _anchored(self) -> dict[int, CatalogueEntry]:
        """Return what follows from the newest version; then from the aliases, where that leads no further."""
        head, found, known = self._names.head, dict[int, CatalogueEntry](), dict[int, str]()
        for roots in ([head.alias] if head else [], self._names.named.values()):
            for alias in roots:
                known.setdefault(alias.number, alias.sha256)
            for number in sorted(self._values, reverse=True):
                entry = found.get(number) or self._values[number].get(known.get(number, ""))
                if entry is not None:
                    found[number] = entry
                    for ancestor in entry.ancestors:
                        known.setdefault(ancestor.number, ancestor.sha256)
        return found

    @property
    def doubtful(self) -> dict[int, list[CatalogueEntry]]:
        """Every value under a number that is not the one that follows, or of which none does; in the log's order."""
        return {
            number: others
            for number, values in sorted(self._values.items())
            if (others := [entry for entry in values.values() if entry is not self.entries.get(number)])
        }

    def is_retired(self, number: int) -> bool:
        """Return whether a version is retired: a tombstone alone does not say so."""
        swept = self._names.retired
        return number in self._retired or (swept is not None and number in swept)

    @property
    def standing(self) -> list[int]:
        """The numbers of versions that are there and not retired, ascending."""
        return [number for number in self.entries if not self.is_retired(number)]

    def before(self, number: int) -> int | None:
        """Return the number of the newest version before one that is neither retired nor was refused by the gate."""
        good = (one for one in self.standing if one < number and self.entries[one].gate != "refused")
        return max(good, default=None)

    def require(self, which: int | str) -> CatalogueEntry:
        """Return a version by its number, or by the beginning of its SHA-256.

        Raises
        ------
        ConfigurationError
            If it is not there, or not the only one that may be meant; the message says what there is.
        """
        if isinstance(which, str):
            return self._require_hash(which)
        key, values = version_key(self.name, which), list(self._values.get(which, {}).values())
        if self.is_retired(which):
            raise ConfigurationError(f"{key} was retired", f"Available: {self._there()}.")
        if not values:
            raise ConfigurationError(f"{key} is not in {self.models_topic}", f"Available: {self._there()}.")
        right, there = self.entries.get(which), ", ".join(entry.said for entry in values)
        if right is None:
            raise ConfigurationError(
                f"{key} may be a forgery: no later version that {self.models_topic} still holds names its hash. "
                f"Values under its number: {there}",
                "If you know the SHA-256 of the version, give that instead of the number.",
            )
        if len(values) > 1:
            raise ConfigurationError(
                f"{self.models_topic} holds {len(values)} values under {key}: {there}. Another program writes to the "
                f"topic. Later versions name the SHA-256 {right.sha256}",
                "Give that SHA-256 instead of the number, and find out who may write to the topic.",
            )
        return right

    def _require_hash(self, digits: str) -> CatalogueEntry:
        found = [entry for values in self._values.values() for sha, entry in values.items() if sha.startswith(digits)]
        if not found:
            raise ConfigurationError(
                f"{self.models_topic} holds no version of {self.name} with a SHA-256 that begins with {digits}",
                f"Available: {self._there()}; `streamsvm model list --json` shows their hashes.",
            )
        if len(found) > 1:
            several = ", ".join(f"{version_key(self.name, entry.number)}: {entry.said}" for entry in found)
            raise ConfigurationError(f"several versions begin with {digits}: {several}", "Give more digits, or all 64.")
        return found[0]

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


Question = Callable[[Catalogue], bool]
"""Returns whether what was read is enough."""


def holds(which: int | str) -> Question:
    """Return a question that is answered once a version was found, or the versions before it were reached.

    By the beginning of a hash any version may be meant, so that all have to be read.
    """
    return (lambda _: False) if isinstance(which, str) else holds_all([which])


def holds_all(numbers: Collection[int]) -> Question:
    """Return a question that is answered once the least of some numbers was reached."""
    least = min(numbers)
    return lambda catalogue: min(catalogue.entries, default=least + 1) <= least


def holds_before(number: int) -> Question:
    """Return a question that is answered once a version was found that may be rolled back to from `number`."""
    return lambda catalogue: catalogue.before(number) is not None


def holds_newest(count: int) -> Question:
    """Return a question that is answered by so many versions that are not retired."""
    return lambda catalogue: len(catalogue.standing) >= count


def read_catalogue(
    cluster: Cluster,
    settings: Settings,
    names: Aliases,
    question: Question,
    *,
    figures: bool = False,
    span: int | None = None,
    timeout_s: float = READ_TIMEOUT_S,
) -> Catalogue:
    """Read the models topic from the end backwards until a question is answered, or to its beginning.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
        Only `name` and `output` are looked at.
    names : Aliases
        What the aliases topic says, as read before.
    question : Question
    figures : bool
        Whether to decode the versions and keep their figures.
    span : int, optional
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
    topic, entries, tombstones = settings.output.models_topic, list[CatalogueEntry](), set[int]()
    spans = backwards.spans(cluster, topic, timeout_s, span)
    while True:
        records, ends = next(spans)
        found = list[CatalogueEntry]()
        for record in records:
            if record.value is None:
                tombstones.add(version_number(record.key, settings.name) or 0)
            elif (entry := _entry(record, settings.name, figures)) is not None:
                found.append(entry)
        entries = found + entries
        swept = names.retired
        unsaid = {number for number in tombstones if number and (swept is None or number not in swept)}
        retired = unsaid & _retired_by_trail(cluster, settings, timeout_s) if unsaid else unsaid
        catalogue = Catalogue(settings.name, topic, entries, names, retired, complete=ends)
        if ends or question(catalogue):
            return catalogue


def _retired_by_trail(cluster: Cluster, settings: Settings, timeout_s: float) -> set[int]:
    """Return the versions that the audit trail says are retired; none where it may not be read, or is not there."""
    found: set[int] = set()
    with suppress(ConfigurationError):
        for record in cluster.read_to_end(settings.output.audit_topic, 0, timeout_s=timeout_s):
            found.update(note_of(record.value, settings.name).versions)
    return found


def _entry(record: Record, name: str, figures: bool) -> CatalogueEntry | None:
    seen = seen_in(record, name)
    if seen is None or record.value is None:
        return None
    headers = dict(record.headers)
    return CatalogueEntry(
        number=seen.number,
        offset=seen.offset,
        sha256=seen.sha256,
        value_bytes=len(record.value),
        time_ms=-1 if record.timestamp_ms is None else record.timestamp_ms,
        gate=(headers.get(model_codec.GATE_HEADER) or b"").decode(errors="replace"),
        ancestors=seen.ancestors,
        signature=headers.get(model_codec.SIGNATURE_HEADER),
        figures=_figures(record.value) if figures else None,
        accuracy=_accuracy(headers.get(model_codec.GATE_ACCURACY_HEADER)),
        before=_accuracy(headers.get(model_codec.GATE_PRESENT_HEADER)),
        skill=skill_header.decode(record.headers),
    )


def _accuracy(header: bytes | None) -> float | None:
    try:
        return None if header is None else float(header)
    except ValueError:
        return None


def _figures(value: bytes) -> VersionFigures | None:
    try:
        version = model_codec.decode(value)
    except InvalidMessage:
        return None
    return VersionFigures(version.stream.points, version.fit.objective, relative_gap(version))


def read_names(cluster: Cluster, settings: Settings, timeout_s: float = READ_TIMEOUT_S) -> Aliases:
    """Return what the aliases topic says of a model.

    Raises
    ------
    ConfigurationError
        If it says nothing: the message names the models of which it does.
    """
    topic = settings.output.aliases_topic
    names = read_aliases(cluster, settings.name, topic, timeout_s)
    if not names.known:
        raise ConfigurationError(f"{topic} has no model {settings.name}", models_there(settings.name, names.others))
    return names
