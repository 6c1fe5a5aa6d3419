"""How many cases hypothesis tries: a tenth in `make test`, all of them in `make test-long`."""

from __future__ import annotations

import os


def examples(many: int) -> int:
    """Return how many cases hypothesis tries where `make test-long` tries this many."""
    return many if os.environ.get("STREAMSVM_TEST_EXAMPLES") == "all" else many // 10
