"""Which features and options go together: one table, from which every refusal of a combination is made.

`require` compares what is configured with the rows of the table and raises the text of the first row that is met.

A row is about two things, each of which is fine alone. That one value is out of range, that two sizes do not fit each
other, and that a file or a topic is not as it must be is checked where it is known, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath
from typing import Any, Final, Literal

from streamsvm.choices import OF_EVENTS_ONLY
from streamsvm.errors import ConfigurationError
from streamsvm.sockets import plugged

Kind = Literal["nature", "not built"]
"""Why a combination is refused: it has no meaning, or it would be useful and nobody has built it."""
Configured = Mapping[str, Any]
"""The values of the axes that a caller knows. Not given: `None`, `False`, or an empty text, tuple or mapping."""
Spelled = Mapping[str, str]
"""Names of axes where a caller has other names than the configuration, such as `--cost` for `svm.cost`."""


class Unsupported(ConfigurationError, ValueError):
    """A combination that a row of the table refuses. Being a `ValueError`, it may be raised in a validator."""


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on the value of one axis.

    Attributes
    ----------
    axis : str
        An option's dotted name, or a name of `PHRASES`.
    holds : callable
        Tells whether a value meets the condition.
    words : str
        The condition in words.
    """

    axis: str
    holds: Callable[[Any], bool]
    words: str


def is_given(value: object) -> bool:
    """Return whether a value says anything: 0 does; `None`, `False`, and what is empty do not."""
    if value is None or value is False:
        return False
    return not (isinstance(value, str | tuple | list | Mapping) and not value)


def _is_missing(value: object) -> bool:
    return not is_given(value)


def given(axis: str) -> Term:
    """Return the condition that an option is given."""
    return Term(axis, is_given, _named(axis))


def missing(axis: str) -> Term:
    """Return the condition that an option is not given."""
    return Term(axis, _is_missing, f"no {_named(axis)}")


def equal(axis: str, *values: object) -> Term:
    """Return the condition that an option has one of some values."""
    return Term(axis, lambda value: value in values, f"{_named(axis)} = {_listed(values)}")


def other(axis: str, *values: object) -> Term:
    """Return the condition that an option is given, with none of some values."""
    return Term(
        axis, lambda value: is_given(value) and value not in values, f"{_named(axis)} other than {_listed(values)}"
    )


def above(axis: str, most: int) -> Term:
    """Return the condition that a number is above another."""
    return Term(axis, lambda value: value is not None and value > most, f"{_named(axis)} above {most}")


def _named(axis: str) -> str:
    return f"`{axis}`" if ("." in axis or axis.startswith(("--", "["))) and " " not in axis else axis


def _listed(values: tuple[object, ...]) -> str:
    return " or ".join(f"`{_plain(value)}`" for value in values)


