"""What trainer and scorer do alike with topics: set up, reject records, settle transactions, look after readers."""
