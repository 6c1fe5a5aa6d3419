"""The contract: what a published version is, as every reader needs it; numpy and msgspec, and nothing that learns."""
