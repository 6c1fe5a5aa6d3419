"""What every daemon needs of the machine: a run until a signal, supervision, clocks, HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.host.clock import Clock as Clock
    from consumers.host.exit_codes import (
        EXIT_RETRYABLE as EXIT_RETRYABLE,
        EXIT_UNFORESEEN as EXIT_UNFORESEEN,
        exit_code as exit_code,
    )
    from consumers.host.memory_limit import container_limit as container_limit
    from consumers.host.runtime import (
        Health as Health,
        configure_logging as configure_logging,
        schemas_of as schemas_of,
        spare_the_collector as spare_the_collector,
    )
    from consumers.host.untrusted_text import json_for as json_for, printable as printable
    from consumers.host.web.access import Names as Names
    from consumers.host.web.answers import HttpAnswer as HttpAnswer
    from consumers.host.web.connections import HttpConnection as HttpConnection, Phase as Phase
    from consumers.host.web.head import HttpRequest as HttpRequest
    from consumers.host.web.server import HttpServer as HttpServer

__getattr__ = on_first_use(__name__, __file__)
