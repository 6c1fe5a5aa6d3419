"""The headers of a version's record and of its copies: CloudEvents in binary mode."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from cloudevents.core.bindings.kafka import to_binary
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from streamsvm.model.message import CONTENT_TYPE, EVENT_TYPE, SCHEMA, SHA256_HEADER
from streamsvm.model.version import Version


def headers(
    version: Version, value_sha256: str, time: datetime, extra: Mapping[str, str]
) -> tuple[tuple[str, bytes], ...]:
    """Return a version's headers: CloudEvents in binary mode, the value's hash, and what must not be hashed.

    Parameters
    ----------
    version : Version
    value_sha256 : str
    time : datetime
        When the model was made, with a time zone.
    extra : mapping
        Timings, incarnation and the like.
    """
    described = {"datacontenttype": CONTENT_TYPE, "dataschema": SCHEMA}
    attributes = {"id": version.key, "type": EVENT_TYPE, **described}
    return cloudevent(version, time, attributes, {SHA256_HEADER: value_sha256, **extra})


def cloudevent(
    version: Version, time: datetime, attributes: Mapping[str, str], own: Mapping[str, str]
) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of an event about a version, in binary mode, and after them `own` ones."""
    about = {"source": f"streamsvm/{version.name}", "subject": version.key, "time": time}
    bound = to_binary(CloudEvent({**attributes, **about}), JSONFormat()).headers
    return (*bound.items(), *((name, text.encode()) for name, text in own.items()))
