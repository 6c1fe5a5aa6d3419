"""The scorer: points in, scores out, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.scorer import life as life, observing as observing, scorer as scorer, seat as seat
    from consumers.scorer.companion import Companion as Companion
    from consumers.scorer.components import ScorerComponents as ScorerComponents
    from consumers.scorer.life import ScorerLife as ScorerLife, group_of as group_of
    from consumers.scorer.placing import Placing as Placing
    from consumers.scorer.scorer import Scorer as Scorer
    from consumers.scorer.serving import Serving as Serving

__getattr__ = on_first_use(__name__, __file__)
