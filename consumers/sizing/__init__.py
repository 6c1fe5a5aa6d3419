"""What a rate takes: cores, partitions, network, and what becomes too small first."""
