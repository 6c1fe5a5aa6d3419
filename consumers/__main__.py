"""`python -m consumers` is the command `streamsvm`."""

from consumers.cli.app import main

main()
