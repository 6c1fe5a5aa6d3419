"""Checkpoints: their bytes (`format`), the directory that holds them, and the calls that durability hangs on."""
