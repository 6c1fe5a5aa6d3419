"""Bounded memory of a labeled stream: merge and reduce of weighted coresets, for any number of labels in one code.

    rows -> leaf -> screen -> bucket -> tree -> cut

Rows of a partition collect in a leaf. A full leaf becomes a bucket of weighted points; where there are too many
buckets, the two lightest neighbours become one. Which points stay is decided by a *pilot*: rough machines of everything
that is kept, one a problem. Two labels are one problem, K labels are K problems, each label against the rest. Once
there is a pilot, a leaf spans a quarter of all rows before it: a row is kept by chance, in proportion to what it is
worth, and all rows add to exact totals.

Source: Tukan, Baykal, Feldman and Rus 2020, "On Coresets for Support Vector Machines"; where we differ is said in
`reduce`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.coreset import reduce as reduce
    from streamsvm.coreset.audit import Reservoir as Reservoir, Sampled as Sampled
    from streamsvm.coreset.buckets import Bucket as Bucket, Extent as Extent, Learned as Learned, Moments as Moments
    from streamsvm.coreset.carrying import carried_over as carried_over
    from streamsvm.coreset.drift import Drift as Drift, History as History
    from streamsvm.coreset.outliers import Outlier as Outlier, RowBound as RowBound, Tally as Tally
    from streamsvm.coreset.partition import PartitionState as PartitionState
    from streamsvm.coreset.pilot import dual_bound as dual_bound, measured as measured
    from streamsvm.coreset.reduce import Observed as Observed, Purpose as Purpose, generator as generator
    from streamsvm.coreset.state import (
        FORMAT as FORMAT,
        HEAD as HEAD,
        KINDS as KINDS,
        MAGIC as MAGIC,
        Names as Names,
        StateWriter as StateWriter,
        check_partition as check_partition,
        decode_state as decode_state,
        encode_state as encode_state,
        field_names as field_names,
    )

__getattr__ = on_first_use(__name__, __file__)
