"""What a version says of the files that it was made of."""

from __future__ import annotations

from typing import Final

from streamsvm.branches.workers.files_part import FilesOfPartition, FilesOrigin, Layout, NamedFile
from streamsvm.model.version import Lineage


def files(lineage: Lineage) -> FilesOrigin:
    """Return the files that the golden version of a whole lineage begins with: of its first partition only."""
    first, *others = lineage.base
    return FilesOrigin(
        files=(NamedFile("day=1/a.parquet", "0f" * 32, 3), NamedFile("day=2/b.parquet", "f0" * 32, 2)),
        layout=Layout.of(label="y", features=("x",), key="user", time="at"),
        in_topic=False,
        partitions=(
            FilesOfPartition(first.partition, 5, first.offset + 1),
            *(FilesOfPartition(one.partition, 0, one.offset) for one in others),
        ),
    )


FACTS: Final = {"files": files}
WRONG: Final = (
    ("parts.info_files", "files", []),
    ("parts.info_files", "in_topic", 1),
    ("parts.info_files.layout", "features", "x"),
)
"""Values that no version has: where they stand, the field, the value."""
