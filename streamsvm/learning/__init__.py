"""From the rows of a log to a version: what `version = f(log, configuration, seed, cut)` is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.coreset.partition import OpenLeaf as OpenLeaf, PartitionState as PartitionState
    from streamsvm.learning import naming as naming, training as training, tuning as tuning
    from streamsvm.learning.conditions import MEANINGS as MEANINGS
    from streamsvm.learning.learner import (
        Coverage as Coverage,
        Cut as Cut,
        DueCut as DueCut,
        Horizon as Horizon,
        Learner as Learner,
        LearnerState as LearnerState,
        TakenCut as TakenCut,
        warm_up as warm_up,
    )
    from streamsvm.learning.recipe import Made as Made, Origin as Origin, make as make, version_of as version_of
    from streamsvm.learning.training import (
        Task as Task,
        Trained as Trained,
        TrainFunction as TrainFunction,
        audited as audited,
        task_of as task_of,
        train as train,
    )
    from streamsvm.learning.tuning import STEPS as STEPS, Tuning as Tuning, is_due as is_due, tune as tune

__getattr__ = on_first_use(__name__, __file__)
