"""Runs cases and counts what became of them; a run can go on where another ended."""

from __future__ import annotations

import json
import resource
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import Target

SAVED_EVERY_S: Final = 30.0
TOGETHER: Final = 512
"""Cases that are looked at together: records of a few batches."""
MOST_KEPT: Final = 50
"""Escapes that are written down whole."""


@dataclass
class Found:
    """What the cases up to `tried` came to; as JSON the file that a run goes on from.

    `kept` are the first escapes: index, value (hexadecimal) and error.
    """

    target: str
    seed: int
    tried: int = 0
    escapes: int = 0
    seconds: float = 0.0
    peak_mb: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    kept: list[dict[str, object]] = field(default_factory=list)

    @staticmethod
    def load(path: Path | None, target: str, seed: int) -> Found:
        """Return what an earlier run of the same target and seed found, or nothing yet."""
        if path is None or not path.exists():
            return Found(target, seed)
        found = Found(**json.loads(path.read_text()))
        if (found.target, found.seed) != (target, seed):
            raise SystemExit(f"{path} is of {found.target} with seed {found.seed}: name another file")
        return found

    def save(self, path: Path | None) -> None:
        """Write it, whole or not at all."""
        if path is not None:
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
            partial.replace(path)


def run(target: Target, count: int, *, seed: int = 0, path: Path | None = None) -> Found:
    """Look at cases until `count` of them have been tried, those of earlier runs included."""
    found = Found.load(path, target.name, seed)
    mutator, counted = target.mutator(), Counter(found.outcomes)
    begun = saved = time.monotonic()
    before = found.seconds
    while found.tried < count:
        values = [_case(mutator, seed, index) for index in range(found.tried, min(found.tried + TOGETHER, count))]
        counted.update(_looked(target, values, found))
        found.tried += len(values)
        if (now := time.monotonic()) - saved > SAVED_EVERY_S or found.tried == count:
            found.seconds, saved, found.outcomes = round(before + now - begun, 3), now, dict(sorted(counted.items()))
            found.peak_mb = max(found.peak_mb, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            found.save(path)
    return found


def _case(mutator: Mutator, seed: int, index: int) -> bytes:
    """Return a case; the first ones are the values of the corpus as they are."""
    return mutator.corpus[index] if index < len(mutator.corpus) else mutator.case(seed, index)


def _looked(target: Target, values: list[bytes], found: Found) -> list[str]:
    """Look at cases together; where something escapes, one by one, to tell which."""
    try:
        return target.look(values)
    except Exception:  # noqa: BLE001 - whatever comes out is what is looked for
        together = traceback.format_exc(limit=-3)
    outcomes = []
    for index, value in enumerate(values, found.tried):
        try:
            outcomes += target.look([value])
        except Exception:  # noqa: BLE001
            outcomes.append("escaped")
            _keep(found, index, value, traceback.format_exc(limit=-3))
    if "escaped" not in outcomes:  # only together
        outcomes[0] = "escaped"
        _keep(found, found.tried, values[0], f"together with the {len(values) - 1} cases after it: {together}")
    return outcomes


def _keep(found: Found, index: int, value: bytes, error: str) -> None:
    found.escapes += 1
    if len(found.kept) < MOST_KEPT:
        found.kept.append({"index": index, "value": value.hex(), "error": error[-2_000:]})