SOCKET: Final = "supports"
"""Of rows that branches add."""
LABELS: Final = "points.labels"
FEATURES: Final = "[features]"
MORE_LABELS: Final = Term(LABELS, lambda value: value > 2, "more than two labels")
TWO_LABELS: Final = Term(LABELS, lambda value: value == 2, "two labels")
CERTIFICATE: Final = "a certificate"
REASONS: Final = "reasons of a score"
FOREIGN_COLUMNS: Final = "`--label`, `--weight`, `--id`, `--columns` or `--header`"
PHRASES: Final[Mapping[str, str]] = {
    LABELS: "{name} has {value} labels",
    FEATURES: "{name} is given",
    CERTIFICATE: "a certificate was asked for",
    REASONS: "reasons of the scores of {value} were asked for",
    FOREIGN_COLUMNS: "{value} is given",
}
"""How the value of an axis of the trunk is written in an error, where it is not `name = value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A feature, and what it does not go with.

    Attributes
    ----------
    axis : str
        The part of the table to which the row belongs.
    feature : Term
    without : Term
        What the feature cannot be combined with; of a feature that needs an option, that the option is missing.
    why : str
        Begins in lower case, without a final full stop.
    remedy : str
        A full sentence; {feature} and {without} stand for the two names.
    kind : "nature" or "not built"
    """

    axis: str
    feature: Term
    without: Term
    why: str
    remedy: str
    kind: Kind

    def is_met(self, configured: Configured) -> bool:
        """Return whether both conditions hold of what is configured."""
        return self.feature.holds(configured[self.feature.axis]) and self.without.holds(configured[self.without.axis])

    def refusal(self, configured: Configured, spelled: Spelled) -> Unsupported:
        """Return the error for what is configured."""
        pair = self.feature, self.without
        first, second = (_said(term.axis, configured[term.axis], spelled) for term in pair)
        alike = is_given(configured[self.feature.axis]) == is_given(configured[self.without.axis])
        joined = "and" if alike and self.without.holds in (is_given, _is_missing) else "but"
        what = f"{first}, {joined} {second}: {self.why}"
        if self.kind == "not built":
            what += "; this is not supported yet"
        names = {"feature": _name(self.feature.axis, spelled), "without": _name(self.without.axis, spelled)}
        return Unsupported(what, self.remedy.format(**names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Combinations:
    """What a branch or a room adds to the table, at the socket `supports`.

    Attributes
    ----------
    before : str
        The part of the table before which these rows stand; where nothing has that name, they stand at the end.
    rows : tuple of Row
        At least one; all of one part of the table.
    phrases : mapping of str to str
        As `PHRASES`, of axes of its own.
    """

    before: str
    rows: tuple[Row, ...]
    phrases: Mapping[str, str] = field(default_factory=dict)


def _name(axis: str, spelled: Spelled) -> str:
    return spelled.get(axis, axis)


def _said(axis: str, value: object, spelled: Spelled) -> str:
    """Return which value an axis has."""
    name = _name(axis, spelled)
    if not is_given(value):
        return f"{name} is not given"
    if axis in _phrases():
        return _phrases()[axis].format(name=name, value=_plain(value))
    shown = "" if value is True else _plain(value)
    return f"{name} = {shown}" if shown else f"{name} is given"


def _plain(value: object) -> str:
    """Return a value as a person writes it in an option; empty for a larger table."""
    match value:
        case str() | int() | float() | PurePath():
            return str(value)
        case tuple() | list():
            return ",".join(map(_plain, value))
        case Mapping() if len(value) == 1:
            ((name, one),) = value.items()
            return f"{name}={_plain(one)}"
    return ""


_FORMATS: Final = "Events, features and formats"
MACHINE: Final = "Kernel, solver and penalty"
_GOAL: Final = "Thresholds, probabilities and tuning"
_STRUCTURE: Final = "Structure and memory of the coreset"
_LANDMARKS: Final = "Landmarks"
_BOUNDS: Final = "Certificates"
_REASONS: Final = "Reasons of a score"
_EVALUATE: Final = "streamsvm evaluate"
_COMMANDS: Final = "Other commands"

_ONE_VALUE: Final = "a threshold is of one decision value"
_ONE_OF_TWO: Final = "Give only one of the two."
REMOVE: Final = "Remove {feature}."


def _events() -> Iterator[Row]:
    yield Row(
        axis=_FORMATS,
        feature=equal("points.format", *OF_EVENTS_ONLY),
        without=missing(FEATURES),
        why="records of this format hold events",
        remedy="Declare their fields in [features].",
        kind="nature",
    )
    yield Row(
        axis=_FORMATS,
        feature=equal("points.format", "avro", "protobuf"),
        without=missing("registry.url"),
        why="the schemas are in a schema registry",
        remedy="Set registry.url to the registry's base address.",
        kind="nature",
    )


def _machine() -> Iterator[Row]:
    yield Row(
        axis=MACHINE,
        feature=given("svm.alpha"),
        without=given("svm.C"),
        why="both set the same trade-off",
        remedy=_ONE_OF_TWO,
        kind="nature",
    )
    yield Row(
        axis=MACHINE,
        feature=given("svm.C"),
        without=other("coreset.memory", "all"),
        why="C is the penalty of all rows, of which only a part counts here",
        remedy="Give svm.alpha instead.",
        kind="nature",
    )
    yield Row(
        axis=MACHINE,
        feature=given("svm.multiclass"),
        without=TWO_LABELS,
        why="it is for more than two labels",
        remedy=REMOVE,
        kind="nature",
    )


def _goal() -> Iterator[Row]:
    yield Row(
        axis=_GOAL,
        feature=given("svm.cost"),
        without=given("svm.target"),
        why="both set the same threshold",
        remedy=_ONE_OF_TWO,
        kind="nature",
    )
    for option in ("svm.cost", "svm.target"):
        yield Row(
            axis=_GOAL,
            feature=given(option),
            without=MORE_LABELS,
            why=_ONE_VALUE,
            remedy="Remove {feature}; class weights can say what errors cost.",
            kind="nature",
        )
    yield Row(
        axis=_GOAL,
        feature=equal("svm.tune_scoring", "cost"),
        without=missing("svm.cost"),
        why="the two costs are what it is measured by",
        remedy="Give svm.cost: the cost of a missed positive and that of a false alarm.",
        kind="nature",
    )
    yield Row(
        axis=_GOAL,
        feature=equal("svm.tune_scoring", "auc", "log_loss", "cost"),
        without=MORE_LABELS,
        why="it is a figure of one decision value",
        remedy="Give svm.tune_scoring = accuracy or balanced_accuracy.",
        kind="nature",
    )


def _structure() -> Iterator[Row]:
    yield Row(
        axis=_STRUCTURE,
        feature=equal("coreset.structure", "tree"),
        without=other("coreset.reducer", "calibrated"),
        why="buckets merge so by the pilot of `calibrated`",
        remedy="Remove {feature}, or give coreset.structure = chain or counter.",
        kind="nature",
    )
    yield Row(
        axis=_STRUCTURE,
        feature=given("coreset.structure"),
        without=other("coreset.memory", "all"),
        why="where rows are forgotten, a bucket depends on its own rows alone",
        remedy="Remove {feature}, or give coreset.memory = all.",
        kind="nature",
    )
    for memory, length in (("window", "coreset.window"), ("decay", "coreset.half_life")):
        yield Row(
            axis=_STRUCTURE,
            feature=given(length),
            without=other("coreset.memory", memory),
            why=f"it is the length of the memory `{memory}`",
            remedy=f"Give coreset.memory = {memory}, or remove {{feature}}.",
            kind="nature",
        )
        yield Row(
            axis=_STRUCTURE,
            feature=equal("coreset.memory", memory),
            without=missing(length),
            why="this memory needs a length",
            remedy=f"Give {length}, in rows (100000) or as a time (14d).",
            kind="nature",
        )


def _small() -> Iterator[Row]:
    yield Row(
        axis=_LANDMARKS,
        feature=given("svm.landmarks"),
        without=equal("svm.kernel", "linear", "additive"),
        why="such a machine has no support vectors",
        remedy=REMOVE,
        kind="nature",
    )


def _bounds() -> Iterator[Row]:
    sums = "in a kernel's space the rows' sums cannot be held"
    estimate = "An audit of the objective, an estimate, is in every version."
    certificate: tuple[tuple[Term, str, str, Kind], ...] = (
        (MORE_LABELS, "a certificate is of two labels", estimate, "not built"),
        (equal("svm.kernel", "rbf"), sums, estimate, "nature"),
        (
            other("coreset.memory", "all"),
            "a certificate is of all rows alike",
            "Certify a version of a model that forgets nothing.",
            "not built",
        ),
    )
    for term, why, remedy, kind in certificate:
        yield Row(axis=_BOUNDS, feature=given(CERTIFICATE), without=term, why=why, remedy=remedy, kind=kind)


def _reasons() -> Iterator[Row]:
    yield Row(
        axis=_REASONS,
        feature=given(REASONS),
        without=equal("svm.kernel", "rbf"),
        why="a kernel's decision value does not split by fields",
        remedy="Train a linear version, with buckets and crosses in [features] for what bends; or ask how much each "
        "field matters, by permutation, over loaded.decision_function. A scorer: set scoring.reasons = 0.",
        kind="nature",
    )
    yield Row(
        axis=_REASONS,
        feature=given(REASONS),
        without=MORE_LABELS,
        why="reasons are of the one decision value of two labels",
        remedy="Train a model for each label against the others. A scorer: set scoring.reasons = 0.",
        kind="not built",
    )


def _evaluate() -> Iterator[Row]:
    yield Row(
        axis=_EVALUATE,
        feature=given("--probability"),
        without=MORE_LABELS,
        why="it is evaluated for two labels",
        remedy="Leave {feature} out.",
        kind="not built",
    )
    yield Row(
        axis=_EVALUATE,
        feature=given("--prequential"),
        without=given("svm.C"),
        why="C is the penalty of all rows together, of which memories that forget count a part",
        remedy="Give svm.alpha (--alpha) instead.",
        kind="nature",
    )
    for option in ("--lag", "--leaf-rows", "--every-leaves"):
        yield Row(
            axis=_EVALUATE,
            feature=given(option),
            without=missing("--prequential"),
            why="it says how rows are judged in order",
            remedy="Add --prequential.",
            kind="nature",
        )
    yield Row(
        axis=_EVALUATE,
        feature=given("--partitions"),
        without=missing("--config"),
        why="rows are dealt as a trainer's topic has them",
        remedy="Give the trainer's configuration with --config.",
        kind="nature",
    )
    for option in ("coreset.window", "coreset.half_life"):
        yield Row(
            axis=_EVALUATE,
            feature=given("--config"),
            without=Term(option, lambda value: isinstance(value, str), f"`{option}` as a time"),
            why="the rows of a file have no times",
            remedy="Give {without} in rows, or compare memories: streamsvm evaluate FILE --prequential.",
            kind="nature",
        )


def _commands() -> Iterator[Row]:
    one_version = "it is of one version"
    pairs: tuple[tuple[Term, Term, str, str, Kind], ...] = (
        (given("--version"), given("--alias"), "each names a version", _ONE_OF_TWO, "nature"),
        (given("--version"), given("--all"), "each says which versions", _ONE_OF_TWO, "nature"),
        (given("--points"), given("--shapes"), "each says what to print", _ONE_OF_TWO, "nature"),
        (given("--certificate"), given("--all"), one_version, "Give its --version.", "nature"),
        (given("--keep"), missing("--certificate"), "it is about a certificate", "Give --certificate, too.", "nature"),
        (given("--reads"), missing("--certificate"), "it is about a certificate", "Give --certificate, too.", "nature"),
        (
            given("--mended"),
            missing("--resend"),
            "the option names the letters to send again",
            "Give the topic to send to: --resend TOPIC.",
            "nature",
        ),
        (
            given("--events"),
            given(FOREIGN_COLUMNS),
            "it is about points",
            "Remove it. [events] and [features] in the configuration choose the columns.",
            "nature",
        ),
        (
            equal("--record-format", "avro"),
            missing("registry.url"),
            "the schemas are in a schema registry",
            "Set registry.url.",
            "nature",
        ),
        (
            given("key"),
            above("rows_per_record", 1),
            "a record of several points cannot have an id as its key",
            _ONE_OF_TWO,
            "nature",
        ),
    )
    for feature, without, why, remedy, kind in pairs:
        yield Row(axis=_COMMANDS, feature=feature, without=without, why=why, remedy=remedy, kind=kind)


_OWN: Final[tuple[Callable[[], Iterator[Row]], ...]] = (
    _events,
    _machine,
    _goal,
    _structure,
    _small,
    _bounds,
    _reasons,
    _evaluate,
    _commands,
)
"""The trunk's rows, by the part of the table."""


@cache
def rows() -> tuple[Row, ...]:
    """Return the table. Of several rows that are met, the first one is raised."""
    parts = [tuple(part()) for part in _OWN]
    waiting = list(plugged(SOCKET, Combinations))
    while waiting:
        named = {part[0].axis for part in parts}
        for one in [one for one in waiting if one.before in named] or list(waiting):
            places = (place for place, part in enumerate(parts) if part[0].axis == one.before)
            parts.insert(next(places, len(parts)), one.rows)
            waiting.remove(one)
    return tuple(row for part in parts for row in part)


@cache
def _phrases() -> Mapping[str, str]:
    return {**PHRASES, **{axis: text for one in plugged(SOCKET, Combinations) for axis, text in one.phrases.items()}}


@cache
def _rows_of(axes: frozenset[str]) -> tuple[Row, ...]:
    """Return the rows of which both axes are known."""
    return tuple(row for row in rows() if {row.feature.axis, row.without.axis} <= axes)


def require(configured: Configured, spelled: Spelled | None = None) -> None:
    """Refuse what does not go together.

    Parameters
    ----------
    configured : mapping of str to value
        What is configured, by axis. A row of which one axis is missing here is not looked at.
    spelled : mapping of str to str, optional
        Names of axes for the error, where they are not those of the configuration.

    Raises
    ------
    Unsupported
        With the text of the first row that is met.
    """
    for row in _rows_of(frozenset(configured)):
        if row.is_met(configured):
            raise row.refusal(configured, spelled or {})
