"""The records of a model in the aliases topic: head, aliases, pin, retired versions, as one table.

Subscriber, `verify`, the commands of `streamsvm model` and a trainer's start all read the topic through this module, so
that they agree on what a record means. The topic is compacted; of each key the newest record counts. A record that
cannot be read changes nothing, and is a fault until a readable one follows: a person's typing error does not take a
model away from its readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from streamsvm.errors import InvalidMessage
from streamsvm.kafka import Cluster, Record
from streamsvm.model.left_out import LeftOut, UnknownRecord, decode_left_out, left_out_key
from streamsvm.model.pointers import (
    Alias,
    Head,
    Retired,
    decode_alias,
    decode_head,
    decode_retired,
    head_key,
    owner_key,
    pin_key,
    retired_key,
)

PARTITION: Final = 0
MOST_MODELS: Final = 100
"""Names of other models that are remembered, for messages that say what there is."""
MOST_LISTED: Final = 20
BESIDE: Final = "#"
"""Stands in the key of a record beside an alias, which no alias has in its name."""


def models_there(name: str, others: Collection[str]) -> str:
    """Return what to do if a topic has no model of a name: the models that it has, and the most similar name."""
    if not others:
        return "No version was published there yet: start the trainer, or check output.models_topic."
    listed, more = ", ".join(sorted(others)[:MOST_LISTED]), len(others) - MOST_LISTED
    close = get_close_matches(name, others, 1)
    return f"Choose one of its models with --name: {listed}{f' and {more} more' if more > 0 else ''}." + (
        f" Did you mean {close[0]}?" if close else ""
    )


@dataclass(frozen=True, slots=True)
class Aliases:
    """The newest records of a model.

    Attributes
    ----------
    head : Head or None
    named : mapping of str to Alias
        Every alias, and the pin, by its key, such as `name@current`.
    faults : tuple of str
        Records that cannot be read.
    retired : Retired or None
        Which versions are retired.
    others : frozenset of str
        Other models that the topic knows, the first `MOST_MODELS`.
    left_out : LeftOut, UnknownRecord or None
        Which rows of the input no later version may be of.
    """

    head: Head | None
    named: Mapping[str, Alias]
    faults: tuple[str, ...] = ()
    retired: Retired | None = None
    others: frozenset[str] = frozenset()
    left_out: LeftOut | UnknownRecord | None = None

    @property
    def known(self) -> bool:
        """Whether the topic says anything of the model."""
        return bool(self.named or self.faults or self.head or self.retired)

    @property
    def numbers(self) -> set[int]:
        """Every number that is named, the head's among them."""
        head = {self.head.number} if self.head else set()
        return head | {alias.number for alias in self.named.values()}

    @property
    def newest(self) -> int:
        """The greatest number that is known to be published; 0 if none is."""
        return max((alias.number for alias in self.roots), default=0)

    @property
    def roots(self) -> tuple[Alias, ...]:
        """The records from which the chain of hashes begins: the head; if there is none, every alias."""
        return (self.head.alias,) if self.head else tuple(self.named.values())

    def is_retired(self, number: int) -> bool:
        """Return whether a version is retired, and no alias names it."""
        named = any(alias.number == number for alias in self.named.values())
        return self.retired is not None and number in self.retired and not named


class AliasTable:
    """The table, filled with records of the aliases topic in their order.

    Parameters
    ----------
    name : str
        Of the model; of other models only the names are kept.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._prefix = f"{name}@".encode()
        self._models: frozenset[str] = frozenset()
        self.forget()

    def forget(self) -> None:
        """Empty the table, before the topic is read from its beginning again."""
        self._head: Head | None = None
        self._retired: Retired | None = None
        self._left_out: LeftOut | UnknownRecord | None = None
        self._named: dict[str, Alias] = {}
        self._faults: dict[str, str] = {}

    def note(self, record: Record) -> str:
        """Add a record; return what is wrong with it, empty if it can be read or belongs to another model."""
        key = record.key or b""
        self._hear_of(record)
        if not key.startswith(self._prefix):
            return ""
        name = key.decode(errors="replace")
        # Any newer record of the key ends the fault; if it cannot be read either, it is the fault from now on. What the
        # last readable record said stays in force meanwhile.
        self._faults.pop(name, None)
        try:
            self._set(name, record.value)
        except InvalidMessage as error:
            self._faults[name] = f"the alias {name} cannot be read: {error}"
            return str(error)
        return ""

    def _set(self, key: str, value: bytes | None) -> None:
        if key == head_key(self._name):
            self._head = None if value is None else decode_head(value)
        elif key == retired_key(self._name):
            self._retired = None if value is None else decode_retired(value)
        elif key == left_out_key(self._name):
            self._left_out = None if value is None else decode_left_out(value)
        elif value is None:
            self._named.pop(key, None)
        elif self._is_alias(key):
            self._named[key] = _alias(value)

    def _is_alias(self, key: str) -> bool:
        """Return whether a key is that of an alias or of the pin, and not of a record that stands beside an alias."""
        if BESIDE in key.removeprefix(self._name):
            return key == pin_key(self._name)
        return key != owner_key(self._name)

    def _hear_of(self, record: Record) -> None:
        name = (record.key or b"").split(b"@", 1)[0].decode(errors="replace")
        if name != self._name and record.key == owner_key(name).encode():
            # An owner record alone: the other model's trainer was started, and has published nothing.
            return
        if name and name not in self._models and record.value is not None and len(self._models) < MOST_MODELS:
            self._models |= {name}

    def __getitem__(self, key: str) -> Alias | None:
        """Return what an alias names, by its key; None if there is no such alias."""
        return self._named.get(key)

    @property
    def models(self) -> frozenset[str]:
        """Models that the topic knows, the first `MOST_MODELS`; may be read from any thread."""
        return self._models

    @property
    def aliases(self) -> Aliases:
        """What was taken in so far."""
        return Aliases(
            self._head,
            dict(self._named),
            tuple(self._faults.values()),
            self._retired,
            self._models - {self._name},
            self._left_out,
        )


def _alias(value: bytes) -> Alias:
    alias = decode_alias(value)
    if alias.number < 1 or alias.offset < 0:
        raise InvalidMessage(f"an alias cannot name version {alias.number} at offset {alias.offset}")
    return alias


def aliases_in(records: Iterable[Record], name: str) -> Aliases:
    """Return what records of the aliases topic, in their order, say of a model."""
    table = AliasTable(name)
    for record in records:
        table.note(record)
    return table.aliases


def read_aliases(cluster: Cluster, name: str, topic: str, timeout_s: float) -> Aliases:
    """Read what the aliases topic says of a model, to its end.

    Raises
    ------
    TopicMissing, TransientError
        As for `Cluster.read_to_end`.
    """
    return aliases_in(cluster.read_to_end(topic, PARTITION, timeout_s=timeout_s), name)
