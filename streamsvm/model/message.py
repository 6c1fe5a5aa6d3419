"""Model versions and the records of the aliases topic, as JSON.

A version is one immutable record: its value holds the model, how it was fitted, and its lineage. The SHA-256 of the
value's bytes is in a header and in the alias records. Times are never part of the value, so that the same model has the
same bytes; they are in headers (CloudEvents, binary mode). JSON has as many digits of a float64 as are needed to read
the same float64 back.

The fields of a format are fixed: a reader refuses a value with one more or one less, so that no reader uses a model
that it does not understand. All formats can be read. Format 7 is written for a version of more than two labels, format
8 for one whose machine is in half precision, format 6 for another one of raw events, which has a recipe; format 5 for
any other version that has a threshold, format 4 for the rest: so a reader that knows no recipes, thresholds, further
labels or half precision goes on with versions that have none, and refuses those that it would get wrong.

======  ===================================================================================================
format  added
======  ===================================================================================================
1       (the first)
2       `audit`, an object or null: the model's estimated objective over the whole stream
3       `training.duality_gap`; `probes`: inputs with the decision values that a reader must get there (see
        `streamsvm.model.probes`), and the probabilities there, which the first messages of this format lack;
        `probability`, an object or null: the function from decision values to probabilities (see
        `streamsvm.model.probability_part`)
4       `lineage.links`: hashes of earlier versions besides the parent's (see `streamsvm.model.ancestry`)
5       `threshold`, an object: above which decision value the answer is the second label (see
        `streamsvm.model.threshold`)
6       `threshold` may be null; `recipe`: what an event becomes (see `streamsvm.features.recipe`); `examples`: events
        with the columns that a reader must make of them (see `streamsvm.features.examples`)
7       more than two `labels`; `scheme`: a machine for each pair of them, or for each (see `streamsvm.model.classes`).
        `model` has the coefficients and intercepts, or the dual coefficients, of all machines; `machines` how each was
        fitted, where `training` and `audit` are of all together; `probability` is a list, or null; each probe has a
        decision value and a tolerance for each machine, and a probability for each label. As format 4 but for that
8       `model` is an RBF machine in half precision, see `_HalfRbf`. As format 6 but for that, and `recipe` may be null,
        with no `examples` then
======  ===================================================================================================

`lineage.memory` stands in a version of any of these formats whose trainer forgets (`coreset.memory`), and is left out
of every other: it says what the version is of, changes nothing in how a reader scores, and one that does not check
lineages need not know it. So does `lineage.refined`, in what `streamsvm model refine` publishes,
and `lineage.built`, in what `streamsvm model build` does.

For other languages `schemas/model-4.schema.json` to `schemas/model-8.schema.json`, beside this module, describe these
as JSON Schemas; the header `ce_dataschema` names the one of the value.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import fields, replace
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np

from streamsvm.choices import Multiclass, Precision
from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.features.columns import columns_of
from streamsvm.features.examples import Example, disagreement, examples_of
from streamsvm.features.recipe import Recipe
from streamsvm.features.recipe import check as check_recipe
from streamsvm.model import probability_part as probability_codec
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.arrays import LARGEST, Bits, bounded, from_base64, to_base64, vector
from streamsvm.model.audit_part import AuditPart, decode_audit, encode_audit
from streamsvm.model.classes import ClassModel, machines_of
from streamsvm.model.classes_part import (
    LinearMachinesPart,
    MachineFitPart,
    ProbesOfClassesPart,
    RbfMachinesPart,
    decode_machine_fits,
    decode_machines,
    decode_probabilities,
    decode_probes,
    encode_machine_fits,
    encode_machines,
    encode_probabilities,
    encode_probes,
)
from streamsvm.model.described import label_fault
from streamsvm.model.fit import Fit
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.pointers import decode_record
from streamsvm.model.probability import Probability
from streamsvm.model.probability_part import ProbabilityPart
from streamsvm.model.probes import Probes, check_own, count_of, probes_of
from streamsvm.model.threshold import Threshold
from streamsvm.model.threshold import check as check_threshold
from streamsvm.model.version import (
    LEAST_KEPT,
    MOST_KEPT,
    MOST_PARTS,
    MOST_READS,
    Built,
    BuiltOf,
    Lineage,
    LineageOfFormat1,
    LineageOfFormat4,
    Memory,
    Refined,
    StreamSummary,
    Version,
)

FORMAT: Final = "streamsvm.model/4"
"""Of a version without a threshold."""
THRESHOLD_FORMAT: Final = "streamsvm.model/5"
"""Of a version with a threshold."""
RECIPE_FORMAT: Final = "streamsvm.model/6"
"""Of a version of raw events, which has a recipe."""
CLASSES_FORMAT: Final = "streamsvm.model/7"
"""Of a version of more than two labels."""
HALF_FORMAT: Final = "streamsvm.model/8"
"""Of a version whose machine is in half precision."""
WRITTEN: Final = (FORMAT, THRESHOLD_FORMAT, RECIPE_FORMAT, CLASSES_FORMAT, HALF_FORMAT)
_ANY_FORMAT: Final = FORMAT.split("/")[0] + "/"

CONTENT_TYPE: Final = "application/json"
SCHEMA: Final = "urn:streamsvm:schema:model:4"
"""`$id` of the JSON Schema of `FORMAT`."""
THRESHOLD_SCHEMA: Final = "urn:streamsvm:schema:model:5"
"""`$id` of the JSON Schema of `THRESHOLD_FORMAT`."""
RECIPE_SCHEMA: Final = "urn:streamsvm:schema:model:6"
"""`$id` of the JSON Schema of `RECIPE_FORMAT`."""
CLASSES_SCHEMA: Final = "urn:streamsvm:schema:model:7"
"""`$id` of the JSON Schema of `CLASSES_FORMAT`."""
HALF_SCHEMA: Final = "urn:streamsvm:schema:model:8"
"""`$id` of the JSON Schema of `HALF_FORMAT`."""

EVENT_TYPE: Final = "io.streamsvm.model.version"
SHA256_HEADER: Final = "streamsvm.sha256"
GATE_HEADER: Final = "streamsvm.gate"
GATE_ACCURACY_HEADER: Final = "streamsvm.gate.balanced_accuracy"
GATE_PRESENT_HEADER: Final = "streamsvm.gate.present.balanced_accuracy"
"""Of the version, on the points that the quality gate scored; left out where there were none."""

LINKS_HEADER: Final = "streamsvm.links"
"""Header with the offsets, in the models topic, of the records that the lineage names by hash: the parent, then the
links, separated by commas. They are hints, not part of the hash: a record found there must have the named hash."""

SIGNATURE_HEADER: Final = "streamsvm.signature"
"""Of a signed version; see `streamsvm.registry.signing`."""

SHA256: Final = re.compile("[0-9a-f]{64}")


class _Linear(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="linear"):
    coefficients: list[float]
    intercept: float


class _Rbf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="rbf"):
    gamma: float
    support_vectors: str
    dual_coefficients: str
    intercept: float


class _HalfRbf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kernel", tag="rbf"):
    """A kernel machine whose support vectors are float16 values and whose dual coefficients are float32 values."""

    gamma: float
    support_vectors: str
    dual_coefficients: str
    intercept: float
    precision: Literal["half"]


class _Features(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dimension: int
    names: list[str]
    mean: list[float]
    scale: list[float]


class _Training1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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


class _Probes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: list[list[float]]
    decision: list[float]
    tolerance: list[float]
    probability: list[float] | None = None


class _Message1(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: str
    name: str
    version: int
    labels: tuple[bool | int | str, bool | int | str]
    features: _Features
    model: _Linear | _Rbf
    training: _Training1
    stream: StreamSummary
    lineage: LineageOfFormat1


class _Message2(_Message1, frozen=True, forbid_unknown_fields=True, kw_only=True):
    audit: AuditPart | None


class _Message3(_Message2, frozen=True, forbid_unknown_fields=True, kw_only=True):
    training: _Training
    probability: ProbabilityPart | None
    probes: _Probes


class _Message(_Message3, frozen=True, forbid_unknown_fields=True, kw_only=True):
    lineage: LineageOfFormat4


class _Message5(_Message, frozen=True, forbid_unknown_fields=True, kw_only=True):
    threshold: Threshold


class _Message6(_Message, frozen=True, forbid_unknown_fields=True, kw_only=True):
    threshold: Threshold | None
    recipe: Recipe
    examples: tuple[Example, ...]


class _Message8(_Message, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: _HalfRbf  # type: ignore[assignment]
    threshold: Threshold | None
    recipe: Recipe | None
    examples: tuple[Example, ...]


class _TrainingOfClasses(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    class_weight: tuple[float, ...]
    duality_gap: float | None


class _Message7(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: str
    name: str
    version: int
    labels: tuple[bool | int | str, ...]
    scheme: Multiclass
    features: _Features
    model: LinearMachinesPart | RbfMachinesPart
    training: _TrainingOfClasses
    stream: StreamSummary
    lineage: LineageOfFormat4
    audit: AuditPart | None
    machines: tuple[MachineFitPart, ...]
    probability: tuple[ProbabilityPart, ...] | None
    probes: ProbesOfClassesPart


_AnyMessage = _Message1 | _Message7
_FORMS: Final[dict[str, type[_Message]]] = {
    FORMAT: _Message,
    THRESHOLD_FORMAT: _Message5,
    RECIPE_FORMAT: _Message6,
    HALF_FORMAT: _Message8,
}
"""The form of each format that is written of two labels."""
_MESSAGES: Final[dict[str, type[_Message1] | type[_Message7]]] = {
    "streamsvm.model/1": _Message1,
    "streamsvm.model/2": _Message2,
    "streamsvm.model/3": _Message3,
    **_FORMS,
    CLASSES_FORMAT: _Message7,
}
"""The form of each format that can be read."""

WITHOUT_LINKS: Final = frozenset(
    form for form, message in _MESSAGES.items() if not issubclass(message, _Message | _Message7)
)
"""The formats whose lineages have no links."""


def sha256(value: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of a record's value."""
    return hashlib.sha256(value).hexdigest()


