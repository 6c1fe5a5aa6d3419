"""Moves aliases and pins, and retires versions, for people; each act is one transaction with its audit entry.

Each move takes one transactional id first, which all movers of a model share and the trainer's publishing does not:
so it fences no trainer, and of two that move at once the one that took the id first is fenced before it has written
anything. What a move is decided on is read after the id is taken, so that it still holds when the transaction commits.
A mover that was fenced, or does not know what became of its commit, decides anew on what it then finds; therefore a
move that finds itself done already writes nothing.

The embedded broker has no transactions: there two that move at once are not told apart.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from consumers.models.catalogue import CatalogueEntry, holds, holds_all, holds_before, read_catalogue, read_names
from consumers.settings import Settings
from consumers.streams.moves import TRANSACTION_TIMEOUT_S, moves_id, settlement_of_moves
from streamsvm.errors import ConfigurationError, Fenced, TransientError
from streamsvm.kafka import Cluster, Message, OutcomeUnknown
from streamsvm.model import pointers, trail, version as version_form
from streamsvm.model.pointers import Alias, Retired, current_key, encode_alias, encode_retired, head_key, retired_key
from streamsvm.registry.aliases import Aliases
from streamsvm.registry.loading import ALIAS, RESERVED_ALIASES
from streamsvm.registry.signing import TrustedKeys

ATTEMPTS: Final = 5


def user_at_host() -> str:
    """Return who asks for a move, as the audit trail names them: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


@dataclass(frozen=True, slots=True)
class Move:
    """What to write, and what to print; nothing to write if it is done already."""

    said: str
    messages: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Records:
    """Makes the records of moves, and reads what they are decided on.

    Attributes
    ----------
    cluster : Cluster
    settings : Settings
    by, reason : str
        Who moves, and why; for the audit trail.
    now : datetime
    """

    cluster: Cluster
    settings: Settings
    by: str
    reason: str
    now: datetime

    def key(self, alias: str) -> str:
        """Return the key of an alias."""
        return f"{self.settings.name}@{alias}"

    @property
    def pin_key(self) -> str:
        """The key of the pin."""
        return pointers.pin_key(self.settings.name)

    def names(self) -> Aliases:
        """Read what the aliases topic says now."""
        return read_names(self.cluster, self.settings)

    def version(self, which: int | str, names: Aliases) -> CatalogueEntry:
        """Read where a version stands; `ConfigurationError` if it is not there, or could be a forgery."""
        return self.trusted(read_catalogue(self.cluster, self.settings, names, holds(which)).require(which))

    def trusted(self, entry: CatalogueEntry) -> CatalogueEntry:
        """Return a version; `ConfigurationError` if readers ask for a signature that it lacks."""
        output = self.settings.output
        keys = TrustedKeys.of(output.trusted_keys_file)
        if keys is not None and not keys.signed(self.version_key(entry.number), entry.sha256, entry.signature):
            raise ConfigurationError(
                f"none of the trusted keys signed {self.version_key(entry.number)} ({entry.said})",
                "Readers with these keys would refuse the version: choose another one.",
            )
        return entry

    def version_key(self, number: int) -> str:
        """Return the key of a version."""
        return version_form.version_key(self.settings.name, number)

    def alias(self, key: str, alias: Alias | None) -> Message:
        """Return the record that sets an alias, or takes it away."""
        value = None if alias is None else encode_alias(alias)
        return Message(self.settings.output.aliases_topic, value, key.encode(), partition=0)

    def audit(self, key: str, entry: trail.Entry) -> Message:
        """Return the record of an entry of the audit trail."""
        return Message(self.settings.output.audit_topic, trail.encode(entry), key.encode(), partition=0)

    def moved(self, event: str, key: str, before: Alias | None, after: Alias | None) -> list[Message]:
        """Return the alias record and the audit entry of a move."""
        entry = trail.Moved(
            event=event,
            name=self.settings.name,
            alias=key,
            before=before.number if before else None,
            to=after.number if after else None,
            sha256=after.sha256 if after else None,
            by=self.by,
            reason=self.reason,
            time=self.now.isoformat(),
        )
        return [self.alias(key, after), self.audit(key, entry)]


