"""Every option that a page, a help text or a message names exists, on the command that it is named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from typer.main import get_command

from consumers.cli.app import app
from tests.consumers.cli.test_cli import commands_of, completed
from tests.forked import ROOT

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w-])")
NAMED_WITH = re.compile(
    r"(?<![\w./@-])streamsvm((?: [a-z][a-z-]*)+)([^`|;&\n]*)|(trainer's)((?: (?:and )?--[^.;,`\n]*)+)"
)
"""A command with what follows it on its line or in its sentence, or options that a text calls the trainer's."""
COMMAND = re.compile(r"(?:`|^(?: {4,}|[$#] ))streamsvm\s+([a-z][a-z-]*)(?:\s+([a-z][a-z-]*))?", re.MULTILINE)
"""A command as it is written in code, up to two words of it."""
FENCES = re.MULTILINE | re.DOTALL
GONE = {"streamsvm top", "streamsvm simulate-scale"}
"""What the changelog says that there is no more."""
OF_OTHERS = {
    "--add-config",
    "--alter",
    "--broker-id",
    "--bootstrap-server",
    "--command-config",
    "--entity-name",
    "--entity-type",
    "--execute",
    "--group",
    "--list",
    "--max-transaction-timeout",
    "--no-deps",
    "--partitions",
    "--reset-offsets",
    "--section-name",
    "--start-offset",
    "--to-datetime",
    "--to-latest",
    "--to-offset",
    "--topic",
}
"""Options of Kafka's own tools and of pip, and how an option's name is made."""
PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not {".venv", "tests", "node_modules"} & set(path.relative_to(ROOT).parts)
)
SOURCES = sorted(path for folder in ("consumers", "streamsvm") for path in (ROOT / folder).rglob("*.py"))


@cache
def options() -> dict[tuple[str, ...], frozenset[str]]:
    """Return the options of each command, by its words."""
    commands = commands_of(get_command(app))
    leaves = {words: completed(one) for words, one in commands.items() if not hasattr(one, "commands")}
    return {
        words: frozenset({*(name for one in leaf.params for name in (*one.opts, *one.secondary_opts)), "--help"})
        for words, leaf in leaves.items()
    }


def wrong_in(text: str) -> Iterator[str]:
    """Yield the options that a text names with a command that has no such option."""
    for match in NAMED_WITH.finditer(text):
        words = ("train",) if match[3] else tuple(match[1].split())
        while words and words not in options():
            words = words[:-1]
        if words:
            rest = match[4] if match[3] else match[1] + match[2]
            yield from (
                f"streamsvm {' '.join(words)} {name}" for name in OPTION.findall(rest) if name not in options()[words]
            )


def unknown_in(text: str) -> Iterator[str]:
    """Yield the commands that a text names in code and that there are not."""
    fenced = re.sub(
        r"^```.*?^```",
        lambda block: re.sub("^streamsvm", "$ streamsvm", block[0], flags=re.MULTILINE),
        text,
        flags=FENCES,
    )
    top, groups = {words[0] for words in options()}, {words[0] for words in options() if len(words) > 1}
    for first, second in COMMAND.findall(fenced):
        if first not in top or (first in groups and second and (first, second) not in options()):
            yield f"streamsvm {first} {second}".rstrip()


def strings_of(path: Path) -> Iterator[str]:
    """Yield the texts in a module, docstrings too; what a format string computes is a word."""
    inner = set[int]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def test_pages_name_commands_and_options_that_exist() -> None:
    """In code, be it within a sentence or in a block; also where a command goes on in the next line."""
    for page in PAGES:
        text = page.read_text()
        assert not list(wrong_in(re.sub(r"\\\n\s*", " ", text))), page
        assert set(unknown_in(text)) <= GONE, page


def test_messages_and_help_texts_name_commands_and_options_that_exist() -> None:
    """With a command: on that command. Without one: on some. Docstrings, too."""
    every = frozenset[str]().union(*options().values()) | OF_OTHERS
    wrong = set[str]()
    for path in SOURCES:
        for text in strings_of(path):
            lines = " ".join(text.split())
            found = [
                *unknown_in(text),
                *wrong_in(lines),
                *(name for name in OPTION.findall(lines) if name not in every),
            ]
            wrong |= {f"{path.relative_to(ROOT)}: {one}" for one in found}
    assert not wrong


def test_a_wrong_command_or_option_is_found() -> None:
    """The tests can fail: of what there never was, what is in no group, and what another command has."""
    text = "Run `streamsvm learn` or\n\n```sh\nstreamsvm history forget\nstreamsvm served\n```\n"
    assert list(unknown_in(text)) == ["streamsvm learn", "streamsvm served"]
    assert list(unknown_in("$ streamsvm model unpin --name x")) == ["streamsvm model unpin"]
    assert list(wrong_in("run `streamsvm history forget --alias x`")) == ["streamsvm history forget --alias"]
    assert list(wrong_in("with the trainer's --no-such-thing x")) == ["streamsvm train --no-such-thing"]
    assert not list(wrong_in("streamsvm train --checkpoint-directory x; then --as"))


def test_what_a_trainer_is_given_forget_takes_too() -> None:
    """Its options can be given as they are, those of kept checkpoints among them."""
    assert options()["train",] - options()["history", "forget"] <= {"--reset", "--dry-run", "--from-coresets"} | {
        name for name in options()["train",] if name.startswith("--http-")
    }
    assert "--checkpoint-keep-bytes" in options()["train",]
