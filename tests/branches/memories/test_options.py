"""What follows from options of memories that forget."""

from __future__ import annotations

from streamsvm.config import CoresetConfig


def test_memories_that_forget_have_no_band() -> None:
    """Where rows are forgotten, the machine must follow a change."""
    window = CoresetConfig(memory="window", window=100_000)
    assert window.band_of(2_000) == 0.0
