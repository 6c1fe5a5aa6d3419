"""Files in the sparse text format of LIBSVM and svmlight."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.cells import checked_features, labels_of
from streamsvm.ingest.files.faults import bad_row, reading, shown
from streamsvm.ingest.files.reading import batch_rows, chunks, empty, lines_of, open_bytes
from streamsvm.ingest.files.roles import ReadOptions
from streamsvm.ingest.files.source import PointSource, SourceBatch

SPARSE_ROWS: Final = 4096
"""Number of rows of a sparse file that are parsed at once while its dimension is not known."""

LARGEST_DIMENSION: Final = 100_000
"""The limit of `points.dimension`. An index in a sparse file decides how much memory is allocated, so it is checked."""


def open_svm(path: Path, options: ReadOptions) -> PointSource:
    """Read ahead for the number of rows, the largest index, and whether indices begin at 0 or at 1."""
    if options.dimension is not None and not 1 <= options.dimension <= LARGEST_DIMENSION:
        raise ConfigurationError(f"dimension is {options.dimension}", f"dimension must be 1 to {LARGEST_DIMENSION}.")
    rows, lowest, highest = 0, 1, -1
    with open_bytes(path) as file:
        for first_row, lines in chunks(_sparse_lines(path, file), SPARSE_ROWS):
            indices = _parse_sparse(path, lines, first_row, None)[0].indices
            rows = first_row + len(lines)
            if len(indices):
                lowest, highest = min(lowest, int(indices.min())), max(highest, int(indices.max()))
    if not rows:
        raise empty(path)
    first_index = 0 if lowest == 0 else 1
    found = highest + 1 - first_index
    dimension = found if options.dimension is None else options.dimension
    if dimension < max(found, 1):
        raise ConfigurationError(
            f"{path} has {found} features, dimension is {dimension}", f"Set dimension to {max(found, 1)} or more."
        )
    read = partial(_read_svm, path, dimension, first_index, labeled=options.labeled)
    return PointSource(
        name=str(path), dimension=dimension, feature_names=(), labeled=options.labeled, rows=rows, batches=read
    )


def _sparse_lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines that hold a point: comments and lines of nothing else are left out."""
    for line in lines_of(path, file):
        content = line.partition(b"#")[0].strip()
        if content:
            yield content


def _parse_sparse(path: Path, lines: Sequence[bytes], first_row: int, width: int | None) -> tuple[Any, Any]:
    """Parse lines with scikit-learn's reader, indices as they are; in a chunk it refuses, look for the row."""
    from sklearn.datasets import load_svmlight_file  # a second's import, for this format only

    def parse(some: Sequence[bytes]) -> tuple[Any, Any]:
        X, y = load_svmlight_file(io.BytesIO(b"\n".join(some)), n_features=width, zero_based=True)
        return X, y

    try:
        X, y = parse(lines)
    except (ValueError, OverflowError):
        for row, line in enumerate(lines, first_row):
            try:
                parse([line])
            except (ValueError, OverflowError) as error:
                raise bad_row(path, row, f"{error}; the line is {shown(line.decode(errors='replace'))}") from None
        raise
    if X.shape[1] > LARGEST_DIMENSION + 1:
        raise ConfigurationError(
            f"{path}: rows {first_row + 1} to {first_row + len(lines)} have a feature of index {X.shape[1] - 1}",
            f"At most {LARGEST_DIMENSION} features are supported.",
        )
    return X, y


def _read_svm(path: Path, dimension: int, first_index: int, *, labeled: bool) -> Iterator[SourceBatch]:
    with reading(path), open_bytes(path) as file:
        for first_row, lines in chunks(_sparse_lines(path, file), batch_rows(dimension)):
            sparse, y = _parse_sparse(path, lines, first_row, dimension + first_index)
            X = checked_features(path, (), sparse.toarray()[:, first_index:], first_row)
            yield SourceBatch(
                X, labels_of(path, "label", y.tolist(), first_row) if labeled else None, None, None, first_row
            )
