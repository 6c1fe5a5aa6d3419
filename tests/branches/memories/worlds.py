"""Worlds whose trainers forget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.simulation.variants import MEMORY, Variant
from tests.simulation.world import Profile


class Forgetting(Variant):
    """A memory that forgets.

    One row seals a leaf: so few rows come that none would be forgotten.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, MEMORY, share=0.07)
        self._options = options

    def settle(self, sections: dict[str, Any]) -> None:
        """Give the memory, and the boxes that do not depend on how much is remembered."""
        del sections["coreset"]["structure"]
        sections["coreset"] |= {"leaf_rows": 1, **self._options}
        sections["svm"] = {name: value for name, value in sections["svm"].items() if name != "C"} | {"alpha": 1e-4}


VARIANTS: Final = (
    Forgetting("window", memory="window", window=8),
    Forgetting("window of time", memory="window", window="0.004s"),
    Forgetting("decay", memory="decay", half_life=8),
    Forgetting("adaptive", memory="adaptive"),
)
SMALLEST: Final[Mapping[str, Profile]] = {
    "horizons": Profile("every", 1, 4, 400, {"kill": 3, "power loss": 1, "newest lost": 1}, variants=("adaptive",))
}
