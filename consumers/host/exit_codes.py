"""Exit statuses of the command line and the daemons, which a supervisor decides by."""

from __future__ import annotations

from typing import Final

from streamsvm.errors import ConfigurationError, StateError, StreamsvmError, TransientError

EXIT_CLEAN: Final = 0
EXIT_UNFORESEEN: Final = 1
"""Exit status of an unexpected error, a defect. A supervisor restarts the daemon; an alert fires if that repeats."""
EXIT_FATAL: Final = 70
EXIT_RETRYABLE: Final = 75
EXIT_CONFIGURATION: Final = 78


def exit_code(error: StreamsvmError) -> int:
    """Return the exit status that an error ends a process with (sysexits.h)."""
    if isinstance(error, ConfigurationError | StateError):
        return EXIT_CONFIGURATION
    if isinstance(error, TransientError):
        return EXIT_RETRYABLE
    return EXIT_FATAL
