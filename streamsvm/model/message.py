"""Model versions as JSON messages: one format, a fixed trunk and named parts.

A version is one immutable record: its value holds the model, how it was fitted, and its lineage. The SHA-256 of the
value's bytes is in a header and in the alias records. Times are never part of the value, so that the same model has the
same bytes; they are in headers. JSON has as many digits of a float64 as are needed to read
the same float64 back.

The *trunk* is what every version has: name, number, labels, features with their scaling, the machine, how it was
fitted, what it covers, its lineage, and probes (see `streamsvm.model.probes`). A version has one machine of two labels,
several of more: every list of machines has one entry in the first case. The field `parts` holds what only some versions
have (see `streamsvm.model.parts`), each under a name; `streamsvm.named_parts` has the rule by which a reader passes
over a part that it does not know, or refuses the version. Inside the trunk and inside a part the fields are fixed: one
more or one less is refused, so that no reader uses a model that it does not understand.

For other languages `schemas/model-1.schema.json`, beside this module, describes all of it as one JSON Schema; the
header `streamsvm.schema` names it.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.model import parts
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.arrays import SHA256, Bits, bounded, from_base64, table, to_base64, vector
from streamsvm.model.classes import AdditiveMachines, AnyModel, ClassModel, KernelMachines, LinearMachines, Machines
from streamsvm.model.described import label_fault
from streamsvm.model.fit import Fit, MachineFit
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.parts.draft import Draft
from streamsvm.model.pointers import decode_record
from streamsvm.model.probes import Probes, check_own, count_of, probes_of
from streamsvm.model.version import Lineage, LineageTrunk, StreamSummary, Version

FORMAT: Final = "streamsvm.model/1"
_ANY_FORMAT: Final = FORMAT.split("/")[0] + "/"
_OTHER_BUILD: Final = (
    "Upgrade the reader. If no build reads it, the version is from before the first release: publish under a new name, "
    "or start the trainer with --reset."
)

CONTENT_TYPE: Final = "application/json"
SCHEMA: Final = "urn:streamsvm:schema:model:1"
"""`$id` of the JSON Schema of `FORMAT`."""

SCHEMA_HEADER: Final = "streamsvm.schema"
SHA256_HEADER: Final = "streamsvm.sha256"
TIME_HEADER: Final = "streamsvm.time"
"""When the model was made, in ISO 8601 with a time zone."""

GATE_HEADER: Final = "streamsvm.gate"
GATE_ACCURACY_HEADER: Final = "streamsvm.gate.balanced_accuracy"
GATE_PRESENT_HEADER: Final = "streamsvm.gate.present.balanced_accuracy"
"""Of the version, on the points that the quality gate scored; left out where there were none."""

SIGNATURE_HEADER: Final = "streamsvm.signature"
"""Of a signed version; see `streamsvm.registry.signing`."""


class _Linear(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="linear"):
    """Coefficients, a list for each machine."""

    coefficients: list[list[float]]
    intercepts: list[float]


class _Rbf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="rbf"):
    """Base64 of s support vectors, of any of the machines, and of a row of s dual coefficients for each machine."""

    gamma: float
    support_vectors: str
    dual_coefficients: str
    intercepts: list[float]


class _Additive(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="additive"):
    """What curves and surfaces, in the part `additive`, are added to, for each machine."""

    intercepts: list[float]


class _Features(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dimension: int
    names: list[str]
    mean: list[float]
    scale: list[float]


class _Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    C: float
    gamma: float | None
    points: int
    weight: float
    support_vectors: int
    objective: float
    dual_objective: float | None
    kkt_gap: float | None
    duality_gap: float | None
    iterations: int
    converged: bool
    class_weight: tuple[float, ...]


class _Probes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points, and for each a decision value and a tolerance of every machine."""

    x: list[list[float]]
    decision: list[list[float]]
    tolerance: list[list[float]]


class _Trunk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: str
    name: str
    version: int
    labels: tuple[bool | int | str, ...]
    features: _Features
    model: _Linear | _Rbf | _Additive
    training: _Training
    stream: StreamSummary
    lineage: LineageTrunk
    probes: _Probes


class _Message(_Trunk, frozen=True, forbid_unknown_fields=True, kw_only=True):
    parts: list[msgspec.Raw]


class _Encoded(_Trunk, frozen=True, kw_only=True):
    parts: list[msgspec.Struct]


