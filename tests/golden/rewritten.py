"""Golden checkpoints with another header, or with other named parts, under a valid checksum."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

from streamsvm.checkpoint import FORMAT, format as codec
from tests.golden.every_checkpoint import HANDMADE


def sealed(body: bytes) -> bytes:
    """Return a file with its checksum."""
    return body + hashlib.sha256(body).digest()


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return a file's header and its arrays."""
    end = 20 + struct.unpack_from("<Q", content, 12)[0]
    return json.loads(content[20:end]), content[end:-32]


def joined(header: Any, arrays: bytes, version: int = FORMAT) -> bytes:
    """Return a file with this header and these arrays, under a valid checksum."""
    text = json.dumps(header).encode()
    return sealed(codec.FILE.magic + struct.pack("<IQ", version, len(text)) + text + arrays)


def places(header: Any) -> dict[str, Any]:
    """Return an object of each kind that has parts."""
    first, pending = header["partitions"][0], header["pending"]
    found = {"snapshot": header, "partition": first, "bucket": first["buckets"][0], "screen": first["screened"]}
    return found | ({"cut": pending} if pending else {"taken": header["taken"][0]})


def with_parts(name: str, place: str, change: Callable[[list[Any]], object]) -> bytes:
    """Return a golden file with other parts in an object of a kind."""
    header, arrays = parts(codec.encode(HANDMADE[name]()))
    change(places(header)[place]["parts"])
    return joined(header, arrays)
