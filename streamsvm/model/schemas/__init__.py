"""JSON Schemas (draft 2020-12) of what stands on the topics: files, for programs in any language.

``model-4.schema.json`` describes the value of a model version. It names every field and refuses any other, as the
codec does; what relates two fields, such as the number of entries and `dimension`, only the codec checks.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def model_schema() -> dict[str, Any]:
    """Return the schema of a model version of the newest format."""
    text = resources.files(__name__).joinpath("model-4.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
