"""The configuration reference says what the settings say."""

from __future__ import annotations

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
    """Each option of each section is there, with its description."""
    every = [(name, info) for section in sections() for name, info in fields(section).items()]
    for row, (name, info) in zip(rows_of(markdown()), every, strict=True):
        assert row.startswith(f"- `{name}` (")
        assert info.description
        assert info.description in row