class Place(msgspec.Struct, frozen=True):
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
    """The part of a lineage that a `Place` reads."""

    parent: str | None
    links: tuple[Ancestor, ...] = ()


def place_of(value: bytes) -> Place:
    """Read a version's place from its value, of any format; cheaper than `decode`, which checks everything.

    Raises
    ------
    InvalidMessage
        If the value does not hold a place.
    """
    return decode_record(value, Place)


def encode(version: Version) -> bytes:
    """Encode a version's value: the same version gives the same bytes."""
    return msgspec.json.encode(_message_of(version), order="deterministic")


def _message_of(version: Version) -> _AnyMessage:
    form, model, scaler = _format_of(version), version.model, version.model.scaler
    shared: dict[str, Any] = {
        "format": form,
        "name": version.name,
        "version": version.number,
        "labels": version.labels,
        "features": _Features(
            model.dimension, list(version.feature_names), scaler.mean.tolist(), scaler.scale.tolist()
        ),
        "stream": version.stream,
        "lineage": _recast(version.lineage, LineageOfFormat4),
        "audit": encode_audit(version.audit),
    }
    if isinstance(model, ClassModel):
        return _Message7(
            **shared,
            scheme=model.scheme,
            model=encode_machines(model.machine),
            training=_encode_training(version.solver, version.fit, _TrainingOfClasses),
            machines=encode_machine_fits(version.machines),
            probability=encode_probabilities(model.probabilities),
            probes=encode_probes(probes_of(model)),
        )
    shared["model"] = _encode_machine(model.machine)
    return _FORMS[form](
        **shared,
        training=_encode_training(version.solver, version.fit, _Training),
        probability=probability_codec.encode(model.probability),
        probes=_encode_probes(probes_of(model)),
        **_optional_parts(version),
    )


