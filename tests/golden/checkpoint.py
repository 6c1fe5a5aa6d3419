"""The snapshots of golden checkpoints, and the rendering as JSON of what golden bytes mean."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from streamsvm.checkpoint import Snapshot, format as codec
from streamsvm.points import LookedUp
from tests.golden import HERE


def kept_snapshot(name: str) -> Snapshot:
    """Return the snapshot of a golden file; the JSON file beside it says what it has to be."""
    return codec.decode((HERE / f"{name}.ssvm").read_bytes())


handmade: Final = partial(kept_snapshot, "checkpoint-1")
handmade_taken: Final = partial(kept_snapshot, "checkpoint-1-taken")


def as_json(found: object) -> Any:
    """Return a snapshot, or a model version, as plain JSON values; floats keep all their bits."""
    return json.loads(json.dumps(_plain(found)))


def _plain(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return {"dtype": found.dtype.str, "shape": found.shape, "values": found.ravel().tolist()}
    if isinstance(found, dict):
        return {str(key): _plain(value) for key, value in found.items()}
    if isinstance(found, LookedUp):
        return _plain(found.known())
    if dataclasses.is_dataclass(found):
        return {field.name: _plain(getattr(found, field.name)) for field in dataclasses.fields(found) if field.init}
    if isinstance(found, msgspec.Struct):
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        return {name: _plain(value) for name, value in fields.items() if value is not msgspec.UNSET}
    if isinstance(found, tuple | list):
        return [_plain(one) for one in found]
    return found
