"""In which parts the values of two versions differ, from cause to consequence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

PARTS_SHOWN: Final = 6
"""Differing parts of a version that are named one by one."""


def differences(published: bytes, recomputed: bytes) -> tuple[str, ...]:
    """Name the parts in which two values of versions differ; none if they are the same bytes."""
    if published == recomputed:
        return ()
    was, found = dict(_leaves(_by_part(published))), dict(_leaves(_by_part(recomputed)))
    parts = [path for path in dict.fromkeys([*found, *was]) if _exact(was, path) != _exact(found, path)]
    if not parts:
        return ("the bytes, but not their meaning: the version was encoded in another way",)
    shown = [
        f"{path}: published {_shown(was, path)}, recomputed {_shown(found, path)}"
        for path in sorted(parts, key=_weight)[:PARTS_SHOWN]
    ]
    if len(parts) > PARTS_SHOWN:
        rest = Counter(path.split("[")[0] for path in sorted(parts, key=_weight)[PARTS_SHOWN:])
        shown.append("and " + ", ".join(f"{path} ({count})" for path, count in rest.items()))
    return tuple(shown)


_FIRST: Final = ("lineage.training_set_sha256", "stream", "features", "training.C", "model", "training")


def _weight(path: str) -> int:
    """Order parts from cause to consequence."""
    return next((rank for rank, part in enumerate(_FIRST) if path.startswith(part)), len(_FIRST))


def _by_part(value: bytes) -> dict[str, object]:
    """Return a version's value with each named part under its name."""
    trunk = json.loads(value)
    parts = trunk.pop("parts")
    return {**trunk, **{part["part"]: part for part in parts}}


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for index, part in enumerate(value):
            yield from _leaves(part, f"{path}[{index}]")
    else:
        yield path, value


_ABSENT: Final = object()


def _exact(leaves: Mapping[str, object], path: str) -> str:
    """Return a value as text in which 0.0 and -0.0, 1 and 1.0 differ."""
    return repr(leaves.get(path, _ABSENT))


def _shown(leaves: Mapping[str, object], path: str) -> str:
    if path not in leaves:
        return "nothing"
    text = json.dumps(leaves[path])
    return text if len(text) <= 80 else f"{text[:77]}..."