def _format_of(version: Version) -> str:
    if isinstance(version.model, ClassModel):
        return CLASSES_FORMAT
    if isinstance(version.model.machine, KernelMachine) and version.model.machine.precision == "half":
        return HALF_FORMAT
    if version.recipe is not None:
        return RECIPE_FORMAT
    return FORMAT if version.model.threshold is None else THRESHOLD_FORMAT


def _optional_parts(version: Version) -> dict[str, Any]:
    recipe, threshold = version.recipe, version.model.threshold
    if recipe is not None or _format_of(version) == HALF_FORMAT:
        examples = () if recipe is None else examples_of(recipe, columns_of(recipe))
        return {"threshold": threshold, "recipe": recipe, "examples": examples}
    return {} if threshold is None else {"threshold": threshold}


def decode(value: bytes, expected_sha256: str | None = None) -> Version:
    """Decode and check a version's value.

    Raises
    ------
    UnknownFormat
        If the value has another format, which another build may be able to read; an `InvalidMessage`.
    InvalidMessage
        If the value is damaged, or its parts contradict each other.
    """
    if expected_sha256 is not None and sha256(value) != expected_sha256:
        raise InvalidMessage(f"the value has the SHA-256 {sha256(value)}, but its header says {expected_sha256}")
    try:
        form = msgspec.json.decode(value, type=_Format).format
        if form not in _MESSAGES:
            read = ", ".join(_MESSAGES)
            fault = UnknownFormat if form.startswith(_ANY_FORMAT) else InvalidMessage
            raise fault(f"the message format is {form!r}, but this build reads {read}", "Upgrade the reader.")
        message = msgspec.json.decode(value, type=_MESSAGES[form])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage(f"the value is not a streamsvm.model message: {error}") from None
    return _checked(message)


