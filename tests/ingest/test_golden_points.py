"""Records as they were once written: today's code reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsvm.config import PointsConfig
from streamsvm.ingest.decoder import PointDecoder
from tests.golden import HERE
from tests.golden.points import EXPECTED, SCHEMAS, records
from tests.ingest.rows import ARROW, AVRO, Raw, Shelf

HEADERS = {"json": (), "arrow": ARROW, "arrow32": ARROW, "avro": AVRO}
FILES = sorted(HERE.glob("*.point"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_record_is_read(path: Path) -> None:
    """Every format and version that was ever written gives the same points, and the same row is rejected."""
    decoder = PointDecoder(PointsConfig(dimension=2), schemas=Shelf(SCHEMAS))
    decoded = decoder.decode([Raw(path.read_bytes(), headers=HEADERS[path.stem.rpartition(".")[2]])])
    rows = decoded.rows[0]
    one = path.stem.startswith("one")
    assert rows.accepted.tolist() == ([True] if one else [True, False, True])
    expected = EXPECTED.take(slice(1)) if one else EXPECTED
    assert rows.points.take(rows.accepted).sha256() == expected.sha256()
    assert [bad.reason for one in decoded.rejected for bad in one.rejections] == ([] if one else ["unknown_label"])


def test_there_is_a_file_of_every_format() -> None:
    """What is written today in each format has its file; JSON and Avro are the same bytes on every machine."""
    written = records()
    assert {path.name for path in FILES} >= set(written)
    for name, value in written.items():
        if "arrow" not in name:  # other releases of the library may pad or lay out the same stream differently
            assert (HERE / name).read_bytes() == value, name
