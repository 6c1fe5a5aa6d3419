"""Every store that may carry rows of an input, or what follows from them: the one list.

Whoever takes rows out reports by it, whoever looks for what is left looks through it, and the tests plant something in
each. A branch adds its own at the socket ``row_stores``.

Invariant: a store that is not in the list is one that nobody answers for. Whatever comes to hold rows is a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from consumers.settings import Settings
from consumers.settings_sockets import added
from streamsvm.sockets import DAEMONS, plugged

SOCKET: Final = "row_stores"


def _no_topics(_: Settings) -> tuple[str, ...]:
    return ()


def _no_files(_: Settings) -> tuple[Files, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a directory, by a pattern such as ``*.ssvm``."""

    directory: Path
    pattern: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStore:
    """A store that may carry rows.

    Attributes
    ----------
    name : str
    holds : str
        What of a row may stand there.
    taken_out : str
        What taking rows out of a model does there; empty: nothing.
    remains : str
        What stays there, and why; empty: nothing.
    topics : callable
        Returns its topics.
    files : callable
        Returns where its files are.
    part_of : str
        The store whose bytes hold it; empty: it has its own.
    given : bool
        Whether only a person knows where it is: the options do not say.
    """

    name: str
    holds: str
    taken_out: str = ""
    remains: str = ""
    topics: Callable[[Settings], tuple[str, ...]] = _no_topics
    files: Callable[[Settings], tuple[Files, ...]] = _no_files
    part_of: str = ""
    given: bool = False

    def is_somewhere(self, settings: Settings) -> bool:
        """Return whether the options say where it is."""
        return bool(self.part_of or self.topics(settings) or self.files(settings))

    def where(self, settings: Settings) -> str:
        """Say where it is."""
        if self.part_of:
            return f"in {self.part_of}"
        places = [f"the topic {topic}" for topic in self.topics(settings)]
        places += [str(files.directory / files.pattern) for files in self.files(settings)]
        return ", ".join(places) or ("wherever it was put" if self.given else "nowhere: it is not configured")


def _dead_letters(settings: Settings) -> tuple[str, ...]:
    own = [topic for one in added() for topic in one.dead_letters(settings)]
    return tuple(dict.fromkeys((settings.input.dead_letters, *own, settings.scoring.dead_letters)))


OWN: Final = (
    RowStore(
        name="input",
        holds="the records themselves",
        remains="Kafka's own log holds the records until retention removes them, and so do its copies and backups",
    ),
    RowStore(
        name="checkpoints",
        holds="open leaves, outliers that wait, reduced points, totals and pilots of all that was learned",
        taken_out="removed; what takes their place was never given the rows",
        remains="copies and backups made before this; a file system may keep removed bytes",
        files=lambda settings: (Files(settings.checkpoint.directory),),
    ),
    RowStore(
        name="audit samples",
        holds="a uniform sample of rows, whole",
        taken_out="gone with the checkpoints",
        part_of="checkpoints",
    ),
    RowStore(
        name="pending cuts",
        holds="the training set of a version that was not published yet",
        taken_out="gone with the checkpoints",
        part_of="checkpoints",
    ),
    RowStore(
        name="versions",
        holds="coefficients that follow from all rows; support vectors, which are rows",
        taken_out="named; those that are retired get a tombstone",
        remains="published versions stay what they are, and readers keep what they loaded; Kafka removes "
        "the bytes of a retired version when it compacts the topic",
        topics=lambda settings: (settings.output.models_topic,),
    ),
    RowStore(
        name="aliases and audit trail",
        holds="places of rows that were taken out: partition, offset, row; nothing of what stood there",
        taken_out="the places are written there",
        remains="the places, for ever: every start must know them",
        topics=lambda settings: (settings.output.aliases_topic, settings.output.audit_topic),
    ),
    RowStore(
        name="scores",
        holds="ids, fields that scoring.pass_fields passes on, and what fields add to a score",
        remains="scores of the rows, until retention removes them: scores are of other events, and nothing learns them",
        topics=lambda settings: (settings.scoring.output_topic,),
    ),
    RowStore(
        name="dead letters",
        holds="whole records that were rejected",
        remains="letters of the rows' records, until retention removes them: what was rejected was not learned",
        topics=_dead_letters,
    ),
    RowStore(
        name="logs",
        holds="places of rejected records; of a program of other people, anything",
        remains="logs of a trainer name no row's content, but other programs' may",
        given=True,
    ),
    RowStore(
        name="crash files",
        holds="memory of a process that crashed: anything",
        remains="core dumps and other files of crashes, which the options do not name",
        given=True,
    ),
    RowStore(
        name="exported models",
        holds="what versions hold",
        remains="ONNX files, exported models, estimators that were saved, and other files that were made before this",
        given=True,
    ),
)
"""The trunk's stores."""


def every_store() -> tuple[RowStore, ...]:
    """Return the trunk's stores, then those of the branches."""
    return (*OWN, *plugged(SOCKET, RowStore, DAEMONS))
