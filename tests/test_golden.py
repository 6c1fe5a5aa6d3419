"""What was released stays as it is, and is read as what it meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.golden import HERE
from tests.golden.every_checkpoint import HANDMADE
from tests.golden.every_model import KINDS
from tests.golden.every_record import RECORDS
from tests.golden.model import path_of
from tests.golden.points import records
from tests.golden.vectors import FROZEN, OF_THE_WHOLE, SUMS, changes, models, records as records_read, sums

RELEASES = [HERE.with_name(release) for release in FROZEN]


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_a_release_is_read_as_it_was_written(folder: Path) -> None:
    """No byte of its files is another one, and each means what it meant."""
    assert changes(folder) == []
    assert [fault for read in OF_THE_WHOLE for fault in read(folder)] == []


def test_every_release_has_its_hash() -> None:
    """A folder of bytes that nobody holds still would be none."""
    assert {path.name for path in HERE.parent.iterdir() if path.name[0].isdigit()} == FROZEN.keys()
    assert HERE.name in FROZEN


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_written_as_it_was(name: str) -> None:
    """Byte for byte, by the same build that reads it."""
    assert RECORDS[name].make() == (HERE / f"{name}.record").read_bytes()


def test_every_file_is_of_a_generator() -> None:
    """Or one of the three that were written once: answers, notations and the sums."""
    made = {path_of(kind).name for kind in KINDS} | records().keys()
    made |= {f"{name}{suffix}" for name in HANDMADE for suffix in (".ssvm", ".json")}
    made |= {f"{name}.record{suffix}" for name in RECORDS for suffix in ("", ".json")}
    assert {path.name for path in HERE.iterdir()} == made | {"answers.json", "notations.json", SUMS}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE, tmp_path / HERE.name))


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.iterdir() if path.name != SUMS))
def test_a_changed_byte_is_found(copy: Path, name: str) -> None:
    """In any file; also where the sums were made anew, or the file is gone."""
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    assert changes(copy) == [name]
    (copy / SUMS).write_text(sums(copy))
    assert changes(copy) == [SUMS]
    shutil.copy2(HERE / SUMS, copy)
    (copy / name).unlink()
    assert changes(copy) == [name]


def test_another_meaning_is_found(copy: Path) -> None:
    """Of a message by what it answers, of a record by what is read of it."""
    answers = json.loads((copy / "answers.json").read_text("utf-8"))
    answers["models"][0]["answers"][0]["decision"] += 1e-9
    (copy / "answers.json").write_text(json.dumps(answers), "utf-8")
    (fault,) = models(copy)
    assert fault.startswith("model-1-linear.json")
    alias = copy / "alias.record"
    alias.write_bytes(alias.read_bytes().replace(b"12", b"13", 1))
    assert [*records_read(copy)] == ["alias.record"]
