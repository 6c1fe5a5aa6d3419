"""Model versions and the records of the aliases topic, as JSON.

A version is one immutable record: its value holds the model, how it was fitted, and its lineage. The SHA-256 of the
value's bytes is in a header and in the alias records. Times are never part of the value, so that the same model has the
same bytes; they are in headers (CloudEvents, binary mode). JSON has as many digits of a float64 as are needed to read
the same float64 back.

The fields of a format are fixed: a reader refuses a value with one more or one less, so that no reader uses a model
that it does not understand. All formats can be read. Format 6 is written for a version of raw events, which has a
recipe; format 5 for any other version that has a threshold, format 4 for the rest: so a reader that knows no recipes
or thresholds goes on with versions that have none, and refuses those that it would get wrong.

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
======  ===================================================================================================

`lineage.memory` stands in a version of any of these formats whose trainer forgets (`coreset.memory`), and is left out
of every other: it says what the version is of, changes nothing in how a reader scores, and one that does not check
lineages need not know it.

For other languages `schemas/model-4.schema.json` to `schemas/model-6.schema.json`, beside this module, describe these
as JSON Schemas; the header `ce_dataschema` names the one of the value.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import fields
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.features.columns import columns_of
from streamsvm.features.examples import Example, disagreement, examples_of
from streamsvm.features.recipe import Recipe
from streamsvm.features.recipe import check as check_recipe
from streamsvm.model import probability_part as probability_codec
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.pointers import decode_record
from streamsvm.model.probability import Probability
from streamsvm.model.probability_part import ProbabilityPart
from streamsvm.model.probes import Probes, check_own, count_of, probes_of
from streamsvm.model.threshold import Threshold
from streamsvm.model.threshold import check as check_threshold
from streamsvm.model.version import Lineage, LineageOfFormat1, LineageOfFormat4, StreamSummary, Version

FORMAT: Final = "streamsvm.model/4"
"""Of a version without a threshold."""
THRESHOLD_FORMAT: Final = "streamsvm.model/5"
"""Of a version with a threshold."""
RECIPE_FORMAT: Final = "streamsvm.model/6"
"""Of a version of raw events, which has a recipe."""
WRITTEN: Final = (FORMAT, THRESHOLD_FORMAT, RECIPE_FORMAT)
_ANY_FORMAT: Final = FORMAT.split("/")[0] + "/"

CONTENT_TYPE: Final = "application/json"
SCHEMA: Final = "urn:streamsvm:schema:model:4"
"""`$id` of the JSON Schema of `FORMAT`."""
THRESHOLD_SCHEMA: Final = "urn:streamsvm:schema:model:5"
"""`$id` of the JSON Schema of `THRESHOLD_FORMAT`."""
RECIPE_SCHEMA: Final = "urn:streamsvm:schema:model:6"
"""`$id` of the JSON Schema of `RECIPE_FORMAT`."""

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

LARGEST: Final = 1e150
"""Largest magnitude of any number in a model. Beyond it squares overflow, and a decision value would depend on the
number of points that are scored at once."""


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
    audit: _Audit | None


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


_FORMS: Final[dict[str, type[_Message]]] = {
    FORMAT: _Message,
    THRESHOLD_FORMAT: _Message5,
    RECIPE_FORMAT: _Message6,
}
"""The form of each format that is written."""
_MESSAGES: Final[dict[str, type[_Message1]]] = {
    "streamsvm.model/1": _Message1,
    "streamsvm.model/2": _Message2,
    "streamsvm.model/3": _Message3,
    **_FORMS,
}
"""The form of each format that can be read."""

WITHOUT_LINKS: Final = frozenset(form for form, message in _MESSAGES.items() if not issubclass(message, _Message))
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
    scaler, audit, more = version.model.scaler, version.audit, _optional_parts(version)
    form = _format_of(version)
    return msgspec.json.encode(
        _FORMS[form](
            format=form,
            name=version.name,
            version=version.number,
            labels=version.labels,
            features=_Features(
                version.model.dimension, list(version.feature_names), scaler.mean.tolist(), scaler.scale.tolist()
            ),
            model=_encode_machine(version.model.machine),
            training=_encode_training(version.solver, version.fit),
            stream=version.stream,
            lineage=_recast(version.lineage, LineageOfFormat4),
            audit=None if audit is None else _Audit(audit.objective, audit.low, audit.high, audit.points),
            probability=probability_codec.encode(version.model.probability),
            probes=_encode_probes(probes_of(version.model)),
            **more,
        ),
        order="deterministic",
    )


def _format_of(version: Version) -> str:
    if version.recipe is not None:
        return RECIPE_FORMAT
    return FORMAT if version.model.threshold is None else THRESHOLD_FORMAT


def _optional_parts(version: Version) -> dict[str, Any]:
    recipe, threshold = version.recipe, version.model.threshold
    if recipe is not None:
        examples = examples_of(recipe, columns_of(recipe))
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
    return {FORMAT: SCHEMA, THRESHOLD_FORMAT: THRESHOLD_SCHEMA, RECIPE_FORMAT: RECIPE_SCHEMA}[_format_of(version)]


def format_of(value: bytes) -> str:
    """Return the format that a value names."""
    return msgspec.json.decode(value, type=_Format).format


def as_format(value: bytes, form: str) -> bytes:
    """Return a value reduced to the fields of `form`, its own format or an older one.

    Two values of different formats with the same content become the same bytes. These bytes can differ from the ones
    published once: the oldest messages left `training.class_weight` out if it was (1, 1).
    """
    message = msgspec.json.decode(value, type=_MESSAGES[format_of(value)])
    parts = {name: getattr(message, name) for name in _MESSAGES[form].__struct_fields__}
    parts["format"] = form
    if not issubclass(_MESSAGES[form], _Message):
        parts["lineage"] = _recast(message.lineage, LineageOfFormat1)
    if not issubclass(_MESSAGES[form], _Message3):
        training = message.training
        parts["training"] = _Training1(**{name: getattr(training, name) for name in _Training1.__struct_fields__})
    return msgspec.json.encode(_MESSAGES[form](**parts), order="deterministic")


def _checked(message: _Message1) -> Version:
    features, training = message.features, message.training
    dimension = features.dimension
    if message.version < 1 or dimension < 1:
        raise InvalidMessage(f"a version {message.version} with {dimension} features is not valid")
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
    found = message.threshold if isinstance(message, _Message5 | _Message6) else None
    threshold = None if found is None else check_threshold(found)
    recipe = _checked_recipe(message, names) if isinstance(message, _Message6) else None
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
        audit=_decode_audit(message.audit) if isinstance(message, _Message2) else None,
        recipe=recipe,
    )


def _checked_recipe(message: _Message6, names: tuple[str, ...]) -> Recipe:
    recipe, label = message.recipe, message.recipe.label
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


def _encode_training(solver: str, fit: Fit) -> _Training:
    return _Training(solver=solver, duality_gap=_duality_gap(fit), **{field: getattr(fit, field) for field in _FIT})


def _decode_fit(training: _Training1) -> Fit:
    fit = Fit(**{field: getattr(training, field) for field in _FIT})
    if isinstance(training, _Training) and training.duality_gap != _duality_gap(fit):
        raise InvalidMessage(
            f"training.duality_gap is {training.duality_gap}, but the objectives differ by {_duality_gap(fit)}"
        )
    return fit


LineageForm = TypeVar("LineageForm", bound=LineageOfFormat1)


def _recast(lineage: LineageOfFormat1, form: type[LineageForm]) -> LineageForm:
    """Return a lineage in another form; fields that only the other form has get their defaults."""
    shared = set(form.__struct_fields__).intersection(lineage.__struct_fields__)
    return form(**{name: getattr(lineage, name) for name in shared})


def _decode_lineage(message: _Message1) -> Lineage:
    lineage = _recast(message.lineage, Lineage)
    numbers = [link.number for link in lineage.links]
    if numbers != [number for number in linked(message.version) if number in numbers]:
        raise InvalidMessage(f"version {message.version} cannot have lineage.links to {numbers}")
    if wrong := [link.sha256 for link in lineage.links if not SHA256.fullmatch(link.sha256)]:
        raise InvalidMessage(f"lineage.links holds {wrong[0]!r}, which is not a SHA-256")
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
        raise InvalidMessage(f"there are {count} probes, but a model of {dimension} features has at most {most}")
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
            f"the audit of {audit.points} points is inconsistent: objective {audit.objective}, interval {audit.low} "
            f"to {audit.high}"
        )
    return Audit(audit.objective, audit.low, audit.high, audit.points)


def _encode_machine(machine: Machine) -> _Linear | _Rbf:
    if isinstance(machine, LinearMachine):
        return _Linear(machine.coefficients.tolist(), machine.intercept)
    return _Rbf(machine.kernel.gamma, _to_base64(machine.support), _to_base64(machine.dual), machine.intercept)


def _decode_machine(machine: _Linear | _Rbf, dimension: int) -> Machine:
    if not abs(machine.intercept) <= LARGEST:
        raise InvalidMessage(f"the intercept is {machine.intercept}, which is not valid")
    if isinstance(machine, _Linear):
        coefficients = _vector(machine.coefficients, dimension, "coefficients")
        return LinearMachine(_bounded(coefficients, "coefficients"), machine.intercept)
    if not 0 < machine.gamma < math.inf:
        raise InvalidMessage(f"gamma is {machine.gamma}, which is not valid")
    dual = _bounded(_from_base64(machine.dual_coefficients, "dual_coefficients"), "dual_coefficients")
    support = _bounded(_from_base64(machine.support_vectors, "support_vectors"), "support_vectors")
    if len(support) != len(dual) * dimension:
        raise InvalidMessage(
            f"{len(support)} support vector entries do not fit {len(dual)} dual coefficients and {dimension} features"
        )
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
        raise InvalidMessage(f"an entry of {name} is {largest:.3g} in magnitude; the largest allowed is {LARGEST:g}")
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
