"""What the aliases topic says of a model, without a broker."""

from __future__ import annotations

import pytest

from streamsvm.kafka import Record
from streamsvm.model import Alias, encode_alias, pin_key
from streamsvm.registry.aliases import aliases_in

ALIAS = Alias(3, "ab" * 32, 7)


def record_of(key: str, value: bytes) -> Record:
    return Record("models.aliases", 0, 0, key.encode(), value, (), 0, None)


@pytest.mark.parametrize("key", ["m@later#what no reader knows", "m@owner"])
def test_a_record_beside_an_alias_is_no_alias(key: str) -> None:
    """Whatever it holds: a reader without the branch that writes it neither shows it nor finds fault with it."""
    for value in (encode_alias(ALIAS), b"{}", b"\xff"):
        found = aliases_in([record_of("m@current", encode_alias(ALIAS)), record_of(key, value)], "m")
        assert dict(found.named) == {"m@current": ALIAS}
        assert found.faults == ()


def test_the_pin_is_named() -> None:
    """It stands beside an alias, and names a version; of a model with such a mark in its name, too."""
    for name in ("m", "a#b"):
        found = aliases_in([record_of(pin_key(name), encode_alias(ALIAS)), record_of(f"{name}@other", b"?")], name)
        assert dict(found.named) == {pin_key(name): ALIAS}
        assert len(found.faults) == 1
