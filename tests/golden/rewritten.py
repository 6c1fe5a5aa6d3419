"""Golden checkpoints of which a part is another one, under a valid checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from streamsvm.coreset import FORMAT, HEAD, KINDS, MAGIC, field_names


def sealed(head: Any, arrays: bytes = b"", version: int = FORMAT) -> bytes:
    """Return bytes with a right hash, as somebody else might write them."""
    plain = msgspec.msgpack.encode(head)
    body = HEAD.pack(MAGIC, version, len(plain)) + plain + arrays
    return body + hashlib.sha256(body).digest()


def opened(content: bytes) -> tuple[list[Any], bytes]:
    """Return the head, which is names, writer and tree, and the arrays."""
    end = HEAD.size + HEAD.unpack_from(content)[2]
    return msgspec.msgpack.decode(content[HEAD.size : end]), content[end:-32]


def at(tree: Any, *path: str | int) -> Any:
    """Return what stands in a tree: below the fields of objects, the places in tuples and the keys of mappings."""
    for step in path:
        if tree[0] == "@":
            place = field_names(KINDS[tree[1]].of).index(str(step))
            tree[2] += [["d"]] * (place + 1 - len(tree[2]))  # an empty mapping at the end is left out
            tree = tree[2][place]
        elif tree[0] == "d":
            tree = next(one for key, one in tree[1:] if key == step)
        else:
            tree = tree[1 + int(step)]
    return tree


def changed(content: bytes, change: Callable[[Any], object], *path: str | int, more: bytes = b"") -> bytes:
    """Return bytes of which what stands at a path is changed in place."""
    head, arrays = opened(content)
    change(at(head[2], *path))
    return sealed(head, arrays + more)
