"""What a build is: all that decides the bits of a model beside the log and the configuration."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from streamsvm.build import build

PROGRAM = """
import hashlib, json
import numpy as np
from streamsvm.build import build
numbers = np.random.default_rng(0).random(1000)
print(json.dumps(build(), sort_keys=True))
print(hashlib.sha256(np.exp(-numbers).tobytes() + np.log(numbers).tobytes()).hexdigest())
"""


def printed(program: str, **environment: str) -> list[str]:
    """Return what a program prints in a process with these settings."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=True,
        timeout=120,
    )
    return finished.stdout.splitlines()


def look(disabled: str) -> list[str]:
    """Return the build, and a hash of what exp and log give, of a process without some CPU features."""
    return printed(PROGRAM, NPY_DISABLE_CPU_FEATURES=disabled)


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


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("NUMBA_OPT", "0"),
        ("NUMBA_OPT", "max"),
        ("NUMBA_LOOP_VECTORIZE", "0"),
        ("NUMBA_SLP_VECTORIZE", "1"),
        ("NUMBA_BOUNDSCHECK", "1"),
        ("NUMBA_DISABLE_JIT", "1"),
        ("NUMBA_ENABLE_AVX", "0"),
    ],
)
def test_a_setting_of_the_compiler_is_another_build_with_another_cache(
    setting: str, value: str, tmp_path: Path
) -> None:
    """Each changes code, so each stands in the build and in the name of the folder that code is kept in."""
    plain, other = generated(tmp_path), generated(tmp_path, **{setting: value})
    assert plain["build"] != other["build"]
    assert plain["cache"] != other["cache"]
    assert Path(plain["cache"]).parent == Path(other["cache"]).parent == tmp_path
    assert plain == generated(tmp_path)


def test_a_cache_that_cannot_be_written_is_named_and_not_used(tmp_path: Path) -> None:
    """The process compiles for itself, instead of taking code from a folder of other settings."""
    file = tmp_path / "file"
    file.touch()
    found = generated(file)
    assert str(file) in found["fault"]
    assert not found["cache"]
    assert found["kept"] is False
    assert generated(tmp_path)["fault"] == ""
    assert generated(tmp_path)["kept"] is True


def test_a_disk_that_refuses_compiled_code_ends_nothing(tmp_path: Path) -> None:
    """As a full one does: the function runs, and why its code is not kept is said once."""
    program = (
        "import logging, resource, sys; logging.basicConfig(stream=sys.stdout, format='%(message)s')\n"
        "from streamsvm.linalg import product\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "import numpy as np; x = np.ones((2, 2))\n"
        "product(x.astype('f4'), x); print(product(x, x).tolist())"
    )
    said, result = printed(program, NUMBA_CACHE_DIR=str(tmp_path))
    assert "compiled code is not kept ([Errno 27] File too large" in said
    assert result == "[[2.0, 2.0], [2.0, 2.0]]"


GENERATED = """
import json
from streamsvm.build import build
from streamsvm.compiling import CACHE, CACHE_FAULT
from streamsvm.svm.working_set import *
from streamsvm.linalg import product
kept = type(product._cache).__name__ == "FunctionCache" if hasattr(product, "_cache") else None
print(json.dumps({"build": build(), "cache": CACHE, "fault": CACHE_FAULT, "kept": kept}))
"""


def generated(cache: Path, **environment: str) -> dict[str, Any]:
    """Return the build, and where it keeps compiled code, of a process with these settings."""
    found: dict[str, Any] = json.loads(printed(GENERATED, NUMBA_CACHE_DIR=str(cache), **environment)[-1])
    return found


def test_a_build_names_each_blas_and_its_kernels() -> None:
    """The same whether scipy was loaded before or not; other kernels are another build."""
    program = "from streamsvm.build import build; print(build()['blas'])"
    plain = printed(program)[-1]
    assert plain == printed("import sklearn.svm, scipy.linalg; " + program)[-1]
    own = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    for pool in own:
        assert f"{pool['internal_api']} {pool['version']} {pool['architecture']}" in plain
    if platform.machine() == "x86_64" and own[0]["internal_api"] == "openblas":
        assert printed(program, OPENBLAS_CORETYPE="Prescott")[-1] != plain
