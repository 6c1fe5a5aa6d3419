"""The JSON Schema of a version as it is shipped."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def model_schema() -> dict[str, Any]:
    """Return the schema of a version's value."""
    text = resources.files("streamsvm.model.schemas").joinpath("model-1.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
