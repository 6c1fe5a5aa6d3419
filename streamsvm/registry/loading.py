"""One version from the log, checked before it is used: by its alias, its number or its hash.

`load_version` loads one and returns; `streamsvm.registry.subscriber` follows an alias. Both pass each record through
`check`: the key, the SHA-256, the signature if keys are given, the format, the number of features, and the probes that
the version carries. A record that fails is refused with a reason, and never used.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError, InvalidMessage, TransientError
from streamsvm.kafka import Cluster, Connection, Option, Record
from streamsvm.model import deciles_header as deciles, message as model_codec, skill_header
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import AdditiveMachines, ClassModel, LinearMachines
from streamsvm.model.deciles import Deciles
from streamsvm.model.described import Label, points_fault
from streamsvm.model.features import check_decided
from streamsvm.model.kernels import Float
from streamsvm.model.machine import LinearMachine
from streamsvm.model.pointers import Alias, current_key, pin_key
from streamsvm.model.reasons import Explainer, Reasons
from streamsvm.model.recipes import Compiled, NeededField, compiled, recipes_of
from streamsvm.model.skill_header import AnySkill
from streamsvm.model.version import Version, version_key, version_number
from streamsvm.registry.aliases import AliasTable, models_there
from streamsvm.registry.anchoring import Finder
from streamsvm.registry.signing import TrustedKeys

logger = logging.getLogger("streamsvm.registry.subscriber")

PARTITION: Final = 0
"""Models and aliases are each in one partition, because their order matters."""

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alias_unreadable": "the alias record cannot be parsed",
        "record_missing": "the offset that the alias names holds no record, or a tombstone",
        "foreign": "the record's key, or the name or number in its value, differs from what the alias names",
        "hash_mismatch": "the value's SHA-256 differs from the one in its header or in the alias",
        "undecodable": "the value is not a model message that this build understands",
        "not_signed": "none of the given public keys signed the version",
        "wrong_dimension": "the version's number of features is not the expected one",
        "not_wanted": "the reader's own check refused it",
    }
)
"""Every reason for which a message is refused, with its meaning."""

READ_TIMEOUT_S: Final = 10.0
ALIAS: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")

RESERVED_ALIASES: Final = frozenset({"erased", "head", "owner", "retired"})
"""Keys of the aliases topic that belong to the trainer and are not aliases."""


class NoModel(TransientError):
    """No version has been loaded yet; the message says what is missing."""


class RefusedMessage(InvalidMessage):
    """A model message or alias that failed a check.

    Parameters
    ----------
    reason : str
        One of `REASONS`.
    what : str
        The record, and the details.
    """

    def __init__(self, reason: str, what: str) -> None:
        self.reason = reason
        super().__init__(what)


class Answer(NamedTuple):
    """What a version says of one event: the decision value, the label, and its second label's probability, if any.

    Of more than two labels the decision value, and the probability, of each, in their order.
    """

    score: float | tuple[float, ...]
    label: Label
    probability: float | tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Loaded:
    """A version that passed every check.

    Attributes
    ----------
    version : Version
    sha256 : str
        SHA-256 of the record's value, lower-case hexadecimal.
    offset : int
        Offset of the record in the models topic.
    loaded_at : float
        Time of loading, seconds since the epoch.
    published_at : float or None
        Time at which the version was made, from the record's header; None if the header cannot be read.
    audit_scores : Deciles or None
        Deciles of its scores on its audit sample, from a header that no hash covers; None without this header.
    skill : Skill or None
        Whether it knew something when it was published, from a header that no hash covers; None without this header.
    recipe : Compiled or None
        The version's recipe, compiled; None of a version that learned points.
    """

    version: Version
    sha256: str
    offset: int
    loaded_at: float
    published_at: float | None = None
    audit_scores: Deciles | None = None
    skill: AnySkill | None = None
    recipe: Compiled | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the recipe, once."""
        object.__setattr__(self, "recipe", compiled(self.version.recipe))

    @property
    def columns(self) -> Any:
        """What evaluates the version's recipe; None of a version that learned points."""
        return None if self.recipe is None else self.recipe.columns

    @property
    def fields(self) -> tuple[NeededField, ...]:
        """The fields of raw events that the version reads, or its features."""
        version = self.version
        if version.recipe is not None:
            return recipes_of(version.recipe).needed(version.recipe)
        names = version.feature_names or tuple(f"x[{index}]" for index in range(version.model.dimension))
        return tuple(NeededField(name, "number", required=True) for name in names)

    def features(self, events: Any) -> Float:
        """Return what the version's recipe makes of raw events, shape (n, d), for the methods below.

        Parameters
        ----------
        events : sequence of mappings, or data frame
            Of JSON's types. Fields that the recipe does not name are not looked at.

        Raises
        ------
        ConfigurationError
            If the version learned points, not raw events.
        InvalidFeatures
            Naming the first event that the recipe rejects, and the field.
        """
        if self.recipe is None:
            raise ConfigurationError(
                f"{self.version.key} has no recipe, because it learned points and not raw events",
                "Pass features to decision_function, or train with [features].",
            )
        return self.recipe.features(events)

    def score(self, event: Mapping[str, Any]) -> Answer:
        """Score one raw event; raises the errors of `features`."""
        X, model = self.features([event]), self.version.model
        label = self.predict(X).tolist()[0]
        if isinstance(model, ClassModel):
            shares = None if model.probabilities is None else tuple(self.predict_proba(X)[0].tolist())
            return Answer(tuple(self.decision_function(X)[0].tolist()), label, shares)
        probability = None if model.probability is None else float(self.predict_proba(X)[0, 1])
        return Answer(float(self.decision_function(X)[0]), label, probability)

    def decision_function(self, X: Any) -> Float:
        """Score raw features, or raw events: shape (n,), or (n, n_classes) of more than two labels.

        `streamsvm.model.machine.Model.decision_function` says which forms of `X` are allowed. If the version has a
        recipe, data frames and mappings without the names of its columns are raw events, as `features` takes them.
        """
        return self.version.model.decision_function(self._rows(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, as written in the records, shape (n,).

        This is the second of `version.labels` if the decision value is above the version's threshold (0 without
        one), else the first. Of more than two labels it is the one with the greatest decision value. Raises the errors
        of `decision_function`.
        """
        labels, codes = self.version.labels, self.version.model.predict_codes(self._rows(X))
        array = np.array(labels, dtype=None if len(set(map(type, labels))) == 1 else object)
        return array[codes if len(array) > 2 else (codes > 0).astype(np.intp)]

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each label, in the order of `version.labels`, for each row: shape (n, n_labels).

        Raises
        ------
        ConfigurationError
            If the version has no probabilities.
        InvalidFeatures
            As `decision_function` does.
        """
        return self.version.model.predict_proba(self._rows(X))

    def explain(self, X: Any, k: int) -> list[Reasons]:
        """Return for each row, raw events or features as for `predict`, the `k` fields that add most to its score.

        Raises
        ------
        Unsupported
            If the version has a kernel, or more than two labels: a `ConfigurationError` that says what to use instead.
        InvalidFeatures
            As `decision_function` does.
        """
        explainer, rows = Explainer(self.version), self._rows(X)
        check_decided(self.version.model.decision_function(rows))
        return explainer.reasons(rows, k)

    def _rows(self, X: Any) -> Any:
        return X if self.recipe is None else self.recipe.features_of_either(X)

    def __repr__(self) -> str:
        """Return one line: the version, how many features it has, and its kernel."""
        machine = self.version.model.machine
        kernel = "linear" if isinstance(machine, LinearMachine | LinearMachines) else "rbf"
        kernel = "additive" if isinstance(machine, AdditiveMachine | AdditiveMachines) else kernel
        return f"Loaded({self.version.key}, {self.version.model.dimension} features, {kernel})"


class Followed:
    """What the aliases topic says about one alias, the pin before it."""

    def __init__(self, name: str, alias: str) -> None:
        if not ALIAS.fullmatch(alias) or alias in RESERVED_ALIASES:
            raise ConfigurationError(
                f"{alias!r} is not a valid alias",
                "Give a letter, then letters, digits, dots or dashes; not erased, head, owner or retired.",
            )
        self.key = current_key(name) if alias == "current" else f"{name}@{alias}"
        self._pin_key = pin_key(name) if alias == "current" else ""
        self.table = AliasTable(name)

    @property
    def wanted(self) -> Alias | None:
        """The pin if there is one, else the alias; None if the topic has neither."""
        return self.table[self._pin_key] or self.table[self.key]

    @property
    def missing(self) -> str:
        """Why nothing is wanted: there is no such alias, and of `current` what the gate said of the newest version."""
        why, head = f"has no alias {self.key}", self.table.aliases.head
        if not self._pin_key or head is None or head.gate is None or not head.gate.holds_back:
            return why
        return f"{why}: version {head.number}, the newest, was held back, because {head.gate.why}"

    def note(self, record: Record) -> str:
        """Take a record in; return what is wrong with it if it is under our key, and cannot be read."""
        fault = self.table.note(record)
        return fault if (record.key or b"").decode(errors="replace") in (self.key, self._pin_key) else ""


def aliases_topic(models_topic: str) -> str:
    """Return the topic of the aliases that belongs to a topic of models."""
    return f"{models_topic}.aliases"


def check(
    record: Record,
    name: str,
    number: int,
    sha256: str | None = None,
    dimension: int | None = None,
    trusted: TrustedKeys | None = None,
) -> Version:
    """Check that a record of the models topic is the expected one, and decode it.

    Parameters
    ----------
    record : Record
    name, number
        Name and number of the expected version.
    sha256 : str, optional
        Expected SHA-256 of the value, in addition to the one in its header.
    dimension : int, optional
        Expected number of features.
    trusted : TrustedKeys, optional
        Public keys, one of which must have signed the version.

    Raises
    ------
    RefusedMessage
        If the record is damaged, foreign or unfit.
    """
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    key = version_key(name, number)
    if record.value is None:
        raise RefusedMessage("record_missing", f"{place} is a tombstone: {key} was retired")
    if record.key != key.encode():
        raise RefusedMessage("foreign", f"the record at {place} has the key {record.key!r}, not {key}")
    found = _check_hash(record, place, sha256)
    if trusted is not None:
        _check_signature(record, place, key, found, trusted)
    try:
        version = model_codec.decode(record.value)
    except InvalidMessage as error:
        raise RefusedMessage("undecodable", f"{place}: {error}") from None
    if fault := points_fault(version.model.dimension, version.labels, version.feature_names):
        raise RefusedMessage("undecodable", f"{place}: {version.key} describes points that are not valid: {fault}")
    if version.key != key:
        raise RefusedMessage("foreign", f"the record at {place} holds {version.key}, not {key}")
    if dimension is not None and version.model.dimension != dimension:
        raise RefusedMessage(
            "wrong_dimension", f"{key} at {place} has {version.model.dimension} features, but {dimension} were expected"
        )
    return version


def _check_signature(record: Record, place: str, key: str, sha256: str, trusted: TrustedKeys) -> None:
    signature = dict(record.headers).get(model_codec.SIGNATURE_HEADER)
    if not trusted.signed(key, sha256, signature):
        what = "is not signed" if signature is None else "is signed by none of the trusted keys"
        raise RefusedMessage("not_signed", f"{key} at {place}, SHA-256 {sha256}, {what}")


def _check_hash(record: Record, place: str, expected: str | None) -> str:
    found = model_codec.sha256(record.value or b"")
    written = [content for header, content in record.headers if header == model_codec.SHA256_HEADER]
    if written != [found.encode()]:
        said = ", ".join(content.decode(errors="replace") for content in written) or "missing"
        raise RefusedMessage(
            "hash_mismatch", f"the record at {place} has the SHA-256 {found}, but its header says {said}"
        )
    if expected is not None and found != expected:
        raise RefusedMessage(
            "hash_mismatch", f"the record at {place} has the SHA-256 {found}, but the alias says {expected}"
        )
    return found


def load_version(
    connection: Connection | Mapping[str, Option],
    name: str,
    *,
    models_topic: str = "models",
    number: int | str | None = None,
    alias: str = "current",
    trusted: TrustedKeys | None = None,
    timeout_s: float = 30.0,
) -> Loaded:
    """Fetch and check one version, without following it; see `load_record`."""
    loaded, _ = load_record(
        connection,
        name,
        models_topic=models_topic,
        number=number,
        alias=alias,
        trusted=trusted,
        timeout_s=timeout_s,
    )
    return loaded


def load_record(
    connection: Connection | Mapping[str, Option],
    name: str,
    *,
    models_topic: str = "models",
    number: int | str | None = None,
    alias: str = "current",
    trusted: TrustedKeys | None = None,
    timeout_s: float = 30.0,
) -> tuple[Loaded, bytes]:
    """Fetch and check one version, and return it with the bytes of its record.

    Blocks: the aliases topic is read, and one record; with a number as many more as `streamsvm.registry.anchoring`
    needs.

    Parameters
    ----------
    connection : Connection, or mapping of librdkafka's options
    name : str
    models_topic : str
    number : int or str, optional
        The version's number, or its SHA-256 (the first 12 or more hexadecimal digits). Default: the version that the
        pin names, or else `alias`.
    alias : str
    trusted : TrustedKeys, optional
        Public keys, one of which must have signed the version.
    timeout_s : float
        Seconds to wait without progress.

    Raises
    ------
    ConfigurationError
        If the version or the alias does not exist (the message says what exists); `TopicMissing` if the topic does not.
    RefusedMessage
        If the version's record is damaged, foreign, missing or not signed by a trusted key.
    NotAnchored
        If the version was given by its number and may be a forgery.
    BrokerUnavailable
        If no broker answers in time.
    """
    cluster = Cluster(connection)
    if number is None:
        return _load_named(cluster, name, models_topic, alias, trusted, timeout_s)
    return _load_numbered(cluster, name, models_topic, number, trusted, timeout_s)


def _load_named(
    cluster: Cluster,
    name: str,
    models_topic: str,
    alias: str,
    trusted: TrustedKeys | None,
    timeout_s: float,
) -> tuple[Loaded, bytes]:
    topic = aliases_topic(models_topic)
    aliases = Followed(name, alias)
    for record in cluster.read_to_end(topic, PARTITION, timeout_s=timeout_s):
        if fault := aliases.note(record):
            logger.warning("passed over %s[%d]@%d: %s", topic, PARTITION, record.offset, fault)
    named = aliases.wanted
    if named is None:
        known = aliases.table.aliases
        if known.known:
            there = ", ".join(sorted(key.removeprefix(f"{name}@") for key in known.named)) or "none"
            raise ConfigurationError(f"{topic} {aliases.missing}", f"The model's aliases: {there}.")
        raise ConfigurationError(f"{topic} {aliases.missing}", models_there(name, known.others))
    found = cluster.record(models_topic, named.offset, timeout_s)
    if found is None:
        key = version_key(name, named.number)
        raise RefusedMessage(
            "record_missing", f"there is no record at {models_topic}[{PARTITION}]@{named.offset}, where {key} should be"
        )
    return loaded_from(found, check(found, name, named.number, named.sha256, trusted=trusted)), found.value or b""


def _load_numbered(
    cluster: Cluster,
    name: str,
    models_topic: str,
    version: int | str,
    trusted: TrustedKeys | None,
    timeout_s: float,
) -> tuple[Loaded, bytes]:
    found = Finder(cluster, name, models_topic, timeout_s).find(version)
    number = version_number(found.key, name) or 0
    return loaded_from(found, check(found, name, number, trusted=trusted)), found.value or b""


def loaded_from(record: Record, version: Version, now: float | None = None) -> Loaded:
    """Return a record that passed every check."""
    sha256 = model_codec.sha256(record.value or b"")
    loaded_at, scores = time.time() if now is None else now, deciles.decode(record.headers)
    return Loaded(
        version=version,
        sha256=sha256,
        offset=record.offset,
        loaded_at=loaded_at,
        published_at=published_at(record),
        audit_scores=scores,
        skill=skill_header.decode(record.headers),
    )


def published_at(record: Record) -> float | None:
    """Return the time at which a version was made, from its record's header; None if the header cannot be read."""
    try:
        return datetime.fromisoformat(dict(record.headers)[model_codec.TIME_HEADER].decode()).timestamp()
    except (KeyError, ValueError, OverflowError, OSError):
        return None