class _Format(msgspec.Struct):
    format: str


def schema_of(version: Version) -> str:
    """Return the `$id` of the JSON Schema that a version's value obeys."""
    return _SCHEMAS[_format_of(version)]


_SCHEMAS: Final = {
    FORMAT: SCHEMA,
    THRESHOLD_FORMAT: THRESHOLD_SCHEMA,
    RECIPE_FORMAT: RECIPE_SCHEMA,
    CLASSES_FORMAT: CLASSES_SCHEMA,
    HALF_FORMAT: HALF_SCHEMA,
}


def format_of(value: bytes) -> str:
    """Return the format that a value names."""
    return msgspec.json.decode(value, type=_Format).format


def as_format(value: bytes, form: str) -> bytes:
    """Return a value reduced to the fields of `form`, its own format or an older one.

    Two values of different formats with the same content become the same bytes. These bytes can differ from the ones
    published once: the oldest messages left `training.class_weight` out if it was (1, 1).
    """
    own = format_of(value)
    if own == form:
        return msgspec.json.encode(msgspec.json.decode(value, type=_MESSAGES[form]), order="deterministic")
    message = msgspec.json.decode(value, type=_MESSAGES[own])
    parts = {name: getattr(message, name) for name in _MESSAGES[form].__struct_fields__}
    parts["format"] = form
    if isinstance(message, _Message8):
        machine = _decode_machine(message.model, message.features.dimension)
        assert isinstance(machine, KernelMachine)
        parts["model"] = _encode_machine(replace(machine, precision="double"))
    if form in WITHOUT_LINKS:
        parts["lineage"] = _recast(message.lineage, LineageOfFormat1)
    if not issubclass(_MESSAGES[form], _Message3):
        training = message.training
        parts["training"] = _Training1(**{name: getattr(training, name) for name in _Training1.__struct_fields__})
    return msgspec.json.encode(_MESSAGES[form](**parts), order="deterministic")


def _checked(message: _AnyMessage) -> Version:
    features, training, classes = message.features, message.training, len(message.labels)
    dimension = features.dimension
    if isinstance(message, _Message7) and classes < 3:
        raise InvalidMessage(f"format 7 is of more than two labels, not of {classes}")
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
    if features.names and len(features.names) != dimension:
        raise InvalidMessage(f"features.names has {len(features.names)} names for {dimension} features")
    if len(training.class_weight) != classes or not all(0.0 < weight < math.inf for weight in training.class_weight):
        raise InvalidMessage(f"training.class_weight is {training.class_weight}")
    _check_summaries(message, classes)
    names = tuple(features.names)
    if isinstance(message, _Message7):
        return _version_of_classes(message, scaler, names)
    return _version_of_two(message, scaler, names)


def _check_summaries(message: _AnyMessage, classes: int) -> None:
    """Refuse weights of another number of labels."""
    summaries = [("stream", message.stream)]
    if isinstance(message.lineage, LineageOfFormat4) and isinstance(message.lineage.memory, Memory):
        summaries += [("lineage.memory", held.before) for held in message.lineage.memory.partitions]
    for part, summary in summaries:
        if len(summary.class_weight) != classes:
            raise InvalidMessage(f"{part} has {len(summary.class_weight)} class weights for {classes} labels")


def _version_of_classes(message: _Message7, scaler: Scaler, names: tuple[str, ...]) -> Version:
    dimension, classes = len(scaler.mean), len(message.labels)
    count = machines_of(classes, message.scheme)
    machines, functions = decode_machines(message.model, dimension, count), message.probability
    model = ClassModel(scaler, machines, classes, message.scheme, decode_probabilities(functions, count), names)
    check_own(model, decode_probes(message.probes, dimension, classes, count))
    return Version(
        name=message.name,
        number=message.version,
        model=model,
        labels=message.labels,
        feature_names=names,
        solver=message.training.solver,
        fit=_decode_fit(message.training),
        stream=message.stream,
        lineage=_decode_lineage(message),
        audit=decode_audit(message.audit),
        machines=decode_machine_fits(message.machines, count),
    )


