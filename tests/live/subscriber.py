"""The subscriber in a process of its own: `python -m tests.live.subscriber SERVERS MODELS_TOPIC NAME`.

It prints one line of JSON for each version that it serves. This module is a client under test, as the daemons are.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Connection
from streamsvm.registry import Loaded, ModelSubscriber


def main(servers: str, models: str, name: str) -> None:
    """Follow until killed; ends where it cannot start, to be started again."""

    def say(loaded: Loaded) -> None:
        print(json.dumps({"model": name, "number": loaded.version.number, "sha256": loaded.sha256}), flush=True)

    print(json.dumps({"joined": True}), flush=True)
    try:
        with ModelSubscriber(
            Connection(options={"bootstrap.servers": servers}), name, models_topic=models, callback=say
        ) as it:
            while True:
                time.sleep(1.0)
                _ = it.loaded  # raises what ended it
    except StreamsvmError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(*sys.argv[1:])
