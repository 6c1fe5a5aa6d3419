"""What prometheus_client shows of any process; meanings in its words."""

from __future__ import annotations

from typing import Final

from consumers.metrics.definition import Definition

PROCESS: Final = (
    Definition(
        "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", "Look at the resident memory instead."
    ),
    Definition(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory size in bytes.",
        "Growing for hours: see streamsvm_points_held, then report it.",
    ),
    Definition(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        "Changing often: it restarts; its last log line says why.",
    ),
    Definition(
        "process_cpu_seconds",
        "counter",
        "Total user and system CPU time spent in seconds.",
        "The rate is the number of processors in use.",
    ),
    Definition(
        "process_open_fds",
        "gauge",
        "Number of open file descriptors.",
        "Growing without bound: report it.",
    ),
    Definition(
        "process_max_fds",
        "gauge",
        "Maximum number of open file descriptors.",
        "Near process_open_fds: raise the limit.",
    ),
    Definition(
        "python_gc_objects_collected",
        "counter",
        "Objects collected during gc",
        "For reports.",
        ("generation",),
    ),
    Definition(
        "python_gc_objects_uncollectable",
        "counter",
        "Uncollectable objects found during GC",
        "Above 0: report it.",
        ("generation",),
    ),
    Definition(
        "python_gc_collections",
        "counter",
        "Number of times this generation was collected",
        "For reports.",
        ("generation",),
    ),
    Definition(
        "python_info",
        "gauge",
        "Python platform information",
        "For reports.",
        ("version", "implementation", "major", "minor", "patchlevel"),
    ),
)
