"""Bad model messages by the thousand: each kind takes a good message and a random generator, and spoils one thing.

Invariant: no message made here is one that a reader could take; where spoiling might change nothing, it is done again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from streamsvm.model import Version, message as model_codec

FOREIGN: Final = (
    b"",
    b"null",
    b"[]",
    b'"streamsvm.model/1"',
    b"\x00\x00\x00\x00\x2a\x02\x06foo",
    b"\x80\x04\x95\x10\x00",
    b"PAR1",
    b"\xff" * 40,
    b'{"specversion":"1.0","type":"com.example.order","data":{}}',
    b'{"format":"someone.else/1"}',
    b"[" * 5_000,
)
DEEP: Final = b'{"a":' * 20_000
OVERSIZE: Final = 500_000
"""Bytes that are put into a message which has no use for them."""

Fields = dict[str, Any]
Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A record to publish, and the alias that names it.

    Attributes
    ----------
    kind : str
    key : str
        Of the record.
    value : bytes
    header : str
        The SHA-256 that its header says.
    alias : str
        The SHA-256 that the alias says.
    """

    kind: str
    key: str
    value: bytes
    header: str
    alias: str


def _corrupt(version: Version, value: bytes, random: Random) -> BadMessage:
    """Some bits flipped on the way, every hash that of what was sent."""
    spoiled = np.frombuffer(value, np.uint8).copy()
    at = random.choice(len(spoiled), random.integers(1, 5), replace=False)
    spoiled[at] ^= random.integers(1, 256, len(at)).astype(np.uint8)
    digest = model_codec.sha256(value)
    return BadMessage("corrupt", version.key, spoiled.tobytes(), digest, digest)


def _misnamed(version: Version, value: bytes, random: Random) -> BadMessage:
    """The value whole, but a hash or the key is another's."""
    right, wrong = model_codec.sha256(value), model_codec.sha256(value + random.bytes(4))
    other = f"{version.name}@{version.number + int(random.integers(1, 1000))}"
    spoiled = [(version.key, wrong, right), (version.key, right, wrong), (other, right, right), ("", right, right)]
    key, header, alias = spoiled[random.integers(len(spoiled))]
    return BadMessage("misnamed", key, value, header, alias)


def _truncated(version: Version, value: bytes, random: Random) -> BadMessage:
    """The beginning only, with the hash of the whole or of the part."""
    part = value[: random.integers(0, len(value))]
    digest = model_codec.sha256(value if random.integers(2) else part)
    return BadMessage("truncated", version.key, part, digest, digest)


def _foreign(version: Version, value: bytes, random: Random) -> BadMessage:
    """What another program wrote, or another model's version, under our key and with every hash right."""
    choice = random.integers(len(FOREIGN) + 3)
    if choice < len(FOREIGN):
        return _hashed("foreign", version, FOREIGN[choice])
    if choice == len(FOREIGN):
        return _hashed("foreign", version, random.bytes(int(random.integers(1, 300))))
    renamed = {"name": "other"} if choice == len(FOREIGN) + 1 else {"number": version.number + 1}
    return _hashed("foreign", version, model_codec.encode(replace(version, **renamed)))  # type: ignore[arg-type]


def _format(version: Version, value: bytes, random: Random) -> BadMessage:
    """The name of another format, or a trunk that lacks a field or has one more."""
    fields = json.loads(value)
    number = fields["format"].rpartition("/")[2]
    choice = random.integers(4)
    if choice == 0:
        fields["format"] = f"streamsvm.model/{random.choice(['0', '2', '4', '01', '99', '', '-1', 'x'])}"
    elif choice == 1:
        del fields[random.choice(["probes", "parts", "lineage", "training", "stream", "labels", "model"])]
    elif choice == 2:
        del fields["training"][random.choice(["duality_gap", "C", "objective"])]
    else:
        fields[str(random.choice(["probs", "Probes", "x", "classes_", ""]))] = number
    return _hashed("other format", version, _json(fields))


