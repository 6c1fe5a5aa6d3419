"""The command line: one program, a subcommand for each thing that a person does."""
