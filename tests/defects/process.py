"""A daemon with defects or disturbances in it: `python -m tests.defects.process NAME[+NAME] train ...`.

`read SERVERS TOPIC NAME` runs a subscriber; whatever else follows is a command line of `streamsvm`.
"""

from __future__ import annotations

import sys

from consumers.cli.app import main as command_line
from tests.constants import set_from
from tests.defects import TABLE


def main() -> None:
    """Plant what the first argument names, and run what the second one names with the others."""
    sys.argv = set_from(sys.argv)
    TABLE.plant(sys.argv.pop(1))
    if sys.argv[1] == "read":
        from tests.live.subscriber import main as subscribe

        subscribe(*sys.argv[2:])
        return
    command_line()


if __name__ == "__main__":
    main()
