"""Every metric, once: name, meaning, unit, labels, and what to do when it moves.

Labels are bounded: a version, a hash or an offset is never one. Base units: seconds, bytes, points, rows, records.
"""

from consumers.metrics.daemon_metrics import SCORER, TRAINER, BranchMetrics, DaemonMetrics, Table, other_daemons
from consumers.metrics.definition import Definition, Kind
from consumers.metrics.instruments import Bulk, Metrics
from consumers.metrics.process_metrics import PROCESS
from consumers.metrics.trainer_metrics import OWN as TRAINER_ITSELF

__all__ = [
    "PROCESS",
    "SCORER",
    "TRAINER",
    "TRAINER_ITSELF",
    "BranchMetrics",
    "Bulk",
    "DaemonMetrics",
    "Definition",
    "Kind",
    "Metrics",
    "Table",
    "other_daemons",
]
