"""Readers in Python, Node.js and Java treat the named parts of a message alike, also of a message that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from streamsvm.model.parts import names
from streamsvm.named_parts import PASSED_OVER
from tests.brokers.jvm import CannotRun
from tests.golden.every_model import KINDS
from tests.golden.model import parts_of, path_of
from tests.interop.inputs import Answer, answers_to_each, in_python

LANGUAGES: Final = ("Python", "Node.js", "Java")
DECISIVE: Final = sorted(name for name in names() if not name.startswith(PASSED_OVER))
HOLDERS: Final = ("linear-threshold", "rbf-classes", "rbf-packed", "rbf-events")
"""Golden messages that together have every part that an answer depends on."""
Value = dict[str, Any]
Said = dict[str, dict[str, Answer | str]]


class Planted(NamedTuple):
    """A change of a golden message, and what the refusal names; "" where the message is read as before.

    `but_read` is of a fault in a part that Node.js and Java pass over.
    """

    kind: str
    change: Callable[[Value], None]
    named: str
    but_read: bool = False


def with_part(part: object, at: int | None = None) -> Callable[[Value], None]:
    """Return a change that puts a part at an index of the list; None: at its end."""
    return lambda value: value["parts"].insert(len(value["parts"]) if at is None else at, part)


def twice(name: str) -> Callable[[Value], None]:
    """Return a change that repeats a part."""
    return lambda value: value["parts"].insert(names_of(value).index(name), parts_of(value)[name])


def without(*path: str | int) -> Callable[[Value], None]:
    """Return a change that removes what stands under a path; the name of a part leads to the part."""

    def change(value: Value) -> None:
        holder = inside(value, path[:-1])
        del holder[path[-1]]

    return change


def with_field(*path: str | int, to: object) -> Callable[[Value], None]:
    """Return a change that sets what stands under a path."""

    def change(value: Value) -> None:
        inside(value, path[:-1])[path[-1]] = to

    return change


def inside(value: Value, path: tuple[str | int, ...]) -> Any:
    """Return what stands under a path, which begins in the trunk or with the name of a part."""
    found: Any = {**value, **parts_of(value)} if path else value
    for step in path:
        found = found[step]
    return found


def of_a_later_release(value: Value) -> None:
    """Add a part that no reader knows, of a release that names itself."""
    value["lineage"]["build"]["streamsvm"] = "0.1.1"
    with_part({"part": "zone"})(value)


def names_of(value: Value) -> list[str]:
    """Return the names of the parts, in their order."""
    return [part["part"] for part in value["parts"]]


def golden(kind: str) -> Value:
    """Return a golden message."""
    value: Value = json.loads(path_of(kind).read_bytes())
    return value


def of_every_part() -> Iterator[tuple[str, Planted]]:
    """Yield what goes wrong in the same way with each part: it is there twice, lacks a field or has one too many."""
    for kind in HOLDERS:
        for name, part in parts_of(golden(kind)).items():
            passed_over = name.startswith(PASSED_OVER)
            yield f"{kind}: {name} twice", Planted(kind, twice(name), f"'{name}' is there twice")
            too_many = with_field(name, "later", to=1)
            yield f"{kind}: {name} with a field more", Planted(kind, too_many, f"'{name}'", passed_over)
            for field in part.keys() - {"part"}:
                yield f"{kind}: {name} without {field}", Planted(kind, without(name, field), f"'{name}'", passed_over)


PLANTED: Final = {
    "an unknown part, alone": Planted("linear", with_field("parts", to=[{"part": "new"}]), "'new'"),
    "an unknown part, first": Planted("linear", with_part({"part": "above"}, 0), "'above'"),
    "an unknown part, between": Planted("linear", with_part({"part": "later", "x": 1}, 1), "'later'"),
    "an unknown part, last": Planted("linear", with_part({"part": "zone"}), "'zone'"),
    "an unknown part, of a release that names itself": Planted(
        "linear", of_a_later_release, "Upgrade the reader to streamsvm 0.1.1"
    ),
    "an unknown part that only begins like info_": Planted("linear", with_part({"part": "info"}, 0), "'info'"),
    "an info_ part, alone": Planted("linear", with_field("parts", to=[{"part": "info_x"}]), ""),
    "an info_ part, first": Planted("linear", with_part({"part": "info_", "x": {"y": [1]}}, 0), ""),
    "an info_ part, between": Planted("rbf-classes", with_part({"part": "info_x"}, 2), ""),
    "an info_ part, before a recipe": Planted("rbf-events", with_part({"part": "info_x", "value": 9}, 1), ""),
    "an info_ part, twice": Planted("linear", lambda it: [with_part({"part": "info_x"}, 1)(it) for _ in "12"], "twice"),
    "an info_ part, last": Planted("linear", with_part({"part": "info_x"}), "'info_x' stands after 'probability'"),
    "parts in descending order": Planted("rbf-events", lambda value: value["parts"].reverse(), "'recipe' stands after"),
    "classes last": Planted("rbf-classes", lambda value: value["parts"].append(value["parts"].pop(0)), "'classes'"),
    "a part without a name": Planted("linear", with_part({"value": 1}), "no name"),
    "a part whose name is a number": Planted("linear", with_part({"part": 1}), "no name"),
    "a part that is a text": Planted("linear", with_part("threshold"), "no name"),
    "a trunk of number 2": Planted("linear", with_field("format", to="streamsvm.model/2"), "streamsvm.model/2"),
    "a trunk of number 4": Planted("rbf", with_field("format", to="streamsvm.model/4"), "streamsvm.model/4"),
    "another format": Planted("linear", with_field("format", to="streamsvm.point/1"), "streamsvm.point/1"),
    "no format": Planted("linear", without("format"), "format"),
    "no list of parts": Planted("linear", without("parts"), "parts"),
    "parts that are an object": Planted("linear", with_field("parts", to={}), "parts"),
    "a field of the trunk more": Planted("linear", with_field("threshold", to={"value": 1.0}), "threshold"),
    "a field of the trunk less": Planted("linear", without("training"), "training"),
    "probes cut short": Planted("linear", without("probes", "tolerance"), "tolerance"),
    "four labels without classes": Planted("rbf-classes", lambda value: value["parts"].pop(0), "'classes'"),
    "classes of two labels": Planted("linear", with_part(parts_of(golden("rbf-classes"))["classes"], 0), "'classes'"),
    "an unknown scheme": Planted("rbf-classes", with_field("classes", "scheme", to="one_vs_two"), "'classes'"),
    "a machine less": Planted("rbf-classes", without("classes", "machines", 0), "classes"),
    "a machine more than intercepts": Planted("rbf-classes", without("model", "intercepts", 0), "intercepts"),
    "a packed linear machine": Planted(
        "linear", with_part(parts_of(golden("rbf-packed"))["packed"], 1), "'packed' is for rbf"
    ),
    "packed of four labels": Planted(
        "rbf-classes", with_part(parts_of(golden("rbf-packed"))["packed"], 2), "'packed' is for"
    ),
    "packed, but a column less": Planted("rbf-packed", without("packed", "columns", 0), "'packed'"),
    "packed, but a byte more": Planted(
        "rbf-packed", with_field("model", "support_vectors", to="QJwAQZwAAA=="), "support_vectors"
    ),
    "a threshold of four labels": Planted(
        "rbf-classes", with_part(parts_of(golden("linear-threshold"))["threshold"]), "'threshold'"
    ),
    "a threshold of null": Planted("linear-threshold", with_field("threshold", "value", to=None), "'threshold'"),
    "a threshold of text": Planted("linear-threshold", with_field("threshold", "value", to="0.5"), "'threshold'"),
    "a sigmoid cut short": Planted("linear", without("probability", "functions", 0, "a"), "'probability'"),
    "an unknown method": Planted(
        "rbf", with_field("probability", "functions", 0, "method", to="beta"), "'probability'"
    ),
    "a function less": Planted("rbf-classes", without("probability", "functions", 0), "probability"),
    "probabilities of a probe less": Planted("rbf", without("probability", "probes", -1), "probability"),
    "a recipe without features": Planted("rbf-events", without("recipe", "recipe", "features"), "'recipe'"),
    "a feature cut short": Planted("rbf-events", without("recipe", "recipe", "features", 0, "field"), "'recipe'"),
    "a feature of an unknown kind": Planted(
        "rbf-events", with_field("recipe", "recipe", "features", 0, "as", to="word"), "'recipe'"
    ),
    "an example cut short": Planted("rbf-events", without("recipe", "examples", 0, "columns"), "'recipe'"),
    **dict(of_every_part()),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What each reader makes of every golden and every planted message; of Python alone where others cannot run."""
    values = {kind: path_of(kind).read_bytes() for kind in KINDS}
    for name, planted in PLANTED.items():
        changed = golden(planted.kind)
        planted.change(changed)
        values[name] = json.dumps(changed).encode()
    event = parts_of(golden("rbf-events"))["recipe"]["examples"][0]["event"]
    points = {"near": "[0.1, -2.5, 1e6]", "far": "[5.0, -2.4, -3e38]", "an event": json.dumps(event)}
    try:
        found = answers_to_each(tmp_path_factory.mktemp("parts"), list(values.values()), points)
    except CannotRun:
        found = {"Python": [in_python(value, points) for value in values.values()]}
    return {language: dict(zip(values, told, strict=True)) for language, told in found.items()}


