"""The configuration reference says what the settings say."""

from __future__ import annotations

import pytest
from streamsvm.algorithms import OWN, described, names

from consumers.cli.reference import markdown
from consumers.options import fields, sections
from tests.deploy.files import DEPLOY


def test_file_is_what_the_settings_say() -> None:
    """Nobody changed an option without making the reference anew."""
    written = (DEPLOY / "CONFIGURATION.md").read_text()
    assert written == markdown(), "run python -m consumers.cli.reference > deploy/CONFIGURATION.md"


def rows_of(text: str) -> list[str]:
    """Return the lines of options."""
    return [line for line in text.splitlines() if line.startswith("- `")]


def test_every_option_has_a_row_with_its_meaning() -> None:
    """Each option of each section is there, with its description; the last section has what is experimental."""
    tables, last = markdown().split("## Experimental")
    every = [(section, name, info) for section in sections() for name, info in fields(section).items()]
    for row, (section, name, info) in zip(rows_of(tables), every, strict=True):
        assert row.startswith(f"- `{name}` (")
        assert info.description
        assert info.description.removesuffix(described(f"{section}.{name}")) in row
    found = {row.split("`")[1]: row for row in rows_of(last)}
    assert list(found) == ["coreset.reducer", "coreset.structure"]
    assert all(described(option).strip() in row for option, row in found.items())


def value_of(row: str, name: str) -> str:
    """Return the choices of an option of this name, without the mark of the default; empty: it is another's."""
    head = f"- `{name}` ("
    return row.removeprefix(head).split("): ")[0].replace("**", "") if row.startswith(head) else ""


@pytest.mark.parametrize("option", OWN)
def test_choices_of_papers_are_experimental(option: str) -> None:
    """Each choice of an algorithm stands in one place: the trunk's own in the section, others in the last."""
    tables, last = (rows_of(text) for text in markdown().split("## Experimental"))
    own, others = OWN[option], names(option)[len(OWN[option]) :]
    assert others
    (value,) = (found for row in tables if (found := value_of(row, option.partition(".")[2])) and own[0] in found)
    assert value.split("|") == list(own)
    (others_of,) = (found for row in last if (found := value_of(row, option)))
    assert others_of.split("|") == list(others)