Decide = Callable[[], Move]


def perform(cluster: Cluster, settings: Settings, decide: Decide) -> str:
    """Take the id, decide, write; again while others move at the same time. Return what was done, for people.

    Blocks at most a few times the connection's request timeout.

    Raises
    ------
    ConfigurationError
        If the move is not possible, or the broker does not permit it; nothing was written.
    TransientError
        If the broker does not answer, or others kept moving; the message says so.
    """
    settlement = settlement_of_moves(settings, cluster)
    for _ in range(ATTEMPTS):
        publisher = cluster.publisher(moves_id(settings), transaction_timeout_s=TRANSACTION_TIMEOUT_S)
        try:
            publisher.start()
            settlement.settle(publisher)
            move = decide()
            if move.messages:
                publisher.publish(move.messages)
                publisher.confirm()
            return move.said
        except (Fenced, OutcomeUnknown):
            continue
        finally:
            publisher.close()
    raise TransientError(
        f"the move failed {ATTEMPTS} times: another move of {settings.name} came in between, or the broker did not "
        "confirm this one",
        "Check with `streamsvm model list`, and try again.",
    )


# -------------------------------------------------------------------- the moves


def check_alias(alias: str) -> None:
    """Refuse a name that people may not move.

    Raises
    ------
    ConfigurationError
    """
    if alias == "current":
        raise ConfigurationError(
            "only the trainer may move the alias current", "Hold readers at a version with `streamsvm model pin`."
        )
    if not ALIAS.fullmatch(alias) or alias in RESERVED_ALIASES:
        reserved = " or ".join(sorted(RESERVED_ALIASES))
        raise ConfigurationError(
            f"{alias!r} is not a valid alias",
            f"An alias is a letter followed by letters, digits or . _ -, and not {reserved}.",
        )


def set_alias(records: Records, alias: str, which: int | str) -> Decide:
    """Return the move that lets an alias name a version, given by its number or its SHA-256."""
    check_alias(alias)
    key = records.key(alias)

    def decide() -> Move:
        names = records.names()
        before, after = names.named.get(key), records.version(which, names).alias
        number = after.number
        if before == after:
            return Move(f"{key} already names {records.version_key(number)}")
        was = f"; before, it named {records.version_key(before.number)}" if before else ""
        return Move(
            f"{key} now names {records.version_key(number)}{was}", records.moved("alias_moved", key, before, after)
        )

    return decide


def remove_alias(records: Records, alias: str) -> Decide:
    """Return the move that takes an alias away."""
    check_alias(alias)
    key = records.key(alias)

    def decide() -> Move:
        before = records.names().named.get(key)
        if before is None:
            return Move(f"the alias {key} does not exist")
        return Move(f"{key} is removed", records.moved("alias_removed", key, before, None))

    return decide


def pin(records: Records, which: int | str) -> Decide:
    """Return the move that holds the readers of `current` at a version, given by its number or its SHA-256."""

    def decide() -> Move:
        names = records.names()
        before, after = names.named.get(records.pin_key), records.version(which, names).alias
        number = after.number
        if before == after:
            return Move(f"readers of current are already pinned to {records.version_key(number)}")
        messages = records.moved("pinned", records.pin_key, before, after)
        return Move(f"readers of current are pinned to {records.version_key(number)}", messages)

    return decide


def unpin(records: Records) -> Decide:
    """Return the move that gives readers `current` back."""

    def decide() -> Move:
        named = records.names().named
        before, current = named.get(records.pin_key), named.get(current_key(records.settings.name))
        goes_on = f"current is {records.version_key(current.number)}" if current else "no version is current"
        if before is None:
            return Move(f"no version is pinned; {goes_on}")
        return Move(f"unpinned; {goes_on}", records.moved("unpinned", records.pin_key, before, None))

    return decide