def _version_of_two(message: _Message1, scaler: Scaler, names: tuple[str, ...]) -> Version:
    training, dimension = message.training, len(scaler.mean)
    found = message.threshold if isinstance(message, _Message5 | _Message6 | _Message8) else None
    threshold = None if found is None else check_threshold(found)
    recipe = None
    if isinstance(message, _Message6 | _Message8) and message.recipe is not None:
        recipe = _checked_recipe(message.recipe, message, names)
    model = Model(scaler, _decode_machine(message.model, dimension), _decode_probability(message), names, threshold)
    check_own(model, _decode_probes(message.probes, dimension) if isinstance(message, _Message3) else None)
    return Version(
        name=message.name,
        number=message.version,
        model=model,
        labels=message.labels,
        feature_names=names,
        solver=training.solver,
        fit=_decode_fit(training),
        stream=message.stream,
        lineage=_decode_lineage(message),
        audit=decode_audit(message.audit) if isinstance(message, _Message2) else None,
        recipe=recipe,
    )


def _checked_recipe(recipe: Recipe, message: _Message6 | _Message8, names: tuple[str, ...]) -> Recipe:
    label = recipe.label
    try:
        check_recipe(recipe)
        columns = columns_of(recipe)
    except ValueError as error:
        raise InvalidMessage(f"the recipe cannot be evaluated: {error}") from None
    if columns.names != names:
        raise InvalidMessage(f"the recipe makes {len(columns.names)} columns, which are not those of features.names")
    if label is not None and (label.negative[0], label.positive[0]) != message.labels:
        raise InvalidMessage(
            f"the recipe's labels are not the version's, {message.labels[0]!r} and {message.labels[1]!r}"
        )
    if recipe.plain() != message.lineage.configuration.get("features"):
        raise InvalidMessage("the recipe is not the one in lineage.configuration")
    if fault := disagreement(columns, message.examples):
        raise InvalidMessage(fault)
    return recipe


_FIT: Final = tuple(field.name for field in fields(Fit))


TrainingForm = TypeVar("TrainingForm", _Training, _TrainingOfClasses)


def _encode_training(solver: str, fit: Fit, form: type[TrainingForm]) -> TrainingForm:
    return form(solver=solver, duality_gap=_duality_gap(fit), **{field: getattr(fit, field) for field in _FIT})


def _decode_fit(training: _Training1 | _TrainingOfClasses) -> Fit:
    fit = Fit(**{field: getattr(training, field) for field in _FIT})
    if isinstance(training, _Training | _TrainingOfClasses) and training.duality_gap != _duality_gap(fit):
        raise InvalidMessage(
            f"training.duality_gap is {training.duality_gap}, but the objectives differ by {_duality_gap(fit)}"
        )
    return fit


LineageForm = TypeVar("LineageForm", bound=LineageOfFormat1)


def _recast(lineage: LineageOfFormat1, form: type[LineageForm]) -> LineageForm:
    """Return a lineage in another form; fields that only the other form has get their defaults."""
    shared = set(form.__struct_fields__).intersection(lineage.__struct_fields__)
    return form(**{name: getattr(lineage, name) for name in shared})


def _decode_lineage(message: _AnyMessage) -> Lineage:
    lineage = _recast(message.lineage, Lineage)
    numbers = [link.number for link in lineage.links]
    if numbers != [number for number in linked(message.version) if number in numbers]:
        raise InvalidMessage(f"version {message.version} cannot have lineage.links to {numbers}")
    if wrong := [link.sha256 for link in lineage.links if not SHA256.fullmatch(link.sha256)]:
        raise InvalidMessage(f"lineage.links holds {wrong[0]!r}, which is not a SHA-256")
    if isinstance(lineage.refined, Refined):
        _check_refined(lineage.refined)
    if isinstance(lineage.built, Built):
        _check_built(lineage.built, lineage)
    return lineage


