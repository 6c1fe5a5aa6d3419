"""The part `threshold`: above which decision value the answer is the second label (see `streamsvm.model.threshold`)."""

from __future__ import annotations

from typing import Any, Final

from streamsvm.errors import InvalidMessage
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.threshold import Threshold, check
from streamsvm.model.version import Version


class ThresholdPart(
    Threshold, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="threshold"
):
    """A `Threshold`, named."""


def encode(version: Version) -> ThresholdPart | None:
    """Return the part; None where a version has no threshold."""
    threshold = version.model.threshold
    return None if threshold is None else ThresholdPart(**_fields_of(threshold))


def decode(part: ThresholdPart, draft: Draft) -> None:
    """Add the threshold.

    Raises
    ------
    InvalidMessage
        If there are more than two labels, or the threshold makes no sense.
    """
    if draft.scheme is not None:
        raise InvalidMessage("the part 'threshold' is for two labels")
    draft.threshold = check(Threshold(**_fields_of(part)))


def _fields_of(threshold: Threshold) -> dict[str, Any]:
    return {name: getattr(threshold, name) for name in Threshold.__struct_fields__}


PART: Final = MessagePart(ThresholdPart, encode, decode)
