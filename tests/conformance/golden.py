"""The golden bytes of the matrix: `python -m tests.conformance.golden` trains every configuration and writes the file.

A change of the file is a change of what the product computes: it says so in CHANGELOG, or is a new build's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from streamsvm.kafka import EmbeddedBroker
from tests.conformance.configurations import TABLE
from tests.conformance.properties import build_of, golden_of
from tests.conformance.runs import publish

FILE: Final = Path(__file__).parent / "golden.json"


def read() -> dict[str, Any]:
    """Return what the file holds."""
    held: dict[str, Any] = json.loads(FILE.read_text())
    return held


def main() -> None:
    """Write the file, a line for each configuration."""
    lines = list[str]()
    for name in TABLE:
        with EmbeddedBroker() as broker:
            lines.append(f"{json.dumps(name)}: {json.dumps(golden_of(name, publish(name, broker)))}")
    held = f'"build": {json.dumps(build_of())},\n"configurations": {{\n' + ",\n".join(lines) + "\n}"
    FILE.write_text(f"{{\n{held}\n}}\n")


if __name__ == "__main__":
    main()
