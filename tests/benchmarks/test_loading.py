"""Every benchmark can be loaded, whether or not `make test` also runs a small form of it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

PEERS = {"ingest_peers": ("orjson",)}
MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith(("test_", "__")))


@pytest.mark.parametrize("name", MODULES)
def test_programs_load(name: str) -> None:
    """What a benchmark takes from the product is still there; peers that the project does not install are not."""
    for peer in PEERS.get(name, ()):
        pytest.importorskip(peer)
    assert import_module(f"tests.benchmarks.{name}").__doc__
