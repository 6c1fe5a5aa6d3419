"""Raw events as columns: what a recipe makes of an event, and what it refuses."""
