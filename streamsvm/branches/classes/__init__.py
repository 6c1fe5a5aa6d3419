"""Several labels share one screened leaf (`coreset.class_screening`)."""
