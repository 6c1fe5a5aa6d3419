"""What this room adds to the options of the trunk; see `streamsvm.sockets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, Mapping[str, str]]] = {
    "coreset.reducer": {"sensitivity": "streamsvm.papers.reducers:sensitivity_reducer"},
    "coreset.reducer of several labels": {"sensitivity": "streamsvm.papers.reducers:shared_sensitivity_reducer"},
    "coreset.structure": {"counter": "streamsvm.papers.counter:counter"},
    "descriptions": {
        "coreset.reducer": "Experimental: `sensitivity` is Alg. 1 of the paper on coresets.",
        "coreset.structure": "Experimental: `counter` is Alg. 2 of the paper on coresets: buckets merge like the "
        "digits of a binary counter. It is the default of other reducers than `calibrated`.",
    },
}
