"""From the rows of a log to a version: what `version = f(log, configuration, seed, cut)` is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.coreset.partition import PartitionState as PartitionState
    from streamsvm.learning import (
        cutting as cutting,
        judging as judging,
        memory_kinds as memory_kinds,
        naming as naming,
        training as training,
        tuning as tuning,
    )
    from streamsvm.learning.cutting import (
        Cut as Cut,
        CutCoverage as CutCoverage,
        DueCut as DueCut,
        LearnerState as LearnerState,
        PartitionCoverage as PartitionCoverage,
    )
    from streamsvm.learning.leaf_screens import NodePilot as NodePilot
    from streamsvm.learning.learner import Horizon as Horizon, Learner as Learner, warm_up as warm_up
    from streamsvm.learning.memories import STRUCTURES as STRUCTURES, MemoryState as MemoryState
    from streamsvm.learning.pilots import (
        kernel_pilot as kernel_pilot,
        linear_pilot as linear_pilot,
        pilot_for as pilot_for,
    )
    from streamsvm.learning.recipe import Made as Made, Origin as Origin, make as make, version_of as version_of
    from streamsvm.learning.span_memory import SpansState as SpansState
    from streamsvm.learning.tasks import (
        REDUCERS as REDUCERS,
        SHARED_REDUCERS as SHARED_REDUCERS,
        OneVsRest as OneVsRest,
        TwoClasses as TwoClasses,
    )
    from streamsvm.learning.training import (
        Trained as Trained,
        TrainFunction as TrainFunction,
        audited as audited,
        train as train,
    )
    from streamsvm.learning.tuning import STEPS as STEPS, Tuning as Tuning, is_due as is_due, tune as tune

__getattr__ = on_first_use(__name__, __file__)