def _check_built(built: Built, lineage: Lineage) -> None:
    """See that a version's parts follow one another, and lie between its base and its cut."""
    if not 1 <= len(built.parts) <= MOST_PARTS:
        raise InvalidMessage(f"lineage.built has {len(built.parts)} parts; possible are 1 to {MOST_PARTS}")
    if min(built.leaf_rows, built.span_rows, built.bucket_points) < 1 or built.span_rows % built.leaf_rows:
        raise InvalidMessage(
            f"lineage.built has leaves of {built.leaf_rows} rows, spans of {built.span_rows} and buckets of "
            f"{built.bucket_points} points, which do not fit together"
        )
    first, last = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    for part in built.parts:
        at = last.get(part.partition, (0, 0))
        follows = at <= part.start < part.end and min(*part.start, *part.end) >= 0
        if not follows or (last and max(last) > part.partition) or not _is_part(part, built.span_rows):
            raise InvalidMessage(
                f"lineage.built has a part of partition {part.partition}, level {part.level}, offsets {part.start[0]} "
                f"to {part.end[0]}, which is not valid after the parts before it"
            )
        first.setdefault(part.partition, part.start)
        last[part.partition] = part.end
    if any(
        found != {cut.partition: (cut.offset, cut.row) for cut in named}
        for found, named in ((first, lineage.base), (last, lineage.cut))
    ):
        raise InvalidMessage("lineage.built does not begin at the version's base and end at its cut")


def _is_part(part: BuiltOf, span_rows: int) -> bool:
    if not part.level:
        return not part.first_row and not part.sha256
    rows = span_rows << min(part.level, 62) - 1
    return (
        1 <= part.level <= 62
        and 0 <= part.first_row < 1 << 62
        and not part.first_row % rows
        and bool(SHA256.fullmatch(part.sha256))
    )


def _check_refined(refined: Refined) -> None:
    if not SHA256.fullmatch(refined.sha256):
        raise InvalidMessage(f"lineage.refined.sha256 is {refined.sha256!r}, which is not a SHA-256")
    is_possible = 1 <= refined.reads <= MOST_READS and LEAST_KEPT <= refined.keep <= MOST_KEPT
    if refined.number < 1 or not is_possible:
        raise InvalidMessage(
            f"lineage.refined names version {refined.number}, {refined.reads} reads and {refined.keep} rows kept; "
            f"possible are versions from 1 on, 1 to {MOST_READS} reads, and {LEAST_KEPT} to {MOST_KEPT} rows"
        )
    if not 0.0 <= refined.bound <= refined.objective < math.inf:
        raise InvalidMessage(
            f"lineage.refined has the objective {refined.objective} and the bound {refined.bound}: the bound must be "
            "0 or more, and not above the objective"
        )


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
        raise InvalidMessage(f"there are {count} probes, but a model of {dimension} features has at most {most}")
    return Probes(
        np.array([vector(x, dimension, "a probe") for x in probes.x]),
        vector(probes.decision, count, "probes.decision", "probes"),
        vector(probes.tolerance, count, "probes.tolerance", "probes"),
        None if probes.probability is None else vector(probes.probability, count, "probes.probability", "probes"),
    )


def _encode_machine(machine: Machine) -> _Linear | _Rbf | _HalfRbf:
    if isinstance(machine, LinearMachine):
        return _Linear(machine.coefficients.tolist(), machine.intercept)
    if machine.precision == "half":
        arrays = to_base64(machine.support, 16), to_base64(machine.dual, 32)
        return _HalfRbf(machine.kernel.gamma, *arrays, machine.intercept, "half")
    return _Rbf(machine.kernel.gamma, to_base64(machine.support), to_base64(machine.dual), machine.intercept)


def _decode_machine(machine: _Linear | _Rbf | _HalfRbf, dimension: int) -> Machine:
    if not abs(machine.intercept) <= LARGEST:
        raise InvalidMessage(f"the intercept is {machine.intercept}, which is not valid")
    if isinstance(machine, _Linear):
        coefficients = vector(machine.coefficients, dimension, "coefficients")
        return LinearMachine(bounded(coefficients, "coefficients"), machine.intercept)
    if not 0 < machine.gamma < math.inf:
        raise InvalidMessage(f"gamma is {machine.gamma}, which is not valid")
    precision: Precision = "half" if isinstance(machine, _HalfRbf) else "double"
    bits: tuple[Bits, Bits] = (32, 16) if precision == "half" else (64, 64)
    dual = bounded(from_base64(machine.dual_coefficients, "dual_coefficients", bits[0]), "dual_coefficients")
    support = bounded(from_base64(machine.support_vectors, "support_vectors", bits[1]), "support_vectors")
    if len(support) != len(dual) * dimension:
        raise InvalidMessage(
            f"{len(support)} support vector entries do not fit {len(dual)} dual coefficients and {dimension} features"
        )
    rows = support.reshape(len(dual), dimension)
    return KernelMachine(RbfKernel(machine.gamma), rows, dual, machine.intercept, precision)