def told_by(said: Said, language: str) -> dict[str, Answer | str]:
    """Return what a language says, or skip."""
    if language not in said:
        pytest.skip(f"there is no reader in {language}")
    return said[language]


def decided(answer: Answer | str) -> Any:
    """Return an answer without probabilities: a planted list of parts may be without theirs."""
    if isinstance(answer, str):
        return answer
    return [{name: told for name, told in one.items() if name != "probability"} for one in answer]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_message_is_refused_by_the_name_of_its_fault(said: Said, name: str, language: str) -> None:
    """The refusal names the part, the format or the field; a part that may be passed over changes no answer."""
    planted, told = PLANTED[name], told_by(said, language)
    answer = told[name]
    if not planted.named or (planted.but_read and language != "Python"):
        assert isinstance(answer, list), answer
        assert decided(answer) == decided(told[planted.kind])
    else:
        assert isinstance(answer, str), answer
        assert planted.named in answer


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_golden_message_is_read(said: Said, kind: str, language: str) -> None:
    """Whatever parts it has; some point or event of three has a decision value, and it is Python's."""
    answer, own = told_by(said, language)[kind], said["Python"][kind]
    assert isinstance(answer, list)
    assert isinstance(own, list)
    assert any("decision" in one for one in own)
    for one, expected in zip(answer, own, strict=True):
        assert one.keys() == expected.keys()
        if "decision" in expected:
            assert one["label"] == expected["label"]
            for number in expected.keys() - {"label"}:
                assert one[number] == pytest.approx(expected[number], rel=1e-12, abs=1e-12), number


def test_every_part_that_answers_depend_on_is_planted() -> None:
    """So a part that is added to the format is added here, and to the readers in other languages."""
    assert sorted({name for kind in HOLDERS for name in parts_of(golden(kind))} & set(DECISIVE)) == DECISIVE
