"""What a checkpoint says of totals."""

from __future__ import annotations

import pytest

from streamsvm.branches.bounds import checkpoint_parts
from streamsvm.errors import CorruptCheckpoint
from tests.branches.classes.golden import handmade_classes


def test_a_screen_for_more_labels_has_no_totals() -> None:
    """The part does not fit it."""
    screened = handmade_classes().learner.partitions[0].screened
    with pytest.raises(CorruptCheckpoint, match="a screen for more than two labels has the part 'totals'"):
        checkpoint_parts.SCREEN.joined(screened, condensed=None)
