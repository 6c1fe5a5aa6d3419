"""The registry as readers meet it: which record is version N, who signed it, a model that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.registry import loading as loading, onnx_export as onnx_export
    from streamsvm.registry.aliases import Aliases as Aliases, aliases_in as aliases_in, read_aliases as read_aliases
    from streamsvm.registry.loading import (
        Loaded as Loaded,
        NoModel as NoModel,
        load_record as load_record,
        load_version as load_version,
        published_at as published_at,
    )
    from streamsvm.registry.onnx_export import export as export
    from streamsvm.registry.signing import Signer as Signer, TrustedKeys as TrustedKeys
    from streamsvm.registry.subscriber import ModelSubscriber as ModelSubscriber

__getattr__ = on_first_use(__name__, __file__)
