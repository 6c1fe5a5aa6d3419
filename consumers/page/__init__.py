"""The live page: what a daemon shows people at `/`, and machines at `/status.json`.

`status` is the documented shape of the figures; `board` is where a main loop leaves them, `verdict` what they mean;
`site` answers requests from them, by `page` (HTML), `drawings` (SVG) and `markup` (which escapes everything).

Invariant: a request changes nothing and waits for nothing. The main loop replaces one immutable value; each
request reads that value once, and is answered from it in a thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.page import trainer_page as trainer_page
    from consumers.page.board import ScorerBoard as ScorerBoard, TrainerBoard as TrainerBoard
    from consumers.page.page import page_of as page_of
    from consumers.page.past import Past as Past, past_of as past_of
    from consumers.page.site import Site as Site
    from consumers.page.status import (
        Figures as Figures,
        QualityStatus as QualityStatus,
        ScorerStatus as ScorerStatus,
        TrainerStatus as TrainerStatus,
    )

__getattr__ = on_first_use(__name__, __file__)
