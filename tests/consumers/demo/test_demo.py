"""The demo, as a user runs it."""

from __future__ import annotations

import re

import pytest

from tests.consumers.command import run


def test_the_demo_shows_models_that_came_over_the_topic() -> None:
    """Exit status 0, at least eight versions in order, at most 1,500 points kept, a table with both models."""
    finished = run("demo")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    numbers = [int(number) for number in re.findall(r"^pulsar@(\d+) ", finished.stdout, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 8
    kept = re.search(r"most points kept\s+│\s+([\d,]+)", finished.stdout)
    assert kept
    assert int(kept[1].replace(",", "")) <= 1500
    for row in ("points read", "bytes of points kept", "objective on all points", "balanced accuracy", "training time"):
        assert row in finished.stdout
    assert "Traceback" not in finished.stderr


@pytest.mark.long
def test_the_demo_gives_the_same_models_every_time() -> None:
    """Same data, same seed: the same versions, whatever the timing."""
    one, other = (
        [line.split() for line in run("demo").stdout.splitlines() if line.startswith("pulsar@") or "objective" in line]
        for _ in range(2)
    )
    assert one == other
