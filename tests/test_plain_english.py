"""What people read is plain English: phrases that readers did not understand do not come back.

An error, an option's description, a metric's help, a log line or a sentence of the live page is read once, often at
night. It names the thing, the value and what to do; it has no pronoun without its noun, and no passive negation such as
"null is none". The phrases below stood in messages once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = sorted(
    path for folder in ("streamsvm", "consumers", "deploy") for path in (ROOT / folder).rglob("*.py")
)

RIDDLES: Final = {
    r"\bso manieth\b": "every k-th",
    r"\btold into\b": "parsed",
    r"\bno problem to\b": "say what is allowed",
    r"\b(what|that|which|it|one) (is|are) none\b": "say what it is not",
    r"\bnull is none\b": "`null` is not allowed",
    r"\bafter each other\b": "in a row",
    r"\bnobody foresaw\b": "unexpected",
    r"\bcommoner\b": "more frequent",
    r"\b(not|not to|to) be had\b": "unavailable",
    r"\bis no [a-z]+ of\b": "is not a ... of",
}
"""Phrases that no string and no docstring has, and what to write instead."""

IN_MESSAGES: Final = {
    r"(?<!here )\b(is|are) no (?!longer\b)\w+": "is not a ...",
    r"(?<!-)\b[Mm]end(s|ed)?\b": "fix, repair",
    r"\b[Nn]othing (is )?to be done\b": "no action needed",
    r"\btells? \S+ apart\b|\btold apart\b|\bcannot be told\b": "distinguish, or say what is unknown",
    r"\b(made|make|made up) anew\b|\bmade it anew\b": "recreated, created again",
    r"\b(Name|Say) (one|it|which)\b": "Give ...",
    r"\bhas no hand\b": "is independent of",
    r"\bknows no\b|\bnames no (?!version of)\w+": "has no ..., does not name a ...",
    r"\bnot to be\b": "must not be",
}
"""Phrases that no message has; docstrings may."""

STANDALONE: Final = re.compile(r"(It|They|Its|Their) ")
"""A message or a remedy that begins with a pronoun does not name its subject."""


def _docstrings(tree: ast.Module) -> dict[int, str]:
    """Return the texts of docstrings, of attributes' too, by the identity of their nodes."""
    return {
        id(node.value): node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def _messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string of two words or more that is not a docstring; values are left out as {}."""
    passed = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in passed:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, text


def _found(text: str, banned: dict[str, str]) -> list[str]:
    plain = " ".join(text.split())
    return [
        f"{match.group()!r} ({instead})" for phrase, instead in banned.items() if (match := re.search(phrase, plain))
    ]


def faults(source: str) -> list[str]:
    """Return the riddles of a module, each with its line."""
    tree = ast.parse(source)
    found = [f"docstring: {fault}" for text in _docstrings(tree).values() for fault in _found(text, RIDDLES)]
    for line, text in _messages(tree):
        found += [f"line {line}: {fault}" for fault in _found(text, RIDDLES | IN_MESSAGES)]
        if STANDALONE.match(text):
            found.append(f"line {line}: {text[:40]!r} begins with a pronoun")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_riddles(path: Path) -> None:
    """No string or docstring of the product has a banned phrase."""
    assert not faults(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError("x is a list of numbers: null is none.")',
        'raise ValueError(f"{name!r} is no format of a file")',
        'remedy = "Mend the producer."',
        'log.warning("waits", remedy="it ends by itself; nothing to be done")',
        'raise ConfigurationError(f"{topic} knows no model {name}")',
        'Field(description="Scores every so " "manieth point.")',
        '"""A record that cannot be told into rows."""',
        'raise StateError("the log ends", "It was truncated.")',
    ],
)
def test_a_riddle_is_found(source: str) -> None:
    """Each of these stood in a message or a docstring once, or is like one that did."""
    assert faults(source)


def test_plain_sentences_pass() -> None:
    """The words alone are not banned: "there is no", "no longer" and "none of" are plain English."""
    said = 'f"there is no record at {place}; the log no longer holds {key}; none of the keys signed {version}"'
    assert not faults(f"raise StateError({said})")
