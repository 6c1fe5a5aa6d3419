"""`make budget`: what may not grow unnoticed, by names instead of lines, each limit beside today's figure.

Counted are the names that somebody has to know to change the product: files, functions, classes, carriers (classes
whose methods all have fewer than three statements), Protocols, options, commands, metrics, and the calls and modules of
four walks (`tests.consumers.host.walks`); and tokens, lines and the words of pages. A package whose name ends in an
underscore grows beside the one that it will replace, and is counted apart.

    python -m tests.budget         # exit status 1 if a figure is beyond its limit
    python -m tests.budget --lower # write today's figures as limits, where they are lower

A limit only goes down. A change that needs more raises it, with the reason as a comment in the row.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LIMITS: Final[Mapping[str, int]] = {
    "files": 547,  # the same; recipes that change, and additive machines with readers and shapes
    "functions": 5_250,  # the same; options and recipes that change without forgetting, and additive machines
    "classes": 799,  # the same
    "carriers": 458,  # the same
    "Protocols": 30,
    "tokens": 573_900,  # the same; certificates of a second loss, a loss by the kernel, and additive machines
    "lines of Python": 87_150,  # the same
    "lines of other languages": 3_290,  # readers of any language: first starts, outages, additive machines
    "lines of tests": 79_060,  # oracles of a second loss; settings that change in simulated worlds; shapes
    "words of pages": 30_260,  # the same; and what the loss is
    "options": 76,  # the same; and the loss, by which machines rank or answer better
    "commands": 22,  # the same
    "metrics": 90,  # the same
    "lines of a package that grows beside another": 6_000,
    "lines of its tests": 5_000,
    "typed to the first poll, calls": 13_487,
    "typed to the first poll, modules": 235,
    "an idle turn, calls": 138,
    "an idle turn, modules": 34,
    "a full leaf, calls": 310,
    "a full leaf, modules": 16,
    "a full leaf, calls deep to the solver": 8,
    "a version made and published, calls": 1_300,
    "a version made and published, modules": 80,
}
"""The most that each figure may be."""

OTHER: Final[Mapping[str, str]] = {
    ".java": r"^\s+(?:(?:public|private|protected|static|final|synchronized|default)\s+)*[\w<>\[\], .?]+\s\w+\([^;{]*\)"
    r"(?:\s*throws [\w., ]+)?\s*\{|->",
    ".mjs": r"\bfunction\b|=>|^\s+(?:static |async |get |set |\*)*#?\w+\([^)]*\)\s*\{",
    ".js": r"\bfunction\b|=>|^\s+(?:static |async |get |set |\*)*#?\w+\([^)]*\)\s*\{",
}
"""Languages beside Python, and what a function looks like there: near enough to see it grow."""
STATEMENT: Final = re.compile(r"^\s+(?:if|for|while|switch|catch|else|return|try|new)\b")
NAMED: Final = (
    "import json\nfrom typer.main import get_command\nfrom consumers.cli.app import app\n"
    "from consumers.metrics import SCORER, TRAINER\nfrom consumers.metrics.daemon_metrics import other_daemons\n"
    "from consumers.options import fields, sections\n"
    "def below(command):\n"
    "    found = getattr(command, 'commands', None)\n"
    "    return sum(map(below, found.values())) if found else 1\n"
    "metrics = [*TRAINER, *SCORER, *(one for each in other_daemons() for one in each.definitions)]\n"
    "print(json.dumps({'options': sum(len(fields(section)) for section in sections()),"
    " 'commands': below(get_command(app)), 'metrics': len({one.name for one in metrics})}))"
)


def tracked(suffix: str) -> list[str]:
    """Return the files of a kind that belong to the repository and are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", f"*{suffix}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def product(suffix: str) -> Iterator[Path]:
    """Yield the files of the product in one language, those of `tests` not among them."""
    for name in tracked(suffix):
        parts = Path(name).parts
        if not {"tests", "test"} & {*parts} and not parts[0].startswith("."):
            yield ROOT / name


