"""The configuration reference says what the settings say."""

from __future__ import annotations

from consumers.cli.reference import markdown
from consumers.options import fields, sections
from tests.deploy.files import DEPLOY


def test_file_is_what_the_settings_say() -> None:
    """Nobody changed an option without making the reference anew."""
    written = (DEPLOY / "CONFIGURATION.md").read_text()
    assert written == markdown(), "run python -m consumers.cli.reference > deploy/CONFIGURATION.md"


def test_every_option_has_a_row_with_its_meaning() -> None:
    """Each option of each section is in the table, with its description."""
    rows = [line for line in markdown().splitlines() if line.startswith("| `")]
    expected = [(name, info.description) for section in sections() for name, info in fields(section).items()]
    assert len(rows) == len(expected)
    for row, (name, description) in zip(rows, expected, strict=True):
        assert row.startswith(f"| `{name}` |")
        assert description
        assert description.replace("|", "\\|") in row
