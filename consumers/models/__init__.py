"""What people do with published versions: list, compare and export them, name them, pin them, retire them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.models.catalogue import (
        holds_newest as holds_newest,
        read_catalogue as read_catalogue,
        read_names as read_names,
    )
    from consumers.models.moving import (
        Records as Records,
        RollBack as RollBack,
        perform as perform,
        pin as pin,
        retire as retire,
        set_alias as set_alias,
        unpin as unpin,
    )
    from consumers.models.show import describe as describe

__getattr__ = on_first_use(__name__, __file__)