def grows_beside(path: Path) -> bool:
    """Return whether a file belongs to a package that will replace another."""
    return any(part.endswith("_") and not part.endswith("__") for part in path.relative_to(ROOT).parts)


def names_of(path: Path) -> Counter[str]:
    """Return the names, tokens and lines of a Python module."""
    text = path.read_text()
    found = Counter({"files": 1, "lines of Python": text.count("\n")})
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    found["tokens"] = sum(token.type not in blank for token in tokenize.generate_tokens(io.StringIO(text).readline))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found["functions"] += 1
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
            found["classes"] += 1
            found["carriers"] += all(statements(one) < 3 for one in methods)
            found["Protocols"] += any("Protocol" in ast.unparse(base) for base in node.bases)
    return found


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many statements a function has, its docstring not counted."""
    return sum(isinstance(node, ast.stmt) for one in function.body for node in ast.walk(one)) - bool(
        ast.get_docstring(function)
    )


def names_of_other(path: Path) -> Counter[str]:
    """Return about the same of a file in another language."""
    text = path.read_text()
    function = re.compile(OTHER[path.suffix])
    return Counter(
        {
            "files": 1,
            "lines of other languages": text.count("\n"),
            "tokens": len(re.findall(r"\w+|[^\w\s]", text)),
            "functions": sum(bool(function.search(line)) and not STATEMENT.match(line) for line in text.splitlines()),
            "classes": len(
                re.findall(
                    r"^\s*(?:export |public |static |final |abstract )*(?:class|record|interface|enum) ",
                    text,
                    re.MULTILINE,
                )
            ),
        }
    )


def counted() -> Counter[str]:
    """Return the figures that the files show."""
    total: Counter[str] = Counter()
    for path in product(".py"):
        names = names_of(path)
        if grows_beside(path):
            total["lines of a package that grows beside another"] += names["lines of Python"]
        else:
            total.update(names)
    for suffix in OTHER:
        for path in product(suffix):
            total.update(names_of_other(path))
    for path in (ROOT / "tests").rglob("*.py"):
        total["lines of its tests" if grows_beside(path) else "lines of tests"] += path.read_text().count("\n")
    total["words of pages"] = sum(len((ROOT / name).read_text().split()) for name in tracked(".md"))
    return total


def asked(*arguments: str) -> dict[str, int]:
    """Run this Python in the tree, and return the JSON of the last line that it prints."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(f"{arguments} ended with status {ran.returncode}: {ran.stderr[-2_000:]}")
    found: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    return found


def figures() -> dict[str, int]:
    """Return every figure by the names of `LIMITS`."""
    found = {**counted(), **asked("-c", NAMED), **asked("-m", "tests.consumers.host.walks")}
    return {name: found.get(name, 0) for name in LIMITS}


def lower(text: str, found: Mapping[str, int]) -> str:
    """Return the text of this module with lower limits where today's figures are lower."""
    for name, limit in LIMITS.items():
        figure = found.get(name, limit)
        figure += figure // 8 if name.endswith((", calls", ", modules")) else 0  # a walk may meet a moment's errand
        if figure < limit and not name.startswith(("lines of a package", "lines of its")):
            text = re.sub(rf'(    "{re.escape(name)}": )[\d_]+', rf"\g<1>{figure:_}", text, count=1)
    return text


def main() -> int:
    """Print every figure beside its limit, and return 1 if one is beyond."""
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="write lower limits into this module")
    options = parser.parse_args()
    found = figures()
    beyond = [name for name, figure in found.items() if figure > LIMITS[name]]
    for name, figure in found.items():
        print(f"{name:<46} {figure:>9,} of {LIMITS[name]:>9,}{'  BEYOND THE LIMIT' if name in beyond else ''}")
    if options.lower:
        Path(__file__).write_text(lower(Path(__file__).read_text(), found))
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
