"""A subscriber that the tests run, of the reader in Python.

    python subscriber.py BOOTSTRAP MODELS_TOPIC NAME POINTS.json [OPTIONS.json]
prints a line of JSON for each version that it serves, with the decision values of the points.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from streamsvm.registry import Loaded, ModelSubscriber, TrustedKeys


def main(bootstrap: str, models: str, name: str, points_file: str, options_file: str = "") -> None:
    """Follow a model until the process is killed."""
    points = json.loads(Path(points_file).read_text())
    options: dict[str, Any] = json.loads(Path(options_file).read_text()) if options_file else {}
    refused = options.pop("refused", 0)
    trusted = options.pop("trusted", None)

    def serves(loaded: Loaded) -> None:
        decision = loaded.decision_function(points).tolist()
        print(json.dumps({"version": loaded.version.number, "sha256": loaded.sha256, "decision": decision}), flush=True)

    def check(loaded: Loaded) -> None:
        if loaded.version.number == refused:
            raise ValueError("not wanted here")

    def waits(why: str) -> None:
        print(f"waiting for {name}: {why}" if why else "nothing is missing", file=sys.stderr, flush=True)

    logging.basicConfig(level=logging.WARNING)
    following = ModelSubscriber(
        {"bootstrap.servers": bootstrap},
        name,
        models_topic=models,
        callback=serves,
        on_waiting=waits,
        check=check,
        trusted=TrustedKeys.of(Path(trusted)) if trusted else None,
        **options,
    )
    with following:
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
