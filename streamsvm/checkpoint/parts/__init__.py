"""What a feature adds to a checkpoint: named parts, one module for each feature."""
