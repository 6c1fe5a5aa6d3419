"""What this room adds to the public names of the package; see `streamsvm.sockets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, Mapping[str, str]]] = {
    "estimators": {
        "STDASVC": "streamsvm.drop_in.stdasvc:STDASVC",
        "STDASVR": "streamsvm.drop_in.single:STDASVR",
        "STDALinearSVC": "streamsvm.drop_in.linear:STDALinearSVC",
        "STDALinearSVR": "streamsvm.drop_in.linear:STDALinearSVR",
        "STDAOneClassSVM": "streamsvm.drop_in.single:STDAOneClassSVM",
        "patch_sklearn": "streamsvm.drop_in.patching:patch_sklearn",
        "unpatch_sklearn": "streamsvm.drop_in.patching:unpatch_sklearn",
    },
}
