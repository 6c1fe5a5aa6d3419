"""The general readers by themselves: a decoder that tries no compiled one, and no way for many rows at once."""

from __future__ import annotations

from typing import Any, cast

from streamsvm.ingest.decoder import PointDecoder


class GeneralDecoder(PointDecoder):
    """Decodes record by record and row by row, as what is declined by every compiled reader is decoded."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        if self._other is not None:
            other = cast(Any, self._other)
            other._add_scanned = other._add_together = lambda *_: False

    def _scanned(self, *_: object) -> bool:
        return False

    _scanned_array = _singles = _scanned

    def _scanned_avro(self, run: Any, builder: Any) -> None:
        self._one_by_one("avro", run, builder)

    def _all_well(self, *_: object) -> None:
        return None


class CompiledDecoder(PointDecoder):
    """Takes from a compiled reader whatever it accepts, and counts what is left to a general one."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.parsed = 0
        super().__init__(*given, **options)
        if self._other is not None:
            other = cast(Any, self._other)
            other.few, sound = 0, other._add_parsed

            def parsed(*arguments: Any) -> None:
                self.parsed += 1
                sound(*arguments)

            other._add_parsed = parsed

    def _decode_record(self, *given: Any) -> None:
        self.parsed += 1
        super()._decode_record(*given)
