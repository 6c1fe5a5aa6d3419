"""Weighted coresets: moments, reducers, and the merge-and-reduce structure of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.coreset.audit_sample import (
        Held as Held,
        Reservoir as Reservoir,
        Sampled as Sampled,
        merged as merged,
    )
    from streamsvm.coreset.conditions import MEANINGS as MEANINGS
    from streamsvm.coreset.leaf import Leaf as Leaf
    from streamsvm.coreset.moments import Moments as Moments
    from streamsvm.coreset.outliers import Outlier as Outlier, RowBound as RowBound, Tally as Tally
    from streamsvm.coreset.reducers.base import (
        Observed as Observed,
        Pilot as Pilot,
        Purpose as Purpose,
        Reducer as Reducer,
        UniformReducer as UniformReducer,
        generator as generator,
    )
    from streamsvm.coreset.reducers.calibrated import (
        CalibratedReducer as CalibratedReducer,
        Under as Under,
        importance as importance,
    )
    from streamsvm.coreset.reducers.multiclass import SharedPilot as SharedPilot
    from streamsvm.coreset.screening import (
        Screen as Screen,
        Screened as Screened,
        Screener as Screener,
        calibrated as calibrated,
    )
    from streamsvm.coreset.screening_kernels import BINS as BINS
    from streamsvm.coreset.screens import LeafRule as LeafRule
    from streamsvm.coreset.sensitivity import direct_bound as direct_bound, dual_bound as dual_bound
    from streamsvm.coreset.structure import (
        Bucket as Bucket,
        Extent as Extent,
        Learned as Learned,
        Structure as Structure,
    )

__getattr__ = on_first_use(__name__, __file__)
