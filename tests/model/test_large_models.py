"""What decoding the largest model messages takes: memory as a multiple of the message, time as one of reading JSON.

A reader takes what the client takes: `receive.message.max.bytes`, 100 MB unless it is configured; `tests.test_borders`
shows that what is larger is refused. No size that a message states is believed, so that a multiple of its length bounds
everything.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsvm.errors import InvalidMessage
from streamsvm.model import message as codec
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.version import Version
from tests.golden.model import handmade
from tests.registry.test_subscriber import version_of

LARGEST_BYTES = 100_000_000
SMALLER_BYTES = 10_000_000
"""Enough for a multiple to show, where the largest would need gigabytes of a test's machine."""
SPARE_BYTES = 64 << 20
"""What an allocator keeps beside what is asked of it; most of it in steps of a thread's arena."""
MOST_TIMES_JSON = 200
"""A decoder that is not linear in the message takes thousands."""


def kernel_message(size: int, dimension: int) -> bytes:
    """Return a good message of a kernel machine of about so many bytes: base64 of the support vectors and duals."""
    n, rng = size * 3 // 4 // (8 * (dimension + 1)) - 200, np.random.default_rng(0)
    machine = KernelMachine(RbfKernel(0.5), rng.normal(size=(n, dimension)), rng.normal(size=n), 0.1)
    return message_of(machine, dimension)


def linear_message(size: int) -> bytes:
    """Return a good message of a linear machine of about so many bytes: three numbers a feature, in decimals."""
    n = size // 37
    return message_of(LinearMachine(np.random.default_rng(0).normal(size=n), 0.1), n)


def message_of(machine: Machine, dimension: int) -> bytes:
    model = Model(Scaler.identity(dimension), machine)
    return codec.encode(replace(version_of(1, dimension=dimension), model=model))


def filled(path: Sequence[Any], piece: str, size: int, version: Version | None = None) -> bytes:
    """Return a message that is small and good, but for a list of pieces at a path."""
    value = holder = json.loads(codec.encode(version or version_of(1)))
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = "MARK"
    return json.dumps(value).replace('"MARK"', f"[{','.join([piece] * (size // (len(piece) + 1)))}]").encode()


def many_parts(size: int) -> bytes:
    """Return a good message with thousands of parts that are passed over."""
    value = json.loads(codec.encode(version_of(1)))
    value["parts"] += [{"part": f"info_z{number:08}"} for number in range(size // 27)]
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Large:
    """A message of about so many bytes, how many times those its decoding may take, and whether it is a good one."""

    value: Callable[[int], bytes]
    times: float
    good: bool
    size: int = SMALLER_BYTES


PART = ["parts", 0, "machines", 1]
CURVE = '{"knots":[],"values":[]}'
SURFACE = '{"features":[0,1],"rows":[0,1],"columns":[0,1],"values":[[0,1],[0,1]]}'
MESSAGES = {
    "kernel, 10 features": Large(lambda size: kernel_message(size, 10), 6.0, True, LARGEST_BYTES),
    "kernel, 1 feature": Large(lambda size: kernel_message(size, 1), 14.0, True),
    "linear": Large(linear_message, 14.0, True),
    "empty lists": Large(lambda size: filled(["lineage", "configuration", "more"], "[]", size), 28.0, True),
    "empty objects": Large(lambda size: filled(["lineage", "configuration", "more"], "{}", size), 28.0, True),
    "names": Large(lambda size: filled(["features", "names"], '"a"', size), 28.0, False),
    "coefficients": Large(lambda size: filled(["model", "coefficients", 0], "1", size), 28.0, False),
    "curves": Large(lambda size: filled([*PART, "curves"], CURVE, size, handmade("additive-rest")), 28.0, False),
    "surfaces": Large(lambda size: filled([*PART, "surfaces"], SURFACE, size, handmade("additive-rest")), 28.0, False),
    "parts without a name": Large(lambda size: filled(["parts"], "{}", size), 28.0, False),
    "parts that are passed over": Large(many_parts, 28.0, True),
    "probes": Large(lambda size: filled(["probes", "x"], "[]", size), 28.0, False),
}


@pytest.mark.long(keep=("linear", "empty lists"))  # a machine, and a hostile message
@pytest.mark.parametrize("name", MESSAGES)
def test_decoding_takes_a_multiple_of_the_message(name: str, tmp_path: Path) -> None:
    """A process that may take no more memory than that decodes it, or says why it is bad; in a time of that order."""
    large = MESSAGES[name]
    (tmp_path / "message").write_bytes(value := large.value(large.size))
    assert 0.9 * large.size < len(value) <= 1.1 * large.size
    found = subprocess.run(
        [sys.executable, "-m", "tests.model.test_large_models", tmp_path / "message", str(large.times)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=280,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert told["good"] == large.good
    assert told["times_json"] < MOST_TIMES_JSON


def under_a_limit(path: Path, times: float) -> dict[str, Any]:
    """Decode a message within so many times its size beside what the process has now; say how it went."""
    codec.decode(kernel_message(20_000, 3))  # loads what is loaded once
    value = path.read_bytes()
    begun = time.process_time()
    json.loads(value)
    reading_s = time.process_time() - begun
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(times * len(value)) + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    begun, good = time.process_time(), True
    try:
        codec.decode(value)
    except InvalidMessage:
        good = False
    return {"good": good, "times_json": (time.process_time() - begun) / reading_s, "bytes": len(value)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(under_a_limit(Path(sys.argv[1]), float(sys.argv[2]))))
