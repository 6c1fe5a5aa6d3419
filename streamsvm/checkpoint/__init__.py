"""Checkpoints: their bytes (`format`), the directory that holds them, and the calls that durability hangs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.checkpoint import format as format, forms as forms, records as records
    from streamsvm.checkpoint.directory import CheckpointDirectory as CheckpointDirectory
    from streamsvm.checkpoint.disk import FileSystem as FileSystem
    from streamsvm.checkpoint.format import decode as decode, encode as encode
    from streamsvm.checkpoint.forms import (
        Form as Form,
        OptionalPart as OptionalPart,
        PlacedArray as PlacedArray,
        PlacedLearned as PlacedLearned,
        StateReader as StateReader,
        StateWriter as StateWriter,
        parts_of as parts_of,
    )
    from streamsvm.checkpoint.framing import FORMAT as FORMAT
    from streamsvm.checkpoint.partition_codec import (
        PARTITION_PARTS as PARTITION_PARTS,
        PlacedScreen as PlacedScreen,
        PlacedScreened as PlacedScreened,
    )
    from streamsvm.checkpoint.records import (
        BUCKET as BUCKET,
        PARTITION as PARTITION,
        decode_bucket as decode_bucket,
        decode_partition as decode_partition,
        encode_bucket as encode_bucket,
        encode_partition as encode_partition,
    )
    from streamsvm.checkpoint.snapshot import Snapshot as Snapshot

__getattr__ = on_first_use(__name__, __file__)
