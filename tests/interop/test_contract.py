"""Node.js and Java read the cases that Python reads: model messages, aliases and records of scores."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from streamsvm.model import names
from streamsvm.named_parts import PASSED_OVER
from tests.brokers.jvm import CannotRun
from tests.contract.cases import FILE, Case, cases
from tests.contract.messages import fault
from tests.golden import HERE
from tests.golden.model import parts_of, path_of
from tests.interop.inputs import in_python
from tests.interop.programs import lines_of

LANGUAGES: Final = ("Node.js", "Java")
READ: Final = {"Node.js": ("model", "alias", "scores"), "Java": ("model", "scores")}
"""What each program reads; Java's aliases are read by the package's own tests."""
Said = dict[str, dict[str, Any]]


EVENT: Final = parts_of(json.loads(path_of("rbf-events").read_bytes()))["recipe"]["examples"][0]["event"]
POINTS: Final = {
    "near": "[0.1, -2.5, 1e6]",
    "far": "[5.0, -2.4, -3e38]",
    "an event": json.dumps(EVENT),
    "integers": "[1, -2, 4]",
    "by name": '{"mean": -9, "kurtosis µ": -2.6, "dm": 0}',
    "by name, in another order": '{"dm": 4, "mean": 1, "kurtosis µ": -2}',
    "one feature": "[5.0]",
    "one too many": "[1, -2, 4, 0]",
    "none": "[]",
    "a number": "5.0",
    "a name missing": '{"mean": 1, "dm": 4}',
    "a name too many": '{"mean": 1, "kurtosis µ": -2, "dm": 4, "id": 7}',
    "a misspelt name": '{"mean": 1, "kurtosis": -2, "dm": 4}',
    "null": "[1, null, 4]",
    "null by name": '{"mean": 1, "kurtosis µ": null, "dm": 4}',
    "infinity": "[1, 1e999, 4]",
    "text": '["1", "-2", "4"]',
    "text by name": '{"mean": "1", "kurtosis µ": -2, "dm": 4}',
}
"""Right and wrong ones. Of booleans Python alone counts them as numbers, as numpy does, so there is none."""
FOR_ALL: Final = 3
"""Of the first points the answers of all versions are compared, of the others those of golden messages."""
REFUSAL: Final = re.compile(r"3 features|\(n, 3\)|not the version's|finite number|not a number|not match|the names")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What each language makes of every case, by its name; nothing of one that cannot run."""
    directory, found = tmp_path_factory.mktemp("contract"), Said()
    (directory / "points.json").write_text(f"[{','.join(POINTS.values())}]")
    for language in LANGUAGES:
        try:
            lines = lines_of(language, directory, "--contract", str(FILE), str(HERE), str(directory / "points.json"))
        except CannotRun:
            continue
        found[language] = {line["case"]: line["told"] for line in lines}
    return found


def told_by(said: Said, language: str) -> dict[str, Any]:
    """Return what a language says, or skip."""
    if language not in said:
        pytest.skip(f"there is no reader in {language}")
    return {name: _refusal(told) for name, told in said[language].items()}


def _refusal(told: Any) -> Any:
    inner = told.get("answers", told)
    return inner["refused"] if isinstance(inner, dict) and "refused" in inner else told


def alike(answers: Any, others: Any, ignored: str) -> bool:
    """Return whether two lists of answers are the same, but for the last bits and the words of an error."""
    for one, other in zip(answers, others, strict=True):
        if one.keys() - {ignored} != other.keys() - {ignored} or one.get("label") != other.get("label"):
            return False
        if any(one[name] != pytest.approx(other[name], rel=1e-12, abs=1e-12)
               for name in one.keys() & {"decision", "probability"} - {ignored}):  # fmt: skip
            return False
    return True


def differences(case: Case, language: str, told: Any) -> str:
    """Return in what a language's answer differs from the case, and of a model that is read from Python's answers.

    A list of parts that was edited may be without probabilities, so these are compared of golden messages.
    """
    if why := fault(case, language, told):
        return why
    if isinstance(told, str) or case.read != "model":
        return ""
    is_golden = "edits" not in case.said
    points = POINTS if is_golden else dict(list(POINTS.items())[:FOR_ALL])
    python = in_python(case.value or b"", points)
    own = python if isinstance(python, list) else in_python(path_of(case.said["of"]).read_bytes(), points)
    given = told["answers"][: len(points)]
    is_alike = alike(given, own, "" if is_golden else "probability")
    return "" if is_alike else f"{case.name}: {language} answers {given}, Python {own}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_makes_of_every_case_what_it_says(said: Said, language: str) -> None:
    """A refusal names the part, the format or the field; what is read has Python's decisions, labels, probabilities."""
    told = told_by(said, language)
    chosen = cases(*READ[language])
    assert told.keys() == {case.name for case in chosen}
    assert [why for case in chosen if (why := differences(case, language, told[case.name]))] == []
    errors = [answer["error"] for answer in told["golden linear"]["answers"] if "error" in answer]
    assert len(errors) == 13
    assert [error for error in errors if not REFUSAL.search(error)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_case_that_is_changed_by_hand_is_found(said: Said, language: str) -> None:
    """The answers of one model are not those of another, nor is a refusal an answer."""
    told = told_by(said, language)
    linear, rbf = (next(case for case in cases("model") if case.name == f"golden {kind}") for kind in ("linear", "rbf"))
    refused = next(case for case in cases("model") if case.said.get("refused") and not case.by)
    for case, other in ((linear, rbf), (linear, refused), (refused, linear)):
        assert differences(case, language, told[other.name])


def test_every_part_that_answers_depend_on_is_planted() -> None:
    """So a part that is added to the format is added to the cases, and to the readers in other languages."""
    decisive = {name for name in names() if not name.startswith(PASSED_OVER)}
    refused = " ".join(case.said["refused"] for case in cases("model") if "refused" in case.said and not case.by)
    assert {name for name in decisive if f"'{name}'" in refused} == decisive