@dataclass
class RollBack:
    """The move that pins the version before the one that readers have; decided anew, it goes to the same one."""

    records: Records
    _from: int = 0
    _target: Alias | None = field(default=None)

    def __call__(self) -> Move:
        """Decide."""
        records = self.records
        names = records.names()
        named = names.named
        pinned, current = named.get(records.pin_key), named.get(current_key(records.settings.name))
        have = pinned or current
        if have is None:
            raise ConfigurationError(
                f"readers of {records.settings.name} have no version, so there is nothing to roll back from"
            )
        if self._target is not None and pinned == self._target:
            return Move(self._said(self._target.number))
        if self._target is not None and have.number != self._from:
            raise ConfigurationError(
                f"another move came in between: readers were moved from {records.version_key(self._from)} to "
                f"{records.version_key(have.number)}",
                "Check with `streamsvm model list`, and decide again.",
            )
        self._from, self._target = have.number, self._before(have.number, names)
        messages = records.moved("rolled_back", records.pin_key, have, self._target)
        return Move(self._said(self._target.number), messages)

    def _before(self, number: int, names: Aliases) -> Alias:
        records = self.records
        catalogue = read_catalogue(records.cluster, records.settings, names, holds_before(number))
        before = catalogue.before(number)
        if before is None:
            raise ConfigurationError(
                f"readers have {records.version_key(number)}, and no earlier good version is left",
                "Choose a version with `streamsvm model pin`.",
            )
        return records.trusted(catalogue.require(before)).alias

    def _said(self, number: int) -> str:
        return (
            f"rolled back from {self.records.version_key(self._from)}: readers of current are pinned to "
            f"{self.records.version_key(number)} until `streamsvm model pin --remove`"
        )


def retire(records: Records, numbers: Sequence[int]) -> Decide:
    """Return the move that writes tombstones of versions that nothing names."""
    wanted = sorted(set(numbers))

    def decide() -> Move:
        names = records.names()
        _refuse_named(records, names, wanted)
        catalogue = read_catalogue(records.cluster, records.settings, names, holds_all(wanted))
        left = [number for number in wanted if not catalogue.is_retired(number)]
        for number in left:
            if number not in catalogue.doubtful:  # whatever stands under its number goes
                catalogue.require(number)
        if not left:
            return Move("the versions were already retired")
        return Move(f"retired {', '.join(map(records.version_key, left))}", tombstones(records, names, left))

    return decide


def _refuse_named(records: Records, names: Aliases, wanted: Sequence[int]) -> None:
    for number in wanted:
        naming = [key for key, alias in sorted(names.named.items()) if alias.number == number]
        if names.head is not None and names.head.number == number:
            naming.append(head_key(records.settings.name))
        if naming:
            raise ConfigurationError(
                f"{', '.join(naming)} names {records.version_key(number)}, so nothing was retired",
                "Move or remove these aliases, or wait until the next version is published.",
            )


def tombstones(records: Records, names: Aliases, numbers: Sequence[int]) -> list[Message]:
    """Return the records that retire versions, that which readers believe, and the audit entry of it."""
    output = records.settings.output
    keys = [records.version_key(number) for number in numbers]
    retired = (names.retired or Retired(1, (), ())).with_others(numbers)
    said = encode_retired(retired), retired_key(records.settings.name).encode()
    entry = trail.VersionsRetired(
        name=records.settings.name,
        versions=list(numbers),
        by=records.by,
        reason=records.reason,
        time=records.now.isoformat(),
    )
    return [
        *(Message(output.models_topic, None, key.encode(), partition=0) for key in keys),
        Message(output.aliases_topic, *said, partition=0),
        records.audit(keys[0], entry),
    ]
