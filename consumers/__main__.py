"""`python -m consumers` is the command `streamsvm`."""

from consumers.cli import main

main()