class _Format(msgspec.Struct):
    format: str
    parts: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def sha256(value: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of a record's value."""
    return hashlib.sha256(value).hexdigest()


class ChainPosition(msgspec.Struct, frozen=True):
    """A version's place in the chain, without the rest of its message.

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
        """The versions that this one names by their hashes: the parent first, then its links."""
        parent = self.lineage.parent
        first = () if parent is None or self.version == 1 else (Ancestor(self.version - 1, parent),)
        return (*first, *self.lineage.links)


class PlaceInChain(msgspec.Struct, frozen=True):
    """The part of a lineage that a `ChainPosition` reads."""

    parent: str | None
    links: tuple[Ancestor, ...] = ()


def place_of(value: bytes) -> ChainPosition:
    """Read a version's place from its value; cheaper than `decode`, which checks everything.

    Raises
    ------
    InvalidMessage
        If the value does not hold a place.
    """
    return decode_record(value, ChainPosition)


def headers(value_sha256: str, time: datetime, extra: Mapping[str, str]) -> tuple[tuple[str, bytes], ...]:
    """Return a version's headers: the schema and the hash of its value, when it was made, and `extra` ones.

    Parameters
    ----------
    value_sha256 : str
    time : datetime
        When the model was made, with a time zone.
    extra : mapping
        Timings, incarnation and the like.
    """
    named = {
        "content-type": CONTENT_TYPE,
        SCHEMA_HEADER: SCHEMA,
        SHA256_HEADER: value_sha256,
        TIME_HEADER: time.isoformat(),
        **extra,
    }
    return tuple((name, text.encode()) for name, text in named.items())


def encode(version: Version) -> bytes:
    """Encode a version's value: the same version gives the same bytes."""
    model, scaler = version.model, version.model.scaler
    message = _Encoded(
        format=FORMAT,
        name=version.name,
        version=version.number,
        labels=version.labels,
        features=_Features(model.dimension, list(version.feature_names), scaler.mean.tolist(), scaler.scale.tolist()),
        model=_encode_machines(model),
        training=_Training(
            duality_gap=_duality_gap(version.fit), **{name: getattr(version.fit, name) for name in _FIT}
        ),
        stream=version.stream,
        lineage=LineageTrunk(**{name: getattr(version.lineage, name) for name in LineageTrunk.__struct_fields__}),
        probes=_encode_probes(probes_of(model)),
        parts=parts.encoded(version),
    )
    return msgspec.json.encode(message, order="deterministic")


def content_sha256(version: Version) -> str:
    """Hash what rows, configuration and cut decide of a version, as `encode` writes it.

    The same rows, in the same partitions and order from offset 0 on, one a record, give the same hash under every name,
    in every topic and at every time. Left out are the name and number, the topic and its id, when and in which epoch of
    a leader records were written, what was published before, and the build.
    """
    lineage = version.lineage
    cuts = {
        name: None if cut is None else tuple(msgspec.structs.replace(part, leader_epoch=-1) for part in cut)
        for name, cut in (("cut", lineage.cut), ("tuned_at", lineage.tuned_at))
    }
    memory = lineage.memory
    if memory is not None:
        partitions = tuple(msgspec.structs.replace(one, before=_without_times(one.before)) for one in memory.partitions)
        memory = msgspec.structs.replace(memory, partitions=partitions)
    own = msgspec.structs.replace(
        lineage, parent=None, topic="", topic_id="", base=(), build={}, links=(), memory=memory, **cuts
    )
    return sha256(encode(replace(version, name="", number=0, stream=_without_times(version.stream), lineage=own)))


def _without_times(stream: StreamSummary) -> StreamSummary:
    return msgspec.structs.replace(stream, first_time_ms=-1, last_time_ms=-1)


def decode(value: bytes, expected_sha256: str | None = None) -> Version:
    """Decode and check a version's value.

    Raises
    ------
    UnknownFormat
        If the value has another format, or a part that this build does not know and that its name does not allow to
        pass over; another build may be able to read it. An `InvalidMessage`.
    InvalidMessage
        If the value is damaged, or its parts contradict each other.
    """
    if expected_sha256 is not None and sha256(value) != expected_sha256:
        raise InvalidMessage(f"the value has the SHA-256 {sha256(value)}, but its header says {expected_sha256}")
    try:
        str(value, "utf-8")  # msgspec does not look inside text that it passes over
        _check_format(msgspec.json.decode(value, type=_Format))
        message = msgspec.json.decode(value, type=_Message)
        return _checked(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(f"the value is not a streamsvm.model message: {error}") from None


def _check_format(found: _Format) -> None:
    if found.format != FORMAT:
        what = f"the message format is {found.format!r}, but this build reads {FORMAT}"
        raise UnknownFormat(what, _OTHER_BUILD) if found.format.startswith(_ANY_FORMAT) else InvalidMessage(what)
    if found.parts is msgspec.UNSET:
        raise UnknownFormat("the message has no list `parts`", _OTHER_BUILD)


def _checked(message: _Message) -> Version:
    features, training, count = message.features, message.training, len(message.labels)
    dimension, names = features.dimension, tuple(features.names)
    if fault := label_fault(message.labels):
        raise InvalidMessage(f"labels {fault}")
    if message.version < 1 or dimension < 1:
        raise InvalidMessage(f"a version {message.version} with {dimension} features is not valid")
    scaler = Scaler(
        bounded(vector(features.mean, dimension, "mean"), "mean"),
        bounded(vector(features.scale, dimension, "scale"), "scale"),
    )
    if not (scaler.scale > 0).all():
        raise InvalidMessage("an entry of features.scale is not positive")
    if names and len(names) != dimension:
        raise InvalidMessage(f"features.names has {len(names)} names for {dimension} features")
    if len(training.class_weight) != count or not all(0.0 < weight < math.inf for weight in training.class_weight):
        raise InvalidMessage(f"training.class_weight is {training.class_weight}")
    if len(message.stream.class_weight) != count:
        raise InvalidMessage(f"stream has {len(message.stream.class_weight)} class weights for {count} labels")
    _check_links(message)
    draft = Draft(labels=message.labels, names=names, probes=len(message.probes.x), lineage=message.lineage)
    passed_over = parts.decode_into(draft, message.parts)
    return Version(
        name=message.name,
        number=message.version,
        model=_model_of(message, scaler, draft),
        labels=message.labels,
        feature_names=names,
        fit=_decode_fit(training),
        stream=message.stream,
        lineage=Lineage(**msgspec.structs.asdict(message.lineage), **draft.more, facts=tuple(draft.facts)),
        audit=draft.audit,
        machines=_fits_of(draft),
        recipe=draft.recipe,
        passed_over=passed_over,
    )


def _fits_of(draft: Draft) -> tuple[MachineFit, ...]:
    audits = draft.audits or (None,) * len(draft.fits)
    return tuple(replace(fit, audit=audit) for fit, audit in zip(draft.fits, audits, strict=True))


def _model_of(message: _Message, scaler: Scaler, draft: Draft) -> AnyModel:
    """Return the model, compared with the probes that came with it."""
    dimension = len(scaler.mean)
    probes = _decode_probes(message.probes, dimension, draft)
    if draft.scheme is not None:
        machines = _decode_machines(message.model, dimension, draft)
        model: AnyModel = ClassModel(scaler, machines, len(draft.labels), draft.scheme, draft.functions, draft.names)
    else:
        probability = None if draft.functions is None else draft.functions[0]
        model = Model(scaler, _single(message.model, dimension, draft), probability, draft.names, draft.threshold)
        expected = probes.probability
        if expected is not None:
            expected = expected[:, 0]
        probes = Probes(probes.X, probes.decision[:, 0], probes.tolerance[:, 0], expected)
    check_own(model, probes)
    return model


_FIT: Final = tuple(field.name for field in fields(Fit))


def _decode_fit(training: _Training) -> Fit:
    fit = Fit(**{name: getattr(training, name) for name in _FIT})
    if training.duality_gap != _duality_gap(fit):
        raise InvalidMessage(
            f"training.duality_gap is {training.duality_gap}, but the objectives differ by {_duality_gap(fit)}"
        )
    return fit


def _duality_gap(fit: Fit) -> float | None:
    return None if fit.dual_objective is None else fit.objective - fit.dual_objective


def _check_links(message: _Message) -> None:
    links = message.lineage.links
    numbers = [link.number for link in links]
    if numbers != [number for number in linked(message.version) if number in numbers]:
        raise InvalidMessage(f"version {message.version} cannot have lineage.links to {numbers}")
    if wrong := [link.sha256 for link in links if not SHA256.fullmatch(link.sha256)]:
        raise InvalidMessage(f"lineage.links holds {wrong[0]!r}, which is not a SHA-256")


def _encode_probes(probes: Probes) -> _Probes:
    count = len(probes.X)
    return _Probes(
        probes.X.tolist(), probes.decision.reshape(count, -1).tolist(), probes.tolerance.reshape(count, -1).tolist()
    )


def _decode_probes(probes: _Probes, dimension: int, draft: Draft) -> Probes:
    """Return the probes, of which decision and tolerance have a column for each machine."""
    count, most = len(probes.x), count_of(dimension)
    if not 1 <= count <= most:  # each is evaluated against every support vector, twice
        raise InvalidMessage(f"there are {count} probes, but a model of {dimension} features has 1 to {most}")
    decision, tolerance = (
        table(rows, count, draft.machines, f"probes.{name}", "machines")
        for name, rows in (("decision", probes.decision), ("tolerance", probes.tolerance))
    )
    X = np.array([vector(x, dimension, "a probe") for x in probes.x])
    return Probes(X, decision, tolerance, draft.shares)


def _encode_machines(model: AnyModel) -> _Linear | _Rbf | _Additive:
    machine = model.machine
    match machine:
        case AdditiveMachine():
            return _Additive([machine.intercept])
        case AdditiveMachines():
            return _Additive(machine.intercepts.tolist())
        case LinearMachine():
            return _Linear([machine.coefficients.tolist()], [machine.intercept])
        case LinearMachines():
            return _Linear(machine.coefficients.tolist(), machine.intercepts.tolist())
        case KernelMachine():
            intercepts = [machine.intercept]
        case KernelMachines():
            intercepts = machine.intercepts.tolist()
    packing = machine.packing if isinstance(machine, KernelMachine) else None
    if packing is None:
        support, dual = to_base64(machine.support), to_base64(machine.dual)
    else:
        support = base64.b64encode(packing.grid.packed(machine.support).tobytes()).decode("ascii")
        dual = to_base64(machine.dual, 32)
    return _Rbf(machine.kernel.gamma, support, dual, intercepts)


def _decode_machines(form: _Linear | _Rbf | _Additive, dimension: int, draft: Draft) -> Machines:
    count = draft.machines
    intercepts = bounded(vector(form.intercepts, count, "model.intercepts", "machines"), "model.intercepts")
    if isinstance(form, _Additive) != bool(draft.additive):
        raise InvalidMessage("the part 'additive' and the kernel 'additive' belong together")
    if draft.packing is not None and not isinstance(form, _Rbf):
        raise InvalidMessage("the part 'packed' is for rbf machines")
    if isinstance(form, _Additive):
        if other := [len(one.knots) for one in draft.additive if len(one.knots) != dimension]:
            raise InvalidMessage(f"the part 'additive' has {other[0]} curves for {dimension} features")
        pairs = zip(draft.additive, intercepts.tolist(), strict=True)
        return AdditiveMachines(tuple(replace(one, intercept=intercept) for one, intercept in pairs))
    if isinstance(form, _Linear):
        if len(form.coefficients) != count:
            raise InvalidMessage(f"model.coefficients has {len(form.coefficients)} lists for {count} machines")
        rows = [vector(row, dimension, "coefficients") for row in form.coefficients]
        return LinearMachines(bounded(np.array(rows), "coefficients"), intercepts)
    if not 0 < form.gamma < math.inf:
        raise InvalidMessage(f"gamma is {form.gamma}, which is not valid")
    packing = draft.packing
    bits: Bits = 64 if packing is None else 32
    dual = bounded(from_base64(form.dual_coefficients, "dual_coefficients", bits), "dual_coefficients")
    if packing is None:
        support = from_base64(form.support_vectors, "support_vectors")
    else:
        if len(packing.grid.bits) != dimension:
            raise InvalidMessage(f"the part 'packed' has {len(packing.grid.bits)} columns for {dimension} features")
        support = packing.grid.unpacked(form.support_vectors, len(dual)).ravel()
    support = bounded(support, "support_vectors")
    vectors_count = len(support) // dimension
    if len(support) != vectors_count * dimension or len(dual) != vectors_count * count:
        raise InvalidMessage(
            f"{len(support)} support vector entries do not fit {len(dual)} dual coefficients, {dimension} features and "
            f"{count} machines"
        )
    vectors = support.reshape(vectors_count, dimension)
    return KernelMachines(RbfKernel(form.gamma), vectors, dual.reshape(count, vectors_count), intercepts)


def _single(form: _Linear | _Rbf | _Additive, dimension: int, draft: Draft) -> Machine:
    """Return the one machine of two labels, with every support vector that the message has."""
    machines = _decode_machines(form, dimension, draft)
    if isinstance(machines, KernelMachines):
        intercept = float(machines.intercepts[0])
        return KernelMachine(machines.kernel, machines.support, machines.dual[0], intercept, draft.packing)
    return machines.machine(0)
