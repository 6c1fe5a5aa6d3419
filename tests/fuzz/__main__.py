"""`python -m tests.fuzz NAME --count N --json FILE`: so many cases, those of the file included; exit 1 if one escaped.

NAME `all` takes the targets one after the other, N of each, and a folder for FILE. `--guided` needs atheris, which is
none of the project's requirements: it runs N cases that it chooses by the code they reach, from the corpus and what it
kept in the folder FILE.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

BRANCHES = ("classes.checkpoint_part", "memories.checkpoint_parts")
READERS = (
    *(f"ingest.{name}" for name in ("json_rows", "arrow", "avro", "decoder", "dead_letter")),
    *(f"model.{name}" for name in ("message", "pointers", "probes")),
    *(f"branches.{name}" for name in BRANCHES),
    *(
        f"checkpoint.{name}"
        for name in (
            "forms",
            "framing",
            "format",
            "partition_codec",
            "records",
            "parts.spans",
            "parts.join",
        )
    ),
)
LOOKED_INTO = (*(f"streamsvm.{name}" for name in READERS), "consumers.host.web.head")
"""Modules whose branches guide atheris; none of them is compiled by numba."""


def main() -> int:
    """Run what is asked for; return the exit status."""
    from tests.fuzz.every_target import TARGETS
    from tests.fuzz.running import Found, run

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=[*TARGETS, "all"])
    parser.add_argument("--count", type=int, default=10_000, help="cases in all, those of FILE included")
    parser.add_argument("--more", type=int, default=0, help="cases beyond those of FILE, instead of --count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--guided", action="store_true")
    asked = parser.parse_args()
    if asked.guided:
        return guided(asked.name, asked.count, asked.json)
    gc.freeze()  # what was imported is never garbage: a quarter of the time went into looking whether it is
    escapes = 0
    for name in TARGETS if asked.name == "all" else [asked.name]:
        path = asked.json / f"{name}.json" if asked.json and asked.name == "all" else asked.json
        count = Found.load(path, name, asked.seed).tried + asked.more if asked.more else asked.count
        found = run(TARGETS[name], count, seed=asked.seed, path=path)
        escapes += found.escapes
        rate = found.tried / found.seconds if found.seconds else 0.0
        said = ", ".join(f"{count:,} {word}" for word, count in found.outcomes.items())
        print(f"{name}: {found.tried:,} cases, {rate:,.0f}/s, {found.peak_mb:.0f} MB: {said}", flush=True)
        for one in found.kept[:5]:
            print(f"  case {one['index']}: {bytes.fromhex(str(one['value']))[:200]!r}\n{one['error']}", flush=True)
    return 1 if escapes else 0


def instrument(atheris: Any) -> None:
    """Let atheris see which branches of the readers a case takes."""
    for name in LOOKED_INTO:
        module = vars(importlib.import_module(name))
        held = [vars(kind) for kind in module.values() if isinstance(kind, type) and kind.__module__ == name]
        for function in [one for space in (module, *held) for one in space.values()]:
            if isinstance(function, types.FunctionType) and function.__module__ == name:
                atheris.instrument_func(function)


def guided(name: str, count: int, folder: Path | None) -> int:
    """Let atheris choose cases by what code they reach; it ends the process at the first escape."""
    import atheris  # type: ignore[import-not-found]

    from tests.fuzz.every_target import TARGETS

    target = TARGETS[name]
    instrument(atheris)

    def look(value: bytes) -> None:
        target.look([value])

    kept = folder or Path(tempfile.mkdtemp(prefix="streamsvm-fuzz-"))  # atheris writes into the first that it is given
    begun = Path(tempfile.mkdtemp(prefix="streamsvm-corpus-"))
    for at, value in enumerate(target.corpus()):
        (begun / str(at)).write_bytes(value)
    folders = [str(kept), str(begun)]
    atheris.Setup([sys.argv[0], f"-runs={count}", "-max_len=8192", *folders], look)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
