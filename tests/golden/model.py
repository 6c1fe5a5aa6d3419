"""The golden model messages of the trunk: their kinds, where their bytes are, and what these mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from streamsvm.model import Threshold, Version, message
from tests.golden import HERE

KERNELS: Final = ("linear", "rbf")
KINDS: Final = (
    *KERNELS,
    *(f"{kernel}-{feature}" for feature in ("threshold", "classes") for kernel in KERNELS),
    "rbf-packed",
    "linear-lineage",
    "additive",
    "additive-threshold",
    "additive-classes",
    "additive-rest",
)
"""A version of each kernel, and one for each thing more that a version may have."""


def path_of(kind: str) -> Path:
    """Return where the bytes of a version are kept."""
    return HERE / f"model-1-{kind}.json"


def parts_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return the named parts of a version's value by their names; the objects themselves."""
    return {part["part"]: part for part in value["parts"]}


def meaning_of(kind: str) -> Any:
    """Return every field of a version, as it was written down when its bytes were made by hand."""
    return json.loads((HERE.parent / "meanings.json").read_text("utf-8"))[kind]


def handmade(kind: str = "linear") -> Version:
    """Return one of `KINDS`; `meaning_of` says what it has to be."""
    return message.decode(path_of(kind).read_bytes())


def _threshold(kernel: str) -> Threshold:
    found = handmade(f"{kernel}-threshold").model.threshold
    assert found is not None
    return found


THRESHOLDS: Final = {kernel: _threshold(kernel) for kernel in KERNELS}
