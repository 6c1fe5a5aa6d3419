"""History: an archive of what was learned, versions of stretches of it, and rows that are taken back."""
