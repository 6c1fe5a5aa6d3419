"""scikit-learn's face of the same parts: estimators that train on all points, and one that holds a coreset of a stream.

`STDASVC`, `STDASVR` and `STDAOneClassSVM` train on all points; `CoresetSVC` on a coreset.

From a CSV to a model, whatever the number of its rows, and on to a trainer that goes on with the same settings:

>>> from pathlib import Path
>>> from streamsvm import CoresetSVC
>>> from streamsvm.ingest.files import open_source
>>> machine = CoresetSVC(memory_points=2_000)  # the last column of the file is the label
>>> for batch in open_source("pulsars.csv").batches():
...     machine = machine.partial_fit(batch.X, batch.y, classes=["noise", "pulsar"])
>>> machine.predict(batch.X[:2])
array(['noise', 'noise'], dtype='<U6')
>>> written = Path("streamsvm.toml").write_text(machine.model_config.toml())

`streamsvm train --config streamsvm.toml --input-topic TOPIC` makes the same model, to the last bit, of the same rows in
a topic of one partition (`streamsvm replay pulsars.csv --topic TOPIC --create 1`).
"""

from streamsvm.estimators.coresetsvc import CoresetSVC
from streamsvm.estimators.events import EventVectorizer
from streamsvm.estimators.linear import STDALinearSVC, STDALinearSVR
from streamsvm.estimators.patching import patch_sklearn, unpatch_sklearn
from streamsvm.estimators.single import STDASVR, STDAOneClassSVM
from streamsvm.estimators.stdasvc import STDASVC

__all__ = [
    "STDASVC",
    "STDASVR",
    "CoresetSVC",
    "EventVectorizer",
    "STDALinearSVC",
    "STDALinearSVR",
    "STDAOneClassSVM",
    "patch_sklearn",
    "unpatch_sklearn",
]
