"""What a valid point is."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from streamsvm.model.described import label_fault
from streamsvm.option_texts import split_at_commas
from streamsvm.sections import Section

Label = StrictBool | StrictInt | StrictStr
PointsFormat = Literal["auto", "json", "arrow", "avro", "json-schema", "protobuf"]
MOST_ENTRIES_FOR_A_BYTE: Final = 4
"""Features of a record's rows for each byte of `max_record_bytes`; a valid feature of a point takes a byte or more."""


class PointsConfig(Section):
    """What a valid point is. Other rows are rejected."""

    dimension: Annotated[int, Field(ge=1, le=100_000)] = Field(description="Number of features of every point.")
    labels: Annotated[tuple[Label, ...], BeforeValidator(split_at_commas)] = Field(
        default=(-1, 1),
        description="The labels as the records have them, 2 to 128 of one type. Of two, the second is positive.",
    )
    feature_names: Annotated[tuple[str, ...], BeforeValidator(split_at_commas)] = Field(
        default=(),
        description="Names of the features, for people and for readers.",
    )
    dtype: Literal["float32", "float64"] = Field(default="float32", description="How features are stored.")
    format: PointsFormat = Field(
        default="auto",
        description="Format of the records, of the scorer's too; json-schema and protobuf of events only. `auto`: as "
        "each record's header `content-type` says, else JSON.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="Most bytes of a record's value; a larger record becomes a dead letter.",
    )

    ROWS_PER_RECORD: ClassVar[int] = 10_000
    """Most rows in one record; with more it becomes a dead letter as a whole."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if fault := label_fault(self.labels):
            raise ValueError(f"points.labels {fault}")
        if self.feature_names and len(self.feature_names) != self.dimension:
            raise ValueError(
                f"points.feature_names has {len(self.feature_names)} names, but points.dimension is {self.dimension}"
            )
        return self

    @property
    def classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def numpy_dtype(self) -> np.dtype[np.floating]:
        """Storage dtype of the features."""
        return np.dtype(self.dtype)

    @property
    def most_rows(self) -> int:
        """Most rows of a record: also a rejected row has `dimension` entries in the array of features."""
        return min(self.ROWS_PER_RECORD, max(1, MOST_ENTRIES_FOR_A_BYTE * self.max_record_bytes // self.dimension))

    @property
    def point_bytes(self) -> int:
        """Bytes of memory per point: features, label, weight and place."""
        return self.dimension * self.numpy_dtype.itemsize + 33
