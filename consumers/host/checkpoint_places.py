"""Where a trainer's checkpoints are: the configured directory, or where earlier versions put them by default.

They put those of every model into one directory, `./checkpoint`: a second model that was started beside it met the
first one's checkpoints.
"""

from __future__ import annotations

import structlog

from streamsvm.checkpoint.directory import model_of
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.config import Settings, default_directory

log = structlog.get_logger("streamsvm.trainer")


def with_old_checkpoint(settings: Settings) -> Settings:
    """Return the settings, with the directory that the default was before where only that has this model's checkpoint.

    Reads the newest checkpoint there, and only where the default directory is in force and holds none.
    """
    directory = settings.checkpoint.directory
    if directory != default_directory(settings.name) or model_of(FileSystem(directory)) is not None:
        return settings
    old = directory.parent
    if model_of(FileSystem(old)) != settings.name:
        return settings
    log.warning(
        "checkpoint_in_old_place",
        directory=str(old.absolute()),
        default=str(directory.absolute()),
        remedy="the trainer continues in the old directory. To move it, stop the trainer and move its "
        f"checkpoint-*.ssvm into {directory}",
    )
    return settings.model_copy(update={"checkpoint": settings.checkpoint.model_copy(update={"directory": old})})
