"""scikit-learn's face of the same parts: `STDASVC` trains on all points, the stream's machine without the stream."""

from streamsvm.estimators.stdasvc import STDASVC

__all__ = ["STDASVC"]
