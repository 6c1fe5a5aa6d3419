"""The golden vectors against the build that is installed: ``python -P -m tests.golden.vectors``.

It needs nothing that tests need besides. Where only the reader is installed, it reads the model messages and compares
what they answer; of the whole, also checkpoints, points and the records of topics. Each folder has the
SHA-256 of its files in `SHA256SUMS`, and `FROZEN` that of `SHA256SUMS`: what was released stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from streamsvm.model import InvalidFeatures, message
from streamsvm.registry import Loaded
from tests.golden import HERE

SUMS: Final = "SHA256SUMS"
FROZEN: Final[Mapping[str, str]] = {
    "0.1.0": "a098d43c70b80e697d573af9309a08431607d971f3c26d631c8b55fa24b06eed",
}
"""Of each release with bytes of its own, the SHA-256 of the file `SUMS`."""
CLOSE: Final = 1e-12


def sums(folder: Path) -> str:
    """Return what `SUMS` of a folder has to say: a line for each other file."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def changes(folder: Path) -> list[str]:
    """Return what is not as it was released: names of files that are other ones, missing or new, and of `SUMS`."""
    kept = (folder / SUMS).read_text()
    differ = {line.split("  ")[1] for line in {*kept.splitlines()} ^ {*sums(folder).splitlines()}}
    own = hashlib.sha256(kept.encode()).hexdigest() != FROZEN[folder.name]
    return sorted(differ) + [SUMS] * own


def close(found: Any, expected: Any) -> bool:
    """Return whether answers are alike: numbers within a few units of their last place."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(found == expected)


def models(folder: Path) -> Iterator[str]:
    """Yield each model message that answers otherwise than it did; a point that was refused has to be."""
    for kept in json.loads((folder / "answers.json").read_text("utf-8"))["models"]:
        value = (folder / kept["model"]).read_bytes()
        loaded = Loaded(version=message.decode(value), sha256=message.sha256(value), offset=0, loaded_at=0.0)
        for point, answer in zip(kept["points"], kept["answers"], strict=True):
            is_event = loaded.version.recipe is not None and isinstance(point, dict)
            try:
                X = loaded.features([point]) if is_event else point if isinstance(point, dict) else [point]
                decision = loaded.version.model.decision_function(X).tolist()[0]
            except InvalidFeatures:
                decision = None
            if not (decision is None if "error" in answer else close(decision, answer["decision"])):
                yield f"{kept['model']}: {point} is {decision}, not {answer}"


def checkpoints(folder: Path) -> Iterator[str]:
    """Yield each checkpoint that means something else."""
    from streamsvm.checkpoint import format as codec
    from tests.golden.checkpoint import as_json

    for path in sorted(folder.glob("*.ssvm")):
        if as_json(codec.decode(path.read_bytes())) != json.loads(path.with_suffix(".json").read_text()):
            yield path.name


def records(folder: Path) -> Iterator[str]:
    """Yield each record that means something else."""
    from tests.golden.checkpoint import as_json
    from tests.golden.every_record import RECORDS

    for path in sorted(folder.glob("*.record")):
        means = json.loads(path.with_name(f"{path.name}.json").read_text())
        if as_json(RECORDS[path.stem].read(path.read_bytes())) != means:
            yield path.name


OF_THE_READER: Final[tuple[Callable[[Path], Iterator[str]], ...]] = (models,)
OF_THE_WHOLE: Final = (*OF_THE_READER, checkpoints, records)


def main() -> None:
    """Read all of them; say which differ, and end with status 1 if any does."""
    readers = OF_THE_WHOLE if find_spec("streamsvm.checkpoint") else OF_THE_READER
    for release in FROZEN:
        folder = HERE.with_name(release)
        wrong = [*changes(folder), *(fault for read in readers for fault in read(folder))]
        if wrong:
            raise SystemExit(f"{release}: " + "; ".join(wrong))
        print(f"{release}: {', '.join(read.__name__ for read in readers)} read as they were written")


if __name__ == "__main__":
    main()
