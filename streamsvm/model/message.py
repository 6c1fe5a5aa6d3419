"""Model versions and the records of the aliases topic, as JSON.

A version is one immutable record: its value holds the model, how it was fitted and its lineage; the SHA-256 of the
value's bytes stands in a header and in the alias records. Nothing that a clock touches is inside the value: such things
travel in headers (CloudEvents, binary mode). JSON writes a float64 with as many digits as it takes to read the same
float64 back.

A format's fields are all there are: a reader refuses one more or less, so that no one serves what it does not
understand. All of them are still read; the newest is written.

======  ===================================================================================================
format  what it added
======  ===================================================================================================
1       (the first)
2       `audit`, an object or null: what the model's objective over the whole stream is
3       `training.duality_gap`; `probes`: inputs with the decision values that a reader must get there (see
        `streamsvm.model.probes`), and the probabilities there, which the first messages of this format lack;
        `probability`, an object or null: how probable a decision value makes a label (see
        `streamsvm.model.probability_part`)
4       `lineage.links`: hashes of earlier versions besides the parent's (see `streamsvm.model.ancestry`)
======  ===================================================================================================

`schemas/model-4.schema.json` beside this module says the same to other languages, as a JSON Schema; the header
`ce_dataschema` names it.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.model import probability_part as probability_codec
from streamsvm.model.ancestry import Ancestor, chosen, linked
from streamsvm.model.described import Label
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.probability import Probability
from streamsvm.model.probability_part import ProbabilityPart
from streamsvm.model.probes import Probes, check_own, count_of, probes_of
from streamsvm.points import Position

FORMAT: Final = "streamsvm.model/4"
_ANY_FORMAT: Final = FORMAT.split("/")[0] + "/"
CONTENT_TYPE: Final = "application/json"
SCHEMA: Final = "urn:streamsvm:schema:model:4"
"""`$id` of the JSON Schema of `FORMAT`."""
EVENT_TYPE: Final = "io.streamsvm.model.version"
SHA256_HEADER: Final = "streamsvm.sha256"
GATE_HEADER: Final = "streamsvm.gate"
GATE_ACCURACY_HEADER: Final = "streamsvm.gate.balanced_accuracy"
"""Of the version, on the points that the quality gate scored; left out where there were none."""
LINKS_HEADER: Final = "streamsvm.links"
"""Offsets, in the models topic, of the records that the lineage names by hash: the parent's, then those of its links,
with commas between. Hints where to look, not part of the hash: what is found there has to have the hash."""
SIGNATURE_HEADER: Final = "streamsvm.signature"
"""Of a signed version; see `streamsvm.registry.signing`."""

PARTITION_BYTES: Final = 120
"""Most characters of one `PartitionCut` in JSON."""
LINKS_BYTES: Final = 64 * 110
"""Most characters of a lineage's links in JSON: numbers of 64 bits have as many powers of two."""
SHA256: Final = re.compile("[0-9a-f]{64}")
LARGEST: Final = 1e150
"""Magnitude of any number that a model is made of: beyond it squares overflow, and a decision value would depend on how
many points are scored at once."""

Record = TypeVar("Record")


class PartitionCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One partition's part of a cut: everything before (offset, row) was learned."""

    partition: int
    offset: int
    row: int
    leader_epoch: int


class _Lineage1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parent: str | None
    topic: str
    topic_id: str
    cut: tuple[PartitionCut, ...]
    base: tuple[PartitionCut, ...]
    configuration: dict[str, Any]
    configuration_sha256: str
    seed: int
    training_set_sha256: str
    tuned_at: tuple[PartitionCut, ...] | None
    build: dict[str, str]


class Lineage(_Lineage1, frozen=True, forbid_unknown_fields=True):
    """Which data and which configuration made a version.

    Attributes
    ----------
    parent : str or None
        SHA-256 of the version before it.
    topic, topic_id : str
        Input topic; its id is empty where the broker tells none.
    cut, base : tuple of PartitionCut
        Up to where, and from where, the input was learned.
    configuration : mapping
        The model-affecting configuration, and its hash beside it.
    seed : int
    training_set_sha256 : str
        Of the training set's bytes.
    tuned_at : tuple of PartitionCut or None
        The cut at which C and gamma were chosen; None where they are configured.
    build : mapping of str to str
        Library versions and CPU target: recomputing gives the same bytes on the same build only.
    links : tuple of Ancestor
        Those of `streamsvm.model.ancestry.linked` whose hashes were known: all, unless the chain is older than
        format 4.
    """

    links: tuple[Ancestor, ...] = ()

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Every hash that it names, the parent's first; in the order of the offsets in `LINKS_HEADER`."""
        return (*((self.parent,) if self.parent else ()), *(link.sha256 for link in self.links))


