"""Where model versions go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from consumers.settings_sockets import open_to_branches
from streamsvm.option_texts import none_in_words
from streamsvm.sections import Section


@open_to_branches("output")
class OutputConfig(Section):
    """Where model versions go."""

    models_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="models", description="Topic of versions; `.aliases` and `.audit` stand beside it."
    )
    gate_margin: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, BeforeValidator(none_in_words)] = Field(
        default=0.1,
        description="How far below that of the current ones a version's balanced accuracy may be to become current. "
        "none: every version does.",
    )
    keep_versions: Annotated[int, Field(ge=1)] = Field(
        default=100,
        description="Newest versions to keep; others that no alias or pin names are retired by tombstones.",
    )
    signing_key_file: Path | None = Field(
        default=None,
        description="PEM file of the Ed25519 private key that signs every version; only its owner may have access. "
        "Needs pip install '.[sign]' in the folder of the sources.",
    )
    trusted_keys_file: Path | None = Field(
        default=None,
        description="PEM file of Ed25519 public keys: readers accept only what one of them signed (extra `sign`).",
    )

    @property
    def aliases_topic(self) -> str:
        """Compacted topic that says which version is current."""
        return f"{self.models_topic}.aliases"

    @property
    def audit_topic(self) -> str:
        """Topic of every alias change and refused version, never compacted."""
        return f"{self.models_topic}.audit"
