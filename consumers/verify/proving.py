"""Writes the proof of a version's bounds, of what `verify` made again from the log."""

from __future__ import annotations

import os
from pathlib import Path

from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Record
from streamsvm.learning.recipe import Made, proof_of
from streamsvm.model import message as model_codec
from streamsvm.model import proof as proof_form
from streamsvm.model.version import Version


def require_new(path: Path) -> None:
    """See that a proof can be written to a path, before the log is read for it.

    Raises
    ------
    ConfigurationError
        If there is such a file, or no directory for it.
    """
    if path.exists():
        raise ConfigurationError(f"{path} exists already", "Give --proof another name, or remove the file.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ConfigurationError(f"no file can be made in {path.absolute().parent}", "Give --proof another directory.")


def write_proof(path: Path, version: Version, record: Record, made: Made | None) -> str:
    """Write the proof of a version's bounds, for its owner alone: it carries rows of the stream. Return what was done.

    Parameters
    ----------
    path : Path
        Of a new file.
    version : Version
    record : Record
        That it stands in.
    made : Made or None
        What was made again; None where that differs, or could not be made.

    Raises
    ------
    ConfigurationError
        If the version has no bounds, or they say nothing, or the file cannot be written.
    """
    if made is None:
        return f"{version.key}: no proof was written, because the version was not made again as it stands"
    assert record.value is not None
    proof = proof_of(made, version.key, model_codec.sha256(record.value))
    if proof is None:
        said = "has no bounds" if made.certified is None else f"has bounds that say nothing ({made.certified})"
        raise ConfigurationError(
            f"{version.key} {said}, so they cannot be proven",
            "Bounds are of linear machines of two labels that were learned with coreset.totals; after more rows they "
            "say more.",
        )
    data = proof_form.encode(proof)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigurationError(f"the proof cannot be written to {path}: {error.strerror}") from None
    return (
        f"{version.key}: the proof of its bounds is in {path} ({len(data):,} bytes, {proof.claim.held:,} rows of the "
        f"stream and {proof.claim.strata:,} sets of rows)"
    )
