"""Raw events."""
