"""The configuration reference says what the settings say."""

from __future__ import annotations

import pytest

from consumers.cli.reference import markdown
from consumers.options import fields, sections
from streamsvm.algorithms import OWN, described, names
from tests.deploy.files import DEPLOY


def test_file_is_what_the_settings_say() -> None:
    """Nobody changed an option without making the reference anew."""
    written = (DEPLOY / "CONFIGURATION.md").read_text()
    assert written == markdown(), "run python -m consumers.cli.reference > deploy/CONFIGURATION.md"


def rows_of(text: str) -> list[str]:
    """Return the rows of the tables."""
    return [line for line in text.splitlines() if line.startswith("| `")]


def test_every_option_has_a_row_with_its_meaning() -> None:
    """Each option of each section is in the table, with its description; the last table has what is experimental."""
    tables, last = markdown().split("## Experimental")
    every = [(section, name, info) for section in sections() for name, info in fields(section).items()]
    plain = [one for one in every if f"{one[0]}.{one[1]}" != "coreset.clusters"]
    for row, (section, name, info) in zip(rows_of(tables), plain, strict=True):
        assert row.startswith(f"| `{name}` |")
        assert info.description
        assert info.description.removesuffix(described(f"{section}.{name}")).replace("|", "\\|") in row
    found = {row.split("`")[1]: row for row in rows_of(last)}
    assert list(found) == ["coreset.reducer", "coreset.clusters", "coreset.structure", "svm.solver"]
    assert all(described(option).strip() in row for option, row in found.items())


def value_of(row: str, name: str) -> str:
    """Return what a row of an option of this name has for a value; empty: it is another's."""
    return row.split(" | ")[1] if row.startswith(f"| `{name}` |") else ""


@pytest.mark.parametrize("option", OWN)
def test_choices_of_papers_and_other_libraries_are_experimental(option: str) -> None:
    """Each choice of an algorithm stands in one of the tables: the trunk's own in the section, others in the last."""
    tables, last = (rows_of(text) for text in markdown().split("## Experimental"))
    own, others = OWN[option], names(option)[len(OWN[option]) :]
    assert others
    (value,) = (found for row in tables if (found := value_of(row, option.partition(".")[2])) and own[0] in found)
    assert value.rpartition("(")[2].removesuffix(")").split("\\|") == list(own)  # behind the default, if there is one
    (row,) = (row for row in last if row.startswith(f"| `{option}` |"))
    assert row.split(" | ")[1].split("\\|") == list(others)
