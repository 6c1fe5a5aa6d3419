"""The production solver: block descent with Newton steps, and an interior-point method."""
