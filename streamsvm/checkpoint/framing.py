"""The frame of a checkpoint file and of each record: magic, format, header, arrays, checksum.

======  ====  =========================================================================
offset  size  content
======  ====  =========================================================================
0       8     magic: ``SSVMCKPT`` of a checkpoint
8       4     format, unsigned, little-endian: 1
12      8     H, the header's length in bytes, unsigned, little-endian
20      H     header: JSON (UTF-8) that names every array by dtype, shape and place
20 + H  B     arrays one after another, little-endian, C order
end-32  32    SHA-256 of everything before
======  ====  =========================================================================

The first twelve bytes and the checksum at the end are the same in every format, past or future, so that what is damaged
can be distinguished from what another build wrote.

Invariant: a reader checks the checksum first, and then compares every size with the bytes at hand before it allocates
memory.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from streamsvm.checkpoint.forms import Form, StateReader, StateWriter
from streamsvm.errors import CorruptCheckpoint

FORMAT: Final = 1
CHECKSUM_BYTES: Final = 32
_PREFIX: Final = struct.Struct("<8sIQ")
Header = TypeVar("Header", bound=Form)


class _Parts(msgspec.Struct):
    parts: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A kind of file or record.

    Attributes
    ----------
    magic : bytes
        Eight.
    what : str
        What it is, for errors.
    remedy : str
        What to do with one of another format.
    """

    magic: bytes
    what: str = "record"
    remedy: str = "Use the build that wrote it."

    def framed(self, header: Form, writer: StateWriter) -> bytes:
        """Return a header and the arrays that it names: the same ones give the same bytes."""
        described = msgspec.json.encode(header, order="deterministic")
        body = b"".join([_PREFIX.pack(self.magic, FORMAT, len(described)), described, *writer.arrays])
        return body + hashlib.sha256(body).digest()

    def opened(self, content: bytes, kind: type[Header]) -> tuple[Header, StateReader]:
        """Return the header, and what reads the arrays.

        Raises
        ------
        CorruptCheckpoint
            If a byte is damaged or missing, or the format is another one.
        """
        if len(content) < _PREFIX.size + CHECKSUM_BYTES:
            raise CorruptCheckpoint(f"the {self.what} has only {len(content)} bytes")
        magic, version, header_bytes = _PREFIX.unpack_from(content)
        if magic != self.magic:
            raise CorruptCheckpoint(f"the {self.what} does not begin with {self.magic.decode()}")
        body = memoryview(content)[:-CHECKSUM_BYTES]
        if hashlib.sha256(body).digest() != content[-CHECKSUM_BYTES:]:
            raise CorruptCheckpoint(f"the {self.what}'s checksum does not match: bytes were lost or changed")
        if version != FORMAT:
            raise self._of_another_build(f"its format is {version}, and this build knows {FORMAT} only")
        if header_bytes > len(body) - _PREFIX.size:
            raise CorruptCheckpoint(f"the {self.what}'s header is longer than the {self.what}")
        rest = body[_PREFIX.size :]
        return self._header(rest[:header_bytes], kind), StateReader(rest[header_bytes:], self.what)

    def _header(self, described: memoryview, kind: type[Header]) -> Header:
        try:
            try:
                return msgspec.json.decode(described, type=kind)
            except msgspec.ValidationError:
                if msgspec.json.decode(described, type=_Parts).parts is msgspec.UNSET:
                    raise self._of_another_build("its header has no parts") from None
                raise
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptCheckpoint(f"the {self.what}'s header is damaged: {error}") from None

    def _of_another_build(self, why: str) -> CorruptCheckpoint:
        what = f"the {self.what} was written before the first release, or by a later one: {why}"
        return CorruptCheckpoint(what, self.remedy)
