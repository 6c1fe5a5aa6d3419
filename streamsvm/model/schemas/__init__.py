"""JSON Schemas (draft 2020-12) of what stands on the topics: files, for programs in any language.

``model-4.schema.json`` describes the value of a model version, ``model-5.schema.json`` that of one with a threshold,
``model-6.schema.json`` that of one that scores raw events, ``model-7.schema.json`` that of one of more than two labels,
``model-8.schema.json`` that of one in half precision. Each names every field and refuses any other, as the codec does;
what relates two fields, such as the number of entries and `dimension`, only the codec checks.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def model_schema(number: int = 4) -> dict[str, Any]:
    """Return the schema of a version of format 4, 5 (threshold), 6 (recipe), 7 (more labels) or 8 (half precision)."""
    text = resources.files(__name__).joinpath(f"model-{number}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
