"""Checkpoints: their bytes (`format`), the directory that holds them, and the calls that durability hangs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.checkpoint import format as format
    from streamsvm.checkpoint.directory import CheckpointDirectory as CheckpointDirectory
    from streamsvm.checkpoint.disk import FileSystem as FileSystem
    from streamsvm.checkpoint.format import decode as decode, encode as encode
    from streamsvm.checkpoint.snapshot import Snapshot as Snapshot

__getattr__ = on_first_use(__name__, __file__)
