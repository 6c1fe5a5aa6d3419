"""The estimators behind scikit-learn's interface: one trains on all points, one holds a coreset of a stream.

`STDASVC` trains on all points, `CoresetSVC` on a coreset. Other estimators are offered by a branch
(`streamsvm.sockets`); they are loaded when they are asked for.

From a CSV to a model, whatever the number of its rows, and on to a trainer that goes on with the same settings:

>>> from pathlib import Path
>>> from streamsvm import CoresetSVC
>>> from streamsvm.ingest.files import open_source
>>> machine = CoresetSVC(points=2_000)  # the last column of the file is the label
>>> for batch in open_source("pulsars.csv").batches():
...     machine = machine.partial_fit(batch.X, batch.y, classes=["noise", "pulsar"])
>>> machine.predict(batch.X[:2])
array(['noise', 'noise'], dtype='<U6')
>>> written = Path("streamsvm.toml").write_text(machine.model_config.toml())

`streamsvm train --config streamsvm.toml --input-topic TOPIC` makes the same model, to the last bit, of the same rows in
a topic of one partition (`streamsvm replay pulsars.csv --topic TOPIC --create 1`).
"""

from __future__ import annotations

from typing import Any

from streamsvm.estimators.coresetsvc import CoresetSVC
from streamsvm.estimators.evaluation import (
    OPTIMUM_TOLERANCE,
    SGD_SETTINGS,
    EmpiricalObjective,
    probability_scores,
    scores,
    split,
)
from streamsvm.estimators.stdasvc import STDASVC
from streamsvm.estimators.stream import Stream
from streamsvm.sockets import Choices

__all__ = [
    "OPTIMUM_TOLERANCE",
    "SGD_SETTINGS",
    "STDASVC",
    "CoresetSVC",
    "EmpiricalObjective",
    "Stream",
    "probability_scores",
    "scores",
    "split",
]


_OFFERED: Choices[Any] = Choices("estimators", {})


def __getattr__(name: str) -> Any:
    """Load an estimator of a branch when it is first used.

    Raises
    ------
    AttributeError
        If no branch of this installation has the name.
    """
    if name in _OFFERED:
        return _OFFERED[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
