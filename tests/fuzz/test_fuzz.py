"""Some seconds of the fuzzers, or a minute, always the same cases; `tests.defects.test_fuzzers` plants defects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.every_target import TARGETS
from tests.fuzz.running import Found, run
from tests.fuzz.targets import Target
from tests.plugged import of_branches

COUNTS = {
    "json": 4_000,
    "arrow": 2_500,
    "avro": 2_500,
    "contract-points": 4_000,
    "contract-events": 4_000,
    "model": 3_000,
    "checkpoint": 2_000,
    "state-record": 2_000,
    "http": 2_000,
    **{name: count for found in of_branches("fuzzed", "COUNTS") for name, count in found.items()},
}
OTHERS = 6_000


@pytest.mark.long(keep=("*-a quarter",))  # the first quarter of the same sequence
@pytest.mark.parametrize("share", [4, 1], ids=["a quarter", "all"])
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_escapes(name: str, share: int) -> None:
    """Every case of a fixed sequence is refused in its reader's own way, or means what the reference says."""
    found = run(TARGETS[name], COUNTS.get(name, OTHERS) // share)
    assert found.escapes == 0, found.kept[:3]
    assert len(found.outcomes) > 1, f"every case was {found.outcomes}: nothing was tried"


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    """In two parts or at once: the same counts, each case once; a file of another target is refused."""
    seen: list[bytes] = []

    def look(values: Sequence[bytes]) -> list[str]:
        seen.extend(values)
        return ["long" if len(value) > 50 else "short" for value in values]

    target = Target("alias", TARGETS["alias"].corpus, TARGETS["alias"].words, look)
    path = tmp_path / "alias.json"
    run(target, 40, path=path)
    run(target, 100, path=path)
    parts, seen[:] = list(seen), []
    whole = run(target, 100)
    assert seen == parts
    assert Found(**json.loads(path.read_text())).outcomes == whole.outcomes
    assert Found.load(path, "alias", 0).tried == 100
    with pytest.raises(SystemExit):
        Found.load(path, "head", 0)
