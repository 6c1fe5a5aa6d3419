"""One tree of errors, split by who is at fault and therefore by what happens next.

Invariant: every error that can reach a person says what happened, where, and what to do, in one line.

=====================  =========================================  ==============================
error                  at fault                                   what happens
=====================  =========================================  ==============================
`InvalidPoint`         the producer of one row                    dead-letter topic, counted
`InvalidMessage`       the producer of one model message          ignored, counted, reported
`ConfigurationError`   the person who configured us               refuse to start
`StateError`           a checkpoint or a topic that is not ours   refuse to start
`TransientError`       the network, a broker, a full disk         retry, then stop, try later
`FatalError`           something no retry can repair              stop
=====================  =========================================  ==============================

A broken invariant of our own is not in this tree: it crashes with a traceback.
"""


class StreamsvmError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    what : str
        What happened and where, without a final full stop.
    remedy : str
        What to do about it, a full sentence; may be empty.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what}. {remedy}" if remedy else what)


class InvalidPoint(StreamsvmError):
    """A row that is not a valid point: it goes to the dead-letter topic, the stream goes on.

    Parameters
    ----------
    reason : str
        One of `streamsvm.ingest.decoder.REASONS`; a bounded set, so it may label a metric.
    what : str
        The particulars, for the person who reads the dead letter.
    """

    def __init__(self, reason: str, what: str) -> None:
        self.reason = reason
        super().__init__(what)


class InvalidMessage(StreamsvmError):
    """A model message that is damaged or foreign: it never replaces a good model."""


class UnknownFormat(InvalidMessage):
    """A model message in a format that another build writes. It shows no sign of damage."""


class ConfigurationError(StreamsvmError):
    """An option that is unknown, out of range, or contradicts another or the broker's state."""


class TopicMissing(ConfigurationError):
    """A topic that must exist does not."""


class StateError(StreamsvmError):
    """A checkpoint or a topic whose content does not fit this configuration. Nothing was written."""


class LogGap(StateError):
    """The input log no longer holds what was read, or what is to be read next: `input.on_gap` says what happens."""


class CorruptCheckpoint(StateError):
    """A checkpoint file whose bytes are damaged or of an unknown format version."""


class TransientError(StreamsvmError):
    """A broker, network or disk that may answer later: trying again is right."""


class BrokerUnavailable(TransientError):
    """No broker answered in time."""


class DirectoryTaken(TransientError):
    """Another process has locked the checkpoint directory: this process must end, and may start again."""


class FatalError(StreamsvmError):
    """An error that no retry can repair: the process must end."""


class Fenced(FatalError):
    """Another instance has taken over the transactional id: write nothing more."""
