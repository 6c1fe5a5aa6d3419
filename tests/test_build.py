"""What a build is: all that decides the bits of a model beside the log and the configuration."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from streamsvm.build import build

PROGRAM = """
import hashlib, json
import numpy as np
from streamsvm.build import build
numbers = np.random.default_rng(0).random(1000)
print(json.dumps(build(), sort_keys=True))
print(hashlib.sha256(np.exp(-numbers).tobytes() + np.log(numbers).tobytes()).hexdigest())
"""


def look(disabled: str) -> list[str]:
    """Return the build, and a hash of what exp and log give, of a process without some CPU features."""
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert not finished.returncode, finished.stderr
    return finished.stdout.splitlines()


def test_other_cpu_features_are_another_build() -> None:
    """numpy takes other loops without them, whose last bits differ: such a process is another build."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found")
    if not found:
        pytest.skip("numpy found no CPU feature beyond its baseline")
    plain, fewer = look(""), look(" ".join(found))
    assert plain[0] != fewer[0]
    assert look("") == plain


def test_a_build_is_plain_text() -> None:
    """It travels in every lineage: short, and of strings only."""
    described = build()
    assert all(isinstance(part, str) for pair in described.items() for part in pair)
    assert {"streamsvm", "numpy", "cpu", "simd", "blas", "libc"} <= described.keys()
    assert len(str(described)) < 1_000