class _Lineage(_Lineage1, frozen=True, forbid_unknown_fields=True):
    links: tuple[Ancestor, ...]


class StreamSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a version covers: rows seen, valid points among them, their exact weight, and when they were written."""

    rows: int
    points: int
    weight: float
    class_weight: tuple[float, float]
    first_time_ms: int
    last_time_ms: int


@dataclass(frozen=True, slots=True)
class Version:
    """One published model.

    Attributes
    ----------
    name : str
    number : int
        1, 2, 3, ... without a gap.
    model : Model
    labels : tuple of two labels
        The negative and the positive one, as they stand in the records.
    feature_names : tuple of str
        Empty, or one a feature.
    solver : str
    fit : Fit
    stream : StreamSummary
    lineage : Lineage
    audit : Audit or None
        What the model's objective over the whole stream is; None where no audit sample is kept.
    """

    name: str
    number: int
    model: Model
    labels: tuple[Label, Label]
    feature_names: tuple[str, ...]
    solver: str
    fit: Fit
    stream: StreamSummary
    lineage: Lineage
    audit: Audit | None = None

    @property
    def key(self) -> str:
        """Key of its record, name@number."""
        return version_key(self.name, self.number)


class GatePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One partition's part of the points that the quality gate scored: those from `begin` to before `end`.

    Attributes
    ----------
    partition : int
    begin, end : tuple of (int, int)
        Offset and row.
    """

    partition: int
    begin: tuple[int, int]
    end: tuple[int, int]


