"""Where a trainer finds its checkpoints: in a directory of the model's own."""

from __future__ import annotations

import pytest

from consumers.loader import load


@pytest.mark.parametrize(
    ("options", "directory"),
    [
        ({"name": "pulsar"}, "checkpoint/pulsar"),
        ({"name": "a", "checkpoint": {"directory": "/var/lib/{name}/c"}}, "/var/lib/a/c"),
        ({"name": "a", "checkpoint": {"directory": "mine"}}, "mine"),
    ],
)
def test_each_model_has_a_directory_of_its_own(options: dict[str, object], directory: str) -> None:
    """By default, and in a configured path wherever `{name}` stands."""
    assert str(load(options).checkpoint.directory) == directory
