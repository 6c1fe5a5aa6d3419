"""``python -m tests.golden`` writes the golden files that are missing, of all kinds.

It never changes one: what was once released stays as it is, and what producers once wrote must be read for ever. The
trunk's models and checkpoints were made by hand once; others are made of what their bytes mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from streamsvm.checkpoint import format as checkpoint
from streamsvm.model import message
from tests.golden import HERE, answers, points
from tests.golden.checkpoint import as_json
from tests.golden.every_checkpoint import HANDMADE, MADE
from tests.golden.every_model import KINDS, handmade
from tests.golden.every_record import RECORDS
from tests.golden.model import path_of


def meaning(found: object) -> bytes:
    """Return what a file means, as JSON."""
    return json.dumps(as_json(found), indent=1).encode() + b"\n"


def files() -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Yield each file, and what makes its bytes today."""
    for kind in KINDS:
        yield path_of(kind), lambda kind=kind: message.encode(handmade(kind))  # type: ignore[misc]
    for name, make in HANDMADE.items():
        yield HERE / f"{name}.ssvm", lambda name=name: checkpoint.encode(MADE[name]())  # type: ignore[misc]
        yield HERE / f"{name}.json", lambda make=make: meaning(make())  # type: ignore[misc]
    for name, kept in RECORDS.items():
        yield HERE / f"{name}.record", kept.make
        yield HERE / f"{name}.record.json", lambda kept=kept: meaning(kept.read(kept.make()))  # type: ignore[misc]
    yield from ((HERE / name, partial(bytes, value)) for name, value in points.records().items())
    yield answers.FILE, answers.written


for path, content in files():
    if not path.exists():
        path.write_bytes(content())