class GateRival(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A version that the quality gate compared with: its place, as an alias has it, and its balanced accuracy.

    Attributes
    ----------
    number : int
    sha256 : str
    offset : int
    balanced_accuracy : float or None
        None where nothing was scored.
    """

    number: int
    sha256: str
    offset: int
    balanced_accuracy: float | None


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the quality gate said of a version; see `streamsvm.quality.gate`.

    It depends on how much had been read when the version was ready, so it is never part of what is hashed.

    Attributes
    ----------
    outcome : "passed", "refused" or "unscored"
        Only "refused" leaves the alias `current` where it is.
    why : str
        Why it could not be scored; else empty.
    scored_on : "window", "audit", "training" or ""
        Points after the version's cut, the audit sample, or the training set.
    points : int
        How many.
    candidate, present : float or None
        Balanced accuracy of the version, and of the one that `current` names, on the same points.
    against : int or None
        Number of the latter.
    margin : float
        By how much the version may be worse.
    window : tuple of GatePart
        Where the points stand in the input; empty for the other samples.
    recent : tuple of GateRival
        What the version was compared with: the current one, then those that were current before, the newest first.
    """

    outcome: Literal["passed", "refused", "unscored"]
    why: str
    scored_on: Literal["window", "audit", "training", ""]
    points: int
    candidate: float | None
    present: float | None
    against: int | None
    margin: float
    window: tuple[GatePart, ...]
    recent: tuple[GateRival, ...] = ()


class TuningInForce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was chosen in place of the configured C and gamma, and at which cut; null is what stays as configured.

    Attributes
    ----------
    alpha, C, gamma : float or None
    cut : tuple of PartitionCut
    rows : int
        Rows seen up to there.
    """

    alpha: float | None
    C: float | None
    gamma: float | None
    cut: tuple[PartitionCut, ...]
    rows: int


class Alias(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an alias such as `name@current` names: a version's number, its value's SHA-256 and its record's offset."""

    number: int
    sha256: str
    offset: int


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the models topic stands: written by every transaction that publishes a version, read by a starting trainer.

    Attributes
    ----------
    number : int
        Of the newest version.
    incarnation : int
    cut : tuple of PartitionCut
    sha256 : str
        Of the newest version's value.
    offset : int
        Of its record in the models topic.
    training_set_sha256 : str
    build : mapping of str to str
    tuning : TuningInForce or None
        By which the newest version was trained; None where nothing is tuned.
    gate : Gate or None
        What the quality gate said of the newest version; None where there is no gate.
    links : tuple of Alias or unset
        What the next version links to (`streamsvm.model.ancestry`), as far as it is known; unset in records of
        builds that knew no links.
    """

    number: int
    incarnation: int
    cut: tuple[PartitionCut, ...]
    sha256: str
    offset: int
    training_set_sha256: str
    build: dict[str, str]
    tuning: TuningInForce | None = None
    gate: Gate | None = None
    links: tuple[Alias, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def alias(self) -> Alias:
        """What an alias says that names the newest version."""
        return Alias(self.number, self.sha256, self.offset)

    @property
    def next_links(self) -> tuple[Alias, ...]:
        """What the next version links to, as far as it is known."""
        return () if self.links is msgspec.UNSET else self.links


class Retired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which versions are retired: readers believe this record, and no tombstone, which any writer of models can forge.

    Attributes
    ----------
    below : int
        A trainer that keeps only the newest versions has retired every version of a lower number,
    kept : tuple of int
        but for these, which an alias or a pin named.
    others : tuple of int or unset
        Versions that people retired, ascending, beyond those below; unset where there are none.
    """

    below: int
    kept: tuple[int, ...]
    others: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET

    def __contains__(self, number: int) -> bool:
        """Tell whether a version is retired."""
        return (number < self.below and number not in self.kept) or number in (self.others or ())

    def with_others(self, numbers: Iterable[int]) -> Retired:
        """Return the record once people retired more versions."""
        others = {*(self.others or ()), *numbers}
        kept = tuple(number for number in self.kept if number not in others)
        beyond = tuple(sorted(number for number in others if number >= self.below))
        return Retired(self.below, kept, beyond or msgspec.UNSET)


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose process publishes: a random name of it, and when it took over (ISO 8601)."""

    session: str
    since: str


class _Linear(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="linear"):
    coefficients: list[float]
    intercept: float


class _Rbf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="rbf"):
    gamma: float
    support_vectors: str
    dual_coefficients: str
    intercept: float


class _Features(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dimension: int
    names: list[str]
    mean: list[float]
    scale: list[float]


class _Training1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    solver: str
    C: float
    gamma: float | None
    points: int
    weight: float
    support_vectors: int
    objective: float
    dual_objective: float | None
    kkt_gap: float | None
    iterations: int
    converged: bool
    class_weight: tuple[float, float] = (1.0, 1.0)


class _Training(_Training1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    class_weight: tuple[float, float]
    duality_gap: float | None


class _Audit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    objective: float
    low: float
    high: float
    points: int


class _Probes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: list[list[float]]
    decision: list[float]
    tolerance: list[float]
    probability: list[float] | None = None


class _Message1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    name: str
    version: int
    labels: tuple[bool | int | str, bool | int | str]
    features: _Features
    model: _Linear | _Rbf
    training: _Training1
    stream: StreamSummary
    lineage: _Lineage1


class _Message2(_Message1, frozen=True, forbid_unknown_fields=True):
    audit: _Audit | None


class _Message3(_Message2, frozen=True, forbid_unknown_fields=True):
    training: _Training
    probability: ProbabilityPart | None
    probes: _Probes


class _Message(_Message3, frozen=True, forbid_unknown_fields=True):
    lineage: _Lineage


_MESSAGES: Final[dict[str, type[_Message1]]] = {
    "streamsvm.model/1": _Message1,
    "streamsvm.model/2": _Message2,
    "streamsvm.model/3": _Message3,
    FORMAT: _Message,
}
"""One for each format that is still read; the newest is the one that is written."""
WITHOUT_LINKS: Final = frozenset(form for form, message in _MESSAGES.items() if not issubclass(message, _Message))
"""The formats whose lineages have no links."""


def version_key(name: str, number: int) -> str:
    """Return the key of a version's record."""
    return f"{name}@{number}"


def version_number(key: bytes | None, name: str) -> int | None:
    """Return the number in the key of a version of this name; None for any other key."""
    prefix = f"{name}@".encode()
    if key is None or not key.startswith(prefix):
        return None
    digits = key.removeprefix(prefix)
    return int(digits) if digits.isdigit() and len(digits) < 20 else None


def head_key(name: str) -> str:
    """Return the key of the head record."""
    return f"{name}@head"


def owner_key(name: str) -> str:
    """Return the key of a model's owner record."""
    return f"{name}@owner"


def retired_key(name: str) -> str:
    """Return the key of the record that says how far versions are retired."""
    return f"{name}@retired"


def current_key(name: str) -> str:
    """Return the key of the alias that the trainer moves."""
    return f"{name}@current"


def pin_key(name: str) -> str:
    """Return the key of the alias that people set to hold `current` where it is; readers obey it first."""
    return f"{name}@current#pin"


def sha256(value: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of a record's value."""
    return hashlib.sha256(value).hexdigest()


def partition_cuts(positions: Mapping[int, Position], leader_epochs: Mapping[int, int]) -> tuple[PartitionCut, ...]:
    """Write positions as a cut, in ascending order of partition."""
    return tuple(
        PartitionCut(partition, *positions[partition], leader_epochs.get(partition, -1))
        for partition in sorted(positions)
    )


def positions(cut: tuple[PartitionCut, ...]) -> dict[int, Position]:
    """Read positions back from a cut."""
    return {part.partition: Position(part.offset, part.row) for part in cut}


def links_after(before: Head | None, number: int) -> tuple[Alias, ...]:
    """Return what the version after version `number` links to, `before` being the head that `number` followed."""
    known = () if before is None else (*before.next_links, before.alias)
    return chosen(number + 1, ((one.number, one) for one in known))


class Place(msgspec.Struct, frozen=True):
    """What a version says about its place in the chain, without the rest of its message.

    Attributes
    ----------
    name : str
    version : int
    lineage : PlaceInChain
    """

    name: str
    version: int
    lineage: PlaceInChain

    @property
    def ancestors(self) -> tuple[Ancestor, ...]:
        """The versions that it names by their hashes: the parent first, then its links."""
        parent = self.lineage.parent
        first = () if parent is None or self.version == 1 else (Ancestor(self.version - 1, parent),)
        return (*first, *self.lineage.links)


class PlaceInChain(msgspec.Struct, frozen=True):
    """The part of a lineage that a `Place` reads."""

    parent: str | None
    links: tuple[Ancestor, ...] = ()


def place_of(value: bytes) -> Place:
    """Read a version's place from its value, of any format; cheaper than `decode`, which checks it all.

    Raises
    ------
    InvalidMessage
        If it has none.
    """
    return _decode_record(value, Place)


def encode(version: Version) -> bytes:
    """Encode a version's value: the same version gives the same bytes."""
    scaler, audit = version.model.scaler, version.audit
    return msgspec.json.encode(
        _Message(
            FORMAT,
            version.name,
            version.number,
            version.labels,
            _Features(
                version.model.dimension, list(version.feature_names), scaler.mean.tolist(), scaler.scale.tolist()
            ),
            _encode_machine(version.model.machine),
            _encode_training(version.solver, version.fit),
            version.stream,
            _recast(version.lineage, _Lineage),
            None if audit is None else _Audit(audit.objective, audit.low, audit.high, audit.points),
            probability_codec.encode(version.model.probability),
            _encode_probes(probes_of(version.model)),
        ),
        order="deterministic",
    )


def decode(value: bytes, expected_sha256: str | None = None) -> Version:
    """Decode and check a version's value.

    Raises
    ------
    UnknownFormat
        If it is of another format, which another build may read; an `InvalidMessage`.
    InvalidMessage
        If it is damaged or inconsistent in itself.
    """
    if expected_sha256 is not None and sha256(value) != expected_sha256:
        raise InvalidMessage(f"the value's SHA-256 is {sha256(value)}, not {expected_sha256} as its header says")
    try:
        form = msgspec.json.decode(value, type=_Format).format
        if form not in _MESSAGES:
            read = ", ".join(_MESSAGES)
            fault = UnknownFormat if form.startswith(_ANY_FORMAT) else InvalidMessage
            raise fault(f"the format is {form!r}, this build reads {read}", "Upgrade the reader.")
        message = msgspec.json.decode(value, type=_MESSAGES[form])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(f"the value is not a streamsvm.model message: {error}") from None
    return _checked(message)


class _Format(msgspec.Struct):
    format: str


def format_of(value: bytes) -> str:
    """Return which format a value says that it has."""
    return msgspec.json.decode(value, type=_Format).format


def as_format(value: bytes, form: str) -> bytes:
    """Return a value with no more than `form`, its own format or an older one, holds.

    Two values of different formats that say the same become the same bytes. They need not be those that were once
    published: the oldest messages left out `training.class_weight` where it is (1, 1).
    """
    message = msgspec.json.decode(value, type=_MESSAGES[format_of(value)])
    parts = {name: getattr(message, name) for name in _MESSAGES[form].__struct_fields__}
    parts["format"] = form
    if not issubclass(_MESSAGES[form], _Message):
        parts["lineage"] = _recast(message.lineage, _Lineage1)
    if not issubclass(_MESSAGES[form], _Message3):
        training = message.training
        parts["training"] = _Training1(**{name: getattr(training, name) for name in _Training1.__struct_fields__})
    return msgspec.json.encode(_MESSAGES[form](**parts), order="deterministic")


def _checked(message: _Message1) -> Version:
    features, training = message.features, message.training
    dimension = features.dimension
    if message.version < 1 or dimension < 1:
        raise InvalidMessage(f"version {message.version} with {dimension} features cannot be")
    scaler = Scaler(
        _bounded(_vector(features.mean, dimension, "mean"), "mean"),
        _bounded(_vector(features.scale, dimension, "scale"), "scale"),
    )
    if not (scaler.scale > 0).all():
        raise InvalidMessage("an entry of features.scale is not positive")
    if features.names and len(features.names) != dimension:
        raise InvalidMessage(f"features.names has {len(features.names)} names for {dimension} features")
    if not all(0.0 < weight < math.inf for weight in training.class_weight):
        raise InvalidMessage(f"training.class_weight is {training.class_weight}")
    names = tuple(features.names)
    model = Model(scaler, _decode_machine(message.model, dimension), _decode_probability(message), names)
    check_own(model, _decode_probes(message.probes, dimension) if isinstance(message, _Message3) else None)
    return Version(
        message.name,
        message.version,
        model,
        message.labels,
        names,
        training.solver,
        _decode_fit(training),
        message.stream,
        _decode_lineage(message),
        _decode_audit(message.audit) if isinstance(message, _Message2) else None,
    )


_FIT: Final = tuple(field.name for field in fields(Fit))


def _encode_training(solver: str, fit: Fit) -> _Training:
    return _Training(solver=solver, duality_gap=_duality_gap(fit), **{field: getattr(fit, field) for field in _FIT})


def _decode_fit(training: _Training1) -> Fit:
    fit = Fit(**{field: getattr(training, field) for field in _FIT})
    if isinstance(training, _Training) and training.duality_gap != _duality_gap(fit):
        raise InvalidMessage(
            f"training.duality_gap is {training.duality_gap}, the objectives are {_duality_gap(fit)} apart"
        )
    return fit


LineageForm = TypeVar("LineageForm", bound=_Lineage1)


def _recast(lineage: _Lineage1, form: type[LineageForm]) -> LineageForm:
    """Return a lineage with the fields of another form of it; what that has besides keeps its default."""
    shared = set(form.__struct_fields__).intersection(lineage.__struct_fields__)
    return form(**{name: getattr(lineage, name) for name in shared})


def _decode_lineage(message: _Message1) -> Lineage:
    lineage = _recast(message.lineage, Lineage)
    numbers = [link.number for link in lineage.links]
    if numbers != [number for number in linked(message.version) if number in numbers]:
        raise InvalidMessage(f"version {message.version} cannot link to {numbers}")
    if wrong := [link.sha256 for link in lineage.links if not SHA256.fullmatch(link.sha256)]:
        raise InvalidMessage(f"lineage.links holds {wrong[0]!r}, which is no SHA-256")
    return lineage


def _duality_gap(fit: Fit) -> float | None:
    return None if fit.dual_objective is None else fit.objective - fit.dual_objective


def _decode_probability(message: _Message1) -> Probability | None:
    return probability_codec.decode(message.probability) if isinstance(message, _Message3) else None


def _encode_probes(probes: Probes) -> _Probes:
    probability = None if probes.probability is None else probes.probability.tolist()
    return _Probes(probes.X.tolist(), probes.decision.tolist(), probes.tolerance.tolist(), probability)


def _decode_probes(probes: _Probes, dimension: int) -> Probes:
    count, most = len(probes.x), count_of(dimension)
    if not count:
        raise InvalidMessage("there are no probes")
    if count > most:  # each is evaluated against every support vector, twice
        raise InvalidMessage(f"there are {count} probes, a model of {dimension} features has at most {most}")
    return Probes(
        np.array([_vector(x, dimension, "a probe") for x in probes.x]),
        _vector(probes.decision, count, "probes.decision", "probes"),
        _vector(probes.tolerance, count, "probes.tolerance", "probes"),
        None if probes.probability is None else _vector(probes.probability, count, "probes.probability", "probes"),
    )


def _decode_audit(audit: _Audit | None) -> Audit | None:
    if audit is None:
        return None
    if not audit.low <= audit.objective <= audit.high or audit.points < 1:
        raise InvalidMessage(
            f"the audit of {audit.points} points says {audit.objective}, between {audit.low} and {audit.high}"
        )
    return Audit(audit.objective, audit.low, audit.high, audit.points)


def _encode_machine(machine: Machine) -> _Linear | _Rbf:
    if isinstance(machine, LinearMachine):
        return _Linear(machine.coefficients.tolist(), machine.intercept)
    return _Rbf(machine.kernel.gamma, _to_base64(machine.support), _to_base64(machine.dual), machine.intercept)


def _decode_machine(machine: _Linear | _Rbf, dimension: int) -> Machine:
    if not abs(machine.intercept) <= LARGEST:
        raise InvalidMessage(f"the intercept is {machine.intercept}")
    if isinstance(machine, _Linear):
        coefficients = _vector(machine.coefficients, dimension, "coefficients")
        return LinearMachine(_bounded(coefficients, "coefficients"), machine.intercept)
    if not 0 < machine.gamma < math.inf:
        raise InvalidMessage(f"gamma is {machine.gamma}")
    dual = _bounded(_from_base64(machine.dual_coefficients, "dual_coefficients"), "dual_coefficients")
    support = _bounded(_from_base64(machine.support_vectors, "support_vectors"), "support_vectors")
    if len(support) != len(dual) * dimension:
        raise InvalidMessage(f"{len(support)} support vector entries for {len(dual)} duals of {dimension} features")
    return KernelMachine(RbfKernel(machine.gamma), support.reshape(len(dual), dimension), dual, machine.intercept)


def _vector(entries: list[float], length: int, name: str, of: str = "features") -> Float:
    vector = np.array(entries, dtype=np.float64)
    if len(vector) != length:
        raise InvalidMessage(f"{name} has {len(vector)} entries for {length} {of}")
    if not np.isfinite(vector).all():
        raise InvalidMessage(f"an entry of {name} is not finite")
    return vector


def _bounded(array: Float, name: str) -> Float:
    if len(array) and (largest := float(np.abs(array).max())) > LARGEST:
        raise InvalidMessage(
            f"an entry of {name} is {largest:.3g} in magnitude; the largest that can be is {LARGEST:g}"
        )
    return array


def _to_base64(array: Float) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")


def _from_base64(text: str, name: str) -> Float:
    try:
        array = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64)
    except ValueError as error:
        raise InvalidMessage(f"{name} is not base64 of float64 values: {error}") from None
    if not np.isfinite(array).all():
        raise InvalidMessage(f"an entry of {name} is not finite")
    return array


def encode_head(head: Head) -> bytes:
    """Encode a head record's value."""
    return msgspec.json.encode(head)


def decode_head(value: bytes) -> Head:
    """Decode a head record's value; `InvalidMessage` if it is none."""
    return _decode_record(value, Head)


def encode_owner(owner: Owner) -> bytes:
    """Encode an owner record's value."""
    return msgspec.json.encode(owner)


def decode_owner(value: bytes) -> Owner:
    """Decode an owner record's value; `InvalidMessage` if it is none."""
    return _decode_record(value, Owner)


def encode_retired(retired: Retired) -> bytes:
    """Encode the value of the record that says how far versions are retired."""
    return msgspec.json.encode(retired)


def decode_retired(value: bytes) -> Retired:
    """Decode the value of that record; `InvalidMessage` if it is none."""
    return _decode_record(value, Retired)


def encode_alias(alias: Alias) -> bytes:
    """Encode an alias record's value."""
    return msgspec.json.encode(alias)


def decode_alias(value: bytes) -> Alias:
    """Decode an alias record's value; `InvalidMessage` if it is none."""
    return _decode_record(value, Alias)


def _decode_record(value: bytes, form: type[Record]) -> Record:
    try:
        return msgspec.json.decode(value, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(f"the value is not a {form.__name__.lower()} record: {error}") from None