def _parts(version: Version, value: bytes, random: Random) -> BadMessage:
    """A part that must be known, that is there twice, out of order, without a name or its fields, or contradicts."""
    fields = json.loads(value)
    parts = fields["parts"]
    unknown = [{"part": name} for name in ("calibration", "info", "inf_o", "Info_x", "")]
    spoil: list[list[Fields]] = [
        sorted([*parts, unknown[random.integers(len(unknown))]], key=lambda part: str(part["part"])),
        [*parts, {"part": "info_x"}, {"part": "info_x"}],
        [{"part": "threshold"}, *parts, {"part": "info_x"}],
        [*parts, {"name": "info_x"}],
        [{"part": random.choice(["classes", "probability", "recipe", "threshold", "info_memory"])}],
        [{"part": "classes", "scheme": "one_vs_one", "machines": []}],
    ]
    fields["parts"] = spoil[random.integers(len(spoil))]
    return _hashed("wrong parts", version, _json(fields))


def _oversized(version: Version, value: bytes, random: Random) -> BadMessage:
    """Far more bytes than the model needs, or numbers that would have a reader take memory without bound."""
    fields = json.loads(value)
    spoil: list[Callable[[], Any]] = [
        lambda: fields.update(padding="x" * OVERSIZE),
        lambda: fields["features"].update(mean=fields["features"]["mean"] * 20_000),
        lambda: fields["features"].update(dimension=int(random.integers(10**6, 10**12))),
        lambda: fields["probes"].update(x=fields["probes"]["x"] * 2_000),
        lambda: _lengthen(fields["model"], random),
    ]
    choice = random.integers(len(spoil) + 1)
    if choice == len(spoil):
        return _hashed("oversized", version, DEEP)
    spoil[choice]()
    return _hashed("oversized", version, _json(fields))


def _lengthen(model: Fields, random: Random) -> None:
    if model["kernel"] == "linear":
        model["coefficients"][0] = [0.0] * int(random.integers(1_000, 20_000))
    else:
        model["support_vectors"] = base64.b64encode(bytes(8 * int(random.integers(1_000, 20_000)) + 8)).decode()


def _dimension(version: Version, value: bytes, random: Random) -> BadMessage:
    """A sound version of another dimension than the subscriber scores, or one whose parts disagree."""
    fields = json.loads(value)
    count = int(random.integers(3, 40))
    if random.integers(2):
        wider = replace(version, model=linear(count, random))
        return _hashed("wrong dimension", version, model_codec.encode(wider))
    where = fields["features"] if random.integers(2) else fields["probes"]["x"]
    if isinstance(where, list):
        where[random.integers(len(where))].append(0.0)
    else:
        where[str(random.choice(["mean", "scale"]))] += [1.0] * count
    return _hashed("wrong dimension", version, _json(fields))


def _probes(version: Version, value: bytes, random: Random) -> BadMessage:
    """A model that its own probes contradict: they, or a number of the model, are not what was published."""
    fields = json.loads(value)
    probes, factor = fields["probes"], 1.0 + float(random.choice([1e-6, 1e-3, 1.0, -2.0]))
    choice = random.integers(4)
    if choice == 0:
        at = int(np.argmax(np.abs(probes["decision"])))
        probes["decision"][at][0] *= factor
    elif choice == 1:
        probes["decision"].pop()
    elif choice == 2:
        fields["model"]["intercepts"][0] += float(random.choice([1e-3, 1.0, -1e9]))
    else:
        fields["features"]["mean"][0] += float(random.choice([0.1, 5.0]))
    return _hashed("wrong probes", version, _json(fields))


KINDS: Final = (_corrupt, _misnamed, _truncated, _foreign, _format, _parts, _oversized, _dimension, _probes)


def bad_messages(good: list[Version], count: int, seed: int) -> Iterator[tuple[Version, BadMessage]]:
    """Yield bad messages, all kinds in turn, each made from one of the good versions under a number of its own."""
    random = np.random.default_rng(seed)
    for index in range(count):
        version = replace(good[random.integers(len(good))], number=100 + index)
        yield version, KINDS[index % len(KINDS)](version, model_codec.encode(version), random)


def linear(dimension: int, random: Random) -> Any:
    """Return a linear model with random coefficients."""
    from streamsvm.model import LinearMachine, Model, Scaler

    scaler = Scaler(random.normal(size=dimension), random.uniform(0.5, 2.0, dimension))
    return Model(scaler, LinearMachine(random.normal(size=dimension) + 3.0, float(random.normal())))


def _hashed(kind: str, version: Version, value: bytes) -> BadMessage:
    digest = model_codec.sha256(value)
    return BadMessage(kind, version.key, value, digest, digest)


def _json(fields: Fields) -> bytes:
    return json.dumps(fields).encode()
