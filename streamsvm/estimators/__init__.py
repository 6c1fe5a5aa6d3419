"""scikit-learn's face of the same parts: `STDASVC` trains on all points, `CoresetSVC` on a coreset of a stream."""

from streamsvm.estimators.coresetsvc import CoresetSVC
from streamsvm.estimators.stdasvc import STDASVC

__all__ = ["STDASVC", "CoresetSVC"]
