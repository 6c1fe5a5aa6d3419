"""Where schemas come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Schemas(Protocol):
    """A source of schemas: `streamsvm.kafka.SchemaRegistry`, or a stand-in."""

    def schema(self, schema_id: int) -> str | None:
        """Return the text of a schema; None if there is none of this id.

        Raises
        ------
        InvalidPoint
            If it is larger than any that is read.
        TransientError
            If the registry cannot say so now.
        """
        ...

    def files(self, schema_id: int) -> Mapping[str, str] | None:
        """Return the text of a Protobuf schema under the empty name, and of each file that it refers to; None as above.

        Raises
        ------
        InvalidPoint
            If it, or one that it refers to, is larger than any that is read, or there are too many.
        TransientError
            If the registry cannot say so now.
        """
        ...
